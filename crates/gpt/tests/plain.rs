//! Compares the optimized methods of the model and its modules with the code of the book's
//! listings, both with and without dropout.

use gpt::{Activation, DropRates, GptConfig, GptModel, LayerNorm, gelu, layer_norm};
use ndarray::{Array1, Array2, Array3};
use proptest::prelude::*;
use test_support::{assert_close, test_array};
use torch_rng::{Build, TorchRng};

proptest! {
    #![proptest_config(test_support::proptest_config(64))]

    #[test]
    fn layer_norm_and_gelu_equal_the_listings(
        (batch, num_tokens, emb_dim) in (0usize..3, 1usize..40, 4usize..70),
        scale in 0.1f32..10.0, seed: u64,
    ) {
        let norm = LayerNorm {
            scale: test_array(emb_dim, 1.0, seed),
            shift: test_array(emb_dim, 1.0, seed ^ 1),
            eps: 1e-5,
        };
        let x: Array3<f32> = test_array((batch, num_tokens, emb_dim), scale, seed ^ 2);
        assert_close(&norm.forward(&x), &layer_norm(&norm, &x), 1e-4);
        assert_close(&norm.forward_train(&x).0, &layer_norm(&norm, &x), 1e-4);
        assert_close(&tensor_ops::gelu(&x), &gelu(&x), 1e-5);
        let row: Array1<f32> = test_array(emb_dim, scale, seed);
        assert_close(&norm.forward(&row), &layer_norm(&norm, &row), 1e-4);
    }

    #[test]
    fn the_model_its_blocks_and_its_feed_forward_network_equal_the_listings(
        // Attention processes the queries in blocks of 64. To test sequences that consist of one
        // block and sequences that consist of two blocks, the number of tokens is either less than
        // 20 or between 60 and 69.
        (batch, num_tokens) in (1usize..4, prop_oneof![1usize..20, 60usize..70]),
        (n_heads, head_dim, n_layers, vocab_size) in (1usize..4, 8usize..17, 1usize..4, 2usize..60),
        [tied, qkv_bias] in any::<[bool; 2]>(),
        activation in prop_oneof![Just(Activation::GeluTanh), Just(Activation::Gelu), Just(Activation::Relu)],
        drop_rate in prop_oneof![Just(0.0), 0.05..0.9],
        (seed, build) in (any::<u64>(), prop_oneof![Just(Build::Portable), Just(Build::Mkl)]),
    ) {
        let config = GptConfig {
            vocab_size,
            context_length: num_tokens,
            emb_dim: n_heads * head_dim,
            n_heads,
            n_layers,
            drop_rates: DropRates::all(drop_rate),
            qkv_bias,
            tied,
            activation,
            ..GptConfig::GPT2_124M
        };
        let mut rng = TorchRng::manual_seed(seed).with_build(build);
        let model = GptModel::new(config, &mut rng).unwrap();
        let ids = Array2::from_shape_fn((batch, num_tokens), |(i, j)| ((7 * i + 5 * j) % vocab_size) as u32);
        assert_close(&model.forward(&ids).unwrap(), &model.forward_plain(&ids, None).unwrap(), 1e-4);
        let mut plain_rng = rng.clone();
        let plain = model.forward_plain(&ids, Some(&mut plain_rng)).unwrap();
        assert_close(&model.forward_train(&ids, &mut rng).unwrap().0, &plain, 1e-4);
        prop_assert_eq!(&rng, &plain_rng, "both draw the same");

        let block = &model.trf_blocks[n_layers - 1];
        let x: Array3<f32> = test_array((batch, num_tokens, config.emb_dim), 1.0, seed);
        assert_close(&block.forward(&x).unwrap(), &block.forward_plain(&x, None).unwrap(), 1e-4);
        let plain = block.forward_plain(&x, Some(&mut plain_rng)).unwrap();
        assert_close(&block.forward_train(x.clone(), &mut rng).unwrap().0, &plain, 1e-4);
        prop_assert_eq!(rng, plain_rng, "both draw the same");

        let plain = block.ff.forward_plain(&x);
        assert_close(&block.ff.forward(&x), &plain, 1e-5);
        assert_close(&block.ff.forward_train(x).0, &plain, 1e-5);
    }
}
