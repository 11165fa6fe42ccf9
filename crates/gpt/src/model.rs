//! The GPT model in evaluation: token and position embeddings, transformer blocks, a last norm, an
//! output head; nothing is dropped.
//!
//! Its struct, and listing 4.7 as the book has it, are in `plain.rs`; training is in
//! `model_train.rs`.

use ndarray::{
    Array, Array2, Array3, Array4, ArrayRef, ArrayRef2, ArrayRef3, ArrayView2, Dimension, s,
};
use tensor_ops::engine::{Pooled, awake};
use tensor_ops::{
    Dropout, Dtype, Embedding, Linear, OPERAND_DTYPES, UnsupportedDtype, counted_targets,
    cross_entropy_rows, matmul_in, parameters,
};

use crate::ids::{check_ids, check_targets, embed};
use crate::{GptConfig, GptError, GptModel, TransformerBlock};

/// Rows of logits that exist at once where a loss is computed: 206 MB at GPT-2's vocabulary.
pub const LOGIT_ROWS: usize = 1024;

/// A block's attention and output, as [`GptModel::trace`] gives them.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct BlockTrace {
    /// (batch, num_heads, num_tokens, num_tokens): where its attention looks
    pub attention: Array4<f32>,
    /// (batch, num_tokens, emb_dim): its output, the residual stream after this block
    pub residual: Array3<f32>,
    /// (batch, num_tokens, emb_dim): its output, after the model's last norm
    pub hidden: Array3<f32>,
}

impl GptModel {
    /// All zeros: a gradient to be accumulated into, or a place to load weights into.
    ///
    /// # Errors
    /// If the configuration is not valid.
    pub fn zeros(cfg: GptConfig) -> Result<Self, GptError> {
        cfg.validate()?;
        Ok(Self {
            tok_emb: Embedding::zeros(cfg.vocab_size, cfg.emb_dim),
            pos_emb: Embedding::zeros(cfg.context_length, cfg.emb_dim),
            drop_emb: Dropout {
                p: cfg.drop_rates.emb,
            },
            trf_blocks: (0..cfg.n_layers)
                .map(|_| TransformerBlock::zeros(cfg))
                .collect::<Result<_, _>>()?,
            final_norm: cfg.zero_norm(),
            out_head: (!cfg.tied).then(|| Linear::zeros(cfg.emb_dim, cfg.vocab_size, false)),
            config: cfg,
            tied_head_dtype: Dtype::Float32,
        })
    }

    /// Sets the format of the operands of all linear layers' products and of the head's, forward
    /// and backward, as PyTorch's `torch.autocast("cpu", dtype=...)` does. The default is float32.
    ///
    /// Weights, gradients, sums, attention, normalization, GELU and losses are f32 in any case. In
    /// bfloat16 a model trains faster on a processor with bf16 instructions
    /// ([`has_bf16`](tensor_ops::has_bf16)) and more slowly on others.
    ///
    /// # Errors
    /// If the format is neither float32 nor bfloat16.
    pub fn set_dtype(&mut self, dtype: Dtype) -> Result<(), UnsupportedDtype> {
        let dtype = dtype.one_of(OPERAND_DTYPES)?;
        for block in &mut self.trf_blocks {
            block.set_dtype(dtype);
        }
        if let Some(out_head) = &mut self.out_head {
            out_head.dtype = dtype;
        }
        self.tied_head_dtype = dtype;
        Ok(())
    }

    /// Returns the format of the operands of the head's products.
    pub(crate) fn head_dtype(&self) -> Dtype {
        let own = self.out_head.as_ref().map(|out_head| out_head.dtype);
        own.unwrap_or(self.tied_head_dtype)
    }

    /// Returns the model's configuration.
    ///
    /// `tied` and `n_layers` follow the fields: a head or blocks may be added or removed. The other
    /// values are those that the model was built from, and [`check`](Self::check) compares the
    /// fields with them.
    pub fn config(&self) -> GptConfig {
        GptConfig {
            tied: self.out_head.is_none(),
            n_layers: self.trf_blocks.len(),
            ..self.config
        }
    }

    /// Token ids (batch, num_tokens) -> logits (batch, num_tokens, vocab_size), as in evaluation:
    /// [`forward_plain`](Self::forward_plain), fast.
    ///
    /// # Errors
    /// If the text is empty, a token is not in the vocabulary, the text exceeds the context length,
    /// or a public field doesn't fit the model ([`check`](Self::check)).
    pub fn forward(&self, in_idx: &ArrayRef2<u32>) -> Result<Array3<f32>, GptError> {
        let hidden = Pooled::from(self.forward_hidden(in_idx)?);
        Ok(self.logits(&hidden))
    }

