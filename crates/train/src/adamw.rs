//! AdamW as `torch.optim.AdamW`: decoupled weight decay of every weight, bias-corrected moments
//! (book section 5.2).
//!
//! The arithmetic is `tensor_ops::adamw_update`'s; there are no groups of weights and no amsgrad.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use tensor_ops::{AdamWStep, Parameters, adamw_update, awake, zeros};

use crate::TrainError;
use crate::shares::{slices, split};

/// AdamW's settings.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AdamWConfig {
    /// Learning rate; in a [`TrainConfig`](crate::TrainConfig) with a schedule, its peak.
    pub lr: f64,
    /// How slowly the two moments change.
    pub betas: (f64, f64),
    /// Added to the denominator.
    pub eps: f64,
    /// What each step takes off every weight, times the learning rate.
    pub weight_decay: f64,
}

impl Default for AdamWConfig {
    /// The book's: learning rate 0.0004, weight decay 0.1, the rest PyTorch's defaults.
    fn default() -> Self {
        Self {
            lr: 4e-4,
            betas: (0.9, 0.999),
            eps: 1e-8,
            weight_decay: 0.1,
        }
    }
}

impl AdamWConfig {
    /// The numbers of step `steps`, counted from 1.
    fn step(&self, steps: u64, grad_scale: f32) -> AdamWStep {
        let Self {
            lr,
            betas: (beta1, beta2),
            eps,
            weight_decay,
        } = *self;
        let t = steps as f64;
        AdamWStep {
            keep: (1.0 - lr * weight_decay) as f32,
            step_size: (lr / (1.0 - beta1.powf(t))) as f32,
            one_minus_beta1: (1.0 - beta1) as f32,
            beta2: beta2 as f32,
            one_minus_beta2: (1.0 - beta2) as f32,
            sqrt_bias_correction2: (1.0 - beta2.powf(t)).sqrt() as f32,
            eps: eps as f32,
            grad_scale,
        }
    }

    pub(crate) fn validate(&self) -> Result<(), TrainError> {
        TrainError::check_not_negative("lr", self.lr)?;
        TrainError::check_not_negative("eps", self.eps)?;
        TrainError::check_not_negative("weight_decay", self.weight_decay)?;
        for (name, value) in [("betas.0", self.betas.0), ("betas.1", self.betas.1)] {
            if !(0.0..1.0).contains(&value) {
                return Err(TrainError::config(name, value, "at least 0 and below 1"));
            }
        }
        Ok(())
    }
}

/// The optimizer of one module: anything that lists its weights, a model or a layer of it.
///
/// ```
/// use train::{AdamW, AdamWConfig, Parameters};
/// use train::gpt::{TransformerBlock, GptConfig};
/// use train::torch_rng::TorchRng;
///
/// let config = GptConfig { emb_dim: 8, n_heads: 2, ..GptConfig::GPT2_124M };
/// let mut block = TransformerBlock::new(config, &mut TorchRng::manual_seed(123))?;
/// let mut grads = TransformerBlock::zeros(config)?; // its backward pass adds to these
/// let mut optimizer = AdamW::new(AdamWConfig { lr: 1e-3, ..AdamWConfig::default() }, &block)?;
///
/// grads.norm1.scale.fill(0.5);
/// optimizer.step(&mut block, &mut grads); // and grads.fill_zero()
/// assert_eq!(train::grad_norm(&grads), 0.0);
/// optimizer.config.lr = 5e-4; // what a schedule does
/// assert!(block.norm1.scale[0] < 1.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct AdamW {
    /// Its settings; a schedule changes `lr` between two steps.
    pub config: AdamWConfig,
    /// Steps taken.
    pub steps: u64,
    /// First moments, weight after weight; of a [`Trainer`](crate::Trainer) among ranks, its part.
    pub(crate) m: Vec<f32>,
    /// Second moments.
    pub(crate) v: Vec<f32>,
}

impl AdamW {
    /// An optimizer of these weights, with moments of zero.
    ///
    /// # Errors
    /// If a setting is outside its range.
    pub fn new(config: AdamWConfig, parameters: &impl Parameters) -> Result<Self, TrainError> {
        config.validate()?;
        let n = parameters.num_parameters();
        Ok(Self {
            config,
            steps: 0,
            m: zeros(n),
            v: zeros(n),
        })
    }

    /// One step at the learning rate `config.lr`.
    ///
    /// The gradients are zero afterwards: `optimizer.step()` and `optimizer.zero_grad()` in one
    /// pass over the memory.
    ///
    /// # Panics
    /// If weights, gradients and moments are not as many.
    pub fn step<P: Parameters>(&mut self, parameters: &mut P, grads: &mut P) {
        self.update(slices(parameters), slices(grads), 1.0);
    }

    /// As [`step`](Self::step), with each gradient first multiplied by `grad_scale` (1, or what
    /// clipping leaves).
    pub(crate) fn update(
        &mut self,
        weights: Vec<&mut [f32]>,
        grads: Vec<&mut [f32]>,
        grad_scale: f32,
    ) {
        let lengths = |slices: &[&mut [f32]]| slices.iter().map(|s| s.len()).collect::<Vec<_>>();
        let (ours, theirs) = (lengths(&weights), lengths(&grads));
        assert!(
            ours == theirs && ours.iter().sum::<usize>() == self.m.len(),
            "AdamW: weights of {ours:?} numbers, gradients of {theirs:?}, {} moments",
            self.m.len()
        );
        self.steps += 1;
        let step = self.config.step(self.steps, grad_scale);
        let (m, v) = (split(&mut self.m, &ours), split(&mut self.v, &ours));
        awake(|| {
            (weights, grads, m, v)
                .into_par_iter()
                .for_each(|(p, grad, m, v)| adamw_update(p, grad, m, v, &step));
        });
    }
}
