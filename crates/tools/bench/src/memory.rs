//! The most memory that a training step and a forward pass hold: each in a process of its own, ours
//! and the peers'.

use std::collections::BTreeMap;
use std::process::Command;

use anyhow::{Context, bail};
use gpt::GptModel;
use ndarray::Array2;
use torch_rng::TorchRng;

use crate::inference::HEADS;
use crate::report::{Row, say};
use crate::training::Training;
use crate::turns::Bench;

const WORKS: [&str; 2] = ["train 4x256", "forward 1x1024"];
/// Turns before the peak is read.
const TURNS: usize = 3;

/// The rows of memory.
pub(crate) fn measure(bench: &mut Bench, threads: usize) -> anyhow::Result<()> {
    for (head, _, peers) in HEADS {
        for work in WORKS {
            let name = format!("memory of {work}, {head}");
            if !bench.wants(&name) {
                continue;
            }
            let ours = Command::new(std::env::current_exe()?)
                .args([
                    "--threads",
                    &threads.to_string(),
                    "--memory-of",
                    &format!("{work}, {head}"),
                ])
                .output()
                .context("cannot start a process of our own")?;
            let Ok(ours) = String::from_utf8_lossy(&ours.stdout).trim().parse::<f64>() else {
                say(&format!(
                    "{name}: the system doesn't tell how much memory a process held"
                ));
                continue;
            };
            let mut figures = BTreeMap::new();
            for &peer in peers.iter().filter(|peer| peer.precision == "f32") {
                let Some(mut process) = bench.peers.start(peer) else {
                    continue;
                };
                let peak = (0..TURNS)
                    .try_for_each(|_| process.seconds(work).map(|_| ()))
                    .and_then(|()| process.peak());
                if let Ok(peak) = peak {
                    figures.insert(peer.name, peak);
                }
            }
            bench.add(Row::new((name, "f32", "bytes"), ours, figures, None));
        }
    }
    Ok(())
}

/// Does one work and prints the most bytes this process has held.
pub(crate) fn of_ours(work: &str) -> anyhow::Result<()> {
    let Some((work, (_, config, _))) = work
        .split_once(", ")
        .and_then(|(work, head)| Some((work, HEADS.into_iter().find(|known| known.0 == head)?)))
    else {
        bail!("no such work: {work:?}");
    };
    match work {
        "train 4x256" => {
            let mut training = Training::new(config, 4, 256)?;
            (0..TURNS).for_each(|_| training.step());
        }
        "forward 1x1024" => {
            let model = GptModel::new(config, &mut TorchRng::manual_seed(1))?;
            for _ in 0..TURNS {
                model.forward(&Array2::zeros((1, 1024)))?;
            }
        }
        _ => bail!("no such work: {work:?}"),
    }
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes: f64 = peak
        .and_then(|rest| rest.trim().strip_suffix("kB"))
        .context("no peak in /proc/self/status")?
        .trim()
        .parse()?;
    say(&(kilobytes * 1024.0).to_string());
    Ok(())
}
