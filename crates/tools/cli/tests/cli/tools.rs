//! Tests `gpt tokenize`, `gpt info`, `gpt eval` and `gpt completions`.

use std::fs;

use crate::support::{folder, holds, trained};

#[test]
fn tokenize_shows_ids_and_pieces_and_writes_token_files() {
    let folder = folder();
    let report = folder.json("tokenize Akwirw");
    assert_eq!(report["tokens"], serde_json::json!([33901, 86, 343, 86]));
    assert_eq!(report["pieces"], serde_json::json!(["Ak", "w", "ir", "w"]));
    let back = folder.json("tokenize --tokens 33901,86,343,86");
    assert_eq!(back["text"], "Akwirw");
    let table = folder.ok("tokenize a").stdout;
    holds(&table, &["64  \"a\"", "1 tokens, 1 characters, 1 bytes"]);
    folder.ok("tokenize Akwirw -o out.bin");
    folder.write("a.txt", "Akwirw");
    folder.refused(
        "tokenize -f a.txt -o ./a.txt",
        &["./a.txt: can't write: already exists"],
    );
    assert_eq!(fs::read(folder.join("a.txt")).unwrap(), b"Akwirw");
    assert_eq!(fs::read(folder.join("out.bin")).unwrap().len(), 8);
    for (args, printed) in [
        ("Akwirw --ids", "33901,86,343,86\n"),
        ("-f out.bin --ids", "33901,86,343,86\n"),
        ("-f a.txt --ids", "33901,86,343,86\n"),
        ("<|endoftext|> --ids", "50256\n"),
    ] {
        assert_eq!(folder.ok(&format!("tokenize {args}")).stdout, printed);
    }
    // Standard input and pipes can be used as files.
    for stdin in ["", " -", " -f -", " -f /dev/stdin"] {
        for (text, count) in [("Hello, world", "3\n"), ("", "0\n")] {
            let args = format!("tokenize --count{stdin}");
            assert_eq!(folder.gpt_reading(&args, text).stdout, count, "{args}");
        }
    }
    let file = fs::File::create(folder.join("stdout.bin")).unwrap();
    let mut command = folder.command("tokenize Akwirw -o /dev/stdout");
    assert!(command.stdout(file).status().unwrap().success());
    let [to_stdout, to_file] = ["stdout.bin", "out.bin"].map(|name| fs::read(folder.join(name)));
    assert_eq!(to_stdout.unwrap(), to_file.unwrap());
    folder.refused("tokenize --tokens 50257", &["50257"]);
}

#[test]
fn info_counts_the_parameters_of_the_book() {
    let folder = folder();
    let text = folder.ok("info --preset gpt2-124m").stdout;
    holds(&text, &["163,009,536", "124,412,160", "652.0 MB"]);
    let eight = folder.ok("info --preset gpt2-124m --num-samples 8").stdout;
    holds(&eight, &["8 full contexts"]);
    holds(&trained().ok("info").stdout, &["runs/0001"]);
}

#[test]
fn eval_takes_a_text_from_a_file_or_a_pipe_and_ids() {
    let folder = trained();
    let file = tempfile::NamedTempFile::new().unwrap();
    let text = "One day the boat was gone, and nobody knew where it was. ".repeat(4);
    fs::write(file.path(), &text).unwrap();
    let eval = format!("eval {}", file.path().display());
    let report = folder.json(&eval);
    assert!(report["bits_per_byte"].as_f64().unwrap() > 0.0, "{report}");
    let named = folder.json(&format!("eval -f {}", file.path().display()));
    assert_eq!(named, report);
    for stdin in ["-", "-f -"] {
        let piped = folder.gpt_reading(&format!("eval {stdin} --json"), &text);
        assert_eq!(piped.json(), report);
    }
    let ids = folder.ok(&format!(
        "tokenize --ids -m runs/0001 -f {}",
        file.path().display()
    ));
    let of_ids = folder.json(&format!("eval --tokens {}", ids.stdout.trim()));
    assert_eq!(of_ids["loss"], report["loss"]);
    holds(&folder.ok(&eval).stdout, &["perplexity", "bits/byte"]);
}

#[test]
fn eval_has_windows_with_a_stride_and_operands_of_16_bits() {
    let folder = trained();
    let file = tempfile::NamedTempFile::new().unwrap();
    let text = "One day the boat was gone, and nobody knew where it was. ".repeat(4);
    fs::write(file.path(), text).unwrap();
    let eval = |options: &str| folder.json(&format!("eval -f {} {options}", file.path().display()));
    let plain = eval("");
    assert_eq!(eval("--stride 16"), plain, "the context length");
    let close = eval("--stride 1");
    assert_eq!(close["tokens"], plain["tokens"]);
    assert!(close["loss"] != plain["loss"]);
    let rounded = eval("--dtype bf16")["loss"].as_f64().unwrap();
    let difference = (rounded - plain["loss"].as_f64().unwrap()).abs();
    assert!(difference > 0.0 && difference < 0.02, "{difference}");
    let path = file.path().display();
    folder.misused(
        &format!("eval -f {path} --stride 17"),
        &["--stride", "16", "17"],
    );
    folder.misused(&format!("eval -f {path} --stride 0"), &["--stride", "0"]);
    folder.misused(
        &format!("eval -f {path} --dtype int8"),
        &["float32", "int8"],
    );
}

#[test]
fn completions_name_the_commands_of_every_shell() {
    let folder = folder();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = folder.ok(&format!("completions {shell}")).stdout;
        holds(&script, &["tokenize", "repeat-penalty"]);
    }
    folder.misused("completions csh", &["csh", "bash"]);
}
