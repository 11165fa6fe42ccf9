//! `cargo xtask practice`: the book's exercises in a folder of the reader's own, built and checked
//! one by one.

use std::io::{BufRead, IsTerminal, Write, stdin, stdout};
use std::path::PathBuf;
use std::process::Command;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use practice::{EXERCISES, Exercise, Outcome, parts_of_gpt};

use crate::documents::plain;
use crate::workspace::{print, root};
use folder::{Folder, GPT, Progress};
use program::End;

mod folder;
mod program;

/// The exercise, and what to do with it.
#[derive(Args)]
pub(crate) struct Options {
    /// The exercise to check (3.3.1, ex3.1), or `gpt` to train a GPT made of your functions
    /// [default: list all]
    exercise: Option<String>,
    /// Check all exercises
    #[arg(long, conflicts_with_all = ["exercise", "watch"])]
    all: bool,
    /// Check the next exercise after each save: h hint, n next, l list, q quit
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

/// The longest time that the training of a GPT may take.
const LONGEST_TRAINING: Duration = Duration::from_secs(600);

/// Does what was asked for.
///
/// # Errors
/// There is no such exercise, a file can't be read or written, or cargo is missing.
pub(crate) fn run(options: &Options) -> Result<()> {
    let folder = Folder::open(root().join(&options.folder))?;
    if options.exercise.as_deref() == Some(GPT) {
        let other = options.watch || options.hint || options.diff || options.reset;
        ensure!(!other, "gpt is no exercise, so it takes no option");
        return train_gpt(&folder);
    }
    let exercise = options.exercise.as_deref().map(find).transpose()?;
    if options.watch {
        return watch(&folder, exercise);
    }
    match exercise {
        None if options.all => check_all(&folder),
        None => list(&folder),
        Some(exercise) if options.hint => hint(&folder, exercise),
        Some(exercise) if options.diff => diff(&folder, exercise),
        Some(exercise) if options.reset => reset(&folder, exercise),
        Some(exercise) => {
            let number = exercise.number();
            let is_done = check(&folder, exercise)?;
            ensure!(is_done, "{number} is not done yet; --hint helps");
            Ok(())
        }
    }
}

/// Returns the exercise that a reader means: `3.3.1`, `ex3.1`, `exercise 3.1`, `s3_3_1`.
fn find(words: &str) -> Result<&'static Exercise> {
    let asked = plain(words).replace("exercise", "ex");
    let is_it = |it: &&Exercise| plain(it.number()) == asked || plain(it.name) == asked;
    let found = EXERCISES.iter().find(is_it);
    found.with_context(|| {
        let numbers: Vec<&str> = EXERCISES.iter().map(Exercise::number).collect();
        format!(
            "no exercise {words}; there are {}, and gpt",
            numbers.join(", ")
        )
    })
}

/// Prints a line about an exercise: its title and how far the reader is.
fn print_line(folder: &Folder, exercise: &Exercise, progress: &Progress) -> Result<()> {
    let status = match (&progress.failure, progress.passed, progress.total) {
        (Some(failure), ..) => failure.clone(),
        (None, _, 0) => format!("not written yet: start in {}", folder.shown(exercise)),
        (None, passed, total) if passed == total => "done".to_owned(),
        (None, passed, total) => format!("{passed} of {total} checks"),
    };
    let changed = match progress.has_changed(exercise) {
        true => " (the task has changed; --reset shows it)",
        false => "",
    };
    let (number, title) = (exercise.number(), exercise.title());
    print(&format!(" {number:<6} {title:<48} {status}{changed}\n"))
}

/// Prints the number of exercises that are done, and returns whether all are.
fn print_done(folder: &Folder) -> Result<bool> {
    let state = folder.state()?;
    let done = EXERCISES.iter().filter(|exercise| state.is_done(exercise));
    let (done, all) = (done.count(), EXERCISES.len());
    print(&format!("{done} of {all} done\n"))?;
    Ok(done == all)
}

fn list(folder: &Folder) -> Result<()> {
    let state = folder.state()?;
    for exercise in EXERCISES {
        print_line(folder, exercise, &state.of(exercise))?;
    }
    print_done(folder)?;
    match state.next() {
        Some(next) => print(&format!(
            "to check: cargo xtask practice {}\n",
            next.number()
        )),
        None => print("to train a GPT made of your functions: cargo xtask practice gpt\n"),
    }
}

