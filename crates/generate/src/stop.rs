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
/// assert_eq!(stops.found(), Some("\nUser:"));
/// # Ok::<(), generate::GenerateError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct StopStrings {
    stops: Vec<String>,
    /// The end of the text so far, if it may begin a stop string.
    held: String,
    found: Option<usize>,
}

impl StopStrings {
    /// Watches for these.
    ///
    /// # Errors
    /// If one is empty, as it would stop every text at once.
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
        if self.found.is_some() {
            return String::new();
        }
        self.held.push_str(piece);
        let hits = self.stops.iter().enumerate().filter_map(|(i, stop)| {
            let start = self.held.find(stop)?;
            Some((start + stop.len(), start, i))
        });
        let shown = match hits.min() {
            Some((_, start, stop)) => {
                self.found = Some(stop);
                start
            }
            None => self.held.len() - self.unclear(),
        };
        let rest = self.held.split_off(shown);
        std::mem::replace(&mut self.held, rest)
    }

    /// The text has ended: returns what was held back.
    #[must_use]
    pub fn finish(&mut self) -> String {
        let held = std::mem::take(&mut self.held);
        if self.found.is_some() {
            return String::new();
        }
        held
    }

    /// The stop string that the text held: the first to be complete, and of those that end
    /// together, the longest.
    pub fn found(&self) -> Option<&str> {
        self.found.map(|i| self.stops[i].as_str())
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
