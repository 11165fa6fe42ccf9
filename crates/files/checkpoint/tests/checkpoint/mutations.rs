//! Tests that loading a randomly damaged model doesn't panic.

use std::fs;

use checkpoint::{load_config, load_model};
use proptest::prelude::*;

use crate::support::{Broken, join, split};

/// A random change with which these tests damage a file: the position of the change, the number of
/// bytes to remove there, and the bytes to insert in their place.
type Damage = (prop::sample::Index, usize, Vec<u8>);

fn damages() -> impl Strategy<Value = Vec<Damage>> {
    let byte = prop_oneof![
        any::<u8>(),
        prop::sample::select(b"{}[]\",:-0123456789eE.".to_vec())
    ];
    let damage = (
        any::<prop::sample::Index>(),
        0..20usize,
        prop::collection::vec(byte, 0..20),
    );
    prop::collection::vec(damage, 1..5)
}

fn damaged(mut bytes: Vec<u8>, damages: &[Damage]) -> Vec<u8> {
    for (at, cut, insert) in damages {
        let at = at.index(bytes.len() + 1);
        let end = bytes.len().min(at + cut);
        bytes.splice(at..end, insert.iter().copied());
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Damages either the whole weight file, only its header, or the configuration. If only the
    /// header is damaged, the length in front of it is set to its new length, so that exactly the
    /// damaged header is parsed. Loading must return a model or an error, but must not panic. The
    /// fuzz target `checkpoint` tests more kinds of damage.
    #[test]
    fn a_damaged_file_is_loaded_or_refused(damages in damages(), part in 0..3, book in any::<bool>()) {
        let folder = if book { Broken::book() } else { Broken::hugging_face() };
        match part {
            0 => _ = folder.change_weights(|bytes| damaged(bytes, &damages)),
            1 => _ = folder.change_weights(|bytes| {
                let (header, data) = split(&bytes);
                join(&damaged(header.as_bytes().to_vec(), &damages), data)
            }),
            _ => {
                let text = fs::read(folder.config()).unwrap();
                fs::write(folder.config(), damaged(text, &damages)).unwrap();
            }
        }
        let _ = load_config(folder.path());
        let _ = load_model(folder.path());
    }
}
