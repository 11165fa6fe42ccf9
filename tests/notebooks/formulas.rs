//! Short functions that implement the formulas of chapters 3 to 5 of the book. The Rust ports of
//! the book's Python notebooks show the source code of these functions to learners. Unlike the
//! corresponding functions in our crates, these functions don't check their arguments. The tests in
//! this file check that both versions return the same results.

use attention::{AttentionError, CausalAttention};
use ndarray::{Array1, Array2, Array3, ArrayRef1, ArrayRef2, ArrayRef3, Axis, concatenate};
use tensor_ops::{Linear, gelu};
use torch_rng::TorchRng;

/// Returns the softmax of attention scores, computed directly from its formula: the exponential of
/// each score is divided by the sum of all exponentials. This sum can overflow or be rounded to 0.
pub(crate) fn softmax_naive(scores: &ArrayRef1<f32>) -> Array1<f32> {
    let exponentials = scores.exp();
    &exponentials / exponentials.sum()
}

/// Returns the softmax of attention scores or logits, which turns them into weights that sum to 1.
/// The weight of each score is `e^score` divided by the sum of `e^score` over all scores.
pub(crate) fn softmax(scores: &ArrayRef1<f32>) -> Array1<f32> {
    let largest = scores.fold(f32::NEG_INFINITY, |largest, &score| largest.max(score));
    let exponentials = (scores - largest).exp(); // no exponential is larger than 1
    &exponentials / exponentials.sum()
}

/// Returns the attention weights for the given attention scores, which have one row per query.
/// Divides the scores by the square root of `d_k`, the length of a key vector, and then applies
/// softmax to each row.
pub(crate) fn scaled_softmax(scores: &ArrayRef2<f32>, d_k: usize) -> Array2<f32> {
    let mut weights = scores / (d_k as f32).sqrt();
    for mut row in weights.rows_mut() {
        let of_row = softmax(&row);
        row.assign(&of_row);
    }
    weights
}

/// Applies the causal mask to attention scores, which have one row per query and one column per
/// key. If a key comes after its query in the text, the score is set to minus infinity, so that no
/// token can attend to later tokens.
pub(crate) fn mask_future(mut scores: Array2<f32>) -> Array2<f32> {
    for ((query, key), score) in scores.indexed_iter_mut() {
        if key > query {
            *score = f32::NEG_INFINITY;
        }
    }
    scores
}

/// Applies dropout to a matrix. Each number is set to 0 with probability `p`, and the remaining
/// numbers are divided by `1 - p`.
pub(crate) fn dropout(mut x: Array2<f32>, p: f64, rng: &mut TorchRng) -> Array2<f32> {
    let kept = rng.keep_mask_plain(x.len(), p);
    for (number, kept) in x.iter_mut().zip(kept) {
        *number = if kept {
            *number / (1.0 - p) as f32
        } else {
            0.0
        };
    }
    x
}

/// The self-attention module `SelfAttention_v1` of listing 3.1 in the book. Its three trainable
/// matrices turn each token into a query, a key and a value.
pub(crate) struct SelfAttentionV1 {
    w_query: Array2<f32>, // (d_in, d_out)
    w_key: Array2<f32>,
    w_value: Array2<f32>,
}

impl SelfAttentionV1 {
    pub(crate) fn new(d_in: usize, d_out: usize, rng: &mut TorchRng) -> Self {
        let mut random = || {
            let numbers = rng.rand(d_in * d_out);
            Array2::from_shape_vec((d_in, d_out), numbers).expect("d_in * d_out numbers")
        };
        Self {
            w_query: random(),
            w_key: random(),
            w_value: random(),
        }
    }

    pub(crate) fn forward(&self, x: &ArrayRef2<f32>) -> Array2<f32> {
        let queries = x.dot(&self.w_query); // (num_tokens, d_out)
        let keys = x.dot(&self.w_key);
        let values = x.dot(&self.w_value);
        let attn_scores = queries.dot(&keys.t()); // (num_tokens, num_tokens)
        let attn_weights = scaled_softmax(&attn_scores, keys.ncols());
        attn_weights.dot(&values) // (num_tokens, d_out)
    }
}

