#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

#[cfg(feature = "draw")]
mod bars;
#[cfg(feature = "draw")]
mod chart;
mod described;
#[cfg(feature = "draw")]
mod heat_map;
pub mod html;
mod picture;
mod product;
#[cfg(feature = "draw")]
mod scene;
#[cfg(feature = "draw")]
mod windows;

// Public functions take ndarray's arrays as arguments. Programs that use this re-export always have
// the version of ndarray that this crate expects.
pub use ndarray;

pub use described::{Bars, Chart, HeatMap, Line, PLAIN, bars, chart, heat_map, windows};
pub use picture::Picture;
pub use product::product;
