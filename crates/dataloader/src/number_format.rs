//! Recognises numbers other than u16, and text, in a file of token IDs without a header. Formats
//! with a magic number are recognised by [`FileFormat`](atomic_file::FileFormat).
//!
//! Bare u16 ids can be any bytes. A sign counts only if ids of a vocabulary show it by chance less
//! often than once in a billion files: it must occur in enough different ids, and short files or
//! files with few ids are accepted.

use std::collections::HashSet;
use std::str::from_utf8;

/// The fewest ids in which every second may be 0 by chance no more.
const MIN: usize = 16;

/// Returns the kind of a file that doesn't contain bare u16 ids, by the statistics of its first
/// bytes.
pub(crate) fn kind_of(head: &[u8]) -> Option<&'static str> {
    let ids: Vec<u64> = numbers(head, 2).collect();
    let different: HashSet<u64> = ids.iter().copied().collect();
    if !is_text(head, different.len()) {
        return kind_of_numbers(head, &ids, &different);
    }
    Some(match head.trim_ascii_start().starts_with(b"<") {
        true => "an HTML page or other markup, perhaps from a failed download",
        false => "a text, which a tokenizer makes ids of",
    })
}

/// True if nearly all bytes are printable characters. One in four random ids has another byte, and
/// four in five are invalid UTF-8.
fn is_text(head: &[u8], different: usize) -> bool {
    let is_written = |byte: &&u8| **byte >= b' ' || byte.is_ascii_whitespace();
    let is_utf8 = from_utf8(head).map_or_else(|error| error.error_len().is_none(), |_| true);
    let enough = if is_utf8 { 12 } else { 80 };
    different >= enough && nearly_all(head, is_written)
}

/// Returns the kind of numbers other than u16, given those that they are as u16.
fn kind_of_numbers(head: &[u8], ids: &[u64], different: &HashSet<u64>) -> Option<&'static str> {
    /// GPT-2's tokens, as nanoGPT pads them, are below.
    const MAX_GPT2: u64 = 50_304;
    let at = |first: usize, step: usize| ids.iter().copied().skip(first).step_by(step);
    let zero = |first, step| at(first, step).all(|id| id == 0);
    if ids.len() < 2 * MIN || zero(0, 1) {
        return None;
    }
    if zero(1, 2) {
        let is_64 = zero(2, 4) && head.len().is_multiple_of(8);
        return Some(if is_64 { "int64" } else { "int32 or uint32" });
    }
    // Of numbers over 65,535 the upper halves are 1, 2 or 3, and the lower ones anything.
    if at(1, 2).all(|id| id < 4) && at(0, 2).any(|id| id >= MAX_GPT2) {
        return Some("int32 or uint32");
    }
    if different.len() >= 4 && different.iter().all(|id| id % 256 == 0) {
        return Some("big-endian numbers");
    }
    // Whole numbers as floats have lower halves of 0.
    let is_wide = zero(0, 2) || at(1, 2).collect::<HashSet<_>>().len() >= MIN;
    if (is_wide && is_floats(head)) || is_half_floats(different) {
        return Some("floating-point numbers");
    }
    is_bytes(different).then_some("uint8, one byte for each token")
}

/// True if nearly all numbers of 4 or of 8 bytes are floats of usual sizes.
fn is_floats(head: &[u8]) -> bool {
    let is_usual = |number: &f64| (1e-6..1e6).contains(&number.abs());
    let singles = numbers(head, 4).map(|bits| f64::from(f32::from_bits(bits as u32)));
    let doubles = numbers(head, 8).map(f64::from_bits);
    nearly_all(singles.filter(|&number| number != 0.0), is_usual)
        || nearly_all(doubles.filter(|&number| number != 0.0), is_usual)
}

/// True if nearly all ids are floats of 2 bytes and usual sizes, which are below 0 about as often
/// as not: ids would be in between, too.
fn is_half_floats(different: &HashSet<u64>) -> bool {
    let is_usual = |id: u64| (0x0800..0x6400).contains(&id);
    let below = different.iter().filter(|&id| is_usual(id ^ 0x8000)).count();
    different.len() >= 4 * MIN
        && (different.len() / 4..3 * different.len() / 4).contains(&below)
        && nearly_all(different, |&&id| is_usual(id) || is_usual(id ^ 0x8000))
}

/// True if the lower bytes of all ids are as small as the upper ones: of u16 they reach to 255,
/// unless all ids are small.
fn is_bytes(different: &HashSet<u64>) -> bool {
    /// Upper bytes from here on reveal too little about the lower ones.
    const MAX: u64 = 240;
    let most = different.iter().map(|id| id / 256).max().unwrap_or(0);
    // So many different ids have such lower bytes by chance once in 2 to the `bits` files.
    let bits = different.len() as f64 * (256.0 / (most + 1) as f64).log2();
    (1..MAX).contains(&most) && bits > 30.0 && nearly_all(different, |id| *id % 256 <= most)
}

/// True for 99 of 100 or more.
fn nearly_all<T>(items: impl IntoIterator<Item = T>, holds: impl Fn(&T) -> bool) -> bool {
    let (mut all, mut held) = (0, 0);
    for item in items {
        all += 1;
        held += usize::from(holds(&item));
    }
    100 * held >= 99 * all
}

/// Returns the little-endian numbers of so many bytes each.
pub(crate) fn numbers(bytes: &[u8], width: usize) -> impl Iterator<Item = u64> {
    bytes.chunks_exact(width).map(|chunk| {
        let low = chunk.iter().rev();
        low.fold(0, |number, &byte| number << 8 | u64::from(byte))
    })
}
