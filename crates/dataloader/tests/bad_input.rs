//! Tests that each invalid input leads to an error that describes the problem.

#![allow(clippy::disallowed_methods, reason = "tests write files as they like")]

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, SystemTime};

use dataloader::{
    Corpus, DataLoader, DataLoaderConfig, DataLoaderError, GptDataset, WindowConfig,
    create_dataloader_v1, text_of, train_validation_split,
};
use tokenizer::{Gpt2Tokenizer, SimpleTokenizerV1, Vocabulary};
use torch_rng::TorchRng;

fn numbers(n: u32) -> Corpus {
    Corpus::from_ids((0..n).collect::<Vec<u32>>())
}

/// Returns a configuration for a data loader. Its windows are so short that a corpus of nine tokens
/// has five windows.
fn five(batch_size: usize, drop_last: bool) -> DataLoaderConfig {
    DataLoaderConfig {
        batch_size,
        max_length: 4,
        stride: 1,
        shuffle: true,
        drop_last,
    }
}

#[test]
fn no_window_is_an_error_that_says_why() {
    for (tokens, max_length, stride, message) in [
        (0, 4, 1, "the corpus is empty"),
        (9, 0, 1, "max_length must be at least 1, got 0"),
        (9, 4, 0, "stride must be at least 1, got 0"),
        (4, 4, 1, "the corpus has 4 tokens, but with max_length 4"),
        (4, usize::MAX, 1, "the corpus has 4 tokens, but with"),
    ] {
        let error =
            GptDataset::new(&numbers(tokens), WindowConfig { max_length, stride }).unwrap_err();
        assert!(error.to_string().starts_with(message), "{error}");
    }
    let wide = WindowConfig {
        max_length: 4,
        stride: usize::MAX,
    };
    assert_eq!(GptDataset::new(&numbers(5), wide).unwrap().len(), 1);
}

#[test]
fn no_batch_is_an_error_that_says_why() {
    let of = |batch_size, drop_last| DataLoader::new(&numbers(9), five(batch_size, drop_last));
    let zero = of(0, false).unwrap_err();
    assert_eq!(zero.to_string(), "batch_size must be at least 1, got 0");
    let large = of(6, true).unwrap_err();
    let message = "batch_size is 6, but there are only 5 windows, so drop_last would drop all of them; use a smaller batch_size";
    assert_eq!(large.to_string(), message);
    let kept = of(usize::MAX, false).unwrap();
    let mut batches = kept.epoch(&mut TorchRng::manual_seed(1));
    assert_eq!(batches.next().unwrap().unwrap().input_ids.dim(), (5, 4));
    assert!(batches.next().is_none());
}

#[test]
fn the_book_s_function_refuses_what_its_parts_refuse() {
    let tokenizer = Gpt2Tokenizer::new();
    let config = DataLoaderConfig::default();
    let empty = create_dataloader_v1("", &tokenizer, config).unwrap_err();
    assert!(matches!(empty, DataLoaderError::EmptyCorpus));
    let short = create_dataloader_v1("too short", &tokenizer, config).unwrap_err();
    assert!(matches!(
        short,
        DataLoaderError::CorpusTooShort {
            tokens: 2,
            max_length: 256
        }
    ));
}

#[test]
fn a_corpus_takes_any_tokenizer_and_passes_its_refusal_on() {
    let gpt2 = Corpus::from_text("a<|endoftext|>", &Gpt2Tokenizer::new()).unwrap();
    assert_eq!(gpt2.read(..).unwrap()[..], [64, 50256]);
    let words = SimpleTokenizerV1::new(Vocabulary::from_text("a b"));
    assert_eq!(
        Corpus::from_text("b a", &words).unwrap().read(..).unwrap()[..],
        [1, 0]
    );
    let error = Corpus::from_text("a c", &words).unwrap_err();
    let message = "the vocabulary doesn't contain the word \"c\", which is at byte 2 of the text";
    assert_eq!(error.to_string(), message);
}

