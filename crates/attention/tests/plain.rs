//! Compares the fast implementation of multi-head attention with the code of the book's listing
//! 3.5, both in evaluation mode and with dropout.

use attention::{AttentionConfig, MultiHeadAttention, attend};
use ndarray::Array3;
use proptest::prelude::*;
use test_support::{assert_close, test_array};
use torch_rng::{Build, TorchRng};

proptest! {
    #![proptest_config(test_support::proptest_config(64))]

    #[test]
    fn attention_by_blocks_equals_the_listing(
        batch in 1usize..3,
        // `MultiHeadAttention::forward` processes the queries in blocks of 64. The test generates
        // sequences of up to 19, about 64 and about 130 tokens, which are divided into one, two or
        // three blocks.
        num_tokens in prop_oneof![1usize..20, 60usize..70, 125usize..135],
        (d_in, head_dim, num_heads) in (1usize..7, 1usize..9, 1usize..4),
        dropout in prop_oneof![Just(0.0), 0.05..0.9],
        seed: u32,
    ) {
        let config = AttentionConfig {
            d_in,
            d_out: num_heads * head_dim,
            context_length: 135,
            dropout,
            num_heads,
            qkv_bias: true,
        };
        let mut rng = TorchRng::manual_seed(seed.into()).with_build(Build::Portable);
        let mha = MultiHeadAttention::new(config, &mut rng).unwrap();
        let x: Array3<f32> = test_array((batch, num_tokens, d_in), 1.0, seed.into());
        let (plain, _) = mha.forward_plain(&x, None).unwrap();
        assert_close(&mha.forward(&x).unwrap(), &plain, 1e-5);

        let mut plain_rng = rng.clone();
        let (plain, _) = mha.forward_plain(&x, Some(&mut plain_rng)).unwrap();
        let (fast, _) = mha.forward_train(x, &mut rng).unwrap();
        assert_close(&fast, &plain, 1e-5);
        prop_assert_eq!(rng, plain_rng, "both draw the same");
    }
}

#[test]
fn a_first_token_attends_to_itself_alone() {
    let [q, k, v]: [Array3<f32>; 3] = [1, 2, 3].map(|seed| test_array((2, 1, 6), 1.0, seed));
    assert_close(&attend(&q, &k, &v, 3), &v, 1e-6);
}
