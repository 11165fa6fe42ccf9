//! The functions that recompute the figures, one file a document or chapter, in the order of its cells.

use attention::AttentionConfig;
use generate::greedy_id;
use ndarray::{
    Array, Array2, Array3, ArrayRef2, ArrayRef3, Axis, Dimension, ShapeBuilder, StrideShape, stack,
};
use torch_rng::TorchRng;

use super::table::Case;

mod ch02;
mod ch04;
mod ch05;
mod seed000;
mod seed001;
mod seed002;
mod seed003;
mod seed004;

pub(super) use ch02::CH02;
pub(super) use ch04::CH04;
pub(super) use ch05::CH05;
pub(super) use seed000::SEED000;
pub(super) use seed001::SEED001;
pub(super) use seed002::SEED002;
pub(super) use seed003::SEED003;
pub(super) use seed004::SEED004;

/// The generator a case's cell starts from.
fn seeded(case: &Case) -> anyhow::Result<TorchRng> {
    Ok(TorchRng::manual_seed(case.seed()?))
}

/// `torch.randn(shape)`.
fn randn<D: Dimension, S: ShapeBuilder<Dim = D> + Into<StrideShape<D>>>(
    shape: S,
    size: usize,
    rng: &mut TorchRng,
) -> Array<f32, D> {
    Array::from_shape_vec(shape, rng.randn(size)).expect("size is the product of the shape")
}

/// The same sequence twice: (n_tokens, d) -> (2, n_tokens, d).
fn twice(x: &Array2<f32>) -> Array3<f32> {
    stack(Axis(0), &[x.view(), x.view()]).expect("one shape")
}

/// The sums of the rows.
fn row_sums(x: &ArrayRef2<f32>) -> Vec<f32> {
    x.outer_iter().map(|row| row.sum()).collect()
}

/// The sizes of a case's attention module, without dropout and biases.
fn attention_config(case: &Case) -> anyhow::Result<AttentionConfig> {
    Ok(AttentionConfig {
        d_in: case.count("d_in")?,
        d_out: case.count("d_out")?,
        context_length: case.count("context_length")?,
        dropout: 0.0,
        num_heads: case.count("num_heads").unwrap_or(1),
        qkv_bias: false,
    })
}

/// A case's rows of ids, all of one length.
fn ids(case: &Case, key: &str) -> anyhow::Result<Array2<u32>> {
    let lines = case.text(key)?.lines().count();
    let ids: Vec<u32> = case.numbers(key)?;
    let columns = ids.len() / lines;
    Ok(Array2::from_shape_vec((lines, columns), ids)?)
}

/// The most likely id at each place: (batch, n_tokens, vocab_size) -> (batch, n_tokens).
fn argmax(logits: &ArrayRef3<f32>) -> anyhow::Result<Array2<u32>> {
    let (batch, n_tokens, _) = logits.dim();
    let ids: Result<Vec<u32>, _> = logits
        .lanes(Axis(2))
        .into_iter()
        .map(|lane| greedy_id(&lane))
        .collect();
    Ok(Array2::from_shape_vec((batch, n_tokens), ids?)?)
}
