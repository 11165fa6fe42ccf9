//! The peers: Python programs, each in a separate process, with a line protocol (see
//! `peers/protocol.py`).

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, ensure};

/// The variables that set the number of threads of a peer and its OpenMP.
const THREADS: [&str; 2] = ["BENCH_THREADS", "OMP_NUM_THREADS"];

/// A program that does what ours does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    /// The format it computes in
    pub(crate) precision: &'static str,
    /// Its file in `peers/`
    script: &'static str,
    /// That file's argument
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

/// The book's architecture in torch.nn, with an untied head.
pub(crate) const UNTIED: &[Kind] = &[kind("pytorch", ["f32", "book.py", "f32"]), AUTOCAST];
/// The same under `torch.autocast`, which measures bf16 products, too.
pub(crate) const AUTOCAST: Kind = kind("pytorch-autocast", ["bf16", "book.py", "autocast"]);
/// GPT-2 with a tied head: GPT2LMHeadModel and llama.cpp.
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
/// Tokenizers of GPT-2's vocabulary.
pub(crate) const TOKENIZERS: &[Kind] = &[
    kind("tiktoken", ["text", "tokens.py", "tiktoken"]),
    kind("tokenizers", ["text", "tokens.py", "tokenizers"]),
];
/// nanoGPT's model in nanoGPT's code, tied head, unchanged and after `torch.compile`.
pub(crate) const NANO_GPT: &[Kind] = &[
    kind("nanogpt", ["f32", "nanogpt.py", "eager"]),
    kind("nanogpt-compiled", ["f32", "nanogpt.py", "compiled"]),
];

/// All peers of a run; each is started when it is first asked.
pub(crate) struct Peers {
    python: PathBuf,
    threads: usize,
    started: BTreeMap<Kind, Option<Peer>>,
    /// The version of each requested peer, or the reason why it is absent.
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

    /// A peer that continues from work to work; `None` if it is absent.
    pub(crate) fn get(&mut self, kind: Kind) -> Option<&mut Peer> {
        if !self.started.contains_key(&kind) {
            let peer = self.start(kind);
            self.started.insert(kind, peer);
        }
        self.started.get_mut(&kind)?.as_mut()
    }

    /// A new process of a peer; `None`, with the reason kept among the versions, if there is none.
    pub(crate) fn start(&mut self, kind: Kind) -> Option<Peer> {
        let (peer, version) = match Peer::start(&self.python, kind, self.threads) {
            Ok((peer, version)) => (Some(peer), version),
            Err(reason) => (None, format!("absent: {reason:#}")),
        };
        self.versions.insert(kind.name, version);
        peer
    }

    /// Every started peer frees the data of its last work.
    pub(crate) fn drop_work(&mut self) {
        for peer in self.started.values_mut().flatten() {
            // A peer that does not answer is found absent by its next work.
            peer.ask("drop").ok();
        }
    }
}

/// One running peer.
pub(crate) struct Peer {
    process: Child,
    output: BufReader<ChildStdout>,
}

impl Peer {
    /// The process and its version, or why there is none.
    fn start(python: &Path, kind: Kind, threads: usize) -> Result<(Self, String)> {
        let threads = threads.to_string();
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers");
        let python_is = || python.display().to_string();
        let mut process = Command::new(python)
            .arg("-B") // leaves no compiled files in the repository
            .arg(folder.join(kind.script))
            .arg(kind.argument)
            .envs(THREADS.map(|variable| (variable, &threads)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .with_context(python_is)?;
        let output = BufReader::new(process.stdout.take().context("no output")?);
        let mut peer = Self { process, output };
        let ready = peer.answer();
        let ready = ready
            .ok()
            .with_context(|| python_is() + " can't import it")?;
        let version = ready
            .strip_prefix("ready ")
            .and_then(|it| it.split_once(' '));
        let (_, version) = version.with_context(|| format!("its answer was {ready:?}"))?;
        Ok((peer, version.to_owned()))
    }

    /// Seconds of one turn of `work`, or why not.
    pub(crate) fn seconds(&mut self, work: &str) -> Result<f64> {
        self.number(&format!("run {work}"), "seconds ")
    }

    /// The most bytes it has held.
    pub(crate) fn peak(&mut self) -> Result<f64> {
        self.number("peak", "bytes ")
    }

    fn number(&mut self, question: &str, prefix: &str) -> Result<f64> {
        let answer = self.ask(question)?;
        let number = answer.strip_prefix(prefix).and_then(|it| it.parse().ok());
        number.context(answer)
    }

    fn ask(&mut self, question: &str) -> Result<String> {
        let input = self.process.stdin.as_mut().context("it has ended")?;
        writeln!(input, "{question}")?;
        self.answer()
    }

    fn answer(&mut self) -> Result<String> {
        let mut line = String::new();
        ensure!(self.output.read_line(&mut line)? > 0, "it ended");
        Ok(line.trim_end().to_owned())
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // Which closes its input, whose end ends it.
        self.process.wait().ok();
    }
}
