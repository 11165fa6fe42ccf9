//! Ours and the peers taking turns at one work, and the medians of their times.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::thread::sleep;
use std::time::Duration;

use crate::clock::time;
use crate::floors::{Floor, of_best_way};
use crate::peer::{Kind, Peers};
use crate::reading::Memory;
use crate::report::Row;

/// OpenMP's threads keep spinning this long after their work; ours must not share the cores with
/// them.
const SPINNING: Duration = Duration::from_millis(250);

/// The state of a run.
pub(crate) struct Bench {
    pub(crate) peers: Peers,
    /// Only work whose name contains it is done.
    pub(crate) filter: String,
    /// Names of all works that the filter was asked about so far.
    pub(crate) names: RefCell<Vec<String>>,
    pub(crate) repeat: usize,
    /// True if ours is all that is done, for the memory that it takes.
    pub(crate) alone: bool,
    pub(crate) rows: Vec<Row>,
    pub(crate) memory: Memory,
}

/// One of our ways to do a work.
pub(crate) struct Ours<'a> {
    /// The row's name
    pub(crate) work: String,
    pub(crate) precision: &'static str,
    /// Does it once
    pub(crate) step: Box<dyn FnMut() + 'a>,
    /// `None` where none is known
    pub(crate) floor: Option<Floor>,
    /// The peers for this work; those of the same precision are compared
    pub(crate) peers: &'a [Kind],
}

impl Ours<'_> {
    fn peers(&self) -> impl Iterator<Item = Kind> {
        let of_precision = |kind: &&Kind| kind.precision == self.precision;
        self.peers.iter().filter(of_precision).copied()
    }
}

impl Bench {
    /// True if the filter selects a work with this name.
    pub(crate) fn wants(&self, work: &str) -> bool {
        let mut names = self.names.borrow_mut();
        if !names.iter().any(|name| name == work) {
            names.push(work.to_owned());
        }
        work.contains(&self.filter)
    }

    /// Returns true if the filter selects at least one of these works.
    pub(crate) fn wants_any(&self, works: &[String]) -> bool {
        works.iter().fold(false, |any, work| self.wants(work) | any)
    }

    /// Returns an error with the names of all works if the filter has selected none of them.
    pub(crate) fn check_filter(&self) -> anyhow::Result<()> {
        let (filter, names) = (&self.filter, self.names.borrow());
        anyhow::ensure!(
            names.iter().any(|name| name.contains(filter)),
            "no row's name contains {filter:?}; use a part of one of these names:\n  {}",
            names.join("\n  ")
        );
        Ok(())
    }

    /// Prints a row and keeps it.
    pub(crate) fn add(&mut self, row: Row) {
        row.print();
        self.rows.push(row);
    }

    /// The machine's speed in the limit of a work.
    fn speeds(&mut self, floor: Option<Floor>) -> Vec<f64> {
        let speeds = floor.map(|floor| floor.speeds(&mut self.memory, &mut self.peers));
        sleep(SPINNING);
        speeds.unwrap_or_default()
    }

    /// Measures `command` done by each of `ours`, which one floor bounds, and by their peers, in
    /// turns; `amount` of `unit` an execution.
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
            // Each runs once untimed, because its data was evicted from the caches during the
            // others' turns.
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

/// The middle one, or the mean of the middle two.
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
