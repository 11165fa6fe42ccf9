//! AdamW as `torch.optim.AdamW`: decoupled weight decay of every weight, bias-corrected moments
//! (book section 5.2).
//!
//! [`AdamW::step_plain`] computes the formulas line by line; [`AdamW::step`] computes the same on
//! all cores by `tensor_ops::engine::adamw_update`.

use std::mem::take;

use ndarray::{ArrayViewD, ArrayViewMutD};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use tensor_ops::Parameters;
use tensor_ops::engine::{AdamWStep, adamw_update, awake, zeros};

use crate::shards::{own_parts, slices};
use crate::{Ranks, TrainError};

/// AdamW's settings.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AdamWConfig {
    /// Learning rate; in a [`TrainConfig`](crate::TrainConfig) with a schedule, its peak.
    pub lr: f64,
    /// The share of each moment that a step keeps.
    pub betas: (f64, f64),
    /// Added to the denominator.
    pub eps: f64,
    /// The part that each step takes off every weight, times the learning rate.
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

/// The optimizer of one module: anything that lists its weights, a model or a layer of it.
///
/// In step t, for each weight p with the gradient g and the moments m and v:
///
/// ```text
/// m = beta1 m + (1 - beta1) g            m_hat = m / (1 - beta1^t)
/// v = beta2 v + (1 - beta2) g^2          v_hat = v / (1 - beta2^t)
/// p = (1 - lr weight_decay) p - lr m_hat / (sqrt(v_hat) + eps)
/// ```
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
///
/// A parameter group is a [selection](Parameters::select_mut) with its own optimizer. Layers that
/// no group selects are frozen. The amsgrad variant isn't supported.
///
/// ```
/// # use train::gpt::{GptConfig, TransformerBlock};
/// # use train::torch_rng::TorchRng;
/// # use train::{AdamW, AdamWConfig, Parameters, clip_grad_norm};
/// # let config = GptConfig { emb_dim: 8, n_heads: 2, ..GptConfig::GPT2_124M };
/// # let mut block = TransformerBlock::new(config, &mut TorchRng::manual_seed(123))?;
/// # let mut grads = block.clone();
/// let matrices = |name: &str, shape: &[usize]| !name.starts_with("norm1.") && shape.len() > 1;
/// let vectors = |name: &str, shape: &[usize]| !name.starts_with("norm1.") && shape.len() == 1;
/// let decay = AdamWConfig::default();
/// let none = AdamWConfig { weight_decay: 0.0, ..decay };
/// let mut groups = (
///     AdamW::new(decay, &block.select_mut(&matrices))?,
///     AdamW::new(none, &block.select_mut(&vectors))?,
/// );
/// // In each step, after the backward pass:
/// clip_grad_norm(&mut grads.select_mut(&matrices), 1.0);
/// groups.0.step(&mut block.select_mut(&matrices), &mut grads.select_mut(&matrices));
/// groups.1.step(&mut block.select_mut(&vectors), &mut grads.select_mut(&vectors));
/// grads.fill_zero(); // the gradients of norm1, which is frozen
/// assert!(block.norm1.scale.iter().all(|&scale| scale == 1.0));
/// # Ok::<(), train::TrainError>(())
/// ```
///
/// Its moments are named like the weights, with the prefixes `m.` and `v.`, so they are saved and
/// loaded like weights. The caller saves the number of steps; [`LoopState`](crate::LoopState) saves
/// both.
///
/// ```
/// use checkpoint::{load_tensors_into, save_tensors};
/// # use train::{AdamW, AdamWConfig, Parameters, gpt::{TransformerBlock, GptConfig}};
/// # let config = GptConfig { emb_dim: 8, n_heads: 2, ..GptConfig::GPT2_124M };
/// # let block = TransformerBlock::zeros(config)?;
/// # let settings = AdamWConfig::default();
/// # let optimizer = AdamW::new(settings, &block)?;
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("optimizer.safetensors");
/// save_tensors(&path, optimizer.named_parameters())?;
///
/// let mut resumed = AdamW::new(settings, &block)?;
/// load_tensors_into(&path, &mut resumed, "")?;
/// resumed.steps = optimizer.steps;
/// assert_eq!(resumed, optimizer);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct AdamW {
    /// Its settings; a schedule changes `lr` between two steps.
    pub config: AdamWConfig,
    /// Steps taken.
    pub steps: u64,
    /// First moments, weight after weight; among ranks, only this rank's parts.
    pub(crate) m: Vec<f32>,
    /// Second moments.
    pub(crate) v: Vec<f32>,
    /// The weights by name and shape.
    weights: Vec<(String, Vec<usize>)>,
}

