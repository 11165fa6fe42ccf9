//! Each library crate can be used alone: a package outside the workspace that depends on it by
//! path, and on nothing else, runs the example of its README.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// Their folders, below `crates`.
const LIBRARIES: [&str; 12] = [
    "torch-rng",
    "tokenizer",
    "files/model-tokenizer",
    "files/atomic-file",
    "engine/kernels",
    "tensor-ops",
    "dataloader",
    "attention",
    "gpt",
    "files/checkpoint",
    "generate",
    "train",
];

#[test]
fn each_library_works_as_the_only_dependency_of_a_package_outside_the_workspace() {
    let root = workspace();
    let outside = tempfile::tempdir().expect("a temporary folder");
    for folder in LIBRARIES {
        let folder = root.join("crates").join(folder);
        let library = folder.file_name().and_then(|name| name.to_str());
        let library = library.expect("a folder is called as its crate");
        let package = outside.path().join(library);
        let readme = fs::read_to_string(folder.join("README.md")).expect("each crate has a README");
        let examples: Vec<String> = rust_blocks(&readme);
        assert!(
            !examples.is_empty(),
            "{library}: its README has no Rust example"
        );
        for example in examples {
            let dependencies = format!("{library} = {{ path = {folder:?} }}");
            write_package(&package, &dependencies, library, &example);
            run(&package, library, &example);
        }
    }
}

/// A program that writes and reads configurations, with the feature `serde`.
const CONFIGURATIONS: &str = r#"
use generate::{Sampling, gpt::GptConfig};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let config = GptConfig { tied: true, ..GptConfig::GPT2_124M };
    let text = serde_json::to_string(&config)?;
    assert_eq!(serde_json::from_str::<GptConfig>(&text)?, config);
    let incomplete = serde_json::json!({ "tied": true });
    assert!(serde_json::from_value::<GptConfig>(incomplete).is_err());
    let sampling = serde_json::json!({ "top_k": 40 });
    let expected = Sampling { top_k: Some(40), ..Sampling::GREEDY };
    assert_eq!(serde_json::from_value::<Sampling>(sampling)?, expected);
    let misspelt = serde_json::json!({ "topk": 40 });
    assert!(serde_json::from_value::<Sampling>(misspelt).is_err());
    Ok(())
}
"#;

#[test]
fn configurations_are_written_and_read_with_the_feature_serde() {
    let outside = tempfile::tempdir().expect("a temporary folder");
    let package = outside.path().join("generate");
    let generate = workspace().join("crates/generate");
    let dependencies = format!(
        "generate = {{ path = {generate:?}, features = [\"serde\"] }}\nserde_json = \"1.0\""
    );
    write_package(&package, &dependencies, "generate", CONFIGURATIONS);
    run(&package, "generate", CONFIGURATIONS);
}

#[test]
fn the_model_alone_compiles_no_serde() {
    let output = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["tree", "--package", "gpt", "--edges", "normal"])
        .args(["--prefix", "none", "--locked", "--offline"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    let tree = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && tree.starts_with("gpt "),
        "{tree}"
    );
    assert!(!tree.contains("serde"), "{tree}");
}

fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("tests/ is in the workspace")
}

fn write_package(package: &Path, dependencies: &str, library: &str, example: &str) {
    let manifest = format!(
        "[package]\nname = \"uses-{library}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n\
         [dependencies]\n{dependencies}\n\n[workspace]\n\n{}",
        profile()
    );
    fs::create_dir_all(package.join("src")).expect("a folder of our own");
    fs::write(package.join("Cargo.toml"), manifest).expect("a folder of our own");
    fs::write(package.join("src/main.rs"), as_program(example)).expect("a folder of our own");
    // The workspace's versions, which are downloaded already.
    fs::copy(workspace().join("Cargo.lock"), package.join("Cargo.lock"))
        .expect("the workspace's lock file");
}

fn run(package: &Path, library: &str, example: &str) {
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(default_target, PathBuf::from);
    let output = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["run", "--quiet", "--offline"])
        .current_dir(package)
        // The workspace's own folder, so that crates of others are built once.
        .env("CARGO_TARGET_DIR", target)
        .output()
        .expect("cargo runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{library}, used alone:\n{errors}\nof the example:\n{example}"
    );
}

/// The workspace's profile for tests, with which crates of others are built already; ours are not
/// optimised, as they are built anew.
fn profile() -> String {
    let manifest = fs::read_to_string(workspace().join("Cargo.toml")).expect("the workspace's");
    let is_ours = |table: &str| {
        let name = table.strip_prefix("profile.dev.package.");
        let name = name.and_then(|rest| rest.split(']').next());
        LIBRARIES
            .iter()
            .any(|folder| folder.rsplit('/').next() == name)
    };
    let tables = manifest.split("\n[").skip(1);
    let tables = tables.filter(|table| table.starts_with("profile.dev") && !is_ours(table));
    tables.map(|table| format!("[{table}\n")).collect()
}

fn default_target() -> PathBuf {
    workspace().join("target")
}

/// The text of each ```rust block.
fn rust_blocks(markdown: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut rest = markdown;
    while let Some((_, from)) = rest.split_once("```rust\n") {
        let (block, after) = from
            .split_once("\n```")
            .expect("a block that is opened is closed");
        blocks.push(block.to_owned());
        rest = after;
    }
    blocks
}

/// A program of an example: one without `main` becomes the body of one, as rustdoc does it.
fn as_program(example: &str) -> String {
    if example.contains("fn main()") {
        return example.to_owned();
    }
    let end = match example.contains("Ok::<(), ") {
        true => "",
        false => "Ok::<(), String>(())",
    };
    let fault = "the example succeeds";
    format!("fn main() {{ (|| {{\n{example}\n{end}\n}})().expect(\"{fault}\") }}\n")
}
