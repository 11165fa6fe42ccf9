//! Saving a model as a folder, in the book's layout or Hugging Face's.
//!
//! The weights come first, and a file that can't be written whole is not written: then the folder
//! is unchanged. If all files must change together, the caller writes a new folder and renames it.

use std::collections::HashMap;
use std::io::Write;
use std::path::Path;

use atomic_file::{create_folder, write_atomically};
use gpt::GptModel;
use ndarray::{Array2, ArrayD, ArrayViewD, Axis, CowArray, concatenate};
use tensor_ops::{Dtype, Parameters};

use crate::config;
use crate::error::{CheckpointError, invalid};
use crate::layout::{FileTensor, Layout};
use crate::model_files::{CONFIG, WEIGHTS};
use crate::special_tokens::SpecialTokens;
use crate::writer::{LazyTensor, write};

/// Writes config.json and model.safetensors that the book's `GPTModel` loads strictly: exactly the
/// model, in f32, with all that a `state_dict` of the book's has, the causal masks and a head of
/// its own even if that is the token embedding.
///
/// The masks take `context_length` squared numbers per block; [`save_hugging_face`] writes none.
///
/// ```
/// use checkpoint::gpt::{GptConfig, GptModel, torch_rng::TorchRng};
/// use checkpoint::{save_book, load_model};
///
/// let config = GptConfig {
///     vocab_size: 50, context_length: 8, emb_dim: 8,
///     n_heads: 2, n_layers: 1, ..GptConfig::GPT2_124M
/// };
/// let model = GptModel::new(config, &mut TorchRng::manual_seed(123))?;
/// let folder = std::env::temp_dir().join(format!("save-book-{}", std::process::id()));
/// save_book(&model, &folder)?;
/// assert_eq!(load_model(&folder)?.config(), config);
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If a public field of the model doesn't fit the configuration that is written
/// ([`GptModel::check`] and [`GptModel::check_drop_rates`]), or a weight is not finite: then the
/// folder's files stay as they were. If the operating system refuses.
pub fn save_book(model: &GptModel, folder: impl AsRef<Path>) -> Result<(), CheckpointError> {
    let folder = folder.as_ref();
    let mut tensors = tensors(model, folder, Layout::Book)?;
    tensors.extend(beside_parameters(model));
    write_folder(
        folder,
        tensors,
        Dtype::Float32,
        &config::book(&model.config()),
    )
}

/// Writes config.json, generation_config.json and model.safetensors that
/// `GPT2LMHeadModel.from_pretrained` loads.
///
/// `tokens` are the ids at the beginning, end and padding of texts: for GPT-2,
/// `SpecialTokens::between(50256)`. A model without biases on query, key and value gets biases of
/// zero, because GPT-2 always has them, and the key `"qkv_bias": false`, with which it is read
/// again without them. A separate head is written as `lm_head.weight`. Weights are rounded to the
/// nearest number of `dtype`; in f32 the same model is read again, bit for bit.
///
/// ```
/// use checkpoint::gpt::{GptConfig, GptModel, torch_rng::TorchRng};
/// use checkpoint::{Dtype, SpecialTokens, save_hugging_face, load_model};
///
/// let config = GptConfig {
///     vocab_size: 50, context_length: 8, emb_dim: 8,
///     n_heads: 2, n_layers: 1, ..GptConfig::GPT2_124M
/// };
/// let model = GptModel::new(config, &mut TorchRng::manual_seed(123))?;
/// let folder = std::env::temp_dir().join(format!("save-hf-{}", std::process::id()));
/// let tokens = SpecialTokens::between(49);
/// save_hugging_face(&model, &folder, Dtype::Float32, &tokens)?;
/// assert_eq!(load_model(&folder)?, model);
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// As [`save_book`], of weights in this format; if the format is none of float32, float16 and
/// bfloat16.
pub fn save_hugging_face(
    model: &GptModel,
    folder: impl AsRef<Path>,
    dtype: Dtype,
    tokens: &SpecialTokens,
) -> Result<(), CheckpointError> {
    let folder = folder.as_ref();
    let tensors = tensors(model, folder, Layout::HuggingFace)?;
    let config = config::hugging_face(&model.config(), dtype, tokens);
    write_folder(folder, tensors, dtype, &config)?;
    tokens.save(folder)
}

/// Returns the tensors that the folder's weights have in a layout.
fn tensors<'m>(
    model: &'m GptModel,
    folder: &Path,
    layout: Layout,
) -> Result<Vec<LazyTensor<'m>>, CheckpointError> {
    let tensors = layout.tensors(&model.config());
    items(model, &folder.join(WEIGHTS), tensors)
}

/// Writes the weights, and then the configuration.
fn write_folder(
    folder: &Path,
    tensors: Vec<LazyTensor<'_>>,
    dtype: Dtype,
    config: &str,
) -> Result<(), CheckpointError> {
    create_folder(folder)?;
    write(&folder.join(WEIGHTS), tensors, dtype, &[])?;
    write_atomically(folder.join(CONFIG), |out| out.write_all(config.as_bytes()))?;
    Ok(())
}

/// Returns the tensors that a `state_dict` of the book's `GPTModel` has besides the parameters.
fn beside_parameters(model: &GptModel) -> Vec<LazyTensor<'_>> {
    let config = model.config();
    let n = config.context_length;
    let mask = |block| LazyTensor {
        name: format!("trf_blocks.{block}.att.mask"),
        shape: vec![n, n],
        numbers: Box::new(move || {
            let mask = Array2::from_shape_fn((n, n), |(query, key)| f32::from(key > query));
            CowArray::from(mask.into_dyn())
        }),
    };
    let head = (
        "out_head.weight".to_owned(),
        model.tok_emb.weight.view().into_dyn(),
    );
    let head = config.tied.then(|| head.into());
    (0..config.n_layers).map(mask).chain(head).collect()
}

/// Returns a model's numbers as the tensors of a file.
///
/// # Errors
/// If a public field of the model doesn't fit the configuration that is written.
pub(crate) fn items<'m>(
    model: &'m GptModel,
    file: &Path,
    tensors: impl Iterator<Item = FileTensor>,
) -> Result<Vec<LazyTensor<'m>>, CheckpointError> {
    let checked = model.check().and_then(|()| model.check_drop_rates());
    checked.map_err(|error| invalid(file, error.to_string()))?;
    let mut parameters: HashMap<String, ArrayViewD<'_, f32>> =
        model.named_parameters().into_iter().collect();
    let item = |tensor: FileTensor| {
        let parts = tensor.parameters.iter();
        let parts = parts.map(|name| parameters.remove(name)).collect();
        item(tensor, parts)
    };
    Ok(tensors.map(item).collect())
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
        let views = parts.iter().map(|part| match part {
            // (out, in) -> (in, out)
            Some(part) if transposed => part.clone().reversed_axes(),
            Some(part) => part.clone(),
            None => zeros.view(),
        });
        let views: Vec<ArrayViewD<'_, f32>> = views.collect();
        let axis = Axis(usize::from(transposed));
        CowArray::from(concatenate(axis, &views).expect("the parts have the same shape"))
    };
    LazyTensor {
        name,
        shape,
        numbers: Box::new(numbers),
    }
}
