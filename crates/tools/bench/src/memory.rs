//! Measures the peak memory of a training step, a forward pass, and decoding with int8 weights.
//! Each program executes each workload in a process of its own. The peers are measured only in f32,
//! so decoding with int8 weights is measured only for this project.

use std::collections::BTreeMap;
use std::process::Command;

use anyhow::{Context, Result};

use crate::inference::HEADS;
use crate::report::{Row, say};
use crate::turns::Bench;

/// Workloads and the number formats in which they are measured.
const WORKS: [(&str, &str); 3] = [
    ("train 4x256", "f32"),
    ("forward 1x1024", "f32"),
    ("decode 16+128", "int8"),
];
/// Number of times that a process executes a workload, such as a training step, before its peak
/// memory is determined.
const TURNS: usize = 3;

/// Measures the peak memory and adds the results to the table.
pub(crate) fn measure(bench: &mut Bench, threads: usize) -> Result<()> {
    for (head, _, peers) in HEADS {
        for (work, precision) in WORKS {
            let name = format!("memory of {work}, {head}");
            if !bench.wants(&name) {
                continue;
            }
            let ours = Command::new(std::env::current_exe()?)
                .arg(format!("{work}, {head}"))
                .args(["--peak", "--threads", &threads.to_string()])
                .args(["--repeat", &TURNS.to_string()])
                .output()
                .context(
                    "can't start another process of this program to measure its memory usage",
                )?;
            let ours = String::from_utf8_lossy(&ours.stdout);
            let Some(ours) = ours.lines().last().and_then(|line| line.parse().ok()) else {
                say(&format!(
                    "can't measure {name}, because this system doesn't report the memory usage of a process"
                ));
                continue;
            };
            let mut figures = BTreeMap::new();
            for &peer in (peers.iter()).filter(|peer| peer.precision == "f32" && precision == "f32")
            {
                let Some(mut process) = bench.peers.start(peer) else {
                    continue;
                };
                let mut turns = (0..TURNS).map(|_| process.seconds(work));
                if turns.all(|turn| turn.is_ok())
                    && let Ok(peak) = process.peak()
                {
                    figures.insert(peer.name, peak);
                }
            }
            bench.add(Row::new((name, precision, "bytes"), ours, figures, None));
        }
    }
    Ok(())
}

/// Prints the peak memory of this process in bytes.
pub(crate) fn print_peak() -> Result<()> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = peak.and_then(|rest| rest.trim().strip_suffix(" kB"));
    let kilobytes: f64 = kilobytes.context("no peak")?.trim().parse()?;
    say(&(kilobytes * 1024.0).to_string());
    Ok(())
}
