//! Draws line charts, for example of activation functions, of the gradient in each layer, and of
//! the loss at each step (sections 4.3, 4.4 and 5.2 of the book).

use std::sync::Arc;

use kuva::prelude::{Layout, LegendPosition, LinePlot, Plot, TickFormat};
use kuva::render::render::{Scene, render_multiple};

use crate::Chart;
use crate::described::COLORS;

/// Returns the scene of a line chart, which contains the shapes and texts to be drawn: the axes,
/// the lines and the legend.
pub(crate) fn scene(
    chart: &Chart,
    x_tick: Option<impl Fn(f64) -> String + Send + Sync + 'static>,
) -> Scene {
    let mut plots: Vec<Plot> = Vec::new();
    let mut colors = COLORS.iter().cycle();
    for line in chart.lines.iter().filter(|line| !line.points.is_empty()) {
        let (color, stroke) = if line.faint {
            ("#c3c9d4", 1.0)
        } else {
            (*colors.next().expect("a cycle has no end"), 2.5)
        };
        let plot = LinePlot::new()
            .with_data(line.points.iter().copied())
            .with_color(color)
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
        .with_legend_position(LegendPosition::OutsideRightTop)
        .with_legend_box(false);
    if let Some(x_tick) = x_tick {
        layout = layout.with_x_tick_format(TickFormat::Custom(Arc::new(x_tick)));
    }
    if chart.log_y {
        layout = layout.with_log_y();
    }
    render_multiple(plots, layout)
}

#[cfg(test)]
mod tests {
    use crate::{Chart, Line, chart};

    #[test]
    fn the_picture_contains_titles_units_and_names() {
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
            y: "cross-entropy (nats per token)",
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
            "cross-entropy (nats per token)",
            "training",
            "512K",
        ] {
            assert!(svg.contains(text), "{text}");
        }
        assert!(!svg.contains("empty"));
    }
}
