//! The nearest of some words to a misspelt one, by Levenshtein's distance.

/// The word that takes the fewest changes of one letter, if that is few enough to be a slip.
pub(crate) fn nearest(word: &str, words: &[&'static str]) -> Option<&'static str> {
    const LONGEST: usize = 64;
    if word.len() > LONGEST {
        return None;
    }
    words
        .iter()
        .map(|candidate| (distance(word, candidate), *candidate))
        .min()
        .filter(|&(distance, candidate)| distance <= candidate.len() / 2)
        .map(|(_, candidate)| candidate)
}

fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    // row[j]: the changes from the first letters of `a` to the first j letters of `b`
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn a_slip_is_recognised_and_another_word_is_not() {
        let words = ["emb_dim", "n_heads", "n_layers"];
        assert_eq!(nearest("emd_dim", &words), Some("emb_dim"));
        assert_eq!(nearest("n_head", &words), Some("n_heads"));
        assert_eq!(nearest("learning_rate", &words), None);
    }
}
