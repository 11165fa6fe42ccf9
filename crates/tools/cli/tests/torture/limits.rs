//! Little memory, by a limit of the process and by control group, and texts of any shape: what
//! does not fit is refused with the numbers, and nothing is killed, aborts or takes time out of
//! proportion.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::sandbox::{
    Ended, PATIENCE, every, folder_with_a_run, gpt, gpt_under, is_long, limits_for, report, train,
    typed, words,
};

/// Numbers in the large tables of [`enlarge`]: 128 MB.
const VOCABULARY: u64 = 4_000_000;

/// Gives a model of 8 features so many tokens and positions, all of whose numbers are 0, in a file
/// that takes no room.
fn enlarge(model: &Path, tokens: u64, positions: u64) {
    let config = model.join("config.json");
    let mut settings: Value =
        serde_json::from_slice(&fs::read(&config).expect("a file")).expect("JSON");
    settings["vocab_size"] = tokens.into();
    settings["n_positions"] = positions.into();
    if settings.get("n_ctx").is_some() {
        settings["n_ctx"] = positions.into();
    }
    fs::write(config, settings.to_string()).expect("a file");
    let weights = model.join("model.safetensors");
    let bytes = fs::read(&weights).expect("a file");
    let (length, rest) = bytes.split_first_chunk().expect("a header");
    let header = &rest[..u64::from_le_bytes(*length) as usize];
    let mut header: serde_json::Map<String, Value> = serde_json::from_slice(header).expect("JSON");
    header.remove("__metadata__");
    let mut end = 0;
    for (name, tensor) in &mut header {
        let rows = match name.rsplit('.').nth(1) {
            Some("wte" | "lm_head") => Some(tokens),
            Some("wpe") => Some(positions),
            _ => None,
        };
        if let Some(rows) = rows {
            tensor["shape"][0] = rows.into();
        }
        let shape = tensor["shape"].as_array().expect("a shape").iter();
        let size = 4 * shape
            .map(|n| n.as_u64().expect("a number"))
            .product::<u64>();
        tensor["data_offsets"] = json!([end, end + size]);
        end += size;
    }
    let header = serde_json::to_vec(&header).expect("JSON");
    let begin = [&(header.len() as u64).to_le_bytes(), header.as_slice()].concat();
    fs::write(&weights, &begin).expect("a file");
    let file = File::options().write(true).open(weights);
    let sized = file.expect("a file").set_len(begin.len() as u64 + end);
    sized.expect("a sparse file");
}

/// A folder with a model of a large vocabulary, `wide`, one of a long context, `long`, and 6,000
/// ids.
fn large_models() -> TempDir {
    let folder = folder_with_a_run();
    let path = folder.path();
    for (model, tokens, positions) in [("wide", VOCABULARY, 8), ("long", 61, 30_000)] {
        let command = words(&format!("convert run {model}"));
        assert!(gpt(path, &command, PATIENCE).is_ok());
        enlarge(&path.join(model), tokens, positions);
    }
    fs::write(path.join("ids.bin"), [1u8, 0].repeat(6000)).expect("a file");
    folder
}

/// Commands that want more than a small limit has.
fn large() -> Vec<String> {
    let precisions = ["f32", "f16", "bf16", "int8", "int4"];
    let generate = precisions.map(|precision| {
        format!("generate --tokens 1 -n 1 --temp 0 -m wide --threads 1 --precision {precision}")
    });
    let mut commands = generate.to_vec();
    let others = [
        "eval --tokens 1,2,3 -m wide --threads 1",
        "logits --tokens 1 -m wide --threads 1",
        "convert wide new",
        "inspect -f ids.bin -m long --threads 1 --html page",
        "inspect -f ids.bin -m long --threads 1 --json",
        "eval --data ids.bin -m long --threads 1",
        "train --data data.txt --tokenizer gpt2 --n-layers 1 --n-heads 2 --emb-dim 8 --context-length 8 --batch-size 2 --eval-iters 1 --sample-tokens 2 --max-steps 2 --threads 1 -o run2",
        "train --data ids.bin --init-from wide --batch-size 1 --eval-iters 1 --sample-tokens 0 --max-steps 1 --threads 1 -o run2",
    ];
    commands.extend(others.map(str::to_owned));
    commands
}

/// Runs the commands with each limit in MB, which a line of the shell sets.
fn sweep(what: &str, commands: &[String], set: impl Fn(u64) -> String) {
    let folder = large_models();
    let (mut cases, mut refused, mut faults) = (0, 0, Vec::new());
    let sizes = [30, 60, 100, 200, 300, 400, 500, 700, 1000];
    let all = sizes
        .iter()
        .flat_map(|size| commands.iter().map(move |command| (*size, command)));
    for (size, command) in all.step_by(every(11)) {
        cases += 1;
        let ended = gpt_under(&set(size), folder.path(), &words(command), PATIENCE);
        refused += usize::from(!ended.is_ok());
        let may_abort = command.contains("--tokenizer gpt2") && ended.is_out_of_memory();
        if let (Some(fault), false) = (ended.fault(), may_abort) {
            faults.push(format!("{size} MB, gpt {command}: {fault}"));
        }
        let _ = fs::remove_dir_all(folder.path().join("run2"));
    }
    println!("{what}: {refused} of {cases} refused");
    report(what, cases, &faults);
}

