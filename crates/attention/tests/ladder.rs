//! Tests properties of the attention modules of chapter 3: modules that the book describes as
//! equivalent compute equal results, the causal mask hides later tokens, and invalid sizes cause
//! errors.

use attention::{
    AttentionConfig, AttentionError, CausalAttention, MultiHeadAttention,
    MultiHeadAttentionWrapper, SelfAttentionV1, SelfAttentionV2, WeightInit,
};
use ndarray::{Array2, Array3, Axis, s};
use proptest::prelude::*;
use test_support::{assert_close, test_array};
use torch_rng::TorchRng;

fn config(d_in: usize, d_out: usize, num_heads: usize) -> AttentionConfig {
    AttentionConfig {
        d_in,
        d_out,
        context_length: 100,
        dropout: 0.0,
        num_heads,
        qkv_bias: true,
    }
}

proptest! {
    #![proptest_config(test_support::proptest_config(64))]

    #[test]
    fn the_wrapper_equals_the_split_heads_when_weights_are_copied(
        (batch, tokens) in (1usize..3, 1usize..80),
        (d_in, head_dim, num_heads) in (1usize..7, 1usize..5, 1usize..4),
        seed: u32,
    ) {
        let mut rng = TorchRng::manual_seed(seed.into());
        let wrapper = MultiHeadAttentionWrapper::new(config(d_in, head_dim, num_heads), &mut rng).unwrap();
        let d_out = head_dim * num_heads;
        let mut split = MultiHeadAttention::zeros(config(d_in, d_out, num_heads)).unwrap();
        for (h, head) in wrapper.heads.iter().enumerate() {
            let rows = s![h * head_dim..(h + 1) * head_dim, ..];
            for (to, from) in [
                (&mut split.w_query, &head.w_query),
                (&mut split.w_key, &head.w_key),
                (&mut split.w_value, &head.w_value),
            ] {
                to.weight.slice_mut(rows).assign(&from.weight);
                let (to, from) = (to.bias.as_mut().unwrap(), from.bias.as_ref().unwrap());
                to.slice_mut(s![h * head_dim..(h + 1) * head_dim]).assign(from);
            }
        }
        split.out_proj.weight.assign(&Array2::eye(d_out));
        let x: Array3<f32> = test_array((batch, tokens, d_in), 1.0, 1);
        assert_close(&split.forward(&x).unwrap(), &wrapper.forward(&x).unwrap(), 1e-5);
    }

    #[test]
    fn future_tokens_do_not_change_the_past(
        tokens in 2usize..140, at in 0usize..140, seed: u32,
    ) {
        let at = at % tokens;
        let mha = MultiHeadAttention::new(
            AttentionConfig { context_length: 140, ..config(4, 6, 3) },
            &mut TorchRng::manual_seed(seed.into()),
        ).unwrap();
        let x: Array3<f32> = test_array((1, tokens, 4), 1.0, 1);
        let mut other = x.clone();
        other.slice_mut(s![.., at.., ..]).fill(7.0);
        let (a, b) = (mha.forward(&x).unwrap(), mha.forward(&other).unwrap());
        assert_close(&a.slice(s![.., ..at, ..]), &b.slice(s![.., ..at, ..]), 1e-6);
        prop_assert_ne!(a.slice(s![.., at.., ..]), b.slice(s![.., at.., ..]));
    }

    #[test]
    fn masked_weights_are_rows_that_sum_to_one_and_are_zero_above_the_diagonal(
        tokens in 1usize..40, seed: u32, scale in 0.1f32..20.0,
    ) {
        let mut rng = TorchRng::manual_seed(seed.into());
        let mha = MultiHeadAttention::new(config(4, 6, 3), &mut rng).unwrap();
        let causal = CausalAttention::new(config(4, 6, 1), &mut rng).unwrap();
        let x: Array3<f32> = test_array((2, tokens, 4), scale, 1);
        let of_heads = mha.attention_weights(&x).unwrap();
        let of_one = causal.attention_weights(&x).unwrap().insert_axis(Axis(1));
        for weights in [of_heads, of_one] {
            for ((_, _, i, j), &p) in weights.indexed_iter() {
                prop_assert!(j <= i || p == 0.0, "weight {p} of token {j} for query {i}");
            }
            for sum in weights.sum_axis(Axis(3)) {
                prop_assert!((sum - 1.0).abs() < 1e-5, "sum {sum}");
            }
        }
    }
}

