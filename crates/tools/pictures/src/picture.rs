//! The type of the pictures that this crate draws. A picture consists of a title and, if the
//! feature `draw` is enabled, a scene, which contains the shapes and texts to be drawn.

#[cfg(feature = "draw")]
use kuva::render::render::{Primitive, Scene};

/// A picture, as returned by the drawing functions of this crate.
#[derive(Debug)]
pub struct Picture {
    title: String,
    #[cfg(feature = "draw")]
    pub(crate) scene: Scene,
}

impl Picture {
    pub(crate) fn new(title: &str, #[cfg(feature = "draw")] scene: Scene) -> Self {
        Self {
            title: replace_forbidden_characters(title),
            #[cfg(feature = "draw")]
            scene: with_allowed_characters(scene),
        }
    }

    /// Returns the title, which is also the description of the picture for people who use a screen
    /// reader.
    pub fn title(&self) -> &str {
        &self.title
    }
}

/// Applies [`replace_forbidden_characters`] to every label and tooltip of a scene.
#[cfg(feature = "draw")]
fn with_allowed_characters(mut scene: Scene) -> Scene {
    for element in &mut scene.elements {
        match element {
            Primitive::Text { content: text, .. }
            | Primitive::GroupStart {
                title: Some(text), ..
            } => *text = replace_forbidden_characters(text),
            Primitive::RichText { spans, .. } => {
                for span in spans {
                    span.text = replace_forbidden_characters(&span.text);
                }
            }
            _ => {}
        }
    }
    scene
}

/// Replaces the characters that XML doesn't allow. A control character is replaced with its symbol,
/// such as `␀` for a zero byte. Such characters occur in tokens that consist of a single byte.
fn replace_forbidden_characters(text: &str) -> String {
    let symbol = |character: char| match character {
        '\t' | '\n' | '\r' => character,
        '\0'..' ' => char::from_u32(0x2400 + u32::from(character)).unwrap_or('\u{fffd}'),
        '\u{fffe}' | '\u{ffff}' => '\u{fffd}',
        _ => character,
    };
    text.chars().map(symbol).collect()
}