#[test]
fn in_little_writable_memory_what_does_not_fit_is_refused() {
    sweep("writable memory", &large(), |size| {
        format!("ulimit -c 0; ulimit -d {}; exec", 1000 * size)
    });
}

/// A control group of our own, if we may make one.
struct Group(PathBuf);

impl Group {
    fn new() -> Option<Self> {
        let name = format!("gpt-torture-{}", std::process::id());
        let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
        let ours = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
        let root = Path::new("/sys/fs/cgroup");
        // In a container our own group may not be in sight.
        [root.join(ours), root.to_owned()]
            .iter()
            .find_map(|around| {
                let group = Self(around.join(&name));
                fs::create_dir(&group.0).ok()?;
                fs::write(group.limit(), "1000000000").ok()?;
                let enter = format!("echo $$ > {}/cgroup.procs", group.0.display());
                let entered = Command::new("sh").args(["-c", &enter]).output().ok()?;
                entered.status.success().then_some(group)
            })
    }

    fn limit(&self) -> PathBuf {
        self.0.join("memory.max")
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn in_a_small_control_group_what_does_not_fit_is_refused() {
    let Some(group) = Group::new() else {
        println!("skipped: no control group for memory may be made here");
        return;
    };
    let limit = group.limit();
    // What is written to a file system in memory is the group's memory, too.
    let mut commands = large();
    commands.retain(|command| !command.starts_with("convert"));
    sweep("control groups", &commands, |size| {
        let [limit, group] = [&limit, &group.0].map(|path| path.display());
        format!("echo {size}000000 > {limit} && echo $$ > {group}/cgroup.procs && exec")
    });
}

/// A name, and so many bytes of text, or some that are none.
fn texts(size: usize) -> Vec<(&'static str, Vec<u8>)> {
    let repeated = |text: &str| text.repeat(size / text.len()).into_bytes();
    let code_points: String = ('\u{1}'..=char::MAX).step_by(7).collect();
    let mut broken = repeated("Marta ");
    broken.push(0xff);
    vec![
        ("one word", repeated("a")),
        ("one number", repeated("7")),
        ("spaces", repeated(" ")),
        ("line ends", repeated("\n")),
        ("short words", repeated("ab, c ")),
        ("one letter with accents", repeated("\u{301}")),
        ("code points", repeated(&code_points)),
        ("NULs", vec![0; size]),
        ("families", repeated("👩‍👩‍👧‍👦")),
        ("nearly text", broken),
    ]
}

#[test]
fn texts_of_any_shape_are_taken_in_linear_time_and_memory_or_refused() {
    let folder = folder_with_a_run();
    let path = folder.path();
    let mut training = train("--data");
    training.retain(|word| word != "--vocab-size" && word != "61");
    let with = |flags: &str| [training.clone(), words(flags)].concat();
    for tokenizer in ["chars", "bpe:270"] {
        let flags = format!(
            "--data data.txt --tokenizer {tokenizer} --out-dir {}",
            &tokenizer[..3]
        );
        let ended = gpt(path, &with(&flags), PATIENCE);
        assert!(ended.is_ok(), "{}", ended.stderr);
    }
    let mut commands: Vec<_> = [
        "tokenize --count -f text",
        "tokenize --count",
        "eval --data text -m cha --threads 1",
        "eval --data text -m bpe --threads 1",
        "generate -f text -m bpe -n 1 --threads 1",
        "generate -i -m cha -n 1 --threads 1",
        "generate -i -m bpe -n 1 --threads 1",
        "inspect -f text -m bpe --threads 1",
        "logits - -m bpe --threads 1",
    ]
    .map(words)
    .into();
    // With GPT-2's tables nothing is trained in so little memory.
    for tokenizer in ["chars", "bpe:270"] {
        commands.push(with(&format!(
            "--data text --tokenizer {tokenizer} --out-dir new"
        )));
    }
    let (mut cases, mut faults) = (0, Vec::new());
    let sizes = if is_long() {
        &[1 << 20, 4 << 20][..]
    } else {
        &[1 << 20]
    };
    for size in sizes {
        for (number, (name, text)) in texts(*size).into_iter().enumerate() {
            fs::write(path.join("text"), text).expect("a file");
            for command in commands.iter().skip(number % every(4)).step_by(every(4)) {
                cases += 1;
                let shell = limits_for((size >> 20) as u32).replace("exec", "exec < text; exec");
                let ended = gpt_under(&shell, path, command, PATIENCE);
                // What is asked for is written as it is.
                let ended = Ended {
                    stdout: String::new(),
                    ..ended
                };
                if let (Some(fault), false) = (ended.fault(), ended.is_out_of_memory()) {
                    faults.push(format!(
                        "{size} bytes of {name}, {}: {fault}",
                        typed(command)
                    ));
                }
                let _ = fs::remove_dir_all(path.join("new"));
            }
        }
    }
    report("texts", cases, &faults);
}
