//! Lines over a number: activation functions, gradients by layer, losses over steps (book sections 4.3, 4.4 and 5.2).

use std::sync::Arc;

use kuva::prelude::{Layout, LegendPosition, LinePlot, Plot, TickFormat};
use kuva::render::render::render_multiple;

use crate::Picture;
use crate::picture::COLOURS;

/// What a chart shows.
#[derive(Clone, Debug, Default)]
pub struct Chart<'a> {
    /// Above it.
    pub title: &'a str,
    /// What runs to the right, with its unit.
    pub x: &'a str,
    /// What runs upwards, with its unit.
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
    /// Thin and grey: what the other lines summarise.
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
    let mut plots: Vec<Plot> = Vec::new();
    let mut colours = COLOURS.iter().cycle();
    for line in chart.lines.iter().filter(|line| !line.points.is_empty()) {
        let (colour, stroke) = if line.faint {
            ("#c3c9d4", 1.0)
        } else {
            (*colours.next().expect("a cycle has no end"), 2.5)
        };
        let plot = LinePlot::new()
            .with_data(line.points.iter().copied())
            .with_color(colour)
            .with_stroke_width(stroke)
            .with_legend(line.name.as_str());
        let plot = if line.dashed {
            plot.with_dashed()
        } else {
            plot
        };
        plots.push(plot.into());
    }
    let mut layout = Layout::auto_from_plots(&plots)
        .with_width(800.0)
        .with_height(450.0)
        .with_title(chart.title)
        .with_x_label(chart.x)
        .with_y_label(chart.y)
        .with_legend_position(LegendPosition::OutsideRightTop);
    if let Some(x_tick) = x_tick {
        layout = layout.with_x_tick_format(TickFormat::Custom(Arc::new(x_tick)));
    }
    if chart.log_y {
        layout = layout.with_log_y();
    }
    Picture::new(chart.title, render_multiple(plots, layout))
}

/// As a chart's `x_tick`: the numbers as they are.
pub const PLAIN: Option<fn(f64) -> String> = None;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_units_and_names_stand_in_the_picture() {
        let lines = vec![
            Line {
                name: "training".to_owned(),
                points: vec![(1.0, 10.9), (2.0, 9.8)],
                ..Line::default()
            },
            Line {
                name: "empty".to_owned(),
                ..Line::default()
            },
        ];
        let losses = Chart {
            title: "Loss",
            x: "step (tokens seen)",
            y: "cross-entropy (nats a token)",
            lines,
            log_y: false,
        };
        let picture = chart(
            &losses,
            Some(|step: f64| format!("{step} ({}K)", step * 512.0)),
        );
        let svg = picture.svg();
        for text in [
            "Loss",
            "step (tokens seen)",
            "cross-entropy (nats a token)",
            "training",
            "512K",
        ] {
            assert!(svg.contains(text), "{text}");
        }
        assert!(!svg.contains("empty"));
        assert!(picture.png().unwrap().starts_with(b"\x89PNG"));
    }
}
