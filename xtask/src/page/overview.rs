//! Draws the overview, which is a diagram of a GPT in which each part is a link to its section.
//! Also draws a small overview for the heading of each section, in which the parts that the section
//! explains are highlighted.
//!
//! [`PARTS`] lists the parts with their positions and sections. All colors come from the style
//! sheet of the pages, so they follow the reader's color scheme.

use super::Book;

/// A part of the overview diagram, such as attention. It represents a part of a GPT, or of the
/// programs that train and use a GPT.
struct Part {
    name: &'static str,
    /// Number of the section that the part links to.
    section: &'static str,
    /// Numbers of the sections that explain this part. The subsections of these sections are
    /// included.
    about: &'static [&'static str],
    shape: Shape,
    /// Coordinates of the upper left corner in the overview, in pixels.
    corner: (u32, u32),
}

#[derive(Clone, Copy, PartialEq)]
enum Shape {
    /// A box in the middle column.
    Wide,
    /// A box that shares its row with another box.
    Narrow,
    /// The frame around the parts of the transformer block. In [`PARTS`], the frame comes directly
    /// before the parts that it contains.
    Frame,
    /// A circle with a plus sign, where a shortcut ends.
    Sum,
}

impl Shape {
    /// Returns the width and height in the overview, in pixels.
    fn size(self) -> (u32, u32) {
        match self {
            Self::Wide => (200, 34),
            Self::Narrow => (170, 34),
            Self::Frame => (330, 290),
            Self::Sum => (22, 22),
        }
    }

    /// Returns the width in the small overview, in pixels.
    fn small_width(self) -> u32 {
        match self {
            Self::Wide | Self::Narrow => 13,
            Self::Frame => 0,
            Self::Sum => 11,
        }
    }
}

/// Number of the parts that the transformer block consists of.
const PARTS_OF_BLOCK: usize = 6;

/// The parts of the overview diagram, in the order in which a text passes through them.
#[rustfmt::skip]
const PARTS: &[Part] = &[
    part("Tokens", "2.2", &["2.2", "2.3", "2.4", "2.5"], Shape::Wide, (95, 4)),
    part("Sliding window", "2.6", &["2.6"], Shape::Wide, (95, 56)),
    part("Embeddings", "2.7", &["2.7", "4.6"], Shape::Narrow, (15, 108)),
    part("Positions", "2.8", &["2.8", "4.6"], Shape::Narrow, (205, 108)),
    part("Transformer block", "4.5", &["4.5", "4.6"], Shape::Frame, (30, 190)),
    part("Layer norm", "4.2", &["4.2"], Shape::Wide, (95, 236)),
    part("Attention", "3.3.1", &["3"], Shape::Wide, (95, 282)),
    part("Shortcut", "4.4", &["4.4"], Shape::Sum, (184, 322)),
    part("Layer norm", "4.2", &["4.2"], Shape::Wide, (95, 360)),
    part("Feed-forward", "4.3", &["4.3"], Shape::Wide, (95, 406)),
    part("Shortcut", "4.4", &["4.4"], Shape::Sum, (184, 446)),
    part("Final layer norm", "4.2", &["4.2", "4.6"], Shape::Wide, (95, 500)),
    part("Output layer", "4.6", &["4.6"], Shape::Wide, (95, 548)),
    part("Loss", "5.1.2", &["5.1.2", "5.1.3"], Shape::Narrow, (15, 612)),
    part("Training", "5.2", &["5.2"], Shape::Narrow, (15, 658)),
    part("Saved weights", "5.5", &["5.4", "5.5"], Shape::Narrow, (15, 704)),
    part("Next token", "4.7", &["4.7", "5.1.1"], Shape::Narrow, (205, 612)),
    part("Sampling", "5.3.1", &["5.3"], Shape::Narrow, (205, 658)),
];

