//! Draws matrices as heat maps, in which a color represents the value of each element. The
//! notebooks use heat maps to show attention weights and masks (sections 3.3 to 3.6 of the book).
//!
//! This crate doesn't use kuva's heat map, which draws the first row of a matrix at the bottom
//! instead of at the top, and black numbers even on dark cells.

use kuva::render::color::Color;
use kuva::render::render::{Primitive, Scene, TextAnchor};
use ndarray::ArrayRef2;

use crate::HeatMap;
use crate::scene::{FONT_SIZE, TEXT_COLOR, caption, heading, rect, text, width};

const CELL_SIZE: f64 = 46.0;
/// Width and height of a cell, in pixels, in a heat map with more than `MAX_LARGE_CELLS` rows or
/// columns. Such cells are too small to show their values as numbers.
const SMALL_CELL_SIZE: f64 = 14.0;
const MAX_LARGE_CELLS: usize = 16;

/// Returns the scene of a heat map, which contains the shapes and texts to be drawn: the cells, the
/// labels and the color scale.
pub(crate) fn scene(values: &ArrayRef2<f32>, labels: HeatMap) -> Scene {
    let (rows, columns) = values.dim();
    let cell = if rows.max(columns) <= MAX_LARGE_CELLS {
        CELL_SIZE
    } else {
        SMALL_CELL_SIZE
    };
    let longest = |labels: &[&str]| {
        labels
            .iter()
            .map(|label| width(label, FONT_SIZE))
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
    let total = total.max(left + width(labels.unit, FONT_SIZE) + 170.0);
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
        FONT_SIZE,
        TextAnchor::Middle,
        Some(-90.0),
        TEXT_COLOR,
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
            FONT_SIZE,
            anchor,
            rotate,
            TEXT_COLOR,
        );
    }
    for (row, label) in labels.rows.iter().enumerate() {
        let y = above + (row as f64 + 0.5) * cell + 4.0;
        caption(&mut scene, (left - 7.0, y), label, TextAnchor::End);
    }

    let finite = || values.iter().copied().filter(|value| value.is_finite());
    let least = finite().fold(0.0, f32::min);
    let largest = finite().fold(least, f32::max);
    let fraction = |value: f32| {
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
            let fraction = fraction(value);
            (
                cell_color(fraction),
                if fraction > 0.55 {
                    Color::Rgb(255, 255, 255)
                } else {
                    TEXT_COLOR
                },
            )
        } else {
            (Color::Rgb(0xe4, 0xe4, 0xe4), TEXT_COLOR)
        };
        rect(&mut scene, corner, (cell, cell), fill, Some(about));
        if cell == CELL_SIZE {
            let place = (corner.0 + cell / 2.0, corner.1 + cell / 2.0 + 4.0);
            text(
                &mut scene,
                place,
                &cell_text(value),
                12,
                TextAnchor::Middle,
                None,
                ink,
            );
        }
    }
    color_scale(
        &mut scene,
        (left, above + grid.1 + 16.0),
        (least, largest),
        labels.unit,
    );
    scene
}

/// Formats a value so that it fits in a cell. For numbers between -10 and 100, the result has at
/// most five characters.
fn cell_text(value: f32) -> String {
    if !value.is_finite() {
        value.to_string().replace("inf", "∞")
    } else if value.fract() == 0.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.2}")
    }
}

/// Returns the color of a cell, from white for a `fraction` of 0 to blue for a `fraction` of 1.
fn cell_color(fraction: f32) -> Color {
    let between = |from: f32, to: f32| (from + (to - from) * fraction).round() as u8;
    Color::Rgb(
        between(255.0, 8.0),
        between(255.0, 64.0),
        between(255.0, 129.0),
    )
}

/// Draws the color scale, with the values `least` and `largest` at its ends and the unit below it.
/// The coordinates (`x`, `y`) are those of the upper left corner.
fn color_scale(scene: &mut Scene, (x, y): (f64, f64), (least, largest): (f32, f32), unit: &str) {
    const STEPS: usize = 24;
    let end = |value: f32| {
        if value.fract() == 0.0 {
            format!("{value:.0}")
        } else {
            format!("{value:.4}")
        }
    };
    let from = x + width(&end(least), FONT_SIZE) + 6.0;
    caption(scene, (x, y + 10.0), &end(least), TextAnchor::Start);
    for step in 0..STEPS {
        scene.add(Primitive::Rect {
            x: from + 4.0 * step as f64,
            y,
            width: 4.5,
            height: 12.0,
            fill: cell_color(step as f32 / (STEPS - 1) as f32),
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
    fn the_first_row_is_at_the_top_and_numbers_are_readable_on_dark_cells() {
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
    fn control_characters_in_labels_become_symbols_because_xml_forbids_them() {
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
    #[should_panic(
        expected = "3 rows and 1 columns, but there are 2 row labels and 2 column labels"
    )]
    fn each_row_needs_a_label() {
        let _ = heat_map(&array![[1.0], [0.0], [0.5]], LABELS);
    }
}
