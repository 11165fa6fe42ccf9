//! An example of a custom rule for choosing tokens.
//!
//! ```sh
//! cargo run --release -p generate --example custom_sampler
//! ```
//!
//! In each step, the decoder computes the logits of the next token. The program then chooses the
//! token with the largest logit, skipping any token that is among the last three tokens of the
//! text.

use std::error::Error;

use generate::Decoder;
use generate::gpt::{GptConfig, GptModel};
use generate::torch_rng::TorchRng;
use tokenizer::Gpt2Tokenizer;

fn main() -> Result<(), Box<dyn Error>> {
    let config = GptConfig {
        context_length: 64,
        emb_dim: 48,
        n_heads: 4,
        n_layers: 2,
        ..GptConfig::GPT2_124M
    };
    // For this example, a small model with random weights is enough, but the text that it generates
    // is meaningless. To load a trained model from a file, use `checkpoint::load_model`.
    let model = GptModel::new(config, &mut TorchRng::manual_seed(123))?;
    let tokenizer = Gpt2Tokenizer::new();
    let mut ids = tokenizer.encode("Every effort moves you")?;

    let mut decoder = Decoder::new(&model);
    decoder.start(&ids)?;
    for _ in 0..12 {
        let logits = decoder.advance()?; // (vocab_size)
        let last = &ids[ids.len().saturating_sub(3)..];
        let candidates = (0..logits.len() as u32).filter(|id| !last.contains(id));
        let best = candidates.max_by(|&a, &b| logits[a as usize].total_cmp(&logits[b as usize]));
        let id = best.ok_or("a vocabulary of more than three tokens")?;
        ids.push(id);
        decoder.push(&[id])?;
    }
    println!("{}", tokenizer.decode_lossy(&ids)?);
    Ok(())
}
