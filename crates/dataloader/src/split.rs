//! Splits a text into a part for training and a part for validation, as in section 5.1.3 of the
//! book.

use crate::error::DataLoaderError;

/// Splits a text into two parts. The first part is for training, and the second part is for
/// validation. As in the book's Python code, the first part has `int(train_ratio * len(text))`
/// characters.
///
/// ```
/// let (train, validation) = dataloader::train_validation_split("héllo wörld", 0.9)?;
/// assert_eq!((train, validation), ("héllo wör", "ld"));
/// # Ok::<(), dataloader::DataLoaderError>(())
/// ```
///
/// # Errors
///
/// Returns [`DataLoaderError::SplitRatio`] if `train_ratio` isn't in [0, 1].
pub fn train_validation_split(
    text: &str,
    train_ratio: f64,
) -> Result<(&str, &str), DataLoaderError> {
    if !(0.0..=1.0).contains(&train_ratio) {
        return Err(DataLoaderError::SplitRatio { ratio: train_ratio });
    }
    // The conversion with `as` rounds toward zero, like `int()` in Python.
    let characters = (train_ratio * text.chars().count() as f64) as usize;
    let at = text.char_indices().nth(characters);
    Ok(text.split_at(at.map_or(text.len(), |(at, _)| at)))
}
