//! Random damage: whatever the bytes, loading returns.

use std::fs;

use checkpoint::{load_config, load_model, load_tensors};
use proptest::prelude::*;

use crate::support::{Broken, join, split};

/// Damage to a file: bytes overwritten, some cut out, some put in.
#[derive(Clone, Debug)]
struct Damage {
    overwrite: Vec<(prop::sample::Index, u8)>,
    cut: Option<(prop::sample::Index, usize)>,
    insert: Option<(prop::sample::Index, Vec<u8>)>,
}

fn damage() -> impl Strategy<Value = Damage> {
    let at = any::<prop::sample::Index>;
    let byte = prop_oneof![
        any::<u8>(),
        prop::sample::select(b"{}[]\",:-0123456789eE.".to_vec())
    ];
    (
        prop::collection::vec((at(), byte), 0..4),
        prop::option::of((at(), 1..40usize)),
        prop::option::of((at(), prop::collection::vec(any::<u8>(), 1..20))),
    )
        .prop_map(|(overwrite, cut, insert)| Damage {
            overwrite,
            cut,
            insert,
        })
}

impl Damage {
    fn apply(&self, mut bytes: Vec<u8>) -> Vec<u8> {
        for (at, byte) in &self.overwrite {
            let at = at.index(bytes.len());
            bytes[at] = *byte;
        }
        if let Some((at, len)) = &self.cut {
            let at = at.index(bytes.len());
            bytes.drain(at..(at + len).min(bytes.len()));
        }
        if let Some((at, more)) = &self.insert {
            let at = at.index(bytes.len() + 1);
            bytes.splice(at..at, more.iter().copied());
        }
        bytes
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// The fuzz target `checkpoint` does more of this; here a part of one file is damaged: the
    /// weights as they are, their header under its right length, or the configuration.
    #[test]
    fn a_damaged_file_is_loaded_or_refused(damage in damage(), part in 0..3, book in any::<bool>()) {
        let folder = if book { Broken::book() } else { Broken::hugging_face() };
        match part {
            0 => _ = folder.change_weights(|bytes| damage.apply(bytes)),
            1 => _ = folder.change_weights(|bytes| {
                let (header, data) = split(&bytes);
                join(&damage.apply(header.as_bytes().to_vec()), data)
            }),
            _ => {
                let text = fs::read(folder.config()).unwrap();
                fs::write(folder.config(), damage.apply(text)).unwrap();
            }
        }
        let _ = load_config(folder.path());
        let _ = load_model(folder.path());
        let _ = load_tensors(folder.weights());
    }
}
