//! Tests that attention with a KV cache produces the same context vectors as attention over the
//! whole sequence at once.

use attention::{KvCache, KvCacheSize, attend};
use ndarray::{Array2, Axis, ShapeBuilder, concatenate, s};
use proptest::prelude::*;
use test_support::{assert_close, test_array};

fn empty_cache(num_heads: usize, head_dim: usize, capacity: usize) -> KvCache {
    KvCache::new(KvCacheSize {
        num_heads,
        head_dim,
        capacity,
    })
}

/// Returns a strategy for property tests that generates a list such as `[3, 0, 2]`. Each number is
/// the number of new tokens to pass to one call of [`KvCache::attend`].
fn chunks() -> impl Strategy<Value = Vec<usize>> {
    prop_oneof![
        prop::collection::vec(0..4usize, 1..6),
        Just(vec![70, 1, 1]), // more than one block of 64 queries
        Just(vec![3, 80]),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_sequence_in_pieces_has_the_bits_of_the_whole_sequence_also_after_other_text_was_forgotten(
        chunks in chunks(), num_heads in 1..4usize, head_dim in 1..20usize, seed in 0..1000u64,
        keep in any::<prop::sample::Index>(),
    ) {
        let shape = (chunks.iter().sum::<usize>(), num_heads * head_dim);
        let qkv = [0, 1, 2].map(|i| test_array(shape, 1.0, seed + i));
        let expected = whole(&qkv, num_heads);
        let mut cache = empty_cache(num_heads, head_dim, shape.0 + 70);
        let mut got = Array2::from_elem(shape, f32::NAN);
        let fork = cache.clone();
        for new in chunks {
            step(&mut cache, &qkv, new, &mut got);
        }
        prop_assert_eq!(&got, &expected);
        prop_assert!(fork.is_empty());
        // Adding other tokens to a clone of the cache must not change the original cache.
        let keep = keep.index(shape.0 + 1);
        let mut fork = cache.clone();
        let noise = Array2::from_elem((70, shape.1), f32::NAN);
        fork.truncate(keep);
        fork.attend(&noise, &noise, &noise, noise.clone().view_mut());
        fork.truncate(keep);
        fork.truncate(shape.0);
        prop_assert_eq!(fork.len(), keep);
        for cache in [&mut fork, &mut cache] {
            cache.truncate(keep);
            got.fill(f32::NAN);
            step(cache, &qkv, shape.0 - keep, &mut got);
            prop_assert_eq!(got.slice(s![keep.., ..]), expected.slice(s![keep.., ..]));
        }
    }

    #[test]
    fn texts_together_have_the_bits_of_each_alone(
        lengths in prop::collection::vec((0..130usize, 0..20usize), 1..6), seed in 0..1000u64,
    ) {
        let (num_heads, head_dim) = (2, 8);
        let texts: Vec<_> = lengths.iter().zip(0..).map(|((past, new), i)| {
            let shape = (past + new, num_heads * head_dim);
            let qkv = [0, 1, 2].map(|part| test_array(shape, 1.0, seed + 3 * i + part));
            let mut cache = empty_cache(num_heads, head_dim, past + new + 1);
            step(&mut cache, &qkv, *past, &mut Array2::zeros(shape));
            (cache, qkv, *new)
        }).collect();
        let new_rows = |of: &dyn Fn(usize) -> Array2<f32>| {
            let parts: Vec<_> = texts.iter().enumerate().map(|(i, (cache, ..))| {
                of(i).slice_move(s![cache.len().., ..])
            }).collect();
            concatenate(Axis(0), &parts.iter().map(|part| part.view()).collect::<Vec<_>>()).unwrap()
        };
        let [q, k, v] = [0, 1, 2].map(|part| new_rows(&|i| texts[i].1[part].clone()));
        let expected = new_rows(&|i| whole(&texts[i].1, num_heads));
        let mut caches: Vec<_> = texts.iter().map(|(cache, _, new)| (cache.clone(), *new)).collect();
        let mut got = Array2::from_elem(expected.dim(), f32::NAN);
        let each = caches.iter_mut().map(|(cache, new)| (cache, *new));
        KvCache::attend_each(each, [&q, &k, &v], got.view_mut());
        prop_assert_eq!(got, expected);
        for ((cache, _), (past, new)) in caches.iter().zip(lengths) {
            prop_assert_eq!(cache.len(), past + new);
        }
    }
}

/// Computes attention over a whole sequence without using a cache.
fn whole(qkv: &[Array2<f32>; 3], num_heads: usize) -> Array2<f32> {
    let [q, k, v] = qkv.each_ref().map(|x| x.view().insert_axis(Axis(0)));
    attend(&q, &k, &v, num_heads).remove_axis(Axis(0))
}

/// Adds the next `new` tokens of a sequence to the cache with [`KvCache::attend`]. `qkv` contains
/// the queries, keys and values of the whole sequence. The context vectors of the new tokens are
/// written to the rows of `got` that belong to these tokens, so that a test can compare `got` with
/// the expected context vectors of the whole sequence.
fn step(cache: &mut KvCache, qkv: &[Array2<f32>; 3], new: usize, got: &mut Array2<f32>) {
    let rows = s![cache.len()..cache.len() + new, ..];
    let [q, k, v] = qkv.each_ref().map(|x| x.slice(rows));
    cache.attend(&q, &k, &v, got.slice_mut(rows));
}

#[test]
fn the_order_in_memory_does_not_matter_for_any_number_of_new_tokens() {
    for new in [1, 2] {
        let shape = (new, 6); // two heads with three features each
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
#[should_panic(expected = "contains 2 tokens, and 1 more would exceed its capacity of 2")]
fn more_tokens_than_there_is_room_for_are_refused() {
    let x = test_array((2, 2), 1.0, 1);
    let mut cache = empty_cache(1, 2, 2);
    cache.attend(&x, &x, &x, x.clone().view_mut());
    let one = x.slice(s![..1, ..]);
    cache.attend(&one, &one, &one, one.to_owned().view_mut());
}
