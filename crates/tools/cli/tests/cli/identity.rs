//! Tests how the program identifies a training run, and how it ensures that only one process writes
//! to the folder of a run. The test cases include copied runs, symbolic links, deleted lock files,
//! and unfinished files of a process that was killed.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

use crate::support::{Folder, Ran, TINY, folder, holds};

/// Copies the folder of a run, as a user or a backup program might do. If `visible` is true, hidden
/// files at the top level of the folder, such as the lock file of the run, are left out.
fn copy(from: &Path, to: &Path, visible: bool) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder") {
        let (path, name) = entry
            .map(|entry| (entry.path(), entry.file_name()))
            .expect("an entry");
        if visible && name.as_encoded_bytes().starts_with(b".") {
            continue;
        }
        match path.is_dir() {
            true => copy(&path, &to.join(name), false),
            false => drop(fs::copy(path, to.join(name)).expect("a copy")),
        }
    }
}

/// Returns the indices of the training steps in the log of a run.
fn steps(folder: &Folder, run: &str) -> Vec<u64> {
    let lines = folder.log(run).into_iter();
    lines.filter_map(|line| line["step"].as_u64()).collect()
}

#[test]
fn a_run_that_another_process_resumes_ends_before_its_next_line() {
    let folder = folder();
    let mut first = folder
        .command(&format!("train {TINY} --max-steps 100000000 -o run"))
        .stdout(Stdio::null())
        .spawn()
        .expect("gpt runs");
    let has_saved =
        || fs::read_dir(folder.join("run/checkpoints")).is_ok_and(|all| all.count() > 1);
    while !has_saved() {
        sleep(Duration::from_millis(20));
        assert!(first.try_wait().expect("it is ours").is_none());
    }
    folder.refused("train --resume run", &["another run is using"]);
    fs::remove_file(folder.join("run/.lock")).expect("a lock");
    let second = folder
        .command("train --resume run --max-steps 200000000")
        .stdout(Stdio::null())
        .spawn()
        .expect("gpt runs");
    let ran: Ran = first.wait_with_output().expect("it ends").into();
    ran.is_refusal("train", 1, &["no longer owns", "another process"]);
    let mut second = second;
    second.kill().expect("it is ours");
    second.wait().expect("it is ours");
    let last = steps(&folder, "run").last().copied().unwrap_or(0) + 50;
    folder.ok(&format!("train --resume run --max-steps {last}"));
    let each_once: Vec<u64> = (0..last).collect();
    assert!(steps(&folder, "run") == each_once, "a step occurs twice");
}

#[test]
fn a_copy_of_a_run_is_not_the_newest_run() {
    let folder = folder();
    folder.ok(&format!("train {TINY} --max-steps 2"));
    for name in ["0001-backup", "0002", "a"] {
        copy(
            &folder.join("runs/0001"),
            &folder.join("runs").join(name),
            true,
        );
    }
    let ran = folder.ok("train --resume --max-steps 3");
    holds(
        &ran.stderr,
        &["0001-backup is a copy of runs/0001", "0002 is"],
    );
    assert_eq!(folder.checkpoints("runs/0001").len(), 2);
    folder.ok("generate --tokens 1 -n 1");
    // A copy of a run can be resumed if its path is given. After the original `runs/0001` has been
    // renamed to `runs/b`, no folder has the name that the run recorded. In this case, `runs/0002`
    // is considered the original, because its name is a number.
    folder.ok("train --resume runs/a --max-steps 4");
    assert!(folder.checkpoints("runs/a")[1].ends_with("04"));
    fs::rename(folder.join("runs/0001"), folder.join("runs/b")).expect("renamed");
    fs::remove_dir_all(folder.join("runs/a")).expect("deleted");
    let ran = folder.ok("info");
    holds(&ran.stderr, &["runs/b is a copy of runs/0002"]);
}