/// Returns the context vectors that `CausalAttention.forward` (listing 3.3 in the book) computes
/// for a single text `x` of shape (num_tokens, d_in). `p` is the dropout probability.
pub(crate) fn causal_attention(
    x: &ArrayRef2<f32>,
    [w_query, w_key, w_value]: [&ArrayRef2<f32>; 3], // (d_in, d_out)
    p: f64,
    rng: &mut TorchRng,
) -> Array2<f32> {
    let (queries, keys, values) = (x.dot(w_query), x.dot(w_key), x.dot(w_value));
    let attn_scores = mask_future(queries.dot(&keys.t())); // (num_tokens, num_tokens)
    let attn_weights = scaled_softmax(&attn_scores, keys.ncols());
    let attn_weights = dropout(attn_weights, p, rng);
    attn_weights.dot(&values) // (num_tokens, d_out)
}

/// Returns the context vectors that `MultiHeadAttentionWrapper.forward` (listing 3.4 in the book)
/// computes for a batch of texts. Each attention head computes its own context vectors, which are
/// then concatenated along the feature axis.
pub(crate) fn side_by_side(
    heads: &[CausalAttention],
    x: &ArrayRef3<f32>, // (batch, num_tokens, d_in)
) -> Result<Array3<f32>, AttentionError> {
    let mut context_vecs = heads[0].forward(x)?;
    for head in &heads[1..] {
        context_vecs = concatenate![Axis(2), context_vecs, head.forward(x)?];
    }
    Ok(context_vecs) // (batch, num_tokens, heads x d_out)
}

/// Returns the result of `ExampleDeepNeuralNetwork.forward` (listing 4.5 in the book), which
/// applies several linear layers, each followed by a GELU. If `use_shortcut` is true, the input of
/// each layer is added to the layer's output, provided that both have the same shape.
pub(crate) fn deep_network(
    layers: &[Linear],
    use_shortcut: bool,
    mut x: Array2<f32>, // (batch, features)
) -> Array2<f32> {
    for layer in layers {
        let layer_output = gelu(&layer.forward(&x));
        x = if use_shortcut && x.dim() == layer_output.dim() {
            x + layer_output
        } else {
            layer_output
        };
    }
    x
}

/// Returns the cross-entropy loss of a language model for a single prediction: the negative
/// logarithm of the probability that the model's logits assign to the token `target`.
pub(crate) fn cross_entropy(logits: &ArrayRef1<f32>, target: usize) -> f32 {
    -softmax(logits)[target].ln()
}

/// Returns the gradient of the cross-entropy loss with respect to the logits of a language model.
/// For each token of the vocabulary, the gradient is the predicted probability of the token, minus
/// 1 if the token is the target.
pub(crate) fn cross_entropy_backward(logits: &ArrayRef1<f32>, target: usize) -> Array1<f32> {
    let mut d_logits = softmax(logits);
    d_logits[target] -= 1.0;
    d_logits
}

/// Returns the probabilities from which the next token is sampled. They are the softmax of the
/// logits divided by the temperature. A low temperature favors the most probable tokens.
pub(crate) fn softmax_with_temperature(logits: &ArrayRef1<f32>, temperature: f32) -> Array1<f32> {
    softmax(&(logits / temperature))
}

/// Applies top-k sampling to the logits for the next token. Each logit that is smaller than the
/// `k`-th largest is replaced with minus infinity, so that its token has the probability 0.
pub(crate) fn top_k_filter(logits: &ArrayRef1<f32>, k: usize) -> Array1<f32> {
    let mut sorted = logits.to_vec();
    sorted.sort_by(|one, other| other.total_cmp(one)); // in descending order
    let smallest_kept = sorted[k - 1];
    logits.mapv(|logit| {
        if logit < smallest_kept {
            f32::NEG_INFINITY
        } else {
            logit
        }
    })
}

mod tests {
    use attention::{AttentionConfig, MultiHeadAttentionWrapper, WeightInit};
    use gpt::ExampleDeepNeuralNetwork;
    use tensor_ops::{Dropout, Parameters};

    use super::*;

    fn close(formula: &Array2<f32>, of_crate: &Array2<f32>) {
        for (formula, of_crate) in formula.iter().zip(of_crate) {
            let difference = (formula - of_crate).abs();
            assert!(
                formula == of_crate || difference < 1e-5,
                "{formula} {of_crate}"
            );
        }
    }

