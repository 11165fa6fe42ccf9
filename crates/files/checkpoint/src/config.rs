//! config.json: the book's `GPT_CONFIG_124M` with its keys, read strictly, and Hugging Face's of a
//! GPT-2, of which what changes the arithmetic is honoured or refused by name.
//!
//! The dictionary of the book, written with `json.dump`, is one too. Beyond its keys there are
//! `"format": "book"`, the rates by site, `tied`, `hidden_dim`, `norm_eps`, and `activation`, which
//! only models of others have.
//! Of Hugging Face's, `reorder_and_upcast_attn` is left alone: it changes where half precision is
//! computed in f32, and everything is f32 here.

use std::path::Path;

use gpt::{Activation, DropRates, GptConfig};
use serde::Serialize;
use serde_json::{Value, json};

use crate::error::{CheckpointError, invalid};
use crate::json::Fields;
use crate::layout::Layout;
use crate::precision::Precision;
use crate::shown::quoted;
use crate::special_tokens::SpecialTokens;

/// Each setting by the book's name, Hugging Face's, and the one that transformers has for all
/// kinds of models, if there is one.
const SETTINGS: [&[&str]; 13] = [
    &["vocab_size", "vocab_size"],
    &["context_length", "n_positions", "max_position_embeddings"],
    &["emb_dim", "n_embd", "hidden_size"],
    &["n_heads", "n_head", "num_attention_heads"],
    &["n_layers", "n_layer", "num_hidden_layers"],
    &["hidden_dim", "n_inner"],
    &["drop_rate_emb", "embd_pdrop"],
    &["drop_rate_attn", "attn_pdrop"],
    &["drop_rate_shortcut", "resid_pdrop"],
    &["qkv_bias"],
    &["tied", "tie_word_embeddings"],
    &["norm_eps", "layer_norm_epsilon"],
    &["activation", "activation_function"],
];

/// Keys of the book's files that are no settings by themselves.
const FORMAT: &str = "format";
const DROP_RATE: &str = "drop_rate";

/// Keys that the book's files have only if they are not as in GPT-2: the book's models have the
/// keys that they have always had.
const SELDOM: [&str; 2] = ["hidden_dim", "activation"];

/// A setting's keys in the files of a layout, the one that is written first.
fn keys(layout: Layout, setting: &str) -> &'static [&'static str] {
    let mut settings = SETTINGS.into_iter();
    let names = settings.find(|names| names[0] == setting);
    let names = names.expect("a setting of the table");
    match layout {
        Layout::Book => &names[..1],
        Layout::HuggingFace => &names[1..],
    }
}

/// The scale of attention scores that a file asks for, as a factor of the query's weights: the
/// model divides scores by the root of a head's features, as GPT-2 does, and by nothing else.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueryFactor {
    /// 1, or the root that a file without `scale_attn_weights` doesn't divide by.
    all_blocks: f32,
    /// True if scores are also divided by their block's number, counted from 1.
    by_block: bool,
}

impl QueryFactor {
    fn of(
        fields: &Fields<'_>,
        layout: Layout,
        config: &GptConfig,
    ) -> Result<Self, CheckpointError> {
        let flag = |key, default| match layout {
            Layout::Book => Ok(default),
            Layout::HuggingFace => fields.flag(key).map(|flag| flag.unwrap_or(default)),
        };
        let head_dim = (config.emb_dim / config.n_heads) as f32;
        Ok(Self {
            all_blocks: match flag("scale_attn_weights", true)? {
                true => 1.0,
                false => head_dim.sqrt(),
            },
            by_block: flag("scale_attn_by_inverse_layer_idx", false)?,
        })
    }

    /// The factor of a parameter: 1 if it is no query's.
    pub(crate) fn of_parameter(&self, name: &str) -> f32 {
        let block = name.strip_prefix("trf_blocks.").and_then(|rest| {
            let (block, rest) = rest.split_once(".att.W_query.")?;
            (rest == "weight" || rest == "bias").then(|| block.parse::<usize>().ok())?
        });
        match block {
            Some(block) if self.by_block => self.all_blocks / (block + 1) as f32,
            Some(_) => self.all_blocks,
            None => 1.0,
        }
    }
}

/// Reads a configuration of either kind and checks it.
pub(crate) fn read(file: &Path) -> Result<(Layout, GptConfig, QueryFactor), CheckpointError> {
    let fields = Fields::read(file)?;
    let (layout, headless) = match is_book(&fields) {
        true => (Layout::Book, check_keys(&fields)?),
        false => (Layout::HuggingFace, check_architecture(&fields)?),
    };
    let config = settings(&fields, layout, headless)?;
    let [width, heads] = ["emb_dim", "n_heads"].map(|setting| keys(layout, setting)[0]);
    let GptConfig {
        emb_dim, n_heads, ..
    } = config;
    if !emb_dim.is_multiple_of(n_heads) {
        return Err(fields.problem(format!(
            "{width} must be divisible by {heads}, but {width} is {emb_dim} and {heads} is {n_heads}"
        )));
    }
    config
        .validate()
        .map_err(|e| invalid(file, e.to_string()))?;
    let query = QueryFactor::of(&fields, layout, &config)?;
    Ok((layout, config, query))
}

