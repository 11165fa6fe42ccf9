//! Attention against remembered keys and values is attention over the whole sequence.

use attention::{KvCache, KvCacheSize, attend};
use ndarray::{Array2, Axis, ShapeBuilder, s};
use proptest::prelude::*;
use test_support::{assert_close, test_array};

fn empty_cache(num_heads: usize, head_dim: usize, capacity: usize) -> KvCache {
    KvCache::new(KvCacheSize {
        num_heads,
        head_dim,
        capacity,
    })
}

/// Numbers of new tokens that calls bring.
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
        chunks in chunks(), num_heads in 1..4usize, head_dim in 1..20usize, seed in 0..1000u64,
    ) {
        let shape = (chunks.iter().sum::<usize>(), num_heads * head_dim);
        let qkv = [0, 1, 2].map(|i| test_array(shape, 1.0, seed + i));
        let mut cache = empty_cache(num_heads, head_dim, shape.0.max(1));
        let mut got = Array2::from_elem(shape, f32::NAN);
        // A cache forgets its earlier contents.
        let one = Array2::ones((shape.0.min(1), shape.1));
        cache.attend(&one, &one, &one, one.clone().view_mut());
        cache.clear();
        for new in chunks {
            let rows = s![cache.len()..cache.len() + new, ..];
            let [q, k, v] = [0, 1, 2].map(|i| qkv[i].slice(rows));
            cache.attend(&q, &k, &v, got.slice_mut(rows));
        }
        let [q, k, v] = qkv.map(|x| x.insert_axis(Axis(0)));
        let expected = attend(&q, &k, &v, num_heads);
        assert_close(&got, &expected.index_axis(Axis(0), 0), 1e-5);
    }
}

#[test]
fn the_order_in_memory_does_not_matter_for_any_number_of_new_tokens() {
    for new in [1, 2] {
        let shape = (new, 6); // 2 heads of 3 features
        let [q, k, v] = [1, 2, 3].map(|seed| test_array(shape, 1.0, seed));
        let attend = |q: &Array2<f32>, mut context: Array2<f32>| {
            let mut cache = empty_cache(2, 3, new);
            cache.attend(q, &k, &v, context.view_mut());
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
#[should_panic(expected = "2 tokens and 1 new ones, but room for 2")]
fn more_tokens_than_there_is_room_for_are_refused() {
    let x = test_array((2, 2), 1.0, 1);
    let mut cache = empty_cache(1, 2, 2);
    cache.attend(&x, &x, &x, x.clone().view_mut());
    let one = x.slice(s![..1, ..]);
    cache.attend(&one, &one, &one, one.to_owned().view_mut());
}
