//! Division of the outputs of a matrix product into tasks, for products whose left operand has only
//! a few rows.

use std::ops::Range;

use ndarray::{ArrayViewMut2, Axis};

/// Smallest number of bytes of weights that a task reads. Running a smaller task on another thread
/// would cost more time than it saves.
const BYTES_PER_TASK: usize = 32 * 1024;

/// Divides the outputs of a matrix product, which are the columns of its result, into tasks, each
/// of which is a range of outputs. The outputs have the indices from 0 to `outputs - 1`. Each task
/// consists of whole groups of `group` outputs, except that the last group may be incomplete.
/// `bytes` is the size of the weights for one group.
///
/// First, the outputs are divided into at most one part per thread. Each part is then divided into
/// tasks of decreasing size: the first task contains two thirds of the part, the second task
/// contains two thirds of the remainder, and so on. Because the last tasks are small, all threads
/// finish at about the same time, even if some of them are slower than others. The results of the
/// product don't depend on this division.
fn cut(outputs: usize, group: usize, bytes: usize) -> Vec<Range<usize>> {
    let groups = outputs.div_ceil(group);
    let least = (BYTES_PER_TASK / bytes.max(1)).max(1);
    let parts = ((groups + least / 2) / least).clamp(1, rayon::current_num_threads());
    let mut tasks = Vec::new();
    for part in 0..parts {
        let (mut start, end) = (groups * part / parts, groups * (part + 1) / parts);
        while start < end {
            let left = end - start;
            let task = match left <= least + least / 2 {
                true => left,
                false => (2 * left / 3).max(least),
            };
            tasks.push(start * group..outputs.min((start + task) * group));
            start += task;
        }
    }
    tasks
}

/// Divides the columns of `c`, which are the outputs of a product, into tasks of the sizes that
/// [`cut`] determines. Returns the index of each task's first column together with a view of the
/// task's columns.
pub(crate) fn cut_columns<T>(
    mut c: ArrayViewMut2<'_, T>,
    group: usize,
    bytes: usize,
) -> Vec<(usize, ArrayViewMut2<'_, T>)> {
    let mut parts = Vec::new();
    for columns in cut(c.ncols(), group, bytes) {
        let (part, rest) = c.split_at(Axis(1), columns.len());
        c = rest;
        parts.push((columns.start, part));
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_are_all_outputs_in_order_and_whole_groups_but_the_last() {
        for (outputs, group) in [(0, 4), (1, 1), (3, 4), (60, 1), (1000, 16), (50_257, 4)] {
            for bytes in [0, 1, 4096, BYTES_PER_TASK, 1 << 20] {
                let tasks = cut(outputs, group, bytes);
                assert!(tasks.iter().all(|task| task.start % group == 0));
                let all: Vec<usize> = tasks.into_iter().flatten().collect();
                let expected: Vec<usize> = (0..outputs).collect();
                assert_eq!(all, expected, "{group} of {bytes}");
            }
        }
    }
}
