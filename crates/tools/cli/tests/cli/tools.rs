//! `gpt tokenize`, `info`, `eval` and `logits` on tiny models.

use std::fs;

use crate::support::{TOKENS, folder, holds, trained};

#[test]
fn tokenize_shows_ids_and_pieces_and_writes_token_files() {
    let folder = folder();
    let report = folder.json("tokenize Akwirw");
    assert_eq!(report["tokens"], serde_json::json!([33901, 86, 343, 86]));
    assert_eq!(report["pieces"], serde_json::json!(["Ak", "w", "ir", "w"]));
    assert_eq!([&report["count"], &report["characters"]], [4, 6]);
    let back = folder.json("tokenize --tokens 33901,86,343,86");
    assert_eq!(back["text"], "Akwirw");
    let table = folder.ok("tokenize a").stdout;
    holds(&table, &["64  \"a\"", "1 tokens, 1 characters, 1 bytes"]);
    folder.ok("tokenize Akwirw -o out.bin");
    folder.write("a.txt", "Akwirw");
    folder.refused(
        "tokenize -f a.txt -o ./a.txt",
        &["-o ./a.txt", "which is read"],
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
    // Standard input and pipes are files.
    for stdin in ["", " -", " -f -", " -f /dev/stdin"] {
        for (text, count) in [("Hello, world", "3\n"), ("", "0\n")] {
            let args = format!("tokenize --count{stdin}");
            assert_eq!(folder.gpt_reading(&args, text).stdout, count, "{args}");
        }
    }
    folder.refused("tokenize --tokens 50257", &["50257"]);
}

#[test]
fn info_counts_the_parameters_of_the_book() {
    let folder = folder();
    let report = folder.json("info --preset gpt2-124m");
    assert_eq!(report["parameters"], 163_009_536);
    assert_eq!(report["parameters_without_out_head"], 124_412_160);
    assert_eq!(report["memory"]["f32"], 652_038_144u64);
    let text = folder.ok("info --preset gpt2-124m").stdout;
    holds(&text, &["163,009,536", "trf_blocks.{i}.att.W_query.weight"]);
    holds(&trained().ok("info").stdout, &["runs/0001"]);
}

#[test]
fn logits_are_those_of_the_last_position_and_read_back_exactly() {
    let report = trained().json("logits --tokens 1,2,3");
    let logits = report["logits"].as_array().unwrap();
    assert_eq!(logits.len(), TOKENS);
    let best = (0..logits.len())
        .max_by(|&a, &b| logits[a].as_f64().partial_cmp(&logits[b].as_f64()).unwrap());
    let greedy = trained().json("generate --tokens 1,2,3 --temp 0 -n 1");
    assert_eq!(greedy["tokens"][0].as_u64().map(|id| id as usize), best);
    let table = trained().ok("logits Once --top 3").stdout;
    assert_eq!(table.lines().count(), 4, "{table}");
}

#[test]
fn a_smaller_stride_predicts_the_same_tokens_with_more_before_them() {
    let folder = trained();
    let file = tempfile::NamedTempFile::new().unwrap();
    let text = "One day the boat was gone, and nobody knew where it was. ".repeat(4);
    fs::write(file.path(), &text).unwrap();
    let eval = format!("eval {}", file.path().display());
    let of = |args: &str| folder.json(&format!("{eval} {args}"));
    let (far, near) = (of(""), of("--stride 4"));
    let named = folder.json(&format!("eval --data {}", file.path().display()));
    assert_eq!(named, far);
    assert_eq!(far["tokens"], near["tokens"]);
    assert_ne!(far["loss"], near["loss"]);
    assert_eq!(far["loss"], of("--stride 16")["loss"]);
    for stdin in ["-", "-f -"] {
        let piped = folder.gpt_reading(&format!("eval {stdin} --json"), &text);
        assert_eq!(piped.json(), far);
    }
    folder.refused(&format!("{eval} --stride 17"), &["--stride", "17", "16"]);
    folder.refused(&format!("{eval} -c 17"), &["17", "16"]);
    holds(&folder.ok(&eval).stdout, &["perplexity", "bits/byte"]);
}
