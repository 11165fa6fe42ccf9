//! An optimizer that is equivalent to `torch.optim.AdamW`, with bias-corrected moments and with
//! weight decay that is decoupled from the gradient (section 5.2 of the book).
//!
//! [`AdamW::step_plain`] follows the formulas literally and updates one weight after the other.
//! [`AdamW::step`] computes the same results up to rounding, but it is faster, because it calls the
//! kernel `tensor_ops::engine::adamw_update` on all cores.

use std::mem::take;

use ndarray::{ArrayViewD, ArrayViewMutD};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use tensor_ops::Parameters;
use tensor_ops::engine::{AdamWStep, adamw_update, awake, zeros};

use crate::shards::{own_parts, slices};
use crate::{Ranks, TrainError};

/// The settings of AdamW.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AdamWConfig {
    /// Learning rate. If the training run uses a [`Schedule`](crate::Schedule), this is the highest
    /// learning rate of the schedule. The default is 0.0004, as in the book.
    pub lr: f64,
    /// Decay rates beta1 and beta2 of the first and the second moments, respectively. Both must be
    /// at least 0 and less than 1. The default is (0.9, 0.999), as in PyTorch.
    pub betas: (f64, f64),
    /// Small number that is added to the denominator of the update to prevent a division by zero.
    /// The default is 1e-8, as in PyTorch.
    pub eps: f64,
    /// Strength of the weight decay. Each step first multiplies all weights by `1 - lr *
    /// weight_decay`, and then applies the gradients. The default is 0.1, as in the book.
    pub weight_decay: f64,
}

impl Default for AdamWConfig {
    /// Returns the settings that the book uses: a learning rate of 0.0004, a weight decay of 0.1,
    /// and PyTorch's defaults for all other settings.
    fn default() -> Self {
        Self {
            lr: 4e-4,
            betas: (0.9, 0.999),
            eps: 1e-8,
            weight_decay: 0.1,
        }
    }
}

/// An AdamW optimizer for the weights of any type that implements [`Parameters`], such as a whole
/// model or one of its layers.
///
/// Step t computes the following for each weight p, where g is its gradient, and m and v are its
/// moments:
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
/// let mut grads = TransformerBlock::zeros(config)?; // filled by `backward`
/// let mut optimizer = AdamW::new(AdamWConfig { lr: 1e-3, ..AdamWConfig::default() }, &block)?;
///
/// grads.norm1.scale.fill(0.5);
/// optimizer.step(&mut block, &mut grads); // also sets the gradients to 0
/// assert_eq!(train::grad_norm(&grads), 0.0);
/// optimizer.config.lr = 5e-4; // as a schedule would do
/// assert!(block.norm1.scale[0] < 1.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// To use different settings for different groups of parameters, create one optimizer for each
/// [selection](Parameters::select_mut) of parameters. Parameters that aren't in any selection are
/// frozen, which means that training doesn't change them. The AMSGrad variant of AdamW isn't
/// supported.
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
/// // Each step does the following after the backward pass:
/// clip_grad_norm(&mut grads.select_mut(&matrices), 1.0);
/// groups.0.step(&mut block.select_mut(&matrices), &mut grads.select_mut(&matrices));
/// groups.1.step(&mut block.select_mut(&vectors), &mut grads.select_mut(&vectors));
/// grads.fill_zero(); // needed for norm1, which is frozen
/// assert!(block.norm1.scale.iter().all(|&scale| scale == 1.0));
/// # Ok::<(), train::TrainError>(())
/// ```
///
/// The name of each moment is the name of its weight with the prefix `m.` or `v.`. Moments can
/// therefore be saved and loaded with the same functions as weights. The number of steps must be
/// saved separately, unless the program uses [`LoopState`](crate::LoopState), which saves both the
/// moments and the number of steps.
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
    /// Settings of the optimizer. A program can change the learning rate between two steps by
    /// assigning a new value to `config.lr`.
    pub config: AdamWConfig,
    /// Number of optimizer steps taken so far.
    pub steps: u64,
    /// First moments of all weights, one weight after the other. If several processes (ranks) share
    /// the training run, this vector contains only the first moments of the weights that this rank
    /// updates.
    pub(crate) m: Vec<f32>,
    /// Second moments, in the same order as the first moments.
    pub(crate) v: Vec<f32>,
    /// Names and shapes of the weights.
    weights: Vec<(String, Vec<usize>)>,
}

impl AdamW {
    /// Creates an optimizer for the weights in `parameters`. All moments are initialized to 0.
    ///
    /// # Errors
    ///
    /// Returns an error if a setting is outside its range.
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

