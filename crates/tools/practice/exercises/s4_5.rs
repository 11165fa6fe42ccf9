//! 4.5 A transformer block
//!
//! A transformer block consists of two halves. In the first half, attention moves information
//! between tokens. In the second half, a feed-forward network processes each token separately.
//! GPT-2 normalizes the input of attention and the input of the network. A shortcut connection
//! leads around each half, including its normalization, so a block only has to learn how its input
//! should change.
//!
//! Assemble a block from its parts, which your function receives as functions. `norms[0]` is the
//! normalization for `attention`, and `norms[1]` is the normalization for `network`.
//!
//! HINT: Does a shortcut connection begin before or after the normalization? And what is the input
//!   of the second half?
//! HINT: x = x + attention(norms[0](x)), and then x = x + network(norms[1](x)).
//! HINT: Call a part as `norms[0](&x)`. The expression `x + &y` adds two arrays.

use practice::ndarray::Array2;

/// A part of a block, which maps an array with the shape (tokens, features) to an array of the same
/// shape.
type Part<'a> = &'a dyn Fn(&Array2<f32>) -> Array2<f32>;

/// Returns the output of the block. Like `x`, it has the shape (tokens, features).
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

// CHECKS

use crate::Report;
use crate::check::{Check, Mistake, random};
use crate::reference::wide;

type Block = fn(&Array2<f32>, [Part<'_>; 2], Part<'_>, Part<'_>) -> Array2<f32>;

pub(crate) const MISTAKES: &[Mistake<Block>] = &[
    (
        "the output of each half is normalized; normalize the inputs of the parts instead",
        |x, norms, attention, network| {
            let x = norms[0](&(x + &attention(x)));
            norms[1](&(&x + &network(&x)))
        },
    ),
    (
        "the first shortcut connection is missing; add x to the output of attention",
        |x, norms, attention, network| {
            let x = attention(&norms[0](x));
            &x + &network(&norms[1](&x))
        },
    ),
    (
        "the second shortcut connection is missing; add x to the output of the network",
        |x, norms, attention, network| network(&norms[1](&(x + &attention(&norms[0](x))))),
    ),
    (
        "both shortcut connections are missing; add x to the output of each part",
        |x, norms, attention, network| network(&norms[1](&attention(&norms[0](x)))),
    ),
    (
        "the second shortcut adds the block's input; add the input of the second half",
        |x, norms, attention, network| x + &network(&norms[1](&(x + &attention(&norms[0](x))))),
    ),
    (
        "both shortcuts add the normalized x; add x as it was before the normalization",
        |x, norms, attention, network| {
            let normed = norms[0](x);
            let x = &normed + &attention(&normed);
            let normed = norms[1](&x);
            &normed + &network(&normed)
        },
    ),
    (
        "the first shortcut adds the normalized x; add x as it was before the normalization",
        |x, norms, attention, network| {
            let normed = norms[0](x);
            let x = &normed + &attention(&normed);
            &x + &network(&norms[1](&x))
        },
    ),
    (
        "the second shortcut adds the normalized x; add x as it was before the normalization",
        |x, norms, attention, network| {
            let normed = norms[1](&(x + &attention(&norms[0](x))));
            &normed + &network(&normed)
        },
    ),
    (
        "the input of attention isn't normalized; apply norms[0] to it",
        |x, norms, attention, network| {
            let x = x + &attention(x);
            &x + &network(&norms[1](&x))
        },
    ),
    (
        "the input of the network isn't normalized; apply norms[1] to it",
        |x, norms, attention, network| {
            let x = x + &attention(&norms[0](x));
            &x + &network(&x)
        },
    ),
    (
        "both halves get the same input; pass the output of the first half to the second",
        |x, norms, attention, network| x + &attention(&norms[0](x)) + &network(&norms[1](x)),
    ),
];

/// Checks the learner's `block`.
pub fn check(block: Block) -> Report {
    let mut check = Check::new(block, MISTAKES);
    let x = random(2, 3, 7);
    let norm1 = |x: &Array2<f32>| x + 1.0;
    let norm2 = |x: &Array2<f32>| x - 0.5;
    let attention = |x: &Array2<f32>| x * 3.0;
    let network = |x: &Array2<f32>| x.mapv(|x| x * x);
    let expected = wide(&x).mapv(|x| {
        let after = x + 3.0 * (x + 1.0);
        after + (after - 0.5).powi(2)
    });
    check.equals("simple functions as parts", expected, |block| {
        block(&x, [&norm1, &norm2], &attention, &network)
    });
    let zero = |x: &Array2<f32>| Array2::zeros(x.dim());
    check.equals("parts that return zeros", x.clone(), |block| {
        block(&x, [&norm1, &norm2], &zero, &zero)
    });
    check.report()
}
