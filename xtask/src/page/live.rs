//! Writes the files for the option `--live`: the notebooks compiled to WebAssembly together with
//! the scripts that call them, and the model for chapter 5. Both files are scripts because browsers
//! don't allow a page that was opened from a local file to load any other kind of file.

use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::save;
use crate::workspace::{cargo, lock_folder, print, root, run, target};

const TARGET: &str = "wasm32-unknown-unknown";

/// Compiler flag that enables 128-bit SIMD instructions, which all major browsers have supported
/// since 2023. The instructions don't change the order of summation, so the results stay the same.
const SIMD_FLAG: &str = "-Ctarget-feature=+simd128";
const RUSTFLAGS_VARIABLE: &str = "CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS";

/// Compiles the package `live` and writes `live.js` to the folder of the pages.
///
/// # Errors
///
/// Returns an error if the compilation fails, for example because the WebAssembly target isn't
/// installed, or if the file can't be written.
pub(super) fn write(folder: &Path, text: Option<&str>) -> Result<()> {
    let build = format!("build --profile live --package live --target {TARGET}");
    run(cargo(&build, &root(), &[]).env(RUSTFLAGS_VARIABLE, SIMD_FLAG))?;
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

/// HTML of the section in which the reader can train a model on the page.
pub(super) const LESSON: &str = include_str!("lesson.html");

/// Text with which the model on chapter 5's page starts.
pub(super) const STORY: &str = "The bell rang";

/// Writes the model for chapter 5 to `story.js` in the folder of the pages. If `model` is `None`, a
/// model is trained on the short story of this project the first time and reused later.
///
/// # Errors
///
/// Returns an error if a command fails or if the file can't be written.
pub(super) fn write_story(folder: &Path, model: Option<&Path>) -> Result<()> {
    let model = match model {
        Some(model) => model.to_owned(),
        None => {
            let trained = target()?.join("live");
            // Interactive pages need a trained model. If another process is creating such pages at
            // the same time, this process waits until the other process has trained the model, and
            // then uses the same model.
            let _lock = lock_folder(&trained)?;
            let story = trained.join("the-answering-bell");
            // `--resume` continues an interrupted run and does nothing if the run is finished.
            let how = match story.join("options.toml").exists() {
                true => "--resume",
                false => "--out-dir",
            };
            print("training the story's model (half a minute, once) ...\n")?;
            let train = ["train".into(), how.into(), story.clone().into()];
            run(cargo("run --release", &root(), &train).stdout(Stdio::piped()))?;
            // The path of the run folder selects the run's last checkpoint. The checkpoint with the
            // best validation loss would be one of the first, because the validation loss soon
            // increases if the text is so short.
            story
        }
    };
    // The page shows this name, so it shouldn't reveal in which folder of this computer the project
    // is.
    let here = std::env::current_dir()?;
    let name = model.strip_prefix(here).unwrap_or(&model);
    let pack = "run --release --package live --no-default-features --features pack --example pack";
    let script = run(cargo(pack, &root(), &[name.into()]).stdout(Stdio::piped()))?;
    save(&folder.join("story.js"), str::from_utf8(&script)?)
}
