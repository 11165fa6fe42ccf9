//! Reads and writes the files in a model's folder that influence how text is generated but don't
//! belong to the tokenizer: the generation settings and the chat templates.
//!
//! These files are read together with the tokenizer and kept in memory. When the model is saved to
//! a converted folder or to a checkpoint of a training run, the files are saved with it. A GGUF
//! file stores their content as metadata.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use atomic_file::{
    create_folder, folder_of, is_file, is_system_file, missing_reason, names_in, read_small_file,
    write_atomically,
};
use checkpoint::{GENERATION_CONFIG, GenerationSettings};
use serde::Deserialize;
use serde_json::Value;

use crate::terminal::output::note;

/// Name of the file that can contain the default chat template as plain text.
const TEMPLATE: &str = "chat_template.jinja";
/// Name of the file that can contain the default chat template in JSON.
const TEMPLATE_JSON: &str = "chat_template.json";

/// Name of the folder that contains additional chat templates.
const MORE_TEMPLATES: &str = "additional_chat_templates";
/// Extension of the files in [`MORE_TEMPLATES`].
const JINJA: &str = ".jinja";

/// Maximum length in bytes of `generation_config.json`, and of all chat templates together.
const MAX_BYTES: u64 = 4 << 20;

/// Maximum number of chat templates.
const MAX_TEMPLATES: usize = 64;

/// Name of the default chat template.
const DEFAULT: &str = "default";

/// The generation settings and chat templates in a model's folder. Symbolic links to these files
/// are followed.
#[derive(Clone, Debug, Default)]
pub(crate) struct SidecarFiles {
    folder: PathBuf,
    generation_config: Option<Vec<u8>>,
    /// Files that contain chat templates. Each element consists of a file's path relative to the
    /// folder and the file's content.
    templates: Vec<(String, Vec<u8>)>,
    /// Reason why the chat templates couldn't be read, or `None` if they were read successfully.
    /// Only commands that need the templates report this reason as an error.
    unreadable: Option<String>,
}

/// A chat template, which consists of a name and a text.
pub(crate) type Template = (String, String);

impl SidecarFiles {
    /// Reads the generation settings and chat templates in a folder. If the chat templates can't be
    /// read, the error is stored, and only methods that need the templates return it.
    ///
    /// # Errors
    /// Returns an error if the generation settings can't be read or are too long.
    pub(crate) fn of_folder(folder: &Path) -> Result<Self> {
        let path = folder.join(GENERATION_CONFIG);
        let generation_config = is_file(&path)?.then(|| read_small_file(path, MAX_BYTES));
        let (templates, unreadable) = match read_templates(folder) {
            Ok(templates) => (templates, None),
            Err(error) => (Vec::new(), Some(format!("{error:#}"))),
        };
        Ok(Self {
            folder: folder.to_owned(),
            generation_config: generation_config.transpose()?,
            templates,
            unreadable,
        })
    }

    /// Returns the files that contain chat templates.
    ///
    /// # Errors
    /// Returns an error if the chat templates couldn't be read.
    fn templates(&self) -> Result<&[(String, Vec<u8>)]> {
        match &self.unreadable {
            Some(reason) => bail!("{reason}"),
            None => Ok(&self.templates),
        }
    }

    /// Returns the files that contain the generation settings and the chat templates. Each item
    /// consists of a file's path relative to the folder and the file's content.
    ///
    /// # Errors
    /// Returns an error if the chat templates couldn't be read.
    pub(crate) fn all(&self) -> Result<impl Iterator<Item = (&str, &[u8])>> {
        let config = self.generation_config.iter();
        let config = config.map(|bytes| (GENERATION_CONFIG, &bytes[..]));
        let templates = self.templates()?.iter();
        Ok(config.chain(templates.map(|(name, bytes)| (&name[..], &bytes[..]))))
    }

    /// Writes all files to another folder.
    ///
    /// # Errors
    /// Returns an error if a file can't be written, or if the chat templates couldn't be read.
    pub(crate) fn save(&self, folder: &Path) -> Result<()> {
        for (name, bytes) in self.all()? {
            let path = folder.join(name);
            create_folder(folder_of(&path))?;
            write_atomically(path, |out| out.write_all(bytes))?;
        }
        Ok(())
    }

