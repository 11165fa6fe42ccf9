//! Draws a text as a row of tokens, and below it the overlapping windows of tokens that a data
//! loader takes from the text as inputs and targets (section 2.6 of the book).

use kuva::render::color::Color;
use kuva::render::render::{Scene, TextAnchor};

use crate::scene::{FONT_SIZE, caption, heading, rect, width};

const ROW_HEIGHT: f64 = 34.0;

/// Returns the scene of the picture, which contains the shapes and texts to be drawn. The first row
/// contains all tokens of the text. Below it, there are two rows for each window: one for its
/// inputs and one for its targets.
pub(crate) fn scene(title: &str, tokens: &[&str], starts: &[usize], max_length: usize) -> Scene {
    let sizes = tokens.iter().map(|token| width(token, FONT_SIZE) + 14.0);
    let mut edges = vec![110.0];
    for size in sizes {
        edges.push(edges[edges.len() - 1] + size);
    }
    let right = edges[edges.len() - 1];
    let height = 44.0 + ROW_HEIGHT + starts.len() as f64 * (2.0 * ROW_HEIGHT + 12.0) + 10.0;
    let mut scene = Scene::new((right + 10.0).max(width(title, 15) + 20.0), height);
    heading(&mut scene, title);
    let mut y = 44.0;
    let row = |scene: &mut Scene, y: f64, name: &str, from: usize, to: usize, fill: Color| {
        caption(scene, (10.0, y + 20.0), name, TextAnchor::Start);
        for place in from..to {
            let size = edges[place + 1] - edges[place];
            rect(
                scene,
                (edges[place], y),
                (size, ROW_HEIGHT - 4.0),
                fill.clone(),
                None,
            );
            let middle = (edges[place] + size / 2.0, y + 20.0);
            caption(scene, middle, tokens[place], TextAnchor::Middle);
        }
    };
    row(
        &mut scene,
        y,
        "tokens",
        0,
        tokens.len(),
        Color::Rgb(0xf3, 0xf3, 0xf3),
    );
    y += ROW_HEIGHT + 8.0;
    for (window, &start) in starts.iter().enumerate() {
        let end = start + max_length;
        let name = format!("{}. inputs", window + 1);
        row(
            &mut scene,
            y,
            &name,
            start,
            end,
            Color::Rgb(0xcf, 0xe1, 0xf5),
        );
        row(
            &mut scene,
            y + ROW_HEIGHT,
            "    targets",
            start + 1,
            end + 1,
            Color::Rgb(0xfb, 0xdd, 0xc8),
        );
        y += 2.0 * ROW_HEIGHT + 12.0;
    }
    scene
}

#[cfg(test)]
mod tests {
    use crate::windows;

    #[test]
    fn targets_are_the_inputs_shifted_by_one() {
        let tokens = ["I", " HAD", " always", " thought", " Jack"];
        let svg = windows("Windows of 3", &tokens, &[0, 1], 3).svg();
        let texts = |token: &str| svg.matches(&format!(">{token}</text>")).count();
        // Counts how often the text of each token appears in the picture: once in the row of all
        // tokens, once for each window in which the token is an input, and once for each window in
        // which it is a target.
        assert_eq!([texts("I"), texts(" HAD"), texts(" Jack")], [2, 4, 2]);
    }

    #[test]
    #[should_panic(expected = "don't fit in 3 tokens")]
    fn a_window_needs_a_target_for_its_last_input() {
        let _ = windows("", &["a", "b", "c"], &[0], 3);
    }
}
