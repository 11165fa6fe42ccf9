//! Runs `gpt` with limits on time and memory, and checks whether it ends properly.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::Duration;

use tempfile::TempDir;

/// Time after which a process is considered to hang.
pub(crate) const PATIENCE: Duration = Duration::from_secs(600);

/// Time between two checks of whether a process has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Limit on the CPU time of a `gpt` process, in seconds, if the environment variable `TORTURE` is
/// set. A process that reaches the limit is ended.
pub(crate) const CPU_SECONDS: u32 = 5;
/// Limit on the CPU time of a `gpt` process, in seconds, in a normal test run, without the
/// environment variable `TORTURE`. It is higher than [`CPU_SECONDS`], because normal test runs also
/// take place on slow machines, so it only detects processes that never end.
const CPU_SECONDS_SHORT_FORM: u32 = 20 * CPU_SECONDS;

/// Number of the signal that ends a process when it reaches the limit on CPU time.
const SIGXCPU: i32 = 24;

/// Limit on the writable memory of a process in KiB. Training a model of about 2,000 parameters
/// requires 40 MiB, so the limit leaves 64 MiB to spare.
///
/// We limit the writable memory instead of the address space, because glibc's `malloc` briefly
/// reserves 64 MiB of address space for each new thread. If a limit on the address space were
/// reached at that moment, even an allocation of a few bytes in another thread would fail.
pub(crate) const MEMORY: u32 = 104 << 10;

/// Options that train a model with about 2,000 parameters on the file `data.bin`. Each option must
/// be followed by its value, because [`train`] splits the string into pairs.
const TINY: &str = "--data data.bin --vocab-size 61 --n-layers 1 --n-heads 2 --emb-dim 8 \
    --context-length 8 --batch-size 4 --threads 1 --warmup-steps 1 --eval-iters 1 \
    --eval-interval 1 --max-steps 2";

/// Returns a number N that tells a test to try only every Nth of its cases. This number is the
/// value of the environment variable `TORTURE`, or `short` if the variable isn't set.
pub(crate) fn every(short: usize) -> usize {
    let asked = std::env::var("TORTURE").ok();
    asked.map_or(short, |text| text.parse().expect("a number in TORTURE"))
}

/// Returns true if the environment variable `TORTURE` is set, which usually requests all test cases
/// (see [`every`]). Tests then also try additional kinds of cases.
pub(crate) fn is_long() -> bool {
    std::env::var_os("TORTURE").is_some()
}

/// The exit status and the output of a process.
pub(crate) struct Ended {
    /// Exit status of the process, or `None` if the process was killed because it took too long.
    pub(crate) status: Option<ExitStatus>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    pub(crate) fn is_ok(&self) -> bool {
        self.status.is_some_and(|status| status.success())
    }

    /// Returns true if the program aborted because it couldn't allocate memory. A test may accept
    /// this when the required memory can't be estimated in advance, for example when a tokenizer is
    /// loaded.
    pub(crate) fn is_out_of_memory(&self) -> bool {
        const SIGABRT: i32 = 6;
        let signal = self.status.and_then(|status| status.signal());
        signal == Some(SIGABRT) && self.stderr.contains("memory allocation of")
    }

    /// Returns a description of what went wrong, or `None` if `gpt` ended properly. It ends
    /// properly if it succeeds, or if it prints a one-line error message and ends with exit code 1
    /// or 2. A panic, a signal, or a control character in the output is a fault.
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
        // The last line on standard error must be the error message. If there are other lines
        // before it, they must be notes and not further errors.
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

/// Returns the beginning of a shell command that limits the CPU time and the writable memory.
/// [`gpt_under`] appends `gpt` and its arguments.
pub(crate) fn limits() -> String {
    let seconds = if is_long() {
        CPU_SECONDS
    } else {
        CPU_SECONDS_SHORT_FORM
    };
    format!("ulimit -d {MEMORY}; ulimit -S -t {seconds}; exec")
}

/// Returns the path of the program under test. This is the value of the environment variable `GPT`
/// if it is set, and otherwise the path of the program that Cargo has built.
pub(crate) fn program() -> OsString {
    std::env::var_os("GPT").unwrap_or_else(|| env!("CARGO_BIN_EXE_gpt").into())
}

/// Runs `gpt` in a folder, with an empty standard input and with limits on CPU time and writable
/// memory. Kills the process if it runs longer than `patience`.
pub(crate) fn gpt(folder: &Path, arguments: &[OsString], patience: Duration) -> Ended {
    gpt_under(&limits(), folder, arguments, patience)
}

/// Runs `gpt` with a shell. `shell` is the beginning of a shell command, to which the path of `gpt`
/// and its arguments are appended. It must end with `exec`, or with a program such as strace that
/// runs another program.
pub(crate) fn gpt_under(
    shell: &str,
    folder: &Path,
    arguments: &[OsString],
    patience: Duration,
) -> Ended {
    start(shell, folder, arguments).end(patience)
}

/// A running process.
pub(crate) struct Running {
    child: Child,
    files: [File; 2],
}

/// Starts `gpt` as in [`gpt_under`], but doesn't wait for it.
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
        // Limits the number of threads. Otherwise, `gpt` would start one thread per core, and on a
        // machine with 64 cores, the stacks of all threads would need more memory than the limit
        // allows.
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

    /// Waits until the process ends. Kills the process if it takes longer than `patience`.
    ///
    /// The time is measured by counting how often the process has been polled, not with a clock.
    /// Otherwise, a process would be killed just because the whole machine was suspended for a
    /// while.
    pub(crate) fn end(mut self, patience: Duration) -> Ended {
        let mut polls = patience.div_duration_f64(POLL_INTERVAL) as u64;
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("it is ours") {
                break Some(status);
            }
            if polls == 0 {
                self.kill();
                break None;
            }
            polls -= 1;
            sleep(POLL_INTERVAL);
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

/// Splits a string into arguments at whitespace.
pub(crate) fn words(text: &str) -> Vec<OsString> {
    text.split_whitespace().map(OsString::from).collect()
}

/// Returns a training command with all options in [`TINY`] except the option `without`.
pub(crate) fn train(without: &str) -> Vec<OsString> {
    let mut arguments = words("train");
    let flags = words(TINY);
    let flags = flags.chunks(2).filter(|flag| flag[0] != *without);
    arguments.extend(flags.flatten().cloned());
    arguments
}

/// Creates a folder that contains a finished training run (`run`), a file of 400 token IDs from 0
/// to 60 (`data.bin`), a text file (`data.txt`), and an options file (`c.toml`).
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

/// Creates a named pipe.
pub(crate) fn pipe(path: &Path) {
    let made = Command::new("mkfifo").arg(path).status();
    assert!(made.expect("mkfifo runs").success());
}

/// Copies a folder with its contents to a temporary folder.
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

/// Returns the paths of all files in a folder and its subfolders, relative to the folder.
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

/// Returns the relative paths and the contents of all regular files in a folder and its subfolders.
/// Returns an empty map if the folder doesn't exist.
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

/// Formats a command as a user would type it.
pub(crate) fn command_line(arguments: &[OsString]) -> String {
    let shown = arguments.iter().map(|word| OsStr::to_string_lossy(word));
    format!("gpt {}", shown.collect::<Vec<_>>().join(" "))
}

/// Prints the number of test cases and the number of faults. Panics if there are any faults.
#[track_caller]
pub(crate) fn report(what: &str, cases: usize, faults: &[String]) {
    println!("{what}: {cases} cases, {} faults", faults.len());
    assert!(faults.is_empty(), "{what}:\n{}", faults.join("\n"));
}
