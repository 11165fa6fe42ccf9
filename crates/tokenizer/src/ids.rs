//! Text to a batch of one row of ids and back, as chapter 5 passes it to the model (section 5.1.1).

use ndarray::{Array2, ArrayRef2};

use crate::error::TokenizerError;
use crate::tokenizer::Tokenizer;

/// Returns the ids of a text as a batch of one, (1, n_tokens); `<|endoftext|>` is allowed, as in
/// the book.
///
/// # Errors
/// If the tokenizer has no ids for a part of the text, as
/// [`SimpleTokenizerV1`](crate::SimpleTokenizerV1) for a word that its vocabulary lacks.
///
/// ```
/// let tokenizer = tokenizer::Gpt2Tokenizer::new();
/// let ids = tokenizer::text_to_token_ids("Every effort moves you", &tokenizer)?; // (1, 4)
/// assert_eq!(ids, ndarray::array![[6109, 3626, 6100, 345]]);
/// assert_eq!(tokenizer::token_ids_to_text(&ids, &tokenizer)?, "Every effort moves you");
/// # Ok::<(), tokenizer::TokenizerError>(())
/// ```
pub fn text_to_token_ids(
    text: &str,
    tokenizer: &(impl Tokenizer + ?Sized),
) -> Result<Array2<u32>, TokenizerError> {
    let ids = tokenizer.encode(text)?;
    let encoded = Array2::from_shape_vec((1, ids.len()), ids); // (1, n_tokens)
    Ok(encoded.expect("n ids fill one row of n"))
}

/// Returns the text of one row of ids, (1, n_tokens), with U+FFFD where a character was cut, as in
/// Python.
///
/// # Errors
/// [`TokenizerError::NotOneRow`] for another number of rows than one;
/// [`TokenizerError::UnknownId`] for an id that the vocabulary lacks.
pub fn token_ids_to_text(
    token_ids: &ArrayRef2<u32>,
    tokenizer: &(impl Tokenizer + ?Sized),
) -> Result<String, TokenizerError> {
    if token_ids.nrows() != 1 {
        return Err(TokenizerError::NotOneRow {
            rows: token_ids.nrows(),
        });
    }
    let ids: Vec<u32> = token_ids.iter().copied().collect(); // (n_tokens)
    tokenizer.decode_lossy(&ids)
}
