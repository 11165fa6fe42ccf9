//! The rows of the table, as text and as JSON.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;

use crate::floors::Machine;
use crate::peer::Name;

/// A whole run.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) machine: Machine,
    /// Versions, or why a peer is absent
    pub(crate) peers: BTreeMap<&'static str, String>,
    pub(crate) rows: Vec<Row>,
}

/// One work of ours and of its peers.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) work: String,
    pub(crate) precision: &'static str,
    /// Of `ours` and of the peers' figures; more is better, but for bytes
    pub(crate) unit: &'static str,
    pub(crate) ours: f64,
    pub(crate) peers: BTreeMap<&'static str, f64>,
    /// How many times better than the best peer of the same precision; absent if there is none
    pub(crate) ratio: Option<f64>,
    /// Of the speed that the measured floor allows; absent if no floor is known
    pub(crate) floor_fraction: Option<f64>,
}

impl Row {
    pub(crate) fn new(
        (work, precision, unit): (String, &'static str, &'static str),
        ours: f64,
        peers: BTreeMap<Name, f64>,
        floor_fraction: Option<f64>,
    ) -> Self {
        let less_is_better = unit == "bytes";
        let ratio = peers
            .iter()
            .filter(|(name, _)| name.precision() == precision || name.precision().is_empty())
            .map(|(_, theirs)| {
                if less_is_better {
                    theirs / ours
                } else {
                    ours / theirs
                }
            })
            .min_by(f64::total_cmp);
        let peers = peers
            .into_iter()
            .map(|(name, speed)| (name.as_str(), speed))
            .collect();
        Self {
            work,
            precision,
            unit,
            ours,
            peers,
            ratio,
            floor_fraction,
        }
    }

    /// One line, so that a long run shows where it is.
    pub(crate) fn print(&self) {
        let peers = self
            .peers
            .iter()
            .map(|(name, speed)| format!("{name} {}", self.figure(*speed)));
        say(&format!(
            "{:<34} {:<5} {:>12} {:<9} {:>7} {:>6}  {}",
            self.work,
            self.precision,
            self.figure(self.ours),
            self.unit,
            self.ratio
                .map_or("absent".to_owned(), |ratio| format!("{ratio:.2} x")),
            self.floor_fraction
                .map_or(String::new(), |part| format!("{:.0}%", part * 100.0)),
            peers.collect::<Vec<_>>().join(", ")
        ));
    }

    fn figure(&self, value: f64) -> String {
        match self.unit {
            "bytes" => format!("{:.0} M", value / 1e6),
            _ if value < 10.0 => format!("{value:.3}"),
            _ => format!("{value:.1}"),
        }
    }
}

impl Report {
    /// The whole table once more, under its heading.
    pub(crate) fn print(&self) {
        say("\npeers:");
        for (name, version) in &self.peers {
            say(&format!("  {name:<18} {version}"));
        }
        say(&format!(
            "\n{:<34} {:<5} {:>12} {:<9} {:>7} {:>6}  peers",
            "work", "", "ours", "", "ratio", "floor"
        ));
        self.rows.iter().for_each(Row::print);
    }
}

/// Prints a line; a reader that has closed the output (`| head`) doesn't end a bench, which may write a file and check targets.
pub(crate) fn say(line: &str) {
    let _ = writeln!(io::stdout(), "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(unit: &'static str, ours: f64, peers: &[(Name, f64)]) -> Row {
        Row::new(
            ("work".to_owned(), "f32", unit),
            ours,
            peers.iter().copied().collect(),
            None,
        )
    }

    #[test]
    fn the_ratio_is_to_the_best_peer_of_the_same_precision() {
        let peers = [
            (Name::Pytorch, 10.0),
            (Name::TransformersF32, 20.0),
            (Name::TransformersBf16, 90.0),
        ];
        assert_eq!(row("tokens/s", 40.0, &peers).ratio, Some(2.0));
        assert_eq!(row("bytes", 5.0, &peers).ratio, Some(2.0));
    }

    #[test]
    fn without_a_peer_there_is_no_ratio() {
        assert_eq!(row("tokens/s", 40.0, &[]).ratio, None);
        assert_eq!(
            row("tokens/s", 40.0, &[(Name::TransformersBf16, 90.0)]).ratio,
            None
        );
    }
}
