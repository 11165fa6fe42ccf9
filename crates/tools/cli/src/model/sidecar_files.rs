//! The files of a model's folder that describe its texts beside the tokenizer: generation settings
//! and chat templates.
//!
//! They are read once with the tokenizer and written beside every copy of the model: into a
//! converted folder, a run and its checkpoints, and (as keys) into a GGUF file.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use atomic_file::{create_folder, folder_of, is_file, names_in, read_small_file, write_atomically};
use checkpoint::{GENERATION_CONFIG, SamplingDefaults};
use model_tokenizer::TOKENIZER_FILES;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::terminal::output::note;

/// The default chat template, as a text and as JSON.
const TEMPLATE: &str = "chat_template.jinja";
const TEMPLATE_JSON: &str = "chat_template.json";

/// The folder of the other chat templates, and the end of their names.
const MORE_TEMPLATES: &str = "additional_chat_templates";
const JINJA: &str = ".jinja";

/// The most bytes of one file.
const MAX_BYTES: u64 = 4 << 20;

/// The most chat templates beside the default one.
const MAX_TEMPLATES: usize = 64;

/// The files, by their names in a model's folder.
#[derive(Clone, Debug, Default)]
pub(crate) struct SidecarFiles {
    files: Vec<(String, Vec<u8>)>,
}

/// A name and a template.
pub(crate) type Template = (String, String);

impl SidecarFiles {
    /// Reads the files of a folder.
    ///
    /// # Errors
    /// If one is too long or can't be read.
    pub(crate) fn of_folder(folder: &Path) -> Result<Self> {
        let names = [GENERATION_CONFIG, TEMPLATE, TEMPLATE_JSON];
        let mut names = names.map(str::to_owned).to_vec();
        let more = folder.join(MORE_TEMPLATES);
        if more.is_dir() {
            let inside = names_in(&more)?.into_iter();
            let inside = inside.filter(|name| name.ends_with(JINJA) && more.join(name).is_file());
            names.extend(
                inside
                    .take(MAX_TEMPLATES)
                    .map(|name| format!("{MORE_TEMPLATES}/{name}")),
            );
        }
        let mut files = Vec::new();
        for name in names {
            let path = folder.join(&name);
            if !is_file(&path)? {
                continue;
            }
            match without_link(folder, &path) {
                Some(path) => files.push((name, read_small_file(path, MAX_BYTES)?)),
                None => note(&format!(
                    "{}: a link, which is not followed",
                    path.display()
                )),
            }
        }
        Ok(Self { files })
    }

    /// Writes the files into a folder.
    ///
    /// # Errors
    /// If one can't be written.
    pub(crate) fn save(&self, folder: &Path) -> Result<()> {
        for (name, bytes) in &self.files {
            let path = folder.join(name);
            create_folder(folder_of(&path))?;
            write_atomically(path, |out| out.write_all(bytes))?;
        }
        Ok(())
    }

    fn file(&self, name: &str) -> Option<&[u8]> {
        let mut files = self.files.iter();
        files.find_map(|(other, bytes)| (other == name).then_some(&bytes[..]))
    }

    /// The JSON of a file; null without the file.
    fn json(&self, name: &str) -> Result<Value> {
        let bytes = self.file(name).unwrap_or(b"null");
        serde_json::from_slice(bytes).with_context(|| format!("{name} is not JSON"))
    }

    /// The chat templates by name, `default` first if there is one; they may be in
    /// `tokenizer_config`, but a separate file wins.
    ///
    /// # Errors
    /// If chat_template.json is not JSON.
    pub(crate) fn chat_templates(&self, tokenizer_config: &Value) -> Result<Vec<Template>> {
        let default = |text: &str| ("default".to_owned(), text.to_owned());
        let in_json = self.json(TEMPLATE_JSON)?;
        let mut templates = match (
            &in_json["chat_template"],
            &tokenizer_config["chat_template"],
        ) {
            (Value::String(text), _) | (Value::Null, Value::String(text)) => vec![default(text)],
            (_, Value::Array(list)) => {
                let text = |entry: &Value, key: &str| Some(entry[key].as_str()?.to_owned());
                let named = list.iter();
                let named =
                    named.filter_map(|one| Some((text(one, "name")?, text(one, "template")?)));
                named.collect()
            }
            _ => Vec::new(),
        };
        for (name, bytes) in &self.files {
            let name = match name.strip_prefix(MORE_TEMPLATES) {
                Some(name) => name.trim_start_matches('/').trim_end_matches(JINJA),
                None if name == TEMPLATE => "default",
                None => continue,
            };
            templates.retain(|(other, _)| other != name);
            templates.push((name.to_owned(), String::from_utf8_lossy(bytes).into_owned()));
        }
        templates.sort_by_key(|(name, _)| name != "default");
        Ok(templates)
    }

