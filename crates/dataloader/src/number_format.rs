//! Functions that check whether a file without a header could contain 16-bit token IDs. They
//! recognize files with other contents, such as 32-bit integers, floating-point numbers or text.
//! File formats that begin with a magic number are recognized by
//! [`FileFormat`](atomic_file::FileFormat) instead.
//!
//! Any sequence of bytes could be a list of 16-bit IDs, so the functions use statistical tests. For
//! example, if every second 16-bit number is 0, the file probably contains 32-bit integers. Each
//! test requires so many numbers that a file of token IDs is extremely unlikely to be rejected. For
//! instance, of all files that contain 12 random token IDs of GPT-2, fewer than one in ten million
//! look like text. A file that is too short for a test is never rejected by this test.

use std::collections::HashSet;
use std::str::from_utf8;

/// Minimum number of 16-bit values that are required as evidence before a file is assumed to have
/// another format. For example, if the values at 16 or more odd positions are all 0, the file is
/// assumed to contain 32-bit integers.
const MIN: usize = 16;

/// Examines the first bytes of a file without a header. Returns a description of the contents if
/// they are probably something other than 16-bit token IDs, and `None` otherwise.
pub(crate) fn kind_of(head: &[u8]) -> Option<&'static str> {
    let ids: Vec<u64> = numbers(head, 2).collect();
    let different: HashSet<u64> = ids.iter().copied().collect();
    if !is_text(head, different.len()) {
        return kind_of_numbers(head, &ids, &different);
    }
    Some(match head.trim_ascii_start().starts_with(b"<") {
        true => "an HTML page or other markup, perhaps from a failed download",
        false => "plain text that hasn't been converted to token IDs",
    })
}

/// Returns true if the bytes are probably text. At least 99% of them must be printable characters
/// (0x20 and above) or white space, and the number of distinct 16-bit numbers must be large enough
/// to rule out a coincidence.
///
/// A file of token IDs could look like text by chance, because an ID consists of two bytes, and
/// both may be printable. However, about one in four token IDs of GPT-2 contains a byte that is
/// neither printable nor white space, and about three in five contain bytes that aren't valid
/// UTF-8. Such a coincidence is therefore practically impossible in a file with enough distinct
/// IDs. If all bytes of the file are valid UTF-8, 12 distinct numbers are enough to conclude that
/// it is text. Otherwise, 80 distinct numbers are needed.
fn is_text(head: &[u8], different: usize) -> bool {
    let is_written = |byte: &&u8| **byte >= b' ' || byte.is_ascii_whitespace();
    let is_utf8 = from_utf8(head).map_or_else(|error| error.error_len().is_none(), |_| true);
    let enough = if is_utf8 { 12 } else { 80 };
    different >= enough && nearly_all(head, is_written)
}

/// Returns a description of the numbers in a file if they are probably something other than 16-bit
/// token IDs, and `None` otherwise. `ids` contains the first bytes of the file, interpreted as
/// 16-bit numbers, and `different` contains the distinct numbers in `ids`.
fn kind_of_numbers(head: &[u8], ids: &[u64], different: &HashSet<u64>) -> Option<&'static str> {
    /// Size of GPT-2's vocabulary, rounded up as in nanoGPT. All token IDs of GPT-2 are less than
    /// this number.
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
    // If a vocabulary has more than 65,536 tokens, its IDs are stored as 32-bit integers. The lower
    // half of such an integer can have any value, but the upper half is less than 4 if the
    // vocabulary has at most 262,144 tokens. The numbers are assumed to be 32-bit integers if they
    // match this pattern and at least one lower half is too large to be a token ID of GPT-2.
    if at(1, 2).all(|id| id < 4) && at(0, 2).any(|id| id >= MAX_GPT2) {
        return Some("int32 or uint32");
    }
    if different.len() >= 4 && different.iter().all(|id| id % 256 == 0) {
        return Some("big-endian numbers");
    }
    // If a file contains 32-bit or 64-bit floating-point numbers, one of two conditions is true.
    // Either the 16-bit numbers at even positions, which contain only bits of mantissas, are all 0,
    // because all of the floating-point numbers are small integers. Or the 16-bit numbers at odd
    // positions have many distinct values. `is_wide` is true in both cases.
    let is_wide = zero(0, 2) || at(1, 2).collect::<HashSet<_>>().len() >= MIN;
    if (is_wide && is_floats(head)) || is_half_floats(different) {
        return Some("floating-point numbers");
    }
    is_bytes(different).then_some("8-bit integers (uint8)")
}

