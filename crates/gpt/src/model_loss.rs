//! The loss in evaluation: the cross-entropy of predicting each next token and its mean, with nothing dropped (book section 5.1.2).
//!
//! The logits exist a thousand rows at a time; no gradient is kept.

use ndarray::{ArrayRef2, s};
use tensor_ops::{cross_entropy_rows, matmul};

use crate::model_backward::{LOGIT_ROWS, rows};
use crate::{GptError, GptModel};

impl GptModel {
    /// The mean cross-entropy of predicting `targets` (batch, num_tokens) from `in_idx`: [`forward`](Self::forward) and `tensor_ops::cross_entropy` without all logits in memory.
    ///
    /// # Errors
    /// As [`token_losses`](Self::token_losses).
    pub fn loss(&self, in_idx: &ArrayRef2<u32>, targets: &ArrayRef2<u32>) -> Result<f32, GptError> {
        let losses = self.token_losses(in_idx, targets)?;
        let total: f64 = losses.iter().map(|&loss| f64::from(loss)).sum();
        Ok((total / losses.len() as f64) as f32)
    }

    /// The cross-entropy of each of `targets` (batch, num_tokens), row after row, predicted from `in_idx`.
    ///
    /// # Errors
    /// If an id, input or target, is out of range, or there are no tokens, or more than the context length, or not one target for each.
    pub fn token_losses(
        &self,
        in_idx: &ArrayRef2<u32>,
        targets: &ArrayRef2<u32>,
    ) -> Result<Vec<f32>, GptError> {
        self.check_targets(in_idx, targets)?;
        let hidden = self.forward_hidden(in_idx)?;
        let hidden = rows(&hidden); // (batch * num_tokens, emb_dim)
        let targets: Vec<u32> = targets.iter().copied().collect();
        let mut losses = Vec::with_capacity(targets.len());
        for first in (0..targets.len()).step_by(LOGIT_ROWS) {
            let last = (first + LOGIT_ROWS).min(targets.len());
            let logits = matmul(&hidden.slice(s![first..last, ..]), &self.head_weight().t());
            losses.extend(cross_entropy_rows(&logits, &targets[first..last]));
        }
        Ok(losses)
    }
}

#[cfg(test)]
mod tests {
    use ndarray::Array2;
    use torch_rng::TorchRng;

    use crate::model_backward::LOGIT_ROWS;
    use crate::{DropRates, GptConfig, GptModel};

    #[test]
    fn the_loss_is_that_of_all_logits_at_once_and_of_training_without_dropout() {
        let config = GptConfig {
            vocab_size: 11,
            context_length: 150,
            emb_dim: 8,
            n_heads: 2,
            n_layers: 1,
            drop_rates: DropRates::all(0.0),
            qkv_bias: false,
            tied: false,
            ..GptConfig::GPT2_124M
        };
        let mut rng = TorchRng::manual_seed(1);
        let model = GptModel::new(config, &mut rng).unwrap();
        let ids = Array2::from_shape_fn((LOGIT_ROWS / 150 + 1, 150), |(i, j)| {
            ((7 * i + 3 * j) % 11) as u32
        });
        let targets = ids.mapv(|id| (id + 1) % 11);
        let logits = model.forward(&ids).unwrap();
        let logits = logits.into_shape_with_order((ids.len(), 11)).unwrap();
        let all: Vec<u32> = targets.iter().copied().collect();
        let expected = tensor_ops::cross_entropy(&logits, &all);
        let loss = model.loss(&ids, &targets).unwrap();
        assert!(
            (loss - expected).abs() < 1e-6,
            "{loss}, expected {expected}"
        );
        let mut grads = GptModel::zeros(config).unwrap();
        let trained = model.loss_and_grads(&ids, &targets, 1.0, &mut rng, &mut grads);
        assert!((loss - trained.unwrap()).abs() < 1e-6);
    }
}
