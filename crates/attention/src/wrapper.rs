//! Multi-head attention that consists of several causal attention heads, whose outputs are
//! concatenated (book listing 3.4).
//!
//! [`MultiHeadAttention`](crate::MultiHeadAttention) computes all heads in a single module and adds
//! an output projection.

use ndarray::{Array, ArrayRef, Axis, RemoveAxis, concatenate};
use tensor_ops::parameters;
use torch_rng::TorchRng;

use crate::{AttentionConfig, AttentionError, CausalAttention};

/// Several attention heads that process the same input. This module corresponds to the class
/// `MultiHeadAttentionWrapper` of the book (listing 3.4).
#[derive(Clone, Debug, PartialEq)]
pub struct MultiHeadAttentionWrapper {
    /// The `num_heads` attention heads, each with `d_in` inputs and `d_out` outputs.
    pub heads: Vec<CausalAttention>,
}

impl MultiHeadAttentionWrapper {
    /// Creates a module whose heads have random weights. All weights of a head are drawn before
    /// those of the next head.
    ///
    /// # Errors
    ///
    /// Returns [`AttentionError::Zero`] if a size is 0, and [`AttentionError::Dropout`] if the
    /// dropout probability isn't in [0, 1].
    pub fn new(config: AttentionConfig, rng: &mut TorchRng) -> Result<Self, AttentionError> {
        config.check(config.num_heads)?;
        let heads = (0..config.num_heads)
            .map(|_| CausalAttention::new(config, rng))
            .collect::<Result<_, _>>()?;
        Ok(Self { heads })
    }

    /// Computes the outputs of all heads and concatenates them along the last dimension, with the
    /// code of the book's listing 3.4.
    ///
    /// The input is a sequence or a batch of sequences, of shape `(..., num_tokens, d_in)`, and the
    /// output has the shape `(..., num_tokens, num_heads * d_out)`.
    ///
    /// If `training` contains a random number generator, the module is in training mode, and each
    /// head in turn draws a dropout mask and drops some of its attention weights. If `training` is
    /// `None`, the module is in evaluation mode, and no weights are dropped.
    ///
    /// # Errors
    ///
    /// Returns [`AttentionError::Features`] if the last dimension of `x` isn't `d_in`, and
    /// [`AttentionError::TooLong`] if a sequence has more tokens than the context length.
    ///
    /// # Panics
    ///
    /// Panics if `x` has fewer than two dimensions, if the list of heads is empty, or if a layer of
    /// a head has been replaced by one with an incompatible shape.
    pub fn forward_plain<D: RemoveAxis>(
        &self,
        x: &ArrayRef<f32, D>,
        mut training: Option<&mut TorchRng>,
    ) -> Result<Array<f32, D>, AttentionError> {
        let mut outputs = Vec::with_capacity(self.heads.len());
        for head in &self.heads {
            outputs.push(head.forward_plain(x, training.as_deref_mut())?.0);
        }
        let views: Vec<_> = outputs.iter().map(|output| output.view()).collect();
        // The PyTorch equivalent is `torch.cat(outputs, dim=-1)`.
        let side_by_side = concatenate(Axis(x.ndim() - 1), &views);
        Ok(side_by_side.expect("the heads have one shape, and there is at least one"))
    }

    /// Computes the output in evaluation mode, that is, without dropout. The output is the same as
    /// that of [`forward_plain`](Self::forward_plain) without a generator.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`forward_plain`](Self::forward_plain).
    pub fn forward<D: RemoveAxis>(
        &self,
        x: &ArrayRef<f32, D>,
    ) -> Result<Array<f32, D>, AttentionError> {
        self.forward_plain(x, None)
    }
}

parameters!(MultiHeadAttentionWrapper { "heads." heads });
