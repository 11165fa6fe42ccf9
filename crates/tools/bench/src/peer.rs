//! The peers: programs beside this one, in Python but for candle's, each in a process of its own, asked line by line (see `peers/protocol.py`).

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// The variables that tell a peer, its OpenMP or its rayon how many threads to use.
const THREADS: [&str; 3] = ["BENCH_THREADS", "OMP_NUM_THREADS", "RAYON_NUM_THREADS"];

/// A peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Name {
    /// The book's architecture in torch.nn: untied head.
    Pytorch,
    /// The book's architecture in candle: untied head.
    Candle,
    /// GPT2LMHeadModel in f32: tied head.
    TransformersF32,
    /// The same in bf16.
    TransformersBf16,
    /// The same in f32 after `torch.compile`.
    TransformersCompiled,
    /// llama.cpp in f32: tied head.
    LlamaF32,
    /// The same in f16.
    LlamaF16,
    /// The same in 8 bits.
    LlamaQ8,
    /// The same in 4 bits.
    LlamaQ4,
    /// The tokenizer.
    Tiktoken,
}

impl Name {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Pytorch => "pytorch",
            Self::Candle => "candle",
            Self::TransformersF32 => "transformers-f32",
            Self::TransformersBf16 => "transformers-bf16",
            Self::TransformersCompiled => "transformers-compiled",
            Self::LlamaF32 => "llama-f32",
            Self::LlamaF16 => "llama-f16",
            Self::LlamaQ8 => "llama-q8_0",
            Self::LlamaQ4 => "llama-q4_0",
            Self::Tiktoken => "tiktoken",
        }
    }

    /// The precision it computes in.
    pub(crate) fn precision(self) -> &'static str {
        match self {
            Self::Pytorch | Self::Candle | Self::TransformersF32 => "f32",
            Self::TransformersCompiled | Self::LlamaF32 => "f32",
            Self::TransformersBf16 => "bf16",
            Self::LlamaF16 => "f16",
            Self::LlamaQ8 => "int8",
            Self::LlamaQ4 => "int4",
            Self::Tiktoken => "",
        }
    }

    /// What starts it.
    fn command(self, python: &Path) -> Command {
        let peers = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers");
        let script = |name: &str, arguments: &[&str]| {
            let mut command = Command::new(python);
            command.arg("-B"); // leaves no compiled files in the repository
            command.arg(peers.join(name)).args(arguments);
            command
        };
        match self {
            Self::Pytorch => script("book.py", &[]),
            Self::Candle => Command::new(peers.join("candle/target/release/candle-peer")),
            Self::TransformersF32 => script("huggingface.py", &["f32"]),
            Self::TransformersBf16 => script("huggingface.py", &["bf16"]),
            Self::TransformersCompiled => script("huggingface.py", &["compiled"]),
            Self::LlamaF32 => script("llama.py", &["f32"]),
            Self::LlamaF16 => script("llama.py", &["f16"]),
            Self::LlamaQ8 => script("llama.py", &["q8_0"]),
            Self::LlamaQ4 => script("llama.py", &["q4_0"]),
            Self::Tiktoken => script("tokens.py", &[]),
        }
    }
}

/// All peers of a run; each is started when it is first asked.
pub(crate) struct Peers {
    python: PathBuf,
    threads: usize,
    started: BTreeMap<Name, Option<Peer>>,
    versions: BTreeMap<&'static str, String>,
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

    /// What each peer that was asked for said it is, or that it is absent.
    pub(crate) fn versions(&self) -> BTreeMap<&'static str, String> {
        self.versions.clone()
    }

    /// A peer that goes on from work to work; `None` if it is absent.
    pub(crate) fn get(&mut self, name: Name) -> Option<&mut Peer> {
        if !self.started.contains_key(&name) {
            let peer = self.start(name);
            self.started.insert(name, peer);
        }
        self.started.get_mut(&name)?.as_mut()
    }

    /// A new process of a peer; `None`, with the reason kept among the versions, if there is none.
    pub(crate) fn start(&mut self, name: Name) -> Option<Peer> {
        let (peer, version) = match Peer::start(&self.python, name, self.threads) {
            Ok((peer, version)) => (Some(peer), version),
            Err(reason) => (None, format!("absent: {reason}")),
        };
        self.versions.insert(name.as_str(), version);
        peer
    }

    /// Every started peer lets go of what its last work held.
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
    /// `None` once it has been told to end.
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Peer {
    /// The process and its version, or why there is none.
    fn start(python: &Path, name: Name, threads: usize) -> Result<(Self, String), String> {
        let threads = threads.to_string();
        let mut command = name.command(python);
        let program = PathBuf::from(command.get_program());
        let mut process = command
            .envs(THREADS.map(|variable| (variable, &threads)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("{}: {error}", program.display()))?;
        let input = process.stdin.take();
        let output = BufReader::new(process.stdout.take().ok_or("no output")?);
        let mut peer = Self {
            process,
            input,
            output,
        };
        let ready = peer
            .answer()
            .map_err(|_| format!("{} can't import it", program.display()))?;
        match ready
            .strip_prefix("ready ")
            .and_then(|rest| rest.split_once(' '))
        {
            Some((_, version)) => Ok((peer, version.to_owned())),
            None => Err(format!("it said {ready:?}")),
        }
    }

    /// Seconds of one turn of `work`, or why not.
    pub(crate) fn seconds(&mut self, work: &str) -> Result<f64, String> {
        self.number(&format!("run {work}"), "seconds ")
    }

    /// The most bytes it has held.
    pub(crate) fn peak(&mut self) -> Result<f64, String> {
        self.number("peak", "bytes ")
    }

    fn number(&mut self, question: &str, prefix: &str) -> Result<f64, String> {
        let answer = self.ask(question)?;
        match answer
            .strip_prefix(prefix)
            .and_then(|number| number.parse().ok())
        {
            Some(number) => Ok(number),
            None => Err(answer.strip_prefix("absent ").unwrap_or(&answer).to_owned()),
        }
    }

    fn ask(&mut self, question: &str) -> Result<String, String> {
        let input = self.input.as_mut().ok_or("it has ended")?;
        writeln!(input, "{question}").map_err(|error| error.to_string())?;
        self.answer()
    }

    fn answer(&mut self) -> Result<String, String> {
        let mut line = String::new();
        match self.output.read_line(&mut line) {
            Ok(0) => Err("it ended".to_owned()),
            Ok(_) => Ok(line.trim_end().to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // The end of its input ends it.
        self.input = None;
        self.process.wait().ok();
    }
}
