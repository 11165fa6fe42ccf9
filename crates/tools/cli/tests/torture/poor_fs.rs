//! Tests commands on file systems that lack a feature, such as hard links, renaming without
//! replacing, locks, fsync for folders, or stable inode numbers. All commands that write files must
//! also work there and produce the same results.

use std::fs;
use std::process::Command;

use crate::calls::has_strace;
use crate::sandbox::{
    PATIENCE, command_line, contents, copy_of, every, folder_with_a_run, gpt, gpt_under, report,
    train, words,
};

/// File systems with various defects. Each entry consists of three parts: the defects that the
/// library `poor_fs.c` simulates when it is preloaded into `gpt` (system calls with the error
/// numbers that they return, or unstable inode numbers), whether strace makes `renameat2` fail, and
/// words that must occur in the note that `gpt` prints.
const KINDS: [(&str, bool, &[&str]); 11] = [
    ("link=1", false, &[]),
    ("link=1", true, &["hard links"]),
    ("link=95", true, &["hard links"]),
    ("flock=38", false, &["locks"]),
    ("flock=95", false, &["locks"]),
    ("flock=37", false, &["locks"]),
    ("flock=9", false, &["locks"]),
    ("fsync=22", false, &["fsync"]),
    ("fsync=95", false, &["fsync"]),
    ("inode", false, &[]),
    (
        "link=1,flock=38,fsync=22,inode",
        true,
        &["hard links", "locks", "fsync"],
    ),
];

#[test]
fn commands_that_write_work_on_poor_file_systems() {
    let tools = tempfile::tempdir().expect("a temporary folder");
    let library = tools.path().join("poor.so");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/torture/poor_fs.c");
    let compiled = Command::new("cc")
        .args(["-O1", "-shared", "-fPIC", "-o"])
        .args([library.as_os_str(), source.as_ref()])
        .status();
    if !has_strace() || !compiled.is_ok_and(|status| status.success()) {
        println!("skipped: no C compiler");
        return;
    }
    let mut first = train("");
    first.extend(words("--out-dir new"));
    let commands = [
        first,
        words("train --resume run --max-steps 3"),
        words("convert run folder"),
        words("convert run file.gguf"),
        words("tokenize --file data.txt -o ids.bin"),
        words("inspect --tokens 1,2 -m run --threads 1 --html page.html"),
    ];
    let good = folder_with_a_run();
    let (mut tried, mut faults) = (0, Vec::new());
    let cases = KINDS
        .iter()
        .flat_map(|kind| commands.iter().map(move |command| (kind, command)));
    for ((calls, renames_fail, notes), command) in cases.step_by(every(5)) {
        tried += 1;
        let [rich, poor] = [(); 2].map(|()| copy_of(good.path()));
        let expected = gpt(rich.path(), command, PATIENCE);
        assert!(expected.is_ok(), "{}", expected.stderr);
        let inject = match renames_fail {
            true => "-e inject=renameat2:error=EINVAL",
            false => "",
        };
        let library = library.display();
        let strace = format!(
            "exec strace -f -o /dev/null -e trace=renameat2 {inject} -E POOR={calls} -E LD_PRELOAD={library}"
        );
        let case = format!("{calls} {inject}, {}", command_line(command));
        let ended = gpt_under(&strace, poor.path(), command, PATIENCE);
        let told: Vec<&str> = ended
            .stderr
            .lines()
            .filter(|l| l.contains("file system"))
            .collect();
        let is_told = match notes {
            [] => told.is_empty(),
            notes => told.len() == 1 && notes.iter().all(|note| told[0].contains(note)),
        };
        // After each command, the files that it wrote to the poor file system, which lacks a
        // feature such as hard links or locks, are compared with those that it wrote to a normal
        // file system. Some files are left out of the comparison, because they contain random IDs,
        // times or paths and therefore differ from run to run.
        let compared = |folder: &std::path::Path| {
            let mut files = contents(folder);
            files.retain(|name, _| {
                let name = name.rsplit('/').next().unwrap_or_default();
                let own = [
                    "run.json",
                    ".lock",
                    "log.jsonl",
                    "options.toml",
                    "manifest.json",
                ];
                !own.contains(&name) && !name.ends_with(".unfinished")
            });
            files
        };
        if !ended.is_ok() || !is_told {
            faults.push(format!("{case}: {}", ended.stderr));
        } else if compared(rich.path()) != compared(poor.path()) {
            faults.push(format!("{case}: other files"));
        }
        // Even on a file system that lacks a feature, such as hard links or renaming without
        // replacing, a command must refuse to replace an existing output file.
        if let Some(output) = ["file.gguf", "ids.bin", "page.html"]
            .iter()
            .find(|output| command.iter().any(|word| word == *output))
        {
            fs::write(poor.path().join(output), "mine").expect("a file");
            let again = gpt_under(&strace, poor.path(), command, PATIENCE);
            let left = fs::read(poor.path().join(output)).expect("a file");
            if again.is_ok() || left != b"mine" {
                faults.push(format!("{case}: {output} was replaced"));
            }
        }
    }
    report("poor file systems", tried, &faults);
}
