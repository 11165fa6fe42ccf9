//! Keys and values of the tokens seen so far, so that a new token's attention costs one pass over
//! them: `softmax(q K^T / sqrt(head_dim)) V` with K and V remembered.
//!
//! Each head's keys are one contiguous block, read in order.
//! Sequences of a batch have lengths of their own; nothing is padded, so nothing can leak.
//! It does not project: queries, keys and values come from the module's own layers. There is no
//! dropout and no gradient.

use ndarray::{Array4, ArrayRef2, ArrayView2, ArrayViewMut2, Axis, s};
use tensor_ops::engine::for_each;

use crate::head::Head;

/// Cached numbers that a call reads before the heads are shared out among the threads.
const PARALLEL_FROM: usize = 8 * 1024;

/// Tokens that there is room for from the first one on: to grow for each few of a short text would
/// cost a small model a tenth of its time.
const LEAST_ROOM: usize = 64;

/// The sizes of a [`KvCache`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvCacheSize {
    /// Sequences.
    pub batch: usize,
    /// Heads of the layer's attention.
    pub num_heads: usize,
    /// Features of a head.
    pub head_dim: usize,
    /// The most tokens of a sequence.
    pub capacity: usize,
}

/// One layer's keys and values, with room for `capacity` tokens per sequence.
///
/// ```
/// use attention::{KvCache, KvCacheSize};
/// use ndarray::array;
///
/// let size = KvCacheSize { batch: 1, num_heads: 1, head_dim: 2, capacity: 4 };
/// let mut cache = KvCache::new(size);
/// let mut context = array![[0.0, 0.0]];
/// let (query, key, value) = (array![[1.0, 0.0]], array![[0.0, 1.0]], array![[5.0, 7.0]]);
/// cache.attend(&[1], &query, &key, &value, context.view_mut());
/// assert_eq!(context, array![[5.0, 7.0]]); // a first token sees itself alone
/// assert_eq!(cache.len(0), 1);
/// ```
#[derive(Clone, Debug)]
pub struct KvCache {
    /// (batch, num_heads, room, head_dim); the room grows to `capacity` as it is needed
    keys: Array4<f32>,
    /// The same shape as the keys
    values: Array4<f32>,
    /// (batch): tokens remembered
    lens: Vec<usize>,
    capacity: usize,
}

impl KvCache {
    /// An empty cache; it takes memory for at most twice the tokens of the longest sequence that it
    /// has held, or for 64.
    pub fn new(size: KvCacheSize) -> Self {
        let KvCacheSize {
            batch,
            num_heads,
            head_dim,
            capacity,
        } = size;
        let empty = || Array4::zeros((batch, num_heads, 0, head_dim));
        Self {
            keys: empty(),
            values: empty(),
            lens: vec![0; batch],
            capacity,
        }
    }

    /// The number of sequences.
    pub fn batch(&self) -> usize {
        self.lens.len()
    }

    /// The number of remembered tokens of a sequence.
    ///
    /// # Panics
    /// If there is no such sequence.
    pub fn len(&self, sequence: usize) -> usize {
        self.lens[sequence]
    }

    /// Forgets the tokens of a sequence from the `len`th on; it does nothing if there are fewer.
    ///
    /// # Panics
    /// If there is no such sequence.
    pub fn truncate(&mut self, sequence: usize, len: usize) {
        self.lens[sequence] = self.lens[sequence].min(len);
    }

    /// Grows if a sequence of so many tokens, at most the capacity, would not fit.
    fn make_room(&mut self, tokens: usize) {
        let (batch, num_heads, room, head_dim) = self.keys.dim();
        if tokens <= room {
            return;
        }
        let room = tokens
            .next_power_of_two()
            .max(LEAST_ROOM)
            .min(self.capacity);
        for cache in [&mut self.keys, &mut self.values] {
            let mut larger = Array4::zeros((batch, num_heads, room, head_dim));
            for (sequence, &len) in self.lens.iter().enumerate() {
                let remembered = s![sequence, .., ..len, ..];
                larger
                    .slice_mut(remembered)
                    .assign(&cache.slice(remembered));
            }
            *cache = larger;
        }
    }