/// Returns true if the bytes are probably 32-bit or 64-bit floating-point numbers. The bytes are
/// interpreted as each of the two types. For one of the types, nearly all nonzero numbers must have
/// absolute values between 1e-6 and 1e6.
fn is_floats(head: &[u8]) -> bool {
    let is_usual = |number: &f64| (1e-6..1e6).contains(&number.abs());
    let singles = numbers(head, 4).map(|bits| f64::from(f32::from_bits(bits as u32)));
    let doubles = numbers(head, 8).map(f64::from_bits);
    nearly_all(singles.filter(|&number| number != 0.0), is_usual)
        || nearly_all(doubles.filter(|&number| number != 0.0), is_usual)
}

/// Returns true if the 16-bit numbers are probably floating-point numbers (float16 or bfloat16).
/// Nearly all of the numbers must have a typical magnitude, and between a quarter and three
/// quarters must be negative. If floating-point numbers are interpreted as integers, the positive
/// and the negative numbers form two separate ranges. Token IDs would also occur between the two
/// ranges.
fn is_half_floats(different: &HashSet<u64>) -> bool {
    let is_usual = |id: u64| (0x0800..0x6400).contains(&id);
    let below = different.iter().filter(|&id| is_usual(id ^ 0x8000)).count();
    different.len() >= 4 * MIN
        && (different.len() / 4..3 * different.len() / 4).contains(&below)
        && nearly_all(different, |&&id| is_usual(id) || is_usual(id ^ 0x8000))
}

/// Returns true if the file probably contains one byte per ID. In such a file, both bytes of a
/// 16-bit number are IDs of the same vocabulary, so nearly all lower bytes are no larger than the
/// largest upper byte. In a file of 16-bit IDs, however, the lower bytes take all values up to 255,
/// unless all IDs are less than 256.
fn is_bytes(different: &HashSet<u64>) -> bool {
    /// Exclusive upper limit for the largest upper byte of the 16-bit numbers. If the largest upper
    /// byte reaches this limit, nearly all lower bytes are no larger than it even in a file of
    /// 16-bit IDs. Such a file can't be told apart from a file with one byte per ID, so `is_bytes`
    /// returns false.
    const MAX: u64 = 240;
    let most = different.iter().map(|id| id / 256).max().unwrap_or(0);
    // If the file contained 16-bit IDs, its lower bytes would be almost random. The probability
    // that none of them is greater than `most`, the largest upper byte, would be about 2 to the
    // power of `-bits`. The file is assumed to contain one byte per ID only if this probability is
    // less than 2^-30.
    let bits = different.len() as f64 * (256.0 / (most + 1) as f64).log2();
    (1..MAX).contains(&most) && bits > 30.0 && nearly_all(different, |id| *id % 256 <= most)
}

/// Returns true if the condition `holds` is true for at least 99% of the items.
fn nearly_all<T>(items: impl IntoIterator<Item = T>, holds: impl Fn(&T) -> bool) -> bool {
    let (mut all, mut held) = (0, 0);
    for item in items {
        all += 1;
        held += usize::from(holds(&item));
    }
    100 * held >= 99 * all
}

/// Interprets the bytes as little-endian unsigned integers with a width of `width` bytes. An
/// incomplete number at the end is ignored.
pub(crate) fn numbers(bytes: &[u8], width: usize) -> impl Iterator<Item = u64> {
    bytes.chunks_exact(width).map(|chunk| {
        let low = chunk.iter().rev();
        low.fold(0, |number, &byte| number << 8 | u64::from(byte))
    })
}
