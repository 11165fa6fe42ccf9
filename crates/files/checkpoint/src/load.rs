//! Loading a model: find the files, check them against each other, and only then allocate and read.
//!
//! Tensors are read one at a time into the model's own arrays; those that must be transposed go through one buffer as large as the largest of them.

use std::collections::HashMap;
use std::path::Path;

use ndarray::ArrayViewMutD;
use rayon::prelude::*;
use tensor_ops::Parameters;

use crate::error::{CheckpointError, ConfigProblem, in_config};
use crate::folder::{Folder, read_config};
use crate::layout::{FileTensor, Layout};
use crate::tensor_file::TensorFile;
use crate::weights::Weights;
use gpt::{GptConfig, GptModel};

/// Loads the model at `path`: a folder (of Hugging Face's layout or the book's), its config.json, its weights, or the index of its shards.
///
/// A Hugging Face model that is said to be tied, but whose file has a head with other numbers, is loaded with that head, as transformers 5 does.
///
/// # Errors
/// If a file is missing, damaged or no safetensors file; if the configuration describes no model, or one that this crate would compute wrongly; if a tensor is missing, unexpected, of another shape or type, or not finite.
pub fn load_model(path: impl AsRef<Path>) -> Result<GptModel, CheckpointError> {
    let folder = Folder::find(path.as_ref())?;
    if !folder.is_sharded() {
        // So that a GGUF file is called one, whatever lies beside it.
        TensorFile::open(&folder.weights)?;
    }
    let (layout, mut config) = read_config(&folder.config)?;
    let weights = Weights::open(&folder, layout)?;
    // What the files hold: that of a tied model may have the head too.
    let has_head = layout == Layout::HuggingFace && weights.get("lm_head.weight").is_some();
    let filed = GptConfig {
        tied: config.tied && !has_head,
        ..config
    };
    weights.check(layout.tensors(&filed))?;
    if config.tied && has_head {
        config.tied = head_is_token_embedding(&weights)?;
    }
    let mut model =
        GptModel::zeros(config).map_err(|e| in_config(&folder.config)(ConfigProblem::Model(e)))?;
    let mut parameters: HashMap<String, ArrayViewMutD<'_, f32>> =
        model.named_parameters_mut().into_iter().collect();
    let mut buffer = Vec::new();
    for tensor in layout.tensors(&config) {
        let parts: Vec<_> = tensor
            .parameters
            .iter()
            .map(|name| {
                parameters
                    .remove(name)
                    .expect("the layouts' test: each parameter is in one tensor")
            })
            .collect();
        read_tensor(&weights, &tensor, parts, &mut buffer)?;
    }
    drop(parameters);
    Ok(model)
}

/// Whether a head that is said to be tied has the token embedding's numbers.
fn head_is_token_embedding(weights: &Weights) -> Result<bool, CheckpointError> {
    match (weights.get("lm_head.weight"), weights.get("wte.weight")) {
        (Some(head), Some(tok_emb)) => TensorFile::read_equal(head, tok_emb),
        _ => Ok(true),
    }
}

/// Reads one tensor into the parameters it holds.
fn read_tensor(
    weights: &Weights,
    tensor: &FileTensor,
    mut parts: Vec<ArrayViewMutD<'_, f32>>,
    buffer: &mut Vec<f32>,
) -> Result<(), CheckpointError> {
    let (file, entry) = weights
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
    }
    Ok(())
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
