//! Tests that each invalid header of a safetensors file is rejected with a single-line error
//! message that contains the name of the file and, if possible, the name of the tensor.
//!
//! Most invalid headers are detected by the crate `safetensors`, so there is only one test case for
//! each kind of problem. A test in `memory.rs` checks that a header isn't read if it claims to be
//! very long.

use crate::support::{Broken, header_refused, join, split, weights_refused};

const FILE: &str = "model.safetensors";

/// Checks that loading fails for a weight file with an invalid header. The file contains one
/// tensor, "a", which the header describes by `entry`, followed by `zeros` zero bytes of data. The
/// error message must contain all of `parts`.
fn file_refused(entry: &str, zeros: usize, parts: &[&str]) {
    let file = join(format!(r#"{{"a":{entry}}}"#).as_bytes(), &vec![0; zeros]);
    weights_refused(|_| file, parts);
}

/// Checks that loading fails for a weight file with an invalid header entry, as [`file_refused`]
/// does. The data always consists of four zero bytes, and the error message must also contain the
/// name of the tensor, "a".
fn entry_refused(entry: &str, parts: &[&str]) {
    file_refused(entry, 4, &[&["\"a\""], parts].concat());
}

/// Returns an entry for the header of a safetensors file, in JSON, that describes a tensor of type
/// F32 with the given shape and byte offsets.
fn f32s(shape: &str, offsets: &str) -> String {
    format!(r#"{{"dtype":"F32","shape":{shape},"data_offsets":{offsets}}}"#)
}

#[test]
fn files_too_short_for_a_header() {
    weights_refused(|_| vec![], &["the file has 0 bytes"]);
    weights_refused(|_| vec![1; 7], &["the file has 7 bytes"]);
    weights_refused(|_| vec![0; 8], &["the header is damaged", "EOF"]);
    let text = ["but the file begins with \"To be\\n\\xff!\""];
    weights_refused(|_| b"To be\n\xff! That is".to_vec(), &text);
}

#[test]
fn a_header_that_is_no_json_object() {
    let folder = Broken::hugging_face();
    folder.change_weights(|bytes| join(b"{\"a\xff\":1}", split(&bytes).1));
    folder.is_refused(FILE, &["the header is damaged", "unicode"]);
    header_refused(|_| "[1, 2]".into(), &["the header is damaged", "sequence"]);
    header_refused(|_| "{\"a\":".repeat(100_000), &["the header is damaged"]);
}

#[test]
fn entries_that_are_not_whole() {
    let good = f32s("[1]", "[0,4]");
    let without = good.replace(r#""dtype":"F32","#, "");
    entry_refused(&without, &["missing field `dtype`"]);
    entry_refused(&good.replace("F32", "F31"), &["unknown variant `F31`"]);
    entry_refused(&f32s("[-1]", "[0,4]"), &["`-1`"]);
    // Error messages shorten long quotations from the file.
    let long = f32s(&format!("\"{}\"", "a".repeat(1000)), "[0,4]");
    entry_refused(&long, &["a…a", "a sequence"]);
}

#[test]
fn shapes_and_places_that_do_not_fit_each_other_or_the_file() {
    for (shape, offsets) in [
        ("[2]", "[0,4]"),
        ("[1]", "[18446744073709551615,3]"),
        ("[4294967296,4294967296]", "[0,4]"),
        (&format!("[{}]", vec!["2"; 100_000].join(",")), "[0,4]"),
    ] {
        file_refused(&f32s(shape, offsets), 4, &["the header is damaged"]);
    }
    let length = ["the tensors take 8 bytes", "4 bytes follow"];
    file_refused(&f32s("[2]", "[0,8]"), 4, &length);
    let first = f32s("[2]", "[0,8]");
    let overlapping = f32s("[2]", "[4,12]");
    let both = format!(r#"{first},"b":{overlapping}"#);
    file_refused(&both, 12, &["offset", "`b`"]);
}

#[test]
fn a_name_that_is_there_twice() {
    // Checks that a header with two entries of the same name is rejected. The crate `safetensors`
    // uses only the last of these entries, so the data of the first entry belongs to no tensor,
    // which is an error.
    header_refused(
        |header| header.replacen("transformer.h.1.ln_1.bias", "transformer.h.0.ln_1.bias", 1),
        &["offset", "transformer.h."],
    );
    // Checks that a file is rejected if it contains a tensor both with and without the prefix
    // `transformer.`. Both names refer to the same tensor of the model.
    header_refused(
        |header| header.replacen("transformer.h.1.ln_1.bias", "h.0.ln_1.bias", 1),
        &["h.0.ln_1.bias", "the file contains this tensor twice"],
    );
}
