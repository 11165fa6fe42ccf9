//! What is there already where a command is to write: devices, pipes, links and what others made
//! stay what they are.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::fs::{FileTypeExt, symlink};
use std::path::Path;
use std::thread;

use crate::sandbox::{
    PATIENCE, contents, copy_of, folder_with_a_run, gpt, pipe, report, train, typed, words,
};

/// A name, and what makes it where the output will be.
type There = (&'static str, fn(&Path));

const THERE: [There; 10] = [
    ("nothing", |_| {}),
    ("a file", |path| fs::write(path, "mine").expect("a file")),
    ("a folder", |path| {
        fs::create_dir(path).expect("a folder");
        fs::write(path.join("notes.txt"), "mine").expect("a file");
    }),
    ("a tokenizer", |path| {
        fs::create_dir(path).expect("a folder");
        for name in ["vocab.json", "merges.txt", "tokenizer.json"] {
            fs::write(path.join(name), "mine").expect("a file");
        }
    }),
    ("a pipe", pipe),
    ("a device", |path| {
        symlink("/dev/null", path).expect("a link")
    }),
    ("a full device", |path| {
        symlink("/dev/full", path).expect("a link")
    }),
    ("a link to nothing", |path| {
        symlink("elsewhere", path).expect("a link")
    }),
    ("a link to a file", |path| {
        fs::write(path.with_file_name("victim"), "mine").expect("a file");
        symlink("victim", path).expect("a link");
    }),
    ("a link to itself", |path| {
        symlink("out", path).expect("a link")
    }),
];

/// What a path is, where it leads to not counted, and of a link what it says.
fn kind(path: &Path) -> Option<String> {
    let found = fs::symlink_metadata(path).ok()?.file_type();
    let link = fs::read_link(path).ok();
    Some(format!("{found:?}, pipe: {}, {link:?}", found.is_fifo()))
}

#[test]
fn what_is_there_where_a_command_writes_stays_what_it_is() {
    let good = folder_with_a_run();
    let mut training = train("");
    training.extend(words("--out-dir out"));
    // A file that a user names to be written is replaced; a folder, or what is in it, never.
    let replaces = |command: &[OsString]| {
        let names = ["inspect", "tokenize", "gguf"].map(OsString::from);
        command.iter().any(|word| names.contains(word))
    };
    let commands: [Vec<OsString>; 5] = [
        words("inspect --tokens 1,2 -m run --threads 1 --html out"),
        words("tokenize a -o out"),
        words("convert run out"),
        words("convert run out --to gguf"),
        training,
    ];
    let (mut cases, mut faults) = (0, Vec::new());
    for command in &commands {
        for (name, make) in THERE {
            // Not every container has it.
            if name == "a full device" && !Path::new("/dev/full").exists() {
                continue;
            }
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
            let reader = (name == "a pipe").then(|| {
                let pipe = out.clone();
                thread::spawn(move || fs::read(pipe).map_or(0, |bytes| bytes.len()))
            });
            let ended = gpt(folder.path(), command, PATIENCE);
            let mut case = format!("{} where there is {name}", typed(command));
            if let Some(fault) = ended.fault() {
                faults.push(format!("{case}: {fault}"));
            }
            case.push_str(&format!(", {}: {}", ended.is_ok(), ended.stderr));
            if was.is_some() && kind(&out) != was {
                faults.push(format!("{case}: it is now {:?}", kind(&out)));
            }
            if let Some(reader) = reader {
                // Whoever didn't write leaves it waiting.
                while !reader.is_finished() {
                    drop(File::options().read(true).write(true).open(&out));
                    thread::yield_now();
                }
                let read = reader.join().expect("it reads");
                if ended.is_ok() && read == 0 {
                    faults.push(format!("{case}: nothing came through"));
                }
                continue;
            }
            if !replaces(command) && mine(folder.path()) != before {
                faults.push(format!("{case}: somebody else's files are gone"));
            }
        }
    }
    report("outputs", cases, &faults);
}
