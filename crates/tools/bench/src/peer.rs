//! Starts the peers, which are Python programs that execute the same workloads as this project.
//! Each peer runs in its own process and communicates with the bench through a line-based protocol,
//! which `peers/protocol.py` describes.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, ensure};

/// Environment variables that tell a peer (a competing program) how many threads to use. The peers'
/// scripts read the first variable, and OpenMP reads the second.
const THREADS: [&str; 2] = ["BENCH_THREADS", "OMP_NUM_THREADS"];

/// A peer in a certain configuration, such as PyTorch in f32. A peer is a program that executes the
/// same workloads as this project.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    /// Number format in which the peer computes.
    pub(crate) precision: &'static str,
    /// Name of the peer's script in the folder `peers/`.
    script: &'static str,
    /// Command-line argument of the script.
    argument: &'static str,
}

const fn kind(name: &'static str, of: [&'static str; 3]) -> Kind {
    let [precision, script, argument] = of;
    Kind {
        name,
        precision,
        script,
        argument,
    }
}

/// PyTorch implementations of the book's model, whose output head isn't tied to the token
/// embedding.
pub(crate) const UNTIED: &[Kind] = &[kind("pytorch", ["f32", "book.py", "f32"]), AUTOCAST];
/// The book's model with `torch.autocast`, which makes PyTorch compute matrix products in bf16. The
/// bench also uses this peer to measure how fast the machine can multiply bf16 matrices.
pub(crate) const AUTOCAST: Kind = kind("pytorch-autocast", ["bf16", "book.py", "autocast"]);
/// Peers (programs that this project is compared with) that run GPT-2 with an output head that is
/// tied to the token embedding. They are `GPT2LMHeadModel` from the transformers library, and
/// llama.cpp, each in several number formats.
pub(crate) const TIED: &[Kind] = &[
    kind("transformers-f32", ["f32", "huggingface.py", "f32"]),
    kind("transformers-bf16", ["bf16", "huggingface.py", "bf16"]),
    kind(
        "transformers-autocast",
        ["bf16", "huggingface.py", "autocast"],
    ),
    kind("llama-f32", ["f32", "llama.py", "f32"]),
    kind("llama-f16", ["f16", "llama.py", "f16"]),
    kind("llama-q8_0", ["int8", "llama.py", "q8_0"]),
    kind("llama-q4_0", ["int4", "llama.py", "q4_0"]),
];
/// Tokenizer libraries with which this project's tokenizer is compared. tiktoken, the first library
/// in this list, is measured only with GPT-2's vocabulary.
pub(crate) const TOKENIZERS: &[Kind] = &[
    kind("tiktoken", ["text", "tokens.py", "tiktoken"]),
    kind("tokenizers", ["text", "tokens.py", "tokenizers"]),
];
/// nanoGPT's own implementation of GPT-2 with a tied output head, without changes. It is measured
/// both in eager mode and compiled with `torch.compile`.
pub(crate) const NANO_GPT: &[Kind] = &[
    kind("nanogpt", ["f32", "nanogpt.py", "eager"]),
    kind("nanogpt-compiled", ["f32", "nanogpt.py", "compiled"]),
];

/// All peers (competing programs) that the bench has needed so far. A peer is started when it is
/// needed for the first time.
pub(crate) struct Peers {
    python: PathBuf,
    threads: usize,
    started: BTreeMap<Kind, Option<Peer>>,
    /// Version of each peer, or the reason why the peer couldn't be started. Peers that haven't
    /// been needed yet are missing.
    pub(crate) versions: BTreeMap<&'static str, String>,
}

impl Peers {
    pub(crate) fn new(python: PathBuf, threads: usize) -> Self {
        Self {
            python,
            threads,
            started: BTreeMap::new(),
            versions: BTreeMap::new(),
        }
    }

