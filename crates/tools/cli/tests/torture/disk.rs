//! Simulates a power failure after each system call with which a command changes files.
//!
//! First, strace records the command's system calls and the data that they write. Then, the
//! recorded calls are repeated one by one on a simulated disk, which keeps track of what has been
//! synced to permanent storage. After each call, the files that a power failure might leave behind
//! are written to a real folder and checked. Data that hasn't been synced can be lost in three
//! ways:
//!
//! - The names and contents of files are lost.
//! - The names of files are kept, as on a file system with a journal, but the contents are lost.
//! - The names of files are kept, but the contents are replaced with zeros.

use std::collections::{BTreeMap, HashSet, hash_map::DefaultHasher};
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};

use crate::calls::has_strace;
use crate::jobs::{Job, conversions, trainings};
use crate::sandbox::{PATIENCE, contents, copy_of, every, gpt_under, report};

/// The state of unsynced data after a power failure.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Left {
    Nothing,
    Names,
    NamesAndZeros,
}

/// A file or folder on the simulated disk. `now` is its current content, as programs would read it.
/// `synced` is the content at the time of the last sync, which survives a power failure.
#[derive(Clone)]
enum Node {
    File { now: Vec<u8>, synced: Vec<u8> },
    Folder { now: Names, synced: Names },
}

/// The content of a folder on the simulated disk. Each name of a file or folder is mapped to the
/// index of its [`Node`] in `Disk::nodes`.
type Names = BTreeMap<String, usize>;

/// A simulated disk. It contains the root folder, which is the first node, and everything below
/// this folder.
struct Disk {
    root: PathBuf,
    nodes: Vec<Node>,
}

impl Disk {
    /// Copies the files and folders below `root` from the real file system to a new simulated disk,
    /// and treats all of them as already synced.
    fn of(root: &Path) -> Self {
        let mut disk = Self {
            root: root.canonicalize().expect("a folder"),
            nodes: Vec::new(),
        };
        disk.read(root);
        disk
    }

    fn read(&mut self, path: &Path) -> usize {
        let at = self.nodes.len();
        if path.is_file() {
            let now = fs::read(path).expect("a file");
            let synced = now.clone();
            self.nodes.push(Node::File { now, synced });
            return at;
        }
        self.nodes.push(Node::Folder {
            now: Names::new(),
            synced: Names::new(),
        });
        for entry in fs::read_dir(path).expect("a folder") {
            let entry = entry.expect("an entry");
            let node = self.read(&entry.path());
            let name = entry.file_name().into_string().expect("text");
            self.names(at).insert(name, node);
        }
        self.sync(at);
        at
    }

    fn names(&mut self, folder: usize) -> &mut Names {
        match &mut self.nodes[folder] {
            Node::Folder { now, .. } => now,
            Node::File { .. } => panic!("a file instead of a folder"),
        }
    }

    fn bytes(&mut self, file: usize) -> &mut Vec<u8> {
        match &mut self.nodes[file] {
            Node::File { now, .. } => now,
            Node::Folder { .. } => panic!("a folder instead of a file"),
        }
    }

    fn sync(&mut self, node: usize) {
        match &mut self.nodes[node] {
            Node::File { now, synced } => synced.clone_from(now),
            Node::Folder { now, synced } => synced.clone_from(now),
        }
    }

    /// Splits a path into its parent folder and its last component. The parent folder is returned
    /// as the index of its node. Returns `None` if the path isn't below the root folder.
    fn place(&mut self, path: &Path) -> Option<(usize, String)> {
        let path = self.root.join(path);
        let below = path.strip_prefix(&self.root).ok()?.to_str()?.to_owned();
        let mut parts: Vec<&str> = below.split('/').collect();
        let name = parts.pop()?.to_owned();
        let mut folder = 0;
        for part in parts {
            folder = *self.names(folder).get(part)?;
        }
        Some((folder, name))
    }

    fn find(&mut self, path: &Path) -> Option<usize> {
        if path == self.root {
            return Some(0);
        }
        let (folder, name) = self.place(path)?;
        self.names(folder).get(&name).copied()
    }

    fn put(&mut self, path: &Path, node: Option<usize>) -> Option<usize> {
        let (folder, name) = self.place(path)?;
        match node {
            Some(node) => self.names(folder).insert(name, node),
            None => self.names(folder).remove(&name),
        }
    }

    fn add(&mut self, path: &Path, node: Node) {
        self.nodes.push(node);
        self.put(path, Some(self.nodes.len() - 1));
    }

