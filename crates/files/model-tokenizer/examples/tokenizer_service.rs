//! A tokenizer as a service has one: trained on two texts with special tokens, saved, loaded, and
//! shared by threads, which encode with the places of the tokens in their texts.

#![allow(
    clippy::disallowed_methods,
    reason = "an example makes a folder as users do"
)]

use std::error::Error;
use std::fs;
use std::sync::Arc;
use std::thread;

use model_tokenizer::ModelTokenizer;
use model_tokenizer::tokenizer::{Tokenizer, TokenizerError};

/// What a request gets back: the parts of its text that are tokens.
fn answer(tokenizer: impl Tokenizer, text: &str) -> Result<Vec<String>, TokenizerError> {
    let tokens = tokenizer.encode_with_offsets(text)?.into_iter();
    // A token may be a part of a character.
    let part = |range| String::from_utf8_lossy(&text.as_bytes()[range]).into_owned();
    Ok(tokens.map(|(_, range)| part(range)).collect())
}

fn main() -> Result<(), Box<dyn Error>> {
    let texts = [
        "<|user|>Does the bell ring at night?",
        "<|user|>Does the bell ring in the morning?",
    ];
    let trained = ModelTokenizer::train_bpe_on(&texts, &["<|user|>"], 275)?;
    let folder = std::env::temp_dir().join(format!("tokenizer-service-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    trained.save(&folder)?;

    let loaded = ModelTokenizer::from_folder(&folder)?.ok_or("the folder has a tokenizer")?;
    let shared: Arc<dyn Tokenizer> = Arc::new(loaded);
    let workers: Vec<_> = ["<|user|>the bell", "Does it ring?"]
        .into_iter()
        .map(|text| {
            let tokenizer = shared.clone();
            thread::spawn(move || answer(&tokenizer, text))
        })
        .collect();
    for worker in workers {
        let tokens = worker.join().expect("a worker that doesn't panic")?;
        println!("{tokens:?}");
    }
    println!("{:?}", shared.id_of(b"<|user|>"));
    Ok(())
}
