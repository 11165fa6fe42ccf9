//! Tests how the program handles signals. After the first Ctrl-C, a training run must save a
//! checkpoint and print the command that resumes the run. After the second Ctrl-C, it must end
//! immediately. The last test limits the size of files, because exceeding this limit also triggers
//! a signal.
//!
//! These tests check the messages and exit codes of an interrupted training run, but not its
//! weights. The tests of the crate `train` check that interrupting and resuming a run leads to
//! exactly the same weights as running it without interruption.

#![cfg(unix)]

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use std::os::unix::process::ExitStatusExt;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGXCPU};
use signal_hook::flag::register_conditional_default;

use crate::support::{Folder, TINY, folder, holds, trained};

/// Makes sure that programs that are started after this call receive signals. If the tests are run
/// by `nohup` or as a background job, some signals are ignored, and a program inherits the ignored
/// signals of its parent. However, signals for which the parent has installed a handler are reset
/// to their default action, so this function installs handlers.
fn hear_signals() {
    for signal in [SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGXCPU] {
        let always = Arc::new(AtomicBool::new(true));
        register_conditional_default(signal, always).expect("a signal that can be handled");
    }
}

/// Starts a `gpt` command and waits until it prints a line that starts with `beginning`. Returns
/// the running process and the rest of its standard output, so that the test can send signals to
/// the process at a known point.
fn started(folder: &Folder, args: &str, beginning: &str) -> (Child, BufReader<ChildStdout>) {
    hear_signals();
    let mut child = folder.command(args).spawn().expect("gpt runs");
    let mut lines = BufReader::new(child.stdout.take().expect("it is piped"));
    let mut line = String::new();
    while !line.starts_with(beginning) {
        line.clear();
        let read = lines.read_line(&mut line).expect("text");
        assert!(read > 0, "it ended too early");
    }
    (child, lines)
}

fn send(signal: &str, child: &Child) {
    let sent = Command::new("kill")
        .args([signal, &child.id().to_string()])
        .status()
        .expect("kill runs");
    assert!(sent.success());
}

#[test]
fn ctrl_c_saves_and_says_how_to_go_on() {
    let folder = folder();
    let (mut child, mut lines) = started(
        &folder,
        &format!("train {TINY} --max-steps 100000 --out-dir run"),
        "step ",
    );
    send("-INT", &child);
    let mut rest = String::new();
    lines.read_to_string(&mut rest).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let parts = ["\nstopped after step", "gpt train --resume run"];
    holds(&rest, &parts);
    assert!(folder.join("run/loss.svg").exists());
    let done = rest.split("stopped after step ").nth(1).unwrap();
    let done: u64 = done.split(' ').next().unwrap().parse().unwrap();
    folder.ok(&format!("train --resume run --max-steps {}", done + 1));
}

#[test]
fn ctrl_c_twice_stops_at_once_with_130_and_leaves_the_last_checkpoint() {
    let folder = folder();
    // With this option, a training step takes so long that the second Ctrl-C usually arrives before
    // the step has ended. This is the case that the test is meant to check.
    let flags = format!("{TINY} --gradient-accumulation-steps 4000");
    folder.ok(&format!("train {flags} --max-steps 1 --out-dir run"));
    let before = folder.checkpoint("run");
    let (mut child, _stdout) = started(&folder, "train --resume run --max-steps 100", "folder ");
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    send("-INT", &child);
    let mut line = String::new();
    // Waits until the run has answered the first Ctrl-C. If standard error ends before that, the
    // run has already saved a checkpoint and ended.
    while !line.contains("stopping after this step") {
        line.clear();
        if stderr.read_line(&mut line).unwrap() == 0 {
            break;
        }
    }
    send("-INT", &child);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    // The second Ctrl-C must not damage the checkpoints. Normally, the latest checkpoint is still
    // the one from before the run was resumed. On a busy machine, however, the run may have
    // finished a step and saved a checkpoint before the second Ctrl-C arrived, so the checkpoint
    // after step 2 is accepted as well.
    let after = folder.checkpoint("run");
    let [before, after] = [before, after].map(|path| path.display().to_string());
    let is_whole = after.starts_with(&before) || after.ends_with("step-00000002");
    assert!(is_whole, "{after}");
    folder.ok("train --resume run --max-steps 2");
}

#[test]
fn signals_of_batch_systems_save_too_and_a_warning_may_come_twice() {
    let folder = folder();
    // With these options, the run is so long and evaluates so rarely that it saves no checkpoint
    // before it receives the signal. If there is a checkpoint afterwards, the signal has caused it.
    let flags = format!("{TINY} --eval-interval 1000000 --max-steps 1000000");
    for (name, signal, times) in [
        ("TERM", SIGTERM, 1),
        ("HUP", SIGHUP, 1),
        ("USR1", SIGUSR1, 1),
        ("USR2", SIGUSR2, 1),
        ("XCPU", SIGXCPU, 3),
    ] {
        let (mut child, lines) = started(&folder, &format!("train {flags} -o {name}"), "step ");
        for _ in 0..times {
            send(&format!("-{name}"), &child);
        }
        lines.lines().for_each(drop); // The process may be waiting for its output to be read.
        assert_eq!(child.wait().unwrap().code(), Some(128 + signal), "{name}");
        assert_eq!(folder.checkpoints(name).len(), 1, "{name}");
    }
}

#[test]
fn a_signal_other_than_ctrl_c_ends_a_session() {
    hear_signals();
    let folder = trained();
    for (name, signal) in [("TERM", SIGTERM), ("USR1", SIGUSR1)] {
        let mut command = folder.command("generate -i Once --seed 1 -n 1");
        let mut child = command.stdin(Stdio::piped()).spawn().expect("gpt runs");
        let mut first = [0];
        child
            .stdout
            .as_mut()
            .unwrap()
            .read_exact(&mut first)
            .unwrap();
        send(&format!("-{name}"), &child);
        assert_eq!(child.wait().unwrap().signal(), Some(signal));
    }
}

/// Starts a shell command with `sh`. In the command, `gpt` stands for the path of the program under
/// test.
fn shell(folder: &Folder, line: &str) -> Child {
    hear_signals();
    let line = line.replace("gpt", env!("CARGO_BIN_EXE_gpt"));
    let mut command = Command::new("sh");
    let command = command.args(["-c", &line]).current_dir(&**folder);
    command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("sh runs")
}

#[cfg(target_os = "linux")]
#[test]
fn a_signal_that_is_ignored_at_the_start_stays_ignored() {
    let folder = folder();
    let run = format!("exec gpt train {TINY} --max-steps 100000 --eval-interval 100000 -o run");
    let mut child = shell(&folder, &format!("trap '' HUP; {run}"));
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next_step = || {
        let is_step = |line: &std::io::Result<String>| line.as_ref().unwrap().starts_with("step ");
        lines.find(is_step).unwrap().unwrap()
    };
    next_step();
    send("-HUP", &child);
    for _ in 0..9 {
        next_step(); // The run continues.
    }
    send("-TERM", &child);
    lines.for_each(drop); // The process may be waiting for its output to be read.
    assert_eq!(child.wait().unwrap().code(), Some(143));
}

#[test]
fn a_file_that_grows_too_large_is_an_error_with_its_name() {
    let folder = folder();
    folder.ok(&format!("train {TINY} --max-steps 2 -o run"));
    let child = shell(
        &folder,
        "ulimit -f 8; exec gpt train --resume run --max-steps 4",
    );
    let ended = child.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{stderr}");
    holds(&stderr, &["error: ", "safetensors"]);
    folder.ok("train --resume run --max-steps 4");
}
