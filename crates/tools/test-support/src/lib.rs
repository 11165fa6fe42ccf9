#![doc = include_str!("../README.md")]
#![allow(clippy::disallowed_methods, reason = "tests write files as they like")]
#![forbid(unsafe_code)]

pub mod browser;
mod close;
mod difference;
mod gradient;
mod inputs;
mod strategies;

pub use close::{Tolerance, assert_close, assert_close_named};
pub use gradient::{GradientCheck, GradientReport, check_gradient};
pub use inputs::{INPUT_SCALES, away_from_zero, project, projection_weights, test_array};
pub use strategies::{any_text, array2, proptest_config};
