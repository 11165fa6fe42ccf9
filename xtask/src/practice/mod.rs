//! The command `cargo xtask practice`. The reader solves the book's exercises in a separate folder,
//! and this command builds and checks the solutions.

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

/// Exercise and options of `cargo xtask practice`.
#[derive(Args)]
pub(crate) struct Options {
    /// Exercise to check, such as 3.3.1 or ex3.1, or gpt to train a GPT built from your functions
    /// [default: list all exercises]
    exercise: Option<String>,
    /// Check all exercises
    #[arg(long, conflicts_with_all = ["exercise", "watch"])]
    all: bool,
    /// Check the exercise each time its file is saved, and then continue with the next exercise
    #[arg(long)]
    watch: bool,
    /// Show the next hint
    #[arg(long, requires = "exercise")]
    hint: bool,
    /// Show how your solution differs from the reference solution (only after your solution has
    /// passed all checks)
    #[arg(long, requires = "exercise")]
    diff: bool,
    /// Reset the exercise to its initial state, after asking for confirmation and copying your file
    #[arg(long, requires = "exercise")]
    reset: bool,
    /// Folder of the exercises, relative to the project
    #[arg(long, value_name = "DIR", default_value = "practice", hide = true)]
    folder: PathBuf,
}

/// Longest time that the check of an exercise may take.
const CHECK_LIMIT: Duration = Duration::from_secs(10);

/// Longest time that the training of the reader's GPT may take.
const TRAINING_LIMIT: Duration = Duration::from_secs(600);

/// Runs `cargo xtask practice` with the given options.
///
/// # Errors
/// Returns an error if the exercise doesn't exist or isn't done, if a file can't be read or
/// written, or if cargo can't be started.
pub(crate) fn run(options: &Options) -> Result<()> {
    let folder = Folder::open(root().join(&options.folder))?;
    if options.exercise.as_deref() == Some(GPT) {
        let other = options.watch || options.hint || options.diff || options.reset;
        ensure!(
            !other,
            "gpt isn't an exercise, so it can't be combined with an option"
        );
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
            ensure!(is_done, "{number} isn't done yet; for help, add --hint");
            Ok(())
        }
    }
}

/// Finds the exercise that a reader means. The reader can refer to it as `3.3.1`, `s3_3_1`, `ex3.1`
/// or `exercise 3.1`, for example.
fn find(words: &str) -> Result<&'static Exercise> {
    let asked = plain(words).replace("exercise", "ex");
    let is_it = |it: &&Exercise| plain(it.number()) == asked || plain(it.name) == asked;
    let found = EXERCISES.iter().find(is_it);
    found.with_context(|| {
        let numbers: Vec<&str> = EXERCISES.iter().map(Exercise::number).collect();
        format!(
            "there is no exercise named {words}; choose one of {}, or gpt",
            numbers.join(", ")
        )
    })
}

/// Prints a line with an exercise's number and title and the result of its last check.
fn print_line(folder: &Folder, exercise: &Exercise, progress: &Progress) -> Result<()> {
    let status = match (&progress.failure, progress.passed, progress.total) {
        (Some(failure), ..) => failure.clone(),
        (None, _, 0) => format!("not written yet: start in {}", folder.shown(exercise)),
        (None, passed, total) if passed == total => "done".to_owned(),
        (None, passed, total) => format!("{passed} of {total} checks passed"),
    };
    let changed = match progress.has_changed(exercise) {
        true => " (the task has changed; to get the new one, use --reset)",
        false => "",
    };
    let (number, title) = (exercise.number(), exercise.title());
    print(&format!(" {number:<6} {title:<48} {status}{changed}\n"))
}

/// Prints how many exercises are done. Returns true if all of them are done.
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
            "to check the next exercise, run: cargo xtask practice {}\n",
            next.number()
        )),
        None => print("to train a GPT made of your functions, run: cargo xtask practice gpt\n"),
    }
}

