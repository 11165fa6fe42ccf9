//! Measures workloads. This project and its peers execute each workload in turn, and the medians of
//! their times are compared.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::thread::sleep;
use std::time::Duration;

use crate::clock::time;
use crate::floors::{Floor, of_best_way};
use crate::peer::{Kind, Peers};
use crate::reading::Memory;
use crate::report::Row;

/// Duration of the pause before the next program is measured. OpenMP's threads keep spinning for a
/// while after they have finished their work. Without a pause, they would compete with the next
/// program for the cores.
const SPINNING: Duration = Duration::from_millis(250);

/// The settings and the results of a run of the bench.
pub(crate) struct Bench {
    pub(crate) peers: Peers,
    /// Filter that the user has specified for workloads. A workload, such as "decode 16+128", is
    /// executed only if its name contains this text.
    pub(crate) filter: String,
    /// Names of all workloads that have been compared with the user's filter so far. If the filter
    /// selects none of them, an error message lists these names.
    pub(crate) names: RefCell<Vec<String>>,
    pub(crate) repeat: usize,
    /// Whether only this project executes the workloads, without the peers. This is the case in a
    /// process that is started to measure this project's peak memory.
    pub(crate) alone: bool,
    pub(crate) rows: Vec<Row>,
    pub(crate) memory: Memory,
}

/// A workload that this project executes in a certain number format.
pub(crate) struct Ours<'a> {
    /// Name of the workload, which becomes the name of the row in the table.
    pub(crate) work: String,
    pub(crate) precision: &'static str,
    /// Function that executes the workload once.
    pub(crate) step: Box<dyn FnMut() + 'a>,
    /// Resource that limits the speed of the workload, and the amount that the workload needs: a
    /// number of arithmetic operations, or a number of bytes that are read from memory. It is
    /// `None` if it isn't known what limits the speed.
    pub(crate) floor: Option<Floor>,
    /// Peers that implement this workload. A peer is a program that this project is compared with.
    /// Only the peers that compute in the same number format as this project are included in the
    /// comparison.
    pub(crate) peers: &'a [Kind],
}

impl Ours<'_> {
    fn peers(&self) -> impl Iterator<Item = Kind> {
        let of_precision = |kind: &&Kind| kind.precision == self.precision;
        self.peers.iter().filter(of_precision).copied()
    }
}

impl Bench {
    /// Returns true if the name of the workload contains the filter.
    pub(crate) fn wants(&self, work: &str) -> bool {
        let mut names = self.names.borrow_mut();
        if !names.iter().any(|name| name == work) {
            names.push(work.to_owned());
        }
        work.contains(&self.filter)
    }

    /// Returns true if the user's filter selects at least one of the workloads with the names
    /// `works`. If it selects none, the caller can skip the preparations for measuring them.
    pub(crate) fn wants_any(&self, works: &[String]) -> bool {
        works.iter().fold(false, |any, work| self.wants(work) | any)
    }

    /// Returns an error if the user's filter has selected none of the workloads, for example
    /// because of a typing error. The error message lists the names of all workloads.
    pub(crate) fn check_filter(&self) -> anyhow::Result<()> {
        let (filter, names) = (&self.filter, self.names.borrow());
        anyhow::ensure!(
            names.iter().any(|name| name.contains(filter)),
            "no workload's name contains {filter:?}; use a part of one of these names:\n  {}",
            names.join("\n  ")
        );
        Ok(())
    }

    /// Prints a row and stores it.
    pub(crate) fn add(&mut self, row: Row) {
        row.print();
        self.rows.push(row);
    }

    /// Measures the machine's peak speed for the resource that `floor` describes, and then waits
    /// until PyTorch's threads are idle. Returns the speed that each method measured, or an empty
    /// vector if `floor` is `None`.
    fn speeds(&mut self, floor: Option<Floor>) -> Vec<f64> {
        let speeds = floor.map(|floor| floor.speeds(&mut self.memory, &mut self.peers));
        sleep(SPINNING);
        speeds.unwrap_or_default()
    }

    /// Measures a workload and adds a row to the table for each element of `ours`. This project and
    /// the peers execute the workload in turn, `repeat` times.
    ///
    /// `command` is the command that makes a peer (a program that this project is compared with)
    /// execute the workload. `amount` is the number of items that are processed in one execution,
    /// such as 128 tokens, and `unit` is the unit of the resulting speed, such as `tokens/s`. If
    /// several elements of `ours` have a [`Floor`], all of them must be limited by the same
    /// resource (f32 matrix products, bf16 matrix products, or memory reads), because the machine's
    /// peak speed is measured for only one resource.
    pub(crate) fn turns(
        &mut self,
        command: &str,
        (amount, unit): (f64, &'static str),
        mut ours: Vec<Ours<'_>>,
    ) {
        ours.retain(|ours| self.wants(&ours.work));
        if self.alone || ours.is_empty() {
            (0..self.repeat).for_each(|_| ours.iter_mut().for_each(|ours| (ours.step)()));
            return;
        }
        let mut peers: BTreeMap<Kind, Vec<f64>> = (ours.iter().flat_map(Ours::peers))
            .map(|kind| (kind, Vec::new()))
            .collect();
        let mut times = vec![Vec::new(); ours.len()];
        let floor = ours.iter().find_map(|ours| ours.floor);
        let mut speeds = Vec::new();
        for _ in 0..self.repeat {
            let before = self.speeds(floor);
            // Before this project's time is measured, the workload is executed once without being
            // timed, because the programs that ran before have evicted its data from the CPU's
            // caches.
            for (ours, times) in ours.iter_mut().zip(&mut times) {
                (ours.step)();
                times.push(time(&mut ours.step));
            }
            speeds.push([before, self.speeds(floor)]);
            for (&kind, times) in &mut peers {
                let Some(peer) = self.peers.get(kind) else {
                    continue;
                };
                if peer.seconds(command).is_ok() {
                    times.extend(peer.seconds(command));
                }
                sleep(SPINNING);
            }
        }
        self.peers.drop_work();
        let speeds = of_best_way(&speeds);
        for (ours, times) in ours.into_iter().zip(times) {
            let fraction = ours.floor.map(|floor| {
                let of_turns = speeds.iter().zip(&times);
                let of_turns = of_turns.map(|(speed, seconds)| floor.amount() / speed / seconds);
                median(of_turns.collect())
            });
            let theirs = ours.peers().filter_map(|kind| {
                let times = &peers[&kind];
                (!times.is_empty()).then(|| (kind.name, amount / median(times.clone())))
            });
            let theirs = theirs.collect();
            let work = (ours.work, ours.precision, unit);
            self.add(Row::new(work, amount / median(times), theirs, fraction));
        }
    }
}

/// Returns the median of `times`. If the number of values is even, this is the mean of the two
/// middle values.
pub(crate) fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    let n = times.len();
    (times[(n - 1) / 2] + times[n / 2]) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(vec![3.0, 1.0, 9.0]), 3.0);
        assert_eq!(median(vec![4.0, 1.0, 9.0, 2.0]), 3.0);
    }
}
