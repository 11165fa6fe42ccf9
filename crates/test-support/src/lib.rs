#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod browser;
mod close;
mod difference;
mod gradient;
mod inputs;
mod strategies;

pub use close::{Tolerance, assert_close, assert_close_named, max_abs_diff};
pub use difference::{Derivative, central_difference};
pub use gradient::{
    DEFAULT_TOLERANCE, GradientCheck, GradientReport, Worst, check_gradient, check_gradient_array,
};
pub use inputs::{INPUT_SCALES, Lcg, away_from_zero, project, projection_weights, test_array};
pub use strategies::{array_of_shape, array1, array2, array3, array4, proptest_config, token_ids};