/// True if a configuration is the book's: it has a key that only the book's has, or says so.
fn is_book(fields: &Fields<'_>) -> bool {
    let of_book = [
        FORMAT,
        "context_length",
        "emb_dim",
        "n_heads",
        "n_layers",
        "qkv_bias",
    ];
    fields.get("model_type").is_none() && fields.keys().any(|key| of_book.contains(&key))
}

/// Checks that a file of the book's has no unknown key. Returns that there may be a head.
fn check_keys(fields: &Fields<'_>) -> Result<bool, CheckpointError> {
    let settings = SETTINGS.into_iter().map(|names| names[0]);
    let known: Vec<&str> = settings.chain([FORMAT, DROP_RATE]).collect();
    if let Some(key) = fields.keys().find(|key| !known.contains(key)) {
        let (key, known) = (quoted(key), known.join(", "));
        return Err(fields.problem(format!("unknown key {key}; expected some of {known}")));
    }
    match fields.get(FORMAT) {
        Some(format) if format != "book" => Err(fields.wrong(FORMAT, "\"book\"", format)),
        _ => Ok(false),
    }
}

/// Checks what changes the arithmetic. Returns true if the model, such as a `GPT2Model`, has no
/// head of its own: then it is tied.
fn check_architecture(fields: &Fields<'_>) -> Result<bool, CheckpointError> {
    if let Some(model_type) = fields.get("model_type")
        && model_type != "gpt2"
    {
        return Err(fields.unsupported("model_type", model_type, "\"gpt2\""));
    }
    if fields.flag("add_cross_attention")? == Some(true) {
        return Err(fields.unsupported("add_cross_attention", &Value::Bool(true), "false"));
    }
    if let Some(quantization) = fields.get("quantization_config") {
        let can_be = "weights in F64, F32, F16 or BF16";
        return Err(fields.unsupported("quantization_config", quantization, can_be));
    }
    if let Some(heads) = fields.get("pruned_heads")
        && heads.as_object().is_none_or(|heads| !heads.is_empty())
    {
        return Err(fields.unsupported("pruned_heads", heads, "models with all their heads"));
    }
    let key = "architectures";
    let names = fields.first(&[key], "an array of names", Value::as_array)?;
    let names = names.map_or(&[][..], Vec::as_slice);
    // Other heads stand on the same model, and it is the one with GPT-2's head that is read.
    let is_gpt2 = |name: &&Value| name.as_str().is_some_and(|name| name.starts_with("GPT2"));
    if let Some(other) = names.iter().find(|name| !is_gpt2(name)) {
        return Err(fields.unsupported(key, other, "GPT2LMHeadModel and its kin"));
    }
    let has_head = |name: &Value| name == "GPT2LMHeadModel" || name == "GPT2DoubleHeadsModel";
    Ok(!names.is_empty() && !names.iter().any(has_head))
}

/// The settings of a file; what it doesn't say is as in GPT-2, where it may be silent.
fn settings(
    fields: &Fields<'_>,
    layout: Layout,
    headless: bool,
) -> Result<GptConfig, CheckpointError> {
    let gpt2 = GptConfig::GPT2_124M;
    let is_book = layout == Layout::Book;
    let missing = |key: &str| fields.problem(format!("{key} is missing"));
    let first = |setting| keys(layout, setting)[0];
    let size = |setting| {
        let size = |value: &Value| usize::try_from(value.as_u64()?).ok().filter(|&n| n > 0);
        fields.first(keys(layout, setting), "a whole number of at least 1", size)
    };
    let has_defaults = fields.get("model_type").is_some();
    let size_or = |setting, default| match size(setting)? {
        Some(size) => Ok(size),
        None if has_defaults => Ok(default),
        None => Err(missing(first(setting))),
    };
    let number = |key, expected, most: f64| {
        let number = |value: &Value| value.as_f64().filter(|x| (0.0..=most).contains(x));
        fields.first(&[key], expected, number)
    };
    let rate = |key| number(key, "a number from 0 to 1", 1.0);
    let common = match is_book {
        true => rate(DROP_RATE)?,
        false => Some(0.1), // transformers'
    };
    let rate = |setting| match rate(first(setting))?.or(common) {
        Some(rate) => Ok(rate),
        None => Err(missing(DROP_RATE)),
    };
    let flag = |setting, default| {
        let flag = fields.flag(first(setting));
        flag.map(|flag| flag.unwrap_or(default))
    };
    let eps = number(
        first("norm_eps"),
        "a finite number of at least 0",
        f32::MAX.into(),
    )?;
    Ok(GptConfig {
        vocab_size: size_or("vocab_size", gpt2.vocab_size)?,
        context_length: size_or("context_length", gpt2.context_length)?,
        emb_dim: size_or("emb_dim", gpt2.emb_dim)?,
        n_heads: size_or("n_heads", gpt2.n_heads)?,
        n_layers: size_or("n_layers", gpt2.n_layers)?,
        hidden_dim: size("hidden_dim")?,
        drop_rates: DropRates {
            emb: rate("drop_rate_emb")?,
            attention: rate("drop_rate_attn")?,
            shortcut: rate("drop_rate_shortcut")?,
        },
        qkv_bias: match is_book {
            true => fields
                .flag("qkv_bias")?
                .ok_or_else(|| missing("qkv_bias"))?,
            false => true,
        },
        tied: headless || flag("tied", !is_book)?,
        norm_eps: eps.map_or(gpt2.norm_eps, |eps| eps as f32),
        activation: activation(fields, first("activation"))?,
    })
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
fn activation(fields: &Fields<'_>, key: &str) -> Result<Activation, CheckpointError> {
    let Some(name) = fields.get(key) else {
        return Ok(Activation::default());
    };
    let mut all = ACTIVATIONS.into_iter();
    let known = all.find(|(_, names)| names.iter().any(|known| name == known));
    known.map(|(activation, _)| activation).ok_or_else(|| {
        let names = ACTIVATIONS.iter().flat_map(|(_, names)| *names);
        let names: Vec<String> = names.map(|name| format!("{name:?}")).collect();
        fields.unsupported(key, name, &names.join(", "))
    })
}

/// Returns the name of an activation in Hugging Face's configurations.
pub(crate) fn activation_name(activation: Activation) -> &'static str {
    let mut all = ACTIVATIONS.into_iter();
    let found = all.find(|(known, _)| *known == activation);
    found.expect("all are there").1[0]
}

