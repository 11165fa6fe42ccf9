//! Inspection of the computations that a model performs for a text. For each token, this module
//! computes the loss and the most likely next tokens. For each block, it computes the attention
//! weights, and the predictions that the model would make if this block were the last one (the
//! "logit lens").
//!
//! To save memory, the blocks are inspected one after the other, so that the attention weights of
//! only one block are in memory at a time. Similarly, logits are computed for at most
//! [`Inspection::ROWS`] tokens at a time.

use std::fmt;

use gpt::GptModel;
use ndarray::{Array2, Array3, ArrayRef1, ArrayView2, Axis};
use tensor_ops::cross_entropy_rows;

use crate::GenerateError;
use crate::filters::{likeliest, softmax_with_temperature};

/// The losses and predictions of a model for a text, which are stored in the field `tokens`. The
/// method [`blocks`](Self::blocks) also computes the attention weights and the predictions of each
/// block.
///
/// ```
/// use generate::Inspection;
/// use gpt::{GptConfig, GptModel};
/// use torch_rng::TorchRng;
///
/// let config = GptConfig {
///     vocab_size: 50, context_length: 8, emb_dim: 8,
///     n_heads: 2, n_layers: 1, ..GptConfig::GPT2_124M
/// };
/// let model = GptModel::new(config, &mut TorchRng::manual_seed(123))?;
/// let name = |id: u32| id.to_string();
/// let inspection = Inspection::of(&model, &name, &[1, 2, 3], Inspection::TOP, |_| ())?;
/// assert_eq!(inspection.tokens[2].next.len(), 10);
/// for block in inspection.blocks(0, 3)? {
///     assert_eq!(block?.attention.dim(), (2, 3, 3));
/// }
/// # Ok::<(), generate::GenerateError>(())
/// ```
pub struct Inspection<'m> {
    model: &'m GptModel,
    text_of: &'m (dyn Fn(u32) -> String + Sync),
    /// IDs of the tokens of the text, of shape (1, num_tokens).
    ids: Array2<u32>,
    /// Tokens of the text, in order, together with the model's predictions.
    pub tokens: Vec<Token>,
}

/// A token of the text, together with the loss of this token and the predictions of the next token.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Token {
    /// ID of the token in the vocabulary.
    pub id: u32,
    /// Text of the token.
    pub text: String,
    /// Cross-entropy loss of the model's prediction of this token, in nats, or `None` for the first
    /// token of the text.
    pub loss: Option<f32>,
    /// Most likely next tokens, in descending order of probability.
    pub next: Vec<Candidate>,
}

/// A possible next token.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Candidate {
    /// ID of the token in the vocabulary.
    pub id: u32,
    /// Text of the token.
    pub text: String,
    /// Probability that the model assigns to this token.
    pub probability: f32,
    /// Logit of the token. It differs from the natural logarithm of the probability by a constant,
    /// which is the same for all candidates at this position.
    pub logit: f32,
}

/// The attention weights, the output and the predictions of a block.
#[derive(Clone, Debug, PartialEq)]
pub struct BlockView {
    /// Attention weights of each head, of shape (num_heads, num_tokens, num_tokens). Each row sums
    /// to 1.
    pub attention: Array3<f32>,
    /// Output of this transformer block, which is the residual stream after the block, before any
    /// layer normalization is applied to it. The shape is (num_tokens, emb_dim).
    pub residual: Array2<f32>,
    /// Predictions that the model would make if this block were the last one (the logit lens). For
    /// each token of the text, starting at the index `from` that was passed to
    /// [`Inspection::blocks`], there is one list of the most likely next tokens.
    pub predictions: Vec<Vec<Candidate>>,
}

impl<'m> Inspection<'m> {
    /// Maximum number of tokens whose logits are computed at a time.
    pub const ROWS: usize = 64;
    /// Recommended value for the argument `top` of [`Inspection::of`] and [`blocks`](Self::blocks),
    /// which is the number of most likely next tokens to list for each token of the text.
    pub const TOP: usize = 10;

    /// Runs the model on a text. For each token of the text, stores its loss and the `top` most
    /// likely next tokens. The function `text_of` converts a token ID to the text of the token.
    ///
    /// The function `each` is called once for each token of the text, in order. It receives the
    /// logits of the next token, of shape (vocab_size), which aren't stored otherwise.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is empty, if it is longer than the model's context, if a token
    /// isn't in the model's vocabulary, or if a logit is NaN or plus infinity.
    pub fn of(
        model: &'m GptModel,
        text_of: &'m (dyn Fn(u32) -> String + Sync),
        ids: &[u32],
        top: usize,
        mut each: impl FnMut(&ArrayRef1<f32>),
    ) -> Result<Self, GenerateError> {
        let mut inspection = Self {
            model,
            text_of,
            ids: ArrayView2::from_shape((1, ids.len()), ids)
                .expect("a row of all ids")
                .to_owned(),
            tokens: Vec::with_capacity(ids.len()),
        };
        let hidden = model.forward_hidden(&inspection.ids)?;
        let mut loss = None;
        for first in (0..ids.len()).step_by(Self::ROWS) {
            let logits = inspection.logits(&hidden, first, (first + Self::ROWS).min(ids.len()));
            let targets = &ids[first + 1..(first + 1 + logits.nrows()).min(ids.len())];
            let predicted = logits.slice_axis(Axis(0), (..targets.len()).into());
            let mut losses = cross_entropy_rows(&predicted, targets).into_iter();
            for (&id, logits) in ids[first..].iter().zip(logits.outer_iter()) {
                each(&logits);
                inspection.tokens.push(Token {
                    id,
                    text: text_of(id),
                    loss,
                    next: inspection.candidates(&logits, top)?,
                });
                loss = losses.next();
            }
        }
        Ok(inspection)
    }

