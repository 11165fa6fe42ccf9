//! Builds the programs that the reader writes for the exercises, and runs them with a time limit.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::io::{BufRead, BufReader, IsTerminal, Read, Write, pipe, stderr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use atomic_file::read_small_file;
use practice::REPORT_FILE;
use serde::Deserialize;

use super::folder::{GPT, OPT_LEVELS};
use crate::workspace::{cargo, print, print_bytes, root};

/// Largest number of bytes of a program's output that are shown.
const SHOWN: usize = 16 << 10;

/// Largest size of a check's report, in bytes.
const LARGEST_REPORT: u64 = 1 << 20;

/// Time between two checks of whether a program is still running.
const PAUSE: Duration = Duration::from_millis(20);

/// Time to wait for further output after a program has ended. If another process has inherited the
/// pipe, the pipe may stay open for longer than this.
const LAST_OUTPUT: Duration = Duration::from_millis(200);

/// The result of a build.
#[derive(Default)]
pub(super) struct Programs {
    /// Paths of the programs that were built, by their names.
    pub(super) built: BTreeMap<String, PathBuf>,
    /// Names of the programs that don't compile.
    pub(super) broken: BTreeSet<String>,
}

/// A line of the output of `cargo build --message-format=json`.
#[derive(Deserialize)]
struct Message {
    target: Option<Target>,
    /// Path of the executable, if this message reports that a program was built.
    executable: Option<PathBuf>,
    /// Error or warning of the compiler.
    message: Option<Diagnostic>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
}

#[derive(Deserialize)]
struct Diagnostic {
    level: String,
    rendered: Option<String>,
}

/// Builds the programs `names` of the package in `folder`. Messages of the compiler about these
/// programs are shown only if `shows` is true. Messages about other code are always shown.
///
/// # Errors
/// Returns an error if cargo can't be started, or if it fails for a reason other than an error in
/// one of the programs.
pub(super) fn build(folder: &Path, names: &[&str], shows: bool) -> Result<Programs> {
    let mut cargo = cargo("build --quiet --keep-going", folder, &[]);
    cargo.arg(match stderr().is_terminal() {
        true => "--message-format=json-diagnostic-rendered-ansi",
        false => "--message-format=json",
    });
    for name in names {
        cargo.args(["--bin", name]);
    }
    for (package, level) in OPT_LEVELS.iter().filter(|_| names.contains(&GPT)) {
        cargo.arg("--config");
        cargo.arg(format!("profile.dev.package.{package}.opt-level={level}"));
    }
    if env::var_os("CARGO_TARGET_DIR").is_none() {
        let target = root().join("target/practice");
        if !target.exists() {
            print(
                "compiling the crates that the exercises need (this takes a few minutes, but only once) ...\n",
            )?;
        }
        cargo.arg("--target-dir").arg(target);
    }
    let mut child = cargo
        .stdout(Stdio::piped())
        .spawn()
        .context("can't start cargo")?;
    let messages = child
        .stdout
        .take()
        .context("cargo's standard output isn't a pipe")?;
    let mut programs = Programs::default();
    for line in BufReader::new(messages).lines() {
        let Ok(message) = serde_json::from_str::<Message>(&line?) else {
            continue; // This line isn't a message of cargo.
        };
        let name = message.target.map(|target| target.name).unwrap_or_default();
        let is_asked_for = names.contains(&name.as_str());
        if let Some(diagnostic) = message.message {
            if shows || !is_asked_for {
                let _ = write!(stderr(), "{}", diagnostic.rendered.unwrap_or_default());
            }
            if is_asked_for && diagnostic.level == "error" {
                programs.broken.insert(name);
            }
        } else if let Some(path) = message.executable {
            programs.built.insert(name, path);
        }
    }
    let is_built = child.wait()?.success() || !programs.broken.is_empty();
    ensure!(
        is_built,
        "cargo can't build the exercises; see its messages above for the reason"
    );
    Ok(programs)
}

/// The way in which a program ended.
pub(super) enum End {
    /// The program ended by itself.
    Itself(ExitStatus),
    /// The program was stopped because it took too long.
    Stopped,
}

/// Runs a program and stops it after `limit`. If `shows` is true, the beginning of the program's
/// output is shown. Returns how the program ended, and the report of its check, or `None` if it
/// wrote no report. Processes that the program has started are stopped when it ends.
///
/// # Errors
/// Returns an error if the program can't be started, if its output can't be shown, or if its report
/// can't be read.
pub(super) fn run(program: &Path, limit: Duration, shows: bool) -> Result<(End, Option<String>)> {
    let folder = tempfile::tempdir().context("can't create a temporary folder for the report")?;
    let report = folder.path().join("report");
    let (output, writer) = pipe()?;
    let mut command = Command::new(program);
    command.env(REPORT_FILE, &report).stdin(Stdio::null());
    command.stdout(writer.try_clone()?).stderr(writer);
    let mut group = Group::start(&mut command).with_context(|| program.display().to_string())?;
    // The command holds this process's copies of the writing end of the pipe. Close them, because
    // otherwise the program's output would never end.
    drop(command);
    let mut output = Output::read(output, if shows { SHOWN } else { 0 });
    let began = Instant::now();
    let end = loop {
        output.show_for(PAUSE)?;
        if let Some(status) = group.leader.try_wait()? {
            break End::Itself(status);
        }
        if began.elapsed() > limit {
            break End::Stopped;
        }
    };
    drop(group);
    let ended = Instant::now();
    while ended.elapsed() < LAST_OUTPUT && output.show_for(PAUSE)? {}
    if shows {
        output.finish()?;
    }
    let report = match report.exists() {
        true => Some(read_small_file(&report, LARGEST_REPORT)?),
        false => None,
    };
    let text = report.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    Ok((end, text))
}

