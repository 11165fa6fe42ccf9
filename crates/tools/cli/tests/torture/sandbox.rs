//! Runs `gpt` within limits of time and memory, and judges how it ended.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::Duration;

use tempfile::TempDir;

/// A longer run is a hang: a process waits forever.
pub(crate) const PATIENCE: Duration = Duration::from_secs(600);

/// How often it is looked whether a process has ended.
const LOOK: Duration = Duration::from_millis(2);

/// More seconds of computing than this are too many for the long form, which runs where somebody
/// looks; the short one runs on any machine, and only finds what doesn't end.
pub(crate) const COMPUTING: u32 = 5;
const COMPUTING_ANYWHERE: u32 = 20 * COMPUTING;

/// The signal of a process that computes for longer.
const SIGXCPU: i32 = 24;

/// KiB of writable memory: the 40 MiB without which a model of some hundred parameters is not
/// trained, and 64 MiB.
///
/// Address space isn't a measure: each new thread of glibc's malloc reserves 64 MiB of it for a
/// moment, and an allocation of a few bytes in another thread fails meanwhile.
pub(crate) const MEMORY: u32 = 104 << 10;

/// A model of some hundred parameters on `data.bin`, as flags with a value each.
const TINY: &str = "--data data.bin --vocab-size 61 --n-layers 1 --n-heads 2 --emb-dim 8 \
    --context-length 8 --batch-size 4 --threads 1 --warmup-steps 1 --eval-iters 1 \
    --eval-interval 1 --max-steps 2";

/// Every which case is tried: with `TORTURE=1` each, with `TORTURE=9` every ninth, without it what
/// is `short`.
pub(crate) fn every(short: usize) -> usize {
    let asked = std::env::var("TORTURE").ok();
    asked.map_or(short, |text| text.parse().expect("a number in TORTURE"))
}

/// Whether more is asked for than the short form.
pub(crate) fn is_long() -> bool {
    std::env::var_os("TORTURE").is_some()
}

/// How a process ended.
pub(crate) struct Ended {
    /// None if it was ended because it took too long.
    pub(crate) status: Option<ExitStatus>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    pub(crate) fn is_ok(&self) -> bool {
        self.status.is_some_and(|status| status.success())
    }

    /// Whether an allocation failed. This ends the program, which is acceptable for needs that
    /// can't be computed in advance: for a tokenizer's work on a text.
    pub(crate) fn is_out_of_memory(&self) -> bool {
        const SIGABRT: i32 = 6;
        let signal = self.status.and_then(|status| status.signal());
        signal == Some(SIGABRT) && self.stderr.contains("memory allocation of")
    }

    /// The fault in the way it ended; an error in one line is fine.
    pub(crate) fn fault(&self) -> Option<String> {
        let Some(status) = self.status else {
            return Some("it hangs".to_owned());
        };
        if let Some(signal) = status.signal() {
            return Some(format!("signal {signal}: {}", self.stderr));
        }
        if self.stderr.contains("panicked") {
            return Some(self.stderr.clone());
        }
        if self.stdout.contains(|c: char| c.is_control() && c != '\n') {
            return Some(format!("on standard output: {:?}", self.stdout));
        }
        let lines: Vec<&str> = self
            .stderr
            .lines()
            .filter(|line| !line.is_empty())
            .collect();
        // The last line is the failure; earlier lines are notes.
        let (last, before) = lines.split_last().unwrap_or((&"", &[]));
        let is_told = last.starts_with("error: ") && !before.iter().any(|l| l.starts_with("error"));
        match status.code() {
            Some(0) => None,
            Some(1 | 2) if is_told => {
                let steers = lines.iter().find(|line| line.contains(char::is_control));
                steers.map(|line| format!("{line:?}"))
            }
            _ => Some(format!("{status}: {}", self.stderr)),
        }
    }
}

/// A shell's commands before `gpt`, for [`gpt_under`]: set the limits.
pub(crate) fn limits() -> String {
    let seconds = if is_long() {
        COMPUTING
    } else {
        COMPUTING_ANYWHERE
    };
    format!("ulimit -d {MEMORY}; ulimit -S -t {seconds}; exec")
}

/// The program: `GPT` in the environment names another than the one that cargo has built.
pub(crate) fn program() -> OsString {
    std::env::var_os("GPT").unwrap_or_else(|| env!("CARGO_BIN_EXE_gpt").into())
}

/// Runs `gpt` in a folder, without an input.
pub(crate) fn gpt(folder: &Path, arguments: &[OsString], patience: Duration) -> Ended {
    gpt_under(&limits(), folder, arguments, patience)
}

/// Runs `gpt` behind a line of the shell: `exec`, or a program that runs another.
pub(crate) fn gpt_under(
    shell: &str,
    folder: &Path,
    arguments: &[OsString],
    patience: Duration,
) -> Ended {
    start(shell, folder, arguments).end(patience)
}

/// A process that runs.
pub(crate) struct Running {
    child: Child,
    files: [File; 2],
}