    /// Remembers the keys and values of new tokens, and writes their context vectors (rows,
    /// num_heads * head_dim).
    ///
    /// Rows are tokens, sequence after sequence: `new_tokens[i]` of them belong to sequence `i`,
    /// which may have none.
    /// Each sees the remembered tokens of its own sequence, the new ones before it, and itself.
    ///
    /// # Panics
    /// If a shape doesn't fit or a sequence would outgrow the capacity; the message names the
    /// numbers.
    pub fn attend(
        &mut self,
        new_tokens: &[usize],
        queries: &ArrayRef2<f32>,
        keys: &ArrayRef2<f32>,
        values: &ArrayRef2<f32>,
        context: ArrayViewMut2<f32>,
    ) {
        self.check(new_tokens, queries, keys, values, &context);
        let pasts = self.lens.clone();
        let ends = pasts.iter().zip(new_tokens).map(|(past, new)| past + new);
        self.make_room(ends.max().unwrap_or(0));
        let mut row = 0;
        for (sequence, &new) in new_tokens.iter().enumerate() {
            let rows = s![row..row + new, ..];
            let place = (sequence, pasts[sequence]);
            store(&mut self.keys, place, keys.slice(rows));
            store(&mut self.values, place, values.slice(rows));
            self.lens[sequence] += new;
            row += new;
        }
        let work: usize = (new_tokens.iter().zip(&pasts))
            .map(|(&new, &past)| new * (past + new) * queries.ncols())
            .sum();
        let heads = self.heads(new_tokens, &pasts, queries, context);
        let attend = |(head, context): (Head, ArrayViewMut2<f32>)| head.decode(context);
        if work < PARALLEL_FROM {
            heads.into_iter().for_each(attend);
        } else {
            for_each(heads, attend);
        }
    }

    /// Each head of each sequence that has new tokens, with the place (new, head_dim) of its
    /// context vectors.
    fn heads<'a>(
        &'a self,
        new_tokens: &[usize],
        pasts: &[usize],
        queries: &'a ArrayRef2<f32>,
        mut context: ArrayViewMut2<'a, f32>,
    ) -> Vec<(Head<'a>, ArrayViewMut2<'a, f32>)> {
        let (_, num_heads, _, head_dim) = self.keys.dim();
        let mut heads = Vec::with_capacity(new_tokens.len() * num_heads);
        let mut first = 0;
        for (sequence, (&new, &past)) in new_tokens.iter().zip(pasts).enumerate() {
            let (mut rows, rest) = context.split_at(Axis(0), new);
            context = rest;
            if new == 0 {
                continue;
            }
            for head in 0..num_heads {
                let (head_context, rest) = rows.split_at(Axis(1), head_dim);
                rows = rest;
                let columns = head * head_dim..(head + 1) * head_dim;
                let remembered = s![sequence, head, ..past + new, ..];
                let head = Head {
                    past,
                    queries: queries.slice(s![first..first + new, columns]),
                    keys: self.keys.slice(remembered),
                    values: self.values.slice(remembered),
                };
                heads.push((head, head_context));
            }
            first += new;
        }
        heads
    }

    fn check(
        &self,
        new_tokens: &[usize],
        queries: &ArrayRef2<f32>,
        keys: &ArrayRef2<f32>,
        values: &ArrayRef2<f32>,
        context: &ArrayRef2<f32>,
    ) {
        let (batch, num_heads, _, head_dim) = self.keys.dim();
        let capacity = self.capacity;
        let shape = (new_tokens.iter().sum(), num_heads * head_dim);
        assert!(
            new_tokens.len() == batch,
            "KvCache::attend: new tokens for {} sequences, but the batch is {batch}",
            new_tokens.len()
        );
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
        for (sequence, (&new, &len)) in new_tokens.iter().zip(&self.lens).enumerate() {
            assert!(
                new <= capacity - len,
                "KvCache::attend: sequence {sequence} has {len} tokens and {new} new ones, but room for {capacity}"
            );
        }
    }
}

/// Writes rows (new, num_heads * head_dim) head by head behind the tokens that a sequence has.
fn store(cache: &mut Array4<f32>, (sequence, len): (usize, usize), rows: ArrayView2<f32>) {
    let (_, num_heads, room, head_dim) = cache.dim();
    let cache = cache.as_slice_mut().expect("the cache is row-major");
    for (row, token) in rows.rows().into_iter().zip(len..) {
        let row = row.to_vec();
        for (head, features) in row.chunks_exact(head_dim).enumerate() {
            let at = ((sequence * num_heads + head) * room + token) * head_dim;
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
            batch: 1,
            num_heads: 1,
            head_dim: 2,
            capacity: 1000,
        });
        for (new, room) in [(3, 64), (61, 64), (1, 128), (600, 1000), (335, 1000)] {
            let x = Array2::<f32>::ones((new, 2));
            cache.attend(&[new], &x, &x, &x, Array2::zeros((new, 2)).view_mut());
            assert_eq!(cache.keys.dim(), (1, 1, room, 2), "{} tokens", cache.len(0));
        }
    }
}
