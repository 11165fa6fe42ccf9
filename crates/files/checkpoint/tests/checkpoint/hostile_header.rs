//! Headers of safetensors files that lie: each is refused in one line that names the file and the tensor.

use std::fs::File;
use std::time::{Duration, Instant};

use crate::support::{Broken, header_refused, join, split, weights_refused};

const FILE: &str = "model.safetensors";

/// A whole file of the tensor "a", as JSON, and some zeros.
fn file_refused(entry: &str, zeros: usize, parts: &[&str]) {
    let file = join(format!(r#"{{"a":{entry}}}"#).as_bytes(), &vec![0; zeros]);
    weights_refused(|_| file, parts);
}

/// As [`file_refused`], where four zeros follow and "a" is what is named.
fn entry_refused(entry: &str, parts: &[&str]) {
    file_refused(entry, 4, &[&["\"a\""], parts].concat());
}

/// A tensor's entry.
fn f32s(shape: &str, offsets: &str) -> String {
    format!(r#"{{"dtype":"F32","shape":{shape},"data_offsets":{offsets}}}"#)
}

#[test]
fn files_too_short_for_a_header() {
    weights_refused(|_| vec![], &["the file has 0 bytes"]);
    weights_refused(|_| vec![1; 7], &["the file has 7 bytes"]);
    weights_refused(|_| vec![0; 8], &["not a JSON object"]);
}

#[test]
fn a_header_that_ends_beyond_the_file() {
    let with_length = |length: u64| {
        move |mut bytes: Vec<u8>| {
            bytes[..8].copy_from_slice(&length.to_le_bytes());
            bytes
        }
    };
    weights_refused(with_length(1 << 20), &["said to have 1048576 bytes"]);
    weights_refused(with_length(1 << 63), &["said to have 9223372036854775808"]);
    weights_refused(with_length(u64::MAX), &["18446744073709551615"]);
    weights_refused(with_length(100_000_001), &["100000001"]);
}

#[test]
fn a_huge_header_is_refused_before_it_is_read() {
    let folder = Broken::hugging_face();
    let file = File::create(folder.weights()).unwrap();
    std::io::Write::write_all(&mut &file, &100_000_000u64.to_le_bytes()).unwrap();
    file.set_len(100_000_108).unwrap();
    let start = Instant::now();
    folder.is_refused(FILE, &["100000000 bytes", "more than"]);
    assert!(start.elapsed() < Duration::from_millis(50));
}

#[test]
fn a_header_that_is_no_json_object() {
    let folder = Broken::hugging_face();
    folder.change_weights(|bytes| join(b"{\"a\xff\":1}", split(&bytes).1));
    folder.is_refused(FILE, &["not UTF-8", "byte 3"]);
    header_refused(|_| "this is no JSON".into(), &["not a JSON object"]);
    header_refused(|_| "[1, 2]".into(), &["not a JSON object", "sequence"]);
    header_refused(
        |header| header.trim_end().to_owned() + "}",
        &["trailing characters"],
    );
    header_refused(|_| "[".repeat(100_000), &["not a JSON object"]);
    header_refused(|_| "{\"a\":".repeat(100_000), &["\"a\""]);
    header_refused(
        |header| {
            header.replacen(
                "{",
                &format!("{{\"__metadata__\":{}", "[".repeat(100_000)),
                1,
            )
        },
        &["__metadata__"],
    );
}

#[test]
fn entries_that_are_not_whole() {
    let good = f32s("[1]", "[0,4]");
    let without = |field: &str| good.replacen(field, "", 1);
    entry_refused(&without(r#""dtype":"F32","#), &["missing field `dtype`"]);
    entry_refused(&without(r#""shape":[1],"#), &["`shape`"]);
    entry_refused(&without(r#","data_offsets":[0,4]"#), &["`data_offsets`"]);
    entry_refused(&good.replace("F32", "F31"), &["unknown dtype \"F31\""]);
    entry_refused(&f32s("[-1]", "[0,4]"), &["`-1`", "whole number"]);
    entry_refused(&f32s("[1.5]", "[0,4]"), &["1.5", "whole number"]);
    entry_refused(&f32s(r#"["1"]"#, "[0,4]"), &["whole number"]);
    entry_refused(&f32s("[1]", "[0]"), &["invalid length 1"]);
    entry_refused(&good.replace("}", r#","x":1}"#), &["`x`"]);
    let twice = good.replace("{", r#"{"dtype":"F32","#);
    entry_refused(&twice, &["duplicate"]);
    entry_refused("7", &["an object"]);
    // What the parser quotes is cut in the middle.
    let long = f32s(&format!("\"{}\"", "a".repeat(1000)), "[0,4]");
    entry_refused(&long, &["a…a", "an array"]);
}

#[test]
fn spans_that_do_not_fit_shape_or_file() {
    entry_refused(&f32s("[2]", "[0,4]"), &["takes 8 bytes", "0 to 4"]);
    entry_refused(&f32s("[1]", "[4,0]"), &["4 to 0"]);
    let most = "18446744073709551615";
    entry_refused(&f32s("[1]", &format!("[{most},3]")), &[most]);
    entry_refused(&f32s("[2]", "[0,8]"), &["ends at byte 8", "only 4"]);
    file_refused(
        &f32s("[1]", "[0,4]"),
        5,
        &["5 bytes follow", "end at byte 4"],
    );
    file_refused(&f32s("[1]", "[4,8]"), 8, &["\"a\"", "hole"]);
    let two = |[a, b]: [String; 2]| format!(r#"{a},"b":{b}"#);
    file_refused(
        &two([f32s("[2]", "[0,8]"), f32s("[2]", "[4,12]")]),
        12,
        &["\"b\"", "begins at byte 4", "ends at 8"],
    );
    file_refused(
        &two([f32s("[1]", "[0,4]"), f32s("[1]", "[8,12]")]),
        12,
        &["\"b\"", "begins at byte 8", "hole"],
    );
}

#[test]
fn shapes_that_cannot_be_counted() {
    let start = Instant::now();
    for shape in [
        "[1152921504606846976]",
        "[4294967296,4294967296]",
        "[1152921504606846976,1152921504606846976,0]",
    ] {
        entry_refused(&f32s(shape, "[0,4]"), &[]);
    }
    let twos = |n: usize| f32s(&format!("[{}]", vec!["2"; n].join(",")), "[0,4]");
    entry_refused(&twos(32), &["[2, 2, 2, 2, 2, 2, 2, 2, …]"]);
    entry_refused(&twos(100_000), &["at most 32 sizes"]);
    assert!(start.elapsed() < Duration::from_secs(1));
}

#[test]
fn a_cut_file_and_bytes_too_many() {
    weights_refused(
        |bytes| bytes[..bytes.len() - 1].to_vec(),
        &["tensor ", "bytes follow the header"],
    );
    weights_refused(
        |bytes| [bytes, vec![0]].concat(),
        &["bytes follow the header"],
    );
}

#[test]
fn a_name_that_is_there_twice() {
    header_refused(
        |header| header.replacen("transformer.h.1.ln_1.bias", "transformer.h.0.ln_1.bias", 1),
        &["\"transformer.h.0.ln_1.bias\" twice"],
    );
    header_refused(
        |header| header.replacen("{", "{\"__metadata__\":{},", 1),
        &["\"__metadata__\" twice"],
    );
    // With and without prefix is the same tensor.
    header_refused(
        |header| header.replacen("transformer.h.1.ln_1.bias", "h.0.ln_1.bias", 1),
        &["h.0.ln_1.bias", "there twice"],
    );
}
