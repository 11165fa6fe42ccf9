//! The contents of each kind of picture; without the feature `draw` a picture is only its title.

use ndarray::ArrayRef2;

use crate::Picture;

/// The colours of lines and bars, in order, distinguishable also for colour-blind readers.
pub(crate) const COLOURS: [&str; 5] = ["#2563a8", "#d1571b", "#3a8f5c", "#8c5aa8", "#7a7a7a"];

/// A picture with the scene that a module draws, if drawing is compiled in.
macro_rules! picture {
    ($title:expr, $module:ident($($argument:expr),*)) => {{
        #[cfg(feature = "draw")]
        let picture = Picture::new($title, crate::$module::scene($($argument),*));
        #[cfg(not(feature = "draw"))]
        let picture = {
            let _ = ($(&$argument),*);
            Picture::new($title)
        };
        picture
    }};
}

/// The texts of a heat map.
#[derive(Clone, Copy, Debug)]
pub struct HeatMap<'a> {
    /// Above it.
    pub title: &'a str,
    /// Of each row, from the top.
    pub rows: &'a [&'a str],
    /// The name of the rows: `query`.
    pub row_axis: &'a str,
    /// Of each column.
    pub columns: &'a [&'a str],
    /// The name of the columns: `key`.
    pub column_axis: &'a str,
    /// The name of a value, with its unit: `attention weight (rows sum to 1)`.
    pub unit: &'a str,
}

/// Draws values (rows, columns): white is 0 or the smallest, blue the largest; values that aren't
/// finite are grey.
///
/// # Panics
/// If there is not one label for each row and column.
pub fn heat_map(values: &ArrayRef2<f32>, labels: HeatMap) -> Picture {
    let (rows, columns) = values.dim();
    assert!(
        labels.rows.len() == rows && labels.columns.len() == columns,
        "heat_map: {rows} rows and {columns} columns, but {} and {} labels",
        labels.rows.len(),
        labels.columns.len()
    );
    picture!(labels.title, heat_map(values, labels))
}

/// The contents of a chart.
#[derive(Clone, Debug, Default)]
pub struct Chart<'a> {
    /// Above it.
    pub title: &'a str,
    /// The horizontal axis, with its unit.
    pub x: &'a str,
    /// The vertical axis, with its unit.
    pub y: &'a str,
    /// Each with a place in the legend.
    pub lines: Vec<Line>,
    /// Whether a step upwards is a factor of ten; every y is positive then.
    pub log_y: bool,
}

/// A line of a chart.
#[derive(Clone, Debug, Default)]
pub struct Line {
    /// In the legend.
    pub name: String,
    /// (x, y), from left to right.
    pub points: Vec<(f64, f64)>,
    /// Thin and grey: the data that the other lines summarise.
    pub faint: bool,
    /// Broken into dashes.
    pub dashed: bool,
}

/// Draws a chart; `x_tick` writes a number below the axis, if it is more than the number.
///
/// Lines without points are left out.
pub fn chart(
    chart: &Chart,
    x_tick: Option<impl Fn(f64) -> String + Send + Sync + 'static>,
) -> Picture {
    picture!(chart.title, chart(chart, x_tick))
}

/// As a chart's `x_tick`: the numbers as they are.
pub const PLAIN: Option<fn(f64) -> String> = None;

/// The contents of a bar chart.
#[derive(Clone, Debug)]
pub struct Bars<'a> {
    /// Above it.
    pub title: &'a str,
    /// The name of the labels.
    pub x: &'a str,
    /// The vertical axis, with its unit.
    pub y: &'a str,
    /// Below each group of bars.
    pub labels: &'a [&'a str],
    /// A name for the legend, and a value a label.
    pub groups: &'a [(&'a str, Vec<f64>)],
}

/// Draws at most five bars a label; without labels or groups there is only the frame.
///
/// # Panics
/// If a group has not one value a label, or there are more than five groups.
pub fn bars(bars: &Bars) -> Picture {
    let counts: Vec<usize> = bars.groups.iter().map(|(_, values)| values.len()).collect();
    let labels = bars.labels.len();
    assert!(
        counts.len() <= COLOURS.len() && counts.iter().all(|&count| count == labels),
        "bars: {} groups (at most {}) of {counts:?} values for {labels} labels",
        counts.len(),
        COLOURS.len()
    );
    picture!(bars.title, bars(bars))
}

/// Draws the tokens, and below them each window's inputs (blue) and targets (orange) under the
/// tokens they are.
///
/// A window is the place of its first input; inputs are `max_length` tokens, targets the same one
/// further.
///
/// # Panics
/// If a window does not lie within the tokens.
pub fn windows(title: &str, tokens: &[&str], starts: &[usize], max_length: usize) -> Picture {
    assert!(
        starts.iter().all(|start| start + max_length < tokens.len()),
        "windows: {starts:?} of {max_length} and their targets do not lie within {} tokens",
        tokens.len()
    );
    picture!(title, windows(title, tokens, starts, max_length))
}
