//! `mpirun -n N gpt train`: the bits of one process of a build without MPI, and an end for all when
//! one rank fails.
//!
//! `.ci/run` runs it where there is an MPI, and says in `GPT_WITHOUT_MPI` where the other build is.
#![allow(clippy::unwrap_used)] // a test that can't begin panics

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

const GPT: &str = env!("CARGO_BIN_EXE_gpt");

/// A model that takes milliseconds a step; six batches a step.
const TOY: &str = "train --vocab-size 97 --context-length 16 --emb-dim 32 --n-heads 2 --n-layers 2 \
    --batch-size 2 --gradient-accumulation-steps 6 --eval-interval 4 --eval-iters 3 --warmup-steps 0";

/// A folder with token ids.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let ids = (0..6000u32).map(|i| ((i * i % 1009 * 7 + i / 3) % 97) as u16);
    let bytes: Vec<u8> = ids.flat_map(u16::to_le_bytes).collect();
    fs::write(folder.path().join("data.bin"), bytes).unwrap();
    folder
}

/// The build without MPI; the one with it, alone, is the same program where nobody made the other.
fn plain() -> PathBuf {
    std::env::var_os("GPT_WITHOUT_MPI").map_or_else(|| GPT.into(), PathBuf::from)
}

/// `mpirun` with several ranks of `gpt` on this machine.
fn mpirun(folder: &Path, contexts: &[(usize, &str)]) -> Command {
    let mut command = Command::new("mpirun");
    command
        .current_dir(folder)
        .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
        .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
        .env("RAYON_NUM_THREADS", "1")
        // Nothing but this machine; and on Ctrl-C, time to save on a machine that is busy.
        .env("OMPI_MCA_btl", "self,vader")
        .env("OMPI_MCA_oob_tcp_if_include", "lo")
        .env("OMPI_MCA_odls_base_sigkill_timeout", "4")
        // More ranks than cores, as MPICH has it without being told.
        .env("OMPI_MCA_rmaps_base_oversubscribe", "1");
    for (i, (ranks, options)) in contexts.iter().enumerate() {
        if i > 0 {
            command.arg(":");
        }
        let options = format!("{TOY} {options}");
        command.args(["-n", &ranks.to_string(), GPT]);
        command.args(options.split_whitespace());
    }
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    output
}

/// One process, without a launcher.
fn alone(folder: &Path, options: &str) {
    let options = format!("{TOY} {options}");
    let mut command = Command::new(plain());
    run(command.current_dir(folder).args(options.split_whitespace()));
}

/// The hashes of weights, moments and state of a run's newest checkpoint.
fn manifest(run: &Path) -> String {
    let checkpoint = train::latest_checkpoint(run).unwrap();
    fs::read_to_string(checkpoint.join("manifest.json")).unwrap()
}

#[test]
fn ten_steps_have_the_bits_of_one_process() {
    let folder = folder();
    let path = folder.path();
    let options = "--data data.bin --max-steps 10 --drop-rate 0.1 --tied --dropout-build mkl";
    alone(path, &format!("{options} -o plain"));
    for ranks in [1, 3] {
        let run_of = format!("{options} -o on{ranks}");
        run(&mut mpirun(path, &[(ranks, &run_of)]));
        let ours = manifest(&path.join(format!("on{ranks}")));
        assert!(ours == manifest(&path.join("plain")), "{ranks} ranks");
    }
}

/// Rank 0's lines, and what was said on standard error.
fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

#[test]
fn ranks_that_differ_are_refused_in_one_line_before_anything_is_written() {
    let folder = folder();
    let path = folder.path();
    let bytes = fs::read(path.join("data.bin")).unwrap();
    let mut other = bytes.clone();
    other[2000] ^= 1;
    fs::write(path.join("other.bin"), other).unwrap();
    let run = "--data data.bin --max-steps 5 -o run";
    for (other, expected) in [
        (
            "--data data.bin --max-steps 5 --seed 5 -o run",
            "rank 1 differs from rank 0 in --seed",
        ),
        (
            "--data data.bin --max-steps 5 -t 2 -o run",
            "rank 1 differs from rank 0 in --threads",
        ),
        (
            "--data other.bin --max-steps 5 -o run",
            "rank 1 differs from rank 0 in train_data",
        ),
        ("--data none.bin --max-steps 5 -o run", "rank 1: "),
    ] {
        let output = mpirun(path, &[(1, run), (1, other)]).output().unwrap();
        let (_, errors) = texts(&output);
        assert!(!output.status.success());
        assert_eq!(errors.matches("error:").count(), 1, "{errors}");
        assert!(errors.contains(expected), "{errors}, expected {expected}");
        assert!(train::latest_checkpoint(path.join("run")).is_err());
    }
}

