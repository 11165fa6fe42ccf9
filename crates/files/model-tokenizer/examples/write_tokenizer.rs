//! Saves a tokenizer in a folder, in the file formats that Python's transformers library can load.
//!
//! The arguments are `gpt2 DIR` for GPT-2's tokenizer, `chars DIR FILE` for a tokenizer whose
//! tokens are the characters of a text file, or `bpe:N DIR FILE` for a byte pair encoding with N
//! tokens that is trained on a text file.

#![allow(
    clippy::disallowed_methods,
    reason = "an example makes a folder as users do"
)]

use std::error::Error;
use std::fs;

use model_tokenizer::ModelTokenizer;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let (tokenizer, folder) = match args[..] {
        ["gpt2", folder] => (ModelTokenizer::gpt2(), folder),
        ["chars", folder, file] => {
            let text = fs::read_to_string(file)?;
            (ModelTokenizer::train_chars(&text)?, folder)
        }
        [kind, folder, file] if kind.starts_with("bpe:") => {
            let text = fs::read_to_string(file)?;
            let vocab_size = kind["bpe:".len()..].parse()?;
            (ModelTokenizer::train_bpe(&text, vocab_size)?, folder)
        }
        _ => return Err("usage: gpt2 DIR | chars DIR FILE | bpe:N DIR FILE".into()),
    };
    fs::create_dir_all(folder)?;
    tokenizer.save(folder)?;
    println!("{} tokens in {folder}", tokenizer.vocab_size());
    Ok(())
}