#[test]
fn a_run_never_becomes_another_by_files_that_are_copied_into_it() {
    let folder = folder();
    for (run, seed) in [("a", 1), ("c", 2)] {
        folder.ok(&format!(
            "train {TINY} --seed {seed} --max-steps 2 -o {run}"
        ));
    }
    folder.ok("train --resume c --max-steps 4");
    let weights = folder.tensors("c");
    copy(&folder.join("a"), &folder.join("c"), true);
    folder.refused(
        "train --resume c",
        &["run.json", "the files of another run"],
    );
    assert!(folder.tensors("c") == weights);
    // Copies the latest checkpoint of run `c` into run `a`, where it has more steps than the
    // checkpoints of `a` itself. Then copies `a`, except for its lock file, to a new folder. When
    // this copy is resumed, the checkpoint of the other run must be ignored.
    copy(&folder.join("c"), &folder.join("guest"), true);
    copy(
        &folder.join("c/checkpoints/step-00000004"),
        &folder.join("a/checkpoints/step-00000004"),
        false,
    );
    copy(&folder.join("a"), &folder.join("new"), true);
    let ran = folder.ok("train --resume new --max-steps 3");
    holds(&ran.stderr, &["step-00000004", "another run"]);
    assert!(steps(&folder, "new") == [0, 1, 2]);
}

#[test]
fn a_run_that_was_killed_in_its_first_save_can_begin_again() {
    for (files, is_resumable) in [
        (
            &["checkpoints/.step-00000002.7-0.unfinished/config.json"][..],
            true,
        ),
        (&[".options.toml.7-0.unfinished", ".lock"], false),
        (
            &[".run.json.7-0.unfinished", ".log.jsonl.7-1.unfinished"],
            false,
        ),
    ] {
        let folder = folder();
        if is_resumable {
            folder.ok(&format!("train {TINY} --max-steps 1 -o run"));
            fs::remove_dir_all(folder.join("run/checkpoints")).expect("a folder");
            fs::remove_file(folder.join("run/loss.svg")).expect("a file");
            let log = fs::read_to_string(folder.join("run/log.jsonl")).expect("a log");
            let lines: Vec<&str> = log.lines().filter(|l| !l.contains("saved")).collect();
            folder.write("run/log.jsonl", lines.join("\n"));
        }
        for file in files {
            let path = folder.join("run").join(file);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, "").expect("a file");
        }
        if is_resumable {
            folder.refused(
                "train --resume run",
                &["before it saved a checkpoint", "--out-dir run"],
            );
        }
        folder.ok(&format!("train {TINY} --max-steps 2 -o run"));
        assert_eq!(folder.checkpoints("run"), ["step-00000002"]);
    }
}

#[test]
fn a_file_run_json_of_somebody_else_is_not_replaced() {
    let folder = folder();
    fs::create_dir(folder.join("mine")).expect("a folder");
    folder.write("mine/run.json", "{\"my\": \"experiment\"}");
    folder.refused(
        &format!("train {TINY} -o mine"),
        &["run.json", "doesn't belong to a run"],
    );
    assert_eq!(
        fs::read_dir(folder.join("mine")).expect("a folder").count(),
        1
    );
}

#[cfg(unix)]
#[test]
fn a_run_may_be_reached_by_a_link_but_has_no_links_inside() {
    use std::os::unix::fs::symlink;
    let folder = folder();
    folder.ok(&format!("train {TINY} --max-steps 1 -o run"));
    symlink("run", folder.join("link")).expect("a link");
    folder.ok("train --resume link --max-steps 2");
    fs::rename(folder.join("run/checkpoints"), folder.join("elsewhere")).expect("renamed");
    symlink("../elsewhere", folder.join("run/checkpoints")).expect("a link");
    folder.refused(
        "train --resume run --max-steps 3",
        &["checkpoints", "a link"],
    );
    symlink(".", folder.join("elsewhere/step-00000001.unfinished")).expect("a link");
    folder.ok("generate -m run --tokens 1 -n 1");
}