#[test]
fn ids_at_or_over_the_vocabulary_are_named_with_their_place() {
    let corpus = Corpus::from_ids(vec![3, 9, 10, 11]);
    corpus.check_ids(12).unwrap();
    let error = corpus.check_ids(10).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the token ID at position 2 is 10, but it must be less than the vocabulary size, 10"
    );
}

/// Checks that a file of token IDs written by [`Corpus::write_u16_file`] contains exactly the
/// expected bytes. Also checks that an ID that doesn't fit in 16 bits causes an error, and that the
/// existing file isn't changed in this case. The test
/// `a_file_gives_the_windows_of_a_corpus_in_memory` in `properties.rs` checks that a written file
/// can be read again.
#[test]
fn token_files_are_little_endian_u16_and_what_is_no_u16_replaces_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("train.bin");
    let bytes = [0, 0, 1, 0, 0, 1, 0x50, 0xc4, 0xff, 0xff];
    let corpus = Corpus::from_ids(vec![0, 1, 256, 50_256, 65_535]);
    corpus.write_u16_file(&path).unwrap();
    assert_eq!(fs::read(&path).unwrap(), bytes);
    let error = Corpus::from_ids(vec![7, 65_536])
        .write_u16_file(&path)
        .unwrap_err();
    assert!(matches!(
        error,
        DataLoaderError::IdOverU16 {
            id: 65_536,
            position: 1
        }
    ));
    assert_eq!(fs::read(&path).unwrap(), bytes);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn an_odd_length_is_refused_and_an_empty_token_file_is_an_empty_corpus() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("odd.bin");
    fs::write(&path, [1, 0, 2]).unwrap();
    let error = Corpus::from_token_file(&path).unwrap_err();
    assert!(
        error.to_string().starts_with(&path.display().to_string()),
        "{error}"
    );
    assert!(
        error
            .to_string()
            .contains("the file has 3 bytes, but the number of bytes must be even"),
        "{error}"
    );
    fs::write(&path, []).unwrap();
    assert!(Corpus::from_token_file(&path).unwrap().is_empty());
}

#[test]
fn other_encodings_are_named_with_a_remedy_and_a_byte_order_mark_is_no_text() {
    let text = |bytes: &[u8]| text_of(bytes.to_vec(), Path::new("a.txt"));
    assert_eq!(text(b"\xef\xbb\xbfa\r\n").unwrap(), "a\r\n");
    let message = |bytes: &[u8]| text(bytes).unwrap_err().to_string();
    assert!(message(b"\xff\xfea\0").contains("iconv -f UTF-16"));
    assert!(
        message(b"caf\xe9").starts_with("a.txt: expected UTF-8 text, but byte 3 isn't valid UTF-8")
    );
    assert!(message(b"caf\xe9").contains("iconv -f WINDOWS-1252"));
    assert!(message(b"\x7fELF\0\xff").contains("binary file"));
}