/// Builds a GPT from the reader's functions, trains it, and shows what it writes.
fn train_gpt(folder: &Folder) -> Result<()> {
    let state = folder.state()?;
    let missing = parts_of_gpt().filter(|part| !state.is_done(part));
    let missing: Vec<&str> = missing.map(Exercise::number).collect();
    ensure!(
        missing.is_empty(),
        "these parts of the GPT are not done yet: {}",
        missing.join(", ")
    );
    let names = parts_of_gpt().map(Exercise::number).collect::<Vec<_>>();
    print(&format!("a GPT of your functions: {}\n", names.join(", ")))?;
    folder.write_gpt()?;
    let programs = program::build(&folder.path, &[GPT], true)?;
    let program = programs.built.get(GPT);
    let program = program.context("your functions don't fit together; the message is above")?;
    match program::run(program, LONGEST_TRAINING, true)?.0 {
        End::Itself(status) if status.success() => Ok(()),
        End::Itself(status) => bail!("the program failed ({status}); the reason is in its output"),
        End::Stopped => bail!(
            "stopped after {} minutes: is one of your functions very slow?",
            LONGEST_TRAINING.as_secs() / 60
        ),
    }
}

/// Checks all exercises, with a line about each.
fn check_all(folder: &Folder) -> Result<()> {
    let names: Vec<&str> = EXERCISES.iter().map(|exercise| exercise.name).collect();
    let programs = program::build(&folder.path, &names, false)?;
    for exercise in EXERCISES {
        let progress = match programs.built.get(exercise.name) {
            Some(program) => {
                let run = program::run(program, LONGEST, false)?;
                store(folder, exercise, Verdict::of(exercise, run))?
            }
            None => store(folder, exercise, Verdict::broken())?,
        };
        print_line(folder, exercise, &progress)?;
    }
    let all_are_done = print_done(folder)?;
    ensure!(all_are_done, "not all exercises are done yet");
    Ok(())
}

/// The result of a build and a run.
struct Verdict {
    outcome: Outcome,
    /// The reason why the outcome doesn't count, and what to do.
    failure: Option<(String, String)>,
    /// The rows of the check.
    report: String,
}

impl Verdict {
    /// The verdict on a program that doesn't compile.
    fn broken() -> Self {
        let failure = ("it doesn't compile yet".to_owned(), String::new());
        Self {
            outcome: Outcome::NotWritten,
            failure: Some(failure),
            report: String::new(),
        }
    }

    /// The verdict on a program that was run.
    fn of(exercise: &Exercise, (end, report): (End, Option<String>)) -> Self {
        let report = report.unwrap_or_default();
        let outcome = Outcome::of_report(&report);
        let failure = match end {
            End::Stopped => Some((
                format!("stopped after {} seconds", LONGEST.as_secs()),
                "is there a loop that never ends?".to_owned(),
            )),
            End::Itself(status) if !status.success() => Some((
                format!("the program failed ({status})"),
                "the reason is in its output".to_owned(),
            )),
            End::Itself(_) if outcome.is_none() => Some((
                "the program ended without a result".to_owned(),
                format!("`main` must contain {}", exercise.main_call()),
            )),
            End::Itself(_) => None,
        };
        Self {
            outcome: outcome.unwrap_or(Outcome::NotWritten),
            failure,
            report,
        }
    }
}

/// Stores a verdict as the progress, which is returned.
fn store(folder: &Folder, exercise: &Exercise, verdict: Verdict) -> Result<Progress> {
    let (passed, total) = match verdict.outcome {
        Outcome::NotWritten => (0, 0),
        Outcome::Checked(passed, total) => (passed as u64, total as u64),
    };
    folder.update(exercise, |progress| {
        (progress.passed, progress.total) = (passed, total);
        progress.failure = verdict.failure.map(|(failure, _)| failure);
        progress.clone()
    })
}

