//! The division of a run's work: each rank's batches and weights, and what the ranks exchange.
//!
//! ```text
//! round:  each rank has computed one batch; of its pieces, it adds up all batches' gradients in
//!         their order
//! step:   norm, AdamW on the own pieces, then every rank receives all pieces
//! ```
//!
//! So no sum depends on the number of ranks, and moments and sums of gradients are held once, not
//! once a rank (ZeRO's stage 1). A process on its own owns all weights, and nothing is moved.

use std::ops::Range;
use std::sync::Arc;

use bytemuck::{Pod, cast_slice, cast_slice_mut};
use checkpoint::LazyTensor;
use ndarray::{ArrayD, ArrayView, CowArray, IxDyn};
use rayon::prelude::*;
use tensor_ops::Parameters;
use tensor_ops::engine::{OPTIMIZER_BLOCK, move_into_sum, sums_of_squares};

use crate::{Ranks, TrainError};

/// Elements of each rank's piece that travel at once.
const CHUNK: usize = 1 << 18;

/// The processes that train one model, and which weights are whose.
///
/// Each weight is cut into a piece for each rank, between the optimizer's blocks, so that a sum
/// over blocks is made of the same blocks for any number of ranks. A small weight leaves ranks with
/// nothing.
#[derive(Debug)]
pub(crate) struct Shares {
    ranks: Arc<dyn Ranks>,
    /// Elements of each weight.
    lengths: Vec<usize>,
}

impl Shares {
    pub(crate) fn new(ranks: Arc<dyn Ranks>, model: &impl Parameters) -> Self {
        let mut lengths = Vec::new();
        model.visit("", &mut |_, view| lengths.push(view.len()));
        Self { ranks, lengths }
    }

    /// True if there are no other processes.
    pub(crate) fn is_alone(&self) -> bool {
        self.ranks.size() == 1
    }

    /// Whether this process reports and saves: the first of the ranks.
    pub(crate) fn is_first(&self) -> bool {
        self.ranks.rank() == 0
    }

    /// The rank that computes the batch with this place in its step or evaluation.
    pub(crate) fn rank_of(&self, batch: u64) -> usize {
        (batch % self.ranks.size() as u64) as usize
    }

    /// True if that batch is this rank's.
    pub(crate) fn computes(&self, batch: u64) -> bool {
        self.rank_of(batch) == self.ranks.rank()
    }

    /// True at the end of a round, in which each rank has computed one of `batches`, or of the last
    /// ones as many as there are.
    pub(crate) fn ends_round(&self, batches: u64, of: u64) -> bool {
        batches == of || self.rank_of(batches) == 0
    }

    /// True on all ranks if it is on any.
    pub(crate) fn any(&self, yes: bool) -> bool {
        self.gather(&[u8::from(yes)]).contains(&1)
    }

    /// The numbers of all ranks, in their order; each has as many.
    pub(crate) fn gather<T: Pod>(&self, own: &[T]) -> Vec<T> {
        let mut all = vec![T::zeroed(); own.len() * self.ranks.size()];
        self.ranks
            .all_gather(cast_slice(own), cast_slice_mut(&mut all));
        all
    }

    /// An error of one rank that all of them know of, with that rank's number.
    pub(crate) fn on_rank(&self, rank: usize, error: TrainError) -> TrainError {
        match self.is_alone() {
            true => error,
            false => TrainError::OnRank {
                rank,
                source: Box::new(error),
            },
        }
    }

    /// A rank's piece of a weight of so many elements.
    fn piece(&self, length: usize, rank: usize) -> Range<usize> {
        let blocks = length.div_ceil(OPTIMIZER_BLOCK);
        let cut = |rank: usize| (blocks * rank / self.ranks.size() * OPTIMIZER_BLOCK).min(length);
        cut(rank)..cut(rank + 1)
    }

    /// The lengths of this rank's pieces, weight by weight.
    pub(crate) fn own_lengths(&self) -> Vec<usize> {
        let lengths = self.lengths.iter();
        let own = lengths.map(|&length| self.piece(length, self.ranks.rank()).len());
        own.collect()
    }

