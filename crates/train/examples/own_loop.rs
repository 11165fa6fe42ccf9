//! A custom training loop on any text: `cargo run --release -p train --example own_loop [FILE]`.
//!
//! It needs the crates `train`, which has the data loader, the model and the random numbers in it,
//! `generate`, and `tokenizer` with its feature `ndarray`.

use std::error::Error;

use generate::generate_text_simple;
use tokenizer::{Gpt2Tokenizer, text_to_token_ids, token_ids_to_text};
use train::dataloader::{DataLoaderConfig, create_dataloader_v1};
use train::gpt::{GptConfig, GptModel};
use train::torch_rng::TorchRng;
use train::{AdamW, AdamWConfig, Parameters, calc_loss_loader, clip_grad_norm};

fn main() -> Result<(), Box<dyn Error>> {
    let text = match std::env::args().nth(1) {
        Some(file) => std::fs::read_to_string(file)?,
        None => {
            "The bell rang, and the ferry came. The ferry went, and the bell was still. ".repeat(30)
        }
    };
    let tokenizer = Gpt2Tokenizer::new();
    let windows = DataLoaderConfig {
        batch_size: 4,
        max_length: 16,
        stride: 16,
        ..DataLoaderConfig::default()
    };
    let loader = create_dataloader_v1(&text, &tokenizer, windows)?;

    let config = GptConfig {
        context_length: 16,
        emb_dim: 32,
        n_heads: 2,
        n_layers: 2,
        ..GptConfig::GPT2_124M
    };
    let rng = &mut TorchRng::manual_seed(123);
    let mut model = GptModel::new(config, rng)?;
    let mut grads = GptModel::zeros(config)?;
    println!("{} parameters", model.num_parameters());
    let mut optimizer = AdamW::new(
        AdamWConfig {
            lr: 1e-3,
            ..AdamWConfig::default()
        },
        &model,
    )?;

    for epoch in 1..=3 {
        for batch in loader.epoch(rng) {
            let batch = batch?;
            model.loss_and_grads(&batch.input_ids, &batch.target_ids, 1.0, rng, &mut grads)?;
            clip_grad_norm(&mut grads, 1.0);
            optimizer.step(&mut model, &mut grads); // and zeros the gradients
        }
        let loss = calc_loss_loader(&loader, &model, None, rng)?;
        println!("epoch {epoch}: loss {loss:.3}");
    }

    let ids = text_to_token_ids("The bell", &tokenizer)?;
    let ids = generate_text_simple(&model, ids, 10, config.context_length)?;
    println!("{}", token_ids_to_text(&ids, &tokenizer)?);
    Ok(())
}
