//! Functions that run the program in a temporary folder and quickly create tiny models.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::Write;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use serde_json::Value;
use tempfile::TempDir;

/// Options that train a model on the file `data.bin`. The model has about 2,000 parameters and a
/// vocabulary of 61 tokens.
pub(crate) const TINY: &str = "--data data.bin --vocab-size 61 --n-layers 1 --n-heads 2 --emb-dim 8 \
    --context-length 8 --batch-size 4 --threads 1 --learning-rate 0.01 --warmup-steps 2 \
    --eval-interval 5 --eval-iters 2";

/// A temporary folder that is the working directory of `gpt`. Standard input is empty, unless a
/// test provides input.
pub(crate) struct Folder(TempDir);

/// Creates a temporary folder that contains the file `data.bin` with 400 token IDs from 0 to 60.
pub(crate) fn folder() -> Folder {
    let folder = Folder(tempfile::tempdir().expect("a temporary folder"));
    let ids = (0..400u32).map(|i| (i * i / 7 + 3 * i) % 61);
    let bytes: Vec<u8> = ids.flat_map(|id| (id as u16).to_le_bytes()).collect();
    folder.write("data.bin", bytes);
    folder
}

/// Number of tokens in the vocabulary of the model in [`trained`].
pub(crate) const TOKENS: usize = 400;

/// Returns a folder that contains a trained model in `runs/0001`. The model has a BPE vocabulary of
/// [`TOKENS`] tokens. All tests share this folder, so a test must neither change the model nor add
/// runs.
pub(crate) fn trained() -> &'static Folder {
    static FOLDER: OnceLock<Folder> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = folder();
        folder.ok(&format!(
            "train --tokenizer bpe:{TOKENS} --n-layers 1 --n-heads 2 --emb-dim 8 --context-length 16 --batch-size 2 \
             --max-steps 2 --eval-iters 1 --threads 1"
        ));
        folder
    })
}

impl Deref for Folder {
    type Target = Path;

    fn deref(&self) -> &Path {
        self.0.path()
    }
}

impl Folder {
    /// Returns the command `gpt` with arguments that are separated by spaces.
    pub(crate) fn command(&self, args: &str) -> Command {
        self.command_with(args.split_whitespace())
    }

    pub(crate) fn command_with(
        &self,
        args: impl IntoIterator<Item = impl AsRef<OsStr>>,
    ) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gpt"));
        command
            .args(args)
            .current_dir(&**self)
            // Cargo sets the environment variable `CARGO_PKG_NAME` when it runs the tests. It is
            // removed here, because `gpt` would otherwise refer to itself as `cargo gpt` in its
            // messages.
            .env_remove("CARGO_PKG_NAME")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs `gpt`.
    pub(crate) fn gpt(&self, args: &str) -> Ran {
        self.command(args).output().expect("gpt runs").into()
    }

    /// Runs `gpt` with `input` as its standard input.
    pub(crate) fn gpt_reading(&self, args: &str, input: &str) -> Ran {
        let mut child = self
            .command(args)
            .stdin(Stdio::piped())
            .spawn()
            .expect("gpt runs");
        let mut stdin = child.stdin.take().expect("it is piped");
        // An error while writing to the standard input of `gpt` is ignored. It only means that
        // `gpt` ended before it had read all of its input, and the test learns more from the error
        // message of `gpt`.
        let _ = stdin.write_all(input.as_bytes());
        drop(stdin);
        child.wait_with_output().expect("gpt ends").into()
    }

    /// Runs `gpt` and asserts that it succeeds.
    #[track_caller]
    pub(crate) fn ok(&self, args: &str) -> Ran {
        let ran = self.gpt(args);
        let (stdout, stderr) = (&ran.stdout, &ran.stderr);
        assert_eq!(ran.code, Some(0), "gpt {args}\n{stdout}{stderr}");
        ran
    }

    /// Runs `gpt` with `--json`, asserts that it succeeds, and returns the JSON object that it
    /// prints.
    #[track_caller]
    pub(crate) fn json(&self, args: &str) -> Value {
        self.ok(&format!("{args} --json")).json()
    }

