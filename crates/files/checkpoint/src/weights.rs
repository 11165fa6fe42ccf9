//! The tensors of a model's file or files, by name, checked against what the configuration asks
//! for.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Component, Path, PathBuf};

use atomic_file::folder_of;
use gpt::GptConfig;
use serde::Deserialize;

use crate::error::{CheckpointError, MISSING, UNEXPECTED, in_tensor, invalid};
use crate::json::{not_json, read_text};
use crate::layout::Layout;
use crate::places::is_index;
use crate::precision::Precision;
use crate::shown::quoted;
use crate::tensor_file::{Entry, TensorFile};

/// The most bytes of an index: it has a hundred a tensor.
const MOST_INDEX_BYTES: u64 = 2 << 20;

/// Prefixes that wrappers put before each name: torch.compile, and training on several devices.
const WRAPPERS: [&str; 2] = ["_orig_mod.", "module."];

/// A model's files, open, and where each tensor is.
#[derive(Debug)]
pub(crate) struct Weights {
    /// The file, or the index, that a missing tensor is missing from.
    path: PathBuf,
    files: Vec<TensorFile>,
    /// File and entry by the name without prefixes. Buffers that are no weights are not here.
    pub(crate) places: HashMap<String, (usize, usize)>,
    /// A line about an index that says something else than its files.
    note: Option<String>,
    /// The wrappers' prefix that a name had.
    wrapper: Option<&'static str>,
}