/// Builds a GPT from the reader's functions and trains it. The program then shows a sentence that
/// the GPT writes.
fn train_gpt(folder: &Folder) -> Result<()> {
    let state = folder.state()?;
    let missing = parts_of_gpt().filter(|part| !state.is_done(part));
    let missing: Vec<&str> = missing.map(Exercise::number).collect();
    ensure!(
        missing.is_empty(),
        "the GPT depends on exercises that aren't done yet: {}",
        missing.join(", ")
    );
    let names = parts_of_gpt().map(Exercise::number).collect::<Vec<_>>();
    print(&format!(
        "building a GPT from your functions: {}\n",
        names.join(", ")
    ))?;
    folder.write_gpt()?;
    let programs = program::build(&folder.path, &[GPT], true)?;
    let program = programs.built.get(GPT);
    let program = program.context(
        "the program with your functions doesn't compile; see the compiler's messages above",
    )?;
    match program::run(program, TRAINING_LIMIT, true)?.0 {
        End::Itself(status) if status.success() => Ok(()),
        End::Itself(status) => {
            bail!("the program failed ({status}); see its output for the reason")
        }
        End::Stopped => bail!(
            "the program was stopped after {} minutes; one of your functions may be very slow",
            TRAINING_LIMIT.as_secs() / 60
        ),
    }
}

/// Checks all exercises and prints a line about each of them.
fn check_all(folder: &Folder) -> Result<()> {
    let names: Vec<&str> = EXERCISES.iter().map(|exercise| exercise.name).collect();
    let programs = program::build(&folder.path, &names, false)?;
    for exercise in EXERCISES {
        let progress = match programs.built.get(exercise.name) {
            Some(program) => {
                let run = program::run(program, CHECK_LIMIT, false)?;
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

/// The result of building and running the reader's program for an exercise.
struct Verdict {
    outcome: Outcome,
    /// Reason why the exercise doesn't count as done even if the outcome is good, such as a crash
    /// of the program. The second string is advice for the reader, and may be empty. This is `None`
    /// if there is no such reason.
    failure: Option<(String, String)>,
    /// Text of the report that the check wrote.
    report: String,
}

impl Verdict {
    /// Returns the verdict on a program that doesn't compile.
    fn broken() -> Self {
        let failure = ("it doesn't compile yet".to_owned(), String::new());
        Self {
            outcome: Outcome::NotWritten,
            failure: Some(failure),
            report: String::new(),
        }
    }

    /// Returns the verdict on a program that was run.
    fn of(exercise: &Exercise, (end, report): (End, Option<String>)) -> Self {
        let report = report.unwrap_or_default();
        let outcome = Outcome::of_report(&report);
        let failure = match end {
            End::Stopped => Some((
                format!(
                    "the program was stopped after {} seconds",
                    CHECK_LIMIT.as_secs()
                ),
                "it may contain an endless loop".to_owned(),
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

/// Stores a verdict as the exercise's progress, and returns the progress.
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

/// Builds and runs an exercise, and shows the compiler's messages and the program's output. Returns
/// true if the exercise is done.
fn check(folder: &Folder, exercise: &Exercise) -> Result<bool> {
    let programs = program::build(&folder.path, &[exercise.name], true)?;
    let verdict = match programs.built.get(exercise.name) {
        Some(program) => Verdict::of(exercise, program::run(program, CHECK_LIMIT, true)?),
        None => Verdict::broken(),
    };
    print(&verdict.report)?;
    match &verdict.failure {
        Some((failure, advice)) if !advice.is_empty() => print(&format!("{failure}; {advice}\n"))?,
        Some((failure, _)) => print(&format!("{failure}\n"))?,
        None => {}
    }
    let is_done = store(folder, exercise, verdict)?.is_done();
    if is_done {
        let number = exercise.number();
        print(&format!(
            "done; to compare your solution with the reference solution, run: cargo xtask practice {number} --diff\n"
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
        "the solution of {} is shown once yours passes all checks; for help, use --hint",
        exercise.number()
    );
    let solution = folder.write_solution(exercise)?;
    let diff = Command::new("git")
        .args(["diff", "--no-index", "--no-prefix", "--"])
        .args([&folder.file(exercise), &solution])
        .status();
    match diff {
        Ok(_) => Ok(()),
        // Without git, the whole solution is shown.
        Err(_) => print(&exercise.solution()),
    }
}

fn reset(folder: &Folder, exercise: &Exercise) -> Result<()> {
    print(&format!(
        "Start exercise {} over? A copy of your file will be kept. [y/N] ",
        exercise.number()
    ))?;
    stdout().flush()?;
    let mut answer = String::new();
    stdin().read_line(&mut answer)?;
    if !answer.trim().eq_ignore_ascii_case("y") {
        return print("nothing was changed\n");
    }
    let copy = folder.reset(exercise)?;
    print(&format!("your file was copied to {}\n", copy.display()))
}

/// Checks an exercise each time its file changes. Once it is done, continues with the next exercise
/// that isn't done.
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
                "save the file to check it again, or type h (hint), n (next exercise), l (list) or q (quit) and press Enter\n",
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

/// Returns a channel that receives the lines that the reader types. A separate thread reads them.
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
