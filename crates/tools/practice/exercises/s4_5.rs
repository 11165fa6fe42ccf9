//! 4.5 A transformer block
//!
//! Put a block together from its parts, which are functions here. First half: normalize x with
//! `norms[0]`, send it through `attention`, add x. Second half: normalize the sum with `norms[1]`,
//! send it through `network`, add the sum.
//!
//! HINT: Two shortcuts: the second adds the result of the first half, not the block's input.
//! HINT: The shortcut goes around the normalization, too: it adds x as it was.

use practice::ndarray::Array2;

/// A part of a block: rows to rows.
type Part<'a> = &'a dyn Fn(&Array2<f32>) -> Array2<f32>;

/// (tokens, features) to (tokens, features)
pub fn block(
    x: &Array2<f32>,
    norms: [Part<'_>; 2],
    attention: Part<'_>,
    network: Part<'_>,
) -> Array2<f32> {
    // SOLUTION
    let x = x + &attention(&norms[0](x));
    let branch = network(&norms[1](&x));
    x + branch
    // END
}

fn main() {
    practice::block(block).print();
    // Your experiments go here.
}
