//! `cargo xtask practice`: the book's exercises in a folder of the reader's own, built and checked
//! one by one.
//!
//! The reader's files are created once and never overwritten; a small file stores the progress.

use std::collections::BTreeMap;
use std::env::consts::EXE_SUFFIX;
use std::fs;
use std::io::{BufRead, ErrorKind, IsTerminal, Read, Write, copy, sink, stdin, stdout};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, ensure};
use atomic_file::{create_folder, write_atomically, write_output};
use clap::Args;
use practice::{EXERCISES, Exercise};
use serde::{Deserialize, Serialize};

use crate::documents::plain;
use crate::workspace::{print, root};

/// The exercise, and the action.
#[derive(Args)]
pub(crate) struct Options {
    /// The exercise to check (3.3.1, ex3.1) [default: list all]
    exercise: Option<String>,
    /// Check the next exercise after each save: h hint, n next, q quit
    #[arg(long)]
    watch: bool,
    /// Show the next hint
    #[arg(long, requires = "exercise")]
    hint: bool,
    /// Show a solution beside yours, once yours passes
    #[arg(long, requires = "exercise")]
    diff: bool,
    /// Begin again: asks, and keeps a copy of your file
    #[arg(long, requires = "exercise")]
    reset: bool,
    /// The folder of the exercises
    #[arg(long, value_name = "DIR", default_value = "practice", hide = true)]
    folder: PathBuf,
}

/// The longest time that a check may take.
const LONGEST: Duration = Duration::from_secs(10);

/// The most bytes of a check's output that are read.
const MAX_OUTPUT: u64 = 1 << 20;

/// Does what was asked for.
///
/// # Errors
/// There is no such exercise, a file can't be read or written, or cargo is missing.
pub(crate) fn run(options: &Options) -> Result<()> {
    let folder = match options.folder.is_absolute() {
        true => options.folder.clone(),
        false => root().join(&options.folder),
    };
    let mut practice = Practice::open(folder)?;
    let exercise = options.exercise.as_deref().map(find).transpose()?;
    if options.watch {
        return practice.watch(exercise);
    }
    match exercise {
        None => practice.list(),
        Some(exercise) if options.hint => practice.hint(exercise),
        Some(exercise) if options.diff => practice.diff(exercise),
        Some(exercise) if options.reset => practice.reset(exercise),
        Some(exercise) => {
            let number = exercise.number;
            let is_done = practice.check(exercise)?;
            ensure!(is_done, "{number} is not done yet; --hint helps");
            Ok(())
        }
    }
}

/// The exercise that a reader means: `3.3.1`, `ex3.1`, `exercise 3.1`, `s3_3_1`.
fn find(words: &str) -> Result<&'static Exercise> {
    let asked = plain(words).replace("exercise", "ex");
    let is_it = |it: &&Exercise| plain(it.number) == asked || plain(it.name) == asked;
    let numbers = || {
        EXERCISES
            .iter()
            .map(|it| it.number)
            .collect::<Vec<_>>()
            .join(", ")
    };
    let found = EXERCISES.iter().find(is_it);
    found.with_context(|| format!("no exercise {words}; there are {}", numbers()))
}

/// How far a reader is with an exercise.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Progress {
    /// Checks that passed.
    passed: u64,
    /// All checks; 0 before the first.
    total: u64,
    /// Hints that were shown.
    hints: usize,
    /// The file that the exercise began with.
    task: Option<String>,
}

impl Progress {
    fn is_done(&self) -> bool {
        self.total > 0 && self.passed == self.total
    }
}

/// The reader's folder and progress.
struct Practice {
    folder: PathBuf,
    /// The progress by the exercise's name.
    state: BTreeMap<String, Progress>,
}

