//! A grid of values with a token on each row and column: attention weights, masks (book sections
//! 3.3 to 3.6).
//!
//! Rows run from top to bottom as in the printed matrix; kuva's own heat map runs upwards and
//! writes black on dark cells.

use kuva::render::color::Color;
use kuva::render::render::{Primitive, Scene, TextAnchor};
use ndarray::ArrayRef2;

use crate::HeatMap;
use crate::scene::{FONT, INK, caption, heading, rect, text, width};

const CELL: f64 = 46.0;
/// Cells of larger grids are smaller, and bare.
const SMALL_CELL: f64 = 14.0;
const MAX_LABELLED: usize = 16;

/// The grid, its labels and its scale.
pub(crate) fn scene(values: &ArrayRef2<f32>, labels: HeatMap) -> Scene {
    let (rows, columns) = values.dim();
    let cell = if rows.max(columns) <= MAX_LABELLED {
        CELL
    } else {
        SMALL_CELL
    };
    let longest = |labels: &[&str]| {
        labels
            .iter()
            .map(|label| width(label, FONT))
            .fold(0.0, f64::max)
    };
    let slanted = longest(labels.columns) > cell;
    let left = 34.0 + longest(labels.rows);
    let above = if slanted {
        64.0 + 0.75 * longest(labels.columns)
    } else {
        78.0
    };
    let aside = if slanted {
        0.75 * longest(labels.columns)
    } else {
        14.0
    };
    let grid = (columns as f64 * cell, rows as f64 * cell);
    let total = (left + grid.0 + aside).max(width(labels.title, 15) + 20.0);
    let total = total.max(left + width(labels.unit, FONT) + 170.0);
    let mut scene = Scene::new(total, above + grid.1 + 58.0);

    heading(&mut scene, labels.title);
    let middle = (left + grid.0 / 2.0, above + grid.1 / 2.0);
    caption(
        &mut scene,
        (middle.0, 46.0),
        labels.column_axis,
        TextAnchor::Middle,
    );
    text(
        &mut scene,
        (16.0, middle.1),
        labels.row_axis,
        FONT,
        TextAnchor::Middle,
        Some(-90.0),
        INK,
    );
    for (column, label) in labels.columns.iter().enumerate() {
        let x = left + (column as f64 + 0.5) * cell;
        let (anchor, rotate) = if slanted {
            (TextAnchor::Start, Some(-45.0))
        } else {
            (TextAnchor::Middle, None)
        };
        text(
            &mut scene,
            (x, above - 8.0),
            label,
            FONT,
            anchor,
            rotate,
            INK,
        );
    }
    for (row, label) in labels.rows.iter().enumerate() {
        let y = above + (row as f64 + 0.5) * cell + 4.0;
        caption(&mut scene, (left - 7.0, y), label, TextAnchor::End);
    }

    let finite = || values.iter().copied().filter(|value| value.is_finite());
    let least = finite().fold(0.0, f32::min);
    let largest = finite().fold(least, f32::max);
    let share = |value: f32| {
        if largest > least {
            (value - least) / (largest - least)
        } else {
            0.0
        }
    };
    for ((row, column), &value) in values.indexed_iter() {
        let corner = (left + column as f64 * cell, above + row as f64 * cell);
        let about = format!(
            "{} → {}: {value:.4}",
            labels.rows[row], labels.columns[column]
        );
        let (fill, ink) = if value.is_finite() {
            let share = share(value);
            (
                shade(share),
                if share > 0.55 {
                    Color::Rgb(255, 255, 255)
                } else {
                    INK
                },
            )
        } else {
            (Color::Rgb(0xe4, 0xe4, 0xe4), INK)
        };
        rect(&mut scene, corner, (cell, cell), fill, Some(about));
        if cell == CELL {
            let place = (corner.0 + cell / 2.0, corner.1 + cell / 2.0 + 4.0);
            text(
                &mut scene,
                place,
                &figure(value),
                12,
                TextAnchor::Middle,
                None,
                ink,
            );
        }
    }
    scale(
        &mut scene,
        (left, above + grid.1 + 16.0),
        (least, largest),
        labels.unit,
    );
    scene
}

