//! Weight matrices with 32, 16, 8 or 4 bits per weight, and the attention of a single query. Both
//! are used for decoding, which means generating text token by token. The speed of decoding is
//! limited by reading the weights and the cached keys and values from memory.

mod activations;
mod attend_query;
mod float_matrix;
mod int4;
mod int8;
mod packed_matrix;
mod panels;

pub use attend_query::{PAGE, attend_query};
pub use float_matrix::{Bf16Matrix, F16Matrix, F32Matrix};
pub use int4::Int4Matrix;
pub use int8::Int8Matrix;
pub use packed_matrix::PackedMatrix;
