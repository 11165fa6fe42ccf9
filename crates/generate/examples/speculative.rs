//! An example of speculative decoding, in which a small model guesses several tokens and a large
//! model checks all of them in one step.
//!
//! ```sh
//! cargo run --release -p generate --example speculative
//! ```
//!
//! The large model keeps the guessed tokens up to the first one that it wouldn't have chosen
//! itself, and replaces that one. The text is therefore the same as if the large model had
//! generated it alone, but the large model reads its weights less often, which is what takes most
//! of the time.

use std::error::Error;

use generate::gpt::{GptConfig, GptModel};
use generate::ndarray::array;
use generate::torch_rng::TorchRng;
use generate::{AsWeights, Decoder, GenerateError, generate_text_simple, greedy_id};

/// Number of tokens that the small model guesses before the large model checks them.
const GUESSES: usize = 4;

fn main() -> Result<(), Box<dyn Error>> {
    // Two untrained models rarely predict the same token. So that the large model accepts some of
    // the small model's guesses, this example builds the small model from the embeddings, the first
    // block and the output layer of the large one.
    let config = GptConfig {
        vocab_size: 200,
        context_length: 64,
        emb_dim: 48,
        n_heads: 4,
        n_layers: 3,
        ..GptConfig::GPT2_124M
    };
    let large = GptModel::new(config, &mut TorchRng::manual_seed(123))?;
    let mut small = large.clone();
    small.trf_blocks.truncate(1);

    let (mut draft, mut target) = (Decoder::new(&small), Decoder::new(&large));
    let prompt = [1, 2, 3];
    draft.start(&prompt)?;
    target.start(&prompt)?;
    let (mut steps, mut accepted) = (0, 0);
    while target.tokens().len() < 40 {
        accepted += speculate(&mut draft, &mut target)?;
        steps += 1;
    }
    let text = &target.tokens()[..40];
    println!("steps of the large model: {steps}");
    println!("accepted guesses: {accepted} of {}", steps * GUESSES);
    let expected = generate_text_simple(&large, array![prompt], 37, 64)?;
    assert_eq!(text, expected.row(0).to_vec());
    println!("the large model alone generates the same tokens: {text:?}");
    Ok(())
}

/// Appends at least one and at most `GUESSES + 1` tokens to the text of both decoders. Returns the
/// number of guesses that the large model has accepted.
fn speculate<S: AsWeights, L: AsWeights>(
    draft: &mut Decoder<S>,
    target: &mut Decoder<L>,
) -> Result<usize, GenerateError> {
    let before = target.tokens().len();
    for _ in 0..GUESSES {
        let guess = greedy_id(&draft.advance()?)?;
        draft.push(&[guess])?;
    }
    let guesses = draft.tokens()[before..].to_vec();
    target.push(&guesses)?;
    let logits = target.advance_all()?; // (pending, vocab_size)
    // The row with the index `first` contains the large model's logits at the position of the first
    // guess. This guess is accepted if it is the most probable token according to these logits.
    let first = logits.nrows() - 1 - GUESSES;
    for (accepted, row) in logits.rows().into_iter().skip(first).enumerate() {
        let chosen = greedy_id(&row)?;
        if guesses.get(accepted) != Some(&chosen) {
            draft.truncate(before + accepted);
            draft.push(&[chosen])?;
            target.truncate(before + accepted);
            target.push(&[chosen])?;
            return Ok(accepted);
        }
    }
    unreachable!("the row after the last guess has no guess to match")
}
