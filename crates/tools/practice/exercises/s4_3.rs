//! 4.3 GELU
//!
//! Two linear layers in a row can be replaced with a single linear layer unless there is a
//! nonlinear function between them. GPT-2 uses GELU, a smooth variant of ReLU. For large positive
//! x, GELU is nearly x, and for large negative x, it is nearly 0. In between, its gradient is
//! nonzero almost everywhere, so a neuron can learn even if its input is negative.
//!
//! Write GELU for a single number, as in listing 4.3 of the book. Use the approximation with tanh,
//! with which GPT-2 was trained, and not the exact form with the error function.
//!
//! HINT: GELU multiplies x by a factor that rises smoothly from 0 to 1 as x grows. (1 + tanh(y)) /
//!   2 is such a factor.
//! HINT: GELU(x) = 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))
//! HINT: In Rust, you can use `x.tanh()`, `x.powi(3)`, `x.sqrt()` and `std::f32::consts::PI`.

/// Returns the GELU of a number.
pub fn gelu(x: f32) -> f32 {
    // SOLUTION
    let inner = (2.0 / std::f32::consts::PI).sqrt() * (x + 0.044715 * x.powi(3));
    0.5 * x * (1.0 + inner.tanh())
    // END
}

// CHECKS

use std::f32::consts::PI;

use ndarray::Array1;
use tensor_ops::gelu_exact;

use crate::Report;
use crate::check::{Check, Mistake};

type Gelu = fn(f32) -> f32;

pub(crate) const MISTAKES: &[Mistake<Gelu>] = &[
    (
        "this is the exact form with the error function; use the approximation with tanh",
        |x| gelu_exact(&Array1::from_elem(1, x))[0],
    ),
    ("this is ReLU; compute GELU", |x| x.max(0.0)),
    (
        "this is the approximation with a sigmoid; use the approximation with tanh",
        |x| x / (1.0 + (-1.702 * x).exp()),
    ),
    ("the cubic term is missing; add 0.044715 x^3 to x", |x| {
        0.5 * x * (1.0 + ((2.0 / PI).sqrt() * x).tanh())
    }),
    ("x is squared in the second term; cube it", |x| {
        0.5 * x * (1.0 + ((2.0 / PI).sqrt() * (x + 0.044715 * x * x)).tanh())
    }),
    ("the factor is 2 / pi; use its square root", |x| {
        0.5 * x * (1.0 + (2.0 / PI * (x + 0.044715 * x.powi(3))).tanh())
    }),
    (
        "the factor 0.5 is missing; multiply the result by it",
        |x| 2.0 * gelu(x),
    ),
    ("the factor x is missing; multiply the result by it", |x| {
        0.5 * (1.0 + ((2.0 / PI).sqrt() * (x + 0.044715 * x.powi(3))).tanh())
    }),
];

/// Checks the learner's `gelu`.
pub fn check(gelu: Gelu) -> Report {
    let mut check = Check::new(gelu, MISTAKES);
    let x = Array1::linspace(-3.0f32, 3.0, 13);
    // The check must distinguish the approximation of GELU from the exact form, although the two
    // differ by less than 0.0005. All results are therefore multiplied by 1000 before they are
    // compared.
    let expected = x.mapv(f64::from).mapv(|x| {
        let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3));
        1000.0 * 0.5 * x * (1.0 + inner.tanh())
    });
    check.equals("1000 times GELU of -3 to 3", expected, |gelu| {
        x.mapv(|x| 1000.0 * gelu(x))
    });
    check.equals("GELU of 0", 0.0f32, |gelu| gelu(0.0));
    check.equals("GELU of 20", 20.0f32, |gelu| gelu(20.0));
    check.equals("GELU of -20", 0.0f32, |gelu| gelu(-20.0));
    check.report()
}
