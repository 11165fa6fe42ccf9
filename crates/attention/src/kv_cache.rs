//! Keys and values of the tokens seen so far, so that a new token's attention costs one pass over
//! them: `softmax(q K^T / sqrt(head_dim)) V` with K and V remembered.
//!
//! Each head's keys are one contiguous block, read in order. It holds one sequence.
//! It does not project: queries, keys and values come from the module's own layers. There is no
//! dropout and no gradient.

use ndarray::{Array3, ArrayRef2, ArrayViewMut2, Axis, s};
use tensor_ops::engine::for_each;

use crate::head::Head;

/// Cached numbers that a call reads before the heads are shared out among the threads.
const PARALLEL_FROM: usize = 8 * 1024;

/// Tokens that there is room for from the first one on: to grow for each few of a short text would
/// cost a small model a tenth of its time.
const MIN_ROOM: usize = 64;

/// The sizes of a [`KvCache`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvCacheSize {
    /// Heads of the layer's attention.
    pub num_heads: usize,
    /// Features of a head.
    pub head_dim: usize,
    /// The most tokens.
    pub capacity: usize,
}

/// One layer's keys and values, with room for `capacity` tokens.
///
/// ```
/// use attention::{KvCache, KvCacheSize};
/// use ndarray::array;
///
/// let size = KvCacheSize { num_heads: 1, head_dim: 2, capacity: 4 };
/// let mut cache = KvCache::new(size);
/// let mut context = array![[0.0, 0.0]];
/// let (query, key, value) = (array![[1.0, 0.0]], array![[0.0, 1.0]], array![[5.0, 7.0]]);
/// cache.attend(&query, &key, &value, context.view_mut());
/// assert_eq!(context, array![[5.0, 7.0]]); // a first token sees itself alone
/// assert_eq!(cache.len(), 1);
/// ```
#[derive(Clone, Debug)]
pub struct KvCache {
    /// (num_heads, room, head_dim); the room grows to `capacity` as it is needed
    keys: Array3<f32>,
    /// The same shape as the keys
    values: Array3<f32>,
    /// Tokens remembered
    len: usize,
    capacity: usize,
}

impl KvCache {
    /// An empty cache; it takes memory for at most twice the tokens that it has held, or for 64.
    ///
    /// # Panics
    /// If the number of heads or their size is 0.
    pub fn new(size: KvCacheSize) -> Self {
        assert!(
            size.num_heads > 0 && size.head_dim > 0,
            "KvCache::new: {size:?} has no heads or no features"
        );
        let empty = || Array3::zeros((size.num_heads, 0, size.head_dim));
        Self {
            keys: empty(),
            values: empty(),
            len: 0,
            capacity: size.capacity,
        }
    }

    /// The number of remembered tokens.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if no token is remembered.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Forgets all tokens, and keeps the memory.
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Grows if so many tokens, at most the capacity, would not fit.
    fn make_room(&mut self, tokens: usize) {
        let (num_heads, room, head_dim) = self.keys.dim();
        if tokens <= room {
            return;
        }
        let room = tokens.next_power_of_two().max(MIN_ROOM).min(self.capacity);
        let remembered = s![.., ..self.len, ..];
        for cache in [&mut self.keys, &mut self.values] {
            let mut larger = Array3::zeros((num_heads, room, head_dim));
            let old = cache.slice(remembered);
            larger.slice_mut(remembered).assign(&old);
            *cache = larger;
        }
    }

    /// Remembers the keys and values of new tokens, a row each, and writes their context vectors
    /// (rows, num_heads * head_dim): each sees the remembered tokens, the new ones before it, and
    /// itself.
    ///
    /// # Panics
    /// If a shape doesn't fit, or the cache has no room for the tokens; the message contains the
    /// numbers.
    pub fn attend(
        &mut self,
        queries: &ArrayRef2<f32>,
        keys: &ArrayRef2<f32>,
        values: &ArrayRef2<f32>,
        mut context: ArrayViewMut2<f32>,
    ) {
        self.check(queries, keys, values, &context);
        let (past, new) = (self.len, queries.nrows());
        if new == 0 {
            return;
        }
        self.make_room(past + new);
        store(&mut self.keys, past, keys);
        store(&mut self.values, past, values);
        self.len += new;
        let (_, _, head_dim) = self.keys.dim();
        let remembered = s![.., ..past + new, ..];
        let (keys, values) = (self.keys.slice(remembered), self.values.slice(remembered));
        let heads = keys.outer_iter().zip(values.outer_iter());
        let queries_of_heads = queries.axis_chunks_iter(Axis(1), head_dim);
        let contexts = context.axis_chunks_iter_mut(Axis(1), head_dim);
        let heads = heads.zip(queries_of_heads).zip(contexts);
        let heads = heads.map(|(((keys, values), queries), context)| {
            let head = Head {
                past,
                queries,
                keys,
                values,
            };
            (head, context)
        });
        let attend = |(head, context): (Head, ArrayViewMut2<f32>)| head.decode(context);
        if new * (past + new) * queries.ncols() < PARALLEL_FROM {
            heads.for_each(attend);
        } else {
            for_each(heads.collect(), attend);
        }
    }

    fn check(
        &self,
        queries: &ArrayRef2<f32>,
        keys: &ArrayRef2<f32>,
        values: &ArrayRef2<f32>,
        context: &ArrayRef2<f32>,
    ) {
        let (num_heads, _, head_dim) = self.keys.dim();
        let (len, capacity, new) = (self.len, self.capacity, queries.nrows());
        let shape = (new, num_heads * head_dim);
        for (name, found) in [
            ("queries", queries.dim()),
            ("keys", keys.dim()),
            ("values", values.dim()),
            ("context", context.dim()),
        ] {
            assert!(
                found == shape,
                "KvCache::attend: {name} have shape {found:?}, but the new tokens need {shape:?}"
            );
        }
        assert!(
            new <= capacity - len,
            "KvCache::attend: {len} tokens and {new} new ones, but room for {capacity}"
        );
    }
}

/// Writes rows (new, num_heads * head_dim) head by head behind the tokens that there are.
fn store(cache: &mut Array3<f32>, len: usize, rows: &ArrayRef2<f32>) {
    let (_, room, head_dim) = cache.dim();
    let cache = cache.as_slice_mut().expect("the cache is row-major");
    for (row, token) in rows.rows().into_iter().zip(len..) {
        let row = row.to_vec();
        for (head, features) in row.chunks_exact(head_dim).enumerate() {
            let at = (head * room + token) * head_dim;
            cache[at..at + head_dim].copy_from_slice(features);
        }
    }
}

#[cfg(test)]
mod tests {
    use ndarray::Array2;

    use super::*;

    #[test]
    fn room_grows_with_what_is_remembered_up_to_the_capacity() {
        let mut cache = KvCache::new(KvCacheSize {
            num_heads: 1,
            head_dim: 2,
            capacity: 1000,
        });
        for (new, room) in [(3, 64), (61, 64), (1, 128), (600, 1000), (335, 1000)] {
            let x = Array2::<f32>::ones((new, 2));
            cache.attend(&x, &x, &x, Array2::zeros((new, 2)).view_mut());
            assert_eq!(cache.keys.dim(), (1, room, 2), "{} tokens", cache.len());
        }
    }
}
