//! Measures how much the loss of a model increases when its weights are rounded to fewer bits.
//!
//! ```sh
//! cargo run --release -p generate --example precision_costs MODEL TEXT
//! ```
//!
//! `MODEL` is the path of a model folder, and `TEXT` is the path of a text file. For each number
//! format, the program prints the loss of the model, and how often the most probable token is the
//! same as with f32 weights (in percent).
//!
//! The program splits the text into windows of the model's context length. Within each window, it
//! predicts each token from the preceding tokens of the text, one decoding step at a time. The
//! measurement therefore uses the same kernels as text generation.

use std::error::Error;

use checkpoint::load_model;
use generate::{Decoder, DecoderWeights, Dtype, greedy_id};
use ndarray::Axis;
use tensor_ops::cross_entropy;
use tokenizer::Gpt2Tokenizer;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, model, text] = &arguments[..] else {
        return Err(
            "expected two arguments: the folder of a model and the path of a text file".into(),
        );
    };
    let model = load_model(model)?;
    let ids = Gpt2Tokenizer::new().encode(&std::fs::read_to_string(text)?)?;
    let mut exact = Vec::new();
    for &precision in Dtype::ALL {
        let mut decoder = Decoder::new(DecoderWeights::new(&model, precision)?);
        let (mut loss, mut choices) = (0.0, Vec::new());
        for window in ids.chunks(model.config().context_length) {
            decoder.start(&window[..1])?;
            for pair in window.windows(2) {
                let logits = decoder.advance()?;
                choices.push(greedy_id(&logits)?);
                let logits = logits.insert_axis(Axis(0)); // (1, vocab_size)
                loss += f64::from(cross_entropy(&logits, &pair[1..]));
                decoder.push(&pair[1..])?;
            }
        }
        if precision == Dtype::Float32 {
            exact.clone_from(&choices);
        }
        let agreeing = choices.iter().zip(&exact).filter(|(a, b)| a == b).count();
        println!(
            "{precision:<4} loss {:.4}, and {:.2}% of the {} greedy token IDs are the same as in f32",
            loss / choices.len() as f64,
            100.0 * agreeing as f64 / choices.len() as f64,
            choices.len(),
        );
    }
    Ok(())
}
