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

// The crate whose types appear in this crate's public API: dependents need no matching versions.
pub use ndarray;

pub use described::{Bars, Chart, HeatMap, Line, PLAIN, bars, chart, heat_map, windows};
pub use picture::Picture;
pub use product::product;
