//! Bugs of the worksheet's data and random numbers: B7, B9.

use anyhow::{Context, Result};
use attention::{SelfAttentionV1, WeightInit};
use dataloader::{Corpus, GptDataset};
use tokenizer::AllowedSpecial;
use torch_rng::TorchRng;

use super::{Erratum, Finding, show};
use crate::verify::lab::Lab;

pub(super) const ERRATA: &[Erratum] = &[
    Erratum {
        id: "errata.b7",
        source: "document 004, In [55]",
        what: "encode(text) without allowed_special refuses a text with <|endoftext|>; the book allows it.",
        show: b7,
    },
    Erratum {
        id: "errata.b9",
        source: "document 004, lines 99-106 and 179; In [55]",
        what: "A matrix is cut off, two tensors are called unseeded, and a short text gives no windows without a word.",
        show: b9,
    },
];

fn b7(lab: &Lab) -> Result<Vec<Finding>> {
    let text = "one <|endoftext|> two";
    let wrong = lab
        .tokenizer()
        .encode(text, AllowedSpecial::None)
        .err()
        .context("a special token is refused")?;
    let right = lab.tokenizer().encode(text, AllowedSpecial::All)?;
    Ok(vec![Finding::new(
        "ids of a text with <|endoftext|>",
        format!("error: {wrong}"),
        format!("{right:?}"),
    )])
}

/// The worksheet's windows: as many as `range(0, len(ids) - context_length, stride)` has, with no check.
fn windows_unchecked(tokens: usize, context_length: usize, stride: usize) -> usize {
    tokens.saturating_sub(context_length).div_ceil(stride)
}

fn b9(lab: &Lab) -> Result<Vec<Finding>> {
    let fresh = TorchRng::manual_seed(123).randn(20);
    let mut rng = TorchRng::manual_seed(123);
    // In [29] draws three matrices of 6, an earlier run of In [27] draws 20 and 20.
    for size in [6, 6, 6, 20] {
        rng.randn(size);
    }
    rng.rand(20);
    let printed = rng.randn(20);
    let v1 = SelfAttentionV1::new(3, 2, WeightInit::Randn, &mut TorchRng::manual_seed(123));
    let (_, weights) = v1.forward_with_weights(lab.inputs())?;
    let short = Corpus::from_ids(vec![1, 2, 3]);
    let refused = GptDataset::new(&short, 4, 1)
        .err()
        .context("a short text is refused")?;
    Ok(vec![
        Finding::new(
            "first row of the matrix A",
            "cut off at its first bracket (as printed)",
            show(weights.row(0)),
        ),
        Finding::new(
            "first numbers of the \"unseeded\" randn: seed 123 afresh, and seed 123 after the cells that ran before",
            show(&fresh[..5]),
            show(&printed[..5]),
        ),
        Finding::new(
            "three tokens, context 4",
            format!("{} windows, no error", windows_unchecked(3, 4, 1)),
            format!("error: {refused}"),
        ),
    ])
}