impl Practice {
    /// Opens the folder; missing files are created.
    fn open(folder: PathBuf) -> Result<Self> {
        let sources = folder.join("src/bin");
        create_folder(&sources)?;
        let state = folder.join("state.json");
        let state = match fs::read_to_string(&state) {
            Ok(text) => serde_json::from_str(&text).with_context(|| {
                format!(
                    "{} is damaged; without it, progress begins again",
                    state.display()
                )
            })?,
            Err(error) if error.kind() == ErrorKind::NotFound => BTreeMap::new(),
            Err(error) => return Err(error).with_context(|| state.display().to_string()),
        };
        let mut practice = Self { folder, state };
        let library = root().join("crates/tools/practice");
        let manifest = format!(
            "[package]\nname = \"my-practice\"\nversion = \"0.1.0\"\nedition = \"2024\"\npublish = false\n\n\
             [dependencies]\npractice = {{ path = {:?} }}\n\n[profile.dev]\ndebug = false\n\n\
             [lints.rust] # as long as something is still to be written\n\
             unused_variables = \"allow\"\nunused_imports = \"allow\"\n\n\
             [workspace] # of its own, so that a mistake here stops nothing else\n",
            library
        );
        practice.create("Cargo.toml", &manifest)?;
        let lock = fs::read_to_string(root().join("Cargo.lock"))?;
        practice.create("Cargo.lock", &lock)?;
        practice.create(".gitignore", "*\n")?;
        let mut is_new = false;
        for exercise in EXERCISES {
            if practice.create(&format!("src/bin/{}.rs", exercise.name), &exercise.stub())? {
                practice.progress(exercise).task = Some(exercise.stub());
                is_new = true;
            }
        }
        if is_new {
            practice.save()?;
        }
        Ok(practice)
    }

    /// Writes a file that is missing; returns whether it was.
    fn create(&self, name: &str, text: &str) -> Result<bool> {
        let path = self.folder.join(name);
        if path.exists() {
            return Ok(false);
        }
        write_output(path, |out| out.write_all(text.as_bytes()))?;
        Ok(true)
    }

    fn file(&self, exercise: &Exercise) -> PathBuf {
        self.folder.join(format!("src/bin/{}.rs", exercise.name))
    }

    fn progress(&mut self, exercise: &Exercise) -> &mut Progress {
        self.state.entry(exercise.name.to_owned()).or_default()
    }

    fn is_done(&self, exercise: &Exercise) -> bool {
        self.state.get(exercise.name).is_some_and(Progress::is_done)
    }

    fn save(&self) -> Result<()> {
        let text = serde_json::to_string_pretty(&self.state)?;
        let path = self.folder.join("state.json");
        Ok(write_atomically(path, |out| {
            out.write_all(text.as_bytes())
        })?)
    }