    /// Applies a system call that a command made on the real disk to the simulated disk. Returns
    /// true if the call has changed the simulated disk or synced a part of it, so that a power
    /// failure after this call is a new test case.
    fn call(&mut self, call: &Call) -> bool {
        let path = |at: usize| Path::new(call.texts.get(at).map_or("", String::as_str));
        let is = |flag: &str| call.line.contains(flag);
        match call.name {
            "openat" => {
                let opened = Path::new(call.texts.last().expect("a descriptor's path"));
                match self.find(opened) {
                    None if is("O_CREAT") && self.place(opened).is_some() => {
                        let (now, synced) = Default::default();
                        self.add(opened, Node::File { now, synced });
                    }
                    Some(file) if is("O_TRUNC") => self.bytes(file).clear(),
                    _ => return false,
                }
            }
            "mkdir" | "mkdirat" => {
                let new = path(usize::from(call.name == "mkdirat"));
                if self.place(new).is_none() {
                    return false;
                }
                let (now, synced) = Default::default();
                self.add(new, Node::Folder { now, synced });
            }
            "write" | "copy_file_range" | "sendfile" => {
                let (from, to) = match call.name {
                    "write" => (None, 0),
                    "sendfile" => (Some(1), 0),
                    _ => (Some(0), 1),
                };
                let Some(file) = self.find(path(to)) else {
                    return false;
                };
                let mut more = match from.map(|from| self.find(path(from))) {
                    Some(Some(from)) => self.bytes(from).clone(),
                    Some(None) => return false,
                    None => call.data.clone(),
                };
                more.truncate(call.result as usize);
                self.bytes(file).extend(more);
            }
            "ftruncate" => {
                let Some(file) = self.find(path(0)) else {
                    return false;
                };
                let length = call.line.split(", ").nth(1).and_then(|rest| {
                    let digits = rest.split(')').next()?;
                    digits.parse().ok()
                });
                self.bytes(file).resize(length.expect("a length"), 0);
            }
            "fsync" => match self.find(path(0)) {
                Some(node) => self.sync(node),
                None => return false,
            },
            "rename" | "renameat" | "renameat2" => {
                let [from, to] = match call.name {
                    "rename" => [path(0), path(1)],
                    _ => [path(1), path(3)],
                };
                let Some(node) = self.put(from, None) else {
                    return false;
                };
                let old = self.put(to, Some(node));
                if is("RENAME_EXCHANGE") {
                    self.put(from, old);
                }
            }
            "link" | "linkat" => {
                let [from, to] = match call.name {
                    "link" => [path(0), path(1)],
                    _ => [path(1), path(3)],
                };
                let Some(node) = self.find(from) else {
                    return false;
                };
                self.put(to, Some(node));
            }
            "unlink" | "rmdir" => return self.put(path(0), None).is_some(),
            "unlinkat" => return self.put(&path(0).join(path(1)), None).is_some(),
            _ => return false,
        }
        true
    }

    /// Returns the files and folders that a power failure leaves behind on the simulated disk.
    /// `how` determines what happens to unsynced data. Each key is the path of a file or folder.
    /// Each value is the content of a file, or `None` for a folder.
    fn left(&self, how: Left) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
        let mut all = BTreeMap::new();
        let mut open = vec![(0, PathBuf::new())];
        while let Some((node, path)) = open.pop() {
            match &self.nodes[node] {
                Node::Folder { now, synced } => {
                    let names = if how == Left::Nothing { synced } else { now };
                    let below = names.iter().map(|(name, node)| (*node, path.join(name)));
                    open.extend(below);
                    all.insert(path, None);
                }
                Node::File { now, synced } => {
                    let mut bytes = synced.clone();
                    if how == Left::NamesAndZeros {
                        bytes.resize(now.len(), 0);
                    }
                    all.insert(path, Some(bytes));
                }
            }
        }
        all
    }
}

/// A successful system call, parsed from a line of strace's output. In this output, the bytes of
/// all strings are hexadecimal.
struct Call<'a> {
    name: &'a str,
    line: &'a str,
    /// All strings in the line, in order, such as the paths that were passed to the system call.
    /// strace encloses the path of a file descriptor in angle brackets, and any other string in
    /// quotation marks.
    texts: Vec<String>,
    /// Bytes of the last string in the line. If the system call is `write`, these are the bytes
    /// that it wrote to the file.
    data: Vec<u8>,
    result: i64,
}

impl<'a> Call<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (name, _) = line.split_once('(')?;
        let (_, result) = line.rsplit_once(" = ")?;
        let digits = result.split([' ', '<']).next()?;
        let result = digits.parse().ok().filter(|&result: &i64| result >= 0)?;
        let mut runs: Vec<Vec<u8>> = Vec::new();
        for piece in line.split(['"', '<', '>']) {
            if let Some(hex) = piece.strip_prefix("\\x") {
                let byte = |digits| u8::from_str_radix(digits, 16).expect("digits");
                runs.push(hex.split("\\x").map(byte).collect());
            }
        }
        let data = runs.last().cloned().unwrap_or_default();
        let texts = runs
            .into_iter()
            .map(|run| String::from_utf8_lossy(&run).into_owned())
            .collect();
        Some(Self {
            name,
            line,
            texts,
            data,
            result,
        })
    }
}

