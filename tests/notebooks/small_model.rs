//! A small GPT that reads the words at the beginning of a text. It trains in about a second, so the
//! notebooks can train it where the book's model would take minutes.

use anyhow::Result;
use dataloader::{Corpus, DataLoader, DataLoaderConfig};
use gpt::{DropRates, GptConfig};
use tokenizer::{SimpleTokenizerV1, build_vocabulary, preprocess};

/// The number of characters that the small model reads.
const CHARACTERS: usize = 5000;

/// Returns the beginning of a text, up to the end of a word.
pub(crate) fn beginning(text: &str) -> &str {
    let Some((end, _)) = text.char_indices().nth(CHARACTERS) else {
        return text;
    };
    let end = text[..end].rfind(char::is_whitespace).unwrap_or(end);
    &text[..end]
}

/// The tokenizer of section 2.3, and the loaders of the small model: the first nine tenths of the
/// text's words, shuffled, and the last tenth, in order.
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

/// One transformer block with four heads, and no dropout.
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

/// The first four tokens of a text, for the model to continue.
pub(crate) fn first_words(text: &str, tokenizer: &SimpleTokenizerV1) -> Result<String> {
    let ids = tokenizer.encode(text)?;
    Ok(tokenizer.decode(&ids[..ids.len().min(4)])?)
}