/// Reads the same token IDs from a file in each supported format. Also checks that damaged files
/// and files in unsupported formats are rejected.
#[test]
fn token_files_are_what_their_signs_say() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("train.bin");
    let ids: Vec<u32> = (0..400).map(|i| i * 7919 % 50_257).collect();
    let read = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        let corpus = Corpus::from_token_file(&path)?;
        Ok::<_, DataLoaderError>(corpus.read(..)?.into_owned())
    };
    let wide = |width: usize| -> Vec<u8> {
        let bytes = ids.iter().map(|&id| u64::from(id).to_le_bytes());
        bytes.flat_map(|bytes| bytes[..width].to_vec()).collect()
    };
    let numpy = |kind: &str, shape: &str, bytes: &[u8]| -> Vec<u8> {
        let header = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}\n");
        let length = (header.len() as u16).to_le_bytes();
        [b"\x93NUMPY\x01\0", &length[..], header.as_bytes(), bytes].concat()
    };
    let llm_c = |magic: u32, count: u32, bytes: &[u8]| -> Vec<u8> {
        let header: Vec<u8> = [magic, 1, count]
            .into_iter()
            .flat_map(u32::to_le_bytes)
            .collect();
        [&header[..], &[0; 1012], bytes].concat()
    };
    for bytes in [
        wide(2),
        llm_c(20_240_520, 400, &wide(2)),
        llm_c(20_240_801, 400, &wide(4)),
        numpy("<u2", "(400,)", &wide(2)),
        numpy("<i4", "(400,)", &wide(4)),
        numpy("<i8", "(400,)", &wide(8)),
    ] {
        assert_eq!(read(&bytes).unwrap(), ids);
    }
    let refused = [
        (wide(8), "looks like int64"),
        (wide(4), "looks like int32"),
        (llm_c(20_240_520, 401, &wide(2)), "declares 401 tokens"),
        (
            numpy("<f4", "(400,)", &wide(4)),
            "the data type \"<f4\", but token IDs must be little-endian integers",
        ),
        (
            numpy("<u2", "(20, 20)", &wide(2)),
            "must have one dimension",
        ),
        (
            numpy("<u2", "(401,)", &wide(2)),
            "an array of 401 numbers of 2 bytes each",
        ),
        (
            b"\x93NUMPY\x01\0\xff".to_vec(),
            "ends in the middle of its NumPy header",
        ),
        (
            numpy("<i8", "(2,)", &(-1i64 as u128).to_le_bytes()),
            "contains the number -1, but token IDs must be from 0",
        ),
    ];
    for (bytes, problem) in refused {
        let error = read(&bytes).unwrap_err().to_string();
        assert!(error.contains(problem), "{error}");
    }
}

/// Checks that a file without a header is rejected if it contains something other than 16-bit IDs.
/// Also checks that files of 16-bit IDs are accepted even if they resemble another format.
#[test]
fn token_files_without_a_header_are_known_by_their_bytes() {
    let path = tempfile::NamedTempFile::new().unwrap().into_temp_path();
    let read = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        Corpus::from_token_file(&path)
    };
    let numbers = || (0..4000u32).map(|i| i * 7919 % 50_257);
    let signed = || numbers().map(|id| f64::from(id) / 25_000.0 - 1.0);
    let (u32s, u64s) = (
        |id: u32| id.to_le_bytes(),
        |id: u32| u64::from(id).to_le_bytes(),
    );
    // A bfloat16 number is the upper half of a float32 number.
    let brain = |number: f64| ((number as f32).to_bits() >> 16) as u16;
    let text = include_str!("properties.rs");
    let to_latin1 = |byte| if byte == b'e' { 0xe9 } else { byte };
    let latin1: Vec<u8> = text.bytes().map(to_latin1).collect();
    let safetensors = b"\x40\0\0\0\0\0\0\0{\"a\":{}}".to_vec();
    for (bytes, kind) in [
        (numbers().flat_map(u32s).collect(), "int32 or uint32"),
        (
            numbers().flat_map(|id| u32s(id * 5 / 2)).collect(),
            "int32 or uint32",
        ),
        (numbers().flat_map(u64s).collect(), "int64"),
        (
            numbers()
                .flat_map(|id| (id as u16 % 200).to_be_bytes())
                .collect(),
            "big-endian",
        ),
        (
            signed().flat_map(|x| (x as f32).to_le_bytes()).collect(),
            "floating-point",
        ),
        (
            signed().flat_map(f64::to_le_bytes).collect(),
            "floating-point",
        ),
        (
            signed().flat_map(|x| brain(x).to_le_bytes()).collect(),
            "floating-point",
        ),
        (
            numbers().flat_map(|id| (id as f32).to_le_bytes()).collect(),
            "floating-point",
        ),
        (
            numbers().map(|id| (id % 4) as u8).collect(),
            "8-bit integers",
        ),
        (
            numbers().map(|id| (id % 200) as u8).collect(),
            "8-bit integers",
        ),
        (text.as_bytes().to_vec(), "plain text"),
        (text.as_bytes()[..29].to_vec(), "plain text"),
        (latin1, "plain text"),
        (
            format!("<!DOCTYPE html>\n{text}").into_bytes(),
            "an HTML page",
        ),
        (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 9\n".to_vec(),
            "a Git LFS",
        ),
        (b"LITPKDS\x01\0\0\0\0\0\0\0\x08".to_vec(), "lit-gpt"),
        (safetensors, "a safetensors"),
    ] {
        let error = read(&bytes).unwrap_err().to_string();
        assert!(
            error.contains(&format!("looks like {kind}")),
            "{kind}: {error}"
        );
    }
    let u16s: [fn(u32) -> u32; 9] = [
        |_| 0,
        |_| 15_496, // 88 3c, which is also the upper half of a float
        |i| [15_496, 50_256][i as usize % 2], // upper halves of a positive and a negative float
        |i| i * 7919 % 65, // characters
        |i| [i * 7919 % 13, 1][i as usize % 2], // every second ID is 1
        |i| [1, i * 7919 % 50_257][i as usize % 2],
        |i| [i * 7919 % 50_257, i % 4][i as usize % 2],
        |i| 24_929 + i % 3, // "aa", "ba", "ca"
        |i| if i % 201 == 0 { i * 7919 % 9_000 } else { 0 },
    ];
    for (number, id) in u16s.into_iter().enumerate() {
        let ids: Vec<u32> = (0..4000).map(id).collect();
        fs::remove_file(&path).unwrap();
        Corpus::from_ids(ids.as_slice())
            .write_u16_file(&path)
            .unwrap();
        let read = Corpus::from_token_file(&path);
        let read = read.unwrap_or_else(|error| panic!("{number}: {error}"));
        assert_eq!(read.read(..).unwrap()[..], ids, "{number}");
    }
}

