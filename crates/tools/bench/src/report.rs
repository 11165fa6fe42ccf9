//! Prints the table of results, defines the contents of the JSON file, and checks the performance
//! targets. For each workload, this project must be at least as good as the best peer. Some
//! workloads must also reach a given fraction of the highest speed that the machine allows.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;

use crate::machine::Machine;

/// The results of a run of the bench.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) machine: Machine,
    /// Version of each peer, or the reason why it is absent.
    pub(crate) peers: BTreeMap<&'static str, String>,
    pub(crate) rows: Vec<Row>,
}

/// The results of one workload in one number format.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) work: String,
    pub(crate) precision: &'static str,
    /// Unit of the results, such as `tokens/s`. Larger results are better, unless the unit is
    /// `bytes`.
    pub(crate) unit: &'static str,
    pub(crate) ours: f64,
    pub(crate) peers: BTreeMap<&'static str, f64>,
    /// Name of the peer with the best result, or `None` if there is no result of any peer.
    pub(crate) fastest: Option<&'static str>,
    /// Factor by which this project's result for the workload is better than that of the best peer,
    /// or `None` if no peer has a result. If the factor is less than 1, the peer is better.
    pub(crate) ratio: Option<f64>,
    /// This project's speed as a fraction of the highest speed that the machine allows, or `None`
    /// if that speed isn't known.
    pub(crate) floor_fraction: Option<f64>,
}

impl Row {
    pub(crate) fn new(
        (work, precision, unit): (String, &'static str, &'static str),
        ours: f64,
        peers: BTreeMap<&'static str, f64>,
        floor_fraction: Option<f64>,
    ) -> Self {
        let times_better = |theirs: f64| match unit {
            "bytes" => theirs / ours,
            _ => ours / theirs,
        };
        let (fastest, ratio) = (peers
            .iter()
            .map(|(&name, &theirs)| (name, times_better(theirs))))
        .min_by(|a, b| a.1.total_cmp(&b.1))
        .unzip();
        Self {
            work,
            precision,
            unit,
            ours,
            peers,
            fastest,
            ratio,
            floor_fraction,
        }
    }

    /// Prints this row of the table of results. This function is called as soon as the row is
    /// complete, so that users can see the progress of a long run.
    pub(crate) fn print(&self) {
        let fastest = self.fastest.map_or("no peer".to_owned(), |name| {
            format!("{name} {}", self.figure(self.peers[name]))
        });
        let ratio = self.ratio.map(|ratio| format!("{ratio:.2} x"));
        let part = (self.floor_fraction).map(|part| format!("{:.0}%", part * 100.0));
        line([
            &self.work,
            self.precision,
            &self.figure(self.ours),
            self.unit,
            &fastest,
            &ratio.unwrap_or_default(),
            &part.unwrap_or_default(),
        ]);
    }

    fn figure(&self, value: f64) -> String {
        match self.unit {
            "bytes" => format!("{:.0} M", value / 1e6),
            _ if value < 10.0 => format!("{value:.3}"),
            _ => format!("{value:.1}"),
        }
    }
}

/// Prints the names of the columns.
pub(crate) fn print_heading() {
    line(["work", "", "ours", "", "the fastest peer", "ratio", "floor"]);
}

fn line([work, precision, ours, unit, fastest, ratio, floor]: [&str; 7]) {
    say(&format!(
        "{work:<34} {precision:<5} {ours:>10} {unit:<10} {fastest:<26} {ratio:>7} {floor:>6}"
    ));
}

const DECODE: &str = "decode 16+128, tied";

/// Targets for [`Row::floor_fraction`]. Each consists of the name of a workload, a number format,
/// and the minimum fraction.
const FLOOR_TARGETS: &[(&str, &str, f64)] = &[
    (DECODE, "f32", 0.88),
    (DECODE, "bf16", 0.82),
    (DECODE, "f16", 0.82),
    (DECODE, "int8", 0.75),
    (DECODE, "int4", 0.65),
    ("train 4x256, tied", "f32", 0.8),
    ("train 4x256, untied", "f32", 0.8),
    ("forward 1x1024, tied", "f32", 0.85),
];

/// Checks the performance targets of the given rows of the table, and prints for each target
/// whether it is met. A row must be at least as good as the best peer, and some rows must also
/// reach a minimum in [`FLOOR_TARGETS`]. Returns the number of missed targets.
pub(crate) fn check(rows: &[Row]) -> usize {
    say("\ntargets:");
    let mut missed = 0;
    for row in rows {
        let is_row = |part: &&(&str, &str, f64)| (part.0, part.1) == (&row.work, row.precision);
        let part = FLOOR_TARGETS.iter().find(is_row).map(|part| part.2);
        let of_peer = row
            .ratio
            .map(|ratio| (ratio, "times the fastest peer", 1.0));
        let of_floor = row.floor_fraction.zip(part);
        let of_floor = of_floor.map(|(figure, least)| (figure, "of the floor", least));
        for (figure, of, least) in of_peer.into_iter().chain(of_floor) {
            let verdict = if figure >= least { "kept" } else { "MISSED" };
            missed += usize::from(verdict == "MISSED");
            let text = format!("{} {}: {figure:.2} {of}", row.work, row.precision);
            say(&format!("  {text:<70} at least {least:.2}: {verdict}"));
        }
    }
    missed
}

/// Prints a line and ignores errors. The output may be closed early, as in `cargo xtask bench |
/// head`. Even then, the bench must continue, because it may still have to write the JSON file and
/// check the targets.
pub(crate) fn say(line: &str) {
    let _ = writeln!(io::stdout(), "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ratio_is_to_the_best_peer() {
        let row = |unit, ours, peers: &[(&'static str, f64)]| {
            let peers = peers.iter().copied().collect();
            let row = Row::new(("work".to_owned(), "f32", unit), ours, peers, None);
            row.fastest.zip(row.ratio)
        };
        let peers = [("a", 10.0), ("b", 20.0)];
        assert_eq!(row("tokens/s", 40.0, &peers), Some(("b", 2.0)));
        assert_eq!(row("bytes", 5.0, &peers), Some(("a", 2.0)));
        assert_eq!(row("tokens/s", 40.0, &[]), None);
    }

    #[test]
    fn a_row_behind_its_peer_or_below_its_part_of_the_floor_misses_a_target() {
        let missed = |work: &str, ours, part| {
            let peers = [("a", 10.0)].into_iter().collect();
            check(&[Row::new(
                (work.to_owned(), "f32", "tokens/s"),
                ours,
                peers,
                Some(part),
            )])
        };
        assert_eq!(missed("train 4x256, tied", 10.0, 0.8), 0);
        assert_eq!(missed("train 4x256, tied", 9.0, 0.7), 2);
        assert_eq!(missed("train 4x64, tied", 9.0, 0.1), 1);
    }
}
