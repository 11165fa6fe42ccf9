//! Runs each example program of the library crates with small inputs and checks its output.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Shutdown, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::{env, fs};

use checkpoint::{Dtype, SpecialTokens, load_model, save_hugging_face};
use generate::{Decoder, DecoderWeights, GenerateOptions, TokenStream};
use gpt::{GptConfig, GptModel};
use tokenizer::Gpt2Tokenizer;
use torch_rng::TorchRng;

const TEXT: &str = "The bell rang, and the ferry came. The ferry went, and the bell was still. ";

/// Returns the number that directly follows the first occurrence of `word` in each line of `text`.
/// Lines without such a number are skipped.
fn numbers(text: &str, word: &str) -> Vec<f64> {
    let behind = text.lines().filter_map(|line| line.split_once(word));
    let number = |rest: &str| rest.split([',', ' ']).next()?.parse().ok();
    behind.filter_map(|(_, rest)| number(rest)).collect()
}

/// Tests the example `server` with four clients. The first client sends a prompt and disconnects.
/// Then the other three clients each send a prompt at the same time. Each of them must receive the
/// same text as if it were the only client with this prompt and seed.
fn continue_lines(server: &mut Child, model: &GptModel) {
    let mut line = String::new();
    let output = server.stdout.take().expect("it is piped");
    BufReader::new(output).read_line(&mut line).expect("a line");
    let address = line.trim().rsplit(' ').next().expect(&line).to_owned();
    let connect = |_| TcpStream::connect(&address).expect("the server accepts a connection");
    let [mut gone, clients @ ..] = [0, 1, 2, 3].map(connect);
    writeln!(gone, "The bell").expect("the server reads");
    drop(gone);
    let prompts = ["The bell", "The ferry came, and", "The"];
    for (mut client, prompt) in clients.iter().zip(prompts) {
        writeln!(client, "{prompt}").expect("the server reads");
        client.shutdown(Shutdown::Write).expect("it is open");
    }
    let texts = clients.map(|client| io::read_to_string(client).expect("text"));
    server.kill().expect("it is running");
    server.wait().expect("it has ended");

    let tokenizer = Gpt2Tokenizer::new();
    let weights = DecoderWeights::new(model, generate::Dtype::Int8).expect("weights");
    for ((seed, prompt), text) in (1..).zip(prompts).zip(texts) {
        let mut decoder = Decoder::new(&weights);
        decoder
            .start(&tokenizer.encode_ordinary(prompt))
            .expect("a prompt");
        let mut rng = TorchRng::manual_seed(seed);
        let options = GenerateOptions {
            stop_ids: vec![198, 628, 50256],
            ..GenerateOptions::default()
        };
        let ids = TokenStream::new(&mut decoder, options, &mut rng).expect("options");
        let ids: Vec<u32> = ids.map(|id| id.expect("a token")).collect();
        assert_eq!(text, tokenizer.decode_lossy(&ids).expect("its ids") + "\n");
    }
}

