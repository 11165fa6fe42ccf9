//! Tests what `gpt generate` prints to standard output and standard error, and how it handles
//! prompts, stop strings, interactive sessions, samples, and the settings in the model's folder.

use std::io::{Read, Seek};
use std::process::Stdio;

use serde_json::Value;

use crate::support::{TOKENS, folder, holds, trained};

/// Runs `gpt generate` and returns the IDs of the generated tokens.
fn drawn(args: &str) -> Value {
    trained().json(&format!("generate {args}"))["tokens"].clone()
}

#[test]
fn standard_output_is_the_text_alone_and_the_speed_is_on_standard_error() {
    let ran = trained().ok("generate Once --temp 0 -n 5 --dtype int8");
    let text = ran.stdout;
    assert!(text.starts_with("Once") && text.ends_with('\n'), "{text:?}");
    holds(&ran.stderr, &["tokens/s"]);
    let alone = "generate Once --temp 0 -n 5 --dtype int8 --no-display-prompt";
    assert_eq!(format!("Once{}", trained().ok(alone).stdout), text);
}

#[test]
fn the_prompt_may_come_from_a_flag_a_file_a_pipe_or_as_ids() {
    let folder = trained();
    let expected = folder.ok("generate Once --temp 0 -n 4").stdout;
    let elsewhere = tempfile::tempdir().unwrap();
    let [text, ids] = ["a.txt", "a.bin"].map(|name| elsewhere.path().join(name));
    std::fs::write(&text, "Once\n").unwrap();
    let once = folder.ok("tokenize -m runs/0001 Once --ids").stdout;
    let once = once.trim();
    let bytes = once
        .split(',')
        .map(|id| id.parse::<u16>().unwrap().to_le_bytes());
    std::fs::write(&ids, bytes.collect::<Vec<_>>().concat()).unwrap();
    let [text, ids] = [text.display(), ids.display()];
    for from in [
        "-p Once".to_owned(),
        format!("-f {text}"),
        format!("-f {ids}"),
        format!("--tokens {once}"),
    ] {
        let args = format!("generate {from} --temp 0 -n 4");
        assert_eq!(folder.ok(&args).stdout, expected, "{from}");
    }
    for args in ["generate - --temp 0 -n 4", "generate --temp 0 -n 4"] {
        let ran = folder.gpt_reading(args, "Once\n");
        assert_eq!(ran.stdout, expected, "{args}");
    }
}

#[test]
fn the_seed_is_told_before_the_text_begins() {
    let mut screen = tempfile::tempfile().unwrap();
    let ran = trained()
        .command("generate Once -n 3 --model runs/0001/checkpoints/step-00000002")
        .stdout(screen.try_clone().unwrap())
        .stderr(screen.try_clone().unwrap())
        .status();
    assert!(ran.unwrap().success());
    let mut shown = String::new();
    screen.rewind().unwrap();
    screen.read_to_string(&mut shown).unwrap();
    let (seed, text) = shown.split_once('\n').unwrap();
    let is_first = seed.starts_with("the random seed is ") && text.starts_with("Once");
    assert!(is_first, "{shown}");
}

#[test]
fn json_is_one_object_with_the_new_ids_alone() {
    let ran = trained().ok("generate --tokens 1,2,3 --temp 0 -n 5 --json");
    let report = ran.json();
    assert_eq!(report["tokens"].as_array().unwrap().len(), 5);
    assert!(report["text"].is_string() && report["seed"].is_null());
    assert_eq!(ran.stderr, "");
    assert_eq!(drawn("--tokens 1,2,3 --top-k 1 -n 5"), report["tokens"]);
    let random = trained().json("generate --tokens 1,2,3 --temp 1 -n 5");
    let again = format!("--tokens 1,2,3 --temp 1 -n 5 --seed {}", random["seed"]);
    assert_eq!(drawn(&again), random["tokens"]);
    let large = trained().json("generate --tokens 1,2,3 -n 1 --seed -1");
    assert_eq!(large["seed"], "18446744073709551615");
}