    /// Returns the process that runs a peer, which is a program that this project is compared with.
    /// The first call for a peer starts its process, and later calls return the same process for
    /// all workloads. Returns `None` if the peer couldn't be started.
    pub(crate) fn get(&mut self, kind: Kind) -> Option<&mut Peer> {
        if !self.started.contains_key(&kind) {
            let peer = self.start(kind);
            self.started.insert(kind, peer);
        }
        self.started.get_mut(&kind)?.as_mut()
    }

    /// Starts a new process for a peer (a program that this project is compared with) and stores
    /// the peer's version in `versions`. If the peer can't be started, returns `None` and stores
    /// the reason instead of the version.
    pub(crate) fn start(&mut self, kind: Kind) -> Option<Peer> {
        let (peer, version) = match Peer::start(&self.python, kind, self.threads) {
            Ok((peer, version)) => (Some(peer), version),
            Err(reason) => (None, format!("absent: {reason:#}")),
        };
        self.versions.insert(kind.name, version);
        peer
    }

    /// Tells every running peer to free the data of the workload that it executed last, so that
    /// this data doesn't occupy memory during the next workload.
    pub(crate) fn drop_work(&mut self) {
        for peer in self.started.values_mut().flatten() {
            // An error of the command `drop` is ignored here. If the peer doesn't respond to this
            // command, it will also fail to execute the next workload, and the error will be
            // reported then.
            peer.ask("drop").ok();
        }
    }
}

/// A running process that executes workloads with a peer, which is a program that this project is
/// compared with.
pub(crate) struct Peer {
    process: Child,
    output: BufReader<ChildStdout>,
}

impl Peer {
    /// Starts a process for a peer, which is a program that this project is compared with. Returns
    /// the process and the version of the peer, which the process reports.
    ///
    /// # Errors
    ///
    /// Returns an error if the Python interpreter can't be started, or if the Python script that
    /// runs the peer can't import the peer's libraries.
    fn start(python: &Path, kind: Kind, threads: usize) -> Result<(Self, String)> {
        let threads = threads.to_string();
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers");
        let python_is = || python.display().to_string();
        let mut process = Command::new(python)
            .arg("-B") // prevents Python from writing compiled files to the repository
            .arg(folder.join(kind.script))
            .arg(kind.argument)
            .envs(THREADS.map(|variable| (variable, &threads)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .with_context(python_is)?;
        let output = BufReader::new(
            process
                .stdout
                .take()
                .context("the peer's process has no standard output")?,
        );
        let mut peer = Self { process, output };
        let ready = peer.answer();
        let ready = ready
            .ok()
            .with_context(|| python_is() + " can't import the peer's libraries")?;
        let version = ready
            .strip_prefix("ready ")
            .and_then(|it| it.split_once(' '));
        let (_, version) = version.with_context(|| {
            format!("the peer's first answer must contain its version, got {ready:?}")
        })?;
        Ok((peer, version.to_owned()))
    }

    /// Executes a workload once and returns the number of seconds that it took.
    ///
    /// # Errors
    ///
    /// Returns an error if the peer doesn't support the workload or has ended.
    pub(crate) fn seconds(&mut self, work: &str) -> Result<f64> {
        self.number(&format!("run {work}"), "seconds ")
    }

    /// Returns the peak memory of the peer's process in bytes.
    pub(crate) fn peak(&mut self) -> Result<f64> {
        self.number("peak", "bytes ")
    }

    fn number(&mut self, question: &str, prefix: &str) -> Result<f64> {
        let answer = self.ask(question)?;
        let number = answer.strip_prefix(prefix).and_then(|it| it.parse().ok());
        number.context(answer)
    }

    fn ask(&mut self, question: &str) -> Result<String> {
        let input = self
            .process
            .stdin
            .as_mut()
            .context("the peer's process has no standard input")?;
        writeln!(input, "{question}")?;
        self.answer()
    }

    fn answer(&mut self) -> Result<String> {
        let mut line = String::new();
        ensure!(
            self.output.read_line(&mut line)? > 0,
            "the peer's process has ended"
        );
        Ok(line.trim_end().to_owned())
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // `wait` closes the standard input of the peer's process before it waits. At the end of its
        // input, the process exits by itself.
        self.process.wait().ok();
    }
}
