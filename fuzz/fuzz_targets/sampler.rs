//! Samples a token with arbitrary settings and logits. The sampler must choose a token that has a
//! probability greater than 0, or return an error. It must not panic.
//!
//! The input consists of the settings of a sampler and an unused byte (19 bytes, see
//! `fuzz::sampling`), and the logits (4 bytes each).

#![no_main]

use libfuzzer_sys::fuzz_target;
use torch_rng::TorchRng;

fuzz_target!(|bytes: &[u8]| {
    let Some((sampling, _, logits)) = fuzz::sampling(bytes) else {
        return;
    };
    let logits = logits.as_chunks::<4>().0.iter();
    let logits: Vec<f32> = logits.map(|&bits| f32::from_le_bytes(bits)).collect();
    let view = ndarray::ArrayView1::from(&logits);
    let probabilities = sampling.probabilities(&view);
    if let Ok(id) = sampling.choose_after(&[0, 1, 7], &view, &mut TorchRng::manual_seed(0)) {
        assert!((id as usize) < logits.len(), "{id} of {} tokens", logits.len());
    }
    match sampling.choose(&view, &mut TorchRng::manual_seed(0)) {
        Err(error) => {
            let message = error.to_string();
            assert!(!message.contains('\n'), "{message}");
        }
        Ok(id) => {
            let probabilities = probabilities.expect("the kept tokens have probabilities");
            let sum: f32 = probabilities.iter().sum();
            assert!((sum - 1.0).abs() < 1e-3, "they sum to {sum}");
            assert!(probabilities[id as usize] > 0.0, "{id} can't be chosen");
        }
    }
});
