//! Gathers the optimizer's moments of a shared run from all ranks, so that they can be written to a
//! checkpoint.

use checkpoint::LazyTensor;
use ndarray::{ArrayD, IxDyn};
use tensor_ops::Parameters;
use tensor_ops::engine::row_major;

use crate::shards::{gather, own_part, part_length, piece_length};
use crate::{AdamW, Ranks};

/// Returns the moments of all ranks as tensors that can be written to a file.
///
/// The moments of a weight are gathered from the other ranks only when they are written to the
/// file. They therefore never take more memory than the largest weight. While one rank writes the
/// file, all others must pass their tensors to [`exchange_moments`].
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

/// Gathers the first or the second moments of one weight from all ranks. `own` contains the parts
/// that this rank owns.
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

/// Takes part in gathering the moments while another rank writes them to a file. Like the writer,
/// this function goes through the tensors in the order of their names.
pub(crate) fn exchange_moments(mut tensors: Vec<LazyTensor<'_>>) {
    tensors.sort_by(|one, other| one.name.cmp(&other.name));
    for tensor in tensors {
        (tensor.numbers)();
    }
}
