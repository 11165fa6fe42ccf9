//! Arbitrary bits as settings, logits and history of a sampler: a token that the settings allow is chosen, or they are refused, without a panic.
//!
//! Input: temperature, top-p, min-p, repetition penalty (4 bytes each, any bits), top-k (2 bytes), how many ids of history (1 byte), they (2 bytes each), and the logits (4 bytes each).

#![no_main]

use generate::Sampling;
use libfuzzer_sys::fuzz_target;
use torch_rng::TorchRng;

fuzz_target!(|bytes: &[u8]| {
    let mut rest = bytes;
    let mut number = || {
        let (bits, after) = rest.split_first_chunk::<4>()?;
        rest = after;
        Some(f32::from_le_bytes(*bits))
    };
    let (Some(temperature), Some(top_p), Some(min_p), Some(repetition_penalty)) =
        (number(), number(), number(), number())
    else {
        return;
    };
    let Some((&[low, high, length], rest)) = rest.split_first_chunk::<3>() else {
        return;
    };
    let top_k = usize::from(u16::from_le_bytes([low, high]));
    let (history, logits) = rest.split_at(rest.len().min(2 * usize::from(length)));
    let history = history.as_chunks::<2>().0.iter();
    let history: Vec<u32> = history.map(|&id| u32::from(u16::from_le_bytes(id))).collect();
    let logits = logits.as_chunks::<4>().0.iter();
    let logits: Vec<f32> = logits.map(|&bits| f32::from_le_bytes(bits)).collect();
    let sampling = Sampling {
        temperature,
        top_k: (top_k < u16::MAX.into()).then_some(top_k),
        top_p,
        min_p,
        repetition_penalty,
    };
    let view = ndarray::ArrayView1::from(&logits);
    let probabilities = sampling.probabilities(&view, &history);
    match sampling.choose(&view, &history, &mut TorchRng::manual_seed(0)) {
        Err(error) => {
            let message = error.to_string();
            assert!(!message.contains('\n'), "{message}");
        }
        Ok(id) => {
            let probabilities = probabilities.expect("what is chosen from has probabilities");
            let sum: f32 = probabilities.iter().sum();
            assert!((sum - 1.0).abs() < 1e-3, "they sum to {sum}");
            assert!(probabilities[id as usize] > 0.0, "{id} can't be chosen");
        }
    }
});
