//! The loss in evaluation: the mean cross-entropy of predicting each next token, with nothing dropped (book section 5.1.2).
//!
//! The logits exist a few hundred rows at a time; no gradient is kept.

use ndarray::{ArrayRef2, s};
use tensor_ops::{cross_entropy, matmul};

use crate::model_backward::{LOGIT_ROWS, rows};
use crate::{GptError, GptModel};

impl GptModel {
    /// The mean cross-entropy of predicting `targets` (batch, num_tokens) from `in_idx`: [`forward`](Self::forward) and `tensor_ops::cross_entropy` without all logits in memory.
    ///
    /// # Errors
    /// If an id, input or target, is out of range, or there are no tokens, or more than the context length, or not one target for each.
    pub fn loss(&self, in_idx: &ArrayRef2<u32>, targets: &ArrayRef2<u32>) -> Result<f32, GptError> {
        self.check_targets(in_idx, targets)?;
        let hidden = self.forward_hidden(in_idx)?;
        let hidden = rows(&hidden); // (batch * num_tokens, emb_dim)
        let targets: Vec<u32> = targets.iter().copied().collect();
        let mut total = 0.0f64;
        for first in (0..targets.len()).step_by(LOGIT_ROWS) {
            let last = (first + LOGIT_ROWS).min(targets.len());
            let logits = matmul(&hidden.slice(s![first..last, ..]), &self.head_weight().t());
            let loss = cross_entropy(&logits, &targets[first..last]);
            total += f64::from(loss) * (last - first) as f64;
        }
        Ok((total / targets.len() as f64) as f32)
    }
}

#[cfg(test)]
mod tests {
    use ndarray::Array2;
    use torch_rng::TorchRng;

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
        // 300 rows of logits: more than one piece.
        let ids = Array2::from_shape_fn((2, 150), |(i, j)| ((7 * i + 3 * j) % 11) as u32);
        let targets = ids.mapv(|id| (id + 1) % 11);
        let logits = model.forward(&ids).unwrap();
        let logits = logits.into_shape_with_order((300, 11)).unwrap();
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
