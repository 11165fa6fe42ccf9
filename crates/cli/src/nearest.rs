//! The nearest of some known names to a name that isn't known: "did you mean ...?".

/// The candidate with the fewest changed letters, if it is near enough to be meant.
pub(crate) fn nearest<'a>(
    name: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let allowed = name.chars().count() / 3 + 1;
    candidates
        .into_iter()
        .map(|candidate| (distance(name, candidate), candidate))
        .filter(|&(changes, _)| changes <= allowed)
        .min_by_key(|&(changes, _)| changes)
        .map(|(_, candidate)| candidate)
}

/// Levenshtein's distance: letters inserted, removed or replaced.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect(); // of the empty prefix of `a`
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distance_counts_changed_letters() {
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("n_layers", "n_layers"), 0);
    }

    #[test]
    fn only_near_names_are_suggested() {
        let known = ["learning_rate", "n_layers", "n_heads"];
        assert_eq!(nearest("learnign_rate", known), Some("learning_rate"));
        assert_eq!(nearest("n_leyers", known), Some("n_layers"));
        assert_eq!(nearest("zzz", known), None);
    }
}