#[test]
fn saying_a_default_changes_nothing_and_the_last_of_a_flag_counts() {
    let draw = |args: &str| drawn(&format!("Once -n 12 --seed 7 {args}"));
    let plain = draw("");
    for default in [
        "--temp 0.8 --threads 2",
        "--top-k 40",
        "--top-p 1",
        "--temp 3 --temperature 0.8",
        "-s 7",
    ] {
        assert_eq!(draw(default), plain, "{default}");
    }
    for other in ["--top-k 0", "-s 8", "--build mkl"] {
        assert_ne!(draw(other), plain, "{other}");
    }
    assert_eq!(draw("--top-k 0"), draw("--top-k 99999"));
    assert_eq!(draw("--seed=-1"), draw("--seed 18446744073709551615"));
}

#[test]
fn a_stop_string_ends_the_text_before_it() {
    let ran = trained().json("generate Once --temp 0 -n 6");
    let text = ran["text"].as_str().unwrap();
    let stop = text.find(|c: char| c.is_ascii_alphanumeric()).unwrap();
    let stop = &text[stop..=stop];
    let stopped = trained().json(&format!("generate Once --temp 0 -n 6 --stop {stop}"));
    assert_eq!(stopped["text"], text.split(stop).next().unwrap());
    assert_eq!(stopped["finish"], "stop");
    let [all, until] = [&ran, &stopped].map(|ran| ran["tokens"].as_array().unwrap());
    assert!(all.starts_with(until), "{until:?} of {all:?}");
}

#[test]
fn an_interactive_session_continues_one_text_turn_by_turn() {
    let ran = trained().gpt_reading("generate -i --temp 0 -n 3", "Once\n\n upon\n");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(ran.stderr.matches("decode").count(), 3, "{}", ran.stderr);
    // In an interactive session, each line that the user enters continues the text so far, and an
    // empty line only requests more tokens. `Once` and an empty line, with three new tokens after
    // each, must therefore lead to the same text as `Once` with six new tokens.
    let at_once = trained().ok("generate Once --temp 0 -n 6").stdout;
    let turns = format!("Once{}", ran.stdout.replace('\n', ""));
    let at_once = at_once.replace('\n', "");
    assert!(turns.starts_with(&at_once), "{turns:?}, {at_once:?}");
}

#[test]
fn a_closed_standard_output_is_no_error() {
    for args in [
        "generate Once -n 50 --temp 0",
        "inspect Once --json",
        "info",
        "train --help",
    ] {
        let mut command = trained().command(args);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let ended = child.wait_with_output().unwrap();
        let stderr = String::from_utf8_lossy(&ended.stderr);
        let is_quiet = !stderr.contains("panicked") && !stderr.contains("error");
        assert!(ended.status.success() && is_quiet, "gpt {args}: {stderr}");
    }
}

#[test]
fn samples_are_separated_and_the_first_is_the_only_one_of_its_seed() {
    let args = "generate Once -n 8 --seed 7 --temp 1 --dtype int8";
    let ran = trained().ok(&format!("{args} --num-samples 3"));
    let texts: Vec<&str> = ran.stdout.split("---------------\n").collect();
    assert_eq!(texts.len(), 3);
    let all = texts.iter().all(|text| text.starts_with("Once"));
    assert!(all && texts[0] != texts[1], "{texts:?}");
    assert_eq!(texts[0], trained().ok(args).stdout);
    let seeds = trained().ok("generate Once -n 1 --num-samples 3").stderr;
    holds(&seeds, &["the random seeds are ", " to "]);
}

/// Runs `gpt generate` with `--json` and returns the lines that it prints. Each line describes a
/// sample.
fn lines(args: &str) -> Vec<String> {
    let printed = trained().ok(&format!("generate {args} --json")).stdout;
    printed.lines().map(str::to_owned).collect()
}

const DTYPES: [&str; 5] = ["float32", "float16", "bfloat16", "int8", "int4"];

