//! Stop strings in a text that comes in pieces: nothing of one is ever shown, even if it spans
//! pieces.
//!
//! Text that may turn out to begin a stop string is held back until it is clear.

use crate::GenerateError;

/// Watches a text for strings that end it.
///
/// ```
/// use generate::StopStrings;
/// let mut stops = StopStrings::new(["\nUser:".to_string()])?;
/// assert_eq!(stops.push("Hello.\nUs"), "Hello.");
/// assert_eq!(stops.push("ually"), "\nUsually"); // it was none
/// assert_eq!(stops.push("\nUser: more"), "");
/// assert!(stops.is_found());
/// # Ok::<(), generate::GenerateError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct StopStrings {
    stops: Vec<String>,
    /// The end of the text so far, if it may begin a stop string.
    held: String,
    is_found: bool,
}

impl StopStrings {
    /// Watches for these.
    ///
    /// # Errors
    /// If a stop string is empty, because it would stop every text at once.
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

    /// Takes in the next piece and returns what can be shown; nothing more once a stop string was
    /// found.
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
        // The first to be complete, and of those that end together, the longest.
        let first = hits.min();
        self.is_found = first.is_some();
        let shown = first.map_or_else(|| self.held.len() - self.unclear(), |(_, start)| start);
        let rest = self.held.split_off(shown);
        std::mem::replace(&mut self.held, rest)
    }

    /// The text has ended: returns what was held back.
    #[must_use]
    pub fn finish(&mut self) -> String {
        let held = std::mem::take(&mut self.held);
        if self.is_found { String::new() } else { held }
    }

    /// True if the text held a stop string.
    pub fn is_found(&self) -> bool {
        self.is_found
    }

    /// Bytes at the end of the text that begin a stop string.
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
