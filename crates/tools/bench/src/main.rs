//! `cargo xtask bench`: our speed, the fastest installed peer's, the ratio, and the part of what
//! the machine can do, in one run.
//!
//! Ours and the peers take turns, and medians are compared, so that other load on the machine
//! affects all alike. There are no stored figures of other machines; a peer that isn't installed is
//! listed as absent.

use std::cell::RefCell;
use std::path::PathBuf;

use anyhow::{Context, ensure};
use clap::Parser;

mod clock;
mod floors;
mod inference;
mod machine;
mod memory;
mod peer;
mod reading;
mod report;
mod scaling;
mod text;
mod training;
mod turns;

use machine::{Machine, processor};
use peer::Peers;
use reading::Memory;
use report::{Report, check, print_heading, say};
use turns::Bench;

/// Measure our speed beside PyTorch, nanoGPT, transformers and llama.cpp.
#[derive(Parser)]
#[command(name = "cargo xtask bench")]
struct Options {
    /// Only work whose name contains this, such as "decode" or "train 4x256"
    filter: Option<String>,
    /// Write machine and rows to this file
    #[arg(long)]
    json: Option<PathBuf>,
    /// Say which targets of these rows are kept, and fail if one is missed
    #[arg(long)]
    check: bool,
    /// Threads for ours and for the peers [default: all cores]
    #[arg(long)]
    threads: Option<usize>,
    /// The Python that has the peers [default: $BENCH_PYTHON, or python3]
    #[arg(long)]
    python: Option<PathBuf>,
    /// Turns of each work; medians are printed
    #[arg(long, default_value_t = 5)]
    repeat: usize,
    /// Do ours alone and print the bytes held at most; for the bench's own use
    #[arg(long, hide = true)]
    peak: bool,
}

/// Measures, prints the table, writes the JSON file, checks the targets.
fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    rayon::ThreadPoolBuilder::new()
        .num_threads(options.threads.unwrap_or(0)) // 0: as rayon decides
        .use_current_thread() // as `gpt` does
        .build_global()
        .context("could not start the threads to compute with")?;
    let threads = rayon::current_num_threads();
    let python = (options.python.clone())
        .or_else(|| std::env::var_os("BENCH_PYTHON").map(PathBuf::from))
        .unwrap_or_else(|| "python3".into());
    let cpu = processor();
    say(&format!("{cpu}, {threads} threads\n"));
    print_heading();
    let mut bench = Bench {
        peers: Peers::new(python, threads),
        filter: options.filter.clone().unwrap_or_default(),
        names: RefCell::default(),
        repeat: options.repeat.max(1),
        alone: options.peak,
        rows: Vec::new(),
        memory: Memory::default(),
    };
    inference::measure(&mut bench)?;
    training::measure(&mut bench)?;
    text::measure(&mut bench)?;
    if options.peak {
        return memory::print_peak();
    }
    memory::measure(&mut bench, threads)?;
    scaling::measure(&bench)?;
    bench.check_filter()?;
    let report = Report {
        machine: Machine { cpu, threads },
        peers: bench.peers.versions,
        rows: bench.rows,
    };
    say("\npeers:");
    for (name, version) in &report.peers {
        say(&format!("  {name:<18} {version}"));
    }
    if let Some(path) = &options.json {
        let json = serde_json::to_string_pretty(&report)?;
        atomic_file::write_output(path, |out| out.write_all(json.as_bytes()))?;
    }
    if options.check {
        let missed = check(&report.rows);
        ensure!(missed == 0, "{missed} of the targets are missed");
    }
    Ok(())
}