    /// Returns the chat templates. If there is a template named `default`, it comes first.
    ///
    /// As in transformers, `tokenizer_config` can also contain templates. If several templates have
    /// the same name, the last one that is read is used. A template in a separate file is read
    /// later, so it takes precedence over a template in `tokenizer_config`.
    ///
    /// # Errors
    /// Returns an error if a template can't be read or isn't UTF-8, if a JSON value has an
    /// unexpected structure, or if there are too many templates.
    pub(crate) fn chat_templates(&self, tokenizer_config: &Value) -> Result<Vec<Template>> {
        let in_json = |name: &str, json: &Value| {
            let problem =
                "chat_template must be a string, or a list of objects with a name and a template";
            listed(&json["chat_template"]).with_context(|| format!("{name}: {problem}"))
        };
        let mut all = in_json("tokenizer_config.json", tokenizer_config)?;
        for (name, bytes) in self.templates()? {
            let path = self.folder.join(name);
            let text = std::str::from_utf8(bytes);
            let text = text.with_context(|| format!("{}: expected UTF-8", path.display()))?;
            let name = match name.strip_prefix(MORE_TEMPLATES) {
                Some(name) => name.trim_start_matches('/').trim_end_matches(JINJA),
                None if name == TEMPLATE => DEFAULT,
                None => {
                    let json = serde_json::from_str(text);
                    let json =
                        json.with_context(|| format!("{}: expected JSON", path.display()))?;
                    all.extend(in_json(name, &json)?);
                    continue;
                }
            };
            all.push((name.to_owned(), text.to_owned()));
        }
        let by_name: BTreeMap<String, String> = all.into_iter().collect();
        let mut templates: Vec<Template> = by_name.into_iter().collect();
        let bytes: usize = templates.iter().map(|(_, text)| text.len()).sum();
        check_limits(&self.folder, templates.len(), bytes as u64)?;
        templates.sort_by_key(|(name, _)| name != DEFAULT);
        Ok(templates)
    }

    /// Returns the settings in `generation_config.json`.
    ///
    /// # Errors
    /// Returns an error if the file isn't JSON, or if a setting has the wrong type.
    pub(crate) fn generation(&self) -> Result<GenerationSettings> {
        let path = self.folder.join(GENERATION_CONFIG);
        let contents = self.generation_config.as_deref().unwrap_or(b"{}");
        Ok(GenerationSettings::from_json(&path, contents)?)
    }

    /// Prints a note that lists `names`, the settings in `generation_config.json` that this program
    /// doesn't support. Prints nothing if there are none.
    pub(crate) fn note_unsupported(&self, names: &[String]) {
        if !names.is_empty() {
            let path = self.folder.join(GENERATION_CONFIG);
            let names = names.join(", ");
            note(&format!(
                "{}: the following settings are ignored, because they aren't supported: {names}",
                path.display()
            ));
        }
    }
}

/// Parses chat templates from JSON. The value is `null` if there are no templates, a string if
/// there is a single one, and otherwise a list of objects, each of which contains the name and the
/// text of a template.
fn listed(value: &Value) -> Result<Vec<Template>> {
    #[derive(Deserialize)]
    struct Named {
        name: String,
        template: String,
    }
    Ok(match value {
        Value::Null => Vec::new(),
        Value::String(text) => vec![(DEFAULT.to_owned(), text.clone())],
        list => {
            let list = Vec::<Named>::deserialize(list)?;
            let pair = |one: Named| (one.name, one.template);
            list.into_iter().map(pair).collect()
        }
    })
}

/// Reads the files with chat templates in a folder.
///
/// # Errors
/// Returns an error if a file can't be read, or if there are too many templates.
fn read_templates(folder: &Path) -> Result<Vec<(String, Vec<u8>)>> {
    // The names of the files must be in this order: if several files contain a chat template with
    // the same name, the template in the last of these files is used.
    let mut names = vec![TEMPLATE_JSON.to_owned(), TEMPLATE.to_owned()];
    let more = folder.join(MORE_TEMPLATES);
    match names_in(&more) {
        Err(error) if error.source.kind() == ErrorKind::NotFound => {
            if let Some(reason) = missing_reason(&more) {
                bail!("{}: {reason}", more.display());
            }
        }
        found => {
            for name in found?.into_iter().filter(|name| !is_system_file(name)) {
                let name = name.into_string().map_err(|name| {
                    anyhow!(
                        "{}: the file name of this chat template isn't valid UTF-8; rename the file",
                        more.join(name).display()
                    )
                })?;
                if name.ends_with(JINJA) {
                    names.push(format!("{MORE_TEMPLATES}/{name}"));
                }
            }
        }
    }
    let (mut files, mut bytes) = (Vec::new(), 0);
    for name in names {
        let path = folder.join(&name);
        if !is_file(&path)? {
            continue;
        }
        files.push((name, read_small_file(&path, MAX_BYTES)?));
        bytes += files.last().map_or(0, |(_, contents)| contents.len());
        check_limits(folder, files.len(), bytes as u64)?;
    }
    Ok(files)
}

