//! docs/errors.md: what `gpt` said when a file of a run was replaced.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use crate::sandbox::{COMPUTING, Ended, MEMORY};

/// The rows of each command's table.
pub(crate) struct Page(Vec<(String, String)>);

impl Page {
    /// With no row yet, for these commands as they are typed.
    pub(crate) fn of(commands: impl Iterator<Item = String>) -> Self {
        Self(commands.map(|command| (command, String::new())).collect())
    }

    /// Adds what a command said of a file that was replaced; nothing if it had nothing against it,
    /// or has no table.
    pub(crate) fn add(&mut self, command: &str, file: &str, is_now: &str, ended: &Ended) {
        let rows = self.0.iter_mut().find(|(found, _)| found == command);
        let told = ended.stderr.trim().lines().next_back();
        if let Some((_, rows)) = rows
            && let Some(line) = told.and_then(|line| line.strip_prefix("error: "))
        {
            let line = without_hashes(line).replace('|', "\\|");
            let _ = writeln!(rows, "| `{file}` | {is_now} | {line} |");
        }
    }

    pub(crate) fn write(self) {
        let mut page = format!(
            "# Errors\n\n\
            What `gpt` says when a file of a run was replaced, as `TORTURE=1 cargo test -p cli --test torture` found it.\n\
            The line is on standard error and begins with `error:`; the exit code is 1.\n\
            Where nothing is listed, the command doesn't read the file, needs no more than is there, or takes the checkpoint before and says so.\n\
            Each had {} MiB of writable memory and {COMPUTING} seconds of computing.\n",
            MEMORY >> 10
        );
        for (command, rows) in self.0 {
            let head = "| file | is now | error |\n|---|---|---|";
            let _ = write!(page, "\n## `{command}`\n\n{head}\n{rows}");
        }
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/errors.md");
        fs::write(docs, page).expect("docs/errors.md");
    }
}

/// Hashes differ from run to run.
fn without_hashes(line: &str) -> String {
    let is_hash = |word: &str| word.len() == 64 && word.bytes().all(|b| b.is_ascii_hexdigit());
    let words = line.split(' ').map(|word| {
        let bare = word.trim_end_matches([',', ';']);
        match is_hash(bare) {
            true => format!("…{}", &word[bare.len()..]),
            false => word.to_owned(),
        }
    });
    words.collect::<Vec<_>>().join(" ")
}
