//! Tests several `gpt` processes that run at the same time: conversions into the same folder,
//! training runs in the same folder, and commands that read a run while it saves a checkpoint after
//! each step. Another test copies a run while it trains.

use std::fs;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use crate::jobs::{folder_with_two_models, weights};
use crate::sandbox::{
    PATIENCE, command_line, contents, copy_of, every, files_below, folder_with_a_run, gpt, limits,
    report, start, train, words,
};

/// Returns how often a test should repeat its experiment with processes that run at the same time:
/// `all` times if the environment variable `TORTURE` is 1, which requests all test cases, and about
/// `short` times if the variable isn't set.
fn rounds(short: usize, all: usize) -> usize {
    (all / every(all / short)).max(1)
}

#[test]
fn of_conversions_into_one_folder_one_succeeds_and_the_others_are_refused() {
    let (mut cases, mut faults) = (0, Vec::new());
    let before = folder_with_two_models();
    let models = ["one", "two"].map(|model| contents(&before.path().join(model)));
    for round in 0..rounds(4, 60) {
        let folder = copy_of(before.path());
        let path = folder.path();
        // All commands of a round convert a model to the same output folder. In even rounds, this
        // folder doesn't exist beforehand. In odd rounds, the test creates it as an empty folder.
        // Commands must accept both.
        if round % 2 == 1 {
            fs::create_dir(path.join("new")).expect("a folder");
        }
        let froms = ["one", "two", "run", "one"];
        let running = froms.map(|from| {
            cases += 1;
            start(&limits(), path, &words(&format!("convert {from} new")))
        });
        let ended = running.map(|running| running.end(PATIENCE));
        let done = ended.iter().filter(|ended| ended.is_ok()).count();
        faults.extend(ended.iter().filter_map(|ended| ended.fault()));
        if done != 1 {
            faults.push(format!("{done} of 4 are done: {}", ended[0].stderr));
        }
        if !models.contains(&contents(&path.join("new"))) {
            faults.push("neither model is there".to_owned());
        }
        let names = files_below(path);
        faults.extend(names.into_iter().find(|name| name.contains("unfinished")));
    }
    report("conversions at once", cases, &faults);
}

#[test]
fn trainings_in_one_folder_are_done_by_one_and_refused_to_the_others() {
    let (mut cases, mut faults) = (0, Vec::new());
    let before = folder_with_a_run();
    let whole = copy_of(before.path());
    assert!(
        gpt(
            whole.path(),
            &words("train --resume run --max-steps 4"),
            PATIENCE
        )
        .is_ok()
    );
    let [first, resumed] =
        [&before, &whole].map(|folder| weights(&folder.path().join("run")).expect("weights"));
    for round in 0..rounds(2, 20) {
        let folder = copy_of(before.path());
        let path = folder.path();
        let mut new = train("");
        new.extend(words("--out-dir new"));
        let (command, run, expected) = match round % 2 {
            0 => (new, "new", &first),
            _ => (words("train --resume run --max-steps 4"), "run", &resumed),
        };
        let running = [(); 4].map(|()| start(&limits(), path, &command));
        let ended = running.map(|running| running.end(PATIENCE));
        cases += ended.len();
        faults.extend(ended.iter().filter_map(|ended| ended.fault()));
        if !ended.iter().any(|ended| ended.is_ok()) {
            faults.push(format!("none is done: {}", ended[0].stderr));
        }
        if weights(&path.join(run)).as_ref() != Some(expected) {
            faults.push(format!("other bits in {run}"));
        }
    }
    report("trainings at once", cases, &faults);
}