#[test]
fn v1_with_the_weights_of_v2_gives_the_same_bits() {
    let v2 = SelfAttentionV2::new(3, 2, false, &mut TorchRng::manual_seed(123));
    let v1 = SelfAttentionV1::try_from(&v2).expect("no biases");
    let x: Array2<f32> = test_array((6, 3), 1.0, 1);
    assert_eq!(v1.forward(&x).unwrap(), v2.forward(&x).unwrap());
    let biased = SelfAttentionV2::new(3, 2, true, &mut TorchRng::manual_seed(123));
    assert_eq!(
        SelfAttentionV1::try_from(&biased),
        Err(AttentionError::Biased)
    );
}

/// Asserts that a module accepts both a batch with three dimensions and a single sequence with two
/// dimensions, and that the output for a sequence is the same in both cases.
macro_rules! assert_ranks_agree {
    ($module:expr, $x:expr) => {
        let module = $module;
        let batch = module.forward($x).unwrap();
        for (x, out) in $x.outer_iter().zip(batch.outer_iter()) {
            assert_close(&out, &module.forward(&x).unwrap(), 1e-6);
        }
    };
}

#[test]
fn a_batch_gives_what_each_sequence_gives_alone() {
    let rng = &mut TorchRng::manual_seed(1);
    let x: Array3<f32> = test_array((3, 7, 5), 1.0, 1);
    assert_ranks_agree!(SelfAttentionV1::new(5, 4, WeightInit::Randn, rng), &x);
    assert_ranks_agree!(SelfAttentionV2::new(5, 4, true, rng), &x);
    assert_ranks_agree!(CausalAttention::new(config(5, 4, 1), rng).unwrap(), &x);
    assert_ranks_agree!(
        MultiHeadAttentionWrapper::new(config(5, 4, 2), rng).unwrap(),
        &x
    );
    assert_ranks_agree!(MultiHeadAttention::new(config(5, 4, 2), rng).unwrap(), &x);
}

#[test]
fn what_does_not_fit_is_a_typed_error_with_its_numbers() {
    let rng = &mut TorchRng::manual_seed(1);
    let of_dropout = |dropout| AttentionConfig {
        dropout,
        ..config(4, 6, 2)
    };
    for (bad, expected) in [
        (
            config(4, 6, 4),
            "d_out must be divisible by num_heads, but d_out is 6 and num_heads is 4",
        ),
        (config(4, 6, 0), "num_heads must be at least 1, got 0"),
        (of_dropout(-0.5), "dropout must be from 0 to 1, got -0.5"),
        (of_dropout(f64::NAN), "dropout must be from 0 to 1, got NaN"),
    ] {
        let error = MultiHeadAttention::new(bad, rng).unwrap_err();
        assert_eq!(error.to_string(), expected);
        assert_eq!(
            MultiHeadAttention::zeros(bad).unwrap_err().to_string(),
            expected
        );
    }
    assert!(MultiHeadAttentionWrapper::new(config(4, 6, 0), rng).is_err());
    assert!(CausalAttention::new(config(4, 6, 0), rng).is_ok()); // always has one head
    let mha = MultiHeadAttention::new(config(4, 6, 2), rng).unwrap();
    for (shape, expected) in [
        (
            (1, 101, 4),
            "the input has 101 tokens, but the context length is 100; use shorter sequences",
        ),
        (
            (1, 5, 3),
            "each input token has 3 features, but the weights expect 4 features (d_in)",
        ),
    ] {
        let error = mha.forward(&Array3::zeros(shape)).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
    let v1 = SelfAttentionV1::new(3, 2, WeightInit::Rand, rng);
    assert!(v1.forward(&Array2::zeros((6, 4))).is_err());
}

#[test]
fn an_empty_batch_or_sequence_is_no_panic() {
    let mha = MultiHeadAttention::new(config(4, 6, 2), &mut TorchRng::manual_seed(1)).unwrap();
    for (batch, num_tokens) in [(0, 5), (2, 0)] {
        let out = mha.forward(&Array3::zeros((batch, num_tokens, 4))).unwrap();
        assert_eq!(out.dim(), (batch, num_tokens, 6));
    }
}
