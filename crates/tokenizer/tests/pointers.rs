//! Tests that a pointer to a tokenizer (a reference, a `Box` or an `Arc`) returns the same results
//! as the tokenizer itself.

#![allow(clippy::unwrap_used)] // a test that can't begin panics

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use tokenizer::{Tokenizer, TokenizerError};

/// A tokenizer in which each method returns a distinct value, so that a test can tell which method
/// was called. It also overrides all methods that have a default implementation.
struct Special;

impl Tokenizer for Special {
    fn encode(&self, _: &str) -> Result<Vec<u32>, TokenizerError> {
        Ok(vec![1])
    }

    fn encode_part(&self, _: &str) -> Result<Vec<u32>, TokenizerError> {
        Ok(vec![2])
    }

    fn encode_with_offsets(&self, _: &str) -> Result<Vec<(u32, Range<usize>)>, TokenizerError> {
        Ok(vec![(3, 0..0)])
    }

    fn piece_at(&self, _: u32, _: usize) -> Result<Cow<'_, [u8]>, TokenizerError> {
        Ok(b"piece_at".into())
    }

    fn vocab_size(&self) -> usize {
        4
    }

    fn id_of(&self, _: &[u8]) -> Option<u32> {
        Some(5)
    }

    fn token_of(&self, _: u32) -> Option<Cow<'_, [u8]>> {
        Some(b"token_of".into())
    }

    fn decode_bytes(&self, _: &[u32]) -> Result<Vec<u8>, TokenizerError> {
        Ok(b"decode_bytes".to_vec())
    }

    fn decode(&self, _: &[u32]) -> Result<String, TokenizerError> {
        Ok("decode".to_owned())
    }

    fn decode_lossy(&self, _: &[u32]) -> Result<String, TokenizerError> {
        Ok("decode_lossy".to_owned())
    }
}

fn check(tokenizer: impl Tokenizer) {
    assert_eq!(tokenizer.encode("").unwrap(), [1]);
    assert_eq!(tokenizer.encode_part("").unwrap(), [2]);
    assert_eq!(tokenizer.encode_with_offsets("").unwrap(), [(3, 0..0)]);
    assert_eq!(tokenizer.piece_at(0, 0).unwrap(), &b"piece_at"[..]);
    assert_eq!(tokenizer.vocab_size(), 4);
    assert_eq!(tokenizer.id_of(b""), Some(5));
    assert_eq!(tokenizer.token_of(0).unwrap(), &b"token_of"[..]);
    assert_eq!(tokenizer.decode_bytes(&[]).unwrap(), b"decode_bytes");
    assert_eq!(tokenizer.decode(&[]).unwrap(), "decode");
    assert_eq!(tokenizer.decode_lossy(&[]).unwrap(), "decode_lossy");
}

#[test]
fn pointers_forward_every_method() {
    check(Special);
    check(&Special);
    check(&Special as &dyn Tokenizer);
    check(Box::new(Special));
    check(Box::new(Special) as Box<dyn Tokenizer>);
    check(Arc::new(Special));
    check(Arc::new(Special) as Arc<dyn Tokenizer>);
    check(Arc::new(Box::new(Special) as Box<dyn Tokenizer>));
}
