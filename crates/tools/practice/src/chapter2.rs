//! The checks of chapter 2.

use std::collections::BTreeMap;

use dataloader::{Corpus, GptDataset, WindowConfig};
use tokenizer::bpe::{Bpe, Merge};
use tokenizer::{SimpleTokenizerV1, Vocabulary};

use crate::check::{Check, Report, ToAnswer};

/// Words to ids, and back.
type Encode = fn(&BTreeMap<String, u32>, &[&str]) -> Result<Vec<u32>, String>;
type Decode = fn(&[String], &[u32]) -> String;

/// Exercise 2.3.
pub fn simple_tokenizer(encode: Encode, decode: Decode) -> Report {
    let mut check = Check::default();
    let text = "the bell rang, and the boat \"turned\"? No: it's the wind.";
    let words = tokenizer::preprocess(text);
    let vocabulary = Vocabulary::from_text(text);
    let tokens: Vec<String> = vocabulary.tokens().to_vec();
    let numbered: BTreeMap<String, u32> = tokens.iter().cloned().zip(0..).collect();
    let plain = SimpleTokenizerV1::new(vocabulary);
    let expected = plain.encode(text).expect("its own words");
    let by_place: Vec<u32> = (0..words.len() as u32).collect();
    check.second(
        "the ids of a sentence",
        || encode(&numbered, &words),
        expected.answer(),
        vec![(
            "the words are numbered by their place in the text",
            by_place.answer(),
        )],
    );
    let plain_text = plain.decode(&expected).expect("its own ids");
    let joined = |separator: &str| words.join(separator).answer();
    check.second(
        "the text of ids",
        || decode(&tokens, &expected),
        plain_text.answer(),
        vec![
            ("the space before punctuation is still there", joined(" ")),
            ("the words are joined without spaces", joined("")),
        ],
    );
    check.property("an unknown word is refused by name", || {
        match encode(&numbered, &["bell", "harbour"]) {
            Err(error) if error.contains("harbour") => Ok(()),
            Err(error) => Err(format!("the error {error:?} doesn't name \"harbour\"")),
            Ok(ids) => Err(format!("{ids:?} instead of an error")),
        }
    });
    check.property("encode inverts decode", || {
        let text = decode(&tokens, &expected);
        let again = encode(&numbered, &tokenizer::preprocess(&text))?;
        match again == expected {
            true => Ok(()),
            false => Err(format!("{again:?} instead of {expected:?}")),
        }
    });
    check.end()
}

/// Exercise 2.5.
#[expect(clippy::type_complexity)] // it is the exercise's signature
pub fn merge_pair(yours: fn(&[u32], (u32, u32), u32) -> Vec<u32>) -> Report {
    let mut check = Check::default();
    // As if no pair but this one was learned.
    let plain = |ids: &[u32], (left, right): (u32, u32), id: u32| {
        let bytes = (0..=255).map(|byte| vec![byte]);
        let tokens = bytes.chain([b"aa".to_vec()]).collect();
        let bpe = Bpe::from_merges(tokens, vec![Merge { left, right, id }], |text| text);
        let text: String = ids.iter().map(|&id| char::from(id as u8)).collect(); // ASCII
        bpe.expect("all bytes").encode_plain(&text).answer()
    };
    let text = [97, 97, 97, 98, 100, 97, 97, 97, 98, 97, 99]; // aaabdaaabac
    let first_only = [256, 97, 98, 100, 97, 97, 97, 98, 97, 99].to_vec();
    let overlapping = [256, 256, 98, 100, 256, 256, 98, 97, 99].to_vec();
    check.second(
        "\"aa\" in \"aaabdaaabac\"",
        || yours(&text, (97, 97), 256),
        plain(&text, (97, 97), 256),
        vec![
            ("only the first pair is merged", first_only.answer()),
            ("pairs that overlap are merged twice", overlapping.answer()),
        ],
    );
    let others = [5, 6, 5, 5, 6, 6, 5];
    check.second(
        "other ids",
        || yours(&others, (5, 6), 9),
        plain(&others, (5, 6), 9),
        Vec::new(),
    );
    check.property("a text without the pair stays as it is", || {
        match yours(&[1, 2, 3], (3, 1), 9) {
            ids if ids == [1, 2, 3] => Ok(()),
            ids => Err(format!("{ids:?} instead of [1, 2, 3]")),
        }
    });
    check.property("no id, and one id", || {
        let found = (yours(&[], (1, 2), 9), yours(&[1], (1, 2), 9));
        match found == (vec![], vec![1]) {
            true => Ok(()),
            false => Err(format!("{found:?} instead of ([], [1])")),
        }
    });
    check.end()
}

/// A window's inputs and its targets.
type Window = (Vec<u32>, Vec<u32>);

/// Exercise 2.6.
pub fn windows(yours: fn(&[u32], usize, usize) -> Vec<Window>) -> Report {
    let mut check = Check::default();
    let numbers: Vec<u32> = (0..=1000).collect();
    let cell = |place: usize| ("ch02_bonus", ["In [68]", "In [69]", "In [70]"][place]);
    for place in 0..3 {
        let (notebook, name) = cell(place);
        let window = || {
            let mut windows = yours(&numbers, 4, 1);
            windows.swap_remove(place)
        };
        check.printed((notebook, name, 0), || window().0);
        check.printed((notebook, name, 1), || window().1);
    }
    check.printed(("ch02_bonus", "In [71]", 0), || {
        yours(&numbers, 4, 1).pop().unwrap_or_default().0
    });
    let ids = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3];
    let flat = |windows: Vec<Window>| -> Vec<u32> {
        windows
            .into_iter()
            .flat_map(|(x, y)| [x, y].concat())
            .collect()
    };
    let plain = |shift: usize| {
        let dataset = GptDataset::new(
            &Corpus::from_ids(ids.to_vec()),
            WindowConfig {
                max_length: 3,
                stride: 2,
            },
        );
        let dataset = dataset.expect("long enough");
        let windows = (0..dataset.len()).map(|i| {
            let window = dataset.get(i).expect("in memory").expect("it exists");
            let first = 2 * i;
            (
                window.input_ids.to_vec(),
                ids[first + shift..][..3].to_vec(),
            )
        });
        flat(windows.collect()).answer()
    };
    check.second(
        "10 ids, windows of 3, stride 2",
        || flat(yours(&ids, 3, 2)),
        plain(1),
        vec![("the targets are the inputs, not moved by one", plain(0))],
    );
    check.property("a text of one window and one target", || {
        match yours(&ids[..4], 3, 1).len() {
            1 => Ok(()),
            n => Err(format!("{n} windows instead of 1")),
        }
    });
    check.property("a text that is too short has none", || {
        match yours(&ids[..3], 3, 1).len() {
            0 => Ok(()),
            n => Err(format!("{n} windows instead of 0")),
        }
    });
    check.end()
}