    /// Returns the sum of the token and position embeddings, the input of the first block: token
    /// ids (batch, num_tokens) -> (batch, num_tokens, emb_dim). Nothing is dropped.
    ///
    /// # Errors
    /// As [`forward`](Self::forward).
    pub fn embed(&self, in_idx: &ArrayRef2<u32>) -> Result<Array3<f32>, GptError> {
        self.check()?;
        embed(in_idx, &self.tok_emb, &self.pos_emb)
    }

    /// Returns the residual stream: the embeddings, and then the output of each block, `n_layers` +
    /// 1 arrays (batch, num_tokens, emb_dim).
    ///
    /// These are the `hidden_states` of transformers, except that the last one isn't normed:
    /// [`forward_hidden`](Self::forward_hidden) is its `final_norm`.
    ///
    /// # Errors
    /// As [`forward`](Self::forward).
    pub fn hidden_states(&self, in_idx: &ArrayRef2<u32>) -> Result<Vec<Array3<f32>>, GptError> {
        let mut states = vec![self.embed(in_idx)?];
        for block in &self.trf_blocks {
            states.push(block.forward(&states[states.len() - 1])?);
        }
        Ok(states)
    }

    /// The model without its head: token ids (batch, num_tokens) -> the normed output of the last
    /// block (batch, num_tokens, emb_dim).
    ///
    /// # Errors
    /// As [`forward`](Self::forward).
    pub fn forward_hidden(&self, in_idx: &ArrayRef2<u32>) -> Result<Array3<f32>, GptError> {
        let mut x = Pooled::from(self.embed(in_idx)?);
        awake(|| {
            for block in &self.trf_blocks {
                x = block.forward(&x)?.into();
            }
            Ok(self.final_norm.forward(&x))
        })
    }

    /// The head alone: (..., emb_dim) -> (..., vocab_size), for all positions or for some.
    ///
    /// ```
    /// use gpt::{GptConfig, GptModel, torch_rng::TorchRng};
    /// use ndarray::{array, s};
    ///
    /// let cfg = GptConfig {
    ///     vocab_size: 50, context_length: 8, emb_dim: 8,
    ///     n_heads: 2, n_layers: 1, ..GptConfig::GPT2_124M
    /// };
    /// let model = GptModel::new(cfg, &mut TorchRng::manual_seed(123))?;
    /// let hidden = model.forward_hidden(&array![[1, 2, 3], [4, 5, 6]])?;
    /// let of_last = model.logits(&hidden.slice(s![.., -1, ..])); // (batch, vocab_size)
    /// assert_eq!(of_last.shape(), [2, 50]);
    /// # Ok::<(), gpt::GptError>(())
    /// ```
    ///
    /// # Panics
    /// If the last dimension is not `emb_dim`.
    pub fn logits<D: Dimension>(&self, hidden: &ArrayRef<f32, D>) -> Array<f32, D> {
        if let Some(out_head) = &self.out_head {
            return out_head.forward(hidden);
        }
        let features = self.tok_emb.weight.ncols();
        let rows = hidden.to_shape((hidden.len() / features, features));
        let rows = rows.expect("the last dimension is emb_dim");
        let logits = matmul_in(self.tied_head_dtype, &rows, &self.tok_emb.weight.t());
        let mut shape = hidden.raw_dim();
        shape[hidden.ndim() - 1] = logits.ncols();
        let logits = logits.into_shape_with_order(shape);
        logits.expect("as many rows as the input")
    }

    /// The head's weight (vocab_size, emb_dim): its own, or the token embeddings.
    pub fn head_weight(&self) -> &Array2<f32> {
        match &self.out_head {
            Some(out_head) => &out_head.weight,
            None => &self.tok_emb.weight,
        }
    }

