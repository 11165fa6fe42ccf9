//! Functions that the targets use to split the fuzzer's bytes into their inputs. The module `run`
//! writes and damages the files of a training run.

pub mod run;

use generate::Sampling;

/// Splits off a block of bytes that is preceded by its length (2 bytes, little-endian). Returns the
/// block and the rest. The block is shorter if there are fewer bytes, and empty if even the length
/// is missing.
pub fn take_block(bytes: &[u8]) -> (&[u8], &[u8]) {
    let Some((length, bytes)) = bytes.split_first_chunk::<2>() else {
        return (&[], bytes);
    };
    bytes.split_at(bytes.len().min(usize::from(u16::from_le_bytes(*length))))
}

/// Returns `old` with some of its bytes replaced. `patch` consists of a position (2 bytes, modulo
/// the length of `old` plus 1), the number of bytes to remove at this position (1 byte), and the
/// bytes to insert. If `patch` is shorter than 3 bytes, `old` is returned unchanged.
pub fn apply_patch(old: &[u8], patch: &[u8]) -> Vec<u8> {
    let Some((&[low, high, gone], new)) = patch.split_first_chunk::<3>() else {
        return old.to_vec();
    };
    let at = usize::from(u16::from_le_bytes([low, high])) % (old.len() + 1);
    let after = &old[old.len().min(at + usize::from(gone))..];
    [&old[..at], new, after].concat()
}

/// Reads the settings of a sampler, then a number, and returns both with the remaining bytes.
/// Returns `None` if there are fewer than 19 bytes.
///
/// The settings are the temperature, top-p, min-p and the repetition penalty (an `f32` of any value
/// each), and top-k (2 bytes, where 0xffff means none). The number is 1 byte long. Targets use it
/// as the length of a stop string.
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
