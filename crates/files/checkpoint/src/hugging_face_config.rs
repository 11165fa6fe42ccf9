//! Hugging Face's config.json of a GPT-2: what changes the arithmetic is honoured or refused by
//! name, the rest is left alone.
//!
//! `reorder_and_upcast_attn` is left alone too: it changes where half precision is computed in f32,
//! and everything is f32 here.

use serde::Serialize;
use serde_json::Value;

use crate::error::CheckpointError;
use crate::json::Fields;
use crate::precision::Precision;
use gpt::{Activation, DropRates, GptConfig};

/// A `GPT2Model`, which has no head of its own, is a tied model.
pub(crate) fn read(fields: &Fields<'_>) -> Result<GptConfig, CheckpointError> {
    let headless = check_architecture(fields)?;
    check_arithmetic(fields)?;
    let rate = |key| Ok::<_, CheckpointError>(fields.rate(key)?.unwrap_or(0.1));
    let config = GptConfig {
        vocab_size: size(fields, ["vocab_size"; 2], |default| default.vocab_size)?,
        context_length: size(
            fields,
            ["n_positions", "max_position_embeddings"],
            |default| default.context_length,
        )?,
        emb_dim: size(fields, ["n_embd", "hidden_size"], |default| default.emb_dim)?,
        n_heads: size(fields, ["n_head", "num_attention_heads"], |default| {
            default.n_heads
        })?,
        n_layers: size(fields, ["n_layer", "num_hidden_layers"], |default| {
            default.n_layers
        })?,
        drop_rates: DropRates {
            emb: rate("embd_pdrop")?,
            attention: rate("attn_pdrop")?,
            shortcut: rate("resid_pdrop")?,
        },
        qkv_bias: true,
        tied: headless || fields.flag("tie_word_embeddings")?.unwrap_or(true),
        hidden_dim: fields.optional_size("n_inner")?,
        activation: activation(fields, "activation_function")?,
        scale_scores: fields.flag("scale_attn_weights")?.unwrap_or(true),
        scale_scores_by_block: fields
            .flag("scale_attn_by_inverse_layer_idx")?
            .unwrap_or(false),
        norm_eps: fields
            .epsilon("layer_norm_epsilon")?
            .unwrap_or(GptConfig::GPT2_124M.norm_eps),
    };
    fields.check_heads(("n_embd", config.emb_dim), ("n_head", config.n_heads))?;
    Ok(config)
}

/// GPT-2's key, or transformers' general name for the same size, or what transformers takes where a
/// GPT-2 says nothing.
fn size(
    fields: &Fields<'_>,
    [key, general]: [&'static str; 2],
    of: impl Fn(&GptConfig) -> usize,
) -> Result<usize, CheckpointError> {
    for key in [key, general] {
        if let Some(size) = fields.optional_size(key)? {
            return Ok(size);
        }
    }
    match fields.get("model_type") {
        Some(_) => Ok(of(&GptConfig::GPT2_124M)),
        None => fields.size(key),
    }
}

/// Returns whether the model has no head.
fn check_architecture(fields: &Fields<'_>) -> Result<bool, CheckpointError> {
    if let Some(model_type) = fields.get("model_type")
        && model_type != "gpt2"
    {
        return Err(fields.unsupported("model_type", model_type, "\"gpt2\""));
    }
    let Some(architectures) = fields.get("architectures") else {
        return Ok(false);
    };
    let names = architectures
        .as_array()
        .ok_or_else(|| fields.wrong("architectures", "an array of names", architectures))?;
    // Other heads stand on the same model, and it is the one with GPT-2's head that is read.
    let is_gpt2 = |name: &&Value| name.as_str().is_some_and(|name| name.starts_with("GPT2"));
    if let Some(other) = names.iter().find(|name| !is_gpt2(name)) {
        return Err(fields.unsupported("architectures", other, "GPT2LMHeadModel and its kin"));
    }
    let has_head = |name: &Value| name == "GPT2LMHeadModel" || name == "GPT2DoubleHeadsModel";
    Ok(!names.is_empty() && !names.iter().any(has_head))
}

fn check_arithmetic(fields: &Fields<'_>) -> Result<(), CheckpointError> {
    let cross = "add_cross_attention";
    if fields.flag(cross)?.unwrap_or(false) {
        return Err(fields.unsupported(cross, &Value::Bool(true), "false"));
    }
    if let Some(quantization) = fields.get("quantization_config") {
        let supported = "weights in F64, F32, F16 or BF16";
        return Err(fields.unsupported("quantization_config", quantization, supported));
    }
    match fields.get("pruned_heads") {
        Some(heads) if heads.as_object().is_none_or(|heads| !heads.is_empty()) => {
            Err(fields.unsupported("pruned_heads", heads, "models with all their heads"))
        }
        _ => Ok(()),
    }
}

/// Each activation by its names; the first is written.
const ACTIVATIONS: [(Activation, &[&str]); 3] = [
    (
        Activation::GeluTanh,
        &["gelu_new", "gelu_pytorch_tanh", "gelu_fast"],
    ),
    (Activation::Gelu, &["gelu", "gelu_python"]),
    (Activation::Relu, &["relu"]),
];

/// The activation that a key names, or GPT-2's.
pub(crate) fn activation(
    fields: &Fields<'_>,
    key: &'static str,
) -> Result<Activation, CheckpointError> {
    let Some(name) = fields.get(key) else {
        return Ok(Activation::default());
    };
    let mut all = ACTIVATIONS.into_iter();
    match all.find(|(_, names)| names.iter().any(|known| name == known)) {
        Some((activation, _)) => Ok(activation),
        None => {
            let supported = "\"gelu_new\", \"gelu_pytorch_tanh\", \"gelu\" and \"relu\"";
            Err(fields.unsupported(key, name, supported))
        }
    }
}

/// Its name in Hugging Face's configurations.
pub(crate) fn activation_name(activation: Activation) -> &'static str {
    let mut all = ACTIVATIONS.into_iter();
    let found = all.find(|(known, _)| *known == activation);
    found.expect("all are there").1[0]
}

