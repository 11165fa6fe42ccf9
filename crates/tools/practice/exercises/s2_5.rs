//! 2.5 One merge of byte pair encoding
//!
//! A tokenizer is trained by joining the most frequent pair of neighbours into a new token. Write
//! the step that does it: replace each place where `pair.0` stands directly before `pair.1` by
//! `new_id`, from left to right. A token that was just made part of a pair can't be part of the
//! next one: in `a a a` the pair (a, a) occurs once.
//!
//! HINT: Walk with an index: at a pair push `new_id` and advance by two, otherwise push the id.
//! HINT: Watch the last id, which has no neighbour: `ids.get(i + 1)` is an Option.

/// The ids with each `pair` joined.
pub fn merge(ids: &[u32], pair: (u32, u32), new_id: u32) -> Vec<u32> {
    // SOLUTION
    let mut merged = Vec::new();
    let mut i = 0;
    while i < ids.len() {
        if ids[i] == pair.0 && ids.get(i + 1) == Some(&pair.1) {
            merged.push(new_id);
            i += 2;
        } else {
            merged.push(ids[i]);
            i += 1;
        }
    }
    merged
    // END
}

fn main() {
    practice::merge_pair(merge).print();
    // Your experiments go here.
}
