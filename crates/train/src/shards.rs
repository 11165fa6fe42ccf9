//! Divides the weights of a model among the processes (ranks) that share a training run, as in
//! stage 1 of ZeRO.
//!
//! Every rank stores a copy of all weights, but each weight is divided into parts, each of which is
//! owned by one rank. For the parts that it owns, a rank stores the sum of the gradients and the
//! optimizer's moments, and updates the weights.
//!
//! ```text
//! after each round:  Each rank has computed one batch. It sends the gradients of each part to the
//!                    owner of the part, which adds them in the order of the batches.
//! at each step:      All ranks compute the norm of the whole gradient. Each rank updates its part
//!                    of the weights, and then all ranks receive all parts.
//! when saving:       For one weight after the other, all ranks receive all parts of the moments.
//! ```
//!
//! To limit the memory that an exchange requires, a large weight is first divided into pieces. Each
//! piece is then divided into one part per rank. The optimizer and the computation of the gradient
//! norm operate on blocks of 16,384 elements. Because each part consists of whole blocks, the norm
//! is bit for bit the same for any number of ranks. For example, if there are two ranks, a weight
//! of 35 blocks is divided as follows. The first piece consists of 32 blocks, and each rank owns 16
//! of them. The second piece consists of the remaining 3 blocks. Rank 0 owns 2 of them, and rank 1
//! owns 1.
//!
//! If a weight has fewer blocks of 16,384 elements than there are ranks, some ranks don't own any
//! part of this weight. If the run isn't shared, its only process owns all weights and doesn't
//! exchange any data.

use bytemuck::{Pod, cast_slice, cast_slice_mut};
use tensor_ops::Parameters;
use tensor_ops::engine::{
    OPTIMIZER_BLOCK, move_into_sum, row_major, row_major_mut, sums_of_squares,
};

use crate::Ranks;

/// Returns the elements of all weights, as one slice for each weight.
pub(crate) fn slices<P: Parameters + ?Sized>(parameters: &mut P) -> Vec<&mut [f32]> {
    let views = parameters.named_parameters_mut().into_iter();
    let slices = views.map(|(name, view)| row_major_mut(&name, view));
    slices.collect()
}

/// Returns the number of elements in a piece. A large weight is exchanged between the ranks piece
/// by piece, which limits the memory that an exchange requires. The last piece of a weight may be
/// shorter.
pub(crate) fn piece_length(ranks: &dyn Ranks) -> usize {
    match ranks.size() {
        1 => usize::MAX,
        size => 16 * OPTIMIZER_BLOCK * size,
    }
}

/// Divides each weight into the pieces that the ranks exchange one at a time. Returns the pieces of
/// all weights in a single list, in the order of the weights.
fn pieces<'a>(ranks: &dyn Ranks, weights: Vec<&'a mut [f32]>) -> Vec<&'a mut [f32]> {
    let pieces = |weight: &'a mut [f32]| weight.chunks_mut(piece_length(ranks));
    weights.into_iter().flat_map(pieces).collect()
}

/// Returns the number of elements that each rank owns of a piece of a weight. The last ranks may
/// own fewer elements or none.
pub(crate) fn part_length(ranks: &dyn Ranks, piece: &[f32]) -> usize {
    let blocks = piece.len().div_ceil(OPTIMIZER_BLOCK);
    (blocks.div_ceil(ranks.size()) * OPTIMIZER_BLOCK).min(piece.len())
}

pub(crate) fn own_part<'a>(ranks: &dyn Ranks, piece: &'a [f32]) -> &'a [f32] {
    let mut parts = piece.chunks(part_length(ranks, piece));
    parts.nth(ranks.rank()).unwrap_or_default()
}

/// Returns the elements of the model's weights that this rank owns. The result contains one slice
/// for each piece of each weight. The slice is empty if this rank doesn't own any part of the
/// piece.
pub(crate) fn own_parts<'a>(ranks: &dyn Ranks, weights: Vec<&'a mut [f32]>) -> Vec<&'a mut [f32]> {
    let own = |piece: &'a mut [f32]| {
        let mut parts = piece.chunks_mut(part_length(ranks, piece));
        parts.nth(ranks.rank()).unwrap_or_default()
    };
    pieces(ranks, weights).into_iter().map(own).collect()
}

/// Sends the gradients that this rank has computed to the ranks that own the corresponding weights,
/// and receives gradients from all ranks for the weights that this rank owns. Adds the gradients of
/// the first `batches` ranks to `sums`, in the order of the ranks, and ignores the gradients of all
/// other ranks, because they haven't computed a batch in this round. Afterwards, all elements of
/// `grads` are 0.
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

/// Returns the Euclidean norm of a gradient whose parts are stored on different ranks. `own`
/// contains the parts of the gradient that this rank stores, and `model` provides the sizes of the
/// weights. The result is bit for bit the same as if [`grad_norm`](crate::grad_norm) were called
/// with the whole gradient.
pub(crate) fn norm_of_parts(ranks: &dyn Ranks, own: &[&mut [f32]], model: &impl Parameters) -> f64 {
    let (mut own, mut total) = (own.iter(), 0.0);
    model.visit("", &mut |name, weight| {
        let weight = row_major(&name, weight);
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

/// Sends the weights that this rank has updated to all other ranks, and receives the weights that
/// the other ranks have updated. Afterwards, all ranks have the same weights.
pub(crate) fn gather_weights(ranks: &dyn Ranks, model: &mut impl Parameters) {
    if ranks.size() == 1 {
        return;
    }
    for piece in pieces(ranks, slices(model)) {
        let (own, part) = (own_part(ranks, piece).to_vec(), part_length(ranks, piece));
        gather(ranks, &own, part, piece);
    }
}

/// Fills `all` with the contents of `own` from each rank, in the order of the ranks. Each rank
/// provides `part` elements, except that the last ranks may provide fewer or none.
pub(crate) fn gather<T: Pod>(ranks: &dyn Ranks, own: &[T], part: usize, all: &mut [T]) {
    let mut send = own.to_vec();
    send.resize(part, T::zeroed());
    let mut receive = vec![T::zeroed(); part * ranks.size()];
    ranks.all_gather(cast_slice(&send), cast_slice_mut(&mut receive));
    all.copy_from_slice(&receive[..all.len()]);
}
