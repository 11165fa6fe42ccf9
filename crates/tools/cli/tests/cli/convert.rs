//! `gpt convert` keeps what is not its own, and leaves the old model or the new one, whatever
//! happens.

use std::fs;

use crate::keeps::with_enormous_weights;
use crate::support::{Folder, TINY, folder};

/// A folder with the run `run`, and the models `one` and `two` of other weights.
fn with_two_models() -> Folder {
    let folder = folder();
    for (run, model, steps) in [("run", "one", 1), ("other", "two", 3)] {
        folder.ok(&format!("train {TINY} --max-steps {steps} --out-dir {run}"));
        folder.ok(&format!("convert {run} {model}"));
    }
    folder
}

fn names(folder: &Folder, path: &str) -> Vec<String> {
    folder.files(path).into_keys().collect()
}

#[test]
fn a_conversion_that_fails_leaves_the_model_that_was_there() {
    let folder = with_enormous_weights();
    folder.ok("convert run other");
    folder.write("other/notes.txt", "mine");
    for to in ["model", "other"] {
        let before = folder.files(to);
        let command = format!("convert model {to} --force --precision f16");
        folder.refused(&command, &["ln_f.weight", "f16", "is as it was"]);
        assert!(folder.files(to) == before, "{to}");
    }
    folder.refused("convert model new --precision f16", &["f16"]);
    assert!(!folder.join("new").exists());
    // One that was killed left this.
    fs::create_dir(folder.join(".other.4711-0.unfinished")).unwrap();
    folder.write(".other.4711-0.unfinished/model.safetensors", "half");
    folder.ok("convert model other --force");
    assert!(!folder.join(".other.4711-0.unfinished").exists());
    assert!(names(&folder, "other").contains(&"notes.txt".to_owned()));
    // One that was killed between the exchange of the folders and the end left this.
    fs::create_dir(folder.join(".other.4711-1.unfinished")).unwrap();
    for name in ["model.safetensors", "thesis.txt"] {
        folder.write(&format!(".other.4711-1.unfinished/{name}"), "old");
    }
    folder.ok("convert model other --force");
    assert!(!folder.join(".other.4711-1.unfinished").exists());
    assert_eq!(folder.files("other")["thesis.txt"], b"old");
}

#[test]
fn a_tokenizer_without_a_model_is_not_replaced_unasked() {
    let folder = with_two_models();
    for name in [
        "vocab.json",
        "merges.txt",
        "tokenizer.json",
        "added_tokens.json",
    ] {
        fs::create_dir(folder.join("mine")).unwrap();
        folder.write(&format!("mine/{name}"), "{}");
        folder.write("mine/README.md", "mine");
        folder.refused("convert one mine", &["mine", name, "--force"]);
        assert_eq!(folder.files("mine")[name], b"{}");
        folder.ok("convert one mine --force");
        assert_eq!(folder.files("mine")["README.md"], b"mine");
        fs::remove_dir_all(folder.join("mine")).unwrap();
    }
}

#[test]
fn conversions_at_once_succeed_or_are_refused() {
    let folder = with_two_models();
    for force in ["", " --force"] {
        let commands = ["one", "two", "one", "two"].map(|from| {
            let mut command = folder.command(&format!("convert {from} new{force}"));
            command.spawn().expect("gpt runs")
        });
        let ended = commands.map(|mut child| child.wait().expect("it ends").success());
        let done = ended.iter().filter(|done| **done).count();
        assert!(done >= 1 && (done == 4 || force.is_empty()), "{ended:?}");
        let new = folder.files("new");
        assert!(new == folder.files("one") || new == folder.files("two"));
        let mut left = fs::read_dir(folder.join(".")).unwrap();
        let is_left = |name: &str| name.contains("unfinished");
        assert!(!left.any(|entry| is_left(&entry.unwrap().file_name().to_string_lossy())));
    }
}

