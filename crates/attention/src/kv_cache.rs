//! A KV cache, which stores the keys and values of all previous tokens while text is generated.
//! With the cache, computing the attention of a new token, `softmax(q K^T / sqrt(head_dim)) V`,
//! requires only the query, key and value of this token. The keys and values of the previous tokens
//! don't have to be computed again.
//!
//! # Pages
//!
//! The keys and values of each head are stored in pages of 64 tokens. For example, a cache with 150
//! tokens has three pages per head, and the last page contains 22 tokens. A new page is allocated
//! when the previous page is full and another token is added. Each page has space for 64 keys, in
//! an array of shape `(head_dim, 64)`, followed by 64 values, in an array of shape
//! `(64, head_dim)`.
//!
//! A clone of a cache shares all pages with the original cache. Before either of the two caches
//! writes to a shared page, it makes its own copy of this page. Therefore, several continuations of
//! the same text can be generated even though the beginning of the text is computed and stored only
//! once.
//!
//! # Reproducibility
//!
//! The context vector of a token is bitwise identical regardless of whether the tokens of the
//! sequence are added one at a time, in chunks of any size, or all at once.
//!
//! # Limits
//!
//! A cache doesn't contain any layers, so the caller has to compute the queries, keys and values. A
//! cache supports neither dropout nor backward passes.

use std::sync::Arc;

use ndarray::{ArrayRef2, ArrayView1, ArrayView2, ArrayViewMut2, Axis, Ix2, s};
use tensor_ops::engine::{PAGE, Pooled, attend_query, empty, for_each};

use crate::head::Head;

/// Smallest amount of work for which a call of [`KvCache::attend_each`] distributes the attention
/// heads among threads. A single thread is faster for smaller amounts.
///
/// The amount of work of a call is computed as follows. For each sequence, three numbers are
/// multiplied: the number of new tokens, the number of all tokens in the cache including the new
/// ones, and the number of features of all heads together. The products of all sequences are then
/// added up.
const PARALLEL_FROM: usize = 8 * 1024;

/// Smallest number of new tokens for which attention is computed with matrix products. For fewer
/// tokens, it is faster to process the queries one at a time.
const MANY_QUERIES: usize = 8;

/// The sizes of a [`KvCache`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct KvCacheSize {
    /// Number of heads of the attention layer.
    pub num_heads: usize,
    /// Number of features of each head.
    pub head_dim: usize,
    /// Largest number of tokens that the cache can store.
    pub capacity: usize,
}

/// The keys and values of one attention layer for one sequence, with space for up to `capacity`
/// tokens.
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
/// assert_eq!(context, array![[5.0, 7.0]]); // the first token attends only to itself
/// assert_eq!(cache.len(), 1);
/// ```
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(into = "Contents", try_from = "Contents"))]
pub struct KvCache {
    /// Pages with the keys and values of each head. The vector is empty until tokens are added for
    /// the first time.
    heads: Vec<Pages>,
    /// Number of tokens in the cache.
    len: usize,
    size: KvCacheSize,
}

/// Pages with the keys and values of one head, in the memory layout that [`attend_query`] requires.
/// Cloning this value doesn't copy the pages, because clones share them.
#[derive(Clone, Debug, Default)]
struct Pages(Vec<Arc<Vec<f32>>>);

impl KvCache {
    /// Creates an empty cache. Memory is allocated only as tokens are added, in pages of 64 tokens
    /// for each head.
    ///
    /// # Panics
    ///
    /// Panics if the number of heads or the number of features per head is 0.
    pub fn new(size: KvCacheSize) -> Self {
        assert!(
            size.num_heads > 0 && size.head_dim > 0,
            "KvCache::new: num_heads and head_dim must be at least 1, got {size:?}"
        );
        Self {
            heads: Vec::new(),
            len: 0,
            size,
        }
    }

    /// Returns the number of tokens in the cache.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns the sizes with which the cache was created.
    pub fn size(&self) -> KvCacheSize {
        self.size
    }

