//! A corpus: the token ids of a whole text, in one buffer that every window looks into.
//!
//! Copies of a corpus share the buffer. How it comes from files is in `files.rs`.

use std::fmt;
use std::sync::Arc;

use tokenizer::{AllowedSpecial, Gpt2Tokenizer};

use crate::error::DataLoaderError;

/// Token ids in the order of the text.
#[derive(Clone, PartialEq, Eq)]
pub struct Corpus {
    pub(crate) ids: Arc<[u32]>, // (n_tokens)
}

impl Corpus {
    /// The ids themselves, as any tokenizer gives them.
    pub fn from_ids(ids: impl Into<Arc<[u32]>>) -> Self {
        Self { ids: ids.into() }
    }

    /// GPT-2's ids of a text; the book allows `<|endoftext|>` ([`AllowedSpecial::All`]).
    ///
    /// # Errors
    /// [`DataLoaderError::Tokenizer`] if the text has a special token that is not allowed.
    pub fn from_text(
        text: &str,
        tokenizer: &Gpt2Tokenizer,
        allowed: AllowedSpecial,
    ) -> Result<Self, DataLoaderError> {
        Ok(Self::from_ids(tokenizer.encode(text, allowed)?))
    }

    /// Ids written as little-endian u16, with nothing before or after them: nanoGPT's format.
    ///
    /// # Errors
    /// [`DataLoaderError::OddLength`] if the last id is cut in half.
    pub fn from_u16_bytes(bytes: &[u8]) -> Result<Self, DataLoaderError> {
        let (pairs, half) = bytes.as_chunks::<2>();
        if !half.is_empty() {
            return Err(DataLoaderError::OddLength { bytes: bytes.len() });
        }
        let ids = pairs
            .iter()
            .map(|&pair| u32::from(u16::from_le_bytes(pair)));
        Ok(Self { ids: ids.collect() })
    }

    /// The ids as little-endian u16, what [`Self::from_u16_bytes`] reads.
    ///
    /// # Errors
    /// [`DataLoaderError::IdOverU16`] at the first id over 65,535.
    pub fn to_u16_bytes(&self) -> Result<Vec<u8>, DataLoaderError> {
        let mut bytes = Vec::with_capacity(2 * self.len());
        for (position, &id) in self.ids.iter().enumerate() {
            let short = u16::try_from(id);
            let short = short.map_err(|_| DataLoaderError::IdOverU16 { id, position })?;
            bytes.extend(short.to_le_bytes());
        }
        Ok(bytes)
    }

    /// That every id is below `vocab_size`: a model's embedding has one row per token and no more.
    ///
    /// # Errors
    /// [`DataLoaderError::IdOutOfVocabulary`] at the first id that isn't.
    pub fn check_ids(&self, vocab_size: usize) -> Result<(), DataLoaderError> {
        let outside = |id: u32| usize::try_from(id).is_ok_and(|id| id >= vocab_size);
        match self.ids.iter().position(|&id| outside(id)) {
            None => Ok(()),
            Some(position) => Err(DataLoaderError::IdOutOfVocabulary {
                id: self.ids[position],
                position,
                vocab_size,
            }),
        }
    }

    /// All ids, (n_tokens).
    pub fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// How many tokens there are.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether there is no token at all.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }
}

/// The number of tokens: all of them would fill a screen.
impl fmt::Debug for Corpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Corpus")
            .field("tokens", &self.len())
            .finish_non_exhaustive()
    }
}
