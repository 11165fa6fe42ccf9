//! Detection of stop strings in a text that arrives in pieces.
//!
//! If the text contains a stop string, no part of the stop string is returned, even if it spans
//! several pieces. For example, if the stop string is `"\nUser:"` and a piece ends with `"\nUs"`,
//! these three characters are held back until the next piece shows whether they are the beginning
//! of the stop string.

use crate::GenerateError;

/// A detector of stop strings. It receives a text in pieces and returns the parts of the text that
/// can be shown to the user.
///
/// ```
/// use generate::StopStrings;
/// let mut stops = StopStrings::new(["\nUser:".to_string()])?;
/// assert_eq!(stops.push("Hello.\nUs"), "Hello.");
/// assert_eq!(stops.push("ually"), "\nUsually"); // not a stop string
/// assert_eq!(stops.push("\nUser: more"), "");
/// assert!(stops.is_found());
/// # Ok::<(), generate::GenerateError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct StopStrings {
    stops: Vec<String>,
    /// The last characters of the text that haven't been shown to the user yet, because they may be
    /// the beginning of a stop string. For example, `"\nUs"` is held back if the stop string is
    /// `"\nUser:"`.
    held: String,
    is_found: bool,
}

impl StopStrings {
    /// Creates a [`StopStrings`] that watches for the given strings.
    ///
    /// # Errors
    ///
    /// Returns an error if a stop string is empty, because it would end every text immediately.
    pub fn new(stops: impl IntoIterator<Item = String>) -> Result<Self, GenerateError> {
        let stops: Vec<String> = stops.into_iter().collect();
        if stops.iter().any(String::is_empty) {
            return Err(GenerateError::EmptyStopString);
        }
        Ok(Self {
            stops,
            ..Self::default()
        })
    }

    /// Appends a piece to the text and returns the part of the text that can now be shown to the
    /// user. Returns an empty string if an earlier call has already found a stop string.
    #[must_use]
    pub fn push(&mut self, piece: &str) -> String {
        if self.is_found {
            return String::new();
        }
        self.held.push_str(piece);
        let hits = self.stops.iter().filter_map(|stop| {
            let start = self.held.find(stop)?;
            Some((start + stop.len(), start))
        });
        // If the text contains several stop strings, use the one that ends first. If several of
        // them end at the same position, use the longest one.
        let first = hits.min();
        self.is_found = first.is_some();
        let shown = first.map_or_else(|| self.held.len() - self.unclear(), |(_, start)| start);
        let rest = self.held.split_off(shown);
        std::mem::replace(&mut self.held, rest)
    }

    /// Returns the rest of the text, which has been held back because it might have been the
    /// beginning of a stop string. Call this method when the text has ended.
    #[must_use]
    pub fn finish(&mut self) -> String {
        let held = std::mem::take(&mut self.held);
        if self.is_found { String::new() } else { held }
    }

    /// Returns true if a stop string has been found.
    pub fn is_found(&self) -> bool {
        self.is_found
    }

    /// Returns the number of bytes at the end of the text that must be held back because they may
    /// be the beginning of a stop string. For example, the result is 3 if the text ends with
    /// `"\nUs"` and the stop string is `"\nUser:"`.
    fn unclear(&self) -> usize {
        let longest = self.stops.iter().map(|stop| stop.len() - 1).max();
        let longest = longest.unwrap_or(0).min(self.held.len());
        (1..=longest)
            .rev()
            .find(|&n| {
                let end = self.held.len() - n;
                self.held.is_char_boundary(end)
                    && (self.stops.iter()).any(|stop| stop.starts_with(&self.held[end..]))
            })
            .unwrap_or(0)
    }
}
