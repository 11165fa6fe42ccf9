//! Every file of a run, and what a command is given, replaced by what should not be there.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::Path;

use crate::errors::Page;
use crate::sandbox::{
    COMPUTING, PATIENCE, copy_of, files_below, folder_with_a_run, gpt, gpt_under, is_long, limits,
    limits_with, pipe, report, train, typed, words,
};

/// A name, and what makes it where a file was.
type Replacement = (&'static str, fn(&Path));

/// What a file is replaced by.
const REPLACEMENTS: [Replacement; 9] = [
    ("nothing", |_| {}),
    ("an empty file", |path| fs::write(path, "").expect("a file")),
    ("half of itself", |_| {}), // see `replace`
    ("itself with other digits", |_| {}),
    ("a folder", |path| fs::create_dir(path).expect("a folder")),
    ("a pipe", pipe),
    ("a device", |path| {
        std::os::unix::fs::symlink("/dev/zero", path).expect("a link");
    }),
    ("noise", |path| {
        let noise: Vec<u8> = (0..4096u32).map(|i| ((i * i * 31) >> 3) as u8).collect();
        fs::write(path, noise).expect("a file");
    }),
    ("5 GB of nothing", |path| {
        let file = File::create(path).expect("a file");
        file.set_len(5_000_000_000).expect("a sparse file");
    }),
];

/// Replaces a file.
fn replace(path: &Path, (name, make): Replacement) {
    let old = fs::read(path).expect("a file");
    fs::remove_file(path).expect("a file");
    make(path);
    if name == "half of itself" {
        fs::write(path, &old[..old.len() / 2]).expect("a file");
    }
    if name == "itself with other digits" {
        // A list that is ahead of its folders, other sizes of a model, other hashes.
        let other = |byte: &u8| if *byte == b'2' { b'4' } else { *byte };
        fs::write(path, old.iter().map(other).collect::<Vec<_>>()).expect("a file");
    }
}

/// Commands that read a run, and whether the short form has them too, and docs/errors.md.
fn commands() -> Vec<(Vec<OsString>, bool)> {
    let resume = "train --resume run --max-steps 3";
    let long = [
        "eval --data data.bin -m run --threads 1",
        "convert run model",
        "generate --tokens 1 -n 2 -m run --threads 1",
        "logits --tokens 1 -m run --threads 1",
    ];
    let quick = [(words(resume), true), (words("info run"), true)];
    let long = long.into_iter().map(|command| (words(command), false));
    quick.into_iter().chain(long).collect()
}

#[test]
fn a_replaced_file_of_a_run_is_refused_in_a_line_and_costs_no_other() {
    let good = folder_with_a_run();
    let files = files_below(&good.path().join("run"));
    let newest = "checkpoints/step-00000002";
    let (mut cases, mut faults) = (0, Vec::new());
    let quick = commands().into_iter().filter(|(_, quick)| *quick);
    let mut page = Page::of(quick.map(|(command, _)| typed(&command)));
    for file in &files {
        let is_older = file.starts_with("checkpoints/") && !file.starts_with(newest);
        if !is_long() && is_older {
            continue;
        }
        for replacement in REPLACEMENTS {
            for (command, quick) in commands() {
                if !is_long() && !quick {
                    continue;
                }
                cases += 1;
                let folder = copy_of(good.path());
                replace(&folder.path().join("run").join(file), replacement);
                let ended = gpt(folder.path(), &command, PATIENCE);
                let case = format!("{file} is {}, {}", replacement.0, typed(&command));
                if let Some(fault) = ended.fault() {
                    faults.push(format!("{case}: {fault}"));
                }
                if !is_older {
                    page.add(&typed(&command), file, replacement.0, &ended);
                }
                // The curve is drawn when all is saved.
                if ended.is_ok() || file.starts_with("loss.") {
                    continue;
                }
                for other in files.iter().filter(|other| *other != file) {
                    let contents = |root: &Path| fs::read(root.join("run").join(other)).ok();
                    let is_kept = other.starts_with("checkpoints/");
                    if is_kept && contents(folder.path()) != contents(good.path()) {
                        faults.push(format!("{case}: {other} is no longer what it was"));
                    }
                }
            }
        }
    }
    if is_long() {
        page.write();
    }
    report("files of a run replaced", cases, &faults);
}

/// What others may leave in a run: neither in the way nor touched.
#[test]
fn what_lies_beside_the_files_of_a_run_stays_and_is_in_nobodys_way() {
    let good = folder_with_a_run();
    let newest = "checkpoints/step-00000002";
    let folders = ["", "checkpoints", newest, "tokenizer", "model"];
    // The next checkpoint's own name, and what a killed save would leave, are names, too.
    let names = ["theirs", "step-00000003", ".step-00000003.7-0.unfinished"];
    let (mut cases, mut faults) = (0, Vec::new());
    for (folder, name) in folders
        .into_iter()
        .flat_map(|f| names.map(|name| (f, name)))
    {
        for replacement in &REPLACEMENTS[4..8] {
            for (command, quick) in commands() {
                let is_tried = is_long() || quick && name != names[2];
                if !is_tried {
                    continue;
                }
                cases += 1;
                let copied = copy_of(good.path());
                let there = copied.path().join("run").join(folder).join(name);
                (replacement.1)(&there);
                let kind = |path: &Path| fs::symlink_metadata(path).map(|found| found.file_type());
                let was = kind(&there).expect("it is there");
                let ended = gpt(copied.path(), &command, PATIENCE);
                let case = format!("{} at {folder}/{name}, {}", replacement.0, typed(&command));
                faults.extend(ended.fault().map(|fault| format!("{case}: {fault}")));
                // An empty folder that a killed save might have left is cleared away.
                let is_unfinished = name == names[2] && replacement.0 == "a folder";
                if kind(&there).ok() != Some(was) && !is_unfinished {
                    faults.push(format!("{case}: it is gone"));
                }
                if !ended.is_ok() {
                    faults.push(format!("{case}: {}", ended.stderr));
                }
            }
        }
    }
    report("beside a run's files", cases, &faults);
}

#[test]
fn a_file_that_is_given_to_a_command_may_be_anything() {
    let good = folder_with_a_run();
    let text = |flag: &str, file: &str| {
        let mut arguments = train("--data");
        arguments.extend(words(&format!("{flag} {file} --out-dir new")));
        arguments
    };
    let commands = [
        ("data.bin", text("--data", "data.bin")),
        ("data.txt", text("--data", "data.txt")),
        ("c.toml", text("--config", "c.toml")),
        ("data.bin", words("eval --data data.bin -m run --threads 1")),
        ("data.txt", words("eval --data data.txt -m run --threads 1")),
        ("data.txt", words("tokenize --file data.txt")),
    ];
    let (mut cases, mut faults) = (0, Vec::new());
    for (file, command) in commands {
        for replacement in REPLACEMENTS {
            if replacement.0 == "a pipe" && file != "data.bin" {
                continue; // it is read as a file is, once somebody writes into it
            }
            cases += 1;
            let folder = copy_of(good.path());
            replace(&folder.path().join(file), replacement);
            // 2.5 billion tokens of id 0 are a corpus, which takes its time but no memory.
            let runs_on = file == "data.bin" && replacement.0.starts_with("5 GB");
            let limits = match runs_on {
                true => limits_with(COMPUTING),
                false => limits(),
            };
            let ended = gpt_under(&limits, folder.path(), &command, PATIENCE);
            if ended.status.is_none() && runs_on {
                continue;
            }
            if let Some(fault) = ended.fault() {
                let case = format!("{file} is {}, {}", replacement.0, typed(&command));
                faults.push(format!("{case}: {fault}"));
            }
        }
    }
    report("files given to a command", cases, &faults);
}
