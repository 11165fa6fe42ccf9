//! Functions that add text and rectangles to a scene, and a method that converts the scene of a
//! picture to SVG.

use kuva::backend::svg::SvgBackend;
use kuva::render::color::Color;
use kuva::render::render::{Primitive, Scene, TextAnchor};

use crate::Picture;

impl Picture {
    /// Returns the picture as an `<svg>` element with a width and a height in pixels.
    pub fn svg(&self) -> String {
        SvgBackend::new().render_scene(&self.scene)
    }
}

/// Color of text on light backgrounds.
pub(crate) const TEXT_COLOR: Color = Color::Rgb(0x22, 0x22, 0x22);

/// Font size of labels and captions, in pixels.
pub(crate) const FONT_SIZE: u32 = 12;

/// Average width of a character, as a fraction of the font size. The value is typical of sans-serif
/// fonts.
const CHARACTER_WIDTH: f64 = 0.62;

/// Returns an estimate of the width of a text in pixels.
pub(crate) fn width(text: &str, size: u32) -> f64 {
    text.chars().count() as f64 * f64::from(size) * CHARACTER_WIDTH
}

/// Adds the title at the top of the picture.
pub(crate) fn heading(scene: &mut Scene, title: &str) {
    text(
        scene,
        (10.0, 24.0),
        title,
        15,
        TextAnchor::Start,
        None,
        TEXT_COLOR,
    );
}

/// Adds dark text in the font size of labels.
pub(crate) fn caption(scene: &mut Scene, place: (f64, f64), content: &str, anchor: TextAnchor) {
    text(scene, place, content, FONT_SIZE, anchor, None, TEXT_COLOR);
}

/// Adds text at the position (`x`, `y`). If `rotate` is given, the text is rotated around this
/// position by `rotate` degrees.
pub(crate) fn text(
    scene: &mut Scene,
    (x, y): (f64, f64),
    content: &str,
    size: u32,
    anchor: TextAnchor,
    rotate: Option<f64>,
    color: Color,
) {
    scene.add(Primitive::Text {
        x,
        y,
        content: content.to_owned(),
        size,
        anchor,
        rotate,
        bold: false,
        color: Some(color),
    });
}

/// Adds a rectangle. If `about` is given, web browsers show this text as the rectangle's tooltip.
pub(crate) fn rect(
    scene: &mut Scene,
    (x, y): (f64, f64),
    (width, height): (f64, f64),
    fill: Color,
    about: Option<String>,
) {
    let named = about.is_some();
    if named {
        scene.add(Primitive::GroupStart {
            transform: None,
            title: about,
            extra_attrs: None,
        });
    }
    scene.add(Primitive::Rect {
        x,
        y,
        width,
        height,
        fill,
        stroke: Some(Color::Rgb(0xdd, 0xdd, 0xdd)),
        stroke_width: Some(0.5),
        opacity: None,
    });
    if named {
        scene.add(Primitive::GroupEnd);
    }
}
