//! The tensors of a model's file or files, by name, checked against what the configuration asks for.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Component, Path, PathBuf};

use serde::Deserialize;

use crate::error::{CheckpointError, ConfigProblem, TensorProblem, in_config, in_tensor};
use crate::file::{folder_of, read_small};
use crate::folder::Folder;
use crate::header::Entry;
use crate::json::Pairs;
use crate::layout::{FileTensor, Layout};
use crate::shown::Quoted;
use crate::tensor_file::TensorFile;

/// The most bytes of an index: it has a hundred a tensor.
const MOST_INDEX_BYTES: u64 = 2 << 20;

/// A model's files, open, and where each tensor is.
pub(crate) struct Weights {
    /// What a missing tensor is missing from.
    path: PathBuf,
    files: Vec<TensorFile>,
    /// By the name without prefix: file and entry. Tensors to be ignored are not here.
    places: HashMap<String, (usize, usize)>,
}

impl Weights {
    pub(crate) fn open(folder: &Folder, layout: Layout) -> Result<Self, CheckpointError> {
        let path = folder.weights.clone();
        let files = if folder.is_sharded() {
            open_shards(&path)?
        } else {
            vec![TensorFile::open(&path)?]
        };
        let mut places = HashMap::new();
        for (i, file) in files.iter().enumerate() {
            for (j, entry) in file.entries.iter().enumerate() {
                let name = layout.strip_prefix(&entry.name);
                if !layout.ignores(name) && places.insert(name.to_owned(), (i, j)).is_some() {
                    return Err(file.problem(entry, TensorProblem::Twice));
                }
            }
        }
        Ok(Self {
            path,
            files,
            places,
        })
    }

    /// A tensor by its name without prefix.
    pub(crate) fn get(&self, name: &str) -> Option<(&TensorFile, &Entry)> {
        let &(file, entry) = self.places.get(name)?;
        Some((&self.files[file], &self.files[file].entries[entry]))
    }

    /// Checks that the files have exactly these tensors, and reads nothing: it ends at the first that is not right.
    ///
    /// When it returns, the model is no larger than the files, and memory may be allocated for it.
    pub(crate) fn check(
        &self,
        tensors: impl Iterator<Item = FileTensor>,
    ) -> Result<(), CheckpointError> {
        let mut seen = BTreeSet::new();
        for tensor in tensors {
            let name = tensor.name;
            let Some((file, entry)) = self.get(&name) else {
                return Err(in_tensor(&self.path, &name)(TensorProblem::Missing));
            };
            file.check(entry, &tensor.shape)?;
            seen.insert(name);
        }
        let unexpected = self
            .places
            .keys()
            .filter(|name| !seen.contains(*name))
            .min();
        match unexpected.and_then(|name| self.get(name)) {
            Some((file, entry)) => Err(file.problem(entry, TensorProblem::Unexpected)),
            None => Ok(()),
        }
    }
}

/// What transformers writes beside the shards.
#[derive(Deserialize)]
#[serde(expecting = "an object with a weight_map")]
struct Index {
    weight_map: Pairs<String>,
}

/// Opens the shards of an index, each of which must hold what the index says, no more and no less.
fn open_shards(index: &Path) -> Result<Vec<TensorFile>, CheckpointError> {
    let problem = in_config(index);
    let text = read_small(index, MOST_INDEX_BYTES)?;
    let Index { weight_map } =
        serde_json::from_str(&text).map_err(|e| problem(ConfigProblem::NotJson(e.into())))?;
    if let Some(name) = weight_map.duplicate() {
        return Err(problem(ConfigProblem::Duplicate(Quoted::text(name))));
    }
    let mut shards: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (tensor, shard) in &weight_map.0 {
        if !is_plain_name(shard) {
            let shard_name = TensorProblem::ShardName(Quoted::text(shard));
            return Err(in_tensor(index, tensor)(shard_name));
        }
        shards.entry(shard).or_default().insert(tensor);
    }
    if shards.is_empty() {
        return Err(problem(ConfigProblem::Missing("weight_map")));
    }
    shards
        .into_iter()
        .map(|(shard, mut tensors)| {
            let file = TensorFile::open(&folder_of(index).join(shard))?;
            for entry in &file.entries {
                if !tensors.remove(entry.name.as_str()) {
                    return Err(file.problem(entry, TensorProblem::OtherShard));
                }
            }
            match tensors.first() {
                Some(tensor) => Err(in_tensor(&file.path, tensor)(TensorProblem::Missing)),
                None => Ok(file),
            }
        })
        .collect()
}

/// Whether a name is a file's in the same folder: an index must not reach elsewhere.
fn is_plain_name(name: &str) -> bool {
    let mut components = Path::new(name).components();
    matches!(
        (components.next(), components.next()),
        (Some(Component::Normal(only)), None) if only == name
    ) && !name.contains(char::is_control)
}
