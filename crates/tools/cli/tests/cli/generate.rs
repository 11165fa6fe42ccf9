//! `gpt generate`: what reaches standard output and standard error, samplers, stops, turns, JSON.

use std::io::{Read, Seek};
use std::process::Stdio;

use crate::support::trained;

#[test]
fn standard_output_is_the_text_alone_and_timings_are_on_standard_error() {
    let ran = trained().ok("generate Once --temp 0 -n 5");
    assert!(
        ran.stdout.starts_with("Once") && ran.stdout.ends_with('\n'),
        "{:?}",
        ran.stdout
    );
    assert!(ran.stderr.contains("tokens/s"), "{}", ran.stderr);
    let alone = trained().ok("generate Once --temp 0 -n 5 --no-display-prompt");
    assert_eq!(format!("Once{}", alone.stdout), ran.stdout);
}

#[test]
fn the_prompt_may_come_from_a_flag_a_file_a_pipe_or_as_ids() {
    let folder = trained();
    let expected = folder.ok("generate Once --temp 0 -n 4").stdout;
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "Once\n").unwrap();
    let ids = tempfile::Builder::new().suffix(".bin").tempfile().unwrap();
    std::fs::write(ids.path(), 7454u16.to_le_bytes()).unwrap();
    for args in [
        "-p Once".to_owned(),
        format!("-f {}", file.path().display()),
        format!("-f {}", ids.path().display()),
        "--tokens 7454".to_owned(),
    ] {
        assert_eq!(
            folder.ok(&format!("generate {args} --temp 0 -n 4")).stdout,
            expected,
            "{args}"
        );
    }
    for args in ["generate - --temp 0 -n 4", "generate --temp 0 -n 4"] {
        assert_eq!(
            folder.gpt_reading(args, "Once\n").stdout,
            expected,
            "{args}"
        );
    }
}

#[test]
fn the_seed_is_told_before_the_text_begins() {
    let mut screen = tempfile::tempfile().unwrap();
    let ran = trained()
        .command("generate Once -n 3 --model runs/0001")
        .stdout(screen.try_clone().unwrap())
        .stderr(screen.try_clone().unwrap())
        .status();
    assert!(ran.unwrap().success());
    let mut shown = String::new();
    screen.rewind().unwrap();
    screen.read_to_string(&mut shown).unwrap();
    let (seed, text) = shown.split_once('\n').unwrap();
    assert!(
        seed.starts_with("seed ") && text.starts_with("Once"),
        "{shown}"
    );
}

#[test]
fn json_is_one_object_with_the_new_ids_alone() {
    let ran = trained().ok("generate --tokens 1,2,3 --temp 0 -n 5 --json");
    let report = ran.json();
    assert_eq!(report["tokens"].as_array().unwrap().len(), 5);
    assert!(report["text"].is_string());
    assert_eq!(report["timings"]["prompt_tokens"], 3);
    assert!(ran.stderr.is_empty(), "{}", ran.stderr);
    let again = trained().json("generate --tokens 1,2,3 --top-k 1 -n 5");
    assert_eq!(again["tokens"], report["tokens"], "top-k 1 is greedy");
    let beams = trained().json("generate --tokens 1,2,3 --beams 1 -n 5");
    assert_eq!(beams["tokens"], report["tokens"], "one beam is greedy");
    assert!(report["seed"].is_null() && beams["seed"].is_null());
    let drawn = trained().json("generate --tokens 1,2,3 --temp 1 -n 5");
    let seed = drawn["seed"].as_u64().unwrap();
    let again = trained().json(&format!(
        "generate --tokens 1,2,3 --temp 1 -n 5 --seed {seed}"
    ));
    assert_eq!(again["tokens"], drawn["tokens"]);
}

#[test]
fn the_same_seed_draws_the_same_text() {
    let draw =
        |args: &str| trained().json(&format!("generate Once -n 12 {args}"))["tokens"].clone();
    assert_eq!(
        draw("--seed 7 --temp 1"),
        draw("-s 7 --temperature 1 --threads 2")
    );
    assert_ne!(draw("--seed 7 --temp 1"), draw("--seed 8 --temp 1"));
    assert_ne!(
        draw("--seed 7 --temp 1"),
        draw("--seed 7 --temp 1 --build mkl")
    );
}

#[test]
fn a_full_context_is_cropped_or_ends_the_text() {
    let tokens = |args: &str| trained().json(&format!("generate --tokens 1,2,3 --temp 0 {args}"));
    assert_eq!(tokens("-n 30")["tokens"].as_array().unwrap().len(), 30);
    let stopped = tokens("-n 30 --past-context stop");
    assert_eq!(stopped["finish"], "context");
    assert!(stopped["tokens"].as_array().unwrap().len() <= 14);
    let long = vec!["5"; 40].join(",");
    trained().ok(&format!(
        "generate --tokens {long} --temp 0 -n 2 --past-context crop"
    ));
}

#[test]
fn a_stop_string_ends_the_text_before_it() {
    for how in ["--temp 0", "--beams 2"] {
        let ran = trained().json(&format!("generate Once {how} -n 6"));
        let text = ran["text"].as_str().unwrap();
        let stop: String = text
            .chars()
            .filter(|c| c.is_ascii_alphanumeric())
            .take(1)
            .collect();
        let stopped = trained().json(&format!("generate Once {how} -n 6 --stop {stop}"));
        assert_eq!(
            stopped["text"].as_str().unwrap(),
            text.split(&stop).next().unwrap()
        );
        assert_eq!(stopped["finish"], "stop", "{how}");
        let [all, until] = [&ran, &stopped].map(|ran| ran["tokens"].as_array().unwrap());
        assert!(all.starts_with(until), "{how}: {until:?} of {all:?}");
    }
}

