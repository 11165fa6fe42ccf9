//! The functions that create charts, heat maps and other pictures, and the types of their
//! arguments. If the feature `draw` is disabled, the functions return pictures that contain only a
//! title.

use ndarray::ArrayRef2;

use crate::Picture;

/// Colors of lines and bars, in the order in which they are used. People with color blindness can
/// also tell these colors apart.
pub(crate) const COLORS: [&str; 5] = ["#2563a8", "#d1571b", "#3a8f5c", "#8c5aa8", "#7a7a7a"];

/// Creates a picture with the given title. Its scene is returned by the function `scene` of the
/// given module, such as `heat_map`. If the feature `draw` is disabled, the picture has no scene.
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

/// The title and labels of a heat map.
#[derive(Clone, Copy, Debug)]
pub struct HeatMap<'a> {
    /// Title, which is drawn above the grid.
    pub title: &'a str,
    /// Labels of the rows, from top to bottom.
    pub rows: &'a [&'a str],
    /// Name of the vertical axis, such as `query`.
    pub row_axis: &'a str,
    /// Labels of the columns, from left to right.
    pub columns: &'a [&'a str],
    /// Name of the horizontal axis, such as `key`.
    pub column_axis: &'a str,
    /// Description of the values and their unit, such as `attention weight (rows sum to 1)`.
    pub unit: &'a str,
}

/// Draws a matrix of shape (rows, columns) as a grid of colored cells. The color scale starts with
/// white at the smallest value, or at 0 if no value is negative, and ends with blue at the largest
/// value. Cells whose value is infinite or NaN are gray.
///
/// If the matrix has at most 16 rows and columns, each cell also shows its value as a number.
///
/// # Panics
///
/// Panics if the number of row labels differs from the number of rows, or if the number of column
/// labels differs from the number of columns.
pub fn heat_map(values: &ArrayRef2<f32>, labels: HeatMap) -> Picture {
    let (rows, columns) = values.dim();
    assert!(
        labels.rows.len() == rows && labels.columns.len() == columns,
        "heat_map: the matrix has {rows} rows and {columns} columns, but there are {} row labels and {} column labels",
        labels.rows.len(),
        labels.columns.len()
    );
    picture!(labels.title, heat_map(values, labels))
}

/// The content of a line chart.
#[derive(Clone, Debug, Default)]
pub struct Chart<'a> {
    /// Title, which is drawn above the chart.
    pub title: &'a str,
    /// Name of the horizontal axis, including its unit.
    pub x: &'a str,
    /// Name of the vertical axis, including its unit.
    pub y: &'a str,
    /// Lines of the chart. The legend shows the name of each line that has at least one point.
    pub lines: Vec<Line>,
    /// Whether the vertical axis of the chart is logarithmic. If it is, the y coordinates of all
    /// points must be positive.
    pub log_y: bool,
}

/// A line of a chart.
#[derive(Clone, Debug, Default)]
pub struct Line {
    /// Name of the line in the legend.
    pub name: String,
    /// Points (x, y) of the line, from left to right.
    pub points: Vec<(f64, f64)>,
    /// Whether the line is thin and gray. This style is suitable for noisy data whose trend is
    /// shown by another line.
    pub faint: bool,
    /// Whether the line is dashed.
    pub dashed: bool,
}

/// Draws a line chart. The function `x_tick` formats the numbers that label the horizontal axis.
/// Pass [`PLAIN`] to use the default format.
///
/// Lines without points are omitted.
pub fn chart(
    chart: &Chart,
    x_tick: Option<impl Fn(f64) -> String + Send + Sync + 'static>,
) -> Picture {
    picture!(chart.title, chart(chart, x_tick))
}

/// A value for the argument `x_tick` of [`chart`] that selects the default format for the numbers
/// on the horizontal axis.
pub const PLAIN: Option<fn(f64) -> String> = None;

/// The content of a bar chart.
#[derive(Clone, Debug)]
pub struct Bars<'a> {
    /// Title, which is drawn above the chart.
    pub title: &'a str,
    /// Name of the horizontal axis.
    pub x: &'a str,
    /// Name of the vertical axis, including its unit.
    pub y: &'a str,
    /// Labels on the horizontal axis. Above each label, the chart shows one bar for each group.
    pub labels: &'a [&'a str],
    /// Groups of bars that are compared with each other, such as one group for each temperature.
    /// Each group consists of its name, which appears in the legend, and one value for each label.
    pub groups: &'a [(&'a str, Vec<f64>)],
}

/// Draws a bar chart. Without labels or groups, only the title and the axes are drawn.
///
/// # Panics
///
/// Panics if the number of values in a group differs from the number of labels, or if there are
/// more than five groups.
pub fn bars(bars: &Bars) -> Picture {
    let counts: Vec<usize> = bars.groups.iter().map(|(_, values)| values.len()).collect();
    let labels = bars.labels.len();
    assert!(
        counts.len() <= COLORS.len() && counts.iter().all(|&count| count == labels),
        "bars: {} groups (at most {} are possible) have {counts:?} values, but there are {labels} labels",
        counts.len(),
        COLORS.len()
    );
    picture!(bars.title, bars(bars))
}

/// Draws how a data loader divides a text into windows. The first row of the picture shows all
/// tokens of the text. Below this row, each window has a row of inputs (blue) and a row of targets
/// (orange), which are aligned with the tokens in the first row.
///
/// `starts` contains the index of each window's first input. A window has `max_length` inputs and
/// as many targets. The target of each input is the token that follows the input.
///
/// # Panics
///
/// Panics if a window or its targets extend beyond the last token.
pub fn windows(title: &str, tokens: &[&str], starts: &[usize], max_length: usize) -> Picture {
    assert!(
        starts.iter().all(|start| start + max_length < tokens.len()),
        "windows: the windows of length {max_length} at {starts:?} and their targets don't fit in {} tokens",
        tokens.len()
    );
    picture!(title, windows(title, tokens, starts, max_length))
}
