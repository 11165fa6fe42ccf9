//! Tests of the book's functions with several rows, with sequences that are longer than the
//! context, and with a token that ends the text.

use crate::common::scripted;
use generate::{BookSampling, generate, generate_text_simple};
use ndarray::{array, s};
use torch_rng::TorchRng;

const SAMPLING: BookSampling = BookSampling {
    max_new_tokens: 5,
    context_size: 7,
    temperature: 0.0,
    top_k: None,
    eos_id: None,
};

#[test]
fn each_row_of_a_batch_is_continued_as_it_would_be_alone() {
    let config = gpt::GptConfig {
        vocab_size: 30,
        context_length: 7,
        emb_dim: 12,
        n_heads: 2,
        n_layers: 2,
        ..gpt::GptConfig::GPT2_124M
    };
    let model = gpt::GptModel::new(config, &mut TorchRng::manual_seed(123)).unwrap();
    let idx = array![[1, 2, 3], [4, 5, 6]];
    let both = generate_text_simple(&model, idx.clone(), 8, 7).unwrap();
    assert_eq!(both.dim(), (2, 11));
    for row in 0..2 {
        let alone = idx.slice(s![row..row + 1, ..]).to_owned();
        let alone = generate_text_simple(&model, alone, 8, 7).unwrap();
        assert_eq!(alone.row(0), both.row(row));
    }
}

#[test]
fn a_context_size_beyond_the_model_is_no_matter_while_the_text_is_shorter() {
    let model = scripted(&[11, 12, 13, 14]); // The context length is 5.
    let out = generate_text_simple(&model, array![[1, 2]], 3, 1024).unwrap();
    assert_eq!(out, array![[1, 2, 12, 13, 14]]);
    assert!(generate_text_simple(&model, array![[1, 2]], 5, 1024).is_err());
}

#[test]
fn the_end_token_ends_the_text_and_is_not_part_of_it() {
    let model = scripted(&[11, 12, 13, 14, 15, 16]);
    let until_13 = BookSampling {
        eos_id: Some(13),
        ..SAMPLING
    };
    let mut rng = TorchRng::manual_seed(1);
    let out = generate(&model, array![[1]], until_13, &mut rng).unwrap();
    assert_eq!(out, array![[1, 11, 12]]);
    assert_eq!(rng, TorchRng::manual_seed(1), "greedy draws nothing");
}

#[test]
fn no_new_tokens_leave_the_prompt_as_it_is() {
    let model = scripted(&[11]);
    let idx = array![[1, 2, 3, 4, 5, 6]];
    assert_eq!(
        generate_text_simple(&model, idx.clone(), 0, 2).unwrap(),
        idx
    );
}
