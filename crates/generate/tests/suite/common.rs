//! Models for the tests: random small models with various configurations, and a model with
//! predefined output.

use generate::{AsWeights, Decoder, GenerateOptions, TokenStream};
use gpt::{Activation, DropRates, GptConfig, GptModel};
use proptest::prelude::*;
use torch_rng::TorchRng;

/// Generates small models of all kinds: with and without a tied output head, with and without
/// biases, with one or several attention heads, and with each activation function.
///
/// Each attention head of these models has at least 8 features, so layer normalization never has
/// only a few features. With two features, it would essentially divide by the difference between
/// them, which may be very small, and would therefore amplify rounding errors.
pub(crate) fn models() -> impl Strategy<Value = GptModel> {
    (
        (1..4usize, 8..17usize, 1..4usize, 2..60usize),
        4..24usize,
        any::<[bool; 2]>(),
        0..3usize,
        any::<u64>(),
    )
        .prop_map(
            |(
                (n_heads, head_dim, n_layers, vocab_size),
                context_length,
                [tied, qkv_bias],
                activation,
                seed,
            )| {
                let config = GptConfig {
                    vocab_size,
                    context_length,
                    emb_dim: n_heads * head_dim,
                    n_heads,
                    n_layers,
                    drop_rates: DropRates::all(0.1),
                    qkv_bias,
                    tied,
                    activation: [Activation::GeluTanh, Activation::Gelu, Activation::Relu]
                        [activation],
                    ..GptConfig::GPT2_124M
                };
                GptModel::new(config, &mut TorchRng::manual_seed(seed)).unwrap()
            },
        )
}

/// Generates a model and a prompt, which may be longer than the model's context.
pub(crate) fn models_and_prompts() -> impl Strategy<Value = (GptModel, Vec<u32>)> {
    models().prop_flat_map(|model| {
        let vocab_size = model.config().vocab_size as u32;
        let longest = model.config().context_length + 3;
        let prompt = prop::collection::vec(0..vocab_size, 1..=longest);
        (Just(model), prompt)
    })
}

/// Returns a model with GPT-2's vocabulary. The token that it predicts after position `i` is always
/// `script[i]`, regardless of the text.
pub(crate) fn scripted(script: &[u32]) -> GptModel {
    let size = script.len() + 1;
    let config = GptConfig {
        context_length: size,
        emb_dim: size,
        n_heads: 1,
        n_layers: 1,
        ..GptConfig::GPT2_124M
    };
    let mut model = GptModel::zeros(config).unwrap();
    model.final_norm.scale.fill(1.0);
    let head = model.out_head.as_mut().unwrap();
    for (position, &token) in script.iter().enumerate() {
        model.pos_emb.weight[[position, position]] = 1.0;
        head.weight[[token as usize, position]] = 10.0;
    }
    model
}

/// Returns true if the largest logit is so much larger than all others that rounding errors can't
/// change which token is the most probable one. Tests compare the tokens that two implementations
/// choose only in this case.
pub(crate) fn has_clear_winner(logits: &ndarray::ArrayRef1<f32>) -> bool {
    let mut sorted = logits.to_vec();
    sorted.sort_by(|a, b| b.total_cmp(a));
    sorted.len() < 2 || sorted[0] - sorted[1] > 1e-3
}

/// Replaces the text of a decoder with the given prompt and processes the prompt, so that the
/// decoder contains the logits of the next token.
pub(crate) fn take_in(decoder: &mut Decoder<impl AsWeights>, prompt: &[u32]) {
    decoder.start(prompt).unwrap();
    decoder.advance().unwrap();
}

/// Generates tokens that continue a decoder's text, and returns them.
pub(crate) fn continued(
    decoder: &mut Decoder<impl AsWeights>,
    options: GenerateOptions,
    rng: &mut TorchRng,
) -> Vec<u32> {
    let stream = TokenStream::new(decoder, options, rng).unwrap();
    stream.map(Result::unwrap).collect()
}
