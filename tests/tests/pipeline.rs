//! From text to generated tokens, through all crates, on a small model.

use dataloader::{DataLoaderConfig, create_dataloader_v1};
use generate::generate_text_simple;
use gpt::{DropRates, GptConfig, GptModel};
use tensor_ops::Parameters;
use tokenizer::{Gpt2Tokenizer, text_to_token_ids, token_ids_to_text};
use torch_rng::TorchRng;
use train::{AdamW, AdamWConfig};

const TEXT: &str = "The bell rang once, and the bell rang twice, and nobody came. ";

/// GPT-2's vocabulary, all else small.
const CONFIG: GptConfig = GptConfig {
    context_length: 16,
    emb_dim: 48,
    n_heads: 4,
    n_layers: 1,
    drop_rates: DropRates::all(0.0),
    ..GptConfig::GPT2_124M
};

#[test]
fn a_model_that_learned_a_sentence_by_heart_says_it() {
    let tokenizer = Gpt2Tokenizer::new();
    let mut rng = TorchRng::manual_seed(123);
    let text = TEXT.repeat(8);
    let settings = DataLoaderConfig {
        batch_size: 4,
        max_length: 16,
        stride: 3,
        shuffle: true,
        drop_last: true,
    };
    let loader = create_dataloader_v1(&text, &tokenizer, settings).unwrap();
    let mut model = GptModel::new(CONFIG, &mut rng).unwrap();
    let mut grads = GptModel::zeros(CONFIG).unwrap();
    let settings = AdamWConfig {
        lr: 1e-2,
        ..AdamWConfig::default()
    };
    let mut optimizer = AdamW::new(settings, &model).unwrap();
    let mut losses = Vec::new();
    for _ in 0..8 {
        for batch in loader.epoch(&mut rng).map(Result::unwrap) {
            grads.fill_zero();
            let loss = model
                .loss_and_grads(
                    &batch.input_ids,
                    &batch.target_ids,
                    1.0,
                    &mut rng,
                    &mut grads,
                )
                .unwrap();
            optimizer.step(&mut model, &mut grads);
            losses.push(loss);
        }
    }
    let (first, last) = (losses[0], losses[losses.len() - 1]);
    assert!(
        first > 10.0 && last < 0.5,
        "the loss fell from {first} to {last}"
    );
    let prompt = text_to_token_ids("The bell rang once, and the", &tokenizer).unwrap();
    let out = generate_text_simple(&model, prompt, 8, CONFIG.context_length).unwrap();
    let said = token_ids_to_text(&out, &tokenizer).unwrap();
    assert_eq!(
        said,
        "The bell rang once, and the bell rang twice, and nobody came."
    );
}
