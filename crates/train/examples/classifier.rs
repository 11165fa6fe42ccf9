//! Trains a GPT-2 model to distinguish spam from other messages, as in chapter 6 of the book. Run
//! it with `cargo run --release -p train --example classifier FOLDER`, where `FOLDER` is the path
//! to a folder that contains a trained GPT-2 model.
//!
//! The example replaces the model's output head with a new head that has two classes. It trains
//! only the new head, the last transformer block and the final layer normalization. All other
//! layers are frozen.

use std::error::Error;

use checkpoint::load_model;
use ndarray::{Array1, Array2, Array3, s};
use tensor_ops::{Linear, cross_entropy_train, parameters};
use tokenizer::{Gpt2Tokenizer, text_to_token_ids};
use train::gpt::GptModel;
use train::torch_rng::TorchRng;
use train::{AdamW, AdamWConfig, Parameters};

const MESSAGES: [(&str, u32); 6] = [
    ("You have won a free cruise! Reply WIN to claim it", 1),
    ("Shall we meet at noon?", 0),
    ("URGENT: claim your free cash prize now", 1),
    ("The train is late, I will be home at eight", 0),
    ("Congratulations, you won a prize! Text FREE now", 1),
    ("Thanks for the book, I liked it", 0),
];

/// A classifier, which consists of a GPT model and a linear layer that replaces the output head of
/// this model. The gradients of its weights are stored in a second `Classifier`.
#[derive(Clone)]
struct Classifier {
    model: GptModel,
    head: Linear,
}

parameters!(Classifier { "model." model, "head." head });

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).ok_or("expected FOLDER")?;
    let rng = &mut TorchRng::manual_seed(123);
    let model = load_model(folder)?;
    let head = Linear::new(model.config().emb_dim, 2, true, rng);
    let last_block = format!("model.trf_blocks.{}.", model.config().n_layers - 1);
    let mut gpt = Classifier { model, head };
    let learns = |name: &str, _: &[usize]| {
        let learning = [&last_block, "model.final_norm.", "head."];
        learning.iter().any(|prefix| name.starts_with(prefix))
    };
    let mut optimizer = AdamW::new(AdamWConfig::default(), &gpt.select_mut(&learns))?;
    optimizer.config.lr = 5e-3;
    let mut grads = gpt.clone();
    grads.fill_zero();
    let (tokenizer, share) = (Gpt2Tokenizer::new(), 1.0 / MESSAGES.len() as f32);

    for epoch in 1..=30 {
        let mut total = 0.0;
        for (text, class) in MESSAGES {
            let ids: Array2<u32> = text_to_token_ids(text, &tokenizer)?; // shape: (1, num_tokens)
            let (hidden, cache) = gpt.model.forward_hidden_train(&ids, rng)?;
            // The classifier uses only the hidden state of the last token, of shape (1, emb_dim).
            // It contains information about the whole text, because the last token attends to all
            // tokens.
            let last = hidden.slice(s![.., -1, ..]);
            let (loss, d_logits) = cross_entropy_train(gpt.head.forward(&last), &[class], share);
            total += loss * share;
            let d_last = gpt.head.backward(&last, &d_logits, &mut grads.head);
            let mut d_hidden = Array3::zeros(hidden.dim());
            d_hidden.slice_mut(s![.., -1, ..]).assign(&d_last);
            gpt.model
                .backward_hidden(cache, &d_hidden, &mut grads.model);
        }
        optimizer.step(&mut gpt.select_mut(&learns), &mut grads.select_mut(&learns));
        grads.fill_zero(); // also for the frozen layers
        println!("epoch {epoch}: loss {total:.3}");
    }

    let mut right = 0;
    for (text, class) in MESSAGES {
        let hidden = gpt
            .model
            .forward_hidden(&text_to_token_ids(text, &tokenizer)?)?;
        let logits: Array1<f32> = gpt.head.forward(&hidden.slice(s![0, -1, ..])); // shape: (2)
        right += u32::from(u32::from(logits[1] > logits[0]) == class);
    }
    println!("accuracy {:.2}", right as f32 / MESSAGES.len() as f32);
    Ok(())
}