/// Checks that the number of chat templates and their total length in bytes don't exceed the
/// limits.
fn check_limits(folder: &Path, count: usize, bytes: u64) -> Result<()> {
    let folder = folder.display();
    if count > MAX_TEMPLATES {
        bail!(
            "{folder}: the folder contains more than the maximum of {MAX_TEMPLATES} chat templates; remove some of them"
        );
    }
    if bytes > MAX_BYTES {
        bail!(
            "{folder}: the total size of the chat templates exceeds the maximum of {MAX_BYTES} bytes; remove some of them"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn templates_come_from_all_of_their_places_and_links_are_followed() {
        let all = tempfile::tempdir().unwrap();
        let folder = all.path().join("model");
        fs::create_dir_all(folder.join(MORE_TEMPLATES)).unwrap();
        let config = serde_json::json!({"chat_template": [
            {"name": "default", "template": "old"}, {"name": "rag", "template": "r"},
        ]});
        let templates = || {
            let files = SidecarFiles::of_folder(&folder).unwrap();
            files.chat_templates(&config)
        };
        let pair = |name: &str, text: &str| (name.to_owned(), text.to_owned());
        let expected = [pair("default", "old"), pair("rag", "r")];
        assert_eq!(templates().unwrap(), expected);
        fs::write(folder.join(TEMPLATE_JSON), r#"{"chat_template": "json"}"#).unwrap();
        assert_eq!(templates().unwrap()[0], pair("default", "json"));
        fs::write(folder.join(TEMPLATE), "new").unwrap();
        let tool = folder.join(MORE_TEMPLATES).join("tool.jinja");
        fs::write(all.path().join("blob"), "t").unwrap();
        #[cfg(unix)]
        std::os::unix::fs::symlink(all.path().join("blob"), &tool).unwrap();
        #[cfg(not(unix))]
        fs::write(&tool, "t").unwrap();
        let expected = [pair("default", "new"), pair("rag", "r"), pair("tool", "t")];
        assert_eq!(templates().unwrap(), expected);
        fs::remove_file(all.path().join("blob")).unwrap();
        #[cfg(unix)]
        assert!(templates().is_err());
    }

    #[test]
    fn templates_that_cant_be_used_are_an_error_where_they_are_needed() {
        type Break = fn(&Path);
        let breaks: [(Break, &str); 6] = [
            (
                |more| fs::create_dir(more.join("a.jinja")).unwrap(),
                "a.jinja",
            ),
            (
                |more| fs::write(more.join("a.jinja"), [0xff]).unwrap(),
                "UTF-8",
            ),
            (
                |more| fs::write(more.with_file_name(TEMPLATE_JSON), "{").unwrap(),
                "expected JSON",
            ),
            (
                |more| {
                    let text = r#"{"chat_template": [{"name": "a"}]}"#;
                    fs::write(more.with_file_name(TEMPLATE_JSON), text).unwrap();
                },
                "a list of objects with a name",
            ),
            (
                |more| {
                    (0..=MAX_TEMPLATES)
                        .for_each(|i| fs::write(more.join(format!("{i}.jinja")), "").unwrap());
                },
                "the maximum of 64 chat templates",
            ),
            (
                |more| {
                    for name in ["a.jinja", "b.jinja"] {
                        let file = fs::File::create(more.join(name)).unwrap();
                        file.set_len(MAX_BYTES / 2 + 1).unwrap();
                    }
                },
                "exceeds the maximum of 4194304 bytes",
            ),
        ];
        for (break_it, problem) in breaks {
            let folder = tempfile::tempdir().unwrap();
            let more = folder.path().join(MORE_TEMPLATES);
            fs::create_dir(&more).unwrap();
            break_it(&more);
            let files = SidecarFiles::of_folder(folder.path()).unwrap();
            files.generation().unwrap();
            let error = files.chat_templates(&Value::Null).unwrap_err();
            let error = format!("{error:#}");
            assert!(error.contains(problem), "{error}");
        }
    }
}
