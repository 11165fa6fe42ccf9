//! From a folder on disk to the first token: what `gpt generate` does before it writes, beside
//! transformers and llama.cpp.

use std::hint::black_box;

use generate::{Decoder, greedy_id};
use gpt::GptModel;
use torch_rng::TorchRng;

use crate::inference::HEADS;
use crate::turns::{Bench, Ours};

/// What is read before the first token.
const PROMPT: [u32; 4] = [15496, 11, 314, 716];

/// The row, of GPT-2 124M with a tied head in f32, which the system has in its memory after the
/// first time.
pub(crate) fn measure(bench: &mut Bench) -> anyhow::Result<()> {
    let work = "load 124M and one token, tied";
    if !bench.wants(work) {
        return Ok(());
    }
    let folder = tempfile::tempdir()?;
    let [_, (_, config, peers)] = HEADS;
    let model = GptModel::new(config, &mut TorchRng::manual_seed(123))?;
    checkpoint::save_hugging_face(&model, folder.path(), checkpoint::Precision::F32, &[])?;
    drop(model);
    let ours = Ours {
        work: work.to_owned(),
        precision: "f32",
        step: Box::new(|| {
            let model = checkpoint::load_model(folder.path()).expect("a folder just written");
            let mut decoder = Decoder::new(&model);
            let prompt = decoder.start(&[&PROMPT[..]]);
            prompt.expect("the prompt suits the model");
            decoder.advance().expect("there is a prompt");
            black_box(greedy_id(&decoder.logits(0)).expect("the logits are finite"));
        }),
        floor: None,
        peers,
    };
    let command = format!("load {}", folder.path().display());
    bench.turns(&command, (1.0, "per s"), vec![ours]);
    Ok(())
}