/// Keys and values in the order in which they are written.
pub(crate) type Pairs = Vec<(&'static str, Value)>;

/// The text of a config.json of the book's layout that [`read`] makes `config` of.
pub(crate) fn book(config: &GptConfig) -> String {
    let as_in_gpt2 = pairs(&GptConfig::GPT2_124M, Layout::Book);
    let mut all = pairs(config, Layout::Book);
    all.retain(|pair| !(SELDOM.contains(&pair.0) && as_in_gpt2.contains(pair)));
    if config.drop_rates.common().is_some() {
        // The one that the book's model takes.
        all.retain(|(key, _)| !["drop_rate_attn", "drop_rate_shortcut"].contains(key));
        let rate = all.iter_mut().find(|(key, _)| *key == "drop_rate_emb");
        rate.expect("a setting of the table").0 = DROP_RATE;
    }
    text([(FORMAT, "book".into())].into_iter().chain(all))
}

/// The text of a config.json for transformers.
pub(crate) fn hugging_face(
    config: &GptConfig,
    precision: Precision,
    tokens: &SpecialTokens,
) -> String {
    let kind = [
        ("architectures", json!(["GPT2LMHeadModel"])),
        ("model_type", "gpt2".into()),
    ];
    let as_always: [(&str, Value); 5] = [
        ("reorder_and_upcast_attn", false.into()),
        ("add_cross_attention", false.into()),
        ("initializer_range", json!(0.02)),
        ("use_cache", true.into()),
        ("torch_dtype", precision.torch_dtype().into()),
    ];
    let settings = pairs(config, Layout::HuggingFace);
    let rest = as_always.into_iter().chain(tokens.pairs());
    text(kind.into_iter().chain(settings).chain(rest))
}

fn pairs(config: &GptConfig, layout: Layout) -> Pairs {
    let rates = &config.drop_rates;
    let eps = config.norm_eps.to_string().parse::<f64>(); // 1e-5 is 1e-5
    let pairs: [(&str, Value); SETTINGS.len()] = [
        ("vocab_size", config.vocab_size.into()),
        ("context_length", config.context_length.into()),
        ("emb_dim", config.emb_dim.into()),
        ("n_heads", config.n_heads.into()),
        ("n_layers", config.n_layers.into()),
        ("hidden_dim", config.hidden_dim.into()),
        ("drop_rate_emb", rates.emb.into()),
        ("drop_rate_attn", rates.attention.into()),
        ("drop_rate_shortcut", rates.shortcut.into()),
        ("qkv_bias", config.qkv_bias.into()),
        ("tied", config.tied.into()),
        ("norm_eps", eps.expect("a number that was one").into()),
        ("activation", activation_name(config.activation).into()),
    ];
    let pairs = pairs.into_iter();
    pairs
        .filter_map(|(setting, value)| Some((*keys(layout, setting).first()?, value)))
        .collect()
}

/// The text of a JSON object with these keys in their order.
pub(crate) fn text(pairs: impl IntoIterator<Item = (&'static str, Value)>) -> String {
    /// An object whose keys stay in their order.
    struct InOrder(Pairs);
    impl Serialize for InOrder {
        fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.collect_map(self.0.iter().map(|(key, value)| (key, value)))
        }
    }
    let json = serde_json::to_string_pretty(&InOrder(pairs.into_iter().collect()));
    json.expect("numbers, names and flags are JSON") + "\n"
}