    /// This rank's pieces of all weights.
    pub(crate) fn own<'a>(&self, weights: &'a mut impl Parameters) -> Vec<&'a mut [f32]> {
        self.own_of(slices(weights))
    }

    fn own_of<'a>(&self, weights: Vec<&'a mut [f32]>) -> Vec<&'a mut [f32]> {
        let own = weights.into_iter().map(|values| {
            let piece = self.piece(values.len(), self.ranks.rank());
            &mut values[piece]
        });
        own.collect()
    }

    /// A copy of this rank's pieces, of as many numbers as there are in all weights.
    pub(crate) fn part(&self, numbers: &mut [f32]) -> Vec<f32> {
        self.own_of(split(numbers, &self.lengths)).concat()
    }

    /// The Euclidean norm of all weights' numbers, from each rank's pieces, with the bits of
    /// [`grad_norm`](crate::grad_norm).
    pub(crate) fn norm(&self, own: &[&mut [f32]]) -> f64 {
        // Each block of a weight is one rank's; the others have zeros there.
        let mut squares = Vec::new();
        for (&length, own) in self.lengths.iter().zip(own) {
            let blocks = squares.len()..squares.len() + length.div_ceil(OPTIMIZER_BLOCK);
            squares.resize(blocks.end, 0.0);
            let first = self.piece(length, self.ranks.rank()).start / OPTIMIZER_BLOCK;
            if !own.is_empty() {
                let sums = sums_of_squares(own);
                squares[blocks.start + first..][..sums.len()].copy_from_slice(&sums);
            }
        }
        let all = self.gather(&squares);
        let of_block = |block: usize| all[block..].iter().step_by(squares.len()).sum::<f64>();
        let (mut total, mut first) = (0.0, 0);
        for length in &self.lengths {
            let last = first + length.div_ceil(OPTIMIZER_BLOCK);
            total += (first..last).map(of_block).sum::<f64>();
            first = last;
        }
        total.sqrt()
    }

    /// Each rank's elements of a weight that travel at once, one window after the other.
    fn windows(&self, length: usize) -> impl Iterator<Item = Vec<Range<usize>>> {
        let ranks = 0..self.ranks.size();
        let pieces: Vec<Range<usize>> = ranks.map(|rank| self.piece(length, rank)).collect();
        let longest = pieces.iter().map(|piece| piece.len()).max().unwrap_or(0);
        (0..longest).step_by(CHUNK).map(move |start| {
            let of = |piece: &Range<usize>| {
                let first = (piece.start + start).min(piece.end);
                first..(first + CHUNK).min(piece.end)
            };
            pieces.iter().map(of).collect()
        })
    }

    /// Adds the gradients of `ranks`, in this order, to the sum of this rank's pieces, and leaves
    /// zeros; those of the `first` round begin the sum.
    pub(crate) fn add_gradients(
        &self,
        grads: &mut impl Parameters,
        sum: Vec<&mut [f32]>,
        ranks: &[usize],
        first: bool,
    ) {
        let mut send = vec![0.0f32; self.ranks.size() * CHUNK];
        let mut receive = send.clone();
        for (grads, mut sum) in slices(grads).into_iter().zip(sum) {
            for window in self.windows(grads.len()) {
                let most = window.iter().map(|window| window.len()).max().unwrap_or(0);
                for (window, out) in window.iter().zip(send.chunks_mut(most)) {
                    let grads = &mut grads[window.clone()];
                    copy(grads, &mut out[..window.len()]);
                    grads
                        .par_chunks_mut(OPTIMIZER_BLOCK)
                        .for_each(|g| g.fill(0.0));
                }
                let all = most * self.ranks.size();
                let (send, receive) = (&send[..all], &mut receive[..all]);
                self.ranks
                    .all_to_all(cast_slice(send), cast_slice_mut(receive));
                let n = window[self.ranks.rank()].len();
                let (here, rest) = sum.split_at_mut(n);
                sum = rest;
                for (i, &rank) in ranks.iter().enumerate() {
                    let theirs = &mut receive[rank * most..][..n];
                    match first && i == 0 {
                        true => copy(theirs, here),
                        false => move_into_sum(here, theirs),
                    }
                }
            }
        }
    }

    /// Gives every rank all pieces of the weights, each from the rank that owns it.
    pub(crate) fn spread(&self, model: &mut impl Parameters) {
        if self.is_alone() {
            return;
        }
        let mut all = vec![0.0f32; self.ranks.size() * CHUNK];
        for values in slices(model) {
            self.complete(values, &mut all);
        }
    }

    /// Gives this rank the other ranks' pieces of one weight; `all` has room for as much as travels
    /// at once.
    fn complete(&self, values: &mut [f32], all: &mut [f32]) {
        for window in self.windows(values.len()) {
            let most = window.iter().map(|window| window.len()).max().unwrap_or(0);
            let here = window[self.ranks.rank()].clone();
            let mut own = vec![0.0f32; most];
            copy(&values[here.clone()], &mut own[..here.len()]);
            let all = &mut all[..most * self.ranks.size()];
            let own = cast_slice(&own);
            self.ranks.all_gather(own, cast_slice_mut(all));
            for (window, theirs) in window.into_iter().zip(all.chunks(most)) {
                let n = window.len();
                copy(&theirs[..n], &mut values[window]);
            }
        }
    }

    /// All ranks' pieces as the tensors of a file: each is made of them when it is written, by all
    /// ranks [together](Self::exchange), which takes no more memory than the largest.
    pub(crate) fn tensors<'a>(
        &'a self,
        prefix: &str,
        model: &impl Parameters,
        own: &'a [f32],
    ) -> Vec<LazyTensor<'a>> {
        let mut tensors: Vec<LazyTensor<'a>> = Vec::new();
        let mut before = 0;
        model.visit(prefix, &mut |name, view| {
            let shape = view.raw_dim();
            let n = self.piece(view.len(), self.ranks.rank()).len();
            let own = &own[before..before + n];
            before += n;
            tensors.push(LazyTensor {
                name,
                shape: view.shape().to_vec(),
                numbers: Box::new(move || self.whole(own, shape.clone())),
            });
        });
        tensors
    }

    /// A weight's numbers of all ranks' pieces.
    fn whole<'a>(&self, own: &'a [f32], shape: IxDyn) -> CowArray<'a, f32, IxDyn> {
        if self.is_alone() {
            let whole = ArrayView::from_shape(shape, own);
            return whole.expect("a process on its own has all").into();
        }
        let mut whole = ArrayD::zeros(shape);
        let values = whole.as_slice_mut().expect("fresh arrays are row-major");
        let piece = self.piece(values.len(), self.ranks.rank());
        values[piece].copy_from_slice(own);
        self.complete(values, &mut vec![0.0; self.ranks.size() * CHUNK]);
        whole.into()
    }

    /// Does what this rank has to do while rank 0 writes the tensors to a file, which has them by
    /// name.
    pub(crate) fn exchange(&self, mut tensors: Vec<LazyTensor<'_>>) {
        tensors.sort_by(|one, other| one.name.cmp(&other.name));
        for tensor in tensors {
            (tensor.numbers)();
        }
    }
}

