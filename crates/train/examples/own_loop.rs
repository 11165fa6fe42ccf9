//! Trains a small GPT model on any text with a custom training loop, which can be interrupted and
//! resumed. Run it with `cargo run --release -p train --example own_loop [FILE [STATE]]`. `FILE`
//! contains the text, and the state of the training loop is saved to the file `STATE` after each
//! epoch. If `FILE` isn't specified, the example uses a built-in text and doesn't save its state.
//!
//! A program like this one depends on three crates: `generate`, `tokenizer` with its feature
//! `ndarray`, and `train`, which re-exports the data loader, the model and the random number
//! generator.

use std::error::Error;
use std::path::Path;

use generate::generate_text_simple;
use tokenizer::{Gpt2Tokenizer, text_to_token_ids, token_ids_to_text};
use train::dataloader::{Batches, DataLoaderConfig, create_dataloader_v1};
use train::gpt::{GptConfig, GptModel};
use train::torch_rng::TorchRng;
use train::{AdamW, AdamWConfig, LoopState, Parameters, calc_loss_loader, clip_grad_norm};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let text = match args.next() {
        Some(file) => std::fs::read_to_string(file)?,
        None => {
            "The bell rang, and the ferry came. The ferry went, and the bell was still. ".repeat(30)
        }
    };
    let state_file = args.next();
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
    let settings = AdamWConfig {
        lr: 1e-3,
        ..AdamWConfig::default()
    };
    let mut rng = TorchRng::manual_seed(123);
    let model = GptModel::new(config, &mut rng)?;
    println!("{} parameters", model.num_parameters());
    let mut grads = GptModel::zeros(config)?;
    // A `LoopState` contains all values that the training loop changes. The program saves these
    // values to a single file, from which an interrupted training run can be resumed.
    let mut state = LoopState {
        step: 0,
        batches: Batches::new(loader.clone()),
        optimizers: vec![AdamW::new(settings, &model)?],
        model,
        rng,
    };
    if let Some(file) = &state_file
        && Path::new(file).exists()
    {
        state.load(file)?;
        println!("resumed after step {}", state.step);
    }

    let per_epoch = loader.len() as u64;
    while state.step < 3 * per_epoch {
        let LoopState {
            rng,
            batches,
            model,
            optimizers,
            ..
        } = &mut state;
        let batch = batches.next_batch(rng)?;
        model.loss_and_grads(&batch.input_ids, &batch.target_ids, 1.0, rng, &mut grads)?;
        let norm = clip_grad_norm(&mut grads, 1.0);
        // A step with a NaN or infinite gradient would ruin the weights.
        if !norm.is_finite() {
            let step = state.step + 1;
            return Err(
                format!("the gradient norm of step {step} is {norm}; use a lower lr").into(),
            );
        }
        optimizers[0].step(model, &mut grads); // also sets the gradients to 0
        state.step += 1;
        if state.step.is_multiple_of(per_epoch) {
            // The evaluation uses a separate random number generator. The generator of the training
            // loop therefore produces the same numbers as it would without the evaluation.
            let mut rng = TorchRng::manual_seed(0);
            let loss = calc_loss_loader(&loader, &state.model, None, &mut rng)?;
            println!("step {}: loss {loss:.3}", state.step);
            if let Some(file) = &state_file {
                state.save(file)?;
            }
        }
    }

    let ids = text_to_token_ids("The bell", &tokenizer)?;
    let ids = generate_text_simple(&state.model, ids, 10, config.context_length)?;
    println!("{}", token_ids_to_text(&ids, &tokenizer)?);
    Ok(())
}
