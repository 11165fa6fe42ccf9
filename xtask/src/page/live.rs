//! `--live`: the notebooks as WebAssembly and the script that asks them, in one file beside the
//! pages, as a page that is opened as a file may load scripts alone.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::save;
use crate::workspace::{cargo, root};

const TARGET: &str = "wasm32-unknown-unknown";

/// Builds the package `live` and writes `live.js` into the folder of the pages.
///
/// # Errors
/// The target is not installed, the build fails, or the file can't be written.
pub(super) fn write(folder: &Path) -> Result<()> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let library = Command::new(rustc)
        .args(["--print", "target-libdir", "--target", TARGET])
        .output()
        .context("cannot start rustc")?;
    let library = PathBuf::from(String::from_utf8_lossy(&library.stdout).trim());
    ensure!(
        library.exists(),
        "the pages compute as WebAssembly, which needs one command before: rustup target add {TARGET}"
    );
    cargo(
        &[
            "build",
            "--profile",
            "live",
            "--package",
            "live",
            "--target",
            TARGET,
        ],
        &[],
        &[],
    )?;
    // This program is TARGET/release/xtask.
    let program = std::env::current_exe().context("this program has a path")?;
    let target = program.ancestors().nth(2).context("it lies in a folder")?;
    let path = target.join(TARGET).join("live/live.wasm");
    let wasm = std::fs::read(&path).with_context(|| path.display().to_string())?;
    let script = std::fs::read_to_string(root().join("crates/tools/live/src/live.js"))?;
    let wasm = STANDARD.encode(wasm);
    save(
        &folder.join("live.js"),
        &format!("const LIVE_WASM = \"{wasm}\";\n{script}"),
    )
}
