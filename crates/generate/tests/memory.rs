//! Measures the peak memory that a decoder needs to load its weights and to compute the first
//! logits.
//!
//! This file contains only one test, because the tests in a file run in parallel, and the memory
//! that another test allocates at the same time would be included in the measurement.
#![allow(clippy::unwrap_used)]

use checkpoint::{ModelFolder, SpecialTokens, save_book, save_hugging_face};
use generate::{Decoder, DecoderWeights, Dtype, weight_bytes};
use gpt::{GptConfig, GptModel};
use peak_alloc::PeakAlloc;
use torch_rng::TorchRng;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// Loads a model and computes the first logits. Returns the peak memory in bytes that this
/// requires, not counting the memory that was already in use before.
fn peak_of_decoding(folder: &ModelFolder, precision: Dtype) -> usize {
    let before = ALLOCATOR.current_usage();
    ALLOCATOR.reset_peak_usage();
    let first_logits = |weights: DecoderWeights| {
        let mut decoder = Decoder::new(weights);
        let weights = ALLOCATOR.current_usage() - before;
        let counted = weight_bytes(precision, &decoder.model_config());
        let more = weights as f64 / counted as f64;
        assert!(
            (1.0..1.1).contains(&more),
            "{precision}: {weights} bytes, {counted} counted"
        );
        decoder.start(&[1, 2, 3]).unwrap();
        decoder.advance().unwrap();
    };
    let read = |name: &str, rows, out: &mut [f32]| -> Result<(), Box<dyn std::error::Error>> {
        Ok(folder.read_rows(name, rows, out)?)
    };
    first_logits(DecoderWeights::read(&folder.config(), precision, read).unwrap());
    ALLOCATOR.peak_usage().saturating_sub(before)
}

#[test]
fn in_8_bits_a_decoder_takes_a_third_of_the_memory_and_in_4_bits_a_quarter() {
    for tied in [true, false] {
        let config = GptConfig {
            vocab_size: 4000,
            context_length: 64,
            emb_dim: 512,
            n_heads: 4,
            n_layers: 12,
            qkv_bias: true,
            tied,
            ..GptConfig::GPT2_124M
        };
        let folder = tempfile::tempdir().unwrap();
        let [book, gpt2] = ["book", "gpt2"].map(|name| folder.path().join(name));
        {
            let model = GptModel::new(config, &mut TorchRng::manual_seed(1)).unwrap();
            save_book(&model, &book).unwrap();
            save_hugging_face(&model, &gpt2, Dtype::Float32, &SpecialTokens::default()).unwrap();
        }
        for path in [book, gpt2] {
            let folder = ModelFolder::open(path).unwrap();
            let in_f32 = peak_of_decoding(&folder, Dtype::Float32);
            assert!(in_f32 >= weight_bytes(Dtype::Float32, &config));
            for (precision, part) in [
                (Dtype::Float16, 1.7),
                (Dtype::BFloat16, 1.7),
                (Dtype::Int8, 3.0),
                (Dtype::Int4, 4.0),
            ] {
                let peak = peak_of_decoding(&folder, precision);
                assert!(peak >= weight_bytes(precision, &config));
                assert!(
                    peak as f64 <= in_f32 as f64 / part,
                    "{precision}: {peak} bytes, in f32 {in_f32}"
                );
            }
        }
    }
}
