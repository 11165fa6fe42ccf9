//! Reads generation_config.json, which contains the generation settings that a model's author
//! recommends.
//!
//! The settings have the same meaning as in transformers. If a setting would change the generated
//! text in transformers but isn't supported by this crate, its name is returned in
//! [`GenerationSettings::unsupported`], so that the caller can inform the user.

use std::path::Path;

use serde_json::Value;

use crate::error::CheckpointError;
use crate::json::Fields;

/// The settings in a generation_config.json. The default value has no settings.
///
/// ```
/// use checkpoint::GenerationSettings;
/// use std::path::Path;
/// let json = br#"{"do_sample": false, "temperature": 0.6, "max_new_tokens": 7, "num_beams": 4}"#;
/// let settings = GenerationSettings::from_json(Path::new("generation_config.json"), json)?;
/// assert!(settings.sampling.is_greedy());
/// assert_eq!(settings.max_new_tokens, Some(7));
/// assert_eq!(settings.unsupported, ["num_beams"]);
/// # Ok::<(), checkpoint::CheckpointError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct GenerationSettings {
    /// Settings for sampling tokens.
    pub sampling: SamplingDefaults,
    /// Maximum number of tokens to generate. It takes precedence over `max_length`.
    pub max_new_tokens: Option<usize>,
    /// Maximum total number of tokens in the prompt and the generated text.
    pub max_length: Option<usize>,
    /// Stop strings. As soon as one of them occurs in the generated text, the generation ends.
    pub stop_strings: Vec<String>,
    /// Names of the settings in the file that would change the generated text in transformers but
    /// aren't supported by this crate.
    pub unsupported: Vec<String>,
}

/// A model's default settings for sampling tokens, which the user can override. Except for
/// `do_sample`, each field has the same name as the corresponding command-line option of llama.cpp.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SamplingDefaults {
    /// Whether tokens are sampled. If this is `Some(false)`, the most probable token is always
    /// chosen and the other settings have no effect.
    pub do_sample: Option<bool>,
    /// Number by which the logits are divided.
    pub temperature: Option<f32>,
    /// Number of tokens for top-k sampling. A token is sampled from this many of the most probable
    /// tokens.
    pub top_k: Option<i32>,
    /// Threshold for top-p (nucleus) sampling. A token is sampled from the smallest set of the most
    /// probable tokens whose total probability is at least this number.
    pub top_p: Option<f32>,
    /// Threshold for min-p sampling. A token can be sampled only if its probability is at least
    /// this fraction of the most probable token's probability.
    pub min_p: Option<f32>,
    /// Repetition penalty. If a token has already occurred, its logit is divided by this number if
    /// the logit is positive, and multiplied by this number if the logit is negative.
    pub repeat_penalty: Option<f32>,
}

impl SamplingDefaults {
    /// Returns true if the most probable token is always chosen.
    pub fn is_greedy(&self) -> bool {
        self.do_sample == Some(false)
    }
}

/// Names of settings that change the generated text in transformers 5 but aren't supported by this
/// crate. A setting has no effect if its value is null, false, 0, or an empty list or object.
/// However, 0 has an effect if it is a token ID, as in `forced_bos_token_id`.
const UNSUPPORTED: [&str; 21] = [
    "bad_words_ids",
    "begin_suppress_tokens",
    "constraints",
    "dola_layers",
    "encoder_no_repeat_ngram_size",
    "epsilon_cutoff",
    "eta_cutoff",
    "exponential_decay_length_penalty",
    "force_words_ids",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "max_time",
    "min_length",
    "min_new_tokens",
    "no_repeat_ngram_size",
    "penalty_alpha",
    "sequence_bias",
    "suppress_tokens",
    "token_healing",
    "top_h",
    "watermarking_config",
];

/// Names of more settings that change the generated text in transformers 5 but aren't supported by
/// this crate. These settings have no effect if their value is null, false or 1.
const UNSUPPORTED_UNLESS_1: [&str; 6] = [
    "encoder_repetition_penalty",
    "guidance_scale",
    "num_beam_groups",
    "num_beams",
    "num_return_sequences",
    "typical_p",
];

impl GenerationSettings {
    /// Reads the settings from the contents of a generation_config.json. The path `file` is used
    /// only in error messages.
    ///
    /// # Errors
    ///
    /// Returns an error if `contents` isn't a JSON object, or if a setting has an invalid value.
    /// The numbers `NaN` and `Infinity` are allowed because Python's `json` module writes them.
    pub fn from_json(file: &Path, contents: &[u8]) -> Result<Self, CheckpointError> {
        let fields = Fields::of(file, contents)?;
        let float = |key| fields.first(&[key], "a number", float);
        let top_k = |value: &Value| i32::try_from(value.as_i64()?).ok();
        let changes = |key: &&&str| match fields.get(key) {
            None | Some(Value::Bool(false)) => false,
            Some(Value::Number(_)) if key.ends_with("_id") => true,
            Some(Value::Number(number)) => {
                let neutral = f64::from(u8::from(UNSUPPORTED_UNLESS_1.contains(key)));
                number.as_f64() != Some(neutral)
            }
            Some(Value::Array(list)) => !list.is_empty(),
            Some(Value::Object(object)) => !object.is_empty(),
            Some(_) => true,
        };
        let unsupported = UNSUPPORTED.iter().chain(&UNSUPPORTED_UNLESS_1);
        Ok(Self {
            sampling: SamplingDefaults {
                do_sample: fields.flag("do_sample")?,
                temperature: float("temperature")?,
                top_k: fields.first(&["top_k"], "a whole number", top_k)?,
                top_p: float("top_p")?,
                min_p: float("min_p")?,
                repeat_penalty: float("repetition_penalty")?,
            },
            max_new_tokens: fields.size(&["max_new_tokens"])?,
            max_length: fields.size(&["max_length"])?,
            stop_strings: fields
                .first(&["stop_strings"], "a text or a list of texts", texts)?
                .unwrap_or_default(),
            unsupported: unsupported
                .filter(changes)
                .map(|key| (*key).into())
                .collect(),
        })
    }
}

/// Converts a JSON value to a number. The strings "NaN", "Infinity" and "-Infinity" are also
/// accepted, because [`Fields::of`] converts the numbers that Python writes in this way to strings.
fn float(value: &Value) -> Option<f32> {
    let of_python = |text: &&str| ["NaN", "Infinity", "-Infinity"].contains(text);
    match value.as_str().filter(of_python) {
        Some(text) => text.parse().ok(),
        None => Some(value.as_f64()? as f32),
    }
}

/// Converts a JSON string, or an array of JSON strings, to a list of strings. Returns `None` if the
/// value has another type or if a string is empty.
fn texts(value: &Value) -> Option<Vec<String>> {
    let list = match value {
        Value::Array(list) => &list[..],
        one => std::slice::from_ref(one),
    };
    let text = |value: &Value| Some(value.as_str().filter(|text| !text.is_empty())?.to_owned());
    list.iter().map(text).collect()
}