/// Starts what [`gpt_under`] runs.
pub(crate) fn start(shell: &str, folder: &Path, arguments: &[OsString]) -> Running {
    let files = [(); 2].map(|()| tempfile::tempfile().expect("a temporary file"));
    let [out, err] = files
        .each_ref()
        .map(|file| file.try_clone().expect("a handle"));
    let child = Command::new("sh")
        .args(["-c", &format!("{shell} \"$@\""), "sh"])
        .arg(program())
        .args(arguments)
        .current_dir(folder)
        // The stacks of 64 threads would take more memory than the limit.
        .env("RAYON_NUM_THREADS", "2")
        .stdin(Stdio::null())
        .stdout(out)
        .stderr(err)
        .spawn()
        .expect("sh runs");
    Running { child, files }
}

impl Running {
    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("it is ours").is_none()
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("it is ours");
        self.child.wait().expect("it is ours");
    }

    /// Waits for its end, and kills it if that doesn't come.
    ///
    /// Counts looks instead of time, so that a pause of all processes isn't a hang.
    pub(crate) fn end(mut self, patience: Duration) -> Ended {
        let mut looks = patience.div_duration_f64(LOOK) as u64;
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("it is ours") {
                break Some(status);
            }
            if looks == 0 {
                self.kill();
                break None;
            }
            looks -= 1;
            sleep(LOOK);
        };
        let [stdout, stderr] = self.files.map(|mut file| {
            let mut text = Vec::new();
            std::io::Seek::rewind(&mut file).expect("a file");
            std::io::Read::read_to_end(&mut file, &mut text).expect("a file");
            String::from_utf8_lossy(&text).into_owned()
        });
        Ended {
            status: status.filter(|status| status.signal() != Some(SIGXCPU)),
            stdout,
            stderr,
        }
    }
}

/// Words as arguments.
pub(crate) fn words(text: &str) -> Vec<OsString> {
    text.split_whitespace().map(OsString::from).collect()
}

/// `train` with the flags of [`TINY`], but for `without`.
pub(crate) fn train(without: &str) -> Vec<OsString> {
    let mut arguments = words("train");
    let flags = words(TINY);
    let flags = flags.chunks(2).filter(|flag| flag[0] != *without);
    arguments.extend(flags.flatten().cloned());
    arguments
}

/// A folder with `data.bin`, 400 ids below 61, `data.txt`, `options.toml`, and a finished run.
pub(crate) fn folder_with_a_run() -> TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path();
    let ids = (0..400u32).map(|i| (i * i / 7 + 3 * i) % 61);
    let bytes: Vec<u8> = ids.flat_map(|id| (id as u16).to_le_bytes()).collect();
    fs::write(path.join("data.bin"), bytes).expect("a file");
    fs::write(
        path.join("data.txt"),
        "Marta looked at the river. ".repeat(40),
    )
    .expect("a file");
    let mut arguments = train("");
    arguments.extend(words("--out-dir run"));
    let ended = gpt(path, &arguments, PATIENCE);
    assert!(ended.is_ok(), "{}", ended.stderr);
    fs::copy(path.join("run/options.toml"), path.join("c.toml")).expect("a file");
    folder
}

/// Makes a named pipe.
pub(crate) fn pipe(path: &Path) {
    let made = Command::new("mkfifo").arg(path).status();
    assert!(made.expect("mkfifo runs").success());
}

/// A copy of a folder and all that is in it, which vanishes.
pub(crate) fn copy_of(folder: &Path) -> TempDir {
    let copied = tempfile::tempdir().expect("a temporary folder");
    copy(folder, copied.path());
    copied
}

pub(crate) fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        let to = to.join(entry.file_name());
        match entry.file_type().expect("a type").is_dir() {
            true => copy(&entry.path(), &to),
            false => drop(fs::copy(entry.path(), to).expect("a file")),
        }
    }
}

/// The paths of all files below a folder, from there.
pub(crate) fn files_below(folder: &Path) -> Vec<String> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let entry = entry.expect("an entry");
        let name = entry.file_name().to_string_lossy().into_owned();
        match entry.file_type().expect("a type").is_dir() {
            true => {
                let below = files_below(&entry.path()).into_iter();
                files.extend(below.map(|file| format!("{name}/{file}")));
            }
            false => files.push(name),
        }
    }
    files.sort();
    files
}

/// All regular files below a folder, byte for byte; none if it isn't there.
pub(crate) fn contents(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let names = match folder.exists() {
        true => files_below(folder),
        false => Vec::new(),
    };
    let read = |name: String| {
        let path = folder.join(&name);
        let is_file = fs::symlink_metadata(&path).ok()?.is_file();
        is_file.then(|| (name, fs::read(path).expect("a file")))
    };
    names.into_iter().filter_map(read).collect()
}

/// Arguments as one would type them.
pub(crate) fn command_line(arguments: &[OsString]) -> String {
    let shown = arguments.iter().map(|word| OsStr::to_string_lossy(word));
    format!("gpt {}", shown.collect::<Vec<_>>().join(" "))
}

/// Fails with all faults; prints the figures.
#[track_caller]
pub(crate) fn report(what: &str, cases: usize, faults: &[String]) {
    println!("{what}: {cases} cases, {} faults", faults.len());
    assert!(faults.is_empty(), "{what}:\n{}", faults.join("\n"));
}