    /// Returns the attention weights and output of each block, one block at a time, computed on
    /// demand.
    ///
    /// [`logits`](Self::logits) of a block's `hidden` are the prediction of a model that ends after
    /// this block (the "logit lens"); for the last block, the model's prediction.
    ///
    /// ```
    /// use gpt::{GptConfig, GptModel, torch_rng::TorchRng};
    /// use ndarray::array;
    ///
    /// let cfg = GptConfig {
    ///     vocab_size: 50, context_length: 8, emb_dim: 8,
    ///     n_heads: 2, n_layers: 2, ..GptConfig::GPT2_124M
    /// };
    /// let model = GptModel::new(cfg, &mut TorchRng::manual_seed(123))?;
    /// let in_idx = array![[1, 2, 3]];
    /// let mut logits = Vec::new();
    /// for block in model.trace(&in_idx)? {
    ///     let block = block?;
    ///     assert_eq!(block.attention.dim(), (1, 2, 3, 3));
    ///     logits.push(model.logits(&block.hidden));
    /// }
    /// assert_eq!((logits.len(), &logits[1]), (2, &model.forward(&in_idx)?));
    /// # Ok::<(), gpt::GptError>(())
    /// ```
    ///
    /// # Errors
    /// As [`forward`](Self::forward).
    pub fn trace<'m>(
        &'m self,
        in_idx: &ArrayRef2<u32>,
    ) -> Result<impl Iterator<Item = Result<BlockTrace, GptError>> + use<'m>, GptError> {
        let mut x = self.embed(in_idx)?;
        Ok(self.trf_blocks.iter().map(move |block| {
            let attention = block.att.attention_weights(&block.norm1.forward(&x))?;
            x = block.forward(&x)?;
            let hidden = self.final_norm.forward(&x);
            Ok(BlockTrace {
                attention,
                residual: x.clone(),
                hidden,
            })
        }))
    }

    /// The mean cross-entropy of predicting `targets` (batch, num_tokens) from `in_idx` (book
    /// section
    /// 5.1.2): [`forward`](Self::forward) and `tensor_ops::cross_entropy` without all logits in
    /// memory. Targets that are [`IGNORE_INDEX`](tensor_ops::IGNORE_INDEX) don't count.
    ///
    /// # Errors
    /// Those of [`token_losses`](Self::token_losses); if no target counts.
    pub fn loss(&self, in_idx: &ArrayRef2<u32>, targets: &ArrayRef2<u32>) -> Result<f32, GptError> {
        let losses = self.token_losses(in_idx, targets)?;
        let total: f64 = losses.iter().map(|&loss| f64::from(loss)).sum();
        Ok((total / counted(targets)? as f64) as f32)
    }

    /// The cross-entropy of each of `targets` (batch, num_tokens), row after row, predicted from
    /// `in_idx`; 0 where the target is [`IGNORE_INDEX`](tensor_ops::IGNORE_INDEX). At most 1024
    /// rows of logits exist at a time.
    ///
    /// # Errors
    /// Those of [`forward`](Self::forward); if a target is neither in the vocabulary nor
    /// `IGNORE_INDEX`, or the numbers of inputs and targets differ.
    pub fn token_losses(
        &self,
        in_idx: &ArrayRef2<u32>,
        targets: &ArrayRef2<u32>,
    ) -> Result<Vec<f32>, GptError> {
        self.check_batch(in_idx, targets)?;
        let hidden = Pooled::from(self.forward_hidden(in_idx)?);
        let hidden = rows(&hidden); // (batch * num_tokens, emb_dim)
        let targets: Vec<u32> = targets.iter().copied().collect();
        let mut losses = Vec::with_capacity(targets.len());
        for first in (0..targets.len()).step_by(LOGIT_ROWS) {
            let last = (first + LOGIT_ROWS).min(targets.len());
            let hidden = hidden.slice(s![first..last, ..]);
            let logits = matmul_in(self.head_dtype(), &hidden, &self.head_weight().t());
            let logits = Pooled::from(logits);
            losses.extend(cross_entropy_rows(&logits, &targets[first..last]));
        }
        Ok(losses)
    }

    /// That the model can take a batch, and that there is a target for each of its ids.
    pub(crate) fn check_batch(
        &self,
        in_idx: &ArrayRef2<u32>,
        targets: &ArrayRef2<u32>,
    ) -> Result<(), GptError> {
        self.check()?;
        if in_idx.dim() != targets.dim() {
            return Err(GptError::Targets {
                inputs: in_idx.dim(),
                targets: targets.dim(),
            });
        }
        check_targets(targets, self.config.vocab_size)?;
        check_ids(in_idx, &self.tok_emb, &self.pos_emb)
    }
}

/// Returns the number of targets that count.
///
/// # Errors
/// If none does.
pub(crate) fn counted(targets: &ArrayRef2<u32>) -> Result<usize, GptError> {
    match counted_targets(targets) {
        0 => Err(GptError::NoTargets {
            targets: targets.len(),
        }),
        n => Ok(n),
    }
}

/// (batch, num_tokens, features) in row-major order as (batch * num_tokens, features).
pub(crate) fn rows(x: &ArrayRef3<f32>) -> ArrayView2<'_, f32> {
    let (batch, num_tokens, features) = x.dim();
    x.view()
        .into_shape_with_order((batch * num_tokens, features))
        .expect("row-major")
}

parameters!(GptModel {
    "tok_emb." tok_emb, "pos_emb." pos_emb, "trf_blocks." trf_blocks,
    "final_norm." final_norm, "out_head." out_head,
});
