//! The ids that end a model's text, as its own files say.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::error::ModelTokenizerError;
use crate::files::{parse, parse_value, read};

const KEY: &str = "eos_token_id";

#[derive(Deserialize)]
#[serde(untagged)]
enum Ids {
    One(u32),
    Several(Vec<u32>),
}

/// `eos_token_id` of a model folder: a number or a list, in generation_config.json or else in
/// config.json.
///
/// `None` if both say nothing; no ids if the first that says something says `null`: nothing ends
/// such a model's text.
///
/// # Errors
/// [`ModelTokenizerError::Invalid`] or [`Io`](ModelTokenizerError::Io) for files that are damaged
/// or can't be read.
pub fn end_of_text_ids(folder: impl AsRef<Path>) -> Result<Option<Vec<u32>>, ModelTokenizerError> {
    for name in ["generation_config.json", "config.json"] {
        let path = folder.as_ref().join(name);
        let Some(text) = read(&path)? else { continue };
        let said: Map<String, Value> = parse(&path, &text)?;
        if let Some(ids) = said.get(KEY) {
            return Ok(Some(match parse_value(&path, KEY, ids)? {
                None => Vec::new(),
                Some(Ids::One(id)) => vec![id],
                Some(Ids::Several(ids)) => ids,
            }));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn ids(generation: Option<&str>, config: Option<&str>) -> Result<Option<Vec<u32>>, String> {
        let folder = tempfile::tempdir().unwrap();
        for (name, json) in [
            ("generation_config.json", generation),
            ("config.json", config),
        ] {
            if let Some(json) = json {
                fs::write(folder.path().join(name), json).unwrap();
            }
        }
        let prefix = format!("{}/", folder.path().display());
        end_of_text_ids(folder.path()).map_err(|error| error.to_string().replace(&prefix, ""))
    }

    #[test]
    fn generation_config_comes_first_and_null_ends_nothing() {
        let one = Some(r#"{"eos_token_id": 7}"#);
        let two = Some(r#"{"eos_token_id": [3, 4]}"#);
        let null = Some(r#"{"eos_token_id": null}"#);
        let other = Some(r#"{"do_sample": true}"#);
        assert_eq!(ids(None, None), Ok(None));
        assert_eq!(ids(None, other), Ok(None));
        assert_eq!(ids(two, one), Ok(Some(vec![3, 4])));
        assert_eq!(ids(one, two), Ok(Some(vec![7])));
        assert_eq!(ids(other, two), Ok(Some(vec![3, 4])));
        assert_eq!(ids(null, one), Ok(Some(vec![])));
        assert_eq!(ids(other, null), Ok(Some(vec![])));
    }

    #[test]
    fn what_is_no_id_is_refused_with_the_file() {
        let error = ids(Some(r#"{"eos_token_id": -1}"#), None).unwrap_err();
        assert!(error.starts_with("generation_config.json: "), "{error}");
        let error = ids(None, Some(r#"{"eos_token_id": "x"}"#)).unwrap_err();
        assert!(error.starts_with("config.json: "), "{error}");
    }
}
