//! The forward pass of the GPT model without dropout, which is used for generating text and for
//! evaluation, and the loss functions of the model.
//!
//! The definition of the struct [`GptModel`] and the forward pass from the book's listing 4.7 are
//! in `plain.rs`. The forward pass with dropout and the backward pass are in `model_train.rs`.

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

/// Largest number of rows of logits that a loss function computes at a time. With the vocabulary of
/// GPT-2, this many rows need 206 MB of memory.
pub const LOGIT_ROWS: usize = 1024;

/// The attention weights and the output of a single transformer block, as returned by
/// [`GptModel::trace`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct BlockTrace {
    /// Attention weights of this block, of shape (batch, num_heads, num_tokens, num_tokens). Each
    /// row contains the weights with which a token attends to itself and to the tokens before it.
    /// All other elements of the row are 0.
    pub attention: Array4<f32>,
    /// Output of this block, of shape (batch, num_tokens, emb_dim). It is the residual stream after
    /// this block and is the input of the next block.
    pub residual: Array3<f32>,
    /// Result of applying the model's final layer normalization to the output of this block, of
    /// shape (batch, num_tokens, emb_dim).
    pub hidden: Array3<f32>,
}

impl GptModel {
    /// Creates a model whose weights are all 0. Use it to accumulate the gradients of another
    /// model, or to load weights into it.
    ///
    /// # Errors
    ///
    /// Returns an error if the configuration isn't valid.
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

    /// Sets the number format for the matrix products of all linear layers and of the output head.
    /// In the forward and the backward pass, both operands of each product are rounded to this
    /// format first, as in PyTorch's `torch.autocast("cpu", dtype=...)`. The default is float32.
    ///
    /// The weights, gradients and sums are always stored in float32, and attention, normalization,
    /// GELU and losses are always computed in float32. Training with bfloat16 is faster on a CPU
    /// with bf16 instructions ([`has_bf16`](tensor_ops::has_bf16)), but slower on other CPUs.
    ///
    /// # Errors
    ///
    /// Returns an error if `dtype` is neither float32 nor bfloat16.
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

    /// Returns the number format that the matrix product of the output head uses: the inputs and
    /// weights of the head are rounded to this format before they are multiplied.
    pub(crate) fn head_dtype(&self) -> Dtype {
        let own = self.out_head.as_ref().map(|out_head| out_head.dtype);
        own.unwrap_or(self.tied_head_dtype)
    }

    /// Returns the model's configuration.
    ///
    /// The number of layers (`n_layers`) and whether the output head is tied (`tied`) are
    /// determined from the model's current fields, because a caller can add or remove transformer
    /// blocks and the output head after the model was created. All other values are those with
    /// which the model was created. To find out whether the current fields still match them, use
    /// [`check`](Self::check).
    pub fn config(&self) -> GptConfig {
        GptConfig {
            tied: self.out_head.is_none(),
            n_layers: self.trf_blocks.len(),
            ..self.config
        }
    }

    /// Computes the logits for each token of the input without dropout.
    ///
    /// `in_idx` contains token IDs and has the shape (batch, num_tokens). The result has the shape
    /// (batch, num_tokens, vocab_size). [`forward_plain`](Self::forward_plain) computes the same
    /// logits with the code of the book's listing 4.7, which is slower.
    ///
    /// # Errors
    ///
    /// Returns an error if the input is empty, if a sequence is longer than the context length, if
    /// a token ID isn't in the vocabulary, or if a public field doesn't match the configuration
    /// ([`check`](Self::check)).
    pub fn forward(&self, in_idx: &ArrayRef2<u32>) -> Result<Array3<f32>, GptError> {
        let hidden = Pooled::from(self.forward_hidden(in_idx)?);
        Ok(self.logits(&hidden))
    }

