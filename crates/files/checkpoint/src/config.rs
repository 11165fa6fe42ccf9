//! Reads and writes config.json in two formats: the book's format, which has the keys of the book's
//! `GPT_CONFIG_124M`, and Hugging Face's format for GPT-2.
//!
//! A setting that affects the results of the model is never ignored. If this crate doesn't support
//! it, the configuration is rejected with an error that contains the setting's name.
//!
//! To create a configuration in the book's format, save the dictionary `GPT_CONFIG_124M` with
//! Python's `json.dump`. The file can also contain `"format": "book"`, separate dropout rates
//! (`drop_rate_emb`, `drop_rate_attn` and `drop_rate_shortcut`), `tied`, `hidden_dim`, `norm_eps`
//! and `activation`.
//!
//! In Hugging Face's format, GPT-2 always has biases for query, key and value, so there is no
//! setting for these biases. If a model doesn't have them, this crate adds the key `qkv_bias` with
//! the value `false`, which it recognizes when it loads the model. The setting
//! `reorder_and_upcast_attn` is ignored because it affects only computations in half precision.

use std::path::Path;

use gpt::{Activation, DropRates, GptConfig};
use serde_json::{Value, json};
use tensor_ops::Dtype;

use crate::error::{CheckpointError, invalid};
use crate::json::{Fields, text};
use crate::layout::Layout;
use crate::special_tokens::SpecialTokens;

/// The factor by which the weights and biases of the query layers are multiplied when a model is
/// loaded, so that the attention scores have the scale that its configuration requires.
///
/// [`GptModel`](gpt::GptModel) always divides attention scores by the square root of the head
/// dimension. If a configuration specifies another scale, multiplying the query parameters by this
/// factor has the same effect.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueryFactor {
    /// Factor for the query layers of every transformer block. It is the square root of the head
    /// dimension if the setting `scale_attn_weights` is false, which means that attention scores
    /// aren't divided by this square root. Otherwise, it is 1.
    all_blocks: f32,
    /// Whether the attention scores in each block are also divided by the position of the block (1
    /// for the first block). This is the setting `scale_attn_by_inverse_layer_idx`.
    by_block: bool,
}

impl QueryFactor {
    /// The factor 1, which leaves the query layers unchanged. It is correct for GPT-2 and for all
    /// models in the book's format.
    const NONE: Self = Self {
        all_blocks: 1.0,
        by_block: false,
    };

    fn of(fields: &Fields<'_>, config: &GptConfig) -> Result<Self, CheckpointError> {
        let head_dim = (config.emb_dim / config.n_heads) as f32;
        Ok(Self {
            all_blocks: match fields.flag("scale_attn_weights")? {
                Some(false) => head_dim.sqrt(),
                Some(true) | None => 1.0,
            },
            by_block: fields.flag("scale_attn_by_inverse_layer_idx")? == Some(true),
        })
    }

    /// Returns the factor by which the model's parameter `name` must be multiplied when it is
    /// loaded. The factor is 1 unless the parameter belongs to a query layer.
    pub(crate) fn of_parameter(&self, name: &str) -> f32 {
        let rest = name.strip_prefix("trf_blocks.");
        let block = rest.and_then(|rest| Some(rest.split_once(".att.W_query.")?.0));
        match block.and_then(|block| block.parse::<usize>().ok()) {
            Some(block) if self.by_block => self.all_blocks / (block + 1) as f32,
            Some(_) => self.all_blocks,
            None => 1.0,
        }
    }
}

/// Reads a configuration in either format and checks it.
pub(crate) fn read(file: &Path) -> Result<(Layout, GptConfig, QueryFactor), CheckpointError> {
    let fields = Fields::read(file)?;
    let (layout, config, query) = if is_book(&fields) {
        (Layout::Book, book_config(&fields)?, QueryFactor::NONE)
    } else {
        let config = gpt2_config(&fields)?;
        let query = QueryFactor::of(&fields, &config)?;
        (Layout::HuggingFace, config, query)
    };
    let checked = config.validate();
    checked.map_err(|error| invalid(file, error.to_string()))?;
    Ok((layout, config, query))
}

/// Returns true if a configuration has the book's format. Such a configuration contains at least
/// one key that Hugging Face doesn't use, and it doesn't contain `model_type`.
fn is_book(fields: &Fields<'_>) -> bool {
    let of_book = ["format", "context_length", "emb_dim", "n_heads", "n_layers"];
    fields.get("model_type").is_none() && fields.keys().any(|key| of_book.contains(&key))
}