/// All weights' numbers, a slice for each.
pub(crate) fn slices<P: Parameters>(parameters: &mut P) -> Vec<&mut [f32]> {
    let views = parameters.named_parameters_mut().into_iter();
    let slices = views.map(|(_, view)| view.into_slice().expect("weights are row-major"));
    slices.collect()
}

/// Neighbouring slices of these lengths.
pub(crate) fn split<'a>(mut numbers: &'a mut [f32], lengths: &[usize]) -> Vec<&'a mut [f32]> {
    let slices = lengths.iter().map(|&n| {
        let (slice, rest) = std::mem::take(&mut numbers).split_at_mut(n);
        numbers = rest;
        slice
    });
    slices.collect()
}

/// `to = from`, on all threads.
fn copy(from: &[f32], to: &mut [f32]) {
    let blocks = to.par_chunks_mut(OPTIMIZER_BLOCK);
    blocks
        .zip(from.par_chunks(OPTIMIZER_BLOCK))
        .for_each(|(to, from)| to.copy_from_slice(from));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OneProcess;

    /// One of so many, for questions about pieces.
    #[derive(Debug)]
    struct Counted(usize);

    impl Ranks for Counted {
        fn rank(&self) -> usize {
            0
        }
        fn size(&self) -> usize {
            self.0
        }
        fn all_to_all(&self, _: &[u8], _: &mut [u8]) {}
        fn all_gather(&self, _: &[u8], _: &mut [u8]) {}
    }

    #[test]
    fn pieces_and_their_windows_are_the_weight_in_order_cut_between_blocks() {
        for (size, length) in [
            (1, 5),
            (3, 2 * OPTIMIZER_BLOCK),
            (2, 7 * OPTIMIZER_BLOCK + 1),
            (3, 100 * OPTIMIZER_BLOCK),
        ] {
            let ranks: Arc<dyn Ranks> = match size {
                1 => Arc::new(OneProcess),
                _ => Arc::new(Counted(size)),
            };
            let shares = Shares {
                ranks,
                lengths: vec![length],
            };
            let mut end = 0;
            for rank in 0..size {
                let piece = shares.piece(length, rank);
                assert_eq!((piece.start, piece.start % OPTIMIZER_BLOCK), (end, 0));
                let windows = shares.windows(length).map(|all| all[rank].clone());
                for window in windows.filter(|window| !window.is_empty()) {
                    assert_eq!(window.start, end);
                    end = window.end;
                }
                assert_eq!(piece.end, end);
            }
            assert_eq!(end, length);
        }
    }
}
