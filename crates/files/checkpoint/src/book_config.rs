//! Our own config.json: the book's `GPT_CONFIG_124M` with its keys, read strictly.
//!
//! The dictionary of the book, written with `json.dump`, is one too.
//! Beyond the book's keys there are `"format": "book"`, the rates by site (`drop_rate_emb`,
//! `drop_rate_attn`, `drop_rate_shortcut`), `tied`, `hidden_dim`, `norm_eps`, and what only models
//! of others have: `activation`, `scale_scores` and `scale_scores_by_block`.

use serde::Serialize;

use crate::error::{CheckpointError, ConfigProblem};
use crate::hugging_face_config::{activation, activation_name};
use crate::json::Fields;
use crate::shown::Quoted;
use gpt::{Activation, DropRates, GptConfig};

const FORMAT: &str = "book";

const KEYS: [&str; 17] = [
    "format",
    "vocab_size",
    "context_length",
    "emb_dim",
    "n_heads",
    "n_layers",
    "drop_rate",
    "drop_rate_emb",
    "drop_rate_attn",
    "drop_rate_shortcut",
    "qkv_bias",
    "tied",
    "hidden_dim",
    "norm_eps",
    "activation",
    "scale_scores",
    "scale_scores_by_block",
];

/// Whether a configuration is of this kind: it has a key that only the book's has, or says so.
pub(crate) fn is_book(fields: &Fields<'_>) -> bool {
    fields.keys().any(|key| {
        matches!(
            key,
            "format" | "context_length" | "emb_dim" | "n_heads" | "n_layers" | "qkv_bias"
        )
    }) && fields.get("model_type").is_none()
}

pub(crate) fn read(fields: &Fields<'_>) -> Result<GptConfig, CheckpointError> {
    if let Some(key) = fields.keys().find(|key| !KEYS.contains(key)) {
        return Err(fields.problem(ConfigProblem::UnknownKey {
            key: Quoted::text(key),
            suggestion: nearest(key),
        }));
    }
    if let Some(format) = fields.get("format")
        && format != FORMAT
    {
        return Err(fields.wrong("format", "\"book\"", format));
    }
    let required = |key: &'static str| move || fields.problem(ConfigProblem::Missing(key));
    let drop_rate = fields.rate("drop_rate")?;
    let rate = |key: &'static str| match fields.rate(key)? {
        Some(rate) => Ok(rate),
        None => drop_rate.ok_or_else(required("drop_rate")),
    };
    let config = GptConfig {
        vocab_size: fields.size("vocab_size")?,
        context_length: fields.size("context_length")?,
        emb_dim: fields.size("emb_dim")?,
        n_heads: fields.size("n_heads")?,
        n_layers: fields.size("n_layers")?,
        drop_rates: DropRates {
            emb: rate("drop_rate_emb")?,
            attention: rate("drop_rate_attn")?,
            shortcut: rate("drop_rate_shortcut")?,
        },
        qkv_bias: fields.flag("qkv_bias")?.ok_or_else(required("qkv_bias"))?,
        tied: fields.flag("tied")?.unwrap_or(false),
        hidden_dim: fields.optional_size("hidden_dim")?,
        norm_eps: fields
            .epsilon("norm_eps")?
            .unwrap_or(GptConfig::GPT2_124M.norm_eps),
        activation: activation(fields, "activation")?,
        scale_scores: fields.flag("scale_scores")?.unwrap_or(true),
        scale_scores_by_block: fields.flag("scale_scores_by_block")?.unwrap_or(false),
    };
    fields.check_heads(("emb_dim", config.emb_dim), ("n_heads", config.n_heads))?;
    Ok(config)
}

/// The text of a config.json that [`read`] makes `config` of.
pub(crate) fn write(config: &GptConfig) -> String {
    #[derive(Serialize)]
    struct BookConfig {
        format: &'static str,
        vocab_size: usize,
        context_length: usize,
        emb_dim: usize,
        n_heads: usize,
        n_layers: usize,
        drop_rate_emb: f64,
        drop_rate_attn: f64,
        drop_rate_shortcut: f64,
        qkv_bias: bool,
        tied: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        hidden_dim: Option<usize>,
        norm_eps: f32,
        // A model of the book has the keys that it has always had.
        #[serde(skip_serializing_if = "Option::is_none")]
        activation: Option<&'static str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        scale_scores: Option<bool>,
        #[serde(skip_serializing_if = "Option::is_none")]
        scale_scores_by_block: Option<bool>,
    }
    let text = serde_json::to_string_pretty(&BookConfig {
        format: FORMAT,
        vocab_size: config.vocab_size,
        context_length: config.context_length,
        emb_dim: config.emb_dim,
        n_heads: config.n_heads,
        n_layers: config.n_layers,
        drop_rate_emb: config.drop_rates.emb,
        drop_rate_attn: config.drop_rates.attention,
        drop_rate_shortcut: config.drop_rates.shortcut,
        qkv_bias: config.qkv_bias,
        tied: config.tied,
        hidden_dim: config.hidden_dim,
        norm_eps: config.norm_eps,
        activation: (config.activation != Activation::default())
            .then(|| activation_name(config.activation)),
        scale_scores: (!config.scale_scores).then_some(false),
        scale_scores_by_block: config.scale_scores_by_block.then_some(true),
    });
    text.expect("a struct of numbers and flags is JSON") + "\n"
}

/// The key that takes the fewest changes of one letter, if that is few enough to be a slip.
fn nearest(word: &str) -> Option<&'static str> {
    const LONGEST: usize = 64;
    if word.len() > LONGEST {
        return None;
    }
    KEYS.into_iter()
        .map(|key| (strsim::levenshtein(word, key), key))
        .min()
        .filter(|&(distance, key)| distance <= key.len() / 2)
        .map(|(_, key)| key)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn a_slip_is_recognised_and_another_word_is_not() {
        assert_eq!(nearest("emd_dim"), Some("emb_dim"));
        assert_eq!(nearest("n_head"), Some("n_heads"));
        assert_eq!(nearest("learning_rate"), None);
    }
}