/// Reads the settings of a configuration in the book's format.
fn book_config(fields: &Fields<'_>) -> Result<GptConfig, CheckpointError> {
    let size = |key| fields.size(&[key])?.ok_or_else(|| fields.missing(key));
    let common = fields.number("drop_rate")?;
    let rate = |key| {
        let rate = fields.number(key)?.or(common);
        rate.ok_or_else(|| fields.missing("drop_rate"))
    };
    let qkv_bias = fields.flag("qkv_bias")?;
    Ok(GptConfig {
        vocab_size: size("vocab_size")?,
        context_length: size("context_length")?,
        emb_dim: size("emb_dim")?,
        n_heads: size("n_heads")?,
        n_layers: size("n_layers")?,
        hidden_dim: fields.size(&["hidden_dim"])?,
        drop_rates: DropRates {
            emb: rate("drop_rate_emb")?,
            attention: rate("drop_rate_attn")?,
            shortcut: rate("drop_rate_shortcut")?,
        },
        qkv_bias: qkv_bias.ok_or_else(|| fields.missing("qkv_bias"))?,
        tied: fields.flag("tied")?.unwrap_or(false),
        norm_eps: epsilon(fields, "norm_eps")?,
        activation: activation(fields, "activation")?,
    })
}

/// Reads the settings of a configuration in Hugging Face's format. A setting can have its GPT-2
/// name, such as `n_embd`, or the name that transformers uses for all models, such as
/// `hidden_size`. If the file contains `model_type`, sizes that are missing have the values of the
/// 124M model. Otherwise, all sizes are required.
fn gpt2_config(fields: &Fields<'_>) -> Result<GptConfig, CheckpointError> {
    let headless = check_architecture(fields)?;
    let gpt2 = GptConfig::GPT2_124M;
    let has_defaults = fields.get("model_type").is_some();
    let size = |keys: &[&str], default| {
        let size = fields.size(keys)?.or(has_defaults.then_some(default));
        size.ok_or_else(|| fields.missing(keys[0]))
    };
    let rate = |key| Ok::<_, CheckpointError>(fields.number(key)?.unwrap_or(0.1));
    let context = ["n_positions", "max_position_embeddings"];
    Ok(GptConfig {
        vocab_size: size(&["vocab_size"], gpt2.vocab_size)?,
        context_length: size(&context, gpt2.context_length)?,
        emb_dim: size(&["n_embd", "hidden_size"], gpt2.emb_dim)?,
        n_heads: size(&["n_head", "num_attention_heads"], gpt2.n_heads)?,
        n_layers: size(&["n_layer", "num_hidden_layers"], gpt2.n_layers)?,
        hidden_dim: fields.size(&["n_inner"])?,
        drop_rates: DropRates {
            emb: rate("embd_pdrop")?,
            attention: rate("attn_pdrop")?,
            shortcut: rate("resid_pdrop")?,
        },
        qkv_bias: fields.flag("qkv_bias")?.unwrap_or(true),
        tied: headless || fields.flag("tie_word_embeddings")?.unwrap_or(true),
        norm_eps: epsilon(fields, "layer_norm_epsilon")?,
        activation: activation(fields, "activation_function")?,
    })
}

/// Checks the settings that describe the architecture, for which only GPT-2's values are supported.
/// Returns true if the model was saved without an output layer, as by `GPT2Model` in transformers.
/// The token embedding is then used as the output layer.
fn check_architecture(fields: &Fields<'_>) -> Result<bool, CheckpointError> {
    for (key, computed, can_be) in [
        ("model_type", json!("gpt2"), "\"gpt2\""),
        ("add_cross_attention", json!(false), "false"),
        ("quantization_config", json!(null), "unquantized weights"),
    ] {
        if let Some(found) = fields.get(key).filter(|found| **found != computed) {
            return Err(fields.unsupported(key, found, can_be));
        }
    }
    let key = "architectures";
    let names = fields.first(&[key], "an array of names", Value::as_array)?;
    let names = names.map_or(&[][..], Vec::as_slice);
    // Models for other tasks, such as `GPT2ForSequenceClassification`, are accepted because they
    // contain a language model. Their additional output layer is ignored.
    let is_gpt2 = |name: &&Value| name.as_str().is_some_and(|name| name.starts_with("GPT2"));
    if let Some(other) = names.iter().find(|name| !is_gpt2(name)) {
        return Err(fields.unsupported(key, other, "a name that begins with GPT2"));
    }
    let has_head = |name: &Value| name == "GPT2LMHeadModel" || name == "GPT2DoubleHeadsModel";
    Ok(!names.is_empty() && !names.iter().any(has_head))
}

