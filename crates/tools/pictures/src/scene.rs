//! Texts and rectangles of a scene, and the scene as SVG.

use kuva::backend::svg::SvgBackend;
use kuva::render::color::Color;
use kuva::render::render::{Primitive, Scene, TextAnchor};

use crate::Picture;

impl Picture {
    /// As SVG, with width and height.
    pub fn svg(&self) -> String {
        SvgBackend::new().render_scene(&self.scene)
    }
}

/// The dark text on all pictures.
pub(crate) const INK: Color = Color::Rgb(0x22, 0x22, 0x22);

/// The size of most texts.
pub(crate) const FONT: u32 = 12;

/// The width of a character relative to the font's size: an average of a sans serif.
const CHARACTER: f64 = 0.62;

/// About how wide a text is.
pub(crate) fn width(text: &str, size: u32) -> f64 {
    text.chars().count() as f64 * f64::from(size) * CHARACTER
}

/// The title, above the picture.
pub(crate) fn heading(scene: &mut Scene, title: &str) {
    text(scene, (10.0, 24.0), title, 15, TextAnchor::Start, None, INK);
}

/// A dark text of the usual size.
pub(crate) fn caption(scene: &mut Scene, place: (f64, f64), content: &str, anchor: TextAnchor) {
    text(scene, place, content, FONT, anchor, None, INK);
}

/// A text; `rotate` in degrees around its place.
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

/// A rectangle, with a tooltip.
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
