//! A model folder, read once: what it is, before any weight is; and then its weights.
//!
//! The configuration says what the tensors should be, the tensors say what they are; where they may
//! differ (whether the output head is tied to the token embedding), the tensors are right.

use std::collections::HashMap;
use std::path::Path;

use gpt::{DropRates, GptConfig, GptModel};
use ndarray::ArrayViewMutD;
use rayon::prelude::*;
use tensor_ops::Parameters;

use crate::config::{self, QueryFactor};
use crate::error::{CheckpointError, invalid};
use crate::layout::{FileTensor, Layout};
use crate::places::{config_of, is_index, weights_of};
use crate::precision::Precision;
use crate::tensor_file::TensorFile;
use crate::weights::Weights;

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
    layout: Layout,
    config: GptConfig,
    query: QueryFactor,
    weights: Weights,
    notes: Vec<String>,
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
        if !is_index(&weights_file) {
            // So that a GGUF file is called one, whatever lies beside it.
            TensorFile::open(&weights_file)?;
        }
        let (layout, mut config, query) = config::read(&config_file)?;
        let mut weights = Weights::open(&weights_file, layout)?;
        let mut notes: Vec<String> = weights.note_of_prefixes().into_iter().collect();
        config.tied = weights.settle_tied(layout, &config)?;
        notes.extend(weights.check(layout, &config)?);
        Ok(Self {
            layout,
            config,
            query,
            weights,
            notes,
        })
    }

    /// The model's configuration; whether it is tied, its weights have said.
    pub fn config(&self) -> &GptConfig {
        &self.config
    }

    /// The precision of all weights in the files; none if they differ, or are F64.
    pub fn precision(&self) -> Option<Precision> {
        self.weights.precision()
    }

    /// What a reader should know: tensors that were left alone, prefixes of names that were. One
    /// line each.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The same model, to be trained with other dropout.
    #[must_use = "the folder itself is given back"]
    pub fn with_drop_rates(mut self, rates: DropRates) -> Self {
        self.config.drop_rates = rates;
        self
    }

    /// Loads the weights: there is the model in memory, and at most one tensor more.
    ///
    /// # Errors
    /// If the operating system refuses, or a weight is not finite.
    pub fn load(&self) -> Result<GptModel, CheckpointError> {
        let mut model = GptModel::zeros(self.config)
            .map_err(|e| invalid(self.weights.path(), e.to_string()))?;
        let mut parameters: HashMap<String, ArrayViewMutD<'_, f32>> =
            model.named_parameters_mut().into_iter().collect();
        let mut buffer = Vec::new();
        for tensor in self.layout.tensors(&self.config) {
            let parts: Vec<_> = tensor
                .parameters
                .iter()
                .map(|name| {
                    parameters
                        .remove(name)
                        .expect("the layouts' test: each parameter is in one tensor")
                })
                .collect();
            self.read_tensor(&tensor, parts, &mut buffer)?;
        }
        drop(parameters);
        Ok(model)
    }

    /// Reads one tensor into the parameters it holds.
    fn read_tensor(
        &self,
        tensor: &FileTensor,
        mut parts: Vec<ArrayViewMutD<'_, f32>>,
        buffer: &mut Vec<f32>,
    ) -> Result<(), CheckpointError> {
        let (file, entry) = self
            .weights
            .get(&tensor.name)
            .expect("the check found every tensor");
        let mut slices: Vec<&mut [f32]> = parts
            .iter_mut()
            .map(|part| part.as_slice_mut().expect("parameters are row-major"))
            .collect();
        if let ([part], false) = (&mut slices[..], tensor.transposed) {
            return file.read(entry, part);
        }
        buffer.resize(buffer.len().max(entry.len()), 0.0);
        let whole = &mut buffer[..entry.len()];
        file.read(entry, whole)?;
        let n = slices.len();
        for (i, part) in slices.into_iter().enumerate() {
            if tensor.transposed {
                let columns = tensor.shape[1];
                transpose_columns(whole, columns, i * columns / n, part);
            } else {
                part.copy_from_slice(&whole[i * part.len()..(i + 1) * part.len()]);
            }
            let factor = self.query.of_parameter(&tensor.parameters[i]);
            if factor != 1.0 {
                part.iter_mut().for_each(|x| *x *= factor);
            }
        }
        Ok(())
    }
}

/// Loads the model at `path`: [`ModelFolder::open`] and [`ModelFolder::load`].
///
/// A Hugging Face model that is said to be tied, but whose file has a head with other numbers, is
/// loaded with that head, as transformers 5 does.
///
/// # Errors
/// As those two.
pub fn load_model(path: impl AsRef<Path>) -> Result<GptModel, CheckpointError> {
    ModelFolder::open(path)?.load()
}

/// Reads the configuration of the model at `path`: a folder, its config.json or its weights, which
/// need not be there.
///
/// Whether a model is `tied` can depend on its weights: [`ModelFolder::config`] knows.
///
/// # Errors
/// If there is no config.json, or it describes no model, or one that this crate would compute
/// wrongly.
pub fn load_config(path: impl AsRef<Path>) -> Result<GptConfig, CheckpointError> {
    Ok(config::read(&config_of(path.as_ref())?)?.1)
}

/// `out[o][i] = whole[i][first + o]`: (rows, columns) -> (some of the columns, rows).
fn transpose_columns(whole: &[f32], columns: usize, first: usize, out: &mut [f32]) {
    /// Columns a task takes: as many numbers as a cache line has, so that each line is read once.
    const BLOCK: usize = 16;
    let rows = whole.len() / columns;
    out.par_chunks_mut(BLOCK * rows)
        .enumerate()
        .for_each(|(task, block)| {
            let first = first + task * BLOCK;
            let width = block.len() / rows;
            for (i, row) in whole.chunks_exact(columns).enumerate() {
                for (o, x) in row[first..first + width].iter().enumerate() {
                    block[o * rows + i] = *x;
                }
            }
        });
}
