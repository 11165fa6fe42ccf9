//! The book's training run (section 5.2) as a whole, ours and PyTorch's, once each: epochs, evaluations and samples.

use std::hint::black_box;
use std::path::Path;

use anyhow::Context;
use dataloader::{Corpus, DataLoaderConfig, create_dataloader_v1, train_validation_split};
use generate::generate_text_simple;
use gpt::{GptConfig, GptModel};
use tokenizer::{Gpt2Tokenizer, text_to_token_ids};
use torch_rng::TorchRng;
use train::{AdamW, AdamWConfig, Event, SimpleTraining, train_model_simple};

use crate::clock::time;
use crate::peer::PYTORCH;
use crate::report::Row;
use crate::turns::Bench;

const CONTEXT: usize = 256;

/// The row, if the book's text is at hand.
pub(crate) fn measure(bench: &mut Bench, text: &Path, epochs: u64) -> anyhow::Result<()> {
    let name = format!("{epochs} epochs of the book, untied");
    if !bench.wants(&name) {
        return Ok(());
    }
    let text = std::fs::read_to_string(text)
        .with_context(|| format!("the book's text {}", text.display()))?;
    let tokenizer = Gpt2Tokenizer::new();
    let mut trained = Ok(());
    let ours = time(|| trained = train_as_the_book(&text, &tokenizer, epochs));
    trained?;

    let folder = tempfile::tempdir()?;
    let (train, val) = train_validation_split(&text, 0.9)?;
    for (name, part) in [("train.bin", train), ("val.bin", val)] {
        let corpus = Corpus::from_text(part, &tokenizer)?;
        corpus.write_u16_file(folder.path().join(name))?;
    }
    let work = format!("epochs {epochs} {}", folder.path().display());
    let theirs = bench
        .peers
        .get(PYTORCH)
        .and_then(|peer| peer.seconds(&work).ok())
        .map(|seconds| (PYTORCH, epochs as f64 * 60.0 / seconds));
    bench.add(Row::new(
        (name, "f32", "epochs/min"),
        epochs as f64 * 60.0 / ours,
        theirs.as_slice(),
        None,
    ));
    Ok(())
}

/// Listing 5.3 and the cells before it: each fifth step is evaluated, each epoch ends with a sample.
fn train_as_the_book(text: &str, tokenizer: &Gpt2Tokenizer, epochs: u64) -> anyhow::Result<()> {
    let (train, val) = train_validation_split(text, 0.9)?;
    let config = DataLoaderConfig {
        batch_size: 2,
        max_length: CONTEXT,
        stride: CONTEXT,
        shuffle: true,
        drop_last: true,
    };
    let train = create_dataloader_v1(train, tokenizer, config)?;
    let config = DataLoaderConfig {
        shuffle: false,
        drop_last: false,
        ..config
    };
    let val = create_dataloader_v1(val, tokenizer, config)?;
    let mut rng = TorchRng::manual_seed(123);
    let config = GptConfig {
        context_length: CONTEXT,
        ..GptConfig::GPT2_124M
    };
    let mut model = GptModel::new(config, &mut rng)?;
    let mut optimizer = AdamW::new(AdamWConfig::default(), &model)?;
    let training = SimpleTraining {
        num_epochs: epochs,
        ..SimpleTraining::default()
    };
    let idx = text_to_token_ids("Every effort moves you", tokenizer);
    let loaders = (&train, &val);
    let mut sampled = Ok(());
    let on_event = |event: Event<'_>| {
        if let Event::SampleDue { model, .. } = event {
            let sample = generate_text_simple(model, idx.clone(), 50, CONTEXT);
            sampled = sample.map(|ids| drop(black_box(ids)));
        }
    };
    train_model_simple(
        &mut model,
        &mut optimizer,
        loaders,
        training,
        &mut rng,
        on_event,
    )?;
    sampled?;
    Ok(())
}
