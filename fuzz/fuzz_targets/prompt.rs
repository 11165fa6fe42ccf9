//! Generates a few tokens with arbitrary settings and an arbitrary prompt. The input must be
//! accepted or rejected without a panic. In addition, decoding the tokens of any text must give
//! this text.
//!
//! The input consists of the settings of a sampler and the length of a stop string (19 bytes, see
//! `fuzz::sampling`), the stop string, and the prompt.

#![no_main]

use std::sync::LazyLock;

use generate::{Decoder, GenerateOptions, StopStrings, TokenStream};
use gpt::{GptConfig, GptModel};
use libfuzzer_sys::fuzz_target;
use tokenizer::{Gpt2Tokenizer, StreamingDecoder};
use torch_rng::TorchRng;

/// Size of the model's vocabulary. Token IDs of GPT-2 are reduced modulo this number. With all
/// 50,257 tokens, the fuzzer would reach only 15 executions per second.
const VOCAB_SIZE: u32 = 300;

/// A model that is small enough to be fast.
static MODEL: LazyLock<GptModel> = LazyLock::new(|| {
    let config = GptConfig {
        vocab_size: VOCAB_SIZE as usize,
        context_length: 8,
        emb_dim: 4,
        n_heads: 2,
        n_layers: 1,
        tied: true,
        ..GptConfig::GPT2_124M
    };
    GptModel::new(config, &mut TorchRng::manual_seed(123)).expect("a valid configuration")
});

fuzz_target!(|bytes: &[u8]| {
    let Some((sampling, length, rest)) = fuzz::sampling(bytes) else {
        return;
    };
    let (stop, prompt) = rest.split_at(rest.len().min(length));

    let tokenizer = Gpt2Tokenizer::new();
    let text = String::from_utf8_lossy(prompt);
    let ordinary = tokenizer.encode_ordinary(&text);
    assert_eq!(tokenizer.decode(&ordinary).expect("ids of a text"), text);
    let ids = tokenizer.encode(&text).expect("no error");

    let ids: Vec<u32> = ids.iter().map(|id| id % VOCAB_SIZE).collect();

    let options = GenerateOptions {
        sampling,
        max_new_tokens: 3,
        stop_ids: vec![VOCAB_SIZE - 1],
    };
    let stops = StopStrings::new([String::from_utf8_lossy(stop).into_owned()]);
    let mut decoder = Decoder::new(&*MODEL);
    let mut rng = TorchRng::manual_seed(0);
    if decoder.start(&ids).is_err() {
        return;
    }
    if let Ok(tokens) = TokenStream::new(&mut decoder, options, &mut rng) {
        let (mut stops, mut text) = (stops.unwrap_or_default(), StreamingDecoder::new(&tokenizer));
        for token in tokens {
            let Ok(Ok(piece)) = token.map(|token| text.push(token)) else {
                return;
            };
            let _ = stops.push(&piece);
        }
        let _ = stops.push(&text.finish());
        let _ = stops.finish();
    }
});