#[test]
fn readers_beside_a_run_that_saves_each_step_find_a_model() {
    let (mut cases, mut faults) = (0, Vec::new());
    let folder = folder_with_a_run();
    let path = folder.path();
    let endless = "train --resume run --max-steps 1000000 --keep 1";
    let mut trainer = start("exec", path, &words(endless));
    for round in 0..rounds(2, 50) {
        for command in [
            "info run".to_owned(),
            "eval -f data.bin -m run --threads 1".to_owned(),
            "generate --tokens 1 -n 2 -m run --threads 1".to_owned(),
            "inspect --tokens 1 -m run --threads 1".to_owned(),
            format!("convert run model{round}"),
        ] {
            cases += 1;
            let command = words(&command);
            let ended = gpt(path, &command, PATIENCE);
            if !ended.is_ok() {
                faults.push(format!("{}: {}", command_line(&command), ended.stderr));
            }
        }
    }
    if !trainer.is_running() {
        faults.push(format!(
            "the run has ended: {}",
            trainer.end(PATIENCE).stderr
        ));
    } else {
        trainer.kill();
    }
    report("readers beside a run", cases, &faults);
}

/// Returns true if a checkpoint contains all files that its manifest lists, and each file has the
/// size stated there.
fn is_whole(checkpoint: &std::path::Path) -> bool {
    let Ok(manifest) = fs::read(checkpoint.join("manifest.json")) else {
        return false;
    };
    let Ok(manifest) = serde_json::from_slice::<serde_json::Value>(&manifest) else {
        return false;
    };
    let files = manifest["files"].as_object().expect("files");
    files.iter().all(|(name, entry)| {
        let found = fs::metadata(checkpoint.join(name));
        found.is_ok_and(|found| Some(found.len()) == entry["bytes"].as_u64())
    })
}

/// Copies a training run with `cp -r` while it saves checkpoints, in each round at a different
/// time. If the copy contains a complete checkpoint, it must be possible to resume the copy, and
/// the resulting weights must have the same bits as those of a run that wasn't copied. If the copy
/// contains no complete checkpoint, an attempt to resume it must not delete any of its files.
///
/// A copy of a run that is made during training may contain no complete checkpoint. This happens if
/// the run saves several checkpoints while it is being copied, because it also deletes an old
/// checkpoint each time.
#[test]
fn copies_of_a_run_that_trains_are_resumed() {
    let before = folder_with_a_run();
    let end = words("train --resume run --max-steps 100");
    let whole = copy_of(before.path());
    assert!(gpt(whole.path(), &end, PATIENCE).is_ok());
    let expected = weights(&whole.path().join("run"));
    let (mut cases, mut resumed, mut faults) = (0, 0, Vec::new());
    for round in 0..rounds(9, 210) {
        let folder = copy_of(before.path());
        let keep = ["1", "2", "9"][round % 3];
        let mut command = end.clone();
        command.extend(words(&format!("--keep {keep}")));
        let mut trainer = start("exec", folder.path(), &command);
        sleep(Duration::from_millis(7 * (round as u64 % 31)));
        let copied = tempfile::tempdir().expect("a temporary folder");
        let path = copied.path();
        fs::copy(folder.path().join("data.bin"), path.join("data.bin")).expect("a file");
        // Ignores the exit code of `cp`. The training run deletes old checkpoints while its folder
        // is being copied, and `cp` reports an error if a file disappears before it has been
        // copied.
        let mut cp = Command::new("cp");
        let cp = cp.arg("-r").arg(folder.path().join("run")).arg(path);
        let _ = cp.output().expect("cp runs");
        trainer.kill();
        cases += 1;
        let checkpoints = fs::read_dir(path.join("run/checkpoints")).expect("a folder");
        let mut checkpoints = checkpoints.map(|entry| entry.expect("an entry").path());
        let has_whole = checkpoints.any(|checkpoint| is_whole(&checkpoint));
        let before = contents(path);
        let ended = gpt(path, &end, PATIENCE);
        let case = format!("round {round}: {}", ended.stderr);
        if let Some(fault) = ended.fault() {
            faults.push(format!("{case}: {fault}"));
        }
        if ended.is_ok() {
            resumed += 1;
            if weights(&path.join("run")) != expected {
                faults.push(format!("{case}: other bits"));
            }
        } else if has_whole {
            faults.push(case);
        } else {
            let after = contents(path);
            if before.keys().any(|name| !after.contains_key(name)) {
                faults.push(format!("{case}: the command deleted a file or folder"));
            }
        }
    }
    println!(
        "{resumed} of the {cases} copies of a run's folder, made during its training, could be resumed"
    );
    report("copies of a run that trains", cases, &faults);
}
