//! Tests that `mpirun -n N gpt train` produces exactly the same bits as a single process without
//! MPI, and that an error on one rank ends all ranks.
//!
//! `.ci/run` runs the tests in this module if MPI is installed. It sets the environment variable
//! `GPT_WITHOUT_MPI` to the path of a `gpt` that was built without MPI.

use std::ffi::OsStr;
use std::fs;
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

use serde_json::Value;

use crate::support::{Folder, TINY, folder, holds};

const GPT: &str = env!("CARGO_BIN_EXE_gpt");

/// Returns a training command with six batches per step.
fn train(options: &str) -> String {
    format!("train {TINY} --gradient-accumulation-steps 6 {options}")
}

/// Returns an `mpirun` command whose ranks all run on this machine.
fn mpirun(folder: &Folder) -> Command {
    let mut command = Command::new("mpirun");
    command
        .current_dir(&**folder)
        .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
        .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
        .env("RAYON_NUM_THREADS", "1")
        // `OMPI_MCA_btl` and `OMPI_MCA_oob_tcp_if_include` restrict communication to this machine.
        // `OMPI_MCA_odls_base_sigkill_timeout` gives the ranks four seconds to save a checkpoint
        // after Ctrl-C. `mpirun` always waits for the full four seconds.
        .env("OMPI_MCA_btl", "self,vader")
        .env("OMPI_MCA_oob_tcp_if_include", "lo")
        .env("OMPI_MCA_odls_base_sigkill_timeout", "4")
        // Allows more ranks than cores, as MPICH does by default.
        .env("OMPI_MCA_rmaps_base_oversubscribe", "1")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Returns an `mpirun` command that starts several `gpt` processes (ranks), which may have
/// different arguments. Each element of `contexts` consists of a number of ranks and the arguments
/// of these ranks.
fn ranks(folder: &Folder, contexts: &[(usize, &str)]) -> Command {
    let mut command = mpirun(folder);
    for (i, (ranks, args)) in contexts.iter().enumerate() {
        if i > 0 {
            command.arg(":");
        }
        command.args(["-n", &ranks.to_string(), GPT]);
        command.args(args.split_whitespace());
    }
    command
}

/// Runs an `mpirun` command and asserts that it succeeds. Returns its standard output, to which
/// only rank 0 writes, and its standard error.
fn ok(mut command: Command) -> (String, String) {
    let output = command.output().expect("it runs");
    let (lines, errors) = texts(&output);
    assert!(output.status.success(), "{errors}");
    (lines, errors)
}

fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

/// Runs `gpt` as a single process, without `mpirun`. If `GPT_WITHOUT_MPI` is set, this is the
/// program built without MPI. Otherwise, it is the program built with MPI.
fn alone(folder: &Folder, args: &str) {
    let plain = std::env::var_os("GPT_WITHOUT_MPI");
    let mut command = Command::new(plain.as_deref().unwrap_or(OsStr::new(GPT)));
    command.current_dir(&**folder);
    command.args(args.split_whitespace());
    ok(command);
}

/// Returns the manifest of a run's latest checkpoint, which contains hashes of the weights, the
/// optimizer's moments and the training state. The ID of the run is removed from the manifest,
/// because no two runs have the same ID.
fn saved(folder: &Folder, run: &str) -> Value {
    let manifest = fs::read(folder.checkpoint(run).join("manifest.json")).expect("a manifest");
    let mut manifest: Value = serde_json::from_slice(&manifest).expect("JSON");
    let id = manifest["run"].take();
    assert!(id.is_string(), "{manifest}");
    manifest
}

#[test]
fn ten_steps_have_the_bits_of_one_process() {
    let folder = folder();
    let run = train("--max-steps 10 --drop-rate 0.1 --tied --dropout-build mkl");
    alone(&folder, &format!("{run} -o plain"));
    for many in [1, 3] {
        ok(ranks(&folder, &[(many, &format!("{run} -o on{many}"))]));
        let [one, several] = ["plain".into(), format!("on{many}")].map(|run| saved(&folder, &run));
        assert_eq!(several, one, "{many} ranks");
    }
}

#[test]
fn ranks_that_differ_are_refused_in_one_line_before_anything_is_written() {
    let folder = folder();
    let run = train("--max-steps 5 -o run");
    for (from, to, expected) in [
        ("-o", "--seed 5 -o", "differs from rank 0 in --seed"),
        ("data.bin", "none.bin", ": "),
    ] {
        let differs = run.replace(from, to);
        let output = ranks(&folder, &[(1, &run), (1, &differs)]).output();
        let output = output.unwrap();
        let (_, errors) = texts(&output);
        assert!(!output.status.success());
        assert_eq!(errors.matches("error:").count(), 1, "{errors}");
        holds(&errors, &["rank 1", expected]);
        assert!(!folder.join("run/checkpoints").exists());
    }
}

#[test]
fn each_rank_is_introduced_once_and_rank_0_alone_tells_the_run() {
    let folder = folder();
    let (lines, _) = ok(ranks(&folder, &[(3, &train("--max-steps 3 -o run -v"))]));
    for line in [
        "rank 0 of 3: ",
        "rank 1 of 3: ",
        "rank 2 of 3: ",
        "step 3/3: loss",
        "rank 0 sent ",
    ] {
        assert_eq!(lines.matches(line).count(), 1, "{line}: {lines}");
    }
}

/// Starts a training run on `many` ranks, and waits until it has saved its first checkpoint.
fn begin(folder: &Folder, many: usize, args: &str) -> Child {
    let mut child = ranks(folder, &[(many, args)]).spawn().expect("mpirun runs");
    let is_saved = |name: &String| name.starts_with("step-");
    while !folder.join("run/options.toml").exists()
        || !folder.checkpoints("run").iter().any(is_saved)
    {
        assert!(child.try_wait().expect("it is ours").is_none(), "it ended");
        sleep(Duration::from_millis(20));
    }
    child
}

/// Returns the number of steps in the name of the latest checkpoint of the training run `run`.
fn steps_done(folder: &Folder) -> u64 {
    let newest = folder.checkpoints("run").pop().expect("a checkpoint");
    newest["step-".len()..][..8].parse().expect("a number")
}

fn signal(kind: &str, process: u32) {
    let mut kill = Command::new("kill");
    let status = kill.args([kind, &process.to_string()]).status();
    assert!(status.expect("kill runs").success());
}

#[test]
fn an_interrupted_mpirun_saves_once() {
    let folder = folder();
    // These options make each training step slow, so that the ranks print little after Ctrl-C.
    // `mpirun` doesn't read the output of the ranks in the four seconds between Ctrl-C and SIGTERM,
    // so a rank that prints too much in this time would block instead of saving a checkpoint.
    let run = train(
        "--max-steps 1000000 --save-interval 1 --eval-interval 1000 \
         --gradient-accumulation-steps 300 -o run",
    );
    let job = begin(&folder, 2, &run);
    signal("-INT", job.id());
    let (lines, errors) = texts(&job.wait_with_output().unwrap());
    assert_eq!(lines.matches("stopped after step").count(), 1, "{lines}");
    let stopping = errors.matches("stopping after this step").count();
    assert_eq!(stopping, 1, "{errors}");
    let saved = format!("stopped after step {} and saved", steps_done(&folder));
    holds(&lines, &[&saved]);
}

#[test]
fn a_build_without_mpi_refuses_to_train_several_times() {
    let Some(plain) = std::env::var_os("GPT_WITHOUT_MPI") else {
        eprintln!(
            "skipped: GPT_WITHOUT_MPI must be the path of a gpt executable that was built without MPI"
        );
        return;
    };
    let folder = folder();
    let mut command = mpirun(&folder);
    command.args(["-n", "4"]).arg(plain);
    command.args(["train", "--max-steps", "1", "-o", "run"]);
    let output = command.output().unwrap();
    let (_, errors) = texts(&output);
    assert!(!output.status.success());
    let told = errors
        .matches("this build of gpt doesn't support MPI")
        .count();
    assert_eq!(told, 1, "{errors}");
    assert!(!folder.join("run").exists());
}
