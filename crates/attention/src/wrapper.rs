//! Several causal attention heads side by side, their outputs concatenated (book listing 3.4).
//!
//! [`MultiHeadAttention`](crate::MultiHeadAttention) does the same work in one module and adds an
//! output projection.

use ndarray::{Array, ArrayRef, Axis, RemoveAxis, concatenate};
use tensor_ops::parameters;
use torch_rng::TorchRng;

use crate::{AttentionConfig, AttentionError, CausalAttention};

/// The book's `MultiHeadAttentionWrapper`.
#[derive(Clone, Debug, PartialEq)]
pub struct MultiHeadAttentionWrapper {
    /// `num_heads` of them, each d_in -> d_out
    pub heads: Vec<CausalAttention>,
}

impl MultiHeadAttentionWrapper {
    /// Draws head after head.
    ///
    /// # Errors
    /// If a size is 0 or the dropout rate is not from 0 to 1.
    pub fn new(config: AttentionConfig, rng: &mut TorchRng) -> Result<Self, AttentionError> {
        config.check(config.num_heads)?;
        let heads = (0..config.num_heads)
            .map(|_| CausalAttention::new(config, rng))
            .collect::<Result<_, _>>()?;
        Ok(Self { heads })
    }

    /// The listing's `forward`: (..., num_tokens, d_in) -> (..., num_tokens, num_heads * d_out), a
    /// sequence or a batch of them.
    ///
    /// With a generator it is in training, and each head drops weights, in order; without it is in
    /// evaluation.
    ///
    /// # Errors
    /// If there are more tokens than the context length, or not `d_in` features.
    ///
    /// # Panics
    /// If the input has one dimension.
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
        // torch.cat(.., dim=-1)
        let side_by_side = concatenate(Axis(x.ndim() - 1), &views);
        Ok(side_by_side.expect("the heads have one shape, and there is at least one"))
    }

    /// [`forward_plain`](Self::forward_plain), as in evaluation.
    ///
    /// # Errors
    /// As there.
    pub fn forward<D: RemoveAxis>(
        &self,
        x: &ArrayRef<f32, D>,
    ) -> Result<Array<f32, D>, AttentionError> {
        self.forward_plain(x, None)
    }
}

parameters!(MultiHeadAttentionWrapper { "heads." heads });