/// At most five characters.
fn figure(value: f32) -> String {
    if !value.is_finite() {
        value.to_string().replace("inf", "∞")
    } else if value.fract() == 0.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.2}")
    }
}

/// From white to blue; `share` is within [0, 1].
fn shade(share: f32) -> Color {
    let between = |from: f32, to: f32| (from + (to - from) * share).round() as u8;
    Color::Rgb(
        between(255.0, 8.0),
        between(255.0, 64.0),
        between(255.0, 129.0),
    )
}

/// The meaning of the colours.
fn scale(scene: &mut Scene, (x, y): (f64, f64), (least, largest): (f32, f32), unit: &str) {
    const STEPS: usize = 24;
    let end = |value: f32| {
        if value.fract() == 0.0 {
            format!("{value:.0}")
        } else {
            format!("{value:.4}")
        }
    };
    let from = x + width(&end(least), FONT) + 6.0;
    caption(scene, (x, y + 10.0), &end(least), TextAnchor::Start);
    for step in 0..STEPS {
        scene.add(Primitive::Rect {
            x: from + 4.0 * step as f64,
            y,
            width: 4.5,
            height: 12.0,
            fill: shade(step as f32 / (STEPS - 1) as f32),
            stroke: None,
            stroke_width: None,
            opacity: None,
        });
    }
    let to = from + 4.0 * STEPS as f64 + 6.0;
    caption(scene, (to, y + 10.0), &end(largest), TextAnchor::Start);
    caption(scene, (x, y + 30.0), unit, TextAnchor::Start);
}

#[cfg(test)]
mod tests {
    use ndarray::{Array2, array};

    use crate::{HeatMap, heat_map};

    const LABELS: HeatMap = HeatMap {
        title: "Weights of <one> head",
        rows: &["Your", "journey"],
        row_axis: "query",
        columns: &["Your", "journey"],
        column_axis: "key",
        unit: "attention weight",
    };

    #[test]
    fn the_first_row_is_on_top_and_figures_are_readable_on_dark_cells() {
        let picture = heat_map(&array![[1.0, 0.0], [0.25, f32::NEG_INFINITY]], LABELS);
        let svg = picture.svg();
        let y_of = |about: &str| -> f64 {
            let rest = &svg[svg.find(about).expect(about)..];
            let y = rest.split(" y=\"").nth(1).unwrap();
            y[..y.find('"').unwrap()].parse().unwrap()
        };
        assert!(y_of("Your → journey: 0.0000") < y_of("journey → Your: 0.2500"));
        assert!(svg.contains("Weights of &lt;one&gt; head") && svg.contains("query"));
        let figure = |text: &str| {
            let end = svg.find(&format!(">{text}</text>")).expect(text);
            svg[..end].rsplit('<').next().unwrap().to_owned()
        };
        assert!(figure("1").contains("#ffffff"), "{}", figure("1"));
        assert!(figure("-∞").contains("#222222"), "{}", figure("-∞"));
        assert!(figure("0.25").contains("#222222"));
    }

    #[test]
    fn control_characters_in_labels_are_symbols_as_xml_has_no_place_for_them() {
        let labels = HeatMap {
            title: "\0title",
            rows: &["\u{1}x", "\u{ffff}"],
            ..LABELS
        };
        let picture = heat_map(&Array2::zeros((2, 2)), labels);
        let svg = picture.svg();
        assert!(svg.contains("␁x") && svg.contains("␁x → Your") && svg.contains("␀title"));
        let forbidden = |c: char| (c < ' ' && !"\t\n\r".contains(c)) || c > '\u{fffd}';
        assert!(!svg.contains(forbidden) && !picture.title().contains(forbidden));
    }

    #[test]
    #[should_panic(expected = "3 rows and 1 columns, but 2 and 2 labels")]
    fn labels_are_one_a_row() {
        let _ = heat_map(&array![[1.0], [0.0], [0.5]], LABELS);
    }
}
