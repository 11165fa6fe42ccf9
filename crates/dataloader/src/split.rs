//! A text in two parts, to train on and to validate with (book section 5.1.3):
//! `split_idx = int(train_ratio * len(text))`, counted in characters.

use crate::error::DataLoaderError;

/// The first `train_ratio` of the characters, and the rest.
///
/// # Errors
/// [`DataLoaderError::SplitRatio`] unless `train_ratio` is between 0 and 1.
///
/// ```
/// let (train, validation) = dataloader::train_validation_split("héllo wörld", 0.9)?;
/// assert_eq!((train, validation), ("héllo wör", "ld"));
/// # Ok::<(), dataloader::DataLoaderError>(())
/// ```
pub fn train_validation_split(
    text: &str,
    train_ratio: f64,
) -> Result<(&str, &str), DataLoaderError> {
    if !(0.0..=1.0).contains(&train_ratio) {
        return Err(DataLoaderError::SplitRatio { ratio: train_ratio });
    }
    // `as` truncates, as int() does.
    let characters = (train_ratio * text.chars().count() as f64) as usize;
    let at = text.char_indices().nth(characters);
    Ok(text.split_at(at.map_or(text.len(), |(at, _)| at)))
}