    /// Computes the input of the first transformer block without dropout. It is the sum of the
    /// token embeddings and the position embeddings.
    ///
    /// `in_idx` contains token IDs and has the shape (batch, num_tokens). The result has the shape
    /// (batch, num_tokens, emb_dim).
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`forward`](Self::forward).
    pub fn embed(&self, in_idx: &ArrayRef2<u32>) -> Result<Array3<f32>, GptError> {
        self.check()?;
        embed(in_idx, &self.tok_emb, &self.pos_emb)
    }

    /// Computes the residual stream before, between and after the transformer blocks.
    ///
    /// The result consists of `n_layers` + 1 arrays of shape (batch, num_tokens, emb_dim). The
    /// first array is the sum of the token and position embeddings, and each of the following
    /// arrays is the output of one transformer block.
    ///
    /// Hugging Face's Transformers library calls these arrays `hidden_states`, but applies the
    /// final layer normalization to the last of them. To get the normalized array, use
    /// [`forward_hidden`](Self::forward_hidden).
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`forward`](Self::forward).
    pub fn hidden_states(&self, in_idx: &ArrayRef2<u32>) -> Result<Vec<Array3<f32>>, GptError> {
        let mut states = vec![self.embed(in_idx)?];
        for block in &self.trf_blocks {
            states.push(block.forward(&states[states.len() - 1])?);
        }
        Ok(states)
    }

    /// Computes the output of the last block after the final layer normalization, but doesn't apply
    /// the output head.
    ///
    /// `in_idx` contains token IDs and has the shape (batch, num_tokens). The result has the shape
    /// (batch, num_tokens, emb_dim).
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`forward`](Self::forward).
    pub fn forward_hidden(&self, in_idx: &ArrayRef2<u32>) -> Result<Array3<f32>, GptError> {
        let mut x = Pooled::from(self.embed(in_idx)?);
        awake(|| {
            for block in &self.trf_blocks {
                x = block.forward(&x)?.into();
            }
            Ok(self.final_norm.forward(&x))
        })
    }

    /// Applies the output head to hidden states of shape (..., emb_dim), which must already be
    /// normalized. The result has the shape (..., vocab_size).
    ///
    /// You can pass the hidden states of all positions, or only those of selected positions. The
    /// following example computes the logits for the last token of each sequence:
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
    ///
    /// Panics if the last dimension of `hidden` isn't `emb_dim`.
    pub fn logits<D: Dimension>(&self, hidden: &ArrayRef<f32, D>) -> Array<f32, D> {
        if let Some(out_head) = &self.out_head {
            return out_head.forward(hidden);
        }
        let features = self.tok_emb.weight.ncols();
        let rows = hidden.to_shape((hidden.len() / features, features));
        let rows = rows.expect("the last dimension must be emb_dim");
        let logits = matmul_in(self.tied_head_dtype, &rows, &self.tok_emb.weight.t());
        let mut shape = hidden.raw_dim();
        shape[hidden.ndim() - 1] = logits.ncols();
        let logits = logits.into_shape_with_order(shape);
        logits.expect("the logits have as many rows as the input")
    }

    /// Returns the weight matrix of the output head, of shape (vocab_size, emb_dim). If the output
    /// head is tied, this is the weight matrix of the token embedding.
    pub fn head_weight(&self) -> &Array2<f32> {
        match &self.out_head {
            Some(out_head) => &out_head.weight,
            None => &self.tok_emb.weight,
        }
    }

    /// Returns an iterator over the attention weights and the output of each transformer block. A
    /// block isn't computed until the iterator reaches it.
    ///
    /// To get the logits that the model would compute if it ended after a certain block (the "logit
    /// lens"), apply [`logits`](Self::logits) to the field `hidden` of this block. For the last
    /// block, they are equal to the logits of the whole model.
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
    ///
    /// Returns the same errors as [`forward`](Self::forward).
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

    /// Computes the mean cross-entropy of predicting `targets` from `in_idx` (section 5.1.2 of the
    /// book). Both arrays have the shape (batch, num_tokens).
    ///
    /// The loss is the same as if `tensor_ops::cross_entropy` were applied to the logits returned
    /// by [`forward`](Self::forward), but at most 1,024 rows of logits are in memory at a time.
    /// Targets that are equal to [`IGNORE_INDEX`](tensor_ops::IGNORE_INDEX) don't contribute to the
    /// mean.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`token_losses`](Self::token_losses). Also returns an error if
    /// all targets are equal to `IGNORE_INDEX`.
    pub fn loss(&self, in_idx: &ArrayRef2<u32>, targets: &ArrayRef2<u32>) -> Result<f32, GptError> {
        let losses = self.token_losses(in_idx, targets)?;
        let total: f64 = losses.iter().map(|&loss| f64::from(loss)).sum();
        Ok((total / counted(targets)? as f64) as f32)
    }

    /// Computes the cross-entropy of predicting each element of `targets` from `in_idx`. Both
    /// arrays have the shape (batch, num_tokens).
    ///
    /// Returns one loss per target, in row-major order. If a target is equal to
    /// [`IGNORE_INDEX`](tensor_ops::IGNORE_INDEX), its loss is 0. At most 1,024 rows of logits are
    /// in memory at a time.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`forward`](Self::forward). Also returns an error if the shapes
    /// of `in_idx` and `targets` differ, or if a target is neither in the vocabulary nor
    /// `IGNORE_INDEX`.
    pub fn token_losses(
        &self,
        in_idx: &ArrayRef2<u32>,
        targets: &ArrayRef2<u32>,
    ) -> Result<Vec<f32>, GptError> {
        self.check_batch(in_idx, targets)?;
        let hidden = Pooled::from(self.forward_hidden(in_idx)?);
        let hidden = rows(&hidden); // shape: (batch * num_tokens, emb_dim)
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

    /// Checks that the model's fields match its configuration, that `in_idx` and `targets` have the
    /// same shape, that the sequences aren't empty or longer than the context length, and that all
    /// IDs are in the vocabulary. Targets may also be equal to `IGNORE_INDEX`.
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

/// Returns the number of targets that contribute to the loss. All targets contribute except those
/// that are equal to `IGNORE_INDEX`.
///
/// # Errors
///
/// Returns an error if no target contributes to the loss.
pub(crate) fn counted(targets: &ArrayRef2<u32>) -> Result<usize, GptError> {
    match counted_targets(targets) {
        0 => Err(GptError::NoTargets {
            targets: targets.len(),
        }),
        n => Ok(n),
    }
}

/// Returns a view of a row-major array in which the first two dimensions are merged. `x` has the
/// shape (batch, num_tokens, features), and the view has the shape (batch * num_tokens, features).
pub(crate) fn rows(x: &ArrayRef3<f32>) -> ArrayView2<'_, f32> {
    let (batch, num_tokens, features) = x.dim();
    x.view()
        .into_shape_with_order((batch * num_tokens, features))
        .expect("the array is row-major")
}

parameters!(GptModel {
    "tok_emb." tok_emb, "pos_emb." pos_emb, "trf_blocks." trf_blocks,
    "final_norm." final_norm, "out_head." out_head,
});