fn kind(error: DataLoaderError) -> io::ErrorKind {
    match error {
        DataLoaderError::Io(error) => error.source.kind(),
        other => panic!("{other}"),
    }
}

#[test]
fn folders_and_missing_files_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing").join("file");
    let error = Corpus::from_token_file(folder.path()).unwrap_err();
    assert_eq!(kind(error), io::ErrorKind::IsADirectory);
    let error = numbers(3).write_u16_file(folder.path()).unwrap_err();
    assert_eq!(kind(error), io::ErrorKind::AlreadyExists);
    for error in [
        Corpus::from_token_file(&missing).unwrap_err(),
        numbers(3).write_u16_file(&missing).unwrap_err(),
    ] {
        assert!(
            error
                .to_string()
                .starts_with(&missing.display().to_string())
        );
        assert_eq!(kind(error), io::ErrorKind::NotFound);
    }
}

#[test]
fn a_place_behind_the_end_of_an_epoch_can_t_be_resumed() {
    let loader = DataLoader::new(&numbers(9), five(2, false)).unwrap(); // 3 batches
    let mut epoch = loader.epoch(&mut torch_rng::TorchRng::manual_seed(1));
    let late = epoch.seek(4).unwrap_err();
    assert!(matches!(
        late,
        DataLoaderError::PositionPastEnd {
            position: 4,
            batches: 3
        }
    ));
    let message = "can't resume at batch 4, because the epoch has only 3 batches";
    assert_eq!(late.to_string(), message);
    epoch.seek(3).unwrap();
    assert_eq!(epoch.count(), 0);
    let single = DataLoader::new(&numbers(9), five(5, false)).unwrap();
    let mut epoch = single.epoch(&mut torch_rng::TorchRng::manual_seed(1));
    let late = epoch.seek(2).unwrap_err().to_string();
    let message = "can't resume at batch 2, because the epoch has only 1 batch";
    assert_eq!(late, message);
}

