//! Functions from earlier exercises, with the signatures that later exercises use.

use ndarray::{Array2, Axis, stack};
use practice::ndarray;

use super::s3_3_1::softmax;
use super::s3_6::{join, split};

pub use super::s2_8::embed;
pub use super::s3_5::causal_weights;
pub use super::s4_3::gelu;
pub use super::s5_3::{top_k, with_temperature};

/// Returns the softmax of each row.
pub fn softmax_rows(mut scores: Array2<f32>) -> Array2<f32> {
    for mut row in scores.rows_mut() {
        let weights = softmax(&row.to_owned());
        row.assign(&weights);
    }
    scores
}

/// Splits features with the shape (tokens, d_out) among the heads. Returns an array with the shape
/// (tokens, head_dim) for each head.
pub fn split_heads(x: &Array2<f32>, heads: usize) -> Vec<Array2<f32>> {
    let batch_of_one = x.clone().insert_axis(Axis(0));
    let split = split(&batch_of_one, heads).index_axis_move(Axis(0), 0);
    split.outer_iter().map(|head| head.to_owned()).collect()
}

/// Joins the features of all heads and returns an array with the shape (tokens, d_out). This is the
/// inverse of [`split_heads`].
///
/// # Panics
///
/// Panics if `heads` is empty or if the arrays have different shapes.
pub fn join_heads(heads: &[Array2<f32>]) -> Array2<f32> {
    let views: Vec<_> = heads.iter().map(|array| array.view()).collect();
    let heads = stack(Axis(0), &views).expect("at least one head, and all of the same shape");
    join(&heads.insert_axis(Axis(0))).index_axis_move(Axis(0), 0)
}
