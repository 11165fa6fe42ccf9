//! Finds the tensors of a model in one or more weight files, and checks that they match the model's
//! configuration.

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

/// Maximum size in bytes of an index file, which lists the weight file of each tensor. An index
/// file contains about a hundred bytes per tensor.
const MAX_INDEX_BYTES: u64 = 2 << 20;

/// Prefixes that PyTorch's wrappers add to the names of tensors. `torch.compile` adds `_orig_mod.`,
/// and the wrappers for training on several devices add `module.`.
const WRAPPERS: [&str; 2] = ["_orig_mod.", "module."];

/// The open weight files of a model, and the location of each tensor in them.
#[derive(Debug)]
pub(crate) struct Weights {
    /// Path to the weight file or to the index file. Error messages about missing tensors contain
    /// this path.
    pub(crate) path: PathBuf,
    files: Vec<TensorFile>,
    /// Location of each tensor, by the tensor's name without the prefixes of wrappers. A location
    /// consists of the index of a file in `files` and the index of the tensor in the file's
    /// `entries`. Buffers that aren't parameters, such as causal masks, aren't included.
    entries: HashMap<String, (usize, usize)>,
}

/// The location of a parameter's numbers: all rows or some of the rows of a tensor in a file.
#[derive(Debug)]
pub(crate) struct TensorSlice {
    /// Location of the tensor: the index of its file and the index of the tensor's entry in that
    /// file. `None` if the parameter is a bias that the files don't contain. Such a bias is filled
    /// with zeros.
    pub(crate) tensor: Option<(usize, usize)>,
    /// Whether the tensor is transposed, so that its columns are the rows of the parameter.
    pub(crate) transposed: bool,
    /// Index of the tensor's row that contains the first row of the parameter. If the tensor is
    /// transposed, this is the index of a column.
    pub(crate) first: usize,
    /// Number of rows of the parameter.
    pub(crate) rows: usize,
    /// Number of elements in a row of the parameter.
    pub(crate) width: usize,
}

impl Weights {
    /// Determines the location of each tensor in the files.
    ///
    /// # Errors
    ///
    /// Returns an error if a file contains the same tensor twice. This includes two names that
    /// differ only in the prefixes of PyTorch's wrappers, such as `wte.weight` and
    /// `module.wte.weight`.
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
                // If another weight file already contained a tensor of this name, `insert` replaces
                // its location, so the tensor in the last file is used, as in transformers.
                let before = entries.insert(layout.in_file(name), (i, j));
                if before.is_some_and(|(file, _)| file == i) {
                    return Err(file.problem(entry, "the file contains this tensor twice"));
                }
            }
        }
        Ok(Self {
            path,
            files,
            entries,
        })
    }

    /// Returns the file and the entry of a tensor.
    pub(crate) fn at(&self, (file, entry): (usize, usize)) -> (&TensorFile, &Entry) {
        (&self.files[file], &self.files[file].entries[entry])
    }

    /// Determines from the tensors whether the model is tied, which means that its output layer
    /// uses the same weights as the token embedding. The model is tied if the tensors of these two
    /// layers contain the same numbers, or if one of the tensors is missing. In `self`, the shared
    /// tensor then has the name of the embedding.
    ///
    /// If the configuration says that the model isn't tied, this function returns false without
    /// comparing the embedding with the output layer.
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

    /// Checks that all tensors of the model exist and have the correct shape and type, without
    /// reading their numbers. Returns the location of each parameter by its name. If a tensor is
    /// missing or doesn't match the configuration, returns an error for the first such tensor.
    ///
    /// A malicious configuration can claim that a model is huge. After this check, the model can't
    /// be much larger than its weight files, so it is safe to allocate memory for its parameters.
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

    /// Determines whether the query, key and value layers have biases.
    ///
    /// In Hugging Face's layout, weight files normally contain biases for the query, key and value
    /// layers, even if the model was created without these biases. Therefore, if the configuration
    /// says that there are none, this function reads the biases from the files. It returns true if
    /// any of their elements is nonzero, and false if all of them are zero.
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

    /// Returns true if `name` is a bias that is missing from every transformer block, as in models
    /// that nanoGPT trained with `bias=False`. Like transformers, this crate fills such biases with
    /// zeros.
    fn lacks_bias(&self, name: &str) -> bool {
        let of_block = |name: &str| {
            let rest = name.strip_prefix("transformer.h.")?;
            Some(rest.split_once('.')?.1.to_owned())
        };
        // The final layer normalization doesn't belong to a block, so it can't be compared with the
        // same layer in other blocks. Its bias may be missing if the bias `ln_1.bias` is missing
        // from every block.
        let kind = of_block(name).unwrap_or_else(|| "ln_1.bias".to_owned());
        let mut names = self.entries.keys();
        name.ends_with(".bias") && names.all(|other| of_block(other).as_ref() != Some(&kind))
    }

    /// Returns a note for the user if the files contain tensors that the model doesn't have, or if
    /// biases are missing from the files. Otherwise, returns `None`. In Hugging Face's layout,
    /// additional tensors are allowed because they can belong to an output layer that this crate
    /// doesn't use, such as a classification layer.
    ///
    /// # Errors
    ///
    /// Returns an error if a file in the book's layout contains a tensor that the model doesn't
    /// have.
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
            return Ok((zeros > 0).then(|| {
                format!("{path}: {zeros} biases of the model are missing from the file, so they are set to zero")
            }));
        };
        if layout == Layout::Book {
            return Err(file.problem(entry, UNEXPECTED));
        }
        let (path, name) = (file.path.display(), quoted(&entry.name));
        let count = others.count();
        Ok(Some(format!(
            "{path}: {count} tensors, such as {name}, don't belong to this model and are ignored"
        )))
    }
}

/// The index file that transformers writes for a model with several weight files.
#[derive(Deserialize)]
#[serde(expecting = "an object with a weight_map")]
struct Index {
    weight_map: BTreeMap<String, String>,
}

/// Opens a weight file or, if `path` is an index file, all weight files that the index lists. The
/// index is used only to find these files. As in transformers, an index that assigns tensors to the
/// wrong files is therefore accepted.
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
        // All weight files must be in the same folder as the index file. A path to another folder
        // is rejected, so that an index from an unknown source can't refer to other files on the
        // computer.
        if Path::new(name).file_name() != Some(OsStr::new(name)) {
            let problem = format!(
                "according to the index, this tensor is stored in {shard:?}, but weight files must be in the same folder as the index"
            );
            return Err(in_tensor(path, tensor, problem));
        }
        shards.insert(name);
    }
    if shards.is_empty() {
        return Err(invalid(
            path,
            "weight_map is empty, but it must contain the weight file of each tensor",
        ));
    }
    let shards = shards.into_iter().map(|shard| folder_of(path).join(shard));
    shards.map(|shard| TensorFile::open(&shard)).collect()
}
