//! 4.4 Shortcut connections
//!
//! Send x through the layers in order. Where a layer's output has as many numbers as its input, add
//! the input to it (a shortcut); where it has another number, don't. The result of one layer is the
//! input of the next.
//!
//! HINT: Keep the current vector in a `let mut x = x.clone()`.
//! HINT: `layer(&x)` calls the layer; compare `.len()`.

use practice::ndarray::Array1;

/// The vector behind the last layer.
pub fn forward(x: &Array1<f32>, layers: &[&dyn Fn(&Array1<f32>) -> Array1<f32>]) -> Array1<f32> {
    // SOLUTION
    let mut x = x.clone();
    for layer in layers {
        let output = layer(&x);
        x = match output.len() == x.len() {
            true => x + output,
            false => output,
        };
    }
    x
    // END
}

fn main() {
    practice::shortcut(forward).print();
    // Your experiments go here.
}