#[test]
fn a_sample_depends_only_on_the_seed_and_its_index() {
    // Each sample must be the same whether it is generated alone or together with others. In some
    // of these cases, the samples end at different times because a stop string occurs or the
    // context is full. All cases sample at the default temperature.
    for (dtype, options) in DTYPES.into_iter().flat_map(|dtype| {
        [
            "-n 9",
            "-n 30 --stop e",
            "-n 30 --past-context stop",
            "-n 0",
        ]
        .map(|more| (dtype, more))
    }) {
        let args = format!("Once --dtype {dtype} {options} --threads 2");
        let all = lines(&format!("{args} --seed 5 --num-samples 5"));
        assert_eq!(all.len(), 5);
        assert_eq!(lines(&format!("{args} --seed 5 --num-samples 2")), all[..2]);
        for (i, sample) in all.iter().enumerate() {
            let alone = lines(&format!("{args} --seed {}", 5 + i));
            assert_eq!(alone, [sample.as_str()], "{args}: sample {i}");
        }
    }
    // `gpt generate` processes at most 64 samples at the same time, so the last of these 70 samples
    // start only after others have ended. They must still be the same as if they were generated
    // alone.
    let many = lines("Once --dtype int8 -n 3 --seed 5 --num-samples 70");
    assert_eq!(lines("Once --dtype int8 -n 3 --seed 74"), many[69..]);
    assert_eq!(many.len(), 70);
}

#[test]
fn each_line_is_a_prompt_with_its_own_samples() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("prompts.txt");
    std::fs::write(&file, "Once\r\nMarta looked\n\nThe bell\n").unwrap();
    let args = "--dtype int8 -n 6 --seed 5 --num-samples 2";
    let all = lines(&format!("-f {} --lines {args}", file.display()));
    assert_eq!(all.len(), 8);
    let alone = |prompt: &[&str]| {
        let words = ["generate", "--json"].iter().chain(prompt).copied();
        let command = trained()
            .command_with(words.chain(args.split(' ')))
            .output();
        String::from_utf8(command.unwrap().stdout).unwrap()
    };
    for (i, prompt) in ["Once", "Marta looked", "", "The bell"]
        .into_iter()
        .enumerate()
    {
        assert_eq!(
            alone(&[prompt]),
            all[2 * i..2 * i + 2].join("\n") + "\n",
            "{prompt}"
        );
    }
    let ran = trained().gpt_reading("generate --lines --dtype int8 -n 2 --temp 0", "Once\nThe\n");
    let (first, second) = ran.stdout.split_once("\n---------------\n").unwrap();
    assert!(
        first.starts_with("Once") && second.starts_with("The"),
        "{}",
        ran.stdout
    );
    trained().misused("generate --lines --tokens 1", &["--lines", "--tokens"]);
    std::fs::write(&file, format!("Once\n{}", "Once ".repeat(40))).unwrap();
    let long = format!("generate -f {} --lines", file.display());
    trained().refused(&long, &["line 2", "--past-context crop"]);
}

#[test]
fn a_model_that_nobody_named_is_named_on_standard_error() {
    for args in ["generate Once -n 1 --temp 0", "info", "info runs/0001"] {
        let told = trained().ok(args).stderr;
        holds(&told, &["model runs/0001/checkpoints/step-00000002"]);
    }
    let named = "inspect Once -m runs/0001/checkpoints/step-00000002";
    for args in [named, "inspect Once --json"] {
        assert_eq!(trained().ok(args).stderr, "", "gpt {args}");
    }
}

#[test]
fn a_text_may_begin_with_nothing() {
    let end = drawn(&format!("--tokens {} -n 4 --temp 0", TOKENS - 1));
    assert_eq!(drawn("--tokens= -n 4 --temp 0"), end);
    assert_eq!(drawn("-n 4 --temp 0"), end);
}

