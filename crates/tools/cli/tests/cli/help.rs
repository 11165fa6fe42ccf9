//! The help texts, and that they name what people look for.

use crate::support::folder;

#[test]
fn every_subcommand_has_a_help_that_names_its_options() {
    let folder = folder();
    let top = folder.ok("--help").stdout;
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
        let help = folder.ok(&format!("{subcommand} --help")).stdout;
        for option in options.split(' ') {
            assert!(help.contains(option), "{option} in gpt {subcommand} --help");
        }
    }
}

#[test]
fn the_help_of_train_is_grouped() {
    let help = folder().ok("train --help").stdout;
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
    folder.misused(
        "train --lerning-rate 1",
        &["--lerning-rate", "--learning-rate"],
    );
    folder.misused("tran", &["tran", "train"]);
    folder.misused("train --preset gpt2-125m", &["gpt2-125m", "gpt2-124m"]);
}

#[test]
fn without_a_subcommand_the_help_is_shown_and_the_exit_code_is_2() {
    let ran = folder().gpt("");
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("Usage: gpt"), "{}", ran.stderr);
}

#[test]
fn completions_and_man_pages_name_the_flags() {
    let folder = folder();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = folder.ok(&format!("completions {shell}")).stdout;
        assert!(script.contains("learning-rate"), "{shell}: {script}");
    }
    folder.ok("man pages/man1");
    let page = std::fs::read_to_string(folder.join("pages/man1/gpt-train.1")).unwrap();
    assert!(
        page.starts_with(".ie") && page.contains("learning"),
        "{page}"
    );
    assert!(folder.join("pages/man1/gpt.1").exists());
    folder.misused("completions csh", &["csh", "bash"]);
}
