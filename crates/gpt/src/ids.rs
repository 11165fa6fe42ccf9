//! Checks token IDs and computes their embeddings (section 2.8 of the book).

use ndarray::{Array3, ArrayRef2, Axis};
use tensor_ops::{Embedding, IGNORE_INDEX};

use crate::GptError;

/// Returns the sum of the token embeddings and the position embeddings. `ids` has the shape
/// (batch, num_tokens), and the result has the shape (batch, num_tokens, emb_dim).
///
/// # Errors
///
/// Returns an error if `ids` is empty, if an ID isn't less than the number of rows of `tok_emb`, or
/// if the sequences have more tokens than `pos_emb` has rows.
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

/// Checks that `ids` contains at least one token, that its sequences aren't longer than the context
/// length, and that all IDs are in the vocabulary. `ids` has the shape (batch, num_tokens).
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

/// Checks that all token IDs are in the vocabulary. `ids` has the shape (batch, num_tokens).
fn check_vocabulary_of(ids: &ArrayRef2<u32>, vocab_size: usize) -> Result<(), GptError> {
    let mut rows = ids.outer_iter().enumerate();
    rows.try_for_each(|(row, ids)| check_vocabulary(vocab_size, row, 0, ids.iter().copied()))
}

/// Checks that each target is either in the vocabulary or equal to [`IGNORE_INDEX`]. `targets` has
/// the shape (batch, num_tokens).
pub(crate) fn check_targets(targets: &ArrayRef2<u32>, vocab_size: usize) -> Result<(), GptError> {
    let mut rows = targets.outer_iter().enumerate();
    rows.try_for_each(|(row, targets)| {
        let counted = targets
            .iter()
            .map(|&id| if id == IGNORE_INDEX { 0 } else { id });
        check_vocabulary(vocab_size, row, 0, counted)
    })
}

/// Checks that all token IDs are in a vocabulary of `vocab_size` tokens.
///
/// `ids` contains consecutive token IDs of one sequence in a batch. `row` is the index of this
/// sequence in the batch, and `first` is the position of the first ID in the sequence. These two
/// numbers are needed only for the error, which describes where in the batch an invalid ID is.
///
/// # Errors
///
/// Returns [`GptError::TokenOutOfRange`], which contains the first invalid ID and its position.
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
