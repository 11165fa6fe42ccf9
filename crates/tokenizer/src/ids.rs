//! Functions that convert a text to a batch with one row of token IDs and back, as in section 5.1.1
//! of the book.

use ndarray::{Array2, ArrayRef2};

use crate::error::TokenizerError;
use crate::tokenizer::Tokenizer;

/// Encodes text and returns its IDs as a batch of shape (1, n_tokens). As in the book,
/// `<|endoftext|>` is encoded as the special token.
///
/// # Errors
/// Returns an error if the tokenizer can't encode the text. For example, a
/// [`SimpleTokenizerV1`](crate::SimpleTokenizerV1) can't encode a word that its vocabulary doesn't
/// contain.
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

/// Decodes a batch of shape (1, n_tokens) and returns the text. As in Python, invalid UTF-8 is
/// replaced with U+FFFD.
///
/// # Errors
/// Returns [`TokenizerError::NotOneRow`] if the batch doesn't have exactly one row, and
/// [`TokenizerError::UnknownId`] if the batch contains an ID that isn't in the vocabulary.
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