#[test]
fn each_rank_is_introduced_once_and_rank_0_alone_tells_the_run() {
    let folder = folder();
    let options = "--data data.bin --max-steps 3 -o run -v";
    let output = run(&mut mpirun(folder.path(), &[(3, options)]));
    let (lines, _) = texts(&output);
    for rank in 0..3 {
        let line = format!("rank {rank} of 3: ");
        assert_eq!(lines.matches(&line).count(), 1, "{lines}");
    }
    assert_eq!(lines.matches("step 3/3: loss").count(), 1, "{lines}");
    assert_eq!(lines.matches("sent by rank 0").count(), 1, "{lines}");
}

/// A run with a checkpoint after each step, once it has one.
fn begin(folder: &Path, ranks: usize, options: &str) -> Child {
    let child = mpirun(folder, &[(ranks, options)]).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(120);
    while train::latest_checkpoint(folder.join("run")).is_err() {
        assert!(Instant::now() < deadline, "no checkpoint in two minutes");
        sleep(Duration::from_millis(20));
    }
    child
}

fn signal(kind: &str, process: u32) {
    let status = Command::new("kill")
        .args([kind, &process.to_string()])
        .status();
    assert!(status.unwrap().success());
}

/// The ranks that train in a folder.
fn ranks_in(folder: &Path) -> Vec<u32> {
    let folder = fs::canonicalize(folder).unwrap();
    let processes = fs::read_dir("/proc").unwrap();
    let id = |entry: fs::DirEntry| {
        let link = |name| fs::read_link(entry.path().join(name)).ok();
        let here = link("cwd")? == folder && link("exe")? == Path::new(GPT);
        entry.file_name().to_str()?.parse().ok().filter(|_| here)
    };
    processes.flatten().filter_map(id).collect()
}

#[test]
fn a_killed_rank_ends_the_job_and_the_run_goes_on_from_its_last_checkpoint() {
    let folder = folder();
    let path = folder.path();
    let data = "--data data.bin --drop-rate 0.1 --decay-lr=false";
    let mut steps = 0;
    for (i, moment) in [0, 37, 111].into_iter().enumerate() {
        let options = match i {
            0 => format!("{data} --save-interval 1 --max-steps 1000000 -o run"),
            _ => "--resume run".to_owned(),
        };
        let mut job = begin(path, 3, &options);
        while ranks_in(path).len() < 3 {
            sleep(Duration::from_millis(20));
        }
        sleep(Duration::from_millis(500 + moment));
        signal("-9", ranks_in(path)[i % 3]);
        let killed = Instant::now();
        assert!(!job.wait().unwrap().success());
        let seconds = killed.elapsed().as_secs_f64();
        assert!(seconds < 10.0, "the job ended after {seconds} s");
        let checkpoint = train::latest_checkpoint(path.join("run")).unwrap();
        steps = train::read_settings(checkpoint).unwrap().steps_done;
    }
    let last = steps + 3;
    run(&mut mpirun(
        path,
        &[(2, &format!("--resume run --max-steps {last}"))],
    ));
    alone(
        path,
        &format!("{data} --max-steps {last} --save-interval 1 -o plain"),
    );
    let same = tensors(&path.join("run")) == tensors(&path.join("plain"));
    assert!(same, "after {last} steps");
}

/// Weights and moments of a run's newest checkpoint, byte for byte.
fn tensors(run: &Path) -> [Vec<u8>; 2] {
    let checkpoint = train::latest_checkpoint(run).unwrap();
    ["model.safetensors", "optimizer.safetensors"]
        .map(|file| fs::read(checkpoint.join(file)).unwrap())
}

#[test]
fn an_interrupted_mpirun_saves_once() {
    let folder = folder();
    let options = "--data data.bin --max-steps 1000000 --save-interval 1 -o run";
    let mut job = begin(folder.path(), 2, options);
    signal("-INT", job.id());
    job.wait().unwrap();
    let (lines, errors) = texts(&job.wait_with_output().unwrap());
    assert_eq!(lines.matches("stopped after step").count(), 1, "{lines}");
    assert_eq!(
        errors.matches("stopping after this step").count(),
        1,
        "{errors}"
    );
    let checkpoint = train::latest_checkpoint(folder.path().join("run")).unwrap();
    let steps = train::read_settings(checkpoint).unwrap().steps_done;
    assert!(
        lines.contains(&format!("stopped after step {steps} and saved")),
        "{lines}"
    );
}

#[test]
fn a_build_without_mpi_refuses_to_train_several_times() {
    let Some(plain) = std::env::var_os("GPT_WITHOUT_MPI") else {
        eprintln!("skipped: GPT_WITHOUT_MPI does not say where a build without MPI is");
        return;
    };
    let folder = folder();
    let mut command = Command::new("mpirun");
    command
        .current_dir(folder.path())
        .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
        .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
        .env("OMPI_MCA_rmaps_base_oversubscribe", "1")
        .args(["-n", "4"])
        .arg(plain)
        .args(["train", "--max-steps", "1", "-o", "run"]);
    let output = command.output().unwrap();
    let (_, errors) = texts(&output);
    assert!(!output.status.success());
    assert_eq!(
        errors.matches("this build has no MPI").count(),
        1,
        "{errors}"
    );
    assert!(!folder.path().join("run").exists());
}