/// SVG paths of the arrows between the parts of the diagram. Each arrow is a line with an arrowhead
/// at its end.
const ARROWS: &[&str] = &[
    "M195 38V56",
    "M195 90V99H100V108",
    "M195 90V99H290V108",
    "M195 177V236",
    "M195 270V282",
    "M195 344V360",
    "M195 394V406",
    "M195 468V500",
    "M195 534V548",
    "M195 582V597H100V612",
    "M195 582V597H290V612",
    "M100 646V658",
    "M100 692V704",
    "M290 646V658",
    // A sampled token becomes part of the text.
    "M375 675H390V21H295",
];

/// SVG paths of the lines in the diagram that have no arrowhead.
const LINES: &[&str] = &[
    // The sum of both embeddings.
    "M100 142V166H184",
    "M290 142V166H206",
    "M195 316V322",
    "M195 440V446",
    // The shortcuts.
    "M195 226H62V333H184",
    "M195 352H62V457H184",
];

const fn part(
    name: &'static str,
    section: &'static str,
    about: &'static [&'static str],
    shape: Shape,
    corner: (u32, u32),
) -> Part {
    Part {
        name,
        section,
        about,
        shape,
        corner,
    }
}

impl Part {
    /// Returns true if the section with this number explains the part.
    fn belongs_to(&self, section: &str) -> bool {
        let includes = |about: &str| {
            let rest = section.strip_prefix(about);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        self.about.iter().any(|about| includes(about))
    }
}

/// Number of the section that shows the overview.
pub(super) const SECTION: &str = "4.1";

/// Returns the overview as a figure. Each part is a link to its section if a page contains that
/// section.
pub(super) fn figure(book: &Book) -> String {
    let mut svg = "<svg class=\"overview\" viewBox=\"0 0 400 742\" role=\"group\" \
         aria-labelledby=\"overview-title overview-about\">\n\
         <title id=\"overview-title\">Overview of a GPT</title>\n\
         <desc id=\"overview-about\">A text becomes tokens, and windows of tokens become embeddings, to \
         which the positions are added. Transformer blocks follow. In each of them, attention and a \
         feed-forward network are added to their input by shortcuts, after a layer norm of the input. A \
         final layer norm and the output layer give the scores of the next token. They are used to \
         compute the loss for training, or to choose the next token, which becomes part of the \
         text.</desc>\n\
         <marker id=\"arrowhead\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"7\" \
         markerHeight=\"7\" orient=\"auto\"><path d=\"M0 0L8 4L0 8z\"/></marker>\n"
        .to_owned();
    let (frames, others): (Vec<&Part>, Vec<&Part>) =
        PARTS.iter().partition(|part| part.shape == Shape::Frame);
    for part in frames {
        svg += &drawn(part, book);
    }
    for path in LINES {
        svg += &format!("<path d=\"{path}\"/>\n");
    }
    for path in ARROWS {
        svg += &format!("<path d=\"{path}\" marker-end=\"url(#arrowhead)\"/>\n");
    }
    svg += &(sum(195, 166) + "\n");
    for part in others {
        svg += &drawn(part, book);
    }
    format!(
        "<figure id=\"overview\">\n{svg}</svg>\n<figcaption>The parts of a GPT, and how it is trained \
         and used. The transformer block is repeated, 12 times in the smallest GPT-2. Each part links to \
         its section.</figcaption>\n</figure>\n"
    )
}

/// Returns the SVG of a part with its link.
fn drawn(part: &Part, book: &Book) -> String {
    let ((x, y), (width, height)) = (part.corner, part.shape.size());
    let (name, section) = (part.name, part.section);
    let shape = match part.shape {
        Shape::Sum => {
            let (x, y) = (x + width / 2, y + height / 2);
            format!("<title>{name} {section}</title>{}", sum(x, y))
        }
        shape => {
            let (frame, base) = match shape {
                Shape::Frame => (" class=\"frame\"", y + 24),
                _ => ("", y + 22),
            };
            format!(
                "<rect{frame} x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" rx=\"6\"/>\
                 <text x=\"{}\" y=\"{base}\">{name}</text>\
                 <text class=\"section\" x=\"{}\" y=\"{base}\">{section}</text>",
                x + 12,
                x + width - 12
            )
        }
    };
    match book.section(section) {
        Some(place) => format!("<a href=\"{place}\">{shape}</a>\n"),
        None => format!("<g>{shape}</g>\n"),
    }
}

/// Returns the SVG of a circle with a plus sign.
fn sum(x: u32, y: u32) -> String {
    let (left, top) = (x - 6, y - 6);
    format!("<circle cx=\"{x}\" cy=\"{y}\" r=\"11\"/><path d=\"M{left} {y}h12M{x} {top}v12\"/>")
}

/// Returns the HTML of the small overview for the heading of a section, and the names of the parts
/// that the section explains, which are highlighted. The small overview is a link to the overview
/// on the index page. The result is empty if the section doesn't explain any part.
pub(super) fn place(section: &str) -> String {
    const GAP: u32 = 8;
    let (mut names, mut shapes) = (Vec::new(), String::new());
    let mut x = 1;
    for (index, part) in PARTS.iter().enumerate() {
        let is_here = part.belongs_to(section);
        if is_here && !names.contains(&part.name) {
            names.push(part.name);
        }
        let here = if is_here { " class=\"here\"" } else { "" };
        let width = part.shape.small_width();
        shapes += &match part.shape {
            Shape::Frame => {
                let inside = &PARTS[index + 1..][..PARTS_OF_BLOCK];
                let inside: u32 = inside.iter().map(|it| it.shape.small_width() + GAP).sum();
                let x = x - GAP / 2;
                format!("<rect{here} x=\"{x}\" y=\"1\" width=\"{inside}\" height=\"24\" rx=\"4\"/>")
            }
            Shape::Sum => format!("<circle{here} cx=\"{}\" cy=\"13\" r=\"5.5\"/>", x + 5),
            _ => {
                format!("<rect{here} x=\"{x}\" y=\"5\" width=\"{width}\" height=\"16\" rx=\"2\"/>")
            }
        };
        if part.shape != Shape::Frame {
            x += width + GAP;
        }
    }
    if names.is_empty() {
        return String::new();
    }
    let names = names.join(", ");
    format!(
        "<p class=\"place\"><a href=\"index.html#overview\" aria-label=\"Overview of a GPT\">\
         <svg class=\"overview\" width=\"{x}\" height=\"26\" viewBox=\"0 0 {x} 26\" aria-hidden=\"true\">{shapes}</svg></a> \
         {names}</p>\n"
    )
}

#[cfg(test)]
mod tests {
    use notebooks::{PROGRAMS, Part as NotebookPart};

