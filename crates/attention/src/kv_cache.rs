//! Keys and values of the tokens seen so far, so that a new token's attention costs one pass over
//! them: `softmax(q K^T / sqrt(head_dim)) V` with K and V remembered.
//!
//! Each head's keys and values are in pages of 64 tokens. Clones of a cache share its pages, and a
//! page is copied when one of the clones writes to it.
//! A context vector has the same bits however the tokens arrive: one by one, in parts, or all at
//! once.
//! A cache does not project: queries, keys and values come from the module's own layers. There is
//! no dropout and no gradient.

use std::sync::Arc;

use ndarray::{ArrayRef2, ArrayView1, ArrayView2, ArrayViewMut2, Axis, Ix2, s};
use tensor_ops::engine::{PAGE, Pooled, attend_query, empty, for_each};

use crate::head::Head;

/// Cached numbers that a call reads before the heads are shared out among the threads.
const PARALLEL_FROM: usize = 8 * 1024;

/// New tokens from which on products of matrices are faster than one query after the other.
const MANY_QUERIES: usize = 8;

/// The sizes of a [`KvCache`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
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
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(into = "Contents", try_from = "Contents"))]
pub struct KvCache {
    /// Empty before the first token
    heads: Vec<Pages>,
    /// Number of remembered tokens
    len: usize,
    size: KvCacheSize,
}

/// The keys and values of one head, in pages as [`attend_query`] reads them.
#[derive(Clone, Debug, Default)]
struct Pages(Vec<Arc<Vec<f32>>>);

impl KvCache {
    /// Makes an empty cache. It takes memory as tokens come, a page for each head and 64 tokens.
    ///
    /// # Panics
    /// If the number of heads or their size is 0.
    pub fn new(size: KvCacheSize) -> Self {
        assert!(
            size.num_heads > 0 && size.head_dim > 0,
            "KvCache::new: {size:?} has no heads or no features"
        );
        Self {
            heads: Vec::new(),
            len: 0,
            size,
        }
    }

    /// Returns the number of remembered tokens.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns the sizes it was made with.
    pub fn size(&self) -> KvCacheSize {
        self.size
    }

    /// True if no token is remembered.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Forgets all tokens after the first `len`. If there are no more than that, nothing changes.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
        for Pages(pages) in &mut self.heads {
            pages.truncate(self.len.div_ceil(PAGE));
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
        context: ArrayViewMut2<f32>,
    ) {
        let rows = queries.nrows();
        Self::attend_each([(self, rows)], [queries, keys, values], context);
    }

    /// [`attend`](Self::attend) for several texts, in one loop over all of their heads.
    ///
    /// The rows of queries, keys, values and context are those of the first cache's new tokens,
    /// then those of the second one's, and so on.
    ///
    /// # Panics
    /// As [`attend`](Self::attend).
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

    /// Checks that there is room for `new` tokens, and the shapes of queries, keys, values and
    /// context for `rows` tokens of all texts.
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
                "KvCache::attend: {name} have shape {found:?}, but the new tokens need {shape:?}"
            );
        }
        let len = self.len;
        assert!(
            new <= capacity - len,
            "KvCache::attend: {len} tokens and {new} new ones, but room for {capacity}"
        );
    }
}

/// One head's rows of a text's new tokens, each (new, head_dim).
struct NewTokens<'a> {
    /// Number of tokens before them
    past: usize,
    queries: ArrayView2<'a, f32>,
    keys: ArrayView2<'a, f32>,
    values: ArrayView2<'a, f32>,
}

impl Pages {
    /// Remembers keys and values.
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

    /// Writes the context vectors (new, head_dim) of new tokens, which are remembered already.
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

    /// Copies the keys (head_dim, tokens) and values (tokens, head_dim) of the first `tokens`.
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

/// What is written of a cache: the numbers of its tokens, without the empty parts of pages.
#[cfg(feature = "serde")]
#[derive(serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Contents {
    size: KvCacheSize,
    /// (num_heads, tokens, head_dim)
    keys: Vec<f32>,
    /// The same shape as the keys
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
        let features = features.ok_or_else(|| format!("{size:?} is no size of a cache"))?;
        let len = keys.len() / features;
        if keys.len() != len * features || values.len() != keys.len() || len > size.capacity {
            let (keys, values) = (keys.len(), values.len());
            return Err(format!(
                "{keys} keys and {values} values in a cache of {size:?}"
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
