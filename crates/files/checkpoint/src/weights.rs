//! The tensors of a model's file or files, by name, checked against what the configuration asks
//! for.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use atomic_file::{folder_of, read_small_file};
use gpt::GptConfig;
use serde::Deserialize;

use crate::error::{CheckpointError, MISSING, UNEXPECTED, in_tensor, invalid, quoted};
use crate::json::{not_json, text_of};
use crate::layout::Layout;
use crate::tensor_file::{Entry, TensorFile};

/// The most bytes of an index: it has a hundred a tensor.
const MAX_INDEX_BYTES: u64 = 2 << 20;

/// Prefixes that wrappers put before each name: torch.compile, and training on several devices.
const WRAPPERS: [&str; 2] = ["_orig_mod.", "module."];

/// A model's files, open, and where each tensor is.
#[derive(Debug)]
pub(crate) struct Weights {
    /// The file, or the index, that a missing tensor is missing from.
    pub(crate) path: PathBuf,
    files: Vec<TensorFile>,
    /// File and entry by the name without wrappers' prefixes. Buffers are omitted.
    entries: HashMap<String, (usize, usize)>,
}

/// The place of a parameter's numbers: a tensor of the files, or one of its equal parts.
#[derive(Debug)]
pub(crate) struct TensorSlice {
    /// File and entry; none for a bias that the files lack, whose numbers are zeros.
    pub(crate) tensor: Option<(usize, usize)>,
    /// True if the parameter's rows are the tensor's columns.
    pub(crate) transposed: bool,
    /// Rows of the tensor before the parameter's first.
    pub(crate) first: usize,
    /// The parameter's rows.
    pub(crate) rows: usize,
    /// Numbers in a row.
    pub(crate) width: usize,
}

impl Weights {
    /// Finds the weights among the files' tensors.
    ///
    /// # Errors
    /// If a file has one twice.
    pub(crate) fn new(
        path: PathBuf,
        files: Vec<TensorFile>,
        layout: Layout,
    ) -> Result<Self, CheckpointError> {
        let mut entries = HashMap::new();
        for (i, file) in files.iter().enumerate() {
            for (j, entry) in file.entries.iter().enumerate() {
                let mut name = entry.name.as_str();
                while let Some(rest) = WRAPPERS.iter().find_map(|prefix| name.strip_prefix(prefix))
                {
                    name = rest;
                }
                if layout.is_buffer(name) {
                    continue;
                }
                // Of several files the last one counts, as in transformers.
                let before = entries.insert(layout.in_file(name), (i, j));
                if before.is_some_and(|(file, _)| file == i) {
                    return Err(file.problem(entry, "duplicate tensor name"));
                }
            }
        }
        Ok(Self {
            path,
            files,
            entries,
        })
    }

    /// The tensor at a place.
    pub(crate) fn at(&self, (file, entry): (usize, usize)) -> (&TensorFile, &Entry) {
        (&self.files[file], &self.files[file].entries[entry])
    }

    /// True if the model is tied according to its tensors: a head with the embedding's numbers is
    /// the embedding, and one of the two is enough. Afterwards, every needed tensor has its
    /// expected name.
    ///
    /// A model configured with a separate head has one, with any numbers.
    pub(crate) fn settle_tied(
        &mut self,
        layout: Layout,
        config: &GptConfig,
    ) -> Result<bool, CheckpointError> {
        let (embedding, head) = layout.embedding_and_head();
        let Some(&place) = self.entries.get(head).filter(|_| config.tied) else {
            return Ok(config.tied);
        };
        if let Some(&embedding) = self.entries.get(embedding) {
            let [embedding, head] = [embedding, place].map(|place| self.at(place));
            for (file, entry) in [embedding, head] {
                file.check(entry, &[config.vocab_size, config.emb_dim])?;
            }
            if !TensorFile::read_equal(embedding, head)? {
                return Ok(false);
            }
        }
        self.entries.remove(head);
        self.entries.entry(embedding.to_owned()).or_insert(place);
        Ok(true)
    }

    /// Returns the parameters' places by their names, once it is known that the files have all of
    /// the model's tensors; it reads nothing, and ends at the first that is not right.
    ///
    /// After this check the model isn't larger than the files, so memory may be allocated for it.
    pub(crate) fn places(
        &self,
        layout: Layout,
        config: &GptConfig,
    ) -> Result<HashMap<String, TensorSlice>, CheckpointError> {
        let mut places = HashMap::new();
        for tensor in layout.tensors(config) {
            let place = self.entries.get(&tensor.name).copied();
            match place {
                Some(place) => {
                    let (file, entry) = self.at(place);
                    file.check(entry, &tensor.shape)?;
                }
                None if layout == Layout::HuggingFace && self.lacks_bias(&tensor.name) => {}
                None => return Err(in_tensor(&self.path, &tensor.name, MISSING)),
            }
            let (rows, width) = match (tensor.transposed, &tensor.shape[..]) {
                (true, &[width, rows]) => (rows, width),
                (_, shape) => (shape[0], shape[1..].iter().product()),
            };
            let rows = rows / tensor.parameters.len();
            for (part, parameter) in tensor.parameters.into_iter().enumerate() {
                let place = TensorSlice {
                    tensor: place,
                    transposed: tensor.transposed,
                    first: part * rows,
                    rows,
                    width,
                };
                places.insert(parameter, place);
            }
        }
        Ok(places)
    }