    use super::*;

    #[test]
    fn every_section_of_the_model_has_a_place_and_every_part_has_a_section() {
        let parts: Vec<NotebookPart> = PROGRAMS.iter().flat_map(|it| it.unrun()).collect();
        let numbers = parts.iter().filter_map(|part| match part {
            NotebookPart::Section { number, .. } => Some(number.as_str()),
            _ => None,
        });
        let numbers: Vec<&str> = numbers.collect();
        for part in PARTS {
            assert!(numbers.contains(&part.section), "{}", part.section);
            assert!(part.belongs_to(part.section), "{}", part.section);
        }
        let of_book = |number: &&&str| number.starts_with(|c: char| c.is_ascii_digit());
        for number in numbers.iter().filter(of_book) {
            // This section shows the overview itself.
            assert!(
                *number == SECTION || place(number).contains("class=\"here\""),
                "{number}"
            );
        }
        assert_eq!(place("ex3.1"), "");
    }

    #[test]
    fn a_section_is_about_the_parts_of_its_number_and_not_of_a_longer_one() {
        assert!(place("3.6.2").ends_with("</a> Attention</p>\n"));
        assert!(
            place("4.4").contains("</a> Shortcut</p>") && place("4.4").matches("here").count() == 2
        );
        assert_eq!(place("30"), "");
    }
}
