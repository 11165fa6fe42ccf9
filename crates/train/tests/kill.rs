//! Kills a training process at random times, resumes its run, and checks that the final results are
//! bit for bit the same as in a run that isn't interrupted. The training process saves a checkpoint
//! after every step.
//!
//! By default, this test kills five processes, one after the other. The command `TRAIN_KILLS=100
//! cargo test -p train --test kill` kills 100 processes. Each of these processes runs only the test
//! function `victim` of this test binary.
#![cfg(unix)] // on these systems, `kill` sends SIGKILL
#![allow(clippy::unwrap_used)] // a test may panic if its preparation fails

mod common;

use std::env;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use common::{assert_same_run, config, finish, resume, trainer};
use train::runs::steps_of;
use train::{RunFolder, TrainConfig, TrainError, latest_checkpoint};

const FOLDER: &str = "TRAIN_KILL_FOLDER";
const STEPS: &str = "TRAIN_KILL_STEPS";
const KILLS: &str = "TRAIN_KILLS";

fn saving_every_step(max_steps: u64) -> TrainConfig {
    TrainConfig {
        save_every: Some(1),
        ..config(max_steps)
    }
}

/// Trains a model in the process that will be killed. Resumes the run from its newest checkpoint,
/// or starts a new run if there is no checkpoint. Returns immediately if the environment variables
/// of this test aren't set, as in an ordinary test run.
#[test]
fn victim() {
    let (Ok(folder), Ok(steps)) = (env::var(FOLDER), env::var(STEPS)) else {
        return;
    };
    let config = saving_every_step(steps.parse().unwrap());
    let run = RunFolder::open(&folder).unwrap();
    let mut trainer = match resume(&folder, config) {
        Err(TrainError::NoCheckpoint { .. }) => trainer(config),
        resumed => resumed.unwrap(),
    };
    finish(&mut trainer, Some(&run));
}

fn spawn(folder: &Path, steps: u64) -> Child {
    Command::new(env::current_exe().unwrap())
        .args(["victim", "--exact", "--test-threads=1"])
        .env(FOLDER, folder)
        .env(STEPS, steps.to_string())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// Returns the number of steps after which the newest checkpoint was saved, or 0 if there is no
/// checkpoint.
fn steps_saved(folder: &Path) -> u64 {
    match latest_checkpoint(folder) {
        Ok(checkpoint) => steps_of(checkpoint).unwrap(),
        Err(TrainError::NoCheckpoint { .. }) => 0,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_run_killed_at_random_moments_ends_with_the_same_bits() {
    let kills: u64 = env::var(KILLS).map_or(5, |kills| kills.parse().unwrap());
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path();
    let mut random = 0x9e37_79b9_7f4a_7c15u64 ^ u64::from(std::process::id());
    let mut steps = 0;
    for kill in 0..kills {
        let mut victim = spawn(folder, 1_000_000);
        // Wait until the process has saved a new checkpoint, and then wait for a random time. The
        // process is therefore killed at an arbitrary point of a step or a save.
        let patience = Instant::now();
        // Read only the manifest of the newest checkpoint and ignore errors, because the process
        // may be deleting checkpoints at the same time.
        let newest = || steps_of(latest_checkpoint(folder).ok()?);
        while newest().unwrap_or(0) <= steps && patience.elapsed() < Duration::from_secs(20) {
            sleep(Duration::from_millis(1));
        }
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        sleep(Duration::from_micros((random >> 33) % 40_000));
        victim.kill().unwrap();
        victim.wait().unwrap();
        let now = steps_saved(folder);
        assert!(now >= steps, "kill {kill}: {now} steps after {steps}");
        if now > 0 {
            resume(folder, saving_every_step(1_000_000)).unwrap();
        }
        steps = now;
    }
    let end = steps + 5;
    assert!(spawn(folder, end).wait().unwrap().success());
    let killed = resume(folder, saving_every_step(end)).unwrap();
    assert_eq!(killed.steps_done(), end);
    let mut left_alone = trainer(saving_every_step(end));
    finish(&mut left_alone, None);
    assert_same_run(&left_alone, &killed);
    // The last process, which wasn't killed, must have deleted the unfinished checkpoints of the
    // processes that were killed.
    for name in atomic_file::names_in(folder.join("checkpoints")).unwrap() {
        assert!(name.to_string_lossy().starts_with("step-"), "{name:?}");
    }
    println!(
        "the processes saved checkpoints up to step {steps}, although {kills} of them were killed"
    );
}
