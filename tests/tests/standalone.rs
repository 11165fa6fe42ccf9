//! Checks that each library crate can be used without the workspace. For each crate, the test
//! creates a package outside the workspace whose only dependency is the path of this crate. The
//! package must compile the examples in the crate's README. (The doc tests of the crate run these
//! examples.)

use std::path::Path;
use std::process::Command;
use std::{env, fs};

use generate::Sampling;
use gpt::GptConfig;
use serde_json::{from_str, to_string};

/// Folders of the libraries, relative to `crates`.
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
fn a_package_outside_that_depends_on_one_library_alone_compiles_the_examples_of_its_readme() {
    for folder in LIBRARIES {
        let folder = workspace().join("crates").join(folder);
        let library = folder.file_name().expect("its name").display().to_string();
        let readme = fs::read_to_string(folder.join("README.md")).expect("each crate has a README");
        let blocks = readme.split("```rust\n").skip(1);
        let examples = blocks.filter_map(|block| block.split("\n```").next());
        // As in rustdoc, an example without a `main` function is wrapped in one.
        let programs = examples.map(|example| match example.contains("fn main()") {
            true => example.to_owned(),
            false => format!("fn main() {{ let _ = || {{\n{example}\n}}; }}"),
        });
        let programs: Vec<String> = programs.collect();
        assert!(!programs.is_empty(), "{library}: an example in its README");
        check(&format!("{library} = {{ path = {folder:?} }}"), &programs);
    }
}

#[test]
fn configurations_are_written_and_read_with_the_feature_serde() {
    let config = GptConfig {
        tied: true,
        ..GptConfig::GPT2_124M
    };
    let text = to_string(&config).expect("JSON");
    assert_eq!(
        from_str::<GptConfig>(&text).expect("a configuration"),
        config
    );
    let partial = from_str::<GptConfig>(r#"{ "tied": true }"#);
    assert_eq!(partial.expect("the rest is GPT-2's"), config);
    let sampling = from_str::<Sampling>(r#"{ "top_k": 40 }"#).expect("the rest is greedy");
    assert_eq!(sampling.top_k, Some(40));
    assert!(from_str::<Sampling>(r#"{ "topk": 40 }"#).is_err());
}

#[test]
fn the_model_alone_compiles_no_serde() {
    let output = cargo(workspace())
        .args(["tree", "--package", "gpt", "--edges", "normal"])
        .args(["--prefix", "none", "--locked"])
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

fn cargo(folder: &Path) -> Command {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(folder).arg("--offline");
    cargo
}

/// Checks that the programs compile in a new package outside the workspace. `dependency` is the
/// only dependency of this package, in the format of Cargo.toml.
fn check(dependency: &str, programs: &[String]) {
    let package = tempfile::tempdir().expect("a temporary folder");
    // The package uses the profiles of the workspace, so that cargo can reuse the dependencies that
    // were compiled for the workspace.
    let root = fs::read_to_string(workspace().join("Cargo.toml")).expect("the workspace's");
    let profile = root.split("[profile.").skip(1).take(2);
    let profile: String = profile.map(|table| format!("[profile.{table}")).collect();
    let manifest = format!(
        "[package]\nname = \"outside\"\nedition = \"2024\"\n\n\
         [dependencies]\n{dependency}\n\n[workspace]\n\n{profile}"
    );
    let write = |name: &str, text: &str| fs::write(package.path().join(name), text);
    fs::create_dir_all(package.path().join("src/bin")).expect("a temporary folder");
    write("Cargo.toml", &manifest).expect("a folder of our own");
    for (number, program) in programs.iter().enumerate() {
        write(&format!("src/bin/example{number}.rs"), program).expect("a temporary folder");
    }
    // The package uses the same versions of all dependencies as the workspace, because cargo has
    // already downloaded these versions and runs offline.
    fs::copy(
        workspace().join("Cargo.lock"),
        package.path().join("Cargo.lock"),
    )
    .expect("the workspace's lock file");
    let this = env::current_exe().expect("a test has a path");
    let target = this.ancestors().nth(3).expect("target/debug/deps/this");
    let output = cargo(package.path())
        .args(["check", "--quiet"])
        .env("CARGO_TARGET_DIR", target)
        .output()
        .expect("cargo runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{dependency}\n{errors}\n{programs:?}"
    );
}
