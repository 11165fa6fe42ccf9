//! The book's training run (section 5.2) as a whole, ours and PyTorch's, once each: epochs, evaluations and samples.

use std::path::Path;

use dataloader::{Corpus, train_validation_split};
use tokenizer::{AllowedSpecial, Gpt2Tokenizer};

use super::floors::time;
use super::peer::Name;
use super::report::Row;
use super::turns::Bench;
use crate::verify::{TrainingRun, book_text};

/// The row, if the book's text is at hand.
pub(crate) fn measure(bench: &mut Bench, text: &Path, epochs: u64) -> anyhow::Result<()> {
    let name = format!("{epochs} epochs of the book, untied");
    if !bench.wants(&name) {
        return Ok(());
    }
    let text = book_text::read(text)?;
    let tokenizer = Gpt2Tokenizer::new();
    let run = TrainingRun::new(Some(epochs), None)?;
    let mut trained = Ok(());
    let ours = time(|| trained = run.run(&text, &tokenizer).map(drop));
    trained?;

    let folder = tempfile::tempdir()?;
    let (train, val) = train_validation_split(&text, 0.9)?;
    for (name, part) in [("train.bin", train), ("val.bin", val)] {
        let corpus = Corpus::from_text(part, &tokenizer, AllowedSpecial::None)?;
        corpus.write_u16_file(folder.path().join(name))?;
    }
    let work = format!("epochs {epochs} {}", folder.path().display());
    let theirs = bench
        .peers
        .get(Name::Pytorch)
        .and_then(|peer| peer.seconds(&work).ok())
        .map(|seconds| (Name::Pytorch, epochs as f64 * 60.0 / seconds));
    let row = Row::new(
        (name, "f32", "epochs/min"),
        epochs as f64 * 60.0 / ours,
        theirs.into_iter().collect(),
        None,
    );
    row.print();
    bench.rows.push(row);
    Ok(())
}
