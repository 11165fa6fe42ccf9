//! Tests the output of `--help`, and the error messages for mistakes in the command line.

use crate::support::{folder, holds};

#[test]
fn every_subcommand_has_a_help_that_names_its_options_and_their_other_names() {
    let folder = folder();
    let top = folder.ok("--help").stdout;
    for (subcommand, parts) in [
        (
            "train",
            "Data: Model: Training: Evaluation: Run: Examples: --lr --dropout --n-embd --block-size --max-iters",
        ),
        ("generate", "Examples: --temp --n-predict"),
        ("eval", "--file --json"),
        ("tokenize", "--model --output"),
        ("info", "--preset"),
        ("convert", "--layout --dtype"),
        ("inspect", "--top --html"),
    ] {
        holds(&top, &[subcommand]);
        let help = folder.ok(&format!("{subcommand} --help")).stdout;
        assert!(
            help.lines().all(|line| line.chars().count() <= 80),
            "{help}"
        );
        holds(&help, &parts.split(' ').collect::<Vec<_>>());
    }
}

#[test]
fn a_mistyped_flag_is_one_line_with_a_suggestion_and_exit_code_2() {
    let folder = folder();
    let flags = ["--lerning-rate", "--learning-rate"];
    folder.misused("train --lerning-rate 1", &flags);
    folder.misused("tran", &["tran", "train"]);
    folder.misused("train book.txt", &["book.txt", "--data book.txt"]);
    folder.misused("generate The bell", &["bell", "in quotes"]);
    folder.misused("train --preset gpt2-125m", &["gpt2-125m", "gpt2-124m"]);
}

#[test]
fn without_a_subcommand_the_help_is_shown_and_the_exit_code_is_2() {
    let ran = folder().gpt("");
    assert_eq!(ran.code, Some(2));
    holds(&ran.stderr, &["Usage: gpt"]);
}
