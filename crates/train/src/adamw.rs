//! AdamW as `torch.optim.AdamW`: decoupled weight decay of every weight, bias-corrected moments (book section 5.2).
//!
//! The moments are values of the model's own struct. The arithmetic is `tensor_ops::adamw_update`'s; there are no groups of weights and no amsgrad.

use checkpoint::LazyTensor;
use gpt::{GptConfig, GptModel};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use tensor_ops::{AdamWStep, Parameters, adamw_update, awake};

use crate::TrainError;

/// AdamW's settings.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AdamWConfig {
    /// Learning rate; with a schedule, its peak.
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
    pub(crate) fn step(&self, steps: u64, lr: f64, grad_scale: f32) -> AdamWStep {
        let Self {
            betas: (beta1, beta2),
            eps,
            weight_decay,
            ..
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
        for (name, value) in [
            ("lr", self.lr),
            ("eps", self.eps),
            ("weight_decay", self.weight_decay),
        ] {
            if !(value >= 0.0 && value.is_finite()) {
                return Err(TrainError::config(
                    name,
                    value,
                    "a finite number of at least 0",
                ));
            }
        }
        for (name, value) in [("betas.0", self.betas.0), ("betas.1", self.betas.1)] {
            if !(0.0..1.0).contains(&value) {
                return Err(TrainError::config(name, value, "at least 0 and below 1"));
            }
        }
        Ok(())
    }
}

/// The optimizer of one model.
#[derive(Clone, Debug, PartialEq)]
pub struct AdamW {
    /// Its settings.
    pub config: AdamWConfig,
    /// Steps taken.
    pub steps: u64,
    /// First moments, of the shapes of the weights.
    pub m: GptModel,
    /// Second moments, of the shapes of the weights.
    pub v: GptModel,
}

impl AdamW {
    /// An optimizer for models of `model`, with moments of zero.
    ///
    /// # Errors
    /// If one of the configurations is not valid.
    pub fn new(config: AdamWConfig, model: &GptConfig) -> Result<Self, TrainError> {
        config.validate()?;
        let zeros = || GptModel::zeros(*model);
        Ok(Self {
            config,
            steps: 0,
            m: zeros()?,
            v: zeros()?,
        })
    }

    /// The moments as the tensors of a file: `m.<name>` and `v.<name>`.
    pub(crate) fn tensors(&self) -> Vec<LazyTensor<'_>> {
        let mut tensors = Vec::new();
        for (prefix, moment) in [("m.", &self.m), ("v.", &self.v)] {
            moment.visit(prefix, &mut |name, view| tensors.push((name, view).into()));
        }
        tensors
    }

    /// One step at learning rate `lr`, each gradient first multiplied by `grad_scale` (1, or what clipping leaves).
    /// The gradients are zero afterwards: `optimizer.step()` and `optimizer.zero_grad()` in one pass over the memory.
    ///
    /// # Panics
    /// If model, gradients and moments are not of one configuration.
    pub fn step(&mut self, model: &mut GptModel, grads: &mut GptModel, lr: f64, grad_scale: f32) {
        self.steps += 1;
        let step = self.config.step(self.steps, lr, grad_scale);
        let (weights, grads) = (model.named_parameters_mut(), grads.named_parameters_mut());
        let (m, v) = (self.m.named_parameters_mut(), self.v.named_parameters_mut());
        assert!(
            weights.len() == grads.len() && weights.len() == m.len(),
            "AdamW::step: {} weights, {} gradients, {} moments",
            weights.len(),
            grads.len(),
            m.len()
        );
        awake(|| {
            (weights, grads, m, v)
                .into_par_iter()
                .for_each(|(mut p, mut grad, mut m, mut v)| {
                    let slices = [&mut p.1, &mut grad.1, &mut m.1, &mut v.1]
                        .map(|view| view.as_slice_mut().expect("weights are row-major"));
                    let [p, grad, m, v] = slices;
                    adamw_update(p, grad, m, v, &step);
                });
        });
    }
}