    /// Returns true if the cache contains no tokens.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Removes the keys and values of all tokens except the first `len` from the cache, for example
    /// to generate a different continuation of these tokens. If the cache contains at most `len`
    /// tokens, it isn't changed.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
        for Pages(pages) in &mut self.heads {
            pages.truncate(self.len.div_ceil(PAGE));
        }
    }

    /// Adds the keys and values of new tokens to the cache, and writes the context vectors of the
    /// new tokens to `context`. Each new token attends to all tokens that were already in the
    /// cache, to the new tokens before it, and to itself.
    ///
    /// `queries`, `keys`, `values` and `context` have the shape `(new, num_heads * head_dim)`, with
    /// one row for each new token.
    ///
    /// # Panics
    ///
    /// Panics if the arrays have different shapes, if they don't have `num_heads * head_dim`
    /// columns, or if the number of tokens would exceed the capacity of the cache. The cache isn't
    /// changed before such a panic.
    pub fn attend(
        &mut self,
        queries: &ArrayRef2<f32>,
        keys: &ArrayRef2<f32>,
        values: &ArrayRef2<f32>,
        context: ArrayViewMut2<f32>,
    ) {
        let rows = queries.nrows();
        Self::attend_each([(self, rows)], [queries, keys, values], context);
    }

    /// Computes the same results as calling [`attend`](Self::attend) for each of several sequences,
    /// but in less time, because the heads of all sequences are distributed among the threads
    /// together.
    ///
    /// `caches` contains, for each sequence, its cache and the number of its new tokens. The
    /// queries, keys, values and context vectors of all sequences are stored one sequence after the
    /// other: the first rows of each array contain the new tokens of the first sequence, the next
    /// rows contain the new tokens of the second sequence, and so on.
    ///
    /// # Panics
    ///
    /// Panics if the number of rows of an array isn't the total number of new tokens, if the number
    /// of columns isn't `num_heads * head_dim`, or if the number of tokens in a cache would exceed
    /// its capacity. No cache is changed before such a panic.
    pub fn attend_each<'c>(
        caches: impl IntoIterator<Item = (&'c mut Self, usize)>,
        [queries, keys, values]: [&ArrayRef2<f32>; 3],
        mut context: ArrayViewMut2<f32>,
    ) {
        let caches: Vec<_> = caches.into_iter().collect();
        let rows = caches.iter().map(|(_, new)| new).sum();
        let matrices = [queries, keys, values, &*context];
        for (cache, new) in &caches {
            cache.check(*new, rows, matrices.map(|matrix| matrix.dim()));
        }
        let mut tasks = Vec::new();
        let (mut first, mut numbers) = (0, 0);
        for (cache, new) in caches {
            let (mut own, rest) = context.split_at(Axis(0), new);
            context = rest;
            let head_dim = cache.size.head_dim;
            let rows = first..first + new;
            cache.heads.resize(cache.size.num_heads, Pages::default());
            for (head, pages) in cache.heads.iter_mut().enumerate().filter(|_| new > 0) {
                let columns = head * head_dim..(head + 1) * head_dim;
                let [queries, keys, values] = [queries, keys, values]
                    .map(|matrix| matrix.slice(s![rows.clone(), columns.clone()]));
                let (context, rest) = own.split_at(Axis(1), head_dim);
                own = rest;
                let past = cache.len;
                tasks.push((
                    pages,
                    NewTokens {
                        past,
                        queries,
                        keys,
                        values,
                    },
                    context,
                ));
            }
            cache.len += new;
            first += new;
            numbers += new * cache.len * queries.ncols();
        }
        let attend = |(pages, new, context): (&mut Pages, NewTokens, ArrayViewMut2<f32>)| {
            pages.push(&new);
            pages.attend(&new, context);
        };
        if numbers < PARALLEL_FROM {
            tasks.into_iter().for_each(attend);
        } else {
            for_each(tasks, attend);
        }
    }

    /// Panics if this cache can't process a call of [`attend_each`](Self::attend_each). `found`
    /// contains the shapes of the queries, keys, values and context vectors. Each of these arrays
    /// must have `num_heads * head_dim` columns and `rows` rows, where `rows` is the number of new
    /// tokens of all sequences. The cache must also have space for `new` more tokens, which are the
    /// new tokens of its own sequence.
    fn check(&self, new: usize, rows: usize, found: [(usize, usize); 4]) {
        let KvCacheSize {
            num_heads,
            head_dim,
            capacity,
        } = self.size;
        let shape = (rows, num_heads * head_dim);
        for (name, found) in ["queries", "keys", "values", "context"]
            .into_iter()
            .zip(found)
        {
            assert!(
                found == shape,
                "KvCache::attend: the shape of {name} must be (new tokens, features) = {shape:?}, got {found:?}"
            );
        }
        let len = self.len;
        assert!(
            new <= capacity - len,
            "KvCache::attend: the cache contains {len} tokens, and {new} more would exceed its capacity of {capacity}"
        );
    }
}

/// The queries, keys and values of one head for the new tokens of one sequence. Each array has the
/// shape `(new, head_dim)`.
struct NewTokens<'a> {
    /// Number of past tokens, which were already in the cache when the new tokens were added. It is
    /// also the position of the first new token in the sequence.
    past: usize,
    queries: ArrayView2<'a, f32>,
    keys: ArrayView2<'a, f32>,
    values: ArrayView2<'a, f32>,
}

impl Pages {
    /// Appends the keys and values of the new tokens to the pages of this head, and allocates new
    /// pages when the last page is full.
    fn push(&mut self, new: &NewTokens<'_>) {
        let head_dim = new.keys.ncols();
        let rows = new.keys.rows().into_iter().zip(new.values.rows());
        for (token, (key, value)) in (new.past..).zip(rows) {
            let (page, place) = (token / PAGE, token % PAGE);
            if page == self.0.len() {
                self.0.push(Arc::new(vec![0.0; 2 * PAGE * head_dim]));
            }
            let page = Arc::make_mut(&mut self.0[page]);
            let (keys, values) = page.split_at_mut(PAGE * head_dim);
            let keys = keys[place..].iter_mut().step_by(PAGE);
            keys.zip(key).for_each(|(to, x)| *to = *x);
            let values = &mut values[place * head_dim..];
            values.iter_mut().zip(value).for_each(|(to, x)| *to = *x);
        }
    }

