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

// The arguments of public functions include arrays from ndarray. A program that uses this re-export
// always gets the version of ndarray that this crate was built with.
pub use ndarray;

pub use described::{Bars, Chart, HeatMap, Line, PLAIN, bars, chart, heat_map, windows};
pub use picture::Picture;
pub use product::product;
