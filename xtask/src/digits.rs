//! Two outputs beside each other: which of their numbers differ, and from which digit on.
//!
//! Outputs are told apart as a reader would: `1.` is `1.0000`, `163,009,536` is `163009536`, labels
//! count only where there is no number.

use std::ops::Range;

use pictures::html::escape;

/// The parts of both outputs that differ.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Difference {
    of_ours: Vec<Range<usize>>,
    of_printed: Vec<Range<usize>>,
    /// There are more numbers in one than in the other.
    other_form: bool,
}

impl Difference {
    /// Compares two outputs.
    pub(crate) fn of(ours: &str, printed: &str) -> Self {
        let (ours_words, printed_words) = (numbers(ours), numbers(printed));
        let mut difference = Self::default();
        if ours_words.is_empty() && printed_words.is_empty() {
            if ours.trim() != printed.trim() {
                difference.add(ours, 0..ours.len(), printed, 0..printed.len());
            }
            return difference;
        }
        if ours_words.len() != printed_words.len() {
            difference.of_ours.push(0..ours.len());
            difference.of_printed.push(0..printed.len());
            difference.other_form = true;
            return difference;
        }
        for ((one, at), (other, place)) in ours_words.into_iter().zip(printed_words) {
            if one != other {
                difference.add(ours, at, printed, place);
            }
        }
        difference
    }

    /// Whether both say the same.
    pub(crate) fn is_none(&self) -> bool {
        self.of_ours.is_empty() && self.of_printed.is_empty()
    }

    /// Whether nothing but the form differs, given that the values agree: a list for a table, say.
    pub(crate) fn is_form_alone(&self) -> bool {
        self.other_form
    }

    /// From the first character that differs to the end of both parts.
    fn add(&mut self, ours: &str, at: Range<usize>, printed: &str, place: Range<usize>) {
        let pairs = ours[at.clone()]
            .char_indices()
            .zip(printed[place.clone()].chars());
        let same = pairs.take_while(|((_, one), other)| one == other).last();
        let same = same.map_or(0, |((start, character), _)| start + character.len_utf8());
        self.of_ours.push(at.start + same..at.end);
        self.of_printed.push(place.start + same..place.end);
    }

    /// Both outputs as HTML, with marks.
    pub(crate) fn html(&self, ours: &str, printed: &str) -> [String; 2] {
        [
            marked(ours, &self.of_ours),
            marked(printed, &self.of_printed),
        ]
    }
}

fn marked(text: &str, parts: &[Range<usize>]) -> String {
    let mut html = String::new();
    let mut end = 0;
    for part in parts {
        html += &escape(&text[end..part.start]);
        html += &format!("<mark>{}</mark>", escape(&text[part.clone()]));
        end = part.end;
    }
    html + &escape(&text[end..])
}

/// The words that are numbers, and their places.
fn numbers(text: &str) -> Vec<(f64, Range<usize>)> {
    let brackets = text.contains('[');
    let separates = |c: char| c.is_whitespace() || "[]()'\"".contains(c) || (c == ',' && brackets);
    let mut numbers = Vec::new();
    let mut start = 0;
    for word in text.split_inclusive(separates) {
        let trimmed = word.trim_end_matches(separates);
        let number = trimmed.replace(',', "").parse();
        // NaN is never itself.
        if let Ok(number) = number.map(|number: f64| if number.is_nan() { 0.5 } else { number }) {
            numbers.push((number, start..start + trimmed.len()));
        }
        start += word.len();
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_digits_that_differ_are_marked() {
        let (ours, printed) = ("tensor([0.1234, 2.0000])", "x: tensor([0.1239, 2.], y)");
        let [ours, printed] = Difference::of(ours, printed).html(ours, printed);
        assert_eq!(ours, "tensor([0.123<mark>4</mark>, 2.0000])");
        assert_eq!(printed, "x: tensor([0.123<mark>9</mark>, 2.], y)");
    }

    #[test]
    fn the_same_number_in_another_form_is_no_difference() {
        for (ours, printed) in [
            (
                "tensor([0.1000,  2.0000])",
                "tensor([0.1000, 2.0000], grad_fn=<X>)",
            ),
            ("163009536", "Total: 163,009,536"),
            ("[73, 0]", "73 x closer\n0 x every"),
            ("forward", "forward"),
            ("tensor([-inf, nan])", "tensor([  -inf, nan])"),
        ] {
            assert!(Difference::of(ours, printed).is_none(), "{ours} {printed}");
        }
        assert!(!Difference::of("forward", "toward").is_none());
        assert!(!Difference::of("[1, 2]", "[1]").is_none());
    }
}
