//! Tokens a second of a 124M model with random weights: `cargo run --release -p generate --example decode_speed [f32|bf16|int8]`.

use std::error::Error;
use std::time::Instant;

use generate::{Decoder, DecoderConfig, Precision};
use gpt::{GptConfig, GptModel};
use torch_rng::TorchRng;

fn main() -> Result<(), Box<dyn Error>> {
    let precision: Precision = std::env::args()
        .nth(1)
        .as_deref()
        .unwrap_or("f32")
        .parse()?;
    let config = GptConfig {
        tied: true,
        ..GptConfig::GPT2_124M
    };
    let model = GptModel::new(config, &mut TorchRng::manual_seed(123))?;
    let config = DecoderConfig {
        precision,
        ..DecoderConfig::default()
    };
    let mut decoder = Decoder::with_config(&model, config)?;
    let prompt: Vec<u32> = (0..64).collect();
    let began = Instant::now();
    decoder.prompt(&[&prompt])?;
    println!(
        "prompt of {}: {:.1} ms",
        prompt.len(),
        1e3 * began.elapsed().as_secs_f64()
    );
    let mut times: Vec<f64> = (0..100)
        .map(|token| {
            let began = Instant::now();
            decoder.step(&[token])?;
            Ok(began.elapsed().as_secs_f64())
        })
        .collect::<Result<_, generate::GenerateError>>()?;
    times.sort_by(f64::total_cmp);
    let (best, median) = (times[0], times[times.len() / 2]);
    println!(
        "{precision} step: median {:.2} ms ({:.1} tokens/s, {:.1} GB/s), best {:.2} ms",
        1e3 * median,
        1.0 / median,
        decoder.weight_bytes() as f64 / median / 1e9,
        1e3 * best
    );
    Ok(())
}
