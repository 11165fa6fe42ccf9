//! Validates token ids and turns them into token plus position embeddings (book section 2.8).

use ndarray::{Array3, ArrayRef2, Axis};
use tensor_ops::{Embedding, IGNORE_INDEX};

use crate::GptError;

/// Token ids (batch, num_tokens) -> token embeddings plus positional embeddings (batch, num_tokens,
/// emb_dim).
///
/// # Errors
/// If the text is empty, `tok_emb` has no row for a token, or the text has more tokens than
/// `pos_emb` has rows.
pub(crate) fn embed(
    ids: &ArrayRef2<u32>,
    tok_emb: &Embedding,
    pos_emb: &Embedding,
) -> Result<Array3<f32>, GptError> {
    check_ids(ids, tok_emb, pos_emb)?;
    let positions = (..ids.ncols()).into();
    let mut x = tok_emb.forward(ids);
    x += &pos_emb.weight.slice_axis(Axis(0), positions);
    Ok(x)
}

/// Validates ids (batch, num_tokens): some tokens, not too many, each in the vocabulary.
pub(crate) fn check_ids(
    ids: &ArrayRef2<u32>,
    tok_emb: &Embedding,
    pos_emb: &Embedding,
) -> Result<(), GptError> {
    let (batch, num_tokens) = ids.dim();
    let context_length = pos_emb.weight.nrows();
    if batch == 0 || num_tokens == 0 {
        return Err(GptError::Empty { batch, num_tokens });
    }
    if num_tokens > context_length {
        return Err(GptError::TooLong {
            num_tokens,
            context_length,
        });
    }
    check_vocabulary_of(ids, tok_emb.weight.nrows())
}

/// Checks that each of the ids (batch, num_tokens) is in the vocabulary.
fn check_vocabulary_of(ids: &ArrayRef2<u32>, vocab_size: usize) -> Result<(), GptError> {
    let mut rows = ids.outer_iter().enumerate();
    rows.try_for_each(|(row, ids)| check_vocabulary(vocab_size, row, 0, ids.iter().copied()))
}

/// Checks that each of the targets (batch, num_tokens) is in the vocabulary or is
/// [`IGNORE_INDEX`].
pub(crate) fn check_targets(targets: &ArrayRef2<u32>, vocab_size: usize) -> Result<(), GptError> {
    let mut rows = targets.outer_iter().enumerate();
    rows.try_for_each(|(row, targets)| {
        let counted = targets
            .iter()
            .map(|&id| if id == IGNORE_INDEX { 0 } else { id });
        check_vocabulary(vocab_size, row, 0, counted)
    })
}

/// Checks that the ids of sequence `row`, from its token `first` on, are in the vocabulary.
///
/// # Errors
/// [`GptError::TokenOutOfRange`] names the first that is not, and its place.
pub fn check_vocabulary(
    vocab_size: usize,
    row: usize,
    first: usize,
    ids: impl IntoIterator<Item = u32>,
) -> Result<(), GptError> {
    let mut ids = ids.into_iter().zip(first..);
    match ids.find(|&(id, _)| id as usize >= vocab_size) {
        Some((id, column)) => Err(GptError::TokenOutOfRange {
            id,
            row,
            column,
            vocab_size,
        }),
        None => Ok(()),
    }
}
