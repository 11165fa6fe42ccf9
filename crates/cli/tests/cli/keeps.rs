//! What is not ours is left alone, and what is good stays: folders of others, checkpoints of a run that goes wrong.

use std::fs;

use crate::support::{TINY, checkpoint, checkpoints, folder, gpt, log, ok, refused};

/// [`TINY`] with a learning rate that throws the weights away.
fn wild() -> String {
    TINY.replace(
        "--learning-rate 0.01 --warmup-steps 2",
        "--learning-rate 1e30 --warmup-steps 0 --decay-lr=false --grad-clip 0",
    )
}

#[test]
fn a_folder_of_somebody_else_is_refused_and_left_as_it_was() {
    let folder = folder();
    let path = folder.path();
    for (i, theirs) in [
        "checkpoints/step-1000/lit_model.pth",
        "checkpoints/step-00001000/model.safetensors",
        "thesis.tex",
        "options.toml",
        "log.jsonl",
        ".draft.unfinished",
    ]
    .into_iter()
    .enumerate()
    {
        let project = path.join(format!("project{i}"));
        let file = project.join(theirs);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, "x").unwrap();
        refused(
            path,
            &format!("train {TINY} --max-steps 1 --out-dir project{i}"),
            1,
            &["expected", theirs.split('/').next().unwrap()],
        );
        assert_eq!(fs::read(&file).unwrap(), b"x");
        assert_eq!(fs::read_dir(&project).unwrap().count(), 1, "{theirs}");
    }
}

#[test]
fn a_run_that_was_killed_before_it_wrote_anything_can_begin_again() {
    let folder = folder();
    let path = folder.path();
    fs::create_dir_all(path.join("run/checkpoints")).unwrap();
    fs::write(path.join("run/.lock"), "").unwrap();
    fs::write(path.join("run/.options.toml.1-0.unfinished"), "half").unwrap();
    ok(path, &format!("train {TINY} --max-steps 1 --out-dir run"));
    assert!(!path.join("run/.options.toml.1-0.unfinished").exists());
}

#[test]
fn a_lost_manifest_costs_no_weights() {
    let folder = folder();
    let path = folder.path();
    ok(path, &format!("train {TINY} --max-steps 1 --out-dir run"));
    let checkpoint = checkpoint(&path.join("run"));
    fs::remove_file(checkpoint.join("manifest.json")).unwrap();
    refused(
        path,
        "train --resume run --max-steps 2",
        1,
        &["step-00000001", "no checkpoint"],
    );
    for file in ["model.safetensors", "optimizer.safetensors", "state.json"] {
        assert!(checkpoint.join(file).exists(), "{file}");
    }
}

#[test]
fn a_run_that_ends_without_a_finite_loss_says_so_and_keeps_the_good_checkpoints() {
    let folder = folder();
    let path = folder.path();
    let flags = wild();
    // The last step leaves no number, and nothing was saved before.
    refused(
        path,
        &format!("train {flags} --max-steps 1 --out-dir short"),
        1,
        &["loss after step 0 is", "try a learning rate below"],
    );
    assert_eq!(checkpoints(&path.join("short")), [""; 0]);
    // A sane start, and then the same.
    let flags = flags.replace(
        "--warmup-steps 0 --decay-lr=false",
        "--warmup-steps 4 --initial-lr 1e-3 --save-interval 1",
    );
    refused(
        path,
        &format!("train {flags} --max-steps 9 --out-dir run"),
        1,
        &["the last checkpoint is kept: run/checkpoints/step-"],
    );
    for name in checkpoints(&path.join("run")) {
        let evaluated = ok(
            path,
            &format!("eval --data data.bin --json -m run/checkpoints/{name}"),
        );
        assert!(evaluated.json()["loss"].is_f64(), "{}", evaluated.stdout);
    }
}

