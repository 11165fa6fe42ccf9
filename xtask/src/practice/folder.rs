//! The reader's folder, which contains the files of the exercises and the reader's progress. Files
//! that the reader edits are created once and never overwritten, except by `--reset`, which keeps a
//! copy.

use std::collections::BTreeMap;
use std::fs;
use std::io::{ErrorKind, Write};
use std::path::PathBuf;

use anyhow::{Context, Result};
use atomic_file::{create_folder, write_atomically, write_output};
use practice::{EXERCISES, Exercise, files_of_gpt};
use serde::{Deserialize, Serialize};

use crate::workspace::{lock_folder, root};

/// Name of the program that combines the reader's functions into a GPT.
pub(super) const GPT: &str = "gpt";

/// Optimization level of each package whose speed matters for the training of the reader's GPT.
pub(super) const OPT_LEVELS: [(&str, u8); 9] = [
    ("my-practice", 2),
    ("attention", 2),
    ("gpt", 2),
    ("kernels", 3),
    ("matrixmultiply", 3),
    ("ndarray", 2),
    ("rayon-core", 2),
    ("tensor-ops", 2),
    ("torch-rng", 2),
];

/// A reader's progress in an exercise.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Progress {
    /// Number of checks that passed in the last run.
    pub(super) passed: u64,
    /// Total number of checks, or 0 if the reader hasn't written the functions yet.
    pub(super) total: u64,
    /// Reason why the result of the last run doesn't count, or `None` if it counts.
    pub(super) failure: Option<String>,
    /// Number of hints that were shown.
    pub(super) hints: usize,
    /// Text that the exercise's file contained when the reader started, or `None` if it isn't
    /// known.
    task: Option<String>,
}

impl Progress {
    pub(super) fn is_done(&self) -> bool {
        self.failure.is_none() && self.total > 0 && self.passed == self.total
    }

    /// Returns true if the task has changed since the reader started the exercise.
    pub(super) fn has_changed(&self, exercise: &Exercise) -> bool {
        let stub = exercise.stub();
        self.task.as_ref().is_some_and(|task| *task != stub)
    }
}

/// The reader's progress in all exercises, by the names of the exercises.
pub(super) struct State(BTreeMap<String, Progress>);

impl State {
    pub(super) fn of(&self, exercise: &Exercise) -> Progress {
        self.0.get(exercise.name).cloned().unwrap_or_default()
    }

    pub(super) fn is_done(&self, exercise: &Exercise) -> bool {
        self.of(exercise).is_done()
    }

    /// Returns the first exercise that isn't done, or `None` if all exercises are done.
    pub(super) fn next(&self) -> Option<&'static Exercise> {
        EXERCISES.iter().find(|exercise| !self.is_done(exercise))
    }
}

/// The reader's folder.
pub(super) struct Folder {
    pub(super) path: PathBuf,
}

impl Folder {
    /// Opens the folder and creates missing files.
    ///
    /// # Errors
    /// Returns an error if a file can't be read or written, or if the stored progress is damaged.
    pub(super) fn open(path: PathBuf) -> Result<Self> {
        create_folder(path.join("src/bin"))?;
        let folder = Self { path };
        folder.state()?;
        folder.write_manifest()?;
        let lock = fs::read_to_string(root().join("Cargo.lock"))?;
        folder.create("Cargo.lock", &lock)?;
        folder.create(".gitignore", "*\n")?;
        for exercise in EXERCISES {
            if folder.create(&format!("src/bin/{}.rs", exercise.name), &exercise.stub())? {
                folder.update(exercise, |progress| progress.task = Some(exercise.stub()))?;
            }
        }
        Ok(folder)
    }

