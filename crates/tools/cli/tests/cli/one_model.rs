//! Tests which model a command loads. If the user specifies a training run, the command must load
//! the run's last checkpoint. If the user specifies no model, the command must use the newest run.
//! If that run is damaged, the command must fail instead of using an older run. Some tests also
//! check that the commands in the program's output work when they are pasted into a shell.

use std::fs;

use crate::support::{Folder, Ran, TINY, folder, holds};

/// Finds a `gpt` command in the program's output, so that a test can run the command just as a user
/// would after copying it. The command is the rest of the line after the text `before`. Returns the
/// arguments of the command.
fn printed(output: &str, before: &str) -> Vec<String> {
    let line = output.lines().find_map(|line| line.split_once(before));
    let (_, command) = line.unwrap_or_else(|| panic!("no {before:?} in {output}"));
    let words = shlex::split(command).expect("a command");
    assert_eq!(words[0], "gpt", "{command}");
    words[1..].to_vec()
}

/// Runs a command from the program's output with additional arguments, and asserts that it
/// succeeds.
fn run_printed(folder: &Folder, words: &[String], more: &[&str]) -> Ran {
    let more = more.iter().map(ToString::to_string);
    let words: Vec<String> = words.iter().cloned().chain(more).collect();
    let ran: Ran = folder
        .command_with(&words)
        .output()
        .expect("gpt runs")
        .into();
    assert_eq!(
        ran.code,
        Some(0),
        "gpt {words:?}\n{}{}",
        ran.stdout,
        ran.stderr
    );
    ran
}

#[test]
fn a_run_is_its_last_checkpoint_and_the_best_is_named_if_it_is_another() {
    let folder = folder();
    let steps =
        "--max-steps 400 --weight-decay 0 --drop-rate 0 --eval-interval 20 --train-ratio 0.3";
    let ran = folder.ok(&format!("train {TINY} {steps} -o run"));
    let model = |of: &str| folder.json(&format!("generate -m {of} --tokens 5,6 -n 8 --temp 0"));
    let last = "run/checkpoints/step-00000400";
    let expected = model(last);
    folder.ok("convert run converted");
    folder.ok(
        "train --init-from run --data data.bin --max-steps 1 --learning-rate 0 --min-lr 0 -o on",
    );
    for of in ["run", "converted", "on"] {
        assert_eq!(model(of), expected, "{of}");
    }
    let loss = |of: &str| folder.json(&format!("eval data.bin -m {of}"))["loss"].clone();
    assert_eq!(loss("run"), loss(last));
    let best = ran
        .stdout
        .lines()
        .find_map(|line| line.strip_prefix("best    "));
    let (best, rest) = best.expect("it overfits").split_once(": ").expect("a path");
    holds(rest, &["overfitting"]);
    assert_ne!(loss(best), loss(last));
    folder.ok(&format!(
        "train --init-from {best} --data data.bin --max-steps 1 -o from-best"
    ));
}