#[test]
fn a_loss_that_is_no_number_is_a_failure_of_eval() {
    let folder = folder();
    let path = folder.path();
    ok(path, &format!("train {TINY} --max-steps 1 --out-dir run"));
    ok(path, "convert run model --layout book");
    let file = path.join("model/model.safetensors");
    let mut bytes = fs::read(&file).unwrap();
    let (length, rest) = bytes.split_first_chunk::<8>().unwrap();
    let header = u64::from_le_bytes(*length) as usize;
    let names: serde_json::Value = serde_json::from_slice(&rest[..header]).unwrap();
    let offsets = &names["final_norm.scale"]["data_offsets"];
    let (begin, end) = (offsets[0].as_u64().unwrap(), offsets[1].as_u64().unwrap());
    for number in bytes[8 + header..][begin as usize..end as usize].chunks_exact_mut(4) {
        number.copy_from_slice(&f32::MAX.to_le_bytes());
    }
    fs::write(&file, bytes).unwrap();
    for json in ["", " --json"] {
        let command = format!("eval --data data.bin -m model{json}");
        refused(path, &command, 1, &["the loss is"]);
    }
}

#[test]
fn as_many_checkpoints_are_kept_as_was_asked_and_the_best() {
    let folder = folder();
    let path = folder.path();
    let flags = format!("train {TINY} --save-interval 1 --max-steps 6");
    ok(path, &format!("{flags} --keep 3 --out-dir three"));
    let kept = checkpoints(&path.join("three"));
    let newest = ["step-00000004", "step-00000005", "step-00000006"];
    assert!(newest.iter().all(|name| kept.contains(&(*name).to_owned())));
    assert!(kept.len() <= 4, "{kept:?}");
    ok(path, &format!("{flags} --keep 1 --out-dir one"));
    assert!(checkpoints(&path.join("one")).len() <= 2);
    refused(path, &format!("{flags} --keep 0"), 2, &["--keep", "0"]);
}

#[test]
fn a_run_can_go_on_from_the_checkpoint_before_a_damaged_one_to_the_same_bits() {
    let folder = folder();
    let path = folder.path();
    let flags = format!("train {TINY} --drop-rate 0.1 --save-interval 3 --max-steps 9");
    ok(path, &format!("{flags} --out-dir whole"));
    ok(path, &format!("{flags} --out-dir run"));
    let newest = checkpoint(&path.join("run"));
    fs::write(newest.join("optimizer.safetensors"), "noise").unwrap();
    refused(path, "train --resume run", 1, &["optimizer.safetensors"]);
    ok(path, "train --resume run/checkpoints/step-00000006");
    let model = |run: &str| {
        let newest: serde_json::Value =
            serde_json::from_slice(&fs::read(path.join(run).join("latest.json")).unwrap()).unwrap();
        let name = newest["checkpoints"].as_array().unwrap().last().unwrap();
        let folder = path
            .join(run)
            .join("checkpoints")
            .join(name.as_str().unwrap());
        fs::read(folder.join("model.safetensors")).unwrap()
    };
    assert!(model("whole") == model("run"));
}

#[test]
fn resuming_a_finished_run_logs_its_end_once() {
    let folder = folder();
    let path = folder.path();
    ok(path, &format!("train {TINY} --max-steps 2 --out-dir run"));
    let ends = || {
        let lines = log(&path.join("run"));
        let end = |line: &&serde_json::Value| line["event"] == "eval" || line["event"] == "sample";
        lines.iter().filter(end).count()
    };
    let before = ends();
    for _ in 0..3 {
        ok(path, "train --resume run");
    }
    assert_eq!(ends(), before);
}

#[test]
fn what_a_file_says_does_not_steer_the_terminal() {
    let folder = folder();
    let path = folder.path();
    ok(path, &format!("train {TINY} --max-steps 1 --out-dir run"));
    ok(path, "convert run model");
    fs::remove_file(path.join("model/model.safetensors")).unwrap();
    for shard in [
        r"a\n\u001b[31mEVIL\u001b]0;pwn\u0007.safetensors",
        r"\u202egnp.safetensors",
    ] {
        let index = format!(r#"{{"weight_map": {{"x": "{shard}"}}}}"#);
        fs::write(path.join("model/model.safetensors.index.json"), index).unwrap();
        let ran = gpt(path, "logits --tokens 1 -m model");
        assert_eq!(ran.code, Some(1));
        let line = ran.stderr.trim_end();
        let steers = |c: char| c.is_control() || c == '\u{202e}';
        assert!(!line.contains(steers), "{line:?}");
    }
}