impl AdamW {
    /// An optimizer of these weights, with moments of zero.
    ///
    /// # Errors
    /// If a setting is outside its range.
    pub fn new(
        config: AdamWConfig,
        parameters: &(impl Parameters + ?Sized),
    ) -> Result<Self, TrainError> {
        config.validate()?;
        let n = parameters.num_parameters();
        let mut weights = Vec::new();
        parameters.visit("", &mut |name, view| {
            weights.push((name, view.shape().to_vec()))
        });
        Ok(Self {
            config,
            steps: 0,
            m: zeros(n),
            v: zeros(n),
            weights,
        })
    }

    /// One step in the plain form, at the learning rate `config.lr`; the gradients are zero
    /// afterwards. It agrees with [`step`](Self::step) up to rounding.
    ///
    /// # Panics
    /// As [`step`](Self::step).
    pub fn step_plain<P: Parameters + ?Sized>(&mut self, parameters: &mut P, grads: &mut P) {
        let AdamWConfig {
            lr,
            betas: (beta1, beta2),
            eps,
            weight_decay,
        } = self.config;
        self.steps += 1;
        let t = self.steps as f64;
        let (weights, grads) = (slices(parameters), slices(grads));
        self.check(&weights, &grads);
        let (weights, grads) = (weights.into_iter().flatten(), grads.into_iter().flatten());
        let moments = self.m.iter_mut().zip(&mut self.v);
        for ((p, grad), (m, v)) in weights.zip(grads).zip(moments) {
            let g = f64::from(take(grad));
            let m_new = beta1 * f64::from(*m) + (1.0 - beta1) * g;
            let v_new = beta2 * f64::from(*v) + (1.0 - beta2) * g * g;
            let m_hat = m_new / (1.0 - beta1.powf(t));
            let v_hat = v_new / (1.0 - beta2.powf(t));
            let decayed = (1.0 - lr * weight_decay) * f64::from(*p);
            *p = (decayed - lr * m_hat / (v_hat.sqrt() + eps)) as f32;
            (*m, *v) = (m_new as f32, v_new as f32);
        }
    }

    /// The lengths of the weights, which those of gradients and moments must match.
    fn check(&self, weights: &[&mut [f32]], grads: &[&mut [f32]]) -> Vec<usize> {
        let lengths = |slices: &[&mut [f32]]| slices.iter().map(|s| s.len()).collect::<Vec<_>>();
        let (ours, theirs) = (lengths(weights), lengths(grads));
        assert!(
            ours == theirs && ours.iter().sum::<usize>() == self.m.len(),
            "AdamW: weights of {ours:?} numbers, gradients of {theirs:?}, {} moments",
            self.m.len()
        );
        ours
    }

    /// One step at the learning rate `config.lr`.
    ///
    /// The gradients are zero afterwards: `optimizer.step()` and `optimizer.zero_grad()` in one
    /// pass over the memory.
    ///
    /// # Panics
    /// If weights, gradients and moments are not as many.
    pub fn step<P: Parameters + ?Sized>(&mut self, parameters: &mut P, grads: &mut P) {
        self.update(slices(parameters), slices(grads), 1.0);
    }

