//! The part of all weights that each rank owns: it alone has the sum of their gradients and their
//! moments, and takes the optimizer's step on them (ZeRO's stage 1).
//!
//! ```text
//! round:  each rank has computed one batch; of its part, it adds up all batches in their order
//! step:   the norm of all parts, AdamW on the own part, then all ranks get all parts
//! save:   weight by weight, all ranks get all parts of the moments
//! ```
//!
//! A weight is exchanged piece by piece, and each piece cut into a part for each rank, between the
//! optimizer's blocks: a norm is made of the same sums for any number of ranks. A small weight
//! leaves ranks with nothing. A process on its own owns all, and nothing is moved.

use bytemuck::{Pod, cast_slice, cast_slice_mut};
use tensor_ops::Parameters;
use tensor_ops::engine::{OPTIMIZER_BLOCK, move_into_sum, sums_of_squares};

use crate::Ranks;

/// All weights' numbers, a slice for each.
pub(crate) fn slices<P: Parameters + ?Sized>(parameters: &mut P) -> Vec<&mut [f32]> {
    let views = parameters.named_parameters_mut().into_iter();
    let slices = views.map(|(_, view)| view.into_slice().expect("weights are row-major"));
    slices.collect()
}

/// The length of a piece, but of the last one of a weight.
pub(crate) fn piece_length(ranks: &dyn Ranks) -> usize {
    match ranks.size() {
        1 => usize::MAX,
        size => 16 * OPTIMIZER_BLOCK * size,
    }
}

/// These weights cut into pieces, in order.
fn pieces<'a>(ranks: &dyn Ranks, weights: Vec<&'a mut [f32]>) -> Vec<&'a mut [f32]> {
    let pieces = |weight: &'a mut [f32]| weight.chunks_mut(piece_length(ranks));
    weights.into_iter().flat_map(pieces).collect()
}

/// The length of the parts of a piece; the last ones may be shorter, or empty.
pub(crate) fn part_length(ranks: &dyn Ranks, piece: &[f32]) -> usize {
    let blocks = piece.len().div_ceil(OPTIMIZER_BLOCK);
    (blocks.div_ceil(ranks.size()) * OPTIMIZER_BLOCK).min(piece.len())
}

pub(crate) fn own_part<'a>(ranks: &dyn Ranks, piece: &'a [f32]) -> &'a [f32] {
    let mut parts = piece.chunks(part_length(ranks, piece));
    parts.nth(ranks.rank()).unwrap_or_default()
}

/// This rank's parts of these weights, one for each piece.
pub(crate) fn own_parts<'a>(ranks: &dyn Ranks, weights: Vec<&'a mut [f32]>) -> Vec<&'a mut [f32]> {
    let own = |piece: &'a mut [f32]| {
        let mut parts = piece.chunks_mut(part_length(ranks, piece));
        parts.nth(ranks.rank()).unwrap_or_default()
    };
    pieces(ranks, weights).into_iter().map(own).collect()
}

/// Adds the gradients of the first so many ranks, in the ranks' order, to the sums of this rank's
/// parts, and leaves zeros.
pub(crate) fn add_round(
    ranks: &dyn Ranks,
    batches: usize,
    grads: &mut impl Parameters,
    sums: &mut [Vec<f32>],
) {
    let (mut send, mut receive) = (Vec::new(), Vec::new());
    for (piece, sum) in pieces(ranks, slices(grads)).into_iter().zip(sums) {
        let part = part_length(ranks, piece);
        send.clear();
        send.extend_from_slice(piece);
        send.resize(part * ranks.size(), 0.0);
        receive.resize(send.len(), 0.0);
        piece.fill(0.0);
        ranks.all_to_all(cast_slice(&send), cast_slice_mut(&mut receive));
        for theirs in receive.chunks_mut(part).take(batches) {
            let n = sum.len();
            move_into_sum(sum, &mut theirs[..n]);
        }
    }
}

/// Returns the Euclidean norm of numbers as many as the model's weights, of which `own` are this
/// rank's parts, with the same bits as [`grad_norm`](crate::grad_norm).
pub(crate) fn norm_of_parts(ranks: &dyn Ranks, own: &[&mut [f32]], model: &impl Parameters) -> f64 {
    let (mut own, mut total) = (own.iter(), 0.0);
    model.visit("", &mut |_, weight| {
        let weight = weight.to_slice().expect("weights are row-major");
        let mut of_blocks = Vec::new();
        for (piece, own) in weight.chunks(piece_length(ranks)).zip(&mut own) {
            let mut squares = vec![0.0; piece.len().div_ceil(OPTIMIZER_BLOCK)];
            let part = part_length(ranks, piece).div_ceil(OPTIMIZER_BLOCK);
            gather(ranks, &sums_of_squares(own), part, &mut squares);
            of_blocks.extend(squares);
        }
        total += of_blocks.iter().sum::<f64>();
    });
    total.sqrt()
}

/// Gives every rank the other ranks' parts of the weights.
pub(crate) fn gather_weights(ranks: &dyn Ranks, model: &mut impl Parameters) {
    if ranks.size() == 1 {
        return;
    }
    for piece in pieces(ranks, slices(model)) {
        let (own, part) = (own_part(ranks, piece).to_vec(), part_length(ranks, piece));
        gather(ranks, &own, part, piece);
    }
}

/// Fills `all` with the ranks' parts, each of so many numbers but the last ones.
pub(crate) fn gather<T: Pod>(ranks: &dyn Ranks, own: &[T], part: usize, all: &mut [T]) {
    let mut send = own.to_vec();
    send.resize(part, T::zeroed());
    let mut receive = vec![T::zeroed(); part * ranks.size()];
    ranks.all_gather(cast_slice(&send), cast_slice_mut(&mut receive));
    all.copy_from_slice(&receive[..all.len()]);
}