    /// Updates the weights with the learning rate `config.lr`, and sets the gradients to 0. This
    /// method is a direct transcription of the formulas and is meant for reading.
    /// [`step`](Self::step) is faster and computes the same results up to rounding.
    ///
    /// # Panics
    ///
    /// Panics under the same conditions as [`step`](Self::step).
    pub fn step_plain<P: Parameters + ?Sized>(&mut self, parameters: &mut P, grads: &mut P) {
        let AdamWConfig {
            lr,
            betas: (beta1, beta2),
            eps,
            weight_decay,
        } = self.config;
        self.check_names("weights", parameters);
        self.check_names("gradients", grads);
        self.steps += 1;
        let t = self.steps as f64;
        let (weights, grads) = (slices(parameters), slices(grads));
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

    /// Checks that `parameters` has the same names and shapes as the weights for which the
    /// optimizer was created. `what` describes the parameters in the error message.
    ///
    /// # Panics
    ///
    /// Panics if a name or a shape differs.
    fn check_names(&self, what: &str, parameters: &(impl Parameters + ?Sized)) {
        let mut found = Vec::new();
        parameters.visit("", &mut |name, view| {
            found.push((name, view.shape().to_vec()))
        });
        let differs = |i: &usize| self.weights.get(*i) != found.get(*i);
        if let Some(i) = (0..self.weights.len().max(found.len())).find(differs) {
            let describe = |of: &[(String, Vec<usize>)]| match of.get(i) {
                Some((name, shape)) => format!("{name} of the shape {shape:?}"),
                None => "missing".to_owned(),
            };
            panic!(
                "AdamW: tensor {i} of the {what} is {}, but tensor {i} of the weights for which \
                the optimizer was created is {}; create a new optimizer for the current weights",
                describe(&found),
                describe(&self.weights)
            );
        }
    }

    /// Checks that the numbers of elements of the weights, the gradients and the moments match.
    /// Returns the number of elements of each weight.
    ///
    /// # Panics
    ///
    /// Panics if the numbers differ.
    fn check(&self, weights: &[&mut [f32]], grads: &[&mut [f32]]) -> Vec<usize> {
        let lengths = |slices: &[&mut [f32]]| slices.iter().map(|s| s.len()).collect::<Vec<_>>();
        let (ours, theirs) = (lengths(weights), lengths(grads));
        assert!(
            ours == theirs && ours.iter().sum::<usize>() == self.m.len(),
            "AdamW: the weights have {ours:?} elements, the gradients have {theirs:?}, and the \
            optimizer has {} moments; create the optimizer for these weights",
            self.m.len()
        );
        ours
    }

    /// Updates the weights with the learning rate `config.lr`, and sets the gradients to 0.
    ///
    /// This method has the same effect as `optimizer.step()` followed by `optimizer.zero_grad()` in
    /// PyTorch, but it needs only one pass over the weights, gradients and moments.
    ///
    /// If an element of a gradient is NaN or infinite, the corresponding weight and its moments
    /// become NaN and remain NaN. In a model, even one such weight makes the loss and the gradients
    /// of the next step NaN, so that step makes all weights NaN. As in PyTorch, this method doesn't
    /// check the gradients. Before each step, check the norm that
    /// [`clip_grad_norm`](crate::clip_grad_norm) or [`grad_norm`](crate::grad_norm) returns with
    /// [`f64::is_finite`].
    ///
    /// # Panics
    ///
    /// Panics if `parameters` and `grads` don't have the same names and shapes as the weights for
    /// which the optimizer was created, or if an array isn't in row-major order.
    pub fn step<P: Parameters + ?Sized>(&mut self, parameters: &mut P, grads: &mut P) {
        self.check_names("weights", parameters);
        self.check_names("gradients", grads);
        self.update(slices(parameters), slices(grads), 1.0);
    }

    /// Multiplies all gradients by `grad_scale` and then updates the weights, as
    /// [`step`](Self::step) does. `grad_scale` is the scaling factor of gradient clipping, or 1 if
    /// the gradients aren't clipped.
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

    /// Prepares the optimizer for a training run that several processes (ranks) share. Each rank
    /// updates only some of the weights, so it keeps only the moments of these weights and frees
    /// the memory of the others. Afterwards, all remaining moments form one array, which is treated
    /// as the moments of a single weight without a name.
    pub(crate) fn keep_own_parts(&mut self, ranks: &dyn Ranks) {
        let shapes = self.weights.iter().map(|(_, shape)| shape);
        let lengths: Vec<usize> = shapes.map(|shape| shape.iter().product()).collect();
        for moments in [&mut self.m, &mut self.v] {
            *moments = own_parts(ranks, split(moments, &lengths)).concat();
        }
        self.weights = vec![(String::new(), vec![self.m.len()])];
    }
}

/// Provides access to the moments of the optimizer under the names `m.<weight>` and `v.<weight>`,
/// so that they can be saved and loaded like the weights of a model.
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

const AS_MANY: &str = "there are as many elements as in the shape";

impl AdamWConfig {
    pub(crate) fn validate(&self) -> Result<(), TrainError> {
        TrainError::check_not_negative("lr", self.lr)?;
        TrainError::check_not_negative("eps", self.eps)?;
        TrainError::check_not_negative("weight_decay", self.weight_decay)?;
        for (name, value) in [("betas.0", self.betas.0), ("betas.1", self.betas.1)] {
            if !(0.0..1.0).contains(&value) {
                return Err(TrainError::config(
                    name,
                    value,
                    "at least 0 and less than 1",
                ));
            }
        }
        Ok(())
    }
}

/// Splits `numbers` into consecutive slices with the given lengths.
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
    #[should_panic(
        expected = "tensor 0 of the gradients is W_key.weight of the shape [8, 8], but tensor 0 of \
                    the weights for which the optimizer was created is W_query.weight"
    )]
    fn gradients_of_another_weight_of_the_same_shape_are_refused() {
        let query = |name: &str, _: &[usize]| name.starts_with("W_query");
        let key = |name: &str, _: &[usize]| name.starts_with("W_key");
        let config = gpt::GptConfig {
            emb_dim: 8,
            n_heads: 2,
            ..gpt::GptConfig::GPT2_124M
        };
        let mut att = gpt::TransformerBlock::zeros(config).expect("a block").att;
        let mut grads = att.clone();
        let optimizer = AdamW::new(AdamWConfig::default(), &att.select_mut(&query));
        let mut optimizer = optimizer.expect("the defaults");
        optimizer.step(&mut att.select_mut(&query), &mut grads.select_mut(&key));
    }

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
