//! Tests `gpt train` with various data and options, and the files that a run writes.

use std::fs;

use serde_json::Value;

use crate::support::{TINY, folder, holds};

#[test]
fn a_run_leaves_a_model_a_log_and_a_loss_curve() {
    let folder = folder();
    let ran = folder.ok(&format!("train {TINY} --max-steps 12"));
    let run = folder.join("runs/0001");
    let svg = fs::read_to_string(run.join("loss.svg")).unwrap();
    assert!(svg.starts_with("<svg"));
    // The x-axis of the loss curve shows both steps and tokens. Its label "10 (320)" means that the
    // model has seen 320 tokens after 10 training steps.
    holds(&svg, &["validation", "10 (320)"]);
    assert_eq!(folder.logged_losses("runs/0001").len(), 12);
    let log = folder.log("runs/0001").into_iter();
    let losses = log.filter(|line| line["event"] == "eval");
    let losses: Vec<f64> = losses
        .map(|line| line["val_loss"].as_f64().unwrap())
        .collect();
    assert_eq!(losses.len(), 3, "after steps 5, 10 and 12");
    assert!(losses[2] < losses[0], "{losses:?}");
    let weights = folder.checkpoint("runs/0001").join("model.safetensors");
    assert!(weights.exists());
    let shown = [
        "each with 32 tokens",
        "seed 123",
        "step 12/12: loss",
        "tokens/s",
        "sample: ",
        "runs/0001",
    ];
    holds(&ran.stdout, &shown);
    let is_plain = !ran.stdout.contains('\u{1b}') && ran.stderr.is_empty();
    assert!(is_plain, "a pipe gets plain lines");
}

#[test]
fn a_config_file_and_nanogpts_names_say_the_same_as_our_flags_and_flags_win() {
    let folder = folder();
    folder.ok(&format!("train {TINY} --max-steps 4 --out-dir ours"));
    folder.ok("train --data=data.bin --vocab_size=61 --n_layer=1 --n_head=2 --n_embd=8 --block_size=8 --batch_size=4 \
         --threads=1 --learning_rate=0.01 --warmup_iters=2 --eval_interval=5 --eval_iters=2 --max_iters=4 \
         --out_dir=theirs");
    let config = "data = 'data.bin'\nvocab_size = 61\nn_layers = 1\nn_heads = 2\nn_embd = 8\r\nblock-size = 8\n\
        batch_size = 4\nthreads = 1\nlr = 0.01\nwarmup_iters = 2\neval_interval = 5\neval_iters = 2\n\
        max_steps = 9\nseed = 5\n";
    folder.write("config.toml", config);
    folder.ok("train --config config.toml --max-steps 4 --seed 123 --out-dir file");
    assert!(folder.tensors("ours") == folder.tensors("theirs"));
    assert!(folder.tensors("ours") == folder.tensors("file"));
    // A new run that is started with the `options.toml` of an earlier run must end with the same
    // weights as that run.
    folder.ok("train --config ours/options.toml --out-dir again");
    assert!(folder.tensors("ours") == folder.tensors("again"));
}

#[test]
fn folders_of_tokens_and_of_texts_are_data() {
    let folder = folder();
    fs::create_dir_all(folder.join("tokens")).unwrap();
    fs::copy(folder.join("data.bin"), folder.join("tokens/train.bin")).unwrap();
    fs::copy(folder.join("data.bin"), folder.join("tokens/val.bin")).unwrap();
    fs::create_dir_all(folder.join("texts")).unwrap();
    folder.write("texts/a.txt", "One day the boat was gone. ".repeat(20));
    folder.write("texts/b.txt", "The next day it was back. ".repeat(20));
    let flags = TINY.replace("data.bin", "tokens");
    let tokens = folder.ok(&format!("train {flags} --max-steps 1"));
    let parts = "400 tokens for training and 400 for validation";
    holds(&tokens.stdout, &[parts]);
    let flags = TINY
        .replace("data.bin", "texts")
        .replace("--vocab-size 61", "");
    folder.ok(&format!("train {flags} --max-steps 1"));
    let whole = "--train-ratio 1 --epochs 1 --gradient-accumulation-steps 3";
    folder.ok(&format!("train {TINY} {whole}"));
}

#[test]
fn a_run_can_start_from_another_models_weights() {
    let folder = folder();
    folder.ok(&format!("train {TINY} --max-steps 3 --out-dir first"));
    let ran = folder
        .ok("train --init-from first --data data.bin --max-steps 1 --batch-size 4 --dropout 0");
    let same = "1 layers, 2 heads, 8 features, a context of 8 tokens and a vocabulary of 61 tokens";
    holds(&ran.stdout, &[same]);
    folder.refused(
        "train --init-from first --data data.bin --max-steps 1 --n-heads 4",
        &["--n-heads 4", "the base model uses 2"],
    );
}

#[test]
fn a_run_that_starts_from_a_model_keeps_its_dropout_of_each_site() {
    let folder = folder();
    folder.ok(&format!("train {TINY} --max-steps 1 --out-dir first"));
    folder.ok("convert first model");
    let config = folder.join("model/config.json");
    let mut json: Value = serde_json::from_slice(&fs::read(&config).unwrap()).unwrap();
    json["attn_pdrop"] = 0.25.into();
    fs::write(&config, json.to_string()).unwrap();
    let rates = "on embeddings, 0.25 on attention weights";
    holds(&folder.ok("info model").stdout, &[rates]);
    let flags = "train --data data.bin --batch-size 4 --eval-iters 2";
    let ran = folder.ok(&format!(
        "{flags} --init-from model --max-steps 2 --out-dir longer"
    ));
    holds(&ran.stdout, &[rates]);
    folder.ok("train --resume longer --max-steps 3");
    holds(&folder.ok("info longer").stdout, &[rates]);
}

#[test]
fn a_run_that_does_not_see_all_of_its_data_says_so() {
    let folder = folder();
    let run = |steps| {
        let flags = format!("train {TINY} --max-steps {steps}");
        folder.ok(&flags).stdout
    };
    let (part, whole) = (run(4), run(11));
    let sees = "covers 36% of the data; --epochs 1 (11 steps) covers all of it";
    holds(&part, &[sees]);
    assert!(!whole.contains("of the data"), "{whole}");
}