    /// Creates Cargo.toml. If the file already exists, updates only its path to the library
    /// `practice`, which is wrong if the reader has moved the folder or the project.
    fn write_manifest(&self) -> Result<()> {
        const START: &str = "practice = { path = ";
        let library = self.way_to_root()?.join("crates/tools/practice");
        let library = library.to_str().context(
            "the path of this project must be valid UTF-8, because it is written to Cargo.toml",
        )?;
        let quoted = library.replace('\\', "\\\\").replace('"', "\\\"");
        let dependency = format!("{START}\"{quoted}\" }}");
        let path = self.path.join("Cargo.toml");
        let Ok(text) = fs::read_to_string(&path) else {
            let manifest = format!(
                "[package]\nname = \"my-practice\"\nversion = \"0.1.0\"\nedition = \"2024\"\npublish = false\n\n\
                 [dependencies]\n{dependency}\n\n[profile.dev]\ndebug = false\n\n\
                 [lints.rust] # unfinished exercises contain unused code\n\
                 dead_code = \"allow\"\nunused_variables = \"allow\"\nunused_imports = \"allow\"\n\n\
                 [workspace] # separate from the project, so an error here does not affect it\n"
            );
            self.create("Cargo.toml", &manifest)?;
            return Ok(());
        };
        let is_old = |line: &&str| line.starts_with(START) && *line != dependency;
        match text.lines().find(is_old) {
            Some(line) => {
                let text = text.replacen(line, &dependency, 1);
                Ok(write_atomically(path, |out| {
                    out.write_all(text.as_bytes())
                })?)
            }
            None => Ok(()),
        }
    }

    /// Returns the path from the folder to the project. It is relative if the folder is inside the
    /// project, so the project can be moved. Otherwise, it is absolute.
    fn way_to_root(&self) -> Result<PathBuf> {
        let (folder, root) = (self.path.canonicalize()?, root().canonicalize()?);
        Ok(match folder.strip_prefix(&root) {
            Ok(inside) => inside.iter().map(|_| "..").collect(),
            Err(_) => root,
        })
    }

    /// Creates a file unless it exists. Returns true if it was created.
    fn create(&self, name: &str, text: &str) -> Result<bool> {
        let path = self.path.join(name);
        if path.exists() {
            return Ok(false);
        }
        write_output(path, |out| out.write_all(text.as_bytes()))?;
        Ok(true)
    }

    /// Returns the path of the reader's file for an exercise.
    pub(super) fn file(&self, exercise: &Exercise) -> PathBuf {
        self.path.join(format!("src/bin/{}.rs", exercise.name))
    }

    /// Returns the path of the reader's file for use in messages. The path is relative to the
    /// project if possible.
    pub(super) fn shown(&self, exercise: &Exercise) -> String {
        let (file, root) = (self.file(exercise), root());
        file.strip_prefix(root)
            .unwrap_or(&file)
            .display()
            .to_string()
    }

