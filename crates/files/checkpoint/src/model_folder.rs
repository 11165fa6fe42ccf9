//! Opens a model folder and checks its files before the weights are read.
//!
//! The configuration says whether the output layer is tied to the token embedding, and whether
//! query, key and value have biases. If the tensors in the weight files contradict the
//! configuration in one of these two points, the model is loaded as the tensors require.

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

/// A model folder whose files have been opened and checked against each other. The weights aren't
/// read until [`load`](Self::load) or [`read_rows`](Self::read_rows) is called.
///
/// The files stay open, so the model can be loaded even if they have been deleted in the meantime.
/// On Windows, open files can't be deleted.
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
    /// Location of each of the model's parameters in the weight files. The keys are the names of
    /// the parameters, as returned by [`GptConfig::parameters`].
    places: HashMap<String, TensorSlice>,
    query: QueryFactor,
    weights: Weights,
    note: Option<String>,
}

impl ModelFolder {
    /// Opens the model at `path`, which can be a folder in Hugging Face's or the book's layout, its
    /// config.json, its weight file, or the index of its shards.
    ///
    /// # Errors
    ///
    /// Returns an error if a file is missing, damaged or not a safetensors file; if the
    /// configuration is invalid or isn't supported; if a tensor is missing or has the wrong shape
    /// or type; or if a file in the book's layout contains a tensor that the model doesn't have.
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

    /// Returns the model's configuration. If config.json and the weights disagree about `tied` or
    /// `qkv_bias`, the returned values match the weights.
    pub fn config(&self) -> GptConfig {
        self.config
    }

    /// Returns a message of one line for the user if the files contain tensors that are ignored
    /// because they don't belong to the model, or if the files lack biases, which are then zero.
    /// Otherwise, returns `None`.
    pub fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }

    /// Replaces the dropout rates from config.json. The loaded model will have the new rates.
    #[must_use = "the folder itself is given back"]
    pub fn with_drop_rates(mut self, rates: DropRates) -> Self {
        self.config.drop_rates = rates;
        self
    }

    /// Loads the model. This needs only slightly more memory than the model itself.
    ///
    /// # Errors
    ///
    /// Returns an error if a file can't be read or if a weight isn't finite.
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
        // The parameters are read by several threads. If some of them can't be read, the error of
        // the first of these parameters is returned, so the error doesn't depend on which thread
        // finished first.
        read.into_iter().collect::<Result<(), _>>()?;
        Ok(model)
    }

    /// Reads some rows of the parameter `name` into `out`, in row-major order.
    /// [`GptConfig::parameters`] returns the names of all parameters.
    ///
    /// A program that stores the weights in another format, such as int8, can use this method to
    /// convert them piece by piece. Then the `f32` weights are never all in memory at the same
    /// time.
    ///
    /// # Errors
    ///
    /// Returns an error if a file can't be read or if a weight isn't finite.
    ///
    /// # Panics
    ///
    /// Panics if there is no parameter with this name, if it doesn't have these rows, or if the
    /// length of `out` differs from the number of elements in these rows.
    pub fn read_rows(
        &self,
        name: &str,
        rows: Range<usize>,
        out: &mut [f32],
    ) -> Result<(), CheckpointError> {
        let place = self.places.get(name);
        let place =
            place.unwrap_or_else(|| panic!("read_rows: the model has no parameter named {name}"));
        let (all, width) = (place.rows, place.width);
        assert!(
            rows.start <= rows.end && rows.end <= all && out.len() == rows.len() * width,
            "read_rows: rows {rows:?} of {name}, whose shape is ({all}, {width}), don't fit in {} numbers",
            out.len()
        );
        let Some(tensor) = place.tensor else {
            out.fill(0.0);
            return Ok(());
        };
        let (file, entry) = self.weights.at(tensor);
        // The tensor in the file can contain several parameters, such as the weights of query, key
        // and value. The requested rows of this parameter are consecutive rows of the tensor or, if
        // the tensor is transposed, consecutive columns.
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

/// Loads the model at `path`, by calling [`ModelFolder::open`] and [`ModelFolder::load`].
///
/// If the configuration says that the model is tied, but the weight file contains an output layer
/// that differs from the token embedding, the loaded model has a separate output layer.
/// transformers 5 behaves in the same way.
///
/// ```no_run
/// let model = checkpoint::load_model("runs/0001/checkpoints/step-00000450")?;
/// println!("{} layers", model.config().n_layers);
/// # Ok::<(), checkpoint::CheckpointError>(())
/// ```
///
/// # Errors
///
/// Returns the errors of [`ModelFolder::open`] and [`ModelFolder::load`].
pub fn load_model(path: impl AsRef<Path>) -> Result<GptModel, CheckpointError> {
    ModelFolder::open(path)?.load()
}

/// Reads the configuration of the model at `path`, which can be a folder, its config.json or its
/// weight file. The weights aren't read and don't have to exist.
///
/// If the weights contradict `tied` or `qkv_bias` in config.json, this function still returns the
/// values from config.json. [`ModelFolder::config`] returns the values that match the weights.
///
/// # Errors
///
/// Returns an error if config.json is missing or invalid, or if it contains a setting that isn't
/// supported.
pub fn load_config(path: impl AsRef<Path>) -> Result<GptConfig, CheckpointError> {
    Ok(config::read(&config_of(path.as_ref())?)?.1)
}