#[test]
fn an_interactive_session_continues_one_text_turn_by_turn() {
    let ran = trained().gpt_reading("generate -i --temp 0 -n 3", "Once\n\n upon\n");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(ran.stderr.matches("decode").count(), 3, "{}", ran.stderr);
    assert!(!ran.stderr.contains("load"), "{}", ran.stderr);
}

#[test]
fn a_closed_standard_output_is_no_error() {
    for args in [
        "generate Once -n 50 --temp 0",
        "logits Once --json",
        "info",
        "eval --tokens 1,2,3",
        "train --help",
        "generate Once -n 2 --num-samples 3 --json",
        "completions bash",
        "tokenize a",
    ] {
        let mut child = trained()
            .command(args)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let mut stderr = String::new();
        child
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut stderr)
            .unwrap();
        assert_eq!(
            child.wait().unwrap().code(),
            Some(0),
            "gpt {args}: {stderr}"
        );
        assert!(
            !stderr.contains("panicked") && !stderr.contains("error"),
            "gpt {args}: {stderr}"
        );
    }
}

#[test]
fn every_precision_writes_a_text() {
    for precision in ["f32", "f16", "bf16", "int8", "int4"] {
        let args = format!("generate Once --temp 0 -n 3 --precision {precision}");
        let text = trained().ok(&args).stdout;
        assert!(text.starts_with("Once"), "{precision}: {text}");
    }
}

#[test]
fn several_samples_are_several_texts_of_one_seed() {
    let args = "generate Once -n 8 --seed 7 --temp 1";
    let ran = trained().ok(&format!("{args} --num-samples 3"));
    let texts: Vec<&str> = ran.stdout.split("---------------\n").collect();
    assert_eq!(texts.len(), 3);
    assert!(
        texts.iter().all(|text| text.starts_with("Once")),
        "{texts:?}"
    );
    assert_eq!(texts[0], trained().ok(args).stdout);
    assert_ne!(texts[0], texts[1]);
    let json = trained()
        .ok(&format!("{args} --num_samples=2 --json"))
        .stdout;
    assert_eq!(json.lines().count(), 2);
}

#[test]
fn a_model_that_nobody_named_is_told_on_standard_error() {
    let name = "model runs/0001/checkpoints/step-00000002";
    for args in [
        "generate Once -n 1 --temp 0",
        "logits Once",
        "info",
        "eval --tokens 1,2",
    ] {
        let ran = trained().ok(args);
        assert!(ran.stderr.contains(name), "gpt {args}: {}", ran.stderr);
    }
    for args in [
        "logits Once -m runs/0001",
        "info runs/0001",
        "logits Once --json",
    ] {
        assert_eq!(trained().ok(args).stderr, "", "gpt {args}");
    }
}

#[test]
fn saying_a_default_changes_nothing_and_the_last_of_a_flag_counts() {
    let draw = |args: &str| {
        let args = format!("generate Once -n 12 --seed 7 {args}");
        trained().json(&args)["tokens"].clone()
    };
    let plain = draw("");
    for default in [
        "--temp 0.8",
        "--top-k 40",
        "--top-p 1",
        "--min-p 0",
        "--repeat-penalty 1",
        "--temp 3 --temp 0.8",
    ] {
        assert_eq!(draw(default), plain, "{default}");
    }
    assert_ne!(draw("--top-k 0"), plain);
    assert_eq!(draw("--top-k 0"), draw("--top-k 50257"));
    assert_eq!(draw("--seed=-1"), draw("--seed 18446744073709551615"));
    let large = trained().ok("generate Once -n 3 --seed 7 --top-k 99999");
    assert!(large.stderr.contains("--top-k 99999: there are 50257"));
    let beams = trained().ok("generate Once -n 3 --beams 2 --seed 7");
    assert!(beams.stderr.contains("draws nothing"), "{}", beams.stderr);
}

#[test]
fn a_text_may_begin_with_nothing() {
    let end = trained().json("generate --tokens 50256 -n 4 --temp 0");
    for args in ["generate --tokens=", "generate"] {
        let nothing = trained().json(&format!("{args} -n 4 --temp 0"));
        assert_eq!(nothing["tokens"], end["tokens"], "{args}");
    }
}

#[test]
fn each_line_of_a_file_is_continued_as_it_would_be_alone() {
    let lines = ["Once", "", "The boat was gone and", "a"];
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), lines.join("\n") + "\n").unwrap();
    let prompts = format!("generate --prompts {}", file.path().display());
    for flags in [
        "--temp 0 -n 6",
        "--seed 7 -n 30",
        "--seed 7 -n 30 --past-context stop",
        "--temp 0 -n 6 --stop e",
    ] {
        let ran = trained().ok(&format!("{prompts} {flags} --json"));
        assert_eq!(ran.stdout.lines().count(), lines.len());
        for (line, shown) in lines.iter().zip(ran.stdout.lines()) {
            let together: serde_json::Value = serde_json::from_str(shown).unwrap();
            let args = format!("generate {flags} --json");
            let alone = trained().gpt_reading(&args, line).json();
            for key in ["tokens", "text", "finish", "seed"] {
                assert_eq!(together[key], alone[key], "{line:?} {flags}");
            }
        }
    }
    let text = trained().ok(&format!("{prompts} --temp 0 -n 2")).stdout;
    assert_eq!(text.split("---------------\n").count(), lines.len());
}
