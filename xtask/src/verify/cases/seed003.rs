//! Document 003: the few figures that the blog prints.

use anyhow::Result;
use gpt::GptConfig;
use tokenizer::{
    Separators, preprocess, python_strip, split_keeping, strip_without_blanks, without_blanks,
};

use crate::verify::compare::Computed;
use crate::verify::lab::Lab;
use crate::verify::registry::Check;
use crate::verify::table::Case;

/// Its checks.
pub(in crate::verify) const SEED003: &[Check] = &[
    Check::new("seed003.split-white-space", split_white_space),
    Check::new("seed003.split-punctuation", split_punctuation),
    Check::new("seed003.filter", filter),
    Check::new("seed003.split", split),
    Check::new("seed003.strip", strip),
    Check::new("seed003.bpe-vocabulary", bpe_vocabulary),
    Check::new("seed003.configuration", configuration),
    Check::new("seed003.parameters", parameters),
];

fn split_white_space(case: &Case, _: &mut Lab) -> Result<Computed> {
    Ok(Computed::new().strings(
        "pieces",
        split_keeping(case.text("text")?, Separators::Whitespace),
    ))
}

fn split_punctuation(case: &Case, _: &mut Lab) -> Result<Computed> {
    Ok(Computed::new().strings(
        "pieces",
        split_keeping(case.text("text")?, Separators::CommasPeriods),
    ))
}

fn filter(case: &Case, _: &mut Lab) -> Result<Computed> {
    let pieces = split_keeping(case.text("text")?, Separators::CommasPeriods);
    Ok(Computed::new().strings("pieces", without_blanks(&pieces)))
}

fn split(case: &Case, _: &mut Lab) -> Result<Computed> {
    Ok(Computed::new().strings("pieces", preprocess(case.text("text")?)))
}

fn strip(case: &Case, _: &mut Lab) -> Result<Computed> {
    let pieces = case.texts("pieces")?;
    Ok(Computed::new()
        .strings("stripped", pieces.iter().map(|piece| python_strip(piece)))
        .strings("stripped and filtered", strip_without_blanks(&pieces))
        .strings("filtered", without_blanks(&pieces)))
}

fn bpe_vocabulary(_: &Case, lab: &mut Lab) -> Result<Computed> {
    Ok(Computed::new().count("entries", lab.tokenizer().vocab_size()))
}

fn configuration(_: &Case, _: &mut Lab) -> Result<Computed> {
    let config = GptConfig::GPT2_124M;
    Ok(Computed::new()
        .count("vocab_size", config.vocab_size)
        .count("context_length", config.context_length)
        .count("emb_dim", config.emb_dim)
        .count("n_heads", config.n_heads)
        .count("n_layers", config.n_layers)
        .number("drop_rate", config.drop_rates.emb)
        .text("qkv_bias", if config.qkv_bias { "True" } else { "False" }))
}

fn parameters(_: &Case, _: &mut Lab) -> Result<Computed> {
    let tied = GptConfig {
        tied: true,
        ..GptConfig::GPT2_124M
    };
    Ok(Computed::new()
        .count("untied", GptConfig::GPT2_124M.size()?.total())
        .count("tied", tied.size()?.total()))
}
