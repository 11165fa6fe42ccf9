//! Draws the loss curve of a training run from its log and saves it as `loss.svg`.
//!
//! A thin line shows the training loss of each step, which is computed with dropout. Two thick
//! lines show the training loss and the validation loss from the evaluations. The legend shows the
//! most recent value of each thick line.

use std::io::Write;
use std::path::Path;

use anyhow::Result;
use atomic_file::write_atomically;
use pictures::{Chart, Line as Curve, chart};

use super::log;
use crate::terminal::numbers::count;
use crate::train::runs::SVG;

/// The points of a curve. Each point consists of the number of training steps done so far and the
/// loss.
type Points = Vec<(f64, f64)>;

/// Draws the loss curve of the training run in `folder`. Does nothing if the log contains no
/// training steps or is too large to be read.
pub(crate) fn draw(folder: &Path) -> Result<()> {
    let (mut steps, mut train, mut validation): (Points, Points, Points) = Default::default();
    let mut tokens_per_step = 0;
    let Some(text) = log::read(folder)? else {
        return Ok(());
    };
    for line in log::lines(&text) {
        let x = line.steps_done() as f64;
        tokens_per_step = line.tokens_per_step.unwrap_or(tokens_per_step);
        steps.extend(line.loss.map(|loss| (x, loss)));
        train.extend(line.train_loss.map(|loss| (x, loss)));
        validation.extend(line.val_loss.map(|loss| (x, loss)));
    }
    if steps.is_empty() {
        return Ok(());
    }
    let evaluated = |name: &str, points: Points| Curve {
        name: match points.last() {
            Some((_, last)) => format!("{name} ({last:.3})"),
            None => name.to_owned(),
        },
        points,
        ..Curve::default()
    };
    let losses = Chart {
        title: "Loss",
        x: "step (tokens seen)",
        y: "cross-entropy per token",
        lines: vec![
            Curve {
                name: "each step".to_owned(),
                points: thinned(steps),
                faint: true,
                ..Curve::default()
            },
            evaluated("training", train),
            evaluated("validation", validation),
        ],
        log_y: false,
    };
    let x_tick = move |step| format!("{step} ({})", count(step * tokens_per_step as f64));
    let svg = chart(&losses, Some(x_tick)).svg();
    write_atomically(folder.join(SVG), |file| file.write_all(svg.as_bytes()))?;
    Ok(())
}

/// Reduces the number of points to at most 1500 by replacing each group of consecutive points with
/// their mean.
fn thinned(points: Points) -> Points {
    const MAX: usize = 1500;
    let stretch = points.len().div_ceil(MAX);
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
