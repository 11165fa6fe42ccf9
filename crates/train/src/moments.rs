//! Gathers the optimizer's moments from all processes (ranks) that share a training run, so that
//! one of them can write all moments to a checkpoint.

use checkpoint::LazyTensor;
use ndarray::{ArrayD, IxDyn};
use tensor_ops::Parameters;
use tensor_ops::engine::row_major;

use crate::shards::{gather, own_part, part_length, piece_length};
use crate::{AdamW, Ranks};

/// Returns the moments of all weights as tensors that can be written to a file.
///
/// If several ranks share the run, the values of each tensor are gathered from the other ranks only
/// when the tensor is written to the file. At any time, at most one gathered tensor is therefore
/// held in memory. While one rank writes the file, all other ranks must pass their tensors to
/// [`exchange_moments`].
pub(crate) fn moments<'a>(
    ranks: &'a dyn Ranks,
    model: &impl Parameters,
    optimizer: &'a AdamW,
) -> Vec<LazyTensor<'a>> {
    if ranks.size() == 1 {
        let moments = optimizer.named_parameters().into_iter();
        return moments.map(LazyTensor::from).collect();
    }
    let mut tensors = Vec::new();
    for (moment, mut own) in [("m.", &optimizer.m[..]), ("v.", &optimizer.v[..])] {
        model.visit(moment, &mut |name, weight| {
            let shape = weight.raw_dim();
            let numbers = row_major(&name, weight.clone());
            let pieces = numbers.chunks(piece_length(ranks));
            let (here, rest) = own.split_at(pieces.map(|piece| own_part(ranks, piece).len()).sum());
            own = rest;
            tensors.push(LazyTensor {
                name,
                shape: weight.shape().to_vec(),
                numbers: Box::new(move || all_parts(ranks, here, shape.clone()).into()),
            });
        });
    }
    tensors
}

/// Gathers the first or the second moments of one weight from all ranks. `own` contains the moments
/// that are stored on this rank.
fn all_parts(ranks: &dyn Ranks, mut own: &[f32], shape: IxDyn) -> ArrayD<f32> {
    let mut all = ArrayD::zeros(shape);
    let numbers = all.as_slice_mut().expect("new arrays are row-major");
    for piece in numbers.chunks_mut(piece_length(ranks)) {
        let (here, rest) = own.split_at(own_part(ranks, piece).len());
        gather(ranks, here, part_length(ranks, piece), piece);
        own = rest;
    }
    all
}

/// Sends the moments of this rank to the rank that is writing them to a file. Both ranks must
/// process the tensors in the same order, so this function sorts them by name, as the writing rank
/// does.
pub(crate) fn exchange_moments(mut tensors: Vec<LazyTensor<'_>>) {
    tensors.sort_by(|one, other| one.name.cmp(&other.name));
    for tensor in tensors {
        (tensor.numbers)();
    }
}