#[test]
fn each_printed_command_works_as_printed() {
    let folder = folder();
    folder.write(
        "names.txt",
        "emma\nolivia\nava\nisabella\nsophia\n".repeat(30),
    );
    let flags = "train --data names.txt --tokenizer chars --n-layers 1 --n-heads 1 --emb-dim 8 \
        --context-length 8 --batch-size 2 --threads 1 --eval-iters 1";
    let ran = folder.ok(&format!("{flags} --max-steps 2 -o run"));
    run_printed(
        &folder,
        &printed(&ran.stdout, "to generate text, use: "),
        &["-n", "2"],
    );
    // Checks that the command printed at the end of a training run works with unusual prompts. The
    // first prompt is longer than the model's context, and the second one starts with a hyphen, as
    // an option does.
    for (i, prompt) in ["emma olivia ava", "-e"].into_iter().enumerate() {
        let run = format!("prompt{i}");
        let mut words = vec!["--prompt".to_owned() + "=" + prompt, "-o".to_owned(), run];
        words.splice(
            0..0,
            format!("{flags} --max-steps 1")
                .split_whitespace()
                .map(str::to_owned),
        );
        let ran = run_printed(&folder, &words, &[]);
        run_printed(
            &folder,
            &printed(&ran.stdout, "to generate text, use: "),
            &["-n", "2"],
        );
    }
    // Extends a finished run, first with `--epochs`, and then with the command that the program
    // prints for this purpose. This command contains `--max-steps`, although the run was last
    // extended with `--epochs`.
    folder.ok("train --resume run --epochs 1");
    let done = folder.ok("train --resume run");
    let mut words = printed(&done.stdout, "to continue it up to step N, use: ");
    let steps = words
        .iter_mut()
        .find(|word| *word == "N")
        .expect("a number");
    *steps = "400".to_owned();
    run_printed(&folder, &words, &[]);
    folder.ok(&format!(
        "{flags} --epochs 1 --gradient-accumulation-steps 3 -o epochs"
    ));
    let done = folder.ok("train --resume epochs");
    let words = printed(&done.stdout, "to continue it up to step N, use: ");
    run_printed(&folder, &words[..words.len() - 1], &["500"]);
    // The file of token IDs that `gpt tokenize` writes can be used as training data.
    let ran = folder.ok("tokenize -m run -f names.txt -o ids.npy");
    let small = [
        "--n-layers",
        "1",
        "--n-heads",
        "1",
        "--emb-dim",
        "8",
        "--context-length",
        "8",
    ];
    let small = [
        &small[..],
        &["--max-steps", "1", "--batch-size", "2", "-o", "ids"],
    ]
    .concat();
    run_printed(
        &folder,
        &printed(&ran.stderr, "to train a model on these token IDs, use: "),
        &small,
    );
}

#[test]
fn a_run_that_never_saved_is_started_again_by_the_command_in_the_message() {
    let folder = folder();
    folder.ok(&format!("train {TINY} --max-steps 1 -o run"));
    // Simulates a run that was killed before it saved its first checkpoint, by deleting the
    // checkpoints, the loss curve and the lines of the log about saved checkpoints.
    fs::remove_dir_all(folder.join("run/checkpoints")).unwrap();
    fs::remove_file(folder.join("run/loss.svg")).unwrap();
    let log = fs::read_to_string(folder.join("run/log.jsonl")).unwrap();
    let unsaved = log.lines().filter(|line| !line.contains("saved"));
    folder.write(
        "run/log.jsonl",
        unsaved.collect::<Vec<_>>().join("\n") + "\n",
    );
    for command in ["train --resume run", "generate -m run --tokens 1"] {
        let error = folder.gpt(command);
        assert_eq!(error.code, Some(1));
        let words = printed(&error.stderr, "to start it again, use: ");
        assert_eq!(words[..2], ["train", "--config"]);
    }
    let error = folder.gpt("train --resume run").stderr;
    run_printed(&folder, &printed(&error, "to start it again, use: "), &[]);
    assert_eq!(folder.logged_losses("run").len(), 1);
}

#[test]
fn the_newest_run_is_never_replaced_by_an_older_one() {
    let folder = folder();
    for _ in 0..2 {
        folder.ok(&format!("train {TINY} --max-steps 2 --keep 1"));
    }
    let manifest = folder.checkpoint("runs/0002").join("manifest.json");
    let text = fs::read_to_string(&manifest).unwrap();
    let newer = text.replace("\"version\": 5", "\"version\": 6");
    for damage in ["{", &newer] {
        fs::write(&manifest, damage).unwrap();
        for command in [
            "train --resume --max-steps 8",
            "generate --tokens 1",
            "eval data.bin",
        ] {
            folder.refused(command, &["runs/0002", "manifest.json"]);
        }
    }
    fs::write(&manifest, text).unwrap();
    folder.refused(
        "train --resume runs",
        &["contains runs", "--resume runs/0002"],
    );
    folder.ok("train --resume --max-steps 3");
    assert_eq!(folder.checkpoints("runs/0001"), ["step-00000002"]);
}

