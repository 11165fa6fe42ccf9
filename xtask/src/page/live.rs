//! `--live`: the notebooks as WebAssembly and the scripts that call it, in one file beside the
//! pages, because a page that is opened as a file may load only scripts; and the story's model, in
//! another file.

use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use pictures::html::filled;

use super::save;
use crate::workspace::{cargo, print, root, run, target};

const TARGET: &str = "wasm32-unknown-unknown";

/// Four numbers at once, which browsers have had since 2023; no sum changes its order.
const SIMD: &str = "-Ctarget-feature=+simd128";
const FLAGS: &str = "CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS";

/// Builds the package `live` and writes `live.js` into the folder of the pages.
///
/// # Errors
/// The build fails, as where the target is not installed, or the file can't be written.
pub(super) fn write(folder: &Path, text: Option<&str>) -> Result<()> {
    let build = format!("build --profile live --package live --target {TARGET}");
    run(cargo(&build, &root(), &[]).env(FLAGS, SIMD))?;
    let path = target()?.join(TARGET).join("live/live.wasm");
    let wasm = std::fs::read(&path).with_context(|| path.display().to_string())?;
    let script =
        |name: &str| std::fs::read_to_string(root().join("crates/tools/live/src").join(name));
    let script = script("live.js")? + &script("lesson.js")?;
    let (start, view) = (live::SCRIPT_START, pictures::html::VIEW_SCRIPT);
    let text = match text {
        Some(text) => format!("const LIVE_TEXT = {};\n", serde_json::to_string(text)?),
        None => String::new(),
    };
    let wasm = STANDARD.encode(wasm);
    let script = format!("{start}{wasm}\";\n{text}{view}{script}");
    save(&folder.join("live.js"), &script)
}

/// The section with a model that learns in the page.
pub(super) fn lesson() -> String {
    let values = [
        ("prompt", "The bell "),
        ("line", "The river at Low Ferry was wide"),
    ];
    filled(include_str!("lesson.html"), &values)
}

/// The beginning of the text on chapter 5's page.
pub(super) const STORY: &str = "The bell rang";

/// Writes `story.js` into the folder of the pages: `model`, or the one that `gpt train` makes of
/// its own story, which is trained once.
///
/// # Errors
/// A program fails, or the file can't be written.
pub(super) fn write_story(folder: &Path, model: Option<&Path>) -> Result<()> {
    let model = match model {
        Some(model) => model.to_owned(),
        None => {
            let story = target()?.join("live/the-answering-bell");
            // A finished run has nothing left to do, and an interrupted one is resumed.
            let how = match story.join("options.toml").exists() {
                true => "--resume",
                false => "--out-dir",
            };
            print("training the story's model (half a minute, once) ...\n")?;
            let train = ["train".into(), how.into(), story.clone().into()];
            run(cargo("run --release", &root(), &train).stdout(Stdio::piped()))?;
            story // its last checkpoint, not the best by a validation loss that hardly began
        }
    };
    // The page shows this name to readers elsewhere.
    let here = std::env::current_dir()?;
    let name = model.strip_prefix(here).unwrap_or(&model);
    let pack = "run --release --package live --no-default-features --features pack --example pack";
    let script = run(cargo(pack, &root(), &[name.into()]).stdout(Stdio::piped()))?;
    save(&folder.join("story.js"), str::from_utf8(&script)?)
}