    /// The next exercise that isn't done.
    fn next(&self) -> Option<&'static Exercise> {
        EXERCISES.iter().find(|exercise| !self.is_done(exercise))
    }

    fn list(&self) -> Result<()> {
        let none = Progress::default();
        for exercise in EXERCISES {
            let file = self.file(exercise);
            let shown = file
                .strip_prefix(root())
                .unwrap_or(&file)
                .display()
                .to_string();
            let progress = self.state.get(exercise.name).unwrap_or(&none);
            let status = match (progress.passed, progress.total) {
                (_, 0) => format!("not written yet: start in {shown}"),
                (passed, total) if passed == total => "done".to_owned(),
                (passed, total) => format!("{passed} of {total} checks"),
            };
            let changed = match &progress.task {
                Some(task) if *task != exercise.stub() => {
                    " (the task has changed; --reset shows it)"
                }
                _ => "",
            };
            let (number, title) = (exercise.number, exercise.title());
            print(&format!(" {number:<6} {title:<44} {status}{changed}\n"))?;
        }
        let done = EXERCISES
            .iter()
            .filter(|exercise| self.is_done(exercise))
            .count();
        print(&format!("{done} of {} done\n", EXERCISES.len()))?;
        match self.next() {
            Some(next) => print(&format!("to check: cargo xtask practice {}\n", next.number)),
            None => Ok(()),
        }
    }

    /// Builds and runs one exercise, and returns whether it is done; rustc's messages go to the
    /// screen as they are.
    fn check(&mut self, exercise: &Exercise) -> Result<bool> {
        let target = root().join("target/practice");
        let built = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
            .args(["build", "--quiet", "--manifest-path"])
            .arg(self.folder.join("Cargo.toml"))
            .args(["--bin", exercise.name])
            .env("CARGO_TARGET_DIR", &target)
            .status()
            .context("cargo")?;
        if !built.success() {
            print("it doesn't compile yet\n")?;
            self.progress(exercise).passed = 0;
            self.save()?;
            return Ok(false);
        }
        let program = target
            .join("debug")
            .join(format!("{}{EXE_SUFFIX}", exercise.name));
        let (text, ended) = output_of(&program)?;
        print(&text)?;
        if !ended {
            let seconds = LONGEST.as_secs();
            print(&format!(
                "stopped after {seconds} seconds: is there a loop that never ends?\n"
            ))?;
        }
        let (passed, total) = result(&text).unwrap_or((0, u64::from(!ended)));
        let progress = self.progress(exercise);
        (progress.passed, progress.total) = (passed, total);
        let is_done = progress.is_done();
        self.save()?;
        if is_done {
            let number = exercise.number;
            print(&format!(
                "done; a solution beside yours: cargo xtask practice {number} --diff\n"
            ))?;
        }
        Ok(is_done)
    }

    fn hint(&mut self, exercise: &Exercise) -> Result<()> {
        let hints = exercise.hints();
        let next = self.progress(exercise).hints.min(hints.len() - 1);
        print(&format!(
            "hint {} of {}: {}\n",
            next + 1,
            hints.len(),
            hints[next]
        ))?;
        self.progress(exercise).hints = next + 1;
        self.save()
    }

    fn diff(&mut self, exercise: &Exercise) -> Result<()> {
        ensure!(
            self.is_done(exercise),
            "{}: a solution is shown once yours passes; --hint helps",
            exercise.number
        );
        let solution = self.folder.join(format!("{}.solution.rs", exercise.name));
        write_atomically(&solution, |out| {
            out.write_all(exercise.solution().as_bytes())
        })?;
        let diff = Command::new("git")
            .args(["diff", "--no-index", "--no-prefix", "--"])
            .args([&self.file(exercise), &solution])
            .status();
        match diff {
            Ok(_) => Ok(()),
            Err(_) => print(&exercise.solution()), // without git
        }
    }

    fn reset(&mut self, exercise: &Exercise) -> Result<()> {
        let file = self.file(exercise);
        print(&format!(
            "begin {} again? A copy of your file is kept. [y/N] ",
            exercise.number
        ))?;
        stdout().flush()?;
        let mut answer = String::new();
        stdin().read_line(&mut answer)?;
        if !answer.trim().eq_ignore_ascii_case("y") {
            return print("nothing was changed\n");
        }
        let text = fs::read(&file).with_context(|| file.display().to_string())?;
        let copies = (1..).map(|number| {
            self.folder
                .join(format!("kept/{}.{number}.rs", exercise.name))
        });
        let copy = copies
            .into_iter()
            .find(|copy| !copy.exists())
            .context("a name")?;
        create_folder(self.folder.join("kept"))?;
        write_output(&copy, |out| out.write_all(&text))?;
        write_atomically(&file, |out| out.write_all(exercise.stub().as_bytes()))?;
        *self.progress(exercise) = Progress {
            task: Some(exercise.stub()),
            ..Progress::default()
        };
        self.save()?;
        print(&format!("your file is {}\n", copy.display()))
    }

    /// Checks an exercise each time its file changes, and then the next.
    fn watch(&mut self, first: Option<&'static Exercise>) -> Result<()> {
        let keys = keys();
        let mut exercise = first.or(self.next());
        let mut changed = SystemTime::UNIX_EPOCH;
        while let Some(now) = exercise {
            let file = self.file(now);
            let last = fs::metadata(&file)
                .and_then(|found| found.modified())
                .unwrap_or(changed);
            if last != changed {
                changed = last;
                let shown = file.strip_prefix(root()).unwrap_or(&file).display();
                print(&format!("\n{} {} ({shown})\n", now.number, now.title()))?;
                if self.check(now)? {
                    (exercise, changed) = (self.next(), SystemTime::UNIX_EPOCH);
                    continue;
                }
                print("save the file to check it again; h: hint, n: next, q: quit (and Enter)\n")?;
            }
            match keys.try_recv() {
                Ok(key) if key.starts_with('h') => self.hint(now)?,
                Ok(key) if key.starts_with('n') => {
                    let behind = EXERCISES
                        .iter()
                        .skip_while(|it| it.name != now.name)
                        .skip(1);
                    exercise = behind
                        .into_iter()
                        .find(|it| !self.is_done(it))
                        .or(self.next());
                    changed = SystemTime::UNIX_EPOCH;
                }
                Ok(key) if key.starts_with('q') => return Ok(()),
                Ok(_) | Err(TryRecvError::Empty) => {}
                Err(TryRecvError::Disconnected) if stdin().is_terminal() => return Ok(()),
                Err(TryRecvError::Disconnected) => {}
            }
            thread::sleep(Duration::from_millis(200));
        }
        print("all exercises are done\n")
    }
}

