//! Tests commands whose output path already exists. A command must not change an existing file,
//! folder, link or device.
//!
//! The tests of the crate `atomic-file` check that output can be written to a pipe.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::sandbox::{
    PATIENCE, command_line, contents, copy_of, folder_with_a_run, gpt, report, train, words,
};

/// What exists at the output path of a command before the command starts, such as a file or a
/// folder. The first field is its description, and the second field is a function that creates it
/// at the given path.
type Existing = (&'static str, fn(&Path));

const EXISTING: [Existing; 6] = [
    ("nothing", |_| {}),
    ("a file", |path| fs::write(path, "mine").expect("a file")),
    ("a folder", |path| {
        fs::create_dir(path).expect("a folder");
        fs::write(path.join("notes.txt"), "mine").expect("a file");
    }),
    ("a device", |path| {
        symlink("/dev/null", path).expect("a link")
    }),
    ("a link to nothing", |path| {
        symlink("elsewhere", path).expect("a link")
    }),
    ("a link to a file", |path| {
        fs::write(path.with_file_name("victim"), "mine").expect("a file");
        symlink("victim", path).expect("a link");
    }),
];

/// Returns the type of the file at a path, without following links. If the file is a link, the
/// result also contains the target of the link. Returns `None` if nothing exists at the path.
fn kind(path: &Path) -> Option<String> {
    let found = fs::symlink_metadata(path).ok()?.file_type();
    let link = fs::read_link(path).ok();
    Some(format!("{found:?}, {link:?}"))
}

#[test]
fn what_is_there_where_a_command_writes_stays_what_it_is() {
    let good = folder_with_a_run();
    let mut training = train("");
    training.extend(words("--out-dir out"));
    let commands: [Vec<OsString>; 5] = [
        words("inspect --tokens 1,2 -m run --threads 1 --html out"),
        words("tokenize a -o out"),
        words("convert run out"),
        words("convert run out --layout gguf"),
        training,
    ];
    let (mut cases, mut faults) = (0, Vec::new());
    for command in &commands {
        for (name, make) in EXISTING {
            cases += 1;
            let folder = copy_of(good.path());
            let out = folder.path().join("out");
            make(&out);
            let was = kind(&out);
            let mine = |folder: &Path| {
                let mut all = contents(folder);
                all.retain(|_, bytes| bytes == b"mine");
                all
            };
            let before = mine(folder.path());
            let ended = gpt(folder.path(), command, PATIENCE);
            let mut case = format!("{} where there is {name}", command_line(command));
            if let Some(fault) = ended.fault() {
                faults.push(format!("{case}: {fault}"));
            }
            case.push_str(&format!(", {}: {}", ended.is_ok(), ended.stderr));
            if was.is_some() && kind(&out) != was {
                faults.push(format!("{case}: it is now {:?}", kind(&out)));
            }
            if mine(folder.path()) != before {
                faults.push(format!(
                    "{case}: the command changed or deleted files that it hadn't created"
                ));
            }
        }
    }
    report("outputs", cases, &faults);
}
