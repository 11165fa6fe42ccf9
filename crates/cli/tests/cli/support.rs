//! Runs the binary in a folder of its own, and makes models that train in no time.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use serde_json::Value;
use tempfile::TempDir;

/// Flags of a model of some hundred parameters on `data.bin`, 61 tokens in its vocabulary.
pub(crate) const TINY: &str = "--data data.bin --vocab-size 61 --n-layers 1 --n-heads 2 --emb-dim 8 \
    --context-length 8 --batch-size 4 --threads 1 --learning-rate 0.01 --warmup-steps 2 \
    --eval-interval 5 --eval-iters 2 --sample-tokens 3";

/// A folder with `data.bin`, 400 ids below 61.
pub(crate) fn folder() -> TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let ids = (0..400u32).map(|i| (i * i / 7 + 3 * i) % 61);
    let bytes: Vec<u8> = ids.flat_map(|id| (id as u16).to_le_bytes()).collect();
    std::fs::write(folder.path().join("data.bin"), bytes).expect("a file");
    folder
}

/// `gpt` with arguments that stand apart by blanks, in a folder, without an input.
pub(crate) fn command(folder: &Path, args: &str) -> Command {
    command_with(folder, args.split_whitespace())
}

fn command_with(folder: &Path, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpt"));
    command
        .args(args)
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// What a run of `gpt` gave.
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
    /// Standard output as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).expect("one JSON object")
    }
}

/// Runs `gpt`.
pub(crate) fn gpt(folder: &Path, args: &str) -> Ran {
    command(folder, args).output().expect("gpt runs").into()
}

/// Runs `gpt` with arguments that may have blanks.
pub(crate) fn gpt_with(folder: &Path, args: &[String]) -> Ran {
    command_with(folder, args)
        .output()
        .expect("gpt runs")
        .into()
}

/// Runs `gpt`, which must succeed.
#[track_caller]
pub(crate) fn ok(folder: &Path, args: &str) -> Ran {
    let ran = gpt(folder, args);
    assert_eq!(
        ran.code,
        Some(0),
        "gpt {args}\n{}{}",
        ran.stdout,
        ran.stderr
    );
    ran
}

/// Runs `gpt`, which must fail with this code and one line that holds all of `parts`.
#[track_caller]
pub(crate) fn refused(folder: &Path, args: &str, code: i32, parts: &[&str]) {
    let ran = gpt(folder, args);
    assert_eq!(
        ran.code,
        Some(code),
        "gpt {args}\n{}{}",
        ran.stdout,
        ran.stderr
    );
    let lines: Vec<&str> = ran.stderr.lines().filter(|line| !line.is_empty()).collect();
    assert_eq!(
        lines.len(),
        1,
        "gpt {args}: one line expected: {}",
        ran.stderr
    );
    assert!(lines[0].starts_with("error: "), "gpt {args}: {}", lines[0]);
    for part in parts {
        assert!(
            lines[0].contains(part),
            "gpt {args}: {part:?} expected in: {}",
            lines[0]
        );
    }
}

/// Runs `gpt` with a text on standard input.
pub(crate) fn gpt_reading(folder: &Path, args: &str, input: &str) -> Ran {
    use std::io::Write;
    let mut child = command(folder, args)
        .stdin(Stdio::piped())
        .spawn()
        .expect("gpt runs");
    let mut stdin = child.stdin.take().expect("it is piped");
    stdin.write_all(input.as_bytes()).expect("gpt reads");
    drop(stdin);
    child.wait_with_output().expect("gpt ends").into()
}

/// The names of a run's checkpoints, the newest last.
pub(crate) fn checkpoints(run: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(run.join("checkpoints")).expect("a run");
    let names = entries.map(|entry| entry.expect("an entry").file_name().into_string());
    let mut names: Vec<String> = names.collect::<Result<_, _>>().expect("text");
    names.sort();
    names
}

/// A run's model folder: the newest checkpoint.
pub(crate) fn checkpoint(run: &Path) -> PathBuf {
    let newest = checkpoints(run).pop().expect("a checkpoint");
    run.join("checkpoints").join(newest)
}

/// A model of GPT-2's vocabulary in `runs/0001`, made once for all tests; nothing may write here.
pub(crate) fn trained() -> &'static Path {
    static FOLDER: OnceLock<TempDir> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a temporary folder");
        ok(
            folder.path(),
            "train --tokenizer gpt2 --n-layers 1 --n-heads 2 --emb-dim 8 --context-length 16 --batch-size 2 --max-steps 2 \
             --eval-iters 1 --threads 1 --sample-tokens 2",
        );
        folder
    });
    folder.path()
}

/// The losses that a run has logged: (step, loss), in order.
pub(crate) fn logged_losses(run: &Path) -> Vec<(u64, f64)> {
    log(run)
        .iter()
        .filter(|line| line["event"] == "step")
        .map(|line| {
            (
                line["step"].as_u64().expect("a step"),
                line["loss"].as_f64().expect("a loss"),
            )
        })
        .collect()
}

/// Every line of a run's log.
pub(crate) fn log(run: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(run.join("log.jsonl")).expect("a log");
    text.lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}
