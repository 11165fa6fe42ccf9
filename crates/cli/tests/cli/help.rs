//! The help texts, and that they name what people look for.

use crate::support::{folder, gpt, ok, refused};

#[test]
fn every_subcommand_has_a_help_that_names_its_options() {
    let folder = folder();
    let top = ok(folder.path(), "--help").stdout;
    for (subcommand, options) in [
        (
            "train",
            "--data --config --preset --resume --n-layers --batch-size --learning-rate --seed --dropout-build",
        ),
        (
            "generate",
            "--model --max-new-tokens --temperature --top-k --top-p --min-p --repeat-penalty --seed --stop --beams --json --interactive",
        ),
        ("eval", "--model --data --stride --tokens --json"),
        ("tokenize", "--tokens --special --output --json"),
        ("info", "--model --preset --json"),
        ("convert", "--layout --precision --force"),
        ("logits", "--model --tokens --top --json"),
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
