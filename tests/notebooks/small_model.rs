//! Defines a small GPT that notebooks can use instead of the book's model, which takes minutes to
//! train. A notebook is a Rust port of one of the book's Python notebooks. The tokens of the small
//! model are words, and it is trained only on the beginning of a text, so training takes only about
//! a second.

use anyhow::Result;
use dataloader::{Corpus, DataLoader, DataLoaderConfig};
use gpt::{DropRates, GptConfig};
use tokenizer::{SimpleTokenizerV1, build_vocabulary, preprocess};

/// Maximum number of characters that the small model is trained on. They are taken from the
/// beginning of a text. The limit keeps the training time at about a second.
const CHARACTERS: usize = 5000;

/// Returns the part of `text` that the small model is trained on. This is the beginning of `text`,
/// up to the last complete word within the first [`CHARACTERS`] characters. If `text` isn't longer
/// than that, returns the whole text.
pub(crate) fn beginning(text: &str) -> &str {
    let Some((end, _)) = text.char_indices().nth(CHARACTERS) else {
        return text;
    };
    let end = text[..end].rfind(char::is_whitespace).unwrap_or(end);
    &text[..end]
}

/// Returns a tokenizer whose tokens are the words of `text` (section 2.3 of the book), and two data
/// loaders, one for training the small model and one for validating it. Both loaders return windows
/// of 16 tokens. The training loader shuffles the windows of the first nine tenths of the tokens.
/// The validation loader returns the windows of the last tenth in their original order.
pub(crate) fn small_loaders(text: &str) -> Result<(SimpleTokenizerV1, [DataLoader; 2])> {
    let tokenizer = SimpleTokenizerV1::new(build_vocabulary(&preprocess(text)));
    let ids = Corpus::from_ids(tokenizer.encode(text)?);
    let (train_ids, val_ids) = ids.split_at(ids.len() * 9 / 10);
    let of_training = DataLoaderConfig {
        batch_size: 4,
        max_length: 16,
        stride: 16,
        shuffle: true,
        drop_last: true,
    };
    let of_validation = DataLoaderConfig {
        shuffle: false,
        drop_last: false,
        ..of_training
    };
    let loaders = [
        DataLoader::new(&train_ids, of_training)?,
        DataLoader::new(&val_ids, of_validation)?,
    ];
    Ok((tokenizer, loaders))
}

/// Returns the configuration of the small GPT that notebooks can use instead of the book's model.
/// It has a single transformer block with four heads and no dropout.
pub(crate) fn small_config(vocab_size: usize, emb_dim: usize) -> GptConfig {
    GptConfig {
        vocab_size,
        context_length: 16,
        emb_dim,
        n_heads: 4,
        n_layers: 1,
        drop_rates: DropRates::all(0.0),
        ..GptConfig::GPT2_124M
    }
}

/// Returns the beginning of `text` that serves as a prompt for the small model. It consists of the
/// first four tokens, which are words or punctuation marks. If there are fewer than four, it
/// consists of all tokens.
pub(crate) fn first_words(text: &str, tokenizer: &SimpleTokenizerV1) -> Result<String> {
    let ids = tokenizer.encode(text)?;
    Ok(tokenizer.decode(&ids[..ids.len().min(4)])?)
}
