#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod bars;
mod chart;
mod heat_map;
pub mod html;
mod picture;
mod windows;

// The crate whose types stand in this crate's signatures, so that a dependent needs no versions of its own.
pub use ndarray;

pub use bars::{Bars, bars};
pub use chart::{Chart, Line, PLAIN, chart};
pub use heat_map::{HeatMap, heat_map};
pub use picture::{Picture, PictureError};
pub use windows::windows;
