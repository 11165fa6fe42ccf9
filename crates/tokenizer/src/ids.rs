//! Text to a batch of one row of ids and back, as chapter 5 passes it to the model (section 5.1.1).

use ndarray::{Array2, ArrayRef2};

use crate::error::TokenizerError;
use crate::gpt2::{AllowedSpecial, Gpt2Tokenizer};

/// The ids of a text as a batch of one, (1, n_tokens); `<|endoftext|>` is allowed, as in the book.
///
/// ```
/// let tokenizer = tokenizer::Gpt2Tokenizer::new();
/// let ids = tokenizer::text_to_token_ids("Every effort moves you", &tokenizer); // (1, 4)
/// assert_eq!(ids, ndarray::array![[6109, 3626, 6100, 345]]);
/// assert_eq!(tokenizer::token_ids_to_text(&ids, &tokenizer)?, "Every effort moves you");
/// # Ok::<(), tokenizer::TokenizerError>(())
/// ```
pub fn text_to_token_ids(text: &str, tokenizer: &Gpt2Tokenizer) -> Array2<u32> {
    let ids = tokenizer.encode(text, AllowedSpecial::All);
    let ids = ids.expect("no special token is refused when all are allowed");
    let row = Array2::from_shape_vec((1, ids.len()), ids); // (1, n_tokens)
    row.expect("n ids fill one row of n")
}

/// The text of one row of ids, (1, n_tokens), with U+FFFD where a character was cut, as in Python.
///
/// # Errors
/// [`TokenizerError::NotOneRow`] for another number of rows than one;
/// [`TokenizerError::UnknownId`] for an id at or over 50,257.
pub fn token_ids_to_text(
    token_ids: &ArrayRef2<u32>,
    tokenizer: &Gpt2Tokenizer,
) -> Result<String, TokenizerError> {
    if token_ids.nrows() != 1 {
        return Err(TokenizerError::NotOneRow {
            rows: token_ids.nrows(),
        });
    }
    let ids: Vec<u32> = token_ids.iter().copied().collect(); // (n_tokens)
    tokenizer.decode_lossy(&ids)
}
