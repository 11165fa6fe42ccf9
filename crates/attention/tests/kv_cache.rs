//! Attention against remembered keys and values is attention over the whole sequence.

use attention::{KvCache, KvCacheSize, attend};
use ndarray::{Array2, Axis, ShapeBuilder, s};
use proptest::prelude::*;
use test_support::{assert_close, test_array};

fn empty_cache(batch: usize, num_heads: usize, head_dim: usize, capacity: usize) -> KvCache {
    KvCache::new(KvCacheSize {
        batch,
        num_heads,
        head_dim,
        capacity,
    })
}

/// Numbers of new tokens that calls bring, for one sequence.
fn chunks() -> impl Strategy<Value = Vec<usize>> {
    prop_oneof![
        prop::collection::vec(0..4usize, 1..6),
        Just(vec![70, 1, 1]), // more than one block of queries
        Just(vec![3, 80]),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_sequence_in_pieces_attends_as_the_whole_sequence_does(
        first in chunks(), second in chunks(), num_heads in 1..4usize, head_dim in 1..20usize, seed in 0..1000u64,
    ) {
        let d_out = num_heads * head_dim;
        let sequences = [first, second];
        let lens = [0, 1].map(|i| sequences[i].iter().sum::<usize>());
        // Queries, keys and values of each sequence, and what the module without a cache makes of
        // them.
        let qkv: Vec<[Array2<f32>; 3]> = (0..2)
            .map(|i| [0, 1, 2].map(|j| test_array((lens[i], d_out), 1.0, seed + 3 * i as u64 + j)))
            .collect();
        let mut cache = empty_cache(2, num_heads, head_dim, lens[0].max(lens[1]).max(1));
        let mut got = lens.map(|len| Array2::zeros((len, d_out)));
        for call in 0..sequences[0].len().max(sequences[1].len()) {
            let new = [0, 1].map(|i| sequences[i].get(call).copied().unwrap_or(0));
            let pasts = [cache.len(0), cache.len(1)];
            let rows = |j: usize| {
                ndarray::concatenate(Axis(0), &[0, 1].map(|i| qkv[i][j].slice(s![pasts[i]..pasts[i] + new[i], ..])))
                    .expect("both are d_out wide")
            };
            let mut context = Array2::from_elem((new[0] + new[1], d_out), f32::NAN);
            cache.attend(&new, &rows(0), &rows(1), &rows(2), context.view_mut());
            got[0].slice_mut(s![pasts[0]..pasts[0] + new[0], ..]).assign(&context.slice(s![..new[0], ..]));
            got[1].slice_mut(s![pasts[1]..pasts[1] + new[1], ..]).assign(&context.slice(s![new[0].., ..]));
        }
        for i in 0..2 {
            let [q, k, v] = qkv[i].clone().map(|x| x.insert_axis(Axis(0)));
            let expected = attend(&q, &k, &v, num_heads);
            assert_close(&got[i], &expected.index_axis(Axis(0), 0), 1e-5);
        }
    }
}

#[test]
fn the_order_in_memory_does_not_matter_for_any_number_of_new_tokens() {
    for new in [1, 2] {
        let shape = (2 * new, 6); // 2 sequences, 2 heads of 3 features
        let [q, k, v] = [1, 2, 3].map(|seed| test_array(shape, 1.0, seed));
        let attend = |q: &Array2<f32>, mut context: Array2<f32>| {
            let mut cache = empty_cache(2, 2, 3, new);
            cache.attend(&[new, new], q, &k, &v, context.view_mut());
            context
        };
        let expected = attend(&q, Array2::zeros(shape));
        let mut turned = Array2::zeros(shape.f());
        turned.assign(&q);
        assert_close(&attend(&turned, Array2::zeros(shape)), &expected, 1e-6);
        assert_close(&attend(&q, Array2::zeros(shape.f())), &expected, 1e-6);
    }
}

#[test]
fn a_truncated_sequence_forgets() {
    let [q, k, v] = [1, 2, 3].map(|seed| test_array((3, 4), 1.0, seed));
    let mut cache = empty_cache(1, 2, 2, 3);
    let mut context = Array2::zeros((3, 4));
    cache.attend(&[3], &q, &k, &v, context.view_mut());
    let before = context.clone();
    cache.truncate(0, 1);
    assert_eq!(cache.len(0), 1);
    let rest = s![1.., ..];
    cache.attend(
        &[2],
        &q.slice(rest),
        &k.slice(rest),
        &v.slice(rest),
        context.slice_mut(rest),
    );
    assert_close(&context, &before, 1e-6);
}

#[test]
#[should_panic(expected = "sequence 0 has 2 tokens and 1 new ones, but room for 2")]
fn more_tokens_than_there_is_room_for_are_refused() {
    let x = test_array((2, 2), 1.0, 1);
    let mut cache = empty_cache(1, 1, 2, 2);
    let mut context = Array2::zeros((2, 2));
    cache.attend(&[2], &x, &x, &x, context.view_mut());
    let one = s![..1, ..];
    cache.attend(
        &[1],
        &x.slice(one),
        &x.slice(one),
        &x.slice(one),
        context.slice_mut(one),
    );
}
