//! Saving a model as a folder, in the book's layout or Hugging Face's.
//!
//! Each file is replaced atomically, config.json first and the weights last; a folder that must
//! change as one is written anew and renamed by the caller.

use std::collections::HashMap;
use std::io::Write;
use std::path::Path;

use atomic_file::{create_folder, write_atomically};
use ndarray::{ArrayD, ArrayViewD, Axis, CowArray, concatenate};
use tensor_ops::Parameters;

use crate::config;
use crate::error::CheckpointError;
use crate::layout::{FileTensor, Layout};
use crate::places::{CONFIG, WEIGHTS};
use crate::precision::Precision;
use crate::special_tokens::SpecialTokens;
use crate::writer::{LazyTensor, write};
use gpt::GptModel;

/// Writes config.json and model.safetensors with the book's keys and parameter names, in f32:
/// exactly the model.
///
/// # Errors
/// If the operating system refuses, or a weight is not finite.
pub fn save_book(model: &GptModel, folder: impl AsRef<Path>) -> Result<(), CheckpointError> {
    let folder = folder.as_ref();
    create_folder(folder)?;
    write_text(&folder.join(CONFIG), &config::book(model.config()))?;
    write_weights(model, folder, Layout::Book, Precision::F32)
}

/// Writes config.json, generation_config.json and model.safetensors that
/// `GPT2LMHeadModel.from_pretrained` loads.
///
/// `tokens` begin, end and pad texts: GPT-2's are `SpecialTokens::between(50256)`.
/// A model without biases on query, key and value gets biases of zero, which GPT-2 always has; a
/// head of its own is written as `lm_head.weight`.
/// Weights are rounded to `precision`, to the nearest.
///
/// # Errors
/// If the operating system refuses, or a weight is not finite in this precision.
pub fn save_hugging_face(
    model: &GptModel,
    folder: impl AsRef<Path>,
    precision: Precision,
    tokens: &SpecialTokens,
) -> Result<(), CheckpointError> {
    let folder = folder.as_ref();
    create_folder(folder)?;
    let config = config::hugging_face(model.config(), precision, tokens);
    write_text(&folder.join(CONFIG), &config)?;
    tokens.save(folder)?;
    write_weights(model, folder, Layout::HuggingFace, precision)
}

fn write_text(path: &Path, text: &str) -> Result<(), CheckpointError> {
    Ok(write_atomically(path, |out| {
        out.write_all(text.as_bytes())
    })?)
}

fn write_weights(
    model: &GptModel,
    folder: &Path,
    layout: Layout,
    precision: Precision,
) -> Result<(), CheckpointError> {
    let tensors = layout.tensors(model.config()).map(|tensor| FileTensor {
        name: layout.in_file(&tensor.name),
        ..tensor
    });
    write(&folder.join(WEIGHTS), items(model, tensors), precision)
}

/// A model's numbers as the tensors of a file.
pub(crate) fn items(
    model: &GptModel,
    tensors: impl Iterator<Item = FileTensor>,
) -> Vec<LazyTensor<'_>> {
    let parameters: HashMap<String, ArrayViewD<'_, f32>> =
        model.named_parameters().into_iter().collect();
    let item = |tensor: FileTensor| {
        let parts = tensor.parameters.iter();
        let parts = parts.map(|name| parameters.get(name).cloned()).collect();
        item(tensor, parts)
    };
    tensors.map(item).collect()
}

/// A tensor of the file; a part that the model doesn't have is a bias of zero.
fn item(tensor: FileTensor, parts: Vec<Option<ArrayViewD<'_, f32>>>) -> LazyTensor<'_> {
    let FileTensor {
        name,
        shape,
        transposed,
        ..
    } = tensor;
    let zeros_shape = vec![shape[0] / parts.len()];
    let numbers = move || {
        if let ([Some(part)], false) = (&parts[..], transposed) {
            return CowArray::from(part.clone());
        }
        let zeros = ArrayD::zeros(zeros_shape.clone());
        let views: Vec<ArrayViewD<'_, f32>> = parts
            .iter()
            .map(|part| match part {
                // (out, in) -> (in, out)
                Some(part) if transposed => part.clone().reversed_axes(),
                Some(part) => part.clone(),
                None => zeros.view(),
            })
            .collect();
        let axis = Axis(usize::from(transposed));
        CowArray::from(concatenate(axis, &views).expect("the parts have the same shape"))
    };
    LazyTensor {
        name,
        shape,
        numbers: Box::new(numbers),
    }
}
