//! The draws of a training batch without the batch: what a process does whose neighbour computes it.

use torch_rng::TorchRng;

use crate::{GptConfig, GptModel};

impl GptModel {
    /// Leaves `rng` as [`forward_train`](Self::forward_train) of (batch, num_tokens) ids does.
    pub fn skip_draws(&self, (batch, num_tokens): (usize, usize), rng: &mut TorchRng) {
        let GptConfig {
            emb_dim, n_heads, ..
        } = *self.config();
        let features = batch * num_tokens * emb_dim;
        self.drop_emb.skip(features, rng);
        for block in &self.trf_blocks {
            let weights = batch * n_heads * num_tokens * num_tokens;
            block.att.dropout.skip(weights, rng);
            block.drop_shortcut.skip(features, rng);
            block.drop_shortcut.skip(features, rng);
        }
    }
}

#[cfg(test)]
mod tests {
    use ndarray::Array2;
    use torch_rng::Build;

    use super::*;
    use crate::DropRates;

    #[test]
    fn skipping_a_batch_leaves_the_generator_that_the_batch_leaves() {
        let all = DropRates::all(0.1);
        let rates = [
            DropRates::all(0.0),
            all,
            DropRates { emb: 0.0, ..all },
            DropRates {
                attention: 0.0,
                ..all
            },
            DropRates {
                shortcut: 0.0,
                ..all
            },
        ];
        for (drop_rates, build) in rates
            .into_iter()
            .flat_map(|rates| [(rates, Build::Portable), (rates, Build::Mkl)])
        {
            let config = GptConfig {
                vocab_size: 11,
                context_length: 9,
                emb_dim: 6,
                n_heads: 3,
                n_layers: 2,
                drop_rates,
                ..GptConfig::GPT2_124M
            };
            let mut rng = TorchRng::manual_seed(3).with_build(build);
            let model = GptModel::new(config, &mut rng).expect("a small configuration");
            let mut skipped = rng.clone();
            let ids = Array2::zeros((2, 7));
            model.forward_train(&ids, &mut rng).expect("known ids");
            model.skip_draws(ids.dim(), &mut skipped);
            assert_eq!(skipped, rng, "{drop_rates:?}, {build}");
        }
    }
}