    /// Takes a [`step`](Self::step) with each gradient first multiplied by `grad_scale` (1, or what
    /// clipping leaves).
    pub(crate) fn update(
        &mut self,
        weights: Vec<&mut [f32]>,
        grads: Vec<&mut [f32]>,
        grad_scale: f32,
    ) {
        let ours = self.check(&weights, &grads);
        self.steps += 1;
        let AdamWConfig {
            lr,
            betas: (beta1, beta2),
            eps,
            weight_decay,
        } = self.config;
        let t = self.steps as f64;
        let step = AdamWStep {
            keep: (1.0 - lr * weight_decay) as f32,
            step_size: (lr / (1.0 - beta1.powf(t))) as f32,
            one_minus_beta1: (1.0 - beta1) as f32,
            beta2: beta2 as f32,
            one_minus_beta2: (1.0 - beta2) as f32,
            sqrt_bias_correction2: (1.0 - beta2.powf(t)).sqrt() as f32,
            eps: eps as f32,
            grad_scale,
        };
        let (m, v) = (split(&mut self.m, &ours), split(&mut self.v, &ours));
        awake(|| {
            (weights, grads, m, v)
                .into_par_iter()
                .for_each(|(p, grad, m, v)| adamw_update(p, grad, m, v, &step));
        });
    }

    /// Keeps only the moments of this rank's parts, as one weight without a name.
    pub(crate) fn keep_own_parts(&mut self, ranks: &dyn Ranks) {
        let shapes = self.weights.iter().map(|(_, shape)| shape);
        let lengths: Vec<usize> = shapes.map(|shape| shape.iter().product()).collect();
        for moments in [&mut self.m, &mut self.v] {
            *moments = own_parts(ranks, split(moments, &lengths)).concat();
        }
        self.weights = vec![(String::new(), vec![self.m.len()])];
    }
}

/// The moments, as `m.` and `v.` and the weight's name.
impl Parameters for AdamW {
    fn visit<'a>(&'a self, prefix: &str, visit: &mut dyn FnMut(String, ArrayViewD<'a, f32>)) {
        for (moment, mut numbers) in [("m.", &self.m[..]), ("v.", &self.v[..])] {
            for (name, shape) in &self.weights {
                let (own, rest) = numbers.split_at(shape.iter().product());
                let view = ArrayViewD::from_shape(&shape[..], own);
                numbers = rest;
                visit(format!("{prefix}{moment}{name}"), view.expect(AS_MANY));
            }
        }
    }

    fn visit_mut<'a>(
        &'a mut self,
        prefix: &str,
        visit: &mut dyn FnMut(String, ArrayViewMutD<'a, f32>),
    ) {
        for (moment, mut numbers) in [("m.", &mut self.m[..]), ("v.", &mut self.v[..])] {
            for (name, shape) in &self.weights {
                let (own, rest) = take(&mut numbers).split_at_mut(shape.iter().product());
                let view = ArrayViewMutD::from_shape(&shape[..], own);
                numbers = rest;
                visit(format!("{prefix}{moment}{name}"), view.expect(AS_MANY));
            }
        }
    }
}

const AS_MANY: &str = "as many numbers as the shape has";

impl AdamWConfig {
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

/// Neighbouring slices of these lengths.
fn split<'a>(mut numbers: &'a mut [f32], lengths: &[usize]) -> Vec<&'a mut [f32]> {
    let slices = lengths.iter().map(|&n| {
        let (slice, rest) = take(&mut numbers).split_at_mut(n);
        numbers = rest;
        slice
    });
    slices.collect()
}

#[cfg(test)]
mod tests {
    use ndarray::Array2;
    use torch_rng::TorchRng;

    use super::*;

    #[test]
    fn the_plain_form_and_the_kernel_take_the_same_steps() {
        let mut rng = TorchRng::manual_seed(1);
        let mut random = || Array2::from_shape_vec((3, 100), rng.randn(300)).expect("300 numbers");
        let start = random();
        let config = AdamWConfig {
            lr: 1e-2,
            ..AdamWConfig::default()
        };
        let optimizer = AdamW::new(config, &start).expect("the book's settings");
        let (mut plain, mut fast) = ((optimizer.clone(), start.clone()), (optimizer, start));
        for step in 0..50 {
            let mut grads = random();
            let mut again = grads.clone();
            plain.0.step_plain(&mut plain.1, &mut grads);
            fast.0.step(&mut fast.1, &mut again);
            assert!(grads == again && grads.iter().all(|&g| g == 0.0));
            for (plain, fast) in plain.1.iter().zip(&fast.1) {
                let allowed = 2e-6 * plain.abs().max(0.1);
                assert!(
                    (plain - fast).abs() < allowed,
                    "step {step}: {plain}, {fast}"
                );
            }
        }
    }
}
