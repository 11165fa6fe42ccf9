//! One rank's share of a step: gradients of its batches for all, sums and moments of its part of the weights for itself.
//!
//! ```text
//! round:  each rank has computed one batch; for its part, each rank adds up all batches' gradients in their order
//! step:   norm, AdamW on the own part, then every rank receives all parts
//! ```
//!
//! So no sum depends on the number of ranks, and moments and sums of gradients are held once, not once a rank (ZeRO's stage 1).

use std::fmt;
use std::sync::Arc;

use bytemuck::cast_slice;
use checkpoint::LazyTensor;
use gpt::GptModel;
use ndarray::{ArrayD, IxDyn};
use tensor_ops::{Parameters, adamw_update, move_into_sum, sums_of_squares};

use crate::parts::{self, Parts};
use crate::{AdamW, AdamWConfig, Ranks};

/// Elements of each part that travel at once.
const CHUNK: usize = 1 << 18;

/// The optimizer of a model that several ranks train, as far as it is this rank's.
pub(crate) struct Share {
    pub(crate) ranks: Arc<dyn Ranks>,
    parts: Parts,
    pub(crate) config: AdamWConfig,
    pub(crate) steps: u64,
    /// Moments, and the sum of the gradients so far, of this rank's part.
    m: Vec<f32>,
    v: Vec<f32>,
    sum: Vec<f32>,
    /// The first batch of the round, by its place in the step, and the loss of this rank's.
    round: u64,
    loss: f32,
}

/// Without the moments and the sum.
impl fmt::Debug for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Share")
            .field("config", &self.config)
            .field("steps", &self.steps)
            .finish_non_exhaustive()
    }
}

impl Share {
    /// This rank's part of `optimizer` and, after `micro_step` batches of a step, of `grads`, which becomes zero.
    pub(crate) fn new(
        ranks: Arc<dyn Ranks>,
        mut optimizer: AdamW,
        grads: &mut GptModel,
        micro_step: u64,
    ) -> Self {
        let mut lengths = Vec::new();
        grads.visit("", &mut |_, view| lengths.push(view.len()));
        let parts = Parts::new(&lengths, ranks.size());
        let rank = ranks.rank();
        let part_of = |model: &mut GptModel| {
            let mut part = vec![0.0; parts.len(rank)];
            // Moments of zero have never been in memory, and are not touched here.
            parts::read(&mut model.named_parameters_mut(), parts.of(rank), &mut part);
            part
        };
        let (m, v, sum) = (
            part_of(&mut optimizer.m),
            part_of(&mut optimizer.v),
            part_of(grads),
        );
        if micro_step > 0 {
            grads.fill_zero();
        }
        Self {
            config: optimizer.config,
            steps: optimizer.steps,
            m,
            v,
            sum,
            parts,
            ranks,
            round: micro_step,
            loss: 0.0,
        }
    }

    /// Whether the batch with this place in its step is this rank's.
    pub(crate) fn computes(&self, micro_step: u64) -> bool {
        micro_step % self.ranks.size() as u64 == self.ranks.rank() as u64
    }

    /// Whether any rank says yes.
    pub(crate) fn any(&self, yes: bool) -> bool {
        let mut all = vec![0; self.ranks.size()];
        self.ranks.all_gather(&[u8::from(yes)], &mut all);
        all.contains(&1)
    }

    /// After a batch, of which this rank has the loss if it was its own: at the end of a round adds its gradients up and returns the ranks' losses in the order of the batches.
    pub(crate) fn batch_done(
        &mut self,
        loss: Option<f32>,
        (batches, accumulation): (u64, u64),
        grads: &mut GptModel,
    ) -> Vec<(usize, f32)> {
        self.loss = loss.unwrap_or(self.loss);
        let size = self.ranks.size();
        if !batches.is_multiple_of(size as u64) && batches != accumulation {
            return Vec::new();
        }
        let ranks = (self.round..batches).map(|batch| (batch % size as u64) as usize);
        let ranks: Vec<usize> = ranks.collect();
        let first = self.round == 0;
        self.round = batches % accumulation;
        let losses = self.gather(&[self.loss]);
        self.add(grads, &ranks, first);
        ranks.into_iter().map(|rank| (rank, losses[rank])).collect()
    }

    /// The next round begins a step, whose first gradients replace the sum.
    pub(crate) fn give_up_step(&mut self) {
        self.round = 0;
    }

    /// Adds the gradients of `ranks`, in this order, to the sum of this rank's part; those of the `first` round begin it.
    fn add(&mut self, grads: &mut GptModel, ranks: &[usize], first: bool) {
        let (size, longest) = (self.ranks.size(), self.parts.longest());
        let chunk = longest.min(CHUNK);
        let (mut send, mut receive) = (vec![0.0; size * chunk], vec![0.0; size * chunk]);
        let mut grads = grads.named_parameters_mut();
        for start in (0..longest).step_by(chunk) {
            for (rank, out) in send.chunks_mut(chunk).enumerate() {
                let pieces = self.parts.window(rank, start..start + chunk);
                parts::take(&mut grads, &pieces, out);
            }
            self.ranks.all_to_all(
                cast_slice(&send),
                bytemuck::cast_slice_mut::<f32, u8>(&mut receive),
            );
            let Some(sum) = self.sum.get_mut(start..) else {
                continue;
            };
            let n = sum.len().min(chunk);
            for (i, &rank) in ranks.iter().enumerate() {
                let theirs = &mut receive[rank * chunk..][..n];
                match first && i == 0 {
                    true => sum[..n].copy_from_slice(theirs),
                    false => move_into_sum(&mut sum[..n], theirs),
                }
            }
        }
    }