#[test]
fn a_run_is_resumed_from_inside_its_folder() {
    let folder = folder();
    folder.ok(&format!(
        "train {TINY} --max-steps 4 --save-interval 2 -o run"
    ));
    for (below, path, steps) in [
        ("run", "checkpoints/step-00000004", "6"),
        ("run/checkpoints", "step-00000006", "8"),
        ("run", ".", "10"),
    ] {
        let args = ["train", "--resume", path, "--max-steps", steps];
        let ended = folder
            .command_with(args)
            .current_dir(folder.join(below))
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success(), "{path}: {stderr}");
        let newest = folder.checkpoints("run").pop().unwrap();
        assert!(newest.ends_with(steps), "{newest}");
    }
}

/// Users may add their own files to the latest checkpoint of a run, or edit files in it that don't
/// affect the weights. When newer checkpoints are saved, such a checkpoint must be kept instead of
/// being deleted as outdated.
#[test]
fn a_checkpoint_with_a_users_file_stays_and_is_named() {
    let folder = folder();
    folder.ok(&format!(
        "train {TINY} --train-ratio 1 --max-steps 2 -o run"
    ));
    let at = |step: u32, file: &str| format!("run/checkpoints/step-{step:08}/{file}");
    folder.write("run/README.md", "a good run");
    folder.write("run/checkpoints/notes.txt", "mine");
    folder.write(&at(2, "README.md"), "a good model");
    folder.write(&at(2, ".DS_Store"), "");
    let resume =
        |steps: u32| folder.ok(&format!("train --resume run --keep 1 --max-steps {steps}"));
    let told = resume(4).stderr;
    holds(&told, &["step-00000002: can't delete", "README.md"]);
    let settings = "{\"temperature\": 0.25, \"eos_token_id\": 7}";
    folder.write(&at(4, "generation_config.json"), settings);
    folder.write(&at(4, ".DS_Store"), "");
    folder.ok("generate -m run --tokens 1 -n 1");
    folder.write(&at(4, "chat_template.jinja"), "{{ messages }}");
    let told = resume(8).stderr;
    holds(
        &told,
        &["generation_config.json: the SHA-256 hash of the file is"],
    );
    assert_eq!(told.matches("can't delete").count(), 1, "{told}");
    for (file, text) in [
        ("run/README.md".to_owned(), "a good run"),
        ("run/checkpoints/notes.txt".to_owned(), "mine"),
        (at(2, "README.md"), "a good model"),
        (at(4, "generation_config.json"), settings),
        (at(4, "chat_template.jinja"), "{{ messages }}"),
        // The user edited the generation settings and added a chat template in the checkpoint after
        // step 4. Each later checkpoint of the same run must contain both.
        (at(8, "generation_config.json"), settings),
        (at(8, "chat_template.jinja"), "{{ messages }}"),
    ] {
        assert_eq!(
            fs::read_to_string(folder.join(&file)).unwrap(),
            text,
            "{file}"
        );
    }
    folder.write(&at(8, ".DS_Store"), "");
    resume(9);
    assert!(!folder.join(at(8, "")).exists());
}

#[test]
fn a_run_of_an_earlier_version_is_refused_in_one_line() {
    let folder = folder();
    folder.ok(&format!("train {TINY} --max-steps 2 --keep 1 -o run"));
    let manifest = folder.checkpoint("run").join("manifest.json");
    let text = fs::read_to_string(&manifest).unwrap();
    fs::write(&manifest, text.replace("\"version\": 5", "\"version\": 4")).unwrap();
    let anew = format!("train {TINY} --init-from run");
    for command in ["train --resume run", "generate -m run --tokens 1", &anew] {
        folder.refused(command, &["another version of this program", "format 4"]);
    }
}
