//! Arbitrary bits as settings, logits and history of a sampler: a token that the settings allow is
//! chosen, or they are refused, without a panic.
//!
//! Input: temperature, top-p, min-p, repetition penalty (4 bytes each, any bits), top-k (2 bytes),
//! how many ids of history (1 byte), they (2 bytes each), and the logits (4 bytes each).

#![no_main]

use libfuzzer_sys::fuzz_target;
use torch_rng::TorchRng;

fuzz_target!(|bytes: &[u8]| {
    let Some((sampling, length, rest)) = fuzz::sampling(bytes) else {
        return;
    };
    let (history, logits) = rest.split_at(rest.len().min(2 * length));
    let history = history.as_chunks::<2>().0.iter();
    let history: Vec<u32> = history
        .map(|&id| u32::from(u16::from_le_bytes(id)))
        .collect();
    let logits = logits.as_chunks::<4>().0.iter();
    let logits: Vec<f32> = logits.map(|&bits| f32::from_le_bytes(bits)).collect();
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