/// Builds and runs an exercise, and returns whether it is done. The compiler's messages and the
/// program's output are shown.
fn check(folder: &Folder, exercise: &Exercise) -> Result<bool> {
    let programs = program::build(&folder.path, &[exercise.name], true)?;
    let verdict = match programs.built.get(exercise.name) {
        Some(program) => Verdict::of(exercise, program::run(program, LONGEST, true)?),
        None => Verdict::broken(),
    };
    print(&verdict.report)?;
    match &verdict.failure {
        Some((failure, advice)) if !advice.is_empty() => print(&format!("{failure}: {advice}\n"))?,
        Some((failure, _)) => print(&format!("{failure}\n"))?,
        None => {}
    }
    let is_done = store(folder, exercise, verdict)?.is_done();
    if is_done {
        let number = exercise.number();
        print(&format!(
            "done; a solution beside yours: cargo xtask practice {number} --diff\n"
        ))?;
    }
    Ok(is_done)
}

fn hint(folder: &Folder, exercise: &Exercise) -> Result<()> {
    let hints = exercise.hints();
    let next = folder.update(exercise, |progress| {
        let next = progress.hints.min(hints.len() - 1);
        progress.hints = next + 1;
        next
    })?;
    let (number, of, hint) = (next + 1, hints.len(), &hints[next]);
    print(&format!("hint {number} of {of}: {hint}\n"))
}

fn diff(folder: &Folder, exercise: &Exercise) -> Result<()> {
    ensure!(
        folder.state()?.is_done(exercise),
        "{}: a solution is shown once yours passes; --hint helps",
        exercise.number()
    );
    let solution = folder.write_solution(exercise)?;
    let diff = Command::new("git")
        .args(["diff", "--no-index", "--no-prefix", "--"])
        .args([&folder.file(exercise), &solution])
        .status();
    match diff {
        Ok(_) => Ok(()),
        Err(_) => print(&exercise.solution()), // without git
    }
}

fn reset(folder: &Folder, exercise: &Exercise) -> Result<()> {
    print(&format!(
        "begin {} again? A copy of your file is kept. [y/N] ",
        exercise.number()
    ))?;
    stdout().flush()?;
    let mut answer = String::new();
    stdin().read_line(&mut answer)?;
    if !answer.trim().eq_ignore_ascii_case("y") {
        return print("nothing was changed\n");
    }
    let copy = folder.reset(exercise)?;
    print(&format!("your file is {}\n", copy.display()))
}

/// Checks an exercise each time its file changes, and then the next.
fn watch(folder: &Folder, first: Option<&'static Exercise>) -> Result<()> {
    let keys = keys();
    let mut exercise = first.or(folder.state()?.next());
    let mut changed = SystemTime::UNIX_EPOCH;
    while let Some(now) = exercise {
        let file = std::fs::metadata(folder.file(now));
        let last = file.and_then(|found| found.modified()).unwrap_or(changed);
        if last != changed {
            changed = last;
            let shown = folder.shown(now);
            print(&format!("\n{} {} ({shown})\n", now.number(), now.title()))?;
            if check(folder, now)? {
                (exercise, changed) = (folder.state()?.next(), SystemTime::UNIX_EPOCH);
                continue;
            }
            print(
                "save the file to check it again; h: hint, n: next, l: list, q: quit (and Enter)\n",
            )?;
        }
        match keys.try_recv() {
            Ok(key) if key.starts_with('h') => hint(folder, now)?,
            Ok(key) if key.starts_with('n') => {
                let state = folder.state()?;
                let behind = EXERCISES.iter().skip_while(|it| it.name != now.name);
                let next = behind.skip(1).find(|it| !state.is_done(it));
                (exercise, changed) = (next.or(state.next()), SystemTime::UNIX_EPOCH);
            }
            Ok(key) if key.starts_with('l') => list(folder)?,
            Ok(key) if key.starts_with('q') => return Ok(()),
            Ok(_) | Err(TryRecvError::Empty) => {}
            Err(TryRecvError::Disconnected) if stdin().is_terminal() => return Ok(()),
            Err(TryRecvError::Disconnected) => {}
        }
        thread::sleep(Duration::from_millis(200));
    }
    print("all exercises are done\n")
}

/// Returns the lines that are typed.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exercise_is_found_by_its_number() {
        for words in ["3.3.1", "s3_3_1", "ex3.1", "exercise 3.1", "Ex3_1"] {
            find(words).expect(words);
        }
        assert!(find("9.9").unwrap_err().to_string().contains("3.3.2"));
    }
}
