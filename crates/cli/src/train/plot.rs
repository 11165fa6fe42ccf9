//! The loss curve of a run as `loss.svg` and `loss.png`, made of its log.
//!
//! The loss of each step (with dropout) is a thin line, the evaluations' are thick ones with a value at their end.

use std::io::Write;
use std::path::Path;

use anyhow::{Result, anyhow};
use checkpoint::write_atomically;
use kuva::prelude::{Layout, LegendPosition, LinePlot, Plot};
use kuva::{render_to_png, render_to_svg};

use super::log::{self, Line};

/// The curve's names in a run's folder.
pub(crate) const SVG: &str = "loss.svg";
pub(crate) const PNG: &str = "loss.png";

/// A curve: (step counted from 1, loss).
type Points = Vec<(f64, f64)>;

/// Draws the curve of the run in `folder`; a run that has logged nothing has none.
pub(crate) fn draw(folder: &Path) -> Result<()> {
    let (mut steps, mut train, mut validation): (Points, Points, Points) = Default::default();
    for line in log::read(folder)? {
        match line {
            Line::Step { step, loss, .. } => {
                steps.extend(loss.map(|loss| ((step + 1) as f64, f64::from(loss))));
            }
            Line::Eval {
                step,
                train_loss,
                val_loss,
                ..
            } => {
                let x = (step + 1) as f64;
                train.extend(train_loss.map(|loss| (x, loss)));
                validation.extend(val_loss.map(|loss| (x, loss)));
            }
            _ => {}
        }
    }
    if steps.is_empty() {
        return Ok(());
    }
    let curves = [
        ("training", "#2563a8", train),
        ("validation", "#d1571b", validation),
    ];
    let steps = thinned(steps);
    let (plots, layout) = figure(&steps, &curves);
    let svg = render_to_svg(plots, layout);
    let (plots, layout) = figure(&steps, &curves);
    let png = render_to_png(plots, layout, 2.0).map_err(|error| anyhow!("{PNG}: {error}"))?;
    write_atomically(folder.join(SVG), |file| file.write_all(svg.as_bytes()))?;
    write_atomically(folder.join(PNG), |file| file.write_all(&png))?;
    Ok(())
}

/// The plot of the steps' losses and of named, coloured curves.
fn figure(steps: &Points, curves: &[(&str, &str, Points)]) -> (Vec<Plot>, Layout) {
    let mut plots: Vec<Plot> = vec![
        LinePlot::new()
            .with_data(steps.clone())
            .with_color("#c3c9d4")
            .with_stroke_width(1.0)
            .with_legend("each step")
            .into(),
    ];
    for (name, colour, points) in curves {
        if let Some((_, last)) = points.last() {
            let line = LinePlot::new()
                .with_data(points.clone())
                .with_color(*colour);
            let label = format!("{name} ({last:.3})");
            plots.push(line.with_stroke_width(2.5).with_legend(label).into());
        }
    }
    let layout = Layout::auto_from_plots(&plots)
        .with_width(800.0)
        .with_height(450.0)
        .with_title("Loss")
        .with_x_label("step")
        .with_y_label("cross-entropy of a token")
        .with_legend_position(LegendPosition::InsideTopRight);
    (plots, layout)
}

/// At most some thousand points: means of equal stretches.
fn thinned(points: Points) -> Points {
    const MOST: usize = 1500;
    let stretch = points.len().div_ceil(MOST);
    let mean = |chunk: &[(f64, f64)]| {
        let n = chunk.len() as f64;
        let (x, y) = chunk
            .iter()
            .fold((0.0, 0.0), |(x, y), point| (x + point.0, y + point.1));
        (x / n, y / n)
    };
    points.chunks(stretch).map(mean).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_curves_are_thinned_to_means() {
        let points: Points = (0..3001).map(|i| (f64::from(i), 1.0)).collect();
        let thin = thinned(points);
        assert_eq!(thin.len(), 1001);
        assert_eq!(thin[1], (4.0, 1.0));
    }
}
