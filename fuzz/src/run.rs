//! A small training run as files in memory, so that targets can damage the files and write them
//! again, and the check that every error message must pass.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use dataloader::{Corpus, DataLoader, DataLoaderConfig};
use gpt::{GptConfig, GptModel};
use torch_rng::TorchRng;
use train::{RunFolder, TrainConfig, Trainer};

/// The smallest possible model, to make training fast.
pub const MODEL: GptConfig = GptConfig {
    vocab_size: 3,
    context_length: 2,
    emb_dim: 2,
    n_heads: 1,
    n_layers: 1,
    tied: true,
    ..GptConfig::GPT2_124M
};

/// The content of each file, by its path relative to the run's folder.
pub type Files = BTreeMap<String, Vec<u8>>;

/// Settings for training `steps` steps, saving a checkpoint after each, and keeping all of them.
pub fn config(steps: u64) -> TrainConfig {
    TrainConfig {
        max_steps: steps,
        save_every: Some(1),
        keep: steps as usize,
        ..TrainConfig::default()
    }
}

/// Returns a loader with three batches of one window each.
pub fn loader() -> DataLoader {
    let corpus = Corpus::from_ids(vec![0, 1, 2, 0, 1, 2, 0]);
    let windows = DataLoaderConfig {
        batch_size: 1,
        max_length: 2,
        stride: 2,
        ..DataLoaderConfig::default()
    };
    DataLoader::new(&corpus, windows).expect("it has a batch")
}

/// Trains for `steps` steps in `folder` and returns the files of all checkpoints.
pub fn train_and_read_files(folder: &Path, steps: u64) -> Files {
    let run = RunFolder::open(folder).expect("a new run");
    let mut rng = TorchRng::manual_seed(1);
    let model = GptModel::new(MODEL, &mut rng).expect("a valid configuration");
    let mut trainer = Trainer::new(config(steps), model, loader(), None, rng).expect("a run");
    trainer
        .run(Some(&run), &mut |_| ControlFlow::Continue(()))
        .expect("its steps");
    let mut files = Files::new();
    let mut read = |name: String| {
        let bytes = fs::read(run.path().join(&name)).expect("a file of the run");
        files.insert(name, bytes);
    };
    for step in 1..=steps {
        let checkpoint = format!("checkpoints/step-{step:08}");
        for entry in fs::read_dir(run.path().join(&checkpoint)).expect("a checkpoint") {
            let name = entry.expect("a file").file_name();
            read(format!("{checkpoint}/{}", name.to_str().expect("text")));
        }
    }
    files
}

/// Replaces `folder` by a folder that contains exactly these files.
pub fn write(folder: &Path, files: &Files) {
    let _ = fs::remove_dir_all(folder);
    for (name, bytes) in files {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, bytes).expect("written");
    }
}

/// Returns the value, or `None` if the operation failed.
///
/// # Panics
///
/// Panics if the error message is longer than a line or than 4,000 bytes.
pub fn accepted<T, E: Display>(done: Result<T, E>) -> Option<T> {
    done.inspect_err(|error| {
        let message = error.to_string();
        assert!(!message.contains('\n') && message.len() < 4000, "{message}");
    })
    .ok()
}
