//! Texts and rectangles of a scene, and the scene as SVG or as PNG.

use kuva::PngBackend;
use kuva::backend::svg::SvgBackend;
use kuva::render::color::Color;
use kuva::render::render::{Primitive, Scene, TextAnchor};

use crate::Picture;

/// Pixels of a PNG at most: a gigabyte in the rasteriser's memory.
const MOST_PIXELS: f64 = (1 << 28) as f64;

/// Pixels a unit of the SVG, each way.
const SCALE: f32 = 2.0;

/// A picture that can't be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PictureError {
    /// It is too large, or the rasteriser refused it.
    #[error("`{title}` can't be a PNG: {reason}")]
    Png {
        /// The picture's.
        title: String,
        /// The size, or the rasteriser's words.
        reason: String,
    },
}

impl Picture {
    /// As SVG, with a size of its own.
    pub fn svg(&self) -> String {
        SvgBackend::new().render_scene(&self.scene)
    }

    /// As PNG, two pixels a unit of the SVG.
    ///
    /// # Errors
    /// If it is too large for the rasteriser.
    pub fn png(&self) -> Result<Vec<u8>, PictureError> {
        let [width, height] =
            [self.scene.width, self.scene.height].map(|size| size * f64::from(SCALE));
        let png = if width * height > MOST_PIXELS {
            Err(format!("{width:.0} x {height:.0} pixels are too many"))
        } else {
            PngBackend::new()
                .with_scale(SCALE)
                .render_scene(&self.scene)
        };
        png.map_err(|reason| PictureError::Png {
            title: self.title().to_owned(),
            reason,
        })
    }
}

/// The dark text on all pictures.
pub(crate) const INK: Color = Color::Rgb(0x22, 0x22, 0x22);

/// The size of most texts.
pub(crate) const FONT: u32 = 12;

/// How wide a character is, as a part of the font's size: an average of a sans serif.
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

/// A rectangle, with what a pointer that rests on it is told.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_too_large_for_a_png_is_an_error_with_its_size() {
        let error = Picture::new("a map", Scene::new(42_000.0, 42_100.5)).png();
        assert_eq!(
            error.unwrap_err().to_string(),
            "`a map` can't be a PNG: 84000 x 84201 pixels are too many"
        );
    }
}