    /// The Euclidean norm of the summed gradients, from the sums and in the order of `grad_norm`.
    pub(crate) fn grad_norm(&self) -> f64 {
        let size = self.ranks.size();
        let blocks = |rank| -> usize { self.parts.of(rank).iter().map(|p| p.blocks()).sum() };
        let most = (0..size).map(blocks).max().unwrap_or(0);
        let mut own = Vec::with_capacity(most);
        let mut rest = &self.sum[..];
        for piece in self.parts.of(self.ranks.rank()) {
            let (values, after) = rest.split_at(piece.elements.len());
            own.extend(sums_of_squares(values));
            rest = after;
        }
        own.resize(most, 0.0);
        let all = self.gather(&own);
        let mut sums: Vec<Vec<f64>> = Vec::new(); // of each weight, its blocks'
        for rank in 0..size {
            let mut at = rank * most;
            for piece in self.parts.of(rank) {
                sums.resize(sums.len().max(piece.weight + 1), Vec::new());
                sums[piece.weight].extend(&all[at..at + piece.blocks()]);
                at += piece.blocks();
            }
        }
        let mut total = 0.0;
        for blocks in sums {
            total += blocks.iter().sum::<f64>();
        }
        f64::sqrt(total)
    }

    /// AdamW's step on this rank's part, and the others' parts from them.
    pub(crate) fn step(&mut self, model: &mut GptModel, lr: f64, grad_scale: f32) {
        self.steps += 1;
        let step = self.config.step(self.steps, lr, grad_scale);
        let rank = self.ranks.rank();
        let mut weights = model.named_parameters_mut();
        let (mut sum, mut m, mut v) = (&mut self.sum[..], &mut self.m[..], &mut self.v[..]);
        for piece in self.parts.of(rank) {
            let values = parts::elements_mut(&mut weights, piece);
            let n = values.len();
            let [(sum_here, sum_rest), (m_here, m_rest), (v_here, v_rest)] =
                [sum, m, v].map(|part| part.split_at_mut(n));
            adamw_update(values, sum_here, m_here, v_here, &step);
            (sum, m, v) = (sum_rest, m_rest, v_rest);
        }
        drop(weights);
        self.collect(model);
    }

    /// All ranks' moments as the tensors of a file, for rank 0: it receives each when that is written, which takes no more memory than the largest.
    ///
    /// The other ranks [send](Self::send_moments) them meanwhile.
    pub(crate) fn tensors<'a>(&'a self, model: &GptModel) -> Vec<LazyTensor<'a>> {
        let mut tensors = Vec::new();
        for (prefix, part) in [("m.", &self.m), ("v.", &self.v)] {
            let mut weight = 0;
            model.visit(prefix, &mut |name, view| {
                let (shape, at) = (view.raw_dim(), weight);
                weight += 1;
                tensors.push(LazyTensor {
                    name,
                    shape: view.shape().to_vec(),
                    numbers: Box::new(move || self.receive(part, at, shape.clone()).into()),
                });
            });
        }
        tensors
    }

    /// A weight's numbers of all ranks' parts.
    fn receive(&self, part: &[f32], weight: usize, shape: IxDyn) -> ArrayD<f32> {
        let mut whole = ArrayD::zeros(shape);
        let values = whole.as_slice_mut().expect("fresh arrays are row-major");
        for rank in 0..self.ranks.size() {
            let Some((elements, own)) = self.parts.piece(rank, weight) else {
                continue;
            };
            let values = &mut values[elements];
            if rank == self.ranks.rank() {
                values.copy_from_slice(&part[own]);
                continue;
            }
            for chunk in values.chunks_mut(CHUNK) {
                self.ranks.receive(rank, bytemuck::cast_slice_mut(chunk));
            }
        }
        whole
    }

    /// Sends rank 0 this rank's part of the moments, in the order of the names in a file.
    pub(crate) fn send_moments(&self, model: &GptModel) {
        let names = model.named_parameters().into_iter().map(|(name, _)| name);
        let mut names: Vec<(String, usize)> = names.zip(0..).collect();
        names.sort();
        for part in [&self.m, &self.v] {
            for &(_, weight) in &names {
                let piece = self.parts.piece(self.ranks.rank(), weight);
                let own = piece.map_or(0..0, |(_, own)| own);
                for chunk in part[own].chunks(CHUNK) {
                    self.ranks.send_to_first(cast_slice(chunk));
                }
            }
        }
    }

    /// Puts all ranks' parts of the weights together.
    fn collect(&self, model: &mut GptModel) {
        let (size, longest) = (self.ranks.size(), self.parts.longest());
        let mut weights = model.named_parameters_mut();
        let chunk = longest.min(CHUNK);
        let (mut own, mut all) = (vec![0.0f32; chunk], vec![0.0f32; size * chunk]);
        for start in (0..longest).step_by(chunk) {
            let window = |rank| self.parts.window(rank, start..start + chunk);
            parts::read(&mut weights, &window(self.ranks.rank()), &mut own);
            self.ranks
                .all_gather(cast_slice(&own), bytemuck::cast_slice_mut(&mut all));
            for (rank, values) in all.chunks(chunk).enumerate() {
                parts::write(&mut weights, &window(rank), values);
            }
        }
    }

    /// As many numbers of each rank, in their order.
    pub(crate) fn gather<T: bytemuck::Pod>(&self, own: &[T]) -> Vec<T> {
        let mut all = vec![T::zeroed(); own.len() * self.ranks.size()];
        self.ranks
            .all_gather(cast_slice(own), bytemuck::cast_slice_mut(&mut all));
        all
    }
}