    /// Returns an iterator over the transformer blocks of the model. Each call of its method `next`
    /// computes a single block: its attention weights, its output, and the `top` most likely next
    /// tokens for each token of the text whose index is at least `from`. If `from` is past the end
    /// of the text, no predictions are computed.
    ///
    /// # Errors
    ///
    /// Returns an error if the model can't process the text. If a logit in the predictions of a
    /// block is NaN or plus infinity, the iterator returns an error instead of this block.
    pub fn blocks(
        &self,
        from: usize,
        top: usize,
    ) -> Result<impl Iterator<Item = Result<BlockView, GenerateError>>, GenerateError> {
        let len = self.tokens.len();
        Ok(self.model.trace(&self.ids)?.map(move |block| {
            let block = block?;
            let mut predictions = Vec::with_capacity(len.saturating_sub(from));
            for first in (from..len).step_by(Self::ROWS) {
                let logits = self.logits(&block.hidden, first, (first + Self::ROWS).min(len));
                for logits in logits.outer_iter() {
                    predictions.push(self.candidates(&logits, top)?);
                }
            }
            Ok(BlockView {
                attention: block.attention.remove_axis(Axis(0)),
                residual: block.residual.remove_axis(Axis(0)),
                predictions,
            })
        }))
    }

    /// Computes the logits for the positions from `first` to `last - 1`, of shape (last - first,
    /// vocab_size).
    fn logits(&self, hidden: &Array3<f32>, first: usize, last: usize) -> Array2<f32> {
        let rows = hidden.slice_axis(Axis(1), (first..last).into());
        self.model.logits(&rows).remove_axis(Axis(0))
    }

    fn candidates(
        &self,
        logits: &ArrayRef1<f32>,
        top: usize,
    ) -> Result<Vec<Candidate>, GenerateError> {
        let probabilities = softmax_with_temperature(logits, 1.0)?; // (vocab_size)
        let likeliest = likeliest(logits, top).into_iter();
        let candidate = |id: u32| Candidate {
            id,
            text: (self.text_of)(id),
            probability: probabilities[id as usize],
            logit: logits[id as usize],
        };
        Ok(likeliest.map(candidate).collect())
    }
}

/// The debug output contains neither the model nor the tokens.
impl fmt::Debug for Inspection<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inspection")
            .field("num_tokens", &self.tokens.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use ndarray::Slice;
    use torch_rng::TorchRng;

    use super::*;

    #[test]
    fn losses_and_candidates_are_those_of_the_library_and_the_last_block_says_what_the_model_says()
    {
        let config = gpt::GptConfig {
            vocab_size: 30,
            context_length: 90,
            emb_dim: 8,
            n_heads: 2,
            n_layers: 2,
            ..gpt::GptConfig::GPT2_124M
        };
        let model = GptModel::new(config, &mut TorchRng::manual_seed(5)).unwrap();
        // Choose a text that has more than [`Inspection::ROWS`] tokens, so that its logits are
        // computed in two parts. The test checks that the losses are correct in both parts.
        let ids: Vec<u32> = (0..Inspection::ROWS as u32 + 9)
            .map(|i| i * i % 30)
            .collect();
        let name = |id: u32| id.to_string();
        let inspection = Inspection::of(&model, &name, &ids, 3, |_| ()).unwrap();
        let input = inspection.ids.view();
        let (inputs, targets) = (Slice::from(..-1), Slice::from(1..));
        let [inputs, targets] = [inputs, targets].map(|part| input.slice_axis(Axis(1), part));
        let losses = model.token_losses(&inputs, &targets).unwrap();
        let shown = inspection.tokens.iter().filter_map(|token| token.loss);
        let shown: Vec<f32> = shown.collect();
        assert_eq!(shown.len(), losses.len());
        for (shown, loss) in shown.iter().zip(&losses) {
            assert!((shown - loss).abs() < 1e-5, "{shown} {loss}");
        }
        let beyond = inspection.blocks(ids.len() + 1, 3).unwrap();
        assert!(
            beyond
                .map(Result::unwrap)
                .all(|block| block.predictions.is_empty())
        );
        fn assert_shared<T: Send + Sync + fmt::Debug>(_: &T) {}
        assert_shared(&inspection);
        let last = inspection.blocks(0, 3).unwrap().last().unwrap().unwrap();
        let hidden = model
            .final_norm
            .forward(&last.residual)
            .insert_axis(Axis(0));
        assert_eq!(hidden, model.forward_hidden(&inspection.ids).unwrap());
        for (token, predictions) in inspection.tokens.iter().zip(&last.predictions) {
            for (next, prediction) in token.next.iter().zip(predictions) {
                assert_eq!(next.id, prediction.id);
                assert!((next.probability - prediction.probability).abs() < 1e-5);
            }
        }
    }
}
