//! Tests how the files in a data folder are used. Each file must be used for training or
//! validation, be listed as skipped, or be rejected with an error that contains its name.

use std::ffi::OsStr;
use std::fs;

use crate::support::{Folder, Ran, folder, holds};

const SMALL: &str = "--n-layers 1 --n-heads 1 --emb-dim 8 --context-length 8 --batch-size 2 \
    --max-steps 1 --threads 1 --eval-iters 1 --sample-interval 0";

/// Creates a data folder that contains files with these `names`, and trains a model on it. The
/// sizes of the files show which of them are used: a file contains 80 characters if its name marks
/// it as training data, and 40 characters otherwise.
fn train(folder: &Folder, case: &str, names: &[&str]) -> Ran {
    fs::create_dir(folder.join(case)).expect("a new folder");
    for name in names {
        let is_long = name.to_lowercase().starts_with("train") || name.contains("book");
        let count = if is_long { 20 } else { 10 };
        folder.write(&format!("{case}/{name}"), "abcd".repeat(count));
    }
    folder.gpt(&format!(
        "train --data {case} --tokenizer chars --train-ratio 0.5 {SMALL} -o {case}-run"
    ))
}

/// Test cases for the files that are found in a folder. Each case consists of the names of all
/// files, the names of the training files, and the name of the validation file, if there is one.
/// The expected results are those of version 5.2.0 of Hugging Face's `datasets` library
/// (`DataFilesDict.from_patterns(get_data_patterns(folder))`), which silently ignores all other
/// files.
const DATASETS: [(&[&str], &[&str], Option<&str>); 7] = [
    (
        &["train.txt", "validation.txt"],
        &["train.txt"],
        Some("validation.txt"),
    ),
    (
        &["train.txt", "valid.txt"],
        &["train.txt"],
        Some("valid.txt"),
    ),
    (&["train.txt", "val.txt"], &["train.txt"], Some("val.txt")),
    (&["train.txt", "dev.txt"], &["train.txt"], Some("dev.txt")),
    (
        &["training.txt", "dev.txt"],
        &["training.txt"],
        Some("dev.txt"),
    ),
    (&["train.txt", "book.txt"], &["train.txt"], None),
    (
        &["book1.txt", "book2.txt", "book10.txt"],
        &["book1.txt", "book2.txt", "book10.txt"],
        None,
    ),
];

#[test]
fn a_folder_has_the_parts_that_datasets_finds_in_it_and_the_rest_is_listed() {
    let folder = folder();
    for (number, (names, training, validation)) in DATASETS.into_iter().enumerate() {
        let ran = train(&folder, &format!("case{number}"), names);
        assert_eq!(ran.code, Some(0), "{names:?}: {}", ran.stderr);
        // Exactly one end-of-text token separates two texts.
        let (train, rest) = match validation {
            Some(_) => (80 * training.len(), 40),
            None => (
                40 * training.len() + training.len() / 2,
                40 * training.len() + training.len() / 2,
            ),
        };
        holds(
            &ran.stdout,
            &[&format!(
                "{train} tokens for training and {rest} for validation"
            )],
        );
        holds(
            &ran.stderr,
            &[&format!("training on {}", training.join(", "))],
        );
        if let Some(validation) = validation {
            holds(&ran.stderr, &[&format!("validating on {validation}")]);
        }
        for name in names {
            holds(&ran.stderr, &[name]);
        }
    }
}

#[test]
fn parts_may_differ_in_format_but_not_in_kind() {
    let folder = folder();
    let ids = |name: &str| folder.ok(&format!("tokenize -p abcdabcdabcdabcd -o {name}"));
    for case in ["ids", "kinds"] {
        fs::create_dir(folder.join(case)).unwrap();
        fs::copy(folder.join("data.bin"), folder.join(case).join("train.bin")).unwrap();
    }
    ids("ids/dev.npy");
    folder.write("ids/val.txt", "abcd");
    let train = |case: &str| {
        folder.gpt(&format!(
            "train --data {case} --vocab-size 50257 {SMALL} -o {case}-run"
        ))
    };
    let ran = train("ids");
    holds(
        &ran.stderr,
        &["training on train.bin; validating on dev.npy; skipped: val.txt"],
    );
    folder.write("kinds/dev.txt", "abcd");
    let ran = train("kinds");
    assert_eq!(ran.code, Some(1));
    holds(
        &ran.stderr,
        &["train.bin and dev.txt must both contain text or both contain token IDs"],
    );
}

#[test]
fn other_files_and_folders_are_listed_and_without_a_text_they_are_named() {
    let folder = folder();
    fs::create_dir_all(folder.join("mixed/chapter.txt")).unwrap();
    folder.write("mixed/notes.md", "");
    folder.write("mixed/book.txt.dvc", "outs:\n- md5: 0\n  path: book.txt\n");
    let args = format!("train --data mixed --tokenizer chars {SMALL} -o run");
    folder.refused(
        &args,
        &["no train.bin", "book.txt.dvc, notes.md, chapter.txt/"],
    );
    folder.write("mixed/a.txt", "abcd".repeat(40));
    let ran = folder.ok(&args);
    holds(
        &ran.stderr,
        &["training on a.txt; skipped: book.txt.dvc, notes.md, chapter.txt/"],
    );
}

