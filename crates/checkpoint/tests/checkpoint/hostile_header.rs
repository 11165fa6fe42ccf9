//! Headers of safetensors files that lie: each is refused in one line that names the file and the tensor.

use std::fs::File;
use std::time::{Duration, Instant};

use crate::support::{Broken, header_refused, join, split, weights_refused};

const FILE: &str = "model.safetensors";

/// A whole file of one tensor entry, as JSON, and some zeros.
fn entry_refused(entry: &str, zeros: usize, parts: &[&str]) {
    let file = join(format!(r#"{{"a":{entry}}}"#).as_bytes(), &vec![0; zeros]);
    weights_refused(|_| file, parts);
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
    entry_refused(
        r#"{"shape":[1],"data_offsets":[0,4]}"#,
        4,
        &["\"a\"", "missing field `dtype`"],
    );
    entry_refused(
        r#"{"dtype":"F32","data_offsets":[0,4]}"#,
        4,
        &["\"a\"", "`shape`"],
    );
    entry_refused(
        r#"{"dtype":"F32","shape":[1]}"#,
        4,
        &["\"a\"", "`data_offsets`"],
    );
    entry_refused(
        r#"{"dtype":"F31","shape":[1],"data_offsets":[0,4]}"#,
        4,
        &["\"a\"", "unknown dtype \"F31\""],
    );
    entry_refused(
        r#"{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}"#,
        4,
        &["\"a\"", "`-1`", "whole number"],
    );
    entry_refused(
        r#"{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}"#,
        4,
        &["\"a\"", "1.5", "whole number"],
    );
    entry_refused(
        r#"{"dtype":"F32","shape":["1"],"data_offsets":[0,4]}"#,
        4,
        &["\"a\"", "whole number"],
    );
    entry_refused(
        r#"{"dtype":"F32","shape":[1],"data_offsets":[0]}"#,
        4,
        &["\"a\"", "invalid length 1"],
    );
    entry_refused(
        r#"{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":1}"#,
        4,
        &["\"a\"", "`x`"],
    );
    entry_refused(
        r#"{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}"#,
        4,
        &["\"a\"", "duplicate"],
    );
    entry_refused("7", 4, &["\"a\"", "an object"]);
}

#[test]
fn spans_that_do_not_fit_shape_or_file() {
    entry_refused(
        r#"{"dtype":"F32","shape":[2],"data_offsets":[0,4]}"#,
        4,
        &["\"a\"", "takes 8 bytes", "0 to 4"],
    );
    entry_refused(
        r#"{"dtype":"F32","shape":[1],"data_offsets":[4,0]}"#,
        4,
        &["\"a\"", "4 to 0"],
    );
    entry_refused(
        r#"{"dtype":"F32","shape":[1],"data_offsets":[18446744073709551615,3]}"#,
        4,
        &["\"a\"", "18446744073709551615"],
    );
    entry_refused(
        r#"{"dtype":"F32","shape":[2],"data_offsets":[0,8]}"#,
        4,
        &["\"a\"", "ends at byte 8", "only 4"],
    );
    entry_refused(
        r#"{"dtype":"F32","shape":[1],"data_offsets":[0,4]}"#,
        5,
        &["5 bytes follow", "end at byte 4"],
    );
    entry_refused(
        r#"{"dtype":"F32","shape":[1],"data_offsets":[4,8]}"#,
        8,
        &["\"a\"", "hole"],
    );
    entry_refused(
        r#"{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}"#,
        12,
        &["\"b\"", "begins at byte 4", "ends at 8"],
    );
    entry_refused(
        r#"{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}"#,
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
        let entry = format!(r#"{{"dtype":"F32","shape":{shape},"data_offsets":[0,4]}}"#);
        entry_refused(&entry, 4, &["\"a\""]);
    }
    let shape_of_twos = |n: usize| {
        let twos = vec!["2"; n].join(",");
        format!(r#"{{"dtype":"F32","shape":[{twos}],"data_offsets":[0,4]}}"#)
    };
    entry_refused(
        &shape_of_twos(32),
        4,
        &["\"a\"", "[2, 2, 2, 2, 2, 2, 2, 2, …]"],
    );
    entry_refused(&shape_of_twos(100_000), 4, &["\"a\"", "at most 32 sizes"]);
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
