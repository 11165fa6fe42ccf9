//! Builds a reader's programs, and runs a program for a limited time.

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

use super::folder::{GPT, OPTIMISED};
use crate::workspace::{cargo, print, print_bytes, root};

/// Number of bytes of a program's output that are shown.
const SHOWN: usize = 16 << 10;

/// Largest size of a report, in bytes.
const LARGEST_REPORT: u64 = 1 << 20;

/// How often a running program is looked at.
const PAUSE: Duration = Duration::from_millis(20);

/// How long output may still arrive after a program has ended. Another process can hold the pipe
/// open for longer.
const LAST_OUTPUT: Duration = Duration::from_millis(200);

/// The result of a build.
#[derive(Default)]
pub(super) struct Programs {
    /// The path of each program, by its name.
    pub(super) built: BTreeMap<String, PathBuf>,
    /// Names of the programs that have errors.
    pub(super) broken: BTreeSet<String>,
}

/// A message of `cargo build --message-format=json`.
#[derive(Deserialize)]
struct Message {
    target: Option<Target>,
    /// The program, in the message about a finished program.
    executable: Option<PathBuf>,
    /// An error or a warning of the compiler.
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

/// Builds the programs `names` of the package in `folder`. The compiler's messages about them are
/// shown if `shows` is set; messages about other code always are.
///
/// # Errors
/// Cargo is missing, or fails for another reason than an error in one of the programs.
pub(super) fn build(folder: &Path, names: &[&str], shows: bool) -> Result<Programs> {
    let mut cargo = cargo("build --quiet --keep-going", folder, &[]);
    cargo.arg(match stderr().is_terminal() {
        true => "--message-format=json-diagnostic-rendered-ansi",
        false => "--message-format=json",
    });
    for name in names {
        cargo.args(["--bin", name]);
    }
    for (package, level) in OPTIMISED.iter().filter(|_| names.contains(&GPT)) {
        cargo.arg("--config");
        cargo.arg(format!("profile.dev.package.{package}.opt-level={level}"));
    }
    if env::var_os("CARGO_TARGET_DIR").is_none() {
        let target = root().join("target/practice");
        if !target.exists() {
            print("compiling what the exercises need (once, for a few minutes) ...\n")?;
        }
        cargo.arg("--target-dir").arg(target);
    }
    let mut child = cargo.stdout(Stdio::piped()).spawn().context("cargo")?;
    let messages = child.stdout.take().context("standard output is a pipe")?;
    let mut programs = Programs::default();
    for line in BufReader::new(messages).lines() {
        let Ok(message) = serde_json::from_str::<Message>(&line?) else {
            continue; // not a message of cargo
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
        "cargo can't build the exercises; its message is above"
    );
    Ok(programs)
}

/// How a program ended.
pub(super) enum End {
    /// By itself.
    Itself(ExitStatus),
    /// It was stopped because it took too long.
    Stopped,
}

/// Runs a program for at most `limit`, shows the beginning of its output if `shows` is set, and
/// returns how it ended and the report of its check. Processes that it started end with it.
///
/// # Errors
/// It can't be started, or its output can't be shown.
pub(super) fn run(program: &Path, limit: Duration, shows: bool) -> Result<(End, Option<String>)> {
    let folder = tempfile::tempdir().context("a temporary folder for the report")?;
    let report = folder.path().join("report");
    let (output, writer) = pipe()?;
    let mut command = Command::new(program);
    command.env(REPORT_FILE, &report).stdin(Stdio::null());
    command.stdout(writer.try_clone()?).stderr(writer);
    let mut group = Group::start(&mut command).with_context(|| program.display().to_string())?;
    drop(command); // and with it our writers of the pipe, so that the pipe can end
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

/// The output of a program, whose beginning is shown while the program runs.
struct Output {
    chunks: Receiver<Vec<u8>>,
    /// Number of bytes that may still be shown.
    left: usize,
    is_cut: bool,
    ends_with_newline: bool,
}

impl Output {
    /// Reads a pipe on a thread of its own, which nobody waits for.
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

    /// Waits for output for at most `time` and shows it. Returns false if the output has ended.
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

    /// Ends the last line, and says if something was not shown.
    fn finish(self) -> Result<()> {
        if !self.ends_with_newline {
            print("\n")?;
        }
        match self.is_cut {
            true => print(&format!(
                "... (only the first {} KiB are shown)\n",
                SHOWN >> 10
            )),
            false => Ok(()),
        }
    }
}

/// A program and the processes that it starts. Dropping it ends all of them.
struct Group {
    leader: Child,
}

impl Group {
    fn start(command: &mut Command) -> Result<Self> {
        #[cfg(unix)]
        {
            use std::os::unix::process::CommandExt;
            signals::watch()?;
            command.process_group(0); // a new group, of which the program is the leader
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
        // On other systems, the processes that it started stay.
        let _ = self.leader.kill();
        let _ = self.leader.wait();
        #[cfg(unix)]
        signals::set_group(None);
    }
}

/// A signal from the terminal reaches our group, but not the group of the reader's program, so we
/// end that group first.
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
            let _ = kill_process_group(group, Signal::KILL); // fails if all have ended
        }
    }

    /// Ends the group, and then this process, when a signal asks for that.
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
