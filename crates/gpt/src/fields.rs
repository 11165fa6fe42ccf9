//! Checks that the public fields of a model match its configuration.
//!
//! Callers can replace any public field of a model, for example with a layer of a different size. A
//! computation must then either use the new layer or return an error, but must never silently use
//! something else. Therefore, the forward pass, the decoder and the functions that save a model
//! call [`GptModel::check`] first. This check compares about a dozen sizes per block, which takes
//! far less time than processing a token.

use std::fmt::Debug;

use attention::AttentionConfig;
use tensor_ops::{LayerNorm, Linear, Parameters};

use crate::config::check_sizes;
use crate::parameter_shapes::check_same;
use crate::{DropRates, FeedForward, GptConfig, GptError, GptModel, TransformerBlock};

impl GptModel {
    /// Checks that the sizes and settings of all public fields match the model's
    /// [`config`](Self::config).
    ///
    /// This method is called first by `forward`, `loss`, the corresponding methods for training,
    /// the decoders, and the functions that save a model. If a caller has replaced a field, the
    /// field is therefore either used or reported in an error. This method doesn't check the
    /// dropout rates, because the forward pass uses the rates in the model's layers and not those
    /// in the configuration. [`check_drop_rates`](Self::check_drop_rates) checks them before a
    /// model is saved.
    ///
    /// ```
    /// use gpt::{GptConfig, GptModel, tensor_ops::Linear, torch_rng::TorchRng};
    /// let config = GptConfig {
    ///     vocab_size: 50, context_length: 8, emb_dim: 8,
    ///     n_heads: 2, n_layers: 3, ..GptConfig::GPT2_124M
    /// };
    /// let mut rng = TorchRng::manual_seed(123);
    /// let mut model = GptModel::new(config, &mut rng)?;
    /// model.trf_blocks.pop(); // Now the model has two blocks.
    /// model.out_head = None; // The head is tied to the embedding.
    /// model.check()?;
    ///
    /// model.out_head = Some(Linear::new(8, 2, true, &mut rng)); // a head for two classes
    /// let error = model.check().unwrap_err().to_string();
    /// assert!(error.contains("out_head") && error.contains("must be (50, 8), got (2, 8)"));
    /// # Ok::<(), gpt::GptError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`GptError::Field`] if a field doesn't match the configuration. The error contains
    /// the name of the first such field and the value that was expected. Returns [`GptError::Zero`]
    /// if the model has no transformer blocks.
    pub fn check(&self) -> Result<(), GptError> {
        let config = self.config();
        let (vocab_size, emb_dim) = (config.vocab_size, config.emb_dim);
        check_sizes(&[("trf_blocks", self.trf_blocks.len())])?;
        let tables = [
            ("tok_emb.weight", &self.tok_emb.weight, vocab_size),
            (
                "pos_emb.weight",
                &self.pos_emb.weight,
                config.context_length,
            ),
        ];
        for (name, table, rows) in tables {
            same(name, table.dim(), (rows, emb_dim))?;
        }
        for (i, block) in self.trf_blocks.iter().enumerate() {
            let within = |error| match error {
                GptError::Field { name, problem, fix } => GptError::Field {
                    name: format!("trf_blocks[{i}].{name}"),
                    problem,
                    fix,
                },
                other => other,
            };
            block.check(&config).map_err(within)?;
        }
        norm("final_norm", &self.final_norm, &config)?;
        if let Some(out_head) = &self.out_head
            && let Some(problem) = out_head.mismatch(emb_dim, vocab_size, false)
        {
            return Err(GptError::Field {
                name: "out_head".to_owned(),
                problem,
                fix: "to use a different head, apply it to the result of `forward_hidden_train`",
            });
        }
        Ok(())
    }

    /// Checks that the dropout rates of all layers are equal to the rates in the configuration. A
    /// model is saved only if they are equal, because the file contains only the configuration's
    /// rates.
    ///
    /// # Errors
    ///
    /// Returns [`GptError::Field`] if the dropout rate of a layer differs from the rate in the
    /// model's configuration. The error contains the name and the value of the first such rate.
    pub fn check_drop_rates(&self) -> Result<(), GptError> {
        let DropRates {
            emb,
            attention,
            shortcut,
        } = self.config().drop_rates;
        same("drop_emb.p", self.drop_emb.p, emb)?;
        for (i, block) in self.trf_blocks.iter().enumerate() {
            let name = |field| format!("trf_blocks[{i}].{field}.p");
            same(&name("att.dropout"), block.att.dropout.p, attention)?;
            same(&name("drop_shortcut"), block.drop_shortcut.p, shortcut)?;
        }
        Ok(())
    }

    /// Checks that the parameters of `grads` and this model have the same names and shapes, and
    /// that [`check`](Self::check) accepts `grads`. Without this check, a loop over pairs of
    /// weights and gradients would silently stop at the end of the shorter list.
    ///
    /// # Panics
    ///
    /// Panics if the parameters of `grads` and the model have different names or shapes, or if
    /// [`check`](Self::check) rejects `grads`. The panic message starts with `op`, which is the
    /// name of the function that was called with these gradients.
    pub(crate) fn check_gradients(&self, op: &str, grads: &GptModel) {
        let sizes = |config: GptConfig| GptConfig {
            drop_rates: DropRates::all(0.0),
            ..config
        };
        // If the configurations of the model and the gradients are equal except for their dropout
        // rates, their parameters have the same names and shapes. The parameters are compared only
        // in the other case, because creating all of their names would slow down the training steps
        // of small models.
        if sizes(self.config()) != sizes(grads.config()) {
            check_same(op, &self.named_parameters(), &grads.named_parameters());
        }
        if let Err(error) = grads.check() {
            panic!("{op}: the gradients are invalid, because {error}");
        }
    }
}

impl TransformerBlock {
    fn check(&self, config: &GptConfig) -> Result<(), GptError> {
        let attention = AttentionConfig {
            dropout: self.att.config().dropout,
            ..config.attention()
        };
        same("att.config()", self.att.config(), attention)?;
        self.att.check()?;
        self.ff.check(config)?;
        norm("norm1", &self.norm1, config)?;
        norm("norm2", &self.norm2, config)
    }
}

impl FeedForward {
    fn check(&self, config: &GptConfig) -> Result<(), GptError> {
        let (emb_dim, hidden_dim) = (config.emb_dim, config.feed_forward_dim());
        linear("ff.expand", &self.expand, emb_dim, hidden_dim)?;
        same("ff.activation", self.activation, config.activation)?;
        linear("ff.contract", &self.contract, hidden_dim, emb_dim)
    }
}

fn linear(name: &str, layer: &Linear, inputs: usize, outputs: usize) -> Result<(), GptError> {
    match layer.mismatch(inputs, outputs, true) {
        Some(problem) => Err(GptError::field(name, problem)),
        None => Ok(()),
    }
}

fn norm(name: &str, norm: &LayerNorm, config: &GptConfig) -> Result<(), GptError> {
    let fields = |scale, shift, eps| (("scale", scale), ("shift", shift), ("eps", eps));
    let found = fields(norm.scale.len(), norm.shift.len(), norm.eps);
    same(
        name,
        found,
        fields(config.emb_dim, config.emb_dim, config.norm_eps),
    )
}

fn same<T: PartialEq + Debug>(name: &str, found: T, expected: T) -> Result<(), GptError> {
    match found == expected {
        true => Ok(()),
        false => Err(GptError::field(
            name,
            format!("the field must be {expected:?}, got {found:?}"),
        )),
    }
}
