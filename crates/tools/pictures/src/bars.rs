//! Draws bar charts. The notebooks use them to compare the probabilities of tokens at several
//! temperatures, and before and after top-k filtering (section 5.3 of the book).

use kuva::prelude::{BarPlot, Layout, LegendPosition, Plot};
use kuva::render::render::{Scene, render_multiple};

use crate::Bars;
use crate::described::COLORS;

/// Returns the scene of a bar chart, which contains the shapes and texts to be drawn. Above each
/// label on the horizontal axis, there is one bar per group, and these bars are drawn side by side.
pub(crate) fn scene(bars: &Bars) -> Scene {
    let mut plot = BarPlot::new();
    for (index, label) in bars.labels.iter().enumerate() {
        let values = bars.groups.iter().zip(COLORS);
        plot = plot.with_group(
            *label,
            values.map(|((_, values), color)| (values[index], color)),
        );
    }
    let names: Vec<&str> = bars.groups.iter().map(|(name, _)| *name).collect();
    // kuva panics if a plot has a legend but no bars.
    if !bars.labels.is_empty() && !names.is_empty() {
        plot = plot.with_legend(names);
    }
    let plots: Vec<Plot> = vec![plot.into()];
    let layout = Layout::auto_from_plots(&plots)
        .with_width(800.0)
        .with_height(450.0)
        .with_title(bars.title)
        .with_x_label(bars.x)
        .with_y_label(bars.y)
        .with_legend_position(LegendPosition::OutsideRightTop)
        .with_legend_box(false);
    render_multiple(plots, layout)
}

#[cfg(test)]
mod tests {
    use crate::{Picture, bars};

    use super::*;

    fn picture(values: Vec<f64>) -> Picture {
        bars(&Bars {
            title: "Temperature",
            x: "token",
            y: "probability",
            labels: &["closer", "every"],
            groups: &[
                ("temperature 1", vec![0.06, 0.01]),
                ("temperature 5", values),
            ],
        })
    }

    #[test]
    fn a_taller_bar_is_a_larger_value() {
        let svg = picture(vec![0.16, 0.08]).svg();
        let heights: Vec<f64> = svg
            .split("<rect")
            .filter(|rect| rect.contains(COLORS[0]) || rect.contains(COLORS[1]))
            .filter_map(|rect| {
                rect.split(" height=\"")
                    .nth(1)?
                    .split('"')
                    .next()?
                    .parse()
                    .ok()
            })
            .collect();
        // The chart contains two groups of values for the labels "closer" and "every". The first
        // two rectangles are the bars of "closer", and the next two are the bars of "every". The
        // legend contains further rectangles, one for each group.
        assert!(
            heights[1] > heights[0] && heights[0] > heights[2],
            "{heights:?}"
        );
        assert!(svg.contains("temperature 5") && svg.contains("probability"));
    }

    #[test]
    fn without_labels_or_groups_only_the_axes_are_drawn() {
        let group = ("temperature 1", vec![]);
        for (labels, groups) in [
            (&[][..], &[][..]),
            (&[], std::slice::from_ref(&group)),
            (&["closer"], &[]),
        ] {
            let picture = bars(&Bars {
                title: "Temperature",
                x: "token",
                y: "probability",
                labels,
                groups,
            });
            assert!(picture.svg().contains("Temperature"));
        }
    }

    #[test]
    #[should_panic(expected = "but there are 2 labels")]
    fn each_group_has_one_value_per_label() {
        let _ = picture(vec![0.16]);
    }
}