/// The output of a program. Its beginning is shown while the program runs.
struct Output {
    chunks: Receiver<Vec<u8>>,
    /// Number of bytes that can still be shown.
    left: usize,
    is_cut: bool,
    ends_with_newline: bool,
}

impl Output {
    /// Starts a thread that reads the pipe. The thread isn't joined, because the pipe may stay open
    /// after the program has ended.
    fn read(mut pipe: impl Read + Send + 'static, left: usize) -> Self {
        let (send, chunks) = sync_channel(1);
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(n @ 1..) = pipe.read(&mut buffer) {
                if send.send(buffer[..n].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self {
            chunks,
            left,
            is_cut: false,
            ends_with_newline: true,
        }
    }

    /// Waits up to `time` for output and shows it. Returns false if the output has ended.
    fn show_for(&mut self, time: Duration) -> Result<bool> {
        match self.chunks.recv_timeout(time) {
            Ok(chunk) => {
                let shown = &chunk[..chunk.len().min(self.left)];
                self.left -= shown.len();
                self.is_cut |= shown.len() < chunk.len();
                if let Some(last) = shown.last() {
                    self.ends_with_newline = *last == b'\n';
                }
                print_bytes(shown)?;
                Ok(true)
            }
            Err(RecvTimeoutError::Timeout) => Ok(true),
            Err(RecvTimeoutError::Disconnected) => {
                thread::sleep(time);
                Ok(false)
            }
        }
    }

    /// Prints a line break if the output doesn't end with one, and a note if a part of the output
    /// wasn't shown.
    fn finish(self) -> Result<()> {
        if !self.ends_with_newline {
            print("\n")?;
        }
        match self.is_cut {
            true => print(&format!(
                "... (only the first {} KiB of the output are shown)\n",
                SHOWN >> 10
            )),
            false => Ok(()),
        }
    }
}

/// A program and the processes that it starts. Dropping this value ends all of them. On systems
/// other than Unix, only the program itself is ended.
struct Group {
    leader: Child,
}

impl Group {
    fn start(command: &mut Command) -> Result<Self> {
        #[cfg(unix)]
        {
            use std::os::unix::process::CommandExt;
            signals::watch()?;
            // The program becomes the leader of a new process group.
            command.process_group(0);
        }
        let leader = command.spawn()?;
        #[cfg(unix)]
        signals::set_group(Some(&leader));
        Ok(Self { leader })
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        #[cfg(unix)]
        signals::kill_group();
        // Kill the program itself. On systems other than Unix, we can't kill any other process, so
        // processes that the program has started continue to run.
        let _ = self.leader.kill();
        let _ = self.leader.wait();
        #[cfg(unix)]
        signals::set_group(None);
    }
}

/// Stops the reader's program when a signal stops this command. When the user presses Ctrl+C, the
/// terminal sends a signal only to the process group of this command, and the reader's program has
/// a separate group. Therefore, this command must end that group before it ends itself.
#[cfg(unix)]
mod signals {
    use std::process::Child;
    use std::sync::{Mutex, MutexGuard, Once, PoisonError};
    use std::{io, thread};

    use rustix::process::{Pid, Signal, kill_process_group};
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    use signal_hook::iterator::Signals;
    use signal_hook::low_level::emulate_default_handler;

    static GROUP: Mutex<Option<Pid>> = Mutex::new(None);
    static WATCHED: Once = Once::new();

    fn group() -> MutexGuard<'static, Option<Pid>> {
        GROUP.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set_group(leader: Option<&Child>) {
        *group() = leader.map(Pid::from_child);
    }

    pub(super) fn kill_group() {
        if let Some(group) = *group() {
            // This call fails if all processes of the group have ended.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }

    /// Starts a thread that waits for the signals that end this process, such as SIGINT. When such
    /// a signal arrives, the thread kills the process group of the reader's program before this
    /// process ends.
    pub(super) fn watch() -> io::Result<()> {
        let mut result = Ok(());
        WATCHED.call_once(|| match Signals::new([SIGHUP, SIGINT, SIGTERM]) {
            Ok(mut signals) => {
                thread::spawn(move || {
                    for signal in signals.forever() {
                        kill_group();
                        let _ = emulate_default_handler(signal);
                    }
                });
            }
            Err(error) => result = Err(error),
        });
        result
    }
}
