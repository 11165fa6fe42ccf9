//! 2.6 Sliding windows
//!
//! Cut a text's ids into training windows. Each window is `max_length` ids, and its targets are the
//! same ids one place later, so a window needs `max_length + 1` ids. The next window begins
//! `stride` ids later. Windows that don't fit at the end are left out.
//! In the book this is the loop of `GPTDatasetV1`.
//!
//! HINT: `(0..ids.len()).step_by(stride)` gives the first place of each window.
//! HINT: `ids.get(start..end)` is None where the text ends before `end`.
//! HINT: The targets are `ids[start + 1..start + max_length + 1]`.

/// Windows of inputs and targets, each of `max_length` ids.
pub fn windows(ids: &[u32], max_length: usize, stride: usize) -> Vec<(Vec<u32>, Vec<u32>)> {
    // SOLUTION
    let starts = (0..ids.len()).step_by(stride);
    let window = |start: usize| {
        let window = ids.get(start..start + max_length + 1)?;
        Some((window[..max_length].to_vec(), window[1..].to_vec()))
    };
    starts.filter_map(window).collect()
    // END
}

fn main() {
    practice::windows(windows).print();
    // Your experiments go here.
}
