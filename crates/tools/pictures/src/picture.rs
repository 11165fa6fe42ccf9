//! A finished picture: its title, and the scene if drawing is compiled in.

#[cfg(feature = "draw")]
use kuva::render::render::{Primitive, Scene};

/// The result of a drawing function.
#[derive(Debug)]
pub struct Picture {
    title: String,
    #[cfg(feature = "draw")]
    pub(crate) scene: Scene,
}

impl Picture {
    pub(crate) fn new(title: &str, #[cfg(feature = "draw")] scene: Scene) -> Self {
        Self {
            title: visible(title),
            #[cfg(feature = "draw")]
            scene: with_visible_texts(scene),
        }
    }

    /// A description in words, for readers who can't see it.
    pub fn title(&self) -> &str {
        &self.title
    }
}

/// The scene, its texts without what XML has no place for.
#[cfg(feature = "draw")]
fn with_visible_texts(mut scene: Scene) -> Scene {
    for element in &mut scene.elements {
        match element {
            Primitive::Text { content: text, .. }
            | Primitive::GroupStart {
                title: Some(text), ..
            } => *text = visible(text),
            Primitive::RichText { spans, .. } => {
                for span in spans {
                    span.text = visible(&span.text);
                }
            }
            _ => {}
        }
    }
    scene
}

/// Replaces characters that XML doesn't allow, such as tokens of single bytes, with their symbols.
fn visible(text: &str) -> String {
    let symbol = |character: char| match character {
        '\t' | '\n' | '\r' => character,
        '\0'..' ' => char::from_u32(0x2400 + u32::from(character)).unwrap_or('\u{fffd}'),
        '\u{fffe}' | '\u{ffff}' => '\u{fffd}',
        _ => character,
    };
    text.chars().map(symbol).collect()
}