#[test]
fn a_text_is_split_between_nothing_and_everything() {
    assert_eq!(train_validation_split("abc", 0.0).unwrap(), ("", "abc"));
    assert_eq!(train_validation_split("abc", 1.0).unwrap(), ("abc", ""));
    assert_eq!(train_validation_split("", 0.9).unwrap(), ("", ""));
    for ratio in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
        assert!(train_validation_split("abc", ratio).is_err(), "{ratio}");
    }
}

#[test]
fn a_token_file_that_is_written_to_is_an_error_where_it_is_read() {
    let shrink = |file: &fs::File| file.set_len(6);
    let write = |mut file: &fs::File| {
        file.write_all(&[3, 0, 2, 0])?; // other valid IDs
        // Changing the contents should also change the file's modification time. However, the file
        // system may record times so coarsely that the new time equals the old one, and then the
        // change couldn't be detected. The test therefore sets a later time explicitly.
        file.set_modified(SystemTime::now() + Duration::from_secs(1))
    };
    type Change = dyn Fn(&fs::File) -> io::Result<()>;
    for change in [&shrink as &Change, &write] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("train.bin");
        numbers(40).write_u16_file(&path).unwrap();
        let windows = DataLoaderConfig {
            stride: 4,
            shuffle: false,
            ..five(2, true)
        };
        let loader = DataLoader::new(&Corpus::from_token_file(&path).unwrap(), windows).unwrap();
        let mut epoch = loader.epoch(&mut TorchRng::manual_seed(0));
        assert!(epoch.try_next().unwrap().is_some());
        change(&fs::File::options().write(true).open(&path).unwrap()).unwrap();
        let error = epoch.try_next().unwrap_err().to_string();
        assert!(
            error.starts_with(&path.display().to_string()) && error.contains("was changed"),
            "{error}"
        );
        assert_eq!(epoch.position(), 1);
        assert!(epoch.next().unwrap().is_err());
        assert!(epoch.next().is_none()); // The iterator doesn't repeat the error forever.
        assert!(loader.dataset().get(0).is_err());
    }
}

/// Checks that a file of token IDs can still be read if only its modification time changes, as
/// after a backup, or if the same contents are written again.
#[test]
fn a_token_file_with_another_time_and_the_same_contents_is_read_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("train.bin");
    let ids: Vec<u32> = (0..50_000).map(|i| i % 7).collect();
    Corpus::from_ids(ids).write_u16_file(&path).unwrap();
    let corpus = Corpus::from_token_file(&path).unwrap();
    let bytes = fs::read(&path).unwrap();
    for seconds in 1..4 {
        if seconds == 2 {
            fs::write(&path, &bytes).unwrap();
        }
        let file = fs::File::options().write(true).open(&path).unwrap();
        let time = SystemTime::now() + Duration::from_secs(seconds);
        file.set_modified(time).unwrap();
        assert_eq!(corpus.read(..3).unwrap(), [0, 1, 2].as_slice());
    }
    // A single ID in the middle of the file is different.
    let mut other = bytes.clone();
    other[50_000] += 1;
    fs::write(&path, other).unwrap();
    corpus.read(..3).unwrap_err();
    fs::write(&path, &bytes).unwrap();
    assert_eq!(corpus.read(..3).unwrap(), [0, 1, 2].as_slice());
}

/// Checks that a corpus continues to read the file that it opened even if another file is then
/// renamed to the same path.
#[cfg(unix)]
#[test]
fn a_token_file_that_is_replaced_is_read_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("train.bin");
    numbers(40).write_u16_file(&path).unwrap();
    let corpus = Corpus::from_token_file(&path).unwrap();
    let other = folder.path().join("other.bin");
    numbers(7).write_u16_file(&other).unwrap();
    fs::rename(other, &path).unwrap();
    assert_eq!(corpus.read(..).unwrap(), numbers(40).read(..).unwrap());
}