    /// Reads the stored progress. Returns an empty state if no progress has been stored yet.
    ///
    /// # Errors
    /// Returns an error if the file is damaged or can't be read.
    pub(super) fn state(&self) -> Result<State> {
        let path = self.path.join("state.json");
        match fs::read_to_string(&path) {
            Ok(text) => Ok(State(serde_json::from_str(&text).with_context(|| {
                format!(
                    "{} is damaged; to continue, delete the file, which resets your progress",
                    path.display()
                )
            })?)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(State(BTreeMap::new())),
            Err(error) => Err(error).with_context(|| path.display().to_string()),
        }
    }

    /// Calls `change` with the reader's progress in an exercise, stores the changed progress, and
    /// returns the result of `change`. The file is locked in the meantime, so other processes can
    /// change the progress in other exercises without losing any changes.
    ///
    /// # Errors
    /// Returns an error if the file is damaged, or if it can't be read or written.
    pub(super) fn update<R>(
        &self,
        exercise: &Exercise,
        change: impl FnOnce(&mut Progress) -> R,
    ) -> Result<R> {
        let _lock = lock_folder(&self.path)?;
        let State(mut state) = self.state()?;
        let result = change(state.entry(exercise.name.to_owned()).or_default());
        let text = serde_json::to_string_pretty(&state)?;
        write_atomically(self.path.join("state.json"), |out| {
            out.write_all(text.as_bytes())
        })?;
        Ok(result)
    }

    /// Starts an exercise again. Copies the reader's file to `kept/`, replaces the file with its
    /// initial version, and deletes the progress in the exercise. Returns the path of the copy.
    ///
    /// # Errors
    /// Returns an error if a file can't be read or written.
    pub(super) fn reset(&self, exercise: &Exercise) -> Result<PathBuf> {
        let file = self.file(exercise);
        let text = fs::read(&file).with_context(|| file.display().to_string())?;
        let copy = |number: u32| {
            self.path
                .join(format!("kept/{}.{number}.rs", exercise.name))
        };
        let copy = (1..).map(copy).find(|copy| !copy.exists());
        let copy =
            copy.context("can't find an unused file name for the backup copy of your file")?;
        create_folder(self.path.join("kept"))?;
        write_output(&copy, |out| out.write_all(&text))?;
        write_atomically(&file, |out| out.write_all(exercise.stub().as_bytes()))?;
        self.update(exercise, |progress| {
            *progress = Progress {
                task: Some(exercise.stub()),
                ..Progress::default()
            };
        })?;
        Ok(copy)
    }

    /// Writes the program that combines the reader's functions into a GPT.
    ///
    /// # Errors
    /// Returns an error if a file can't be written.
    pub(super) fn write_gpt(&self) -> Result<()> {
        let folder = self.path.join("src/bin").join(GPT);
        create_folder(&folder)?;
        for (name, text) in files_of_gpt() {
            write_atomically(folder.join(name), |out| out.write_all(text.as_bytes()))?;
        }
        Ok(())
    }

    /// Writes the solution of an exercise to a file in this folder and returns the path of the
    /// file.
    ///
    /// # Errors
    /// Returns an error if the file can't be written.
    pub(super) fn write_solution(&self, exercise: &Exercise) -> Result<PathBuf> {
        let path = self.path.join(format!("{}.solution.rs", exercise.name));
        let solution = exercise.solution();
        write_atomically(&path, |out| out.write_all(solution.as_bytes()))?;
        Ok(path)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn files_of_the_reader_are_made_once_and_never_overwritten() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("practice");
        let folder = Folder::open(path.clone()).unwrap();
        let file = folder.file(&EXERCISES[0]);
        assert!(file.starts_with(&path) && fs::read_to_string(&file).unwrap().contains("todo!()"));
        fs::write(&file, "mine").unwrap();
        fs::remove_file(folder.file(&EXERCISES[1])).unwrap();
        let again = Folder::open(path).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
        assert!(again.file(&EXERCISES[1]).exists());
        let next = again.state().unwrap().next();
        assert_eq!(next.map(|it| it.name), Some(EXERCISES[0].name));
        assert!(
            again
                .reset(&EXERCISES[0])
                .unwrap()
                .ends_with("kept/s2_3.1.rs")
        );
        assert!(
            again
                .reset(&EXERCISES[0])
                .unwrap()
                .ends_with("kept/s2_3.2.rs")
        );
    }

    #[test]
    fn a_stale_path_in_the_manifest_is_corrected_and_nothing_else() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("practice");
        let manifest = path.join("Cargo.toml");
        let read = || fs::read_to_string(&manifest).unwrap();
        Folder::open(path.clone()).unwrap();
        let right = read();
        let library = root().canonicalize().unwrap().join("crates/tools/practice");
        assert!(right.contains(&format!("{library:?}")), "{right}");
        let old = right.replace(library.to_str().unwrap(), "/old/crates/tools/practice");
        fs::write(&manifest, format!("{old}# mine\n")).unwrap();
        Folder::open(path).unwrap();
        assert_eq!(read(), format!("{right}# mine\n"));
        let inside = Folder {
            path: root().join("xtask/src"),
        };
        assert_eq!(inside.way_to_root().unwrap(), Path::new("../.."));
    }

    #[test]
    fn two_processes_do_not_lose_each_others_progress() {
        let parent = tempfile::tempdir().unwrap();
        let [one, other] = [(); 2].map(|()| Folder::open(parent.path().into()).unwrap());
        let pass = |folder: &Folder, exercise: &Exercise| {
            let pass = |progress: &mut Progress| (progress.passed, progress.total) = (4, 4);
            folder.update(exercise, pass).unwrap();
        };
        std::thread::scope(|scope| {
            scope.spawn(|| EXERCISES.iter().step_by(2).for_each(|it| pass(&one, it)));
            scope.spawn(|| {
                EXERCISES
                    .iter()
                    .skip(1)
                    .step_by(2)
                    .for_each(|it| pass(&other, it))
            });
        });
        assert!(one.state().unwrap().next().is_none());
    }
}
