//! Two outputs beside each other: which of their numbers differ, and from which digit on.
//!
//! Outputs are told apart as a reader would: `1.` is `1.0000`, `163,009,536` is `163009536`, labels
//! count only where there is no number.

use std::ops::Range;

use notebooks::numbers;
use pictures::html::escape;

/// How an output differs from the printed one.
#[derive(Debug, PartialEq)]
pub(crate) enum Difference {
    /// Both say the same.
    None,
    /// There are more numbers in one than in the other: a list for a table, say.
    Form,
    /// The parts of both that differ.
    Parts(Vec<[Range<usize>; 2]>),
}

impl Difference {
    /// Compares two outputs.
    pub(crate) fn of(ours: &str, printed: &str) -> Self {
        let (our_numbers, printed_numbers) = (numbers(ours), numbers(printed));
        let mut parts = Vec::new();
        if our_numbers.is_empty() && printed_numbers.is_empty() {
            if ours.trim() != printed.trim() {
                parts.push(differing(ours, 0..ours.len(), printed, 0..printed.len()));
            }
        } else if our_numbers.len() != printed_numbers.len() {
            return Self::Form;
        }
        for ((one, at), (other, place)) in our_numbers.into_iter().zip(printed_numbers) {
            if one != other {
                parts.push(differing(ours, at, printed, place));
            }
        }
        match parts.is_empty() {
            true => Self::None,
            false => Self::Parts(parts),
        }
    }

    /// Both outputs as HTML, with marks.
    pub(crate) fn html(&self, ours: &str, printed: &str) -> [String; 2] {
        let whole = [[0..ours.len(), 0..printed.len()]];
        let parts: &[[Range<usize>; 2]] = match self {
            Self::None => &[],
            Self::Form => &whole,
            Self::Parts(parts) => parts,
        };
        [(0, ours), (1, printed)].map(|(side, text)| {
            let (mut html, mut end) = (String::new(), 0);
            for part in parts.iter().map(|part| part[side].clone()) {
                html += &escape(&text[end..part.start]);
                end = part.end;
                html += &format!("<mark>{}</mark>", escape(&text[part]));
            }
            html + &escape(&text[end..])
        })
    }
}

/// From the first character that differs to the end of both parts.
fn differing(
    ours: &str,
    at: Range<usize>,
    printed: &str,
    place: Range<usize>,
) -> [Range<usize>; 2] {
    let pairs = ours[at.clone()].chars().zip(printed[place.clone()].chars());
    let same = pairs.take_while(|(one, other)| one == other);
    let same: usize = same.map(|(one, _)| one.len_utf8()).sum();
    [at.start + same..at.end, place.start + same..place.end]
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
            let difference = Difference::of(ours, printed);
            assert_eq!(difference, Difference::None, "{ours} {printed}");
        }
        assert_ne!(Difference::of("forward", "toward"), Difference::None);
        assert_eq!(Difference::of("[1, 2]", "[1]"), Difference::Form);
    }
}
