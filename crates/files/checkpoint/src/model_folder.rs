//! A model folder, read once: first its description, without weights, then its weights.
//!
//! The configuration describes the expected tensors, the file contains the actual ones. Where they
//! may differ (whether the output head is tied to the token embedding, and whether query, key and
//! value have biases), the tensors decide.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;

use gpt::{DropRates, GptConfig, GptModel};
use ndarray::{ArrayViewMut2, Axis};
use rayon::prelude::*;
use tensor_ops::Parameters;

use crate::config::{self, QueryFactor};
use crate::error::{CheckpointError, invalid};
use crate::model_files::{config_of, weights_of};
use crate::weights::{TensorSlice, Weights, open_files};

/// A model's files, found, open and checked against each other; no weight has been read.
///
/// Its files stay open, so that it can be loaded even if they are deleted meanwhile (on Windows
/// they can't be).
///
/// ```
/// use checkpoint::{ModelFolder, save_book};
/// use checkpoint::gpt::{GptConfig, GptModel, torch_rng::TorchRng};
///
/// let config = GptConfig { vocab_size: 20, n_layers: 1, ..GptConfig::GPT2_124M };
/// let model = GptModel::new(config, &mut TorchRng::manual_seed(123))?;
/// let path = std::env::temp_dir().join(format!("gpt-model-folder-{}", std::process::id()));
/// save_book(&model, &path)?;
/// let folder = ModelFolder::open(&path)?;
/// assert_eq!(folder.config().size()?.total(), 7_904_256);
/// assert_eq!(folder.load()?, model);
/// std::fs::remove_dir_all(&path)?;
/// Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct ModelFolder {
    config: GptConfig,
    /// The parameters' places by their names.
    places: HashMap<String, TensorSlice>,
    query: QueryFactor,
    weights: Weights,
    note: Option<String>,
}

impl ModelFolder {
    /// Opens the model at `path`: a folder (of Hugging Face's layout or the book's), its
    /// config.json, its weights, or the index of its shards.
    ///
    /// # Errors
    /// If a file is missing, damaged or no safetensors file; if the configuration describes no
    /// model, or one that this crate would compute wrongly; if a tensor is missing, or of another
    /// shape or type; if a file of the book's layout has a tensor that the model doesn't have.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, CheckpointError> {
        let path = path.as_ref();
        let config_file = config_of(path)?;
        let weights_file = weights_of(path)?;
        let files = open_files(&weights_file)?;
        let (layout, mut config, query) = config::read(&config_file)?;
        let mut weights = Weights::new(weights_file, files, layout)?;
        config.tied = weights.settle_tied(layout, &config)?;
        let places = weights.places(layout, &config)?;
        config.qkv_bias = weights.settle_qkv_bias(layout, &config, &places)?;
        Ok(Self {
            config,
            query,
            note: weights.unread(layout, &places)?,
            places,
            weights,
        })
    }

    /// The model's configuration; its weights determine whether it is tied, and whether it has
    /// biases on query, key and value.
    pub fn config(&self) -> &GptConfig {
        &self.config
    }

    /// A line for the user about tensors that the model doesn't have, which are not read, or biases
    /// that the files lack, which are zeros.
    pub fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }

    /// Returns the same model, to be trained with other dropout.
    #[must_use = "the folder itself is given back"]
    pub fn with_drop_rates(mut self, rates: DropRates) -> Self {
        self.config.drop_rates = rates;
        self
    }

    /// Loads the weights: there is the model in memory, and little more.
    ///
    /// # Errors
    /// If the operating system refuses, or a weight is not finite.
    pub fn load(&self) -> Result<GptModel, CheckpointError> {
        let mut model =
            GptModel::zeros(self.config).map_err(|e| invalid(&self.weights.path, e.to_string()))?;
        let parameters = model.named_parameters_mut();
        let read = parameters.into_par_iter().map(|(name, mut parameter)| {
            let rows = 0..parameter.len_of(Axis(0));
            let numbers = parameter.as_slice_mut();
            self.read_rows(&name, rows, numbers.expect("parameters are row-major"))
        });
        let read: Vec<Result<(), CheckpointError>> = read.collect();
        // The first error in the file's order, on any number of threads.
        read.into_iter().collect::<Result<(), _>>()?;
        Ok(model)
    }

    /// Reads some rows of a parameter, by its name in [`GptConfig::parameters`], row after row: for
    /// programs that keep the weights in another form, like a decoder in fewer bits, without ever
    /// holding all of them in f32.
    ///
    /// # Errors
    /// If the operating system refuses, or a weight is not finite.
    ///
    /// # Panics
    /// If there is no such parameter, or it doesn't have these rows, or `out` has another length.
    pub fn read_rows(
        &self,
        name: &str,
        rows: Range<usize>,
        out: &mut [f32],
    ) -> Result<(), CheckpointError> {
        let place = self.places.get(name);
        let place = place.unwrap_or_else(|| panic!("read_rows: no parameter {name}"));
        let (all, width) = (place.rows, place.width);
        assert!(
            rows.start <= rows.end && rows.end <= all && out.len() == rows.len() * width,
            "read_rows: rows {rows:?} of {name} ({all}, {width}) into {} numbers",
            out.len()
        );
        let Some(tensor) = place.tensor else {
            out.fill(0.0);
            return Ok(());
        };
        let (file, entry) = self.weights.at(tensor);
        // Its rows are some of the tensor's rows, or columns.
        let first = place.first + rows.start;
        match place.transposed {
            true => {
                let rows = ArrayViewMut2::from_shape((rows.len(), width), &mut *out);
                file.read_columns(entry, first, rows.expect("as many numbers"))?;
            }
            false => file.read(entry, first * width, out)?,
        }
        let factor = self.query.of_parameter(name);
        if factor != 1.0 {
            out.iter_mut().for_each(|x| *x *= factor);
        }
        Ok(())
    }
}

/// Loads the model at `path`: [`ModelFolder::open`] and [`ModelFolder::load`].
///
/// A Hugging Face model whose configuration is tied, but whose file has a head with other numbers,
/// is loaded with that head, like in transformers 5.
///
/// ```no_run
/// let model = checkpoint::load_model("runs/0001/checkpoints/step-00000450")?;
/// println!("{} layers", model.config().n_layers);
/// # Ok::<(), checkpoint::CheckpointError>(())
/// ```
///
/// # Errors
/// As those two.
pub fn load_model(path: impl AsRef<Path>) -> Result<GptModel, CheckpointError> {
    ModelFolder::open(path)?.load()
}

/// Reads the configuration of the model at `path`: a folder, its config.json or its weights, which
/// need not be there.
///
/// Whether a model is `tied` or has `qkv_bias` can depend on its weights; [`ModelFolder::config`]
/// takes them into account.
///
/// # Errors
/// If config.json is missing, doesn't describe a model, or describes one with unsupported
/// arithmetic.
pub fn load_config(path: impl AsRef<Path>) -> Result<GptConfig, CheckpointError> {
    Ok(config::read(&config_of(path.as_ref())?)?.1)
}