#[test]
fn a_folder_s_generation_settings_are_the_defaults() {
    let folder = folder();
    folder.ok(&format!(
        "convert {} model",
        trained().join("runs/0001").display()
    ));
    let settings = |json: &str| folder.write("model/generation_config.json", json);
    let written = |options: &str| {
        folder
            .ok(&format!("generate the -m model -n 8 -s 1 {options}"))
            .stdout
    };
    settings("{}");
    let (plain, greedy) = (written(""), written("--temp 0"));
    assert!(plain != greedy);
    settings(r#"{"do_sample": true, "top_k": 1}"#);
    assert_eq!(written(""), greedy);
    assert_eq!(written("--top-k 40"), plain);
    settings(r#"{"temperature": 0.8, "top_k": 40, "top_p": 1.0, "repetition_penalty": 1.0}"#);
    assert_eq!(written(""), plain);
    settings(r#"{"min_p": 1.0, "repetition_penalty": 1e9}"#);
    assert_eq!(written(""), written("--temp 0 --repeat-penalty 1e9"));
    settings(r#"{"temperature": -1}"#);
    folder.refused(
        "generate the -m model",
        &["generation_config.json", "temperature", "-1"],
    );
    assert_eq!(written("--temp 0"), greedy);
    for (damage, message) in [
        (
            r#"{"temperature": "0.7"}"#,
            "temperature must be a number, got \"0.7\"",
        ),
        (r#"{"top_k": 1.5}"#, "top_k must be a whole number, got 1.5"),
        (r#"{"top_k": 99999999999}"#, "top_k must be a whole number"),
        (
            r#"{"max_new_tokens": 0}"#,
            "max_new_tokens must be a whole number that is at least 1",
        ),
        ("{", "generation_config.json"),
    ] {
        settings(damage);
        folder.refused("generate the -m model", &[message]);
        folder.refused("convert model model.gguf", &[message]);
    }
}

/// Test cases for greedy decoding. Each case consists of the content of `generation_config.json`,
/// and whether this content makes version 5.24.0 of transformers use greedy decoding
/// (`GenerationConfig.from_pretrained(folder).get_generation_mode()`). All cases set `do_sample`,
/// because the two programs have different defaults: if it isn't set, transformers uses greedy
/// decoding, but `gpt` samples randomly.
const MODES: [(&str, bool); 6] = [
    (
        r#"{"do_sample": false, "temperature": 0.6, "top_p": 0.9}"#,
        true,
    ),
    (r#"{"do_sample": false, "top_k": 50, "min_p": 0.1}"#, true),
    (r#"{"do_sample": false, "temperature": NaN}"#, true),
    (r#"{"do_sample": false, "temperature": -Infinity}"#, true),
    (r#"{"do_sample": true, "temperature": 0.6}"#, false),
    (r#"{"do_sample": true, "top_k": 50}"#, false),
];

/// Test cases for the length of the generated text. Each case consists of the content of
/// `generation_config.json`, and the number of tokens that version 5.24.0 of transformers then
/// generates after a prompt of three tokens, or `None` if it rejects the prompt. The numbers were
/// derived from `_prepare_generated_length` and `_validate_generated_length` in
/// `generation/utils.py`.
const LENGTHS: [(&str, Option<usize>); 4] = [
    (r#"{"max_new_tokens": 7}"#, Some(7)),
    (r#"{"max_length": 10}"#, Some(7)),
    (r#"{"max_new_tokens": 4, "max_length": 20}"#, Some(4)),
    (r#"{"max_length": 3}"#, None),
];

#[test]
fn generation_settings_mean_what_they_mean_in_transformers_and_options_win() {
    let folder = folder();
    folder.ok(&format!(
        "convert {} model",
        trained().join("runs/0001").display()
    ));
    let set = |json: &str| folder.write("model/generation_config.json", json);
    let generate = "generate --tokens 1,2,3 -m model --ignore-eos -t 1";
    let tokens = |options: &str| folder.json(&format!("{generate} {options}"))["tokens"].clone();
    set("{}");
    let greedy = tokens("-n 5 --temp 0");
    for (json, is_greedy) in MODES {
        set(json);
        let report = folder.json(&format!("{generate} -n 5"));
        assert_eq!(report["seed"].is_null(), is_greedy, "{json}");
        assert_eq!(report["tokens"] == greedy, is_greedy, "{json}");
        // Options that request random sampling take precedence over the file.
        for option in ["--temp 1", "--temp 1 --top-k 9", "--temp 1 --min-p 0.01"] {
            let report = folder.json(&format!("{generate} -n 5 {option}"));
            assert!(report["seed"].is_u64(), "{json} {option}");
        }
        // llama.cpp uses greedy decoding at temperature 0.
        let gguf = folder.join("model.gguf");
        folder.ok("convert model model.gguf");
        let (bytes, key) = (std::fs::read(&gguf).unwrap(), b"general.sampling.temp");
        let key_at = bytes.windows(key.len()).position(|part| part == key);
        let value = key_at.map(|at| &bytes[at + key.len() + 4..][..4]);
        assert_eq!(value == Some(&[0; 4]), is_greedy, "{json}");
        std::fs::remove_file(gguf).unwrap();
    }
    for (json, expected) in LENGTHS {
        set(json);
        match expected {
            Some(count) => assert_eq!(tokens("--temp 0").as_array().unwrap().len(), count),
            None => folder.refused(&format!("{generate} --json"), &["max_length"]),
        }
        assert_eq!(tokens("-n 2").as_array().unwrap().len(), 2, "{json}");
    }
}

#[test]
fn settings_that_are_not_supported_are_named_unless_they_change_nothing() {
    let folder = folder();
    folder.ok(&format!(
        "convert {} model",
        trained().join("runs/0001").display()
    ));
    let noted = |json: &str| {
        folder.write("model/generation_config.json", json);
        let generated = folder.ok("generate the -m model -n 1 --temp 0").stderr;
        let converted = folder.ok("convert model model.gguf").stderr;
        std::fs::remove_file(folder.join("model.gguf")).unwrap();
        let note = |text: &str| {
            let line = text.lines().find(|line| line.contains("ignored"));
            line.map(str::to_owned)
        };
        assert_eq!(note(&generated), note(&converted));
        note(&generated)
    };
    // The default values come from version 5.24.0 of transformers
    // (`_get_default_generation_params`).
    let defaults = r#"{"num_beams": 1, "num_beam_groups": 1, "num_return_sequences": 1,
        "typical_p": 1.0, "no_repeat_ngram_size": 0, "encoder_no_repeat_ngram_size": 0,
        "encoder_repetition_penalty": 1.0, "min_length": 0, "bad_words_ids": null,
        "forced_eos_token_id": null, "epsilon_cutoff": 0.0, "eta_cutoff": 0.0,
        "suppress_tokens": null, "remove_invalid_values": false, "length_penalty": 1.0,
        "early_stopping": false, "use_cache": true, "output_scores": false, "_from_model_config":
        true, "transformers_version": "5.24.0", "diversity_penalty": 0.0}"#;
    assert_eq!(noted(defaults), None);
    let note = noted(
        r#"{"num_beams": 4, "no_repeat_ngram_size": 3, "min_new_tokens": 2, "typical_p": 0.9,
        "forced_bos_token_id": 0, "bad_words_ids": [[7]], "suppress_tokens": []}"#,
    );
    let note = note.expect("a note");
    holds(
        &note,
        &[
            "model/generation_config.json",
            "bad_words_ids, forced_bos_token_id, min_new_tokens, no_repeat_ngram_size, num_beams, typical_p",
        ],
    );
    assert!(!note.contains("suppress_tokens"), "{note}");
}

#[test]
fn what_generate_refuses_is_not_written_to_gguf() {
    let folder = folder();
    folder.ok(&format!(
        "convert {} model",
        trained().join("runs/0001").display()
    ));
    for (json, name) in [
        (r#"{"temperature": 1e300}"#, "temperature"),
        (r#"{"temperature": NaN}"#, "temperature"),
        (r#"{"top_p": 7}"#, "top_p"),
        (r#"{"min_p": -Infinity}"#, "min_p"),
        (
            r#"{"do_sample": false, "repetition_penalty": -5}"#,
            "repetition_penalty",
        ),
    ] {
        folder.write("model/generation_config.json", json);
        for args in ["generate the -m model", "convert model model.gguf"] {
            folder.refused(args, &["generation_config.json", name]);
        }
        assert!(!folder.join("model.gguf").exists());
        for args in [
            "info model",
            "eval -m model data.bin",
            "convert model other",
        ] {
            folder.ok(args);
        }
        std::fs::remove_dir_all(folder.join("other")).unwrap();
    }
    folder.write("model/generation_config.json", "{}");
    for penalty in ["1e-45", "3e38"] {
        folder.ok(&format!(
            "generate the -m model -n 3 --repeat-penalty {penalty}"
        ));
    }
}

#[test]
fn a_stop_string_of_the_folder_ends_a_text() {
    let folder = folder();
    folder.ok(&format!(
        "convert {} model",
        trained().join("runs/0001").display()
    ));
    let text = |options: &str| {
        let report = folder.json(&format!("generate the -m model --temp 0 -n 6 {options}"));
        report["text"].as_str().unwrap().to_owned()
    };
    let whole = text("");
    let stop = whole.chars().nth(2).unwrap();
    let json = serde_json::json!({"stop_strings": [stop]});
    folder.write("model/generation_config.json", json.to_string());
    assert_eq!(text(""), whole.split(stop).next().unwrap());
    assert_eq!(text("--stop nowhere"), whole);
}
