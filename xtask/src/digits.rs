//! Compares the output of a notebook cell with the output in the original document, and marks the
//! digits that differ.
//!
//! Numbers are compared by their value, so `1.` equals `1.0000`, and `163,009,536` equals
//! `163009536`. The text between the numbers isn't compared, unless the output contains no numbers.

use std::ops::Range;

use notebooks::numbers;
use pictures::html::escape;

/// Returns the byte ranges of each pair of numbers that differ: the range in our output and the
/// range in the printed output. If the outputs don't contain equally many numbers, or if they
/// contain no numbers and their texts differ, the result is a single pair of ranges that cover both
/// outputs completely.
pub(crate) fn differences(ours: &str, printed: &str) -> Vec<[Range<usize>; 2]> {
    let (our_numbers, printed_numbers) = (numbers(ours), numbers(printed));
    let has_none = our_numbers.is_empty();
    if our_numbers.len() != printed_numbers.len() || has_none && ours.trim() != printed.trim() {
        return vec![[0..ours.len(), 0..printed.len()]];
    }
    let pairs = our_numbers.into_iter().zip(printed_numbers);
    let differ = pairs.filter(|((one, _), (other, _))| one != other);
    differ.map(|((_, at), (_, place))| [at, place]).collect()
}

/// Converts both outputs to HTML. In each pair of numbers that differ, both numbers are marked from
/// the first character that differs to their end.
pub(crate) fn mark_differences(ours: &str, printed: &str) -> [String; 2] {
    let parts = differences(ours, printed).into_iter().map(|[at, place]| {
        let pairs = ours[at.clone()].chars().zip(printed[place.clone()].chars());
        let same = pairs.take_while(|(one, other)| one == other);
        let same: usize = same.map(|(one, _)| one.len_utf8()).sum();
        [at.start + same..at.end, place.start + same..place.end]
    });
    let parts: Vec<_> = parts.collect();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_digits_that_differ_are_marked() {
        let (ours, printed) = ("tensor([0.1234, 2.0000])", "x: tensor([0.1239, 2.], y)");
        let [ours, printed] = mark_differences(ours, printed);
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
            assert!(differences(ours, printed).is_empty(), "{ours} {printed}");
        }
        assert_eq!(differences("forward", "toward").len(), 1);
        assert_eq!(differences("[1, 2]", "[1]"), [[0..6, 0..3]]);
    }
}