/// Runs a program for at most [`LONGEST`]; returns its output, and whether it ended by itself.
fn output_of(program: &Path) -> Result<(String, bool)> {
    let mut child = Command::new(program)
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| program.display().to_string())?;
    let mut output = child.stdout.take().context("it is piped")?;
    let reader = thread::spawn(move || {
        let mut bytes = Vec::new();
        output
            .by_ref()
            .take(MAX_OUTPUT + 1)
            .read_to_end(&mut bytes)?;
        copy(&mut output, &mut sink())?;
        std::io::Result::Ok(bytes)
    });
    let began = Instant::now();
    let ended = loop {
        if child.try_wait()?.is_some() {
            break true;
        }
        if began.elapsed() > LONGEST {
            child.kill()?;
            child.wait()?;
            break false;
        }
        thread::sleep(Duration::from_millis(20));
    };
    let bytes = reader.join().ok().context("its output")??;
    let mut text = String::from_utf8_lossy(&bytes).into_owned();
    if bytes.len() as u64 > MAX_OUTPUT {
        text += &format!("\nonly the first {MAX_OUTPUT} bytes are read: let it print less\n");
    }
    Ok((text, ended))
}

/// The lines that are typed.
fn keys() -> Receiver<String> {
    let (send, keys) = channel();
    thread::spawn(move || {
        for line in stdin().lock().lines().map_while(Result::ok) {
            if send.send(line).is_err() {
                return;
            }
        }
    });
    keys
}

/// The number of passed checks and of all checks, from the last line of an exercise's output.
fn result(output: &str) -> Option<(u64, u64)> {
    let last = output.lines().last()?;
    let (passed, rest) = last.strip_suffix(" checks passed")?.split_once(" of ")?;
    Some((passed.parse().ok()?, rest.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_reader_are_made_once_and_never_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("practice");
        let practice = Practice::open(path.clone()).unwrap();
        let file = practice.file(&EXERCISES[0]);
        assert!(file.starts_with(&path) && fs::read_to_string(&file).unwrap().contains("todo!()"));
        fs::write(&file, "mine").unwrap();
        fs::remove_file(practice.file(&EXERCISES[1])).unwrap();
        let again = Practice::open(path).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
        assert!(again.file(&EXERCISES[1]).exists());
        assert_eq!(again.next().map(|it| it.name), Some(EXERCISES[0].name));
    }

    #[test]
    fn an_exercise_is_found_by_its_number_and_its_last_line_is_read() {
        for words in ["3.3.1", "s3_3_1", "ex3.1", "exercise 3.1", "Ex3_1"] {
            find(words).expect(words);
        }
        assert!(find("9.9").unwrap_err().to_string().contains("3.3.2"));
        assert_eq!(result("x\n3 of 5 checks passed\n"), Some((3, 5)));
        assert_eq!(result("not written yet\n"), None);
    }
}