    /// Writes the context vectors of the new tokens to `context`, which has the shape
    /// `(new, head_dim)`. The keys and values of these tokens must already be in the pages.
    fn attend(&self, new: &NewTokens<'_>, mut context: ArrayViewMut2<f32>) {
        let (n, head_dim) = new.queries.dim();
        if n >= MANY_QUERIES {
            let (keys, values) = self.matrices(new.past + n, head_dim);
            let head = Head {
                past: new.past,
                queries: new.queries,
                keys: keys.t(),
                values: values.view(),
            };
            return head.forward(None, &mut vec![0.0; n], context);
        }
        let scale = 1.0 / (head_dim as f32).sqrt();
        let (mut scores, mut out) = (Vec::new(), vec![0.0; head_dim]);
        let queries = new.queries.rows().into_iter().zip(context.rows_mut());
        for (n_keys, (query, mut context)) in (new.past + 1..).zip(queries) {
            let pages = self.0.iter().map(|page| &page[..]);
            let pages = pages.take(n_keys.div_ceil(PAGE));
            let query = query.as_standard_layout();
            let query = query.as_slice().expect("standard layout is contiguous");
            attend_query(query, pages, n_keys, scale, &mut scores, &mut out);
            context.assign(&ArrayView1::from(&out));
        }
    }

    /// Copies the keys and values of the first `tokens` tokens from the pages to two matrices. The
    /// matrix of keys has the shape `(head_dim, tokens)`, and the matrix of values has the shape
    /// `(tokens, head_dim)`.
    fn matrices(&self, tokens: usize, head_dim: usize) -> (Pooled<Ix2>, Pooled<Ix2>) {
        let mut all_keys = Pooled::from(empty((head_dim, tokens)));
        let mut all_values = Pooled::from(empty((tokens, head_dim)));
        let places = all_keys.axis_chunks_iter_mut(Axis(1), PAGE);
        let places = places.zip(all_values.axis_chunks_iter_mut(Axis(0), PAGE));
        for ((mut keys, mut values), page) in places.zip(&self.0) {
            let of_page = |shape, numbers| ArrayView2::from_shape(shape, numbers).expect("a half");
            let (first, last) = page.split_at(PAGE * head_dim);
            let columns = ..keys.ncols();
            keys.assign(&of_page((head_dim, PAGE), first).slice(s![.., columns]));
            values.assign(&of_page((PAGE, head_dim), last).slice(s![columns, ..]));
        }
        (all_keys, all_values)
    }
}

/// The serialized form of a [`KvCache`]. It contains the keys and values of all tokens, but not the
/// unused space in the last page of each head.
#[cfg(feature = "serde")]
#[derive(serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Contents {
    size: KvCacheSize,
    /// Keys of all heads, in the row-major order of an array of shape
    /// `(num_heads, tokens, head_dim)`.
    keys: Vec<f32>,
    /// Values of all heads, in the same order as the keys.
    values: Vec<f32>,
}

#[cfg(feature = "serde")]
impl From<KvCache> for Contents {
    fn from(cache: KvCache) -> Self {
        let (mut keys, mut values) = (Vec::new(), Vec::new());
        for pages in &cache.heads {
            let (of_keys, of_values) = pages.matrices(cache.len, cache.size.head_dim);
            keys.extend(of_keys.t());
            values.extend(&*of_values);
        }
        let size = cache.size;
        Self { size, keys, values }
    }
}

#[cfg(feature = "serde")]
impl TryFrom<Contents> for KvCache {
    type Error = String;

    fn try_from(contents: Contents) -> Result<Self, String> {
        let Contents { size, keys, values } = contents;
        let features = size.num_heads.checked_mul(size.head_dim);
        let features = features.filter(|&features| features > 0);
        let features = features.ok_or_else(|| {
            format!("num_heads and head_dim of a KV cache must be at least 1, got {size:?}")
        })?;
        let len = keys.len() / features;
        if keys.len() != len * features || values.len() != keys.len() || len > size.capacity {
            let (keys, values) = (keys.len(), values.len());
            return Err(format!(
                "the KV cache is damaged: it has {keys} key elements and {values} value elements, which doesn't match the cache's size, {size:?}"
            ));
        }
        let mut cache = Self::new(size);
        let numbers = len * size.head_dim;
        for head in (0..size.num_heads).take_while(|_| len > 0) {
            let [keys, values] = [&keys, &values].map(|all| {
                let own = &all[head * numbers..][..numbers];
                ArrayView2::from_shape((len, size.head_dim), own).expect("as many numbers")
            });
            let (past, queries, mut pages) = (0, keys, Pages::default());
            pages.push(&NewTokens {
                past,
                queries,
                keys,
                values,
            });
            cache.heads.push(pages);
        }
        cache.len = len;
        Ok(cache)
    }
}