    /// Runs `gpt` and asserts that it fails with exit code 1 and a one-line error message that
    /// contains all `parts`.
    #[track_caller]
    pub(crate) fn refused(&self, args: &str, parts: &[&str]) {
        self.gpt(args).is_refusal(args, 1, parts);
    }

    /// Runs `gpt` and asserts that it rejects its command line with exit code 2 and a one-line
    /// error message that contains all `parts`.
    #[track_caller]
    pub(crate) fn misused(&self, args: &str, parts: &[&str]) {
        self.gpt(args).is_refusal(args, 2, parts);
    }

    /// Writes a file.
    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        std::fs::write(self.join(name), bytes).expect("a file");
    }

    /// Returns the names of a run's checkpoints, in order of the number of training steps.
    pub(crate) fn checkpoints(&self, run: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.join(run).join("checkpoints")).expect("a run");
        let names = entries.map(|entry| entry.expect("an entry").file_name().into_string());
        let mut names: Vec<String> = names.collect::<Result<_, _>>().expect("text");
        names.sort();
        names
    }

    /// Returns the path of a run's latest checkpoint, which is a folder that contains a complete
    /// model.
    pub(crate) fn checkpoint(&self, run: &str) -> PathBuf {
        let newest = self.checkpoints(run).pop().expect("a checkpoint");
        self.join(run).join("checkpoints").join(newest)
    }

    /// Returns the names and contents of the files in a folder.
    pub(crate) fn files(&self, name: &str) -> BTreeMap<String, Vec<u8>> {
        let entries = std::fs::read_dir(self.join(name)).expect("a folder");
        let paths = entries.map(|entry| entry.expect("an entry").path());
        paths
            .map(|path| {
                let name = path.file_name().expect("a name").to_string_lossy();
                let name = name.into_owned();
                (name, std::fs::read(path).expect("a file"))
            })
            .collect()
    }

    /// Returns the contents of two files from a run's latest checkpoint: the weights and the
    /// optimizer's moments.
    pub(crate) fn tensors(&self, run: &str) -> [Vec<u8>; 2] {
        let checkpoint = self.checkpoint(run);
        ["model.safetensors", "optimizer.safetensors"]
            .map(|file| std::fs::read(checkpoint.join(file)).expect("a file of the checkpoint"))
    }

    /// Returns the lines of a run's log.
    pub(crate) fn log(&self, run: &str) -> Vec<Value> {
        let text = std::fs::read_to_string(self.join(run).join("log.jsonl")).expect("a log");
        text.lines()
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect()
    }

    /// Returns the training losses in a run's log. Each pair consists of the index of a training
    /// step and its loss.
    pub(crate) fn logged_losses(&self, run: &str) -> Vec<(u64, f64)> {
        let log = self.log(run).into_iter();
        log.filter(|line| line["event"] == "step")
            .map(|line| {
                let step = line["step"].as_u64().expect("a step");
                (step, line["loss"].as_f64().expect("a loss"))
            })
            .collect()
    }
}

/// Asserts that a string contains all `parts`.
#[track_caller]
pub(crate) fn holds(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} expected in:\n{text}");
    }
}

/// The exit code and the output of `gpt`.
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).expect("text"),
            stderr: String::from_utf8(output.stderr).expect("text"),
        }
    }
}

impl Ran {
    /// Returns the JSON object on standard output.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).expect("one JSON object")
    }

    #[track_caller]
    pub(crate) fn is_refusal(&self, args: &str, code: i32, parts: &[&str]) {
        let Self { stdout, stderr, .. } = self;
        assert_eq!(self.code, Some(code), "gpt {args}\n{stdout}{stderr}");
        let lines: Vec<&str> = stderr.lines().filter(|line| !line.is_empty()).collect();
        let [line] = lines[..] else {
            panic!("gpt {args} must print one line to standard error, got {stderr}");
        };
        assert!(line.starts_with("error: "), "gpt {args}: {line}");
        holds(line, parts);
    }
}