#[cfg(target_os = "linux")]
#[test]
fn names_that_are_not_utf8_are_used_and_what_cant_be_read_is_an_error() {
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::symlink;
    let folder = folder();
    fs::create_dir(folder.join("docs")).unwrap();
    folder.write("docs/a.txt", "abcd".repeat(10));
    let latin1 = folder
        .join("docs")
        .join(OsStr::from_bytes(b"B\xfccher.txt"));
    fs::write(latin1, "abcd".repeat(10)).unwrap();
    let args = format!("train --data docs --tokenizer chars --train-ratio 1 {SMALL}");
    let ran = folder.ok(&format!("{args} -o run"));
    holds(&ran.stdout, &["81 tokens for training"]);
    holds(&ran.stderr, &["training on B\u{fffd}cher.txt, a.txt"]);
    symlink("nowhere/b.txt", folder.join("docs/b.txt")).unwrap();
    let message = "docs/b.txt: can't read: this is a link to nowhere/b.txt, which doesn't exist";
    folder.refused(&format!("{args} -o other"), &[message]);
    fs::remove_file(folder.join("docs/b.txt")).unwrap();
    let made = std::process::Command::new("mkfifo")
        .arg(folder.join("docs/pipe.txt"))
        .status();
    if made.is_ok_and(|status| status.success()) {
        folder.refused(
            &format!("{args} -o other"),
            &["docs/pipe.txt: can't read: not a file"],
        );
    }
}

#[test]
fn markup_is_noted_whether_the_name_or_the_text_shows_it() {
    let folder = folder();
    for (name, begin, kind) in [
        ("a.jsonl", "", "JSON"),
        ("a.csv", "", "a table"),
        ("a.html", "", "HTML"),
        ("a.rtf", "", "RTF"),
        ("a.txt", "\n<!DOCTYPE html>", "HTML"),
        ("a.txt", "{\\rtf1 ", "RTF"),
        ("a.txt", "{\"text\": \"", "JSON"),
        ("a.txt", "", "training"),
    ] {
        folder.write(name, format!("{begin}{}", "abcd".repeat(40)));
        let ran = folder.ok(&format!("train --data {name} --tokenizer chars {SMALL}"));
        let noted = ran.stderr.contains(&format!("{name}: this is {kind}"));
        assert_eq!(noted, kind != "training", "{}", ran.stderr);
    }
}

/// Test cases for data files that aren't plain text. Each case consists of the first bytes of such
/// a file, and a description of the file's format that must occur in the error message.
const FORMATS: [(&[u8], &str); 6] = [
    (b"%PDF-1.4\n1 0 obj", "a PDF document; use pdftotext"),
    (
        b"%PDF-1.7\n%\xb5\xb5\xb5\xb5",
        "a PDF document; use pdftotext",
    ),
    (b"PK\x03\x04\x14\0\x06\0", "a zip archive"),
    (b"\x1f\x8b\x08\0\0\0\0\0", "a gzip archive; use gunzip"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1\0", "an Office document"),
    (b"PAR1\x15\x04\x15\x10", "a Parquet file"),
];

#[test]
fn a_file_of_another_format_is_no_text() {
    let folder = folder();
    for (bytes, name) in FORMATS {
        for (file, args) in [
            ("a.txt", "train --tokenizer chars --data a.txt"),
            ("a.txt", "tokenize -f a.txt"),
            ("a.bin", "train --data a.bin"),
        ] {
            folder.write(file, bytes);
            folder.refused(args, &[name]);
        }
    }
    // A text file in UTF-16 must be rejected even if it has no byte order mark. This isn't obvious,
    // because English text in UTF-16 consists of ASCII bytes and zeros, so it is also valid UTF-8.
    let wide: Vec<u8> = b"The bell rang."
        .iter()
        .flat_map(|&byte| [byte, 0])
        .collect();
    folder.write("a.txt", wide);
    folder.refused("tokenize -f a.txt", &["iconv -f UTF-16"]);
    // Texts that merely begin like other formats are accepted.
    for text in ["GGUF is a format.", "PAR1 and PK", "version 1", "BZh"] {
        folder.write("a.txt", text);
        folder.ok("tokenize -f a.txt");
    }
}

#[test]
fn every_reader_reports_a_git_lfs_pointer() {
    let folder = folder();
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 12345\n";
    folder.write("book.txt", "abcd".repeat(40));
    folder.ok(&format!(
        "train --data book.txt --tokenizer bpe:260 {SMALL} -o run"
    ));
    folder.ok("convert run model");
    for name in [
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "special_tokens_map.json",
        "tokenizer.json",
        "tokenizer_config.json",
    ] {
        let path = folder.join("model").join(name);
        let whole = fs::read(&path).unwrap_or_default();
        folder.write(&format!("model/{name}"), pointer);
        for args in ["generate -m model ab -n 1", "eval -m model book.txt"] {
            folder.refused(args, &[name, "Git LFS pointer", "git lfs pull"]);
        }
        match whole.is_empty() {
            true => fs::remove_file(path).unwrap(),
            false => fs::write(path, whole).unwrap(),
        }
    }
    for name in ["a.txt", "a.bin", "a.npy", "a.toml"] {
        folder.write(name, pointer);
        let option = if name == "a.toml" { "config" } else { "data" };
        folder.refused(&format!("train --{option} {name}"), &[name, "Git LFS"]);
    }
    let piped = folder.gpt_reading("tokenize", pointer);
    assert_eq!(piped.code, Some(1));
    holds(&piped.stderr, &["Git LFS pointer"]);
}
