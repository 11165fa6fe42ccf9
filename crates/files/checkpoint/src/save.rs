//! Saves a model as a folder, in the book's layout or in Hugging Face's layout.
//!
//! The weights are written first. If the weight file can't be written completely, the existing
//! files aren't changed. The files are replaced one after another, so after a crash the folder can
//! contain new weights and an old configuration. If all files must change together, save the model
//! to a new folder and rename this folder, for example with [`atomic_file::StagedFolder`].

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

/// Saves a model as config.json and model.safetensors in the layout of the book's `state_dict`. The
/// book's `GPTModel` can load these weights with `strict=True`.
///
/// All weights are saved exactly, as `f32`. The file also contains two kinds of tensors that belong
/// to the book's `state_dict` but that [`save_hugging_face`] omits: the causal mask of each block,
/// which has `context_length` rows and columns, and, if the model is tied, a copy of the token
/// embedding as the output layer.
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
///
/// Returns an error if a field of the model doesn't match its configuration (see
/// [`GptModel::check`] and [`GptModel::check_drop_rates`]) or if a weight isn't finite. Existing
/// files then aren't changed. Also returns an error if the folder or a file can't be written.
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

/// Saves a model as config.json, generation_config.json and model.safetensors, which
/// `GPT2LMHeadModel.from_pretrained` in transformers can load.
///
/// `tokens` contains the IDs of the BOS, EOS and padding tokens. For GPT-2, use
/// `SpecialTokens::between(50256)`.
///
/// Each weight is rounded to the nearest number in the format `dtype`. If `dtype` is float32, the
/// weights are saved exactly, so loading the folder returns the same model. The output layer is
/// saved as `lm_head.weight` unless the model uses its token embedding as the output layer.
///
/// GPT-2 always has biases for query, key and value. If the model doesn't have them, the biases are
/// saved as zeros, and config.json contains the additional key `"qkv_bias": false`. This crate then
/// loads the model without these biases.
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
///
/// Returns the errors of [`save_book`]. Also returns an error if `dtype` isn't one of
/// [`FILE_DTYPES`](crate::FILE_DTYPES) or if a weight is too large for this format.
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

/// Returns the tensors that the weight file of `model` contains in the given layout. The path
/// `folder` is used only in error messages.
///
/// # Errors
///
/// Returns the errors of [`items`].
fn tensors<'m>(
    model: &'m GptModel,
    folder: &Path,
    layout: Layout,
) -> Result<Vec<LazyTensor<'m>>, CheckpointError> {
    let tensors = layout.tensors(&model.config());
    items(model, &folder.join(WEIGHTS), tensors)
}

/// Creates the folder if it doesn't exist, and writes first the weights and then config.json.
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

/// Returns the tensors that the `state_dict` of the book's `GPTModel` contains in addition to the
/// parameters of `model`. These are the causal masks and, if the model is tied, a copy of the token
/// embedding as the output layer.
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

/// Creates the tensors that `tensors` describes from the parameters of `model`. The path `file` is
/// used only in error messages.
///
/// # Errors
///
/// Returns an error if a field of the model doesn't match its configuration (see
/// [`GptModel::check`] and [`GptModel::check_drop_rates`]).
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

/// Creates a tensor of the weight file, which `tensor` describes, by concatenating the parameters
/// in `parts`. For example, the tensor `c_attn.bias` consists of the biases of query, key and
/// value. If the model doesn't have such a bias, `parts` contains `None`, and zeros are saved in
/// its place.
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
            // As in PyTorch, the weight of a linear layer has the shape (out, in) in memory. This
            // tensor is transposed in the file, so it must have the shape (in, out).
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
