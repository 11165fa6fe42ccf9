//! 4.3 GELU
//!
//! The activation of GPT-2, in the approximation that the book uses: GELU(x) = 0.5 x (1 +
//! tanh(sqrt(2 / pi) (x + 0.044715 x^3))).
//!
//! HINT: `x.powi(3)` is x cubed; pi is `std::f32::consts::PI`.

/// GELU of one number
pub fn gelu(x: f32) -> f32 {
    // SOLUTION
    let inner = (2.0 / std::f32::consts::PI).sqrt() * (x + 0.044715 * x.powi(3));
    0.5 * x * (1.0 + inner.tanh())
    // END
}

fn main() {
    practice::gelu(gelu).print();
    // Your experiments go here.
}
