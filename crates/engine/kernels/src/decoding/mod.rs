//! Weights in fewer bits than f32, whose products decoding spends its time on, and the attention of
//! one query.

mod activations;
mod attend_query;
mod half_matrix;
mod int4;
mod int8;
mod packed_matrix;
mod panels;

pub use attend_query::{PAGE, attend_query};
pub use half_matrix::{Bf16Matrix, F16Matrix};
pub use int4::Int4Matrix;
pub use int8::Int8Matrix;
pub use packed_matrix::PackedMatrix;