#[test]
fn a_run_is_left_alone() {
    let folder = with_two_models();
    let before = folder.tensors("run");
    for to in [
        "run",
        "run/checkpoints/step-00000001",
        "run/checkpoints/step-00000009",
        "run/tokenizer",
    ] {
        for force in ["", " --force"] {
            folder.refused(&format!("convert two {to}{force}"), &["run"]);
        }
    }
    assert!(folder.tensors("run") == before);
    folder.ok("train --resume run --max-steps 3");
}

/// A shell that stands in the folder must not find itself in one that is gone; nor can a file
/// system's own be replaced.
#[test]
fn the_current_folder_is_filled_in_place() {
    let folder = with_two_models();
    fs::create_dir(folder.join("here")).unwrap();
    let convert = |from: &str| {
        let mut command = folder.command(&format!("convert ../{from} ."));
        command
            .current_dir(folder.join("here"))
            .output()
            .expect("gpt runs")
    };
    assert!(convert("one").status.success());
    assert!(folder.files("here") == folder.files("one"));
    let refused = String::from_utf8(convert("two").stderr).unwrap();
    assert!(refused.contains("--force"), "{refused}");
    assert!(folder.files("here") == folder.files("one"));
}

/// Each call that changes the disk failing, and the process killed at each: one of the two models
/// is there, and what is said is true. With `TORTURE` in the environment all calls, else the last
/// of each kind.
#[cfg(target_os = "linux")]
#[test]
fn at_every_call_that_fails_and_every_kill_one_of_the_models_is_there() {
    use std::process::{Command, Output};
    let folder = with_two_models();
    let [old, new] = ["one", "two"].map(|model| folder.files(model));
    let convert = |options: &[&str]| -> Option<Output> {
        let _ = fs::remove_dir_all(folder.join("to"));
        fs::create_dir(folder.join("to")).unwrap();
        for (name, bytes) in &old {
            folder.write(&format!("to/{name}"), bytes);
        }
        folder.write("to/notes.txt", "mine");
        let mut command = Command::new("strace");
        command
            .args(["-f", "-qq"])
            .args(options)
            .arg(env!("CARGO_BIN_EXE_gpt"));
        command.args(["convert", "two", "to", "--force"]);
        command.current_dir(folder.join(".")).output().ok()
    };
    let calls = [
        "renameat2",
        "rename",
        "mkdir",
        "fsync",
        "unlink",
        "rmdir",
        "openat",
        "write",
    ];
    let trace = folder.join("trace");
    let traced = format!("trace={}", calls.join(","));
    let path = trace.to_str().expect("a path in text");
    if convert(&["-o", path, "-e", &traced]).is_none() {
        eprintln!("skipped: no strace");
        return;
    }
    let trace = fs::read_to_string(trace).expect("a trace");
    let shown = if std::env::var_os("TORTURE").is_some() {
        usize::MAX
    } else {
        3
    };
    let mut tries = 0;
    for call in calls {
        let made = trace.matches(&format!(" {call}(")).count();
        assert!(made > 0, "{call}: {trace}");
        for n in made.saturating_sub(shown) + 1..=made {
            for fault in ["error=ENOSPC", "signal=KILL"] {
                let inject = format!("inject={call}:{fault}:when={n}");
                let ran = convert(&["-o", "/dev/null", "-e", &inject]).expect("strace runs");
                tries += 1;
                let mut found = folder.files("to");
                let notes = found.remove("notes.txt");
                let is_new = found == new;
                let said = String::from_utf8_lossy(&ran.stderr);
                assert!(
                    is_new || found == old,
                    "{inject}: {:?} {said}",
                    found.keys()
                );
                if notes.is_none() {
                    // It is beside it, and the next conversion brings it back.
                    let mut next = folder.command("convert two to --force");
                    assert!(next.status().expect("gpt runs").success(), "{inject}");
                    assert_eq!(folder.files("to")["notes.txt"], b"mine", "{inject}");
                }
                if ran.status.success() {
                    assert!(is_new && notes.is_some(), "{inject}");
                } else if fault.starts_with("error") && said.contains("to ") {
                    let state = ["is as it was", "has the new model"][usize::from(is_new)];
                    assert!(said.contains(state), "{inject}: {said}");
                }
            }
        }
    }
    eprintln!("{tries} conversions, a model after each");
}
