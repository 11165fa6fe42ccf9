//! Which rank owns which weights: a contiguous part of all of them, of nearly the same size.
//!
//! Parts are cut between the optimizer's blocks, so that a sum over blocks is made of the same blocks for any number of ranks.

use std::ops::Range;

use ndarray::ArrayViewMutD;
use rayon::prelude::*;
use tensor_ops::OPTIMIZER_BLOCK;

/// Neighbouring blocks of one weight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// The weight, by its place among all.
    pub(crate) weight: usize,
    /// Of its elements, row-major.
    pub(crate) elements: Range<usize>,
}

impl Piece {
    pub(crate) fn blocks(&self) -> usize {
        self.elements.len().div_ceil(OPTIMIZER_BLOCK)
    }
}

/// The parts of all ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Parts(Vec<Vec<Piece>>);

impl Parts {
    /// For weights of `lengths` elements; a small model may leave ranks with nothing.
    pub(crate) fn new(lengths: &[usize], ranks: usize) -> Self {
        let total: usize = lengths.iter().sum();
        let mut parts: Vec<Vec<Piece>> = vec![Vec::new(); ranks];
        let mut before = 0;
        for (weight, &length) in lengths.iter().enumerate() {
            for first in (0..length).step_by(OPTIMIZER_BLOCK) {
                let last = (first + OPTIMIZER_BLOCK).min(length);
                let part = &mut parts[(before + first) * ranks / total];
                match part.last_mut() {
                    Some(piece) if piece.weight == weight => piece.elements.end = last,
                    _ => part.push(Piece {
                        weight,
                        elements: first..last,
                    }),
                }
            }
            before += length;
        }
        Self(parts)
    }

    /// The part of one rank.
    pub(crate) fn of(&self, rank: usize) -> &[Piece] {
        &self.0[rank]
    }

    /// Elements of a rank's part.
    pub(crate) fn len(&self, rank: usize) -> usize {
        self.of(rank).iter().map(|piece| piece.elements.len()).sum()
    }

    /// A rank's piece of a weight, and where that stands in its part.
    pub(crate) fn piece(&self, rank: usize, weight: usize) -> Option<(Range<usize>, Range<usize>)> {
        let mut before = 0;
        for piece in self.of(rank) {
            let n = piece.elements.len();
            if piece.weight == weight {
                return Some((piece.elements.clone(), before..before + n));
            }
            before += n;
        }
        None
    }

    /// Elements of the largest part.
    pub(crate) fn longest(&self) -> usize {
        let lengths = (0..self.0.len()).map(|rank| self.len(rank));
        lengths.max().unwrap_or(0)
    }

    /// The pieces that hold the elements `window` of a rank's part.
    pub(crate) fn window(&self, rank: usize, window: Range<usize>) -> Vec<Piece> {
        let mut pieces = Vec::new();
        let mut before = 0;
        for Piece { weight, elements } in self.of(rank) {
            let first = window.start.max(before);
            let last = window.end.min(before + elements.len());
            if first < last {
                let shift = elements.start;
                pieces.push(Piece {
                    weight: *weight,
                    elements: shift + first - before..shift + last - before,
                });
            }
            before += elements.len();
        }
        pieces
    }
}

/// Copies pieces of `weights` to the front of `out`.
pub(crate) fn read(
    weights: &mut [(String, ArrayViewMutD<'_, f32>)],
    pieces: &[Piece],
    out: &mut [f32],
) {
    let mut at = 0;
    for piece in pieces {
        let values = elements_mut(weights, piece);
        copy(values, &mut out[at..at + values.len()]);
        at += values.len();
    }
}

/// Moves pieces of `weights` to the front of `out`: zeros stay behind.
pub(crate) fn take(
    weights: &mut [(String, ArrayViewMutD<'_, f32>)],
    pieces: &[Piece],
    out: &mut [f32],
) {
    read(weights, pieces, out);
    for piece in pieces {
        let blocks = elements_mut(weights, piece).par_chunks_mut(OPTIMIZER_BLOCK);
        blocks.for_each(|block| block.fill(0.0));
    }
}

/// Copies the front of `values` to pieces of `weights`.
pub(crate) fn write(
    weights: &mut [(String, ArrayViewMutD<'_, f32>)],
    pieces: &[Piece],
    values: &[f32],
) {
    let mut at = 0;
    for piece in pieces {
        let place = elements_mut(weights, piece);
        copy(&values[at..at + place.len()], place);
        at += place.len();
    }
}

/// `to = from`, on all threads.
fn copy(from: &[f32], to: &mut [f32]) {
    to.par_chunks_mut(OPTIMIZER_BLOCK)
        .zip(from.par_chunks(OPTIMIZER_BLOCK))
        .for_each(|(to, from)| to.copy_from_slice(from));
}

/// A piece of `weights`.
pub(crate) fn elements_mut<'a>(
    weights: &'a mut [(String, ArrayViewMutD<'_, f32>)],
    piece: &Piece,
) -> &'a mut [f32] {
    let values = weights[piece.weight].1.as_slice_mut();
    &mut values.expect("weights are row-major")[piece.elements.clone()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn parts_are_all_weights_in_order_cut_between_blocks(
            lengths in proptest::collection::vec(1..5 * OPTIMIZER_BLOCK, 1..6),
            ranks in 1usize..6,
        ) {
            let parts = Parts::new(&lengths, ranks);
            let mut all = vec![0; lengths.len()];
            for piece in parts.0.iter().flatten() {
                prop_assert_eq!(piece.elements.start, all[piece.weight]);
                prop_assert_eq!(piece.elements.start % OPTIMIZER_BLOCK, 0);
                all[piece.weight] = piece.elements.end;
            }
            prop_assert_eq!(&all, &lengths);
            let fair = lengths.iter().sum::<usize>() / ranks;
            prop_assert!(parts.longest() <= fair + 1 + OPTIMIZER_BLOCK);
        }

        #[test]
        fn windows_are_the_part_in_order(
            lengths in proptest::collection::vec(1..3 * OPTIMIZER_BLOCK, 1..6),
            width in 1..2 * OPTIMIZER_BLOCK,
        ) {
            let parts = Parts::new(&lengths, 2);
            let elements = |pieces: &[Piece]| -> Vec<(usize, usize)> {
                let each = pieces.iter().flat_map(|piece| {
                    piece.elements.clone().map(move |element| (piece.weight, element))
                });
                each.collect()
            };
            let windows: Vec<_> = (0..parts.len(1))
                .step_by(width)
                .flat_map(|first| elements(&parts.window(1, first..first + width)))
                .collect();
            prop_assert_eq!(windows, elements(parts.of(1)));
        }
    }
}
