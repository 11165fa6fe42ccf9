//! 3.6 Splitting features among heads
//!
//! Multi-head attention computes all heads at once. Before it, the features of each token are
//! shared out: head 0 gets the first `head_dim` features, head 1 the next, and so on, and the heads
//! move before the tokens. After it, the heads' features stand side by side again.
//! `split`: (b, tokens, d_out) to (b, heads, tokens, head_dim). `join`: the way back. In PyTorch
//! these are `view` and `transpose(1, 2)`; a `view` to the final shape alone would mix tokens and
//! heads.
//!
//! HINT: `Array4::from_shape_fn(shape, |(b, h, t, f)| ...)` needs only the right place in x.
//! HINT: Feature f of head h is feature `h * head_dim + f` of the token.

use practice::ndarray::{Array3, Array4};

/// (b, tokens, d_out) to (b, heads, tokens, head_dim)
pub fn split(x: &Array3<f32>, heads: usize) -> Array4<f32> {
    // SOLUTION
    let (b, tokens, d_out) = x.dim();
    let head_dim = d_out / heads;
    Array4::from_shape_fn((b, heads, tokens, head_dim), |(b, h, t, f)| {
        x[[b, t, h * head_dim + f]]
    })
    // END
}

/// (b, heads, tokens, head_dim) to (b, tokens, d_out)
pub fn join(x: &Array4<f32>) -> Array3<f32> {
    // SOLUTION
    let (b, heads, tokens, head_dim) = x.dim();
    Array3::from_shape_fn((b, tokens, heads * head_dim), |(b, t, f)| {
        x[[b, f / head_dim, t, f % head_dim]]
    })
    // END
}

fn main() {
    practice::heads(split, join).print();
    // Your experiments go here.
}
