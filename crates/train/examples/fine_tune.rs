//! Fine-tunes the model in `FOLDER` on the text in `FILE` and saves the fine-tuned model to
//! `NEW_FOLDER`. Run it with `cargo run --release -p train --example fine_tune FOLDER FILE
//! NEW_FOLDER`.
//!
//! This example requires a model that uses GPT-2's tokenizer. To fine-tune a model that uses
//! another tokenizer, or to be able to stop and resume the fine-tuning, use the command `gpt train
//! --init-from` instead.

use std::error::Error;

use checkpoint::{Dtype, SpecialTokens, load_model, save_hugging_face};
use tokenizer::Gpt2Tokenizer;
use train::dataloader::{DataLoaderConfig, create_dataloader_v1};
use train::gpt::GptModel;
use train::torch_rng::TorchRng;
use train::{AdamW, AdamWConfig};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [from, file, to] = &args[..] else {
        return Err("expected FOLDER FILE NEW_FOLDER".into());
    };
    let mut model = load_model(from)?;
    let config = model.config();
    let length = config.context_length.min(128);
    let windows = DataLoaderConfig {
        batch_size: 2,
        max_length: length,
        stride: length,
        ..DataLoaderConfig::default()
    };
    let text = std::fs::read_to_string(file)?;
    let loader = create_dataloader_v1(&text, &Gpt2Tokenizer::new(), windows)?;

    let rng = &mut TorchRng::manual_seed(123);
    let mut grads = GptModel::zeros(config)?;
    let mut optimizer = AdamW::new(
        AdamWConfig {
            lr: 5e-5,
            ..AdamWConfig::default()
        },
        &model,
    )?;
    for batch in loader.epoch(rng) {
        let batch = batch?;
        let (inputs, targets) = (&batch.input_ids, &batch.target_ids);
        let loss = model.loss_and_grads(inputs, targets, 1.0, rng, &mut grads)?;
        optimizer.step(&mut model, &mut grads);
        println!("loss {loss:.3}");
    }
    let tokens = SpecialTokens::between(50256); // the ID of <|endoftext|>
    save_hugging_face(&model, to, Dtype::Float32, &tokens)?;
    Ok(())
}