/// Returns the epsilon that is added to the variance in layer normalization. The default is GPT-2's
/// epsilon.
fn epsilon(fields: &Fields<'_>, key: &str) -> Result<f32, CheckpointError> {
    let number = |value: &Value| {
        let eps = value.as_f64()? as f32;
        (eps >= 0.0 && eps.is_finite()).then_some(eps)
    };
    let found = fields.first(&[key], "a finite number that is at least 0", number)?;
    Ok(found.unwrap_or(GptConfig::GPT2_124M.norm_eps))
}

/// Returns the activation function of the feed-forward layers. The default is GPT-2's activation
/// function.
fn activation(fields: &Fields<'_>, key: &str) -> Result<Activation, CheckpointError> {
    let Some(name) = fields.get(key) else {
        return Ok(Activation::default());
    };
    match name.as_str() {
        Some("gelu_new" | "gelu_pytorch_tanh" | "gelu_fast") => Ok(Activation::GeluTanh),
        Some("gelu" | "gelu_python") => Ok(Activation::Gelu),
        Some("relu") => Ok(Activation::Relu),
        _ => Err(fields.unsupported(key, name, "gelu_new, gelu or relu")),
    }
}

/// Returns the contents of a config.json in the book's format, from which [`read`] can restore
/// `config`. The file contains separate dropout rates, `hidden_dim` and `activation` only if these
/// settings are needed to describe the model, because the book's configuration doesn't have them.
pub(crate) fn book(config: &GptConfig) -> String {
    let rates = &config.drop_rates;
    let mut json = json!({
        "format": "book",
        "vocab_size": config.vocab_size,
        "context_length": config.context_length,
        "emb_dim": config.emb_dim,
        "n_heads": config.n_heads,
        "n_layers": config.n_layers,
        "qkv_bias": config.qkv_bias,
        "tied": config.tied,
        "norm_eps": decimal(config.norm_eps),
    });
    if let Some(rate) = rates.common() {
        json["drop_rate"] = rate.into();
    } else {
        json["drop_rate_emb"] = rates.emb.into();
        json["drop_rate_attn"] = rates.attention.into();
        json["drop_rate_shortcut"] = rates.shortcut.into();
    }
    if let Some(hidden_dim) = config.hidden_dim {
        json["hidden_dim"] = hidden_dim.into();
    }
    if config.activation != Activation::default() {
        json["activation"] = config.activation.name().into();
    }
    text(&json)
}

/// Returns the contents of a config.json for transformers.
pub(crate) fn hugging_face(config: &GptConfig, dtype: Dtype, tokens: &SpecialTokens) -> String {
    let rates = &config.drop_rates;
    let mut json = json!({
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        "vocab_size": config.vocab_size,
        "n_positions": config.context_length,
        "n_ctx": config.context_length, // the name that llama.cpp's converter reads
        "n_embd": config.emb_dim,
        "n_head": config.n_heads,
        "n_layer": config.n_layers,
        "n_inner": config.hidden_dim,
        "embd_pdrop": rates.emb,
        "attn_pdrop": rates.attention,
        "resid_pdrop": rates.shortcut,
        "tie_word_embeddings": config.tied,
        "layer_norm_epsilon": decimal(config.norm_eps),
        "activation_function": config.activation.name(),
        "torch_dtype": dtype.name(),
    });
    if !config.qkv_bias {
        json["qkv_bias"] = false.into();
    }
    tokens.add_to(&mut json);
    text(&json)
}

/// Converts an `f32` to the `f64` that has the same shortest decimal representation. For example,
/// the number 1e-5 is then written to a JSON file as 1e-5. If the `f32` were simply cast to `f64`,
/// it would be written as 9.999999747378752e-6.
fn decimal(x: f32) -> f64 {
    x.to_string()
        .parse()
        .expect("a formatted number can be parsed")
}
