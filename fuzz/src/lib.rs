//! How the targets read their bytes: pieces with their lengths before them, and a sampler's
//! settings; and a run as files.

pub mod run;

use generate::Sampling;

/// Two bytes of length and as many bytes, if there are; and the rest.
pub fn take(bytes: &[u8]) -> (&[u8], &[u8]) {
    let Some((length, bytes)) = bytes.split_first_chunk::<2>() else {
        return (&[], bytes);
    };
    bytes.split_at(bytes.len().min(usize::from(u16::from_le_bytes(*length))))
}

/// A file with other bytes in one place: its number (2 bytes), the number of bytes removed (1
/// byte), and the bytes inserted.
pub fn patched(old: &[u8], patch: &[u8]) -> Vec<u8> {
    let Some((&[low, high, gone], new)) = patch.split_first_chunk::<3>() else {
        return old.to_vec();
    };
    let at = usize::from(u16::from_le_bytes([low, high])) % (old.len() + 1);
    let after = &old[old.len().min(at + usize::from(gone))..];
    [&old[..at], new, after].concat()
}

/// Temperature, top-p, min-p and repetition penalty (4 bytes each, any bits) and top-k (2 bytes,
/// all ones for none); a length (1 byte), and the rest.
pub fn sampling(mut bytes: &[u8]) -> Option<(Sampling, usize, &[u8])> {
    let mut number = || {
        let (bits, after) = bytes.split_first_chunk::<4>()?;
        bytes = after;
        Some(f32::from_le_bytes(*bits))
    };
    let [temperature, top_p] = [number()?, number()?];
    let [min_p, repetition_penalty] = [number()?, number()?];
    let (&[low, high, length], rest) = bytes.split_first_chunk::<3>()?;
    let top_k = usize::from(u16::from_le_bytes([low, high]));
    let sampling = Sampling {
        temperature,
        top_k: (top_k < u16::MAX.into()).then_some(top_k),
        top_p,
        min_p,
        repetition_penalty,
    };
    Some((sampling, usize::from(length), rest))
}