#[test]
fn each_example_does_what_it_says() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    // `cargo test --workspace` has already built the examples before it runs this test, so in that
    // case this command finishes quickly.
    let built = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["build", "--workspace", "--examples", "--quiet"])
        .args(["--locked", "--offline"])
        .current_dir(&root)
        .status();
    assert!(built.expect("cargo runs").success());
    let this = env::current_exe().expect("a test has a path");
    let target = this.ancestors().nth(3).expect("target/debug/deps/this");
    let ran = RefCell::new(BTreeSet::new());
    let run = |example: &str, arguments: &[&str]| {
        ran.borrow_mut().insert(format!("{example}.rs"));
        let mut program = Command::new(target.join("debug/examples").join(example));
        let output = program.args(arguments).output().expect("it was built");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{example}: {errors}");
        String::from_utf8(output.stdout).expect("text")
    };

    let folder = tempfile::tempdir().expect("a temporary folder");
    let paths = [
        "model",
        "text",
        "state",
        "tuned",
        "book",
        "again",
        "vocabulary",
    ];
    let paths = paths.map(|name| folder.path().join(name).display().to_string());
    let [model, text, state, tuned, book, again, vocabulary] = paths.each_ref().map(String::as_str);
    let config = GptConfig {
        context_length: 16,
        emb_dim: 16,
        n_heads: 2,
        n_layers: 1,
        ..GptConfig::GPT2_124M
    };
    let small = GptModel::new(config, &mut TorchRng::manual_seed(1)).expect("a model");
    let tokens = SpecialTokens::between(50256);
    save_hugging_face(&small, model, Dtype::Float32, &tokens).expect("it is saved");
    fs::write(text, TEXT.repeat(20)).expect("a file");

    let output = run("own_data", &[]);
    let errors = numbers(&output, "error ");
    assert!(errors[4] < errors[0] / 10.0, "{output}");

    let output = run("custom_sampler", &[]);
    let new = output
        .strip_prefix("Every effort moves you")
        .expect(&output);
    assert!(new.trim().len() > 12, "{output}");

    let output = run("speculative", &[]);
    assert!(output.contains("generates the same tokens"), "{output}");
    assert!(numbers(&output, "accepted guesses: ")[0] > 0.0, "{output}");

    let output = run("inspection", &[]);
    let losses = numbers(&output, " is ");
    assert!(
        output.contains("after 2 blocks, the state of the last token has the norm"),
        "{output}"
    );
    assert!(
        losses.len() == 5 && losses[1..].iter().any(|&loss| loss > 2.0 * losses[0]),
        "{output}"
    );

    let output = run("pipeline", &[]);
    assert!(
        output.contains("the same windows as the first run; the first window is ["),
        "{output}"
    );

    let output = run("classifier", &[model]);
    let losses = numbers(&output, "loss ");
    assert!(losses[29] < losses[0], "{output}");
    assert!(numbers(&output, "accuracy ")[0] == 1.0, "{output}");

    let output = run("own_loop", &[text, state]);
    let losses = numbers(&output, "loss ");
    assert!(losses[2] < losses[0] - 0.5, "{output}");
    assert!(
        output.lines().any(|line| line.starts_with("The bell")),
        "{output}"
    );

    let resumed = run("own_loop", &[text, state]); // no steps are left to train
    assert_eq!(resumed.lines().last(), output.lines().last());

    let output = run("own_layer", &[]);
    let losses = numbers(&output, "loss ");
    assert!(losses.len() == 2 && losses[0] < 1.0, "{output}");

    let output = run("fine_tune", &[model, text, tuned]);
    let losses = numbers(&output, "loss ");
    assert!(
        losses.len() > 5 && losses.last() < losses.first(),
        "{output}"
    );
    let before = load_model(model).expect("a model");
    assert!(load_model(tuned).expect("a model") != before);

    run("copy_model", &[model, book, "book"]);
    run("copy_model", &[book, again, "f32"]);
    assert!(load_model(again).expect("a model") == before);

    let output = run("precision_costs", &[model, text]);
    let losses = numbers(&output, "loss ");
    assert_eq!(losses.len(), generate::Dtype::ALL.len(), "{output}");
    assert!(
        losses.iter().all(|loss| (loss - losses[0]).abs() < 0.1),
        "{output}"
    );

    ran.borrow_mut().insert("server.rs".to_owned());
    let server = Command::new(target.join("debug/examples/server"))
        .args([model, "127.0.0.1:0"])
        .stdout(Stdio::piped())
        .spawn();
    continue_lines(&mut server.expect("it was built"), &small);

    let output = run("write_tokenizer", &["bpe:270", vocabulary, text]);
    assert!(output.starts_with("270 tokens"), "{output}");
    assert!(Path::new(vocabulary).join("tokenizer.json").exists());

    let output = run("tokenizer_service", &[]);
    let [encoded, id, decoded, unknown] = output.lines().collect::<Vec<_>>()[..] else {
        panic!("four answers: {output}");
    };
    assert!(encoded.starts_with("[(263, 0..8), "), "{output}");
    assert_eq!(id, "Some(263)");
    assert!(decoded.starts_with("\"<|user|>"), "{output}");
    assert!(unknown.starts_with("error: "), "{output}");

    // Check that this test has run every example of the library crates. The example `pack` of the
    // crate `live` isn't included, because it is a step of an xtask command, and the tests of
    // `live` check its output.
    let groups = ["crates", "crates/engine", "crates/files"];
    let crates = groups.map(|group| fs::read_dir(root.join(group)).expect("the crates"));
    let crates = crates.into_iter().flatten();
    let examples = crates.filter_map(|of| fs::read_dir(of.ok()?.path().join("examples")).ok());
    let names = examples
        .flatten()
        .map(|file| file.expect("an entry").file_name());
    let names: BTreeSet<String> = names.map(|name| name.display().to_string()).collect();
    assert_eq!(*ran.borrow(), names);
}
