//! The help texts, and that they name what people look for.

use crate::support::{folder, gpt, ok, refused};

#[test]
fn every_subcommand_has_a_help_that_names_its_options() {
    let folder = folder();
    let top = ok(folder.path(), "--help").stdout;
    for (subcommand, options) in [
        (
            "train",
            "--data --config --preset --resume --n-layers --batch-size --learning-rate --seed --dropout-build --json --lr --dropout --n-embd --block-size --max-iters",
        ),
        (
            "generate",
            "--model --max-new-tokens --temperature --top-k --top-p --min-p --repeat-penalty --seed --stop --beams --json --interactive --num-samples --temp --n-predict",
        ),
        ("eval", "--model --data --stride --tokens --json"),
        ("tokenize", "--tokens --special --output --json"),
        ("info", "--model --preset --json"),
        ("convert", "--layout --precision --force"),
        ("logits", "--model --tokens --top --json"),
        ("completions", "bash zsh fish"),
        ("man", "DIR"),
    ] {
        assert!(top.contains(subcommand), "{subcommand} in {top}");
        let help = ok(folder.path(), &format!("{subcommand} --help")).stdout;
        for option in options.split(' ') {
            assert!(help.contains(option), "{option} in gpt {subcommand} --help");
        }
    }
}

#[test]
fn the_help_of_train_is_grouped() {
    let help = ok(folder().path(), "train --help").stdout;
    for heading in [
        "Data:",
        "Model:",
        "Training:",
        "Evaluation:",
        "Run:",
        "Examples:",
    ] {
        assert!(help.contains(heading), "{heading} in {help}");
    }
}

#[test]
fn a_mistyped_flag_is_one_line_with_a_suggestion_and_exit_code_2() {
    let folder = folder();
    refused(
        folder.path(),
        "train --lerning-rate 1",
        2,
        &["--lerning-rate", "--learning-rate"],
    );
    refused(folder.path(), "tran", 2, &["tran", "train"]);
    refused(
        folder.path(),
        "train --preset gpt2-125m",
        2,
        &["gpt2-125m", "gpt2-124m"],
    );
}

#[test]
fn without_a_subcommand_the_help_is_shown_and_the_exit_code_is_2() {
    let ran = gpt(folder().path(), "");
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("Usage: gpt"), "{}", ran.stderr);
}

#[test]
fn completions_and_man_pages_name_the_flags() {
    let folder = folder();
    let path = folder.path();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = ok(path, &format!("completions {shell}")).stdout;
        assert!(script.contains("learning-rate"), "{shell}: {script}");
    }
    ok(path, "man pages/man1");
    let page = std::fs::read_to_string(path.join("pages/man1/gpt-train.1")).unwrap();
    assert!(
        page.starts_with(".ie") && page.contains("learning"),
        "{page}"
    );
    assert!(path.join("pages/man1/gpt.1").exists());
    refused(path, "completions csh", 2, &["csh", "bash"]);
}