    /// Returns true if query, key and value have biases according to their tensors.
    ///
    /// Hugging Face's layout always has the tensors. A configuration that says that the model has
    /// no such biases counts if all of their numbers are zero.
    pub(crate) fn settle_qkv_bias(
        &self,
        layout: Layout,
        config: &GptConfig,
        places: &HashMap<String, TensorSlice>,
    ) -> Result<bool, CheckpointError> {
        if config.qkv_bias || layout == Layout::Book {
            return Ok(config.qkv_bias);
        }
        let biases = places
            .iter()
            .filter(|(name, _)| name.ends_with("_query.bias"));
        for tensor in biases.filter_map(|(_, place)| place.tensor) {
            let (file, entry) = self.at(tensor);
            let mut numbers = vec![0.0; 3 * config.emb_dim];
            file.read(entry, 0, &mut numbers)?;
            if numbers.iter().any(|&number| number != 0.0) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// True for a bias that the files have in no block, as nanoGPT's with `bias=False`;
    /// transformers takes zeros.
    fn lacks_bias(&self, name: &str) -> bool {
        let of_block = |name: &str| {
            let rest = name.strip_prefix("transformer.h.")?;
            Some(rest.split_once('.')?.1.to_owned())
        };
        // The last norm is one of the norms.
        let kind = of_block(name).unwrap_or_else(|| "ln_1.bias".to_owned());
        let mut names = self.entries.keys();
        name.ends_with(".bias") && names.all(|other| of_block(other).as_ref() != Some(&kind))
    }

    /// Returns a line about biases that the files lack and tensors that the model lacks, which in
    /// Hugging Face's layout are of other heads or parts.
    ///
    /// # Errors
    /// In the book's layout, whose models have no others.
    pub(crate) fn unread(
        &self,
        layout: Layout,
        places: &HashMap<String, TensorSlice>,
    ) -> Result<Option<String>, CheckpointError> {
        let read: HashSet<_> = places.values().filter_map(|place| place.tensor).collect();
        let zeros = places
            .values()
            .filter(|place| place.tensor.is_none())
            .count();
        let others = self.entries.values().filter(|place| !read.contains(place));
        let others = others.map(|&place| self.at(place));
        let first = others.clone().min_by_key(|(_, entry)| &entry.name);
        let Some((file, entry)) = first else {
            let path = self.path.display();
            return Ok((zeros > 0).then(|| format!("{path}: no biases ({zeros}); they are zeros")));
        };
        if layout == Layout::Book {
            return Err(file.problem(entry, UNEXPECTED));
        }
        let (path, name) = (file.path.display(), quoted(&entry.name));
        let count = others.count();
        Ok(Some(format!(
            "{path}: {count} tensors are not of this model and not read, such as {name}"
        )))
    }
}

/// The index that transformers writes beside the shards.
#[derive(Deserialize)]
#[serde(expecting = "an object with a weight_map")]
struct Index {
    weight_map: BTreeMap<String, String>,
}

/// Opens a file of weights, or the shards in an index. The shards' contents count, not the index's
/// list, as in transformers.
pub(crate) fn open_files(path: &Path) -> Result<Vec<TensorFile>, CheckpointError> {
    if path.extension() != Some(OsStr::new("json")) {
        return Ok(vec![TensorFile::open(path)?]);
    }
    let contents = read_small_file(path, MAX_INDEX_BYTES)?;
    let text = text_of(path, &contents)?;
    let Index { weight_map } = serde_json::from_str(text).map_err(not_json(path))?;
    let mut shards = BTreeSet::new();
    for (tensor, shard) in &weight_map {
        let name = shard.strip_prefix("./").unwrap_or(shard);
        // An index must not reach elsewhere.
        if Path::new(name).file_name() != Some(OsStr::new(name)) {
            let problem = format!(
                "the index places it in {shard:?}, but a shard is a file in the same folder"
            );
            return Err(in_tensor(path, tensor, problem));
        }
        shards.insert(name);
    }
    if shards.is_empty() {
        return Err(invalid(path, "weight_map names no shard"));
    }
    let shards = shards.into_iter().map(|shard| folder_of(path).join(shard));
    shards.map(|shard| TensorFile::open(&shard)).collect()
}
