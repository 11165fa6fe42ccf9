//! Helper functions for the tests. They create small models, write model folders that a test can
//! damage, and split safetensors files into header and data.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use checkpoint::{CheckpointError, Dtype, SpecialTokens};
use checkpoint::{load_model, save_book, save_hugging_face};
use gpt::{DropRates, GptConfig, GptModel};
use ndarray::ArrayD;
use safetensors::SafeTensors;
use tempfile::TempDir;
use tensor_ops::Parameters;
use torch_rng::TorchRng;

pub(crate) const SMALL: GptConfig = GptConfig {
    vocab_size: 11,
    context_length: 6,
    emb_dim: 8,
    n_heads: 2,
    n_layers: 2,
    drop_rates: DropRates {
        emb: 0.1,
        attention: 0.3,
        shortcut: 0.123456789012345,
    },
    qkv_bias: true,
    tied: true,
    hidden_dim: None,
    norm_eps: 1e-5,
    ..GptConfig::GPT2_124M
};

pub(crate) const UNTIED: GptConfig = GptConfig {
    tied: false,
    ..SMALL
};

/// Returns a model with the given configuration. Random noise has been added to its initial
/// parameters, so no parameter has its initial value.
pub(crate) fn small_model(config: GptConfig) -> GptModel {
    let mut rng = TorchRng::manual_seed(1);
    let mut model = GptModel::new(config, &mut rng).expect("a valid configuration");
    model.visit_mut("", &mut |_, mut view| {
        let noise = rng.randn(view.len());
        view.iter_mut()
            .zip(noise)
            .for_each(|(x, noise)| *x += 0.1 * noise);
    });
    model
}

/// Saves a model in the Hugging Face layout, without special tokens.
pub(crate) fn save_as(
    model: &GptModel,
    folder: impl AsRef<Path>,
    precision: Dtype,
) -> Result<(), CheckpointError> {
    save_hugging_face(model, folder, precision, &SpecialTokens::default())
}

/// Reads the `f32` tensors of a file with the crate `safetensors`, the reference implementation.
pub(crate) fn tensors_of(path: &Path) -> BTreeMap<String, ArrayD<f32>> {
    let bytes = fs::read(path).unwrap();
    let tensors = SafeTensors::deserialize(&bytes).unwrap().tensors();
    let tensors = tensors.into_iter().map(|(name, tensor)| {
        let (numbers, rest) = tensor.data().as_chunks();
        assert!(rest.is_empty());
        let numbers = numbers.iter().map(|bytes| f32::from_le_bytes(*bytes));
        let array = ArrayD::from_shape_vec(tensor.shape(), numbers.collect());
        (name, array.unwrap())
    });
    tensors.collect()
}

/// The names and contents of the files in a model folder. Saving a model is slow because its files
/// are synced to disk. Therefore, each model is saved only once, and each test gets a copy of its
/// files.
type Files = Vec<(OsString, Vec<u8>)>;

fn files_of(save: impl FnOnce(&Path) -> Result<(), CheckpointError>) -> Files {
    let folder = tempfile::tempdir().unwrap();
    save(folder.path()).unwrap();
    fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.file_name(), fs::read(entry.path()).unwrap()))
        .collect()
}

/// A valid model folder, which a test then damages.
pub(crate) struct Broken(TempDir);

impl Broken {
    pub(crate) fn hugging_face() -> Self {
        static GOOD: LazyLock<Files> = LazyLock::new(|| {
            files_of(|folder| save_as(&small_model(SMALL), folder, Dtype::Float32))
        });
        Self::of(&GOOD)
    }

    pub(crate) fn book() -> Self {
        static GOOD: LazyLock<Files> =
            LazyLock::new(|| files_of(|folder| save_book(&small_model(SMALL), folder)));
        Self::of(&GOOD)
    }

    fn of(files: &Files) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (name, bytes) in files {
            fs::write(folder.path().join(name), bytes).unwrap();
        }
        Self(folder)
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn config(&self) -> PathBuf {
        self.path().join("config.json")
    }

    pub(crate) fn weights(&self) -> PathBuf {
        self.path().join("model.safetensors")
    }

    /// Damages the weight file of this test model by replacing its contents with the result of
    /// `change`.
    pub(crate) fn change_weights(&self, change: impl FnOnce(Vec<u8>) -> Vec<u8>) -> &Self {
        let bytes = fs::read(self.weights()).unwrap();
        fs::write(self.weights(), change(bytes)).unwrap();
        self
    }

    /// Replaces the header of the weight file with the result of `change`, and updates the length
    /// of the header.
    pub(crate) fn change_header(&self, change: impl FnOnce(String) -> String) -> &Self {
        self.change_weights(|bytes| {
            let (header, data) = split(&bytes);
            join(change(header.to_owned()).as_bytes(), data)
        })
    }

    /// Replaces the text of config.json with the result of `change`.
    pub(crate) fn change_config(&self, change: impl FnOnce(String) -> String) -> &Self {
        let text = fs::read_to_string(self.config()).unwrap();
        let changed = change(text.clone());
        assert_ne!(text, changed, "the change changes nothing");
        fs::write(self.config(), changed).unwrap();
        self
    }

    /// Checks that the model in this folder can't be loaded. The error message must be a single
    /// line that contains `file` and all of `parts`.
    pub(crate) fn is_refused(&self, file: &str, parts: &[&str]) -> CheckpointError {
        let error = match load_model(self.path()) {
            Ok(_) => panic!(
                "loading the model should have failed with a message that contains {parts:?}, \
                but it succeeded"
            ),
            Err(error) => error,
        };
        let cause = std::error::Error::source(&error).map_or(String::new(), ToString::to_string);
        let message = format!("{error}: {cause}");
        assert!(message.contains(file), "{message}: names no {file}");
        for part in parts {
            assert!(message.contains(part), "{message}: has no {part:?}");
        }
        assert!(!message.contains('\n'), "{message}: more than a line");
        assert!(message.len() < 700, "{message}: very long");
        error
    }
}

/// Splits the contents of a safetensors file into the header and the data.
pub(crate) fn split(bytes: &[u8]) -> (&str, &[u8]) {
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let (header, data) = bytes[8..].split_at(length);
    (std::str::from_utf8(header).unwrap(), data)
}

/// Returns the contents of a safetensors file with the given header and data.
pub(crate) fn join(header: &[u8], data: &[u8]) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes(), header, data].concat()
}

/// Applies `change` to the weight file of a model in Hugging Face's layout, and checks that the
/// model can't be loaded. The error message must contain all of `parts`.
pub(crate) fn weights_refused(change: impl FnOnce(Vec<u8>) -> Vec<u8>, parts: &[&str]) {
    let folder = Broken::hugging_face();
    folder.change_weights(change);
    folder.is_refused("model.safetensors", parts);
}

/// Like [`weights_refused`], but `change` receives only the header of the weight file, as text.
pub(crate) fn header_refused(change: impl FnOnce(String) -> String, parts: &[&str]) {
    let folder = Broken::hugging_face();
    folder.change_header(|header| {
        let changed = change(header.clone());
        assert_ne!(header, changed, "the change changes nothing");
        changed
    });
    folder.is_refused("model.safetensors", parts);
}