    #[test]
    fn the_formulas_of_chapter_3_are_what_the_crates_compute() {
        let mut rng = TorchRng::manual_seed(1);
        let scores = Array2::from_shape_vec((9, 9), rng.randn(81)).unwrap() * 30.0;
        let weights = tensor_ops::softmax(&scores, Axis(1));
        for (scores, weights) in scores.rows().into_iter().zip(weights.rows()) {
            let one_row = |row: Array1<f32>| row.insert_axis(Axis(0));
            close(&one_row(softmax(&scores)), &one_row(weights.to_owned()));
            let small = &scores * 0.1;
            let by_crate = tensor_ops::softmax_naive(&small, Axis(0));
            close(&one_row(softmax_naive(&small)), &one_row(by_crate));
        }
        let by_crate = attention::scaled_softmax(&scores, 5);
        close(&scaled_softmax(&scores, 5), &by_crate);
        close(
            &mask_future(scores.clone()),
            &attention::mask_future(&scores),
        );
        let (dropped, _) =
            Dropout { p: 0.3 }.forward_train(weights.clone(), &mut TorchRng::manual_seed(5));
        close(
            &dropout(weights, 0.3, &mut TorchRng::manual_seed(5)),
            &dropped,
        );

        let x = Array2::from_shape_vec((6, 4), rng.randn(24)).unwrap();
        let mut rng = TorchRng::manual_seed(7);
        let formula = SelfAttentionV1::new(4, 3, &mut rng.clone()).forward(&x);
        let v1 = attention::SelfAttentionV1::new(4, 3, WeightInit::Rand, &mut rng);
        close(&formula, &v1.forward(&x).unwrap());
        assert_eq!(v1.num_parameters(), 36);

        let config = AttentionConfig {
            d_in: 4,
            d_out: 3,
            context_length: 6,
            dropout: 0.5,
            num_heads: 1,
            qkv_bias: false,
        };
        let ca = CausalAttention::new(config, &mut rng).unwrap();
        let weights = [&ca.w_query, &ca.w_key, &ca.w_value].map(|linear| linear.weight.t());
        let weights = weights.each_ref().map(|weight| &**weight);
        let (by_crate, _) = ca.forward_plain(&x, Some(&mut rng.clone())).unwrap();
        close(&causal_attention(&x, weights, 0.5, &mut rng), &by_crate);
        let config = AttentionConfig {
            num_heads: 3,
            ..config
        };
        let mha = MultiHeadAttentionWrapper::new(config, &mut rng).unwrap();
        let batch = x.insert_axis(Axis(0));
        let formula = side_by_side(&mha.heads, &batch).unwrap();
        assert_eq!(formula, mha.forward(&batch).unwrap());
    }

    #[test]
    fn the_formulas_of_chapter_4_are_what_the_crates_compute() {
        let x = Array2::from_shape_vec((2, 3), TorchRng::manual_seed(3).randn(6)).unwrap();
        for use_shortcut in [true, false] {
            let mut rng = TorchRng::manual_seed(123);
            let sizes = [3, 3, 3, 1];
            let network = ExampleDeepNeuralNetwork::new(&sizes, use_shortcut, &mut rng).unwrap();
            let formula = deep_network(&network.layers, use_shortcut, x.clone());
            close(&formula, &network.forward(&x));
        }
    }

    #[test]
    fn the_formulas_of_chapter_5_are_what_the_crates_compute() {
        let logits = Array1::from(TorchRng::manual_seed(5).randn(9)) * 3.0;
        let row = |row: Array1<f32>| row.insert_axis(Axis(0));
        for target in 0..9 {
            let (loss, d_logits) =
                tensor_ops::cross_entropy_train(row(logits.clone()), &[target], 1.0);
            assert!((cross_entropy(&logits, target as usize) - loss).abs() < 1e-5);
            let formula = cross_entropy_backward(&logits, target as usize);
            close(&row(formula), &d_logits);
        }
        for temperature in [0.1, 1.0, 5.0] {
            let by_crate = generate::softmax_with_temperature(&logits, temperature).unwrap();
            let formula = softmax_with_temperature(&logits, temperature);
            close(&row(formula), &row(by_crate));
        }
        for k in 1..=9 {
            let by_crate = generate::top_k_filter(&logits, k);
            assert_eq!(top_k_filter(&logits, k), by_crate);
        }
    }
}
