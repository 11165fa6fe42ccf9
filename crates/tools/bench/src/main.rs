//! The program behind `cargo xtask bench`, which compares the speed of this project with the speed
//! of other implementations (the *peers*).
//!
//! For each workload, such as decoding 128 tokens, the table shows the speed of this project, the
//! speed of the fastest installed peer, and the ratio of the two. The last column shows the *floor
//! fraction*: this project's speed divided by the highest speed that the machine's arithmetic units
//! or memory allow.
//!
//! This project and the peers execute each workload in turn, several times, and the medians of
//! their times are compared. Any other load on the machine therefore affects all of them about
//! equally. All results come from the same run and the same machine, and are never compared with
//! stored results. A peer that isn't installed is listed as absent.

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

/// Measure the speed of this project, PyTorch, nanoGPT, transformers and llama.cpp
#[derive(Parser)]
#[command(name = "cargo xtask bench")]
struct Options {
    /// Measure only the workloads whose names contain this text, such as "decode" or "train 4x256"
    filter: Option<String>,
    /// Write the results to this file as JSON
    #[arg(long)]
    json: Option<PathBuf>,
    /// Compare the results with their targets, and fail if a target is missed
    #[arg(long)]
    check: bool,
    /// Number of threads for this project and for the peers [default: all cores]
    #[arg(long)]
    threads: Option<usize>,
    /// Python interpreter that can import the competing libraries, such as torch [default:
    /// $BENCH_PYTHON, or python3]
    #[arg(long)]
    python: Option<PathBuf>,
    /// Number of times that each workload is measured; the medians are printed
    #[arg(long, default_value_t = 5)]
    repeat: usize,
    /// Run only this project's part of a workload, and print the peak memory usage in bytes (used
    /// internally to measure memory usage)
    #[arg(long, hide = true)]
    peak: bool,
}

/// Runs all benchmarks that the options select, prints the table of results, writes them to a JSON
/// file if requested, and checks the performance targets if requested.
fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    rayon::ThreadPoolBuilder::new()
        .num_threads(options.threads.unwrap_or(0)) // 0 lets rayon choose the number of threads
        .use_current_thread() // as in the program `gpt`
        .build_global()
        .context("can't start the compute threads")?;
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
        ensure!(
            missed == 0,
            "{missed} workloads are slower than their targets"
        );
    }
    Ok(())
}
