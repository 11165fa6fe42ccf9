//! docs/errors.md: what `gpt` says to bad input, as it said it.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use crate::files::{REPLACEMENTS, commands, replace};
use crate::sandbox::{
    MEMORY, PATIENCE, copy_of, files_below, folder_with_a_run, gpt, is_long, typed,
};

/// Hashes differ from run to run.
fn without_hashes(line: &str) -> String {
    let is_hash = |word: &str| word.len() == 64 && word.bytes().all(|b| b.is_ascii_hexdigit());
    let words = line.split(' ').map(|word| {
        let bare = word.trim_end_matches([',', ';']);
        match is_hash(bare) {
            true => format!("…{}", &word[bare.len()..]),
            false => word.to_owned(),
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

#[test]
fn every_refusal_is_written_down() {
    if !is_long() {
        println!("skipped: `cargo xtask torture` writes docs/errors.md");
        return;
    }
    let good = folder_with_a_run();
    let mut page = format!(
        "# Errors\n\n\
        What `gpt` says when a file of a run was replaced, as `cargo xtask torture` found it.\n\
        The line is on standard error and begins with `error:`; the exit code is 1.\n\
        Where nothing is listed, the command doesn't read the file, or needs no more than is there.\n\
        The program had {} MiB of writable memory; with more, \"can't read: out of memory\" reads \"more than 67108864 bytes, the most that is read\".\n",
        MEMORY >> 10
    );
    let files = files_below(&good.path().join("run"));
    let older = "checkpoints/step-00000001";
    for (command, quick) in commands() {
        if !quick {
            continue;
        }
        let _ = write!(
            page,
            "\n## `{}`\n\n| file | is now | error |\n|---|---|---|\n",
            typed(&command)
        );
        for file in files.iter().filter(|file| !file.starts_with(older)) {
            for replacement in REPLACEMENTS {
                let folder = copy_of(good.path());
                replace(&folder.path().join("run").join(file), replacement);
                let ended = gpt(folder.path(), &command, PATIENCE);
                let told = ended.stderr.trim().lines().next_back();
                if let Some(line) = told.and_then(|line| line.strip_prefix("error: ")) {
                    let line = without_hashes(line).replace('|', "\\|");
                    let _ = writeln!(page, "| `{file}` | {} | {line} |", replacement.0);
                }
            }
        }
    }
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/errors.md");
    fs::write(docs, page).expect("docs/errors.md");
}
