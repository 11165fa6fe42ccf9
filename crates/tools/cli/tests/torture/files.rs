//! Tests what happens if a file of a training run or an input file of a command is replaced with
//! something unexpected, such as an empty file, a folder or a device.

use std::fs::{self, File};
use std::path::Path;

use crate::sandbox::{
    PATIENCE, command_line, copy_of, every, files_below, folder_with_a_run, gpt, pipe, report,
    train, words,
};

/// What a test puts in place of a file, such as a folder or an empty file. It consists of a
/// description and a function that creates the replacement at the path of the file.
type Replacement = (&'static str, fn(&Path));

/// Everything that a test puts in place of a file, one after another.
const REPLACEMENTS: [Replacement; 9] = [
    ("nothing", |_| {}),
    ("an empty file", |path| fs::write(path, "").expect("a file")),
    ("half of itself", |_| {}), // The function `replace` handles this case and the next one.
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
        // Damages the content of the file by replacing each digit 2 with the digit 4. This changes
        // version numbers, the dimensions of the model, and hashes.
        let other = |byte: &u8| if *byte == b'2' { b'4' } else { *byte };
        fs::write(path, old.iter().map(other).collect::<Vec<_>>()).expect("a file");
    }
}

/// Commands that read a run.
const COMMANDS: [&str; 6] = [
    "train --resume run --max-steps 3",
    "info run",
    "eval -f data.bin -m run --threads 1",
    "convert run model",
    "generate --tokens 1 -n 2 -m run --threads 1",
    "inspect --tokens 1 -m run --threads 1",
];

#[test]
fn a_replaced_file_of_a_run_is_refused_in_a_line_and_costs_no_other() {
    let good = folder_with_a_run();
    let files = files_below(&good.path().join("run"));
    let (mut tried, mut faults) = (0, Vec::new());
    let commands = COMMANDS.map(words);
    let cases = files.iter().flat_map(|file| {
        let replaced = REPLACEMENTS.map(|replacement| (file, replacement));
        let commands = &commands;
        let of = move |replaced| commands.iter().map(move |command| (replaced, command));
        replaced.into_iter().flat_map(of)
    });
    for ((file, replacement), command) in cases.step_by(every(23)) {
        tried += 1;
        let folder = copy_of(good.path());
        replace(&folder.path().join("run").join(file), replacement);
        let ended = gpt(folder.path(), command, PATIENCE);
        let case = format!("{file} is {}, {}", replacement.0, command_line(command));
        if let Some(fault) = ended.fault() {
            faults.push(format!("{case}: {fault}"));
        }
        // A command that fails because of a damaged file must not change the checkpoints. This
        // isn't checked if the damaged file is the loss curve: a run draws the loss curve after
        // saving its checkpoints, so the checkpoints may already have changed when the command
        // fails.
        if ended.is_ok() || file.starts_with("loss.") {
            continue;
        }
        for other in files.iter().filter(|other| *other != file) {
            let contents = |root: &Path| fs::read(root.join("run").join(other)).ok();
            let is_kept = other.starts_with("checkpoints/");
            if is_kept && contents(folder.path()) != contents(good.path()) {
                faults.push(format!("{case}: the failed command changed {other}"));
            }
        }
    }
    report("files of a run replaced", tried, &faults);
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
        ("data.bin", words("eval -f data.bin -m run --threads 1")),
        ("data.txt", words("eval -f data.txt -m run --threads 1")),
        ("data.txt", words("tokenize --file data.txt")),
    ];
    let (mut tried, mut faults) = (0, Vec::new());
    let cases = commands
        .iter()
        .flat_map(|(file, command)| REPLACEMENTS.map(|replacement| (*file, command, replacement)));
    // Skips two kinds of replacements that are valid input, but make a command run for too long. A
    // text file that is replaced with a pipe makes the command wait until another process writes to
    // the pipe, and 5 GB of zeros in `data.bin` are a valid list of 2.5 billion token IDs.
    let cases = cases.filter(|(file, _, (name, _))| match *file {
        "data.bin" => !name.starts_with("5 GB"),
        _ => *name != "a pipe",
    });
    for (file, command, replacement) in cases.step_by(every(5)) {
        tried += 1;
        let folder = copy_of(good.path());
        replace(&folder.path().join(file), replacement);
        let ended = gpt(folder.path(), command, PATIENCE);
        if let Some(fault) = ended.fault() {
            let case = format!("{file} is {}, {}", replacement.0, command_line(command));
            faults.push(format!("{case}: {fault}"));
        }
    }
    report("files given to a command", tried, &faults);
}