impl Weights {
    pub(crate) fn open(path: &Path, layout: Layout) -> Result<Self, CheckpointError> {
        let (files, note) = match is_index(path) {
            true => open_shards(path)?,
            false => (vec![TensorFile::open(path)?], None),
        };
        let mut places = HashMap::new();
        let mut wrapper = None;
        for (i, file) in files.iter().enumerate() {
            for (j, entry) in file.entries.iter().enumerate() {
                let mut name = entry.name.as_str();
                while let Some((found, rest)) = WRAPPERS
                    .into_iter()
                    .find_map(|prefix| Some((prefix, name.strip_prefix(prefix)?)))
                {
                    (wrapper, name) = (wrapper.or(Some(found)), rest);
                }
                let name = layout.strip_prefix(name);
                if layout.is_buffer(name) {
                    continue;
                }
                // Of several files the last one counts, as in transformers.
                let before = places.insert(name.to_owned(), (i, j));
                if before.is_some_and(|(file, _)| file == i) {
                    return Err(file.problem(entry, "it is there twice"));
                }
            }
        }
        Ok(Self {
            path: path.to_owned(),
            files,
            places,
            note,
            wrapper,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// A tensor by its name without prefix.
    pub(crate) fn get(&self, name: &str) -> Option<(&TensorFile, &Entry)> {
        self.places.get(name).map(|&place| self.at(place))
    }

    /// The tensor at a place.
    pub(crate) fn at(&self, (file, entry): (usize, usize)) -> (&TensorFile, &Entry) {
        (&self.files[file], &self.files[file].entries[entry])
    }

    pub(crate) fn precision(&self) -> Option<Precision> {
        let mut all = self.places.keys().map(|name| self.get(name)?.1.precision());
        let first = all.next()??;
        all.all(|other| other == Some(first)).then_some(first)
    }

    /// Lines for the reader: about an index that says something else than its files, and about
    /// prefixes of wrappers that names had.
    pub(crate) fn notes(&self) -> Vec<String> {
        let path = self.path.display();
        let prefix =
            |prefix| format!("{path}: names begin with {prefix}; they are read without it");
        let prefix = self.wrapper.map(prefix);
        self.note.iter().cloned().chain(prefix).collect()
    }

    /// True if the model is tied, as its tensors say: a head with the embedding's numbers is the
    /// embedding, and one of the two is enough. Afterwards, what is to be read is there by its
    /// name.
    ///
    /// A model that is said to have a head of its own has it, whatever its numbers.
    pub(crate) fn settle_tied(
        &mut self,
        layout: Layout,
        config: &GptConfig,
    ) -> Result<bool, CheckpointError> {
        let (embedding, head) = layout.embedding_and_head();
        let (has_embedding, has_head) = (
            self.places.contains_key(embedding),
            self.places.contains_key(head),
        );
        if !config.tied || !has_head {
            return Ok(config.tied);
        }
        if has_embedding {
            let shape = [config.vocab_size, config.emb_dim];
            let tensor = |name| self.get(name).expect("it is there");
            let (embedding, head) = (tensor(embedding), tensor(head));
            for (file, entry) in [embedding, head] {
                file.check(entry, &shape)?;
            }
            if !TensorFile::read_equal(embedding, head)? {
                return Ok(false);
            }
        }
        if let Some(place) = self.places.remove(head) {
            self.places.entry(embedding.to_owned()).or_insert(place);
        }
        Ok(true)
    }

    /// Checks that the files have these tensors, and reads nothing: it ends at the first that is
    /// not right.
    /// Of Hugging Face's, what else there is, is of other heads or parts, and returned in a line
    /// for the reader.
    ///
    /// When it returns, the model is no larger than the files, and memory may be allocated for it.
    pub(crate) fn check(
        &self,
        layout: Layout,
        config: &GptConfig,
    ) -> Result<Option<String>, CheckpointError> {
        let mut seen = BTreeSet::new();
        for tensor in layout.tensors(config) {
            let name = tensor.name;
            let Some((file, entry)) = self.get(&name) else {
                return Err(in_tensor(&self.path, &name, MISSING));
            };
            file.check(entry, &tensor.shape)?;
            seen.insert(name);
        }
        let others = self.places.keys().filter(|name| !seen.contains(*name));
        let mut others: Vec<&str> = others.map(String::as_str).collect();
        others.sort_unstable();
        match others.first().and_then(|name| self.get(name)) {
            Some((file, entry)) if layout == Layout::Book => Err(file.problem(entry, UNEXPECTED)),
            found => {
                Ok(found.map(|_| note(&self.path, "not of this model, and not read", &others)))
            }
        }
    }
}

/// The index that transformers writes beside the shards.
#[derive(Deserialize)]
#[serde(expecting = "an object with a weight_map")]
struct Index {
    weight_map: BTreeMap<String, String>,
}

/// Opens the shards that an index names, and returns what it says otherwise than they do in a line
/// for the reader: what they have counts, as in transformers.
fn open_shards(index: &Path) -> Result<(Vec<TensorFile>, Option<String>), CheckpointError> {
    let text = read_text(index, MOST_INDEX_BYTES)?;
    let Index { weight_map } = serde_json::from_str(&text).map_err(not_json(index))?;
    let mut shards = BTreeSet::new();
    for (tensor, shard) in &weight_map {
        let name = shard.strip_prefix("./").unwrap_or(shard);
        if !is_plain_name(name) {
            let shard = quoted(shard);
            let problem =
                format!("the index places it in {shard}, but a shard is a file in the same folder");
            return Err(in_tensor(index, tensor, problem));
        }
        shards.insert(name);
    }
    if shards.is_empty() {
        return Err(invalid(index, "weight_map is missing"));
    }
    let files = shards.into_iter();
    let files = files.map(|shard| TensorFile::open(&folder_of(index).join(shard)));
    let files: Vec<TensorFile> = files.collect::<Result<_, _>>()?;
    let entries = files.iter().flat_map(|file| &file.entries);
    let there: BTreeSet<&str> = entries.map(|entry| &*entry.name).collect();
    let said: BTreeSet<&str> = weight_map.keys().map(String::as_str).collect();
    let others: Vec<&str> = there.symmetric_difference(&said).copied().collect();
    let what = "not both in the index and in its files";
    let note = (!others.is_empty()).then(|| note(index, what, &others));
    Ok((files, note))
}

/// A line about some tensors.
fn note(path: &Path, what: &str, tensors: &[&str]) -> String {
    const SHOWN: usize = 3;
    let names = tensors.iter().take(SHOWN).map(|name| quoted(name));
    let names = names.collect::<Vec<_>>().join(", ");
    let more = if tensors.len() > SHOWN {
        " and others"
    } else {
        ""
    };
    format!("{}: {what}: {names}{more}", path.display())
}

/// True for a name of a file in the same folder: an index must not reach elsewhere.
fn is_plain_name(name: &str) -> bool {
    let mut components = Path::new(name).components();
    matches!(
        (components.next(), components.next()),
        (Some(Component::Normal(only)), None) if only == name
    ) && !name.contains(char::is_control)
}
