//! Tests of properties that hold for every seed and size. For example, one call that draws many
//! uniform numbers returns the same numbers as many calls that draw one number each.

use proptest::prelude::*;
use rand::Rng;
use torch_rng::{Build, RngState, TorchRng};

fn builds() -> impl Strategy<Value = Build> {
    prop_oneof![Just(Build::Portable), Just(Build::Mkl)]
}

/// Returns a strategy that creates generators with a random seed and build that have already drawn
/// some numbers.
fn generators() -> impl Strategy<Value = TorchRng> {
    (any::<u64>(), 0usize..1_500, 0usize..4, builds()).prop_map(|(seed, drawn, normals, build)| {
        let mut rng = TorchRng::manual_seed(seed).with_build(build);
        rng.rand(drawn);
        rng.randn(normals);
        rng
    })
}

proptest! {
    #[test]
    fn a_bulk_fill_of_uniforms_equals_single_draws(rng in generators(), n in 0usize..2_000, low in -2f32..0.0, width in 0f32..4.0) {
        let (mut bulk, mut single) = (rng.clone(), rng);
        let mut out = vec![0.0; n];
        bulk.fill_uniform(&mut out, low, low + width);
        for (i, got) in out.into_iter().enumerate() {
            let mut one = [0.0];
            single.fill_uniform(&mut one, low, low + width);
            prop_assert_eq!(got, one[0], "element {}", i);
        }
        prop_assert_eq!(bulk, single);
    }

    #[test]
    fn a_portable_mask_equals_comparing_one_by_one(rng in generators(), n in 0usize..9_000, p in 0.001f64..0.999) {
        let rng = rng.with_build(Build::Portable);
        let (mut bulk, mut single) = (rng.clone(), rng);
        let mask = bulk.keep_mask(n, p);
        prop_assert_eq!(mask.len(), n);
        for i in 0..n {
            let u = (single.next_u64() & ((1 << 53) - 1)) as f64 / (1u64 << 53) as f64;
            prop_assert_eq!(mask.get(i), u < 1.0 - p, "element {}", i);
        }
        prop_assert_eq!(bulk, single);
    }

    #[test]
    fn a_longer_mkl_mask_begins_with_the_shorter_one(rng in generators(), n in 1usize..500, m in 0usize..500, p in 0.001f64..0.999) {
        let rng = rng.with_build(Build::Mkl);
        let (mut long, mut short) = (rng.clone(), rng);
        let (long_mask, short_mask) = (long.keep_mask(n + m, p), short.keep_mask(n, p));
        prop_assert!(long_mask.iter().take(n).eq(short_mask.iter()));
        // In the MKL build, each dropout mask takes a single draw, which seeds an MCG31m1
        // generator, regardless of the length of the mask. After drawing the two masks, both
        // `TorchRng` generators are therefore in the same state.
        prop_assert_eq!(long, short);
    }

    #[test]
    fn whole_blocks_of_normals_do_not_depend_on_the_call_they_came_in(rng in generators(), n in 1usize..40, m in 1usize..40) {
        let (mut whole, mut parts) = (rng.clone(), rng);
        let expected = whole.randn(16 * (n + m));
        prop_assert_eq!([parts.randn(16 * n), parts.randn(16 * m)].concat(), expected);
        prop_assert_eq!(whole, parts);
    }

    #[test]
    fn small_draws_of_normals_are_one_stream(rng in generators(), sizes in prop::collection::vec(0usize..16, 0..8)) {
        let (mut bulk, mut single) = (rng.clone(), rng);
        for n in sizes {
            let expected: Vec<f32> = (0..n).flat_map(|_| single.randn(1)).collect();
            prop_assert_eq!(bulk.randn(n), expected);
        }
        prop_assert_eq!(bulk, single);
    }

    #[test]
    fn a_saved_state_continues_where_it_stood(rng in generators()) {
        let mut rng = rng;
        let bytes = rng.state().to_bytes();
        let state = RngState::from_bytes(&bytes).expect("bytes just written");
        prop_assert_eq!(&state, &rng.state());
        let mut resumed = TorchRng::from_state(&state).expect("a state just saved");
        prop_assert_eq!(&resumed, &rng);
        prop_assert_eq!(resumed.randn(5), rng.randn(5));
        prop_assert_eq!(resumed.keep_mask(99, 0.5), rng.keep_mask(99, 0.5));
        prop_assert_eq!(resumed.data_loader_order(9, true), rng.data_loader_order(9, true));
        prop_assert_eq!(resumed.rand(700), rng.rand(700));
    }

    #[test]
    fn randperm_is_a_permutation_of_n_minus_one_draws(rng in generators(), n in 0usize..2_000) {
        let (mut rng, mut counted) = (rng.clone(), rng);
        let mut order = rng.randperm(n);
        order.sort_unstable();
        prop_assert!(order.into_iter().eq(0..n));
        counted.rand(n.saturating_sub(1));
        prop_assert_eq!(rng, counted);
    }

    #[test]
    fn randint_stays_in_its_range(rng in generators(), low: i64, high: i64) {
        prop_assume!(low < high);
        let mut rng = rng;
        prop_assert!((low..high).contains(&rng.randint(low, high)));
    }

    #[test]
    fn a_sample_has_a_probability_above_zero(rng in generators(), p in prop::collection::vec(prop_oneof![Just(0f32), 0f32..1.0], 1..200)) {
        prop_assume!(p.iter().any(|&p| p > 0.0));
        let mut rng = rng;
        prop_assert!(p[rng.multinomial(&p)] > 0.0);
    }

    #[test]
    fn samples_do_not_depend_on_the_scale_of_the_probabilities(rng in generators(), p in prop::collection::vec(0.001f32..1.0, 1..50)) {
        let (mut rng, mut scaled) = (rng.clone(), rng);
        let doubled: Vec<f32> = p.iter().map(|p| 2.0 * p).collect();
        prop_assert_eq!(rng.multinomial(&p), scaled.multinomial(&doubled));
    }
}