    /// The settings for drawing tokens, in generation_config.json.
    ///
    /// # Errors
    /// If the file is not JSON, or a setting is neither a number nor null.
    pub(crate) fn sampling(&self) -> Result<SamplingDefaults> {
        let json = self.json(GENERATION_CONFIG)?;
        let number = |key| setting(&json, key, "a number");
        Ok(SamplingDefaults {
            temperature: number("temperature")?,
            top_k: setting(&json, "top_k", "a whole number")?,
            top_p: number("top_p")?,
            min_p: number("min_p")?,
            repeat_penalty: number("repetition_penalty")?,
        })
    }
}

/// A setting of generation_config.json that may be missing.
fn setting<T: DeserializeOwned>(json: &Value, key: &str, expected: &str) -> Result<Option<T>> {
    let value = &json[key];
    Option::deserialize(value)
        .map_err(|_| anyhow!("{GENERATION_CONFIG}: {key} must be {expected}, but is {value}"))
}

/// The file behind a path, if that isn't a link out of the folder: Hugging Face's cache links each
/// file of a model to `blobs` two folders above, and other links lead who knows where.
fn without_link(folder: &Path, path: &Path) -> Option<PathBuf> {
    let real = fs::canonicalize(path).ok()?;
    let folder = fs::canonicalize(folder).ok()?;
    let cache = folder.ancestors().nth(2)?.join("blobs");
    (real.starts_with(&folder) || real.parent() == Some(&cache)).then_some(real)
}

/// True for the name of a file or folder that this program writes into a model's folder beside the
/// weights.
pub(crate) fn is_ours(name: &str) -> bool {
    let ours = [GENERATION_CONFIG, TEMPLATE, TEMPLATE_JSON, MORE_TEMPLATES];
    ours.contains(&name) || TOKENIZER_FILES.contains(&name)
}

/// The files about texts in a folder that this program has written: for a run's checkpoints.
///
/// # Errors
/// If one can't be read.
pub(crate) fn written_files(folder: &Path) -> Result<Vec<(String, Vec<u8>)>> {
    let mut files = SidecarFiles::of_folder(folder)?.files;
    for name in TOKENIZER_FILES {
        let path = folder.join(name);
        if is_file(&path)? {
            let bytes = read_small_file(&path, model_tokenizer::MAX_FILE_BYTES);
            files.push((name.to_owned(), bytes.with_context(|| name.to_owned())?));
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_come_from_all_of_their_places_and_links_out_are_not_followed() {
        let all = tempfile::tempdir().unwrap();
        let folder = all.path().join("model");
        fs::create_dir_all(folder.join(MORE_TEMPLATES).join("folder.jinja")).unwrap();
        let config = serde_json::json!({"chat_template": [
            {"name": "default", "template": "old"}, {"name": "rag", "template": "r"},
        ]});
        let templates = || {
            let settings = SidecarFiles::of_folder(&folder).unwrap();
            settings.chat_templates(&config).unwrap()
        };
        let pair = |name: &str, text: &str| (name.to_owned(), text.to_owned());
        assert_eq!(templates(), [pair("default", "old"), pair("rag", "r")]);
        fs::write(folder.join(TEMPLATE), "new").unwrap();
        fs::write(folder.join(MORE_TEMPLATES).join("tool.jinja"), "t").unwrap();
        fs::write(all.path().join("secret"), "s").unwrap();
        #[cfg(unix)]
        std::os::unix::fs::symlink("../../secret", folder.join(MORE_TEMPLATES).join("a.jinja"))
            .unwrap();
        let expected = [pair("default", "new"), pair("rag", "r"), pair("tool", "t")];
        assert_eq!(templates(), expected);
        let large = fs::File::create(folder.join(MORE_TEMPLATES).join("b.jinja")).unwrap();
        large.set_len(MAX_BYTES + 1).unwrap();
        SidecarFiles::of_folder(&folder).unwrap_err();
    }
}