/// Returns the system calls in a trace, one per line and without process IDs. If a call of another
/// thread comes between the start and the end of a call, strace prints the call on two lines, which
/// are joined here.
fn lines(trace: &str) -> Vec<String> {
    let mut begun: BTreeMap<&str, &str> = BTreeMap::new();
    let mut lines = Vec::new();
    for line in trace.lines() {
        let (process, line) = line.split_once(' ').expect("a process");
        let line = line.trim_start();
        if let Some(beginning) = line.strip_suffix(" <unfinished ...>") {
            begun.insert(process, beginning);
        } else if let Some((_, end)) = line.split_once(" resumed>") {
            let beginning = begun.remove(process).unwrap_or_default();
            lines.push(format!("{beginning}{end}"));
        } else {
            lines.push(line.to_owned());
        }
    }
    lines
}

/// Simulates a power failure after each system call of a command. Returns the number of test cases
/// and a description of each fault.
fn cuts(job: &Job) -> (usize, Vec<String>) {
    let folder = copy_of(job.before.path());
    let mut disk = Disk::of(folder.path());
    let traces = tempfile::tempdir().expect("a temporary folder");
    let trace = traces.path().join("trace");
    let strace = format!(
        "exec strace -f -y -xx -s 100000000 -e trace=%file,%desc -o {}",
        trace.display()
    );
    let ended = gpt_under(&strace, folder.path(), &job.command, PATIENCE);
    assert!(ended.is_ok(), "{}", ended.stderr);
    let trace = fs::read_to_string(trace).expect("a trace");
    let lines = lines(&trace);
    let calls: Vec<Call<'_>> = lines.iter().filter_map(|line| Call::parse(line)).collect();
    let (mut cases, mut seen, mut faults) = (0, HashSet::new(), Vec::new());
    for (i, call) in calls.iter().enumerate() {
        let is_done = i + 1 == calls.len();
        if !disk.call(call) && !is_done {
            continue;
        }
        for how in [Left::Nothing, Left::Names, Left::NamesAndZeros] {
            let left = disk.left(how);
            let mut hasher = DefaultHasher::new();
            left.hash(&mut hasher);
            let is_new = seen.insert(hasher.finish());
            let is_looked_at = is_done || is_new && seen.len().is_multiple_of(every(9));
            if !is_looked_at {
                continue;
            }
            cases += 1;
            let on_disk = tempfile::tempdir().expect("a temporary folder");
            for (path, bytes) in left {
                let path = on_disk.path().join(path);
                match bytes {
                    None => fs::create_dir_all(path).expect("a folder"),
                    Some(bytes) => fs::write(path, bytes).expect("a file"),
                }
            }
            if let Some(fault) = (job.fault)(on_disk.path(), is_done, "") {
                let line: String = call.line.chars().take(20).collect();
                let last = call.texts.last().map_or("", String::as_str);
                faults.push(format!(
                    "after a simulated power failure that followed the system call {line}… {last} and preserved {how:?} of the unsynced data: {fault}"
                ));
            }
        }
    }
    // After the last system call, the simulated disk must contain the same files as the real
    // folder, with the same sizes. Otherwise, the simulation is wrong.
    let all = disk.left(Left::NamesAndZeros).into_iter();
    let files = all.filter_map(|(path, bytes)| Some((path.to_str()?.to_owned(), bytes?.len())));
    let real = contents(folder.path()).into_iter();
    let real: BTreeMap<String, usize> = real.map(|(name, bytes)| (name, bytes.len())).collect();
    assert_eq!(files.collect::<BTreeMap<_, _>>(), real);
    (cases, faults)
}

#[test]
fn a_power_cut_at_any_moment_of_a_run_that_saves_leaves_the_old_or_the_new() {
    a_power_cut_at_any_moment_leaves_the_old_or_the_new(trainings);
}

#[test]
fn a_power_cut_at_any_moment_of_a_conversion_leaves_the_old_or_the_new() {
    a_power_cut_at_any_moment_leaves_the_old_or_the_new(conversions);
}

fn a_power_cut_at_any_moment_leaves_the_old_or_the_new(jobs: fn() -> Vec<Job>) {
    if !has_strace() {
        return;
    }
    for job in jobs() {
        let (cases, faults) = cuts(&job);
        assert!(cases > 2, "{}: {cases}", job.name);
        report(&format!("{}, power cuts", job.name), cases, &faults);
    }
}
