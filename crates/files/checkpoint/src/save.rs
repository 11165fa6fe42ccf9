//! Saving a model as a folder, in the book's layout or Hugging Face's.
//!
//! Each file is replaced atomically, config.json first and the weights last; a folder that must
//! change as one is written anew and renamed by the caller.

use std::collections::HashMap;
use std::path::Path;

use atomic_file::create_folder;
use ndarray::{ArrayD, ArrayViewD, Axis, CowArray, concatenate};
use tensor_ops::Parameters;

use crate::error::CheckpointError;
use crate::file::write_text;
use crate::layout::{FileTensor, Layout};
use crate::places::{CONFIG, GENERATION_CONFIG, WEIGHTS};
use crate::precision::Precision;
use crate::writer::{LazyTensor, write};
use crate::{book_config, hugging_face_config};
use gpt::GptModel;

/// Writes config.json and model.safetensors with the book's keys and parameter names, in f32:
/// exactly the model.
///
/// # Errors
/// If the operating system refuses, or a weight is not finite.
pub fn save_book(model: &GptModel, folder: impl AsRef<Path>) -> Result<(), CheckpointError> {
    let folder = folder.as_ref();
    create_folder(folder)?;
    write_text(&folder.join(CONFIG), &book_config::write(model.config()))?;
    write_weights(model, folder, Layout::Book, Precision::F32)
}

/// Writes config.json, generation_config.json and model.safetensors that
/// `GPT2LMHeadModel.from_pretrained` loads.
///
/// `end_of_text` are the ids that end a text: GPT-2's `[50256]`, or none.
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
    end_of_text: &[u32],
) -> Result<(), CheckpointError> {
    let folder = folder.as_ref();
    create_folder(folder)?;
    write_text(
        &folder.join(CONFIG),
        &hugging_face_config::write(model.config(), precision, end_of_text),
    )?;
    save_generation_config(folder, end_of_text)?;
    write_weights(model, folder, Layout::HuggingFace, precision)
}

/// Writes generation_config.json, the ids that end the model's texts, if any do: beside the book's
/// layout, as [`save_hugging_face`] writes it too.
///
/// # Errors
/// If the operating system refuses.
pub fn save_generation_config(
    folder: impl AsRef<Path>,
    end_of_text: &[u32],
) -> Result<(), CheckpointError> {
    let text = hugging_face_config::write_generation(end_of_text);
    write_text(&folder.as_ref().join(GENERATION_CONFIG), &text)
}

fn write_weights(
    model: &GptModel,
    folder: &Path,
    layout: Layout,
    precision: Precision,
) -> Result<(), CheckpointError> {
    let parameters: HashMap<String, ArrayViewD<'_, f32>> =
        model.named_parameters().into_iter().collect();
    let items = layout
        .tensors(model.config())
        .map(|tensor| {
            let name = match layout {
                Layout::HuggingFace if tensor.name != "lm_head.weight" => {
                    format!("transformer.{}", tensor.name)
                }
                _ => tensor.name.clone(),
            };
            let parts = tensor
                .parameters
                .iter()
                .map(|name| parameters.get(name).cloned());
            item(name, &tensor, parts.collect())
        })
        .collect();
    write(&folder.join(WEIGHTS), items, precision)
}

/// A tensor of the file by its whole name; a part that the model doesn't have is a bias of zero.
pub(crate) fn item<'m>(
    name: String,
    tensor: &FileTensor,
    parts: Vec<Option<ArrayViewD<'m, f32>>>,
) -> LazyTensor<'m> {
    let (shape, transposed) = (tensor.shape.clone(), tensor.transposed);
    let zeros_shape = vec![shape[0] / parts.len()];
    let numbers = move || -> CowArray<'m, f32, _> {
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
