//! A model at work on a text: each token's loss and likeliest successors, and, block by block, the
//! attention of its heads and the prediction there.
//!
//! Blocks are inspected one after the other, and logits are computed a few rows at a time, so
//! memory contains the weights of one block.

use std::fmt;

use gpt::GptModel;
use ndarray::{Array2, Array3, ArrayRef1, ArrayView2, Axis};
use tensor_ops::cross_entropy_rows;

use crate::GenerateError;
use crate::filters::{likeliest, softmax_with_temperature};

/// A model at work on a text.
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
    /// (1, num_tokens)
    ids: Array2<u32>,
    /// The text's.
    pub tokens: Vec<Token>,
}

/// A token, and the model's predictions after it.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Token {
    /// Its number in the vocabulary.
    pub id: u32,
    /// Its text.
    pub text: String,
    /// The cross-entropy of its prediction; none of the first.
    pub loss: Option<f32>,
    /// The likeliest next tokens, the likeliest first.
    pub next: Vec<Candidate>,
}

/// A token that may come next.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Candidate {
    /// Its number in the vocabulary.
    pub id: u32,
    /// Its text.
    pub text: String,
    /// The model's.
    pub probability: f32,
    /// Its logarithm, plus a number that all candidates share.
    pub logit: f32,
}

/// A block's attention and prediction.
#[derive(Clone, Debug, PartialEq)]
pub struct BlockView {
    /// (num_heads, num_tokens, num_tokens): a row sums to 1.
    pub attention: Array3<f32>,
    /// (num_tokens, emb_dim): the residual stream after this block, before any norm.
    pub residual: Array2<f32>,
    /// The likeliest next tokens if the model ended here (the "logit lens"), after each token that
    /// was asked for.
    pub predictions: Vec<Vec<Candidate>>,
}

impl<'m> Inspection<'m> {
    /// Rows of logits that are made at once.
    pub const ROWS: usize = 64;
    /// The usual number of candidates.
    pub const TOP: usize = 10;

    /// Looks at a text, with the `top` likeliest tokens after each of its tokens; `text_of` gives
    /// the text of an id, and `each` gets the logits (vocab_size) after each token, which are not
    /// kept.
    ///
    /// # Errors
    /// If the text is empty, a token is unknown, or the text exceeds the context.
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

    /// One block after the other; of each the `top` likeliest next tokens after those from `from`
    /// on, none if the text ends before.
    ///
    /// # Errors
    /// If a block's output is not a number.
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

    /// (last - first, vocab_size)
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

/// Shows neither the model nor the text.
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
        // More than the rows of logits that are made at once.
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