/// The text of a config.json for transformers.
pub(crate) fn write(config: &GptConfig, precision: Precision, end_of_text: &[u32]) -> String {
    #[derive(Serialize)]
    struct Gpt2Config {
        architectures: [&'static str; 1],
        model_type: &'static str,
        activation_function: &'static str,
        vocab_size: usize,
        n_positions: usize,
        n_embd: usize,
        n_layer: usize,
        n_head: usize,
        n_inner: Option<usize>,
        layer_norm_epsilon: f32,
        embd_pdrop: f64,
        attn_pdrop: f64,
        resid_pdrop: f64,
        scale_attn_weights: bool,
        scale_attn_by_inverse_layer_idx: bool,
        reorder_and_upcast_attn: bool,
        add_cross_attention: bool,
        initializer_range: f32,
        tie_word_embeddings: bool,
        #[serde(flatten)]
        ends: Ends,
        use_cache: bool,
        torch_dtype: &'static str,
    }
    to_text(&Gpt2Config {
        architectures: ["GPT2LMHeadModel"],
        model_type: "gpt2",
        activation_function: activation_name(config.activation),
        vocab_size: config.vocab_size,
        n_positions: config.context_length,
        n_embd: config.emb_dim,
        n_layer: config.n_layers,
        n_head: config.n_heads,
        n_inner: config.hidden_dim,
        layer_norm_epsilon: config.norm_eps,
        embd_pdrop: config.drop_rates.emb,
        attn_pdrop: config.drop_rates.attention,
        resid_pdrop: config.drop_rates.shortcut,
        scale_attn_weights: config.scale_scores,
        scale_attn_by_inverse_layer_idx: config.scale_scores_by_block,
        reorder_and_upcast_attn: false,
        add_cross_attention: false,
        initializer_range: 0.02,
        tie_word_embeddings: config.tied,
        ends: Ends::of(end_of_text),
        use_cache: true,
        torch_dtype: precision.torch_dtype(),
    })
}

/// The text of a generation_config.json for transformers.
pub(crate) fn write_generation(end_of_text: &[u32]) -> String {
    to_text(&Ends::of(end_of_text))
}

/// What begins and what ends a text, as both files say it.
#[derive(Serialize)]
struct Ends {
    bos_token_id: Option<u32>,
    eos_token_id: Ids,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Ids {
    One(Option<u32>),
    Several(Vec<u32>),
}

impl Ends {
    fn of(end_of_text: &[u32]) -> Self {
        Self {
            bos_token_id: end_of_text.first().copied(),
            eos_token_id: match end_of_text {
                [] | [_] => Ids::One(end_of_text.first().copied()),
                several => Ids::Several(several.to_vec()),
            },
        }
    }
}

fn to_text(value: &impl Serialize) -> String {
    serde_json::to_string_pretty(value).expect("a struct of numbers, names and flags is JSON")
        + "\n"
}
