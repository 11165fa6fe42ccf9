//! Saving a model as a folder, in the book's layout or Hugging Face's.
//!
//! Shapes and numbers are checked before anything is written. Then each file is replaced
//! atomically, the weights last; a folder that must change as one is written anew and renamed by
//! the caller.

use std::collections::{BTreeMap, HashMap};
use std::io::Write;
use std::path::Path;

use atomic_file::{create_folder, write_atomically};
use ndarray::{Array2, ArrayD, ArrayViewD, Axis, CowArray, concatenate};
use tensor_ops::Parameters;

use crate::config;
use crate::error::{CheckpointError, MISSING, in_tensor};
use crate::layout::{FileTensor, Layout};
use crate::places::{CONFIG, WEIGHTS};
use crate::precision::Precision;
use crate::shown;
use crate::special_tokens::SpecialTokens;
use crate::writer::{LazyTensor, cant_hold, write};
use gpt::GptModel;

/// Writes config.json and model.safetensors that the book's `GPTModel` loads strictly: exactly the
/// model, in f32, with all that a `state_dict` of the book's has, the causal masks and a head of
/// its own even if that is the token embedding.
///
/// The masks take `context_length` squared numbers a block: what is only read again by
/// [`load_model`](crate::load_model) does without them, see [`save_compact`].
///
/// # Errors
/// As [`save_compact`].
pub fn save_book(model: &GptModel, folder: impl AsRef<Path>) -> Result<(), CheckpointError> {
    save_in_book(model, folder.as_ref(), beside_parameters(model))
}

/// Writes config.json and model.safetensors with the book's keys and parameter names, in f32:
/// exactly the model, without what follows from it.
///
/// # Errors
/// If a parameter has not the shape that the model's configuration asks for, as where a public
/// field was replaced, or a weight is not finite: then nothing is written. If the operating system
/// refuses.
pub fn save_compact(model: &GptModel, folder: impl AsRef<Path>) -> Result<(), CheckpointError> {
    save_in_book(model, folder.as_ref(), Vec::new())
}

fn save_in_book<'a>(
    model: &'a GptModel,
    folder: &Path,
    more: Vec<LazyTensor<'a>>,
) -> Result<(), CheckpointError> {
    let config = BTreeMap::from([(CONFIG, config::book(model.config()).into_bytes())]);
    save(model, folder, (Layout::Book, Precision::F32), &config, more)
}

/// Writes config.json, generation_config.json and model.safetensors that
/// `GPT2LMHeadModel.from_pretrained` loads.
///
/// `tokens` begin, end and pad texts: GPT-2's are `SpecialTokens::between(50256)`.
/// A model without biases on query, key and value gets biases of zero, which GPT-2 always has, so
/// that it is read again with `qkv_bias`; a head of its own is written as `lm_head.weight`.
/// Weights are rounded to `precision`, to the nearest.
///
/// # Errors
/// As [`save_compact`], of weights in this precision.
pub fn save_hugging_face(
    model: &GptModel,
    folder: impl AsRef<Path>,
    precision: Precision,
    tokens: &SpecialTokens,
) -> Result<(), CheckpointError> {
    let config = config::hugging_face(model.config(), precision, tokens);
    let mut files = tokens.files();
    files.insert(CONFIG, config.into_bytes());
    save(
        model,
        folder.as_ref(),
        (Layout::HuggingFace, precision),
        &files,
        Vec::new(),
    )
}

/// Writes small files and the weights, once it is known that all can be written.
fn save<'a>(
    model: &'a GptModel,
    folder: &Path,
    (layout, precision): (Layout, Precision),
    files: &BTreeMap<&str, Vec<u8>>,
    more: Vec<LazyTensor<'a>>,
) -> Result<(), CheckpointError> {
    let weights = folder.join(WEIGHTS);
    check_shapes(model, &weights)?;
    for (name, numbers) in model.named_parameters() {
        let wrong = numbers
            .as_slice()
            .filter(|numbers| !precision.holds_all(numbers));
        let wrong = wrong.and_then(|numbers| {
            let at = numbers.iter().position(|&x| !precision.holds(x))?;
            Some(cant_hold(at, numbers[at], &precision.to_string()))
        });
        wrong.map_or(Ok(()), |problem| Err(in_tensor(&weights, &name, problem)))?;
    }
    create_folder(folder)?;
    for (name, bytes) in files {
        write_atomically(folder.join(name), |out| out.write_all(bytes))?;
    }
    let tensors = layout.tensors(model.config()).map(|tensor| FileTensor {
        name: layout.in_file(&tensor.name),
        ..tensor
    });
    let mut tensors = items(model, tensors);
    tensors.extend(more);
    write(&weights, tensors, precision)
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

/// Checks that a model's parameters are those of its configuration: its fields can be replaced.
pub(crate) fn check_shapes(model: &GptModel, file: &Path) -> Result<(), CheckpointError> {
    let mut expected: HashMap<String, Vec<usize>> = model.config().parameters().collect();
    for (name, numbers) in model.named_parameters() {
        let expected = expected.remove(&name);
        if expected.as_deref() != Some(numbers.shape()) {
            let found = shown::shape(numbers.shape());
            let expected = expected.map_or("none".to_owned(), |shape| shown::shape(&shape));
            let problem =
                format!("the shape is {found}, but the configuration asks for {expected}");
            return Err(in_tensor(file, &name, problem));
        }
    }
    let missing = expected.keys().min();
    missing.map_or(Ok(()), |name| Err(in_tensor(file, name, MISSING)))
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
