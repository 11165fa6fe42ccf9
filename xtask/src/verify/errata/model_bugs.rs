//! Bugs of the model chapters: B2, B4, B6, B10, B15.

use anyhow::{Context, Result};
use generate::generate_text_simple;
use gpt::{BadLm, GptConfig, GptModel};
use ndarray::{Array2, Array3, Axis, array};
use tensor_ops::{LayerNorm, Linear, relu};
use torch_rng::TorchRng;

use super::{Erratum, Finding, show};
use crate::verify::lab::Lab;

pub(super) const ERRATA: &[Erratum] = &[
    Erratum {
        id: "errata.b2",
        source: "document 000, line 171; document 003, section 2.1",
        what: "GPT-2 small is said to have 117M parameters (or 125M).",
        show: b2,
    },
    Erratum {
        id: "errata.b4",
        source: "document 004, lines 370 and 406",
        what: "The position embedding has vocab_size rows, and the number of positions is fixed at 4.",
        show: b4,
    },
    Erratum {
        id: "errata.b6",
        source: "document 004, In [60]",
        what: "BadLM has no causal mask: a later token changes the prediction for an earlier one.",
        show: b6,
    },
    Erratum {
        id: "errata.b10",
        source: "document 003, lines 862-877",
        what: "generate_text_simple ends without `return idx`.",
        show: b10,
    },
    Erratum {
        id: "errata.b15",
        source: "document 003, sections 4.2 and 4.6",
        what: "It asks why batch normalization is used, which it is not, and calls mebibytes MB.",
        show: b15,
    },
];

/// Small enough to be shown.
const SMALL: GptConfig = GptConfig {
    vocab_size: 50,
    context_length: 8,
    emb_dim: 16,
    n_heads: 2,
    n_layers: 2,
    ..GptConfig::GPT2_124M
};

fn b2(_: &Lab) -> Result<Vec<Finding>> {
    let size = GptConfig::GPT2_124M.size()?;
    let right = format!(
        "{} with the head tied, {} without",
        size.without_out_head(),
        size.total()
    );
    Ok(vec![Finding::new("parameters", "117M (stated)", right)])
}

/// `token_embs(x) + pos_embs(arange(positions))` in PyTorch's terms: shapes that don't broadcast are an error.
fn add_positions(tokens: &Array3<f32>, positions: usize) -> Result<Array3<f32>, String> {
    let table = Array2::<f32>::zeros((positions, tokens.shape()[2]));
    match table.broadcast(tokens.dim()) {
        Some(table) => Ok(tokens + &table),
        None => Err(format!(
            "error: {:?} and {:?} don't broadcast",
            tokens.shape(),
            table.shape()
        )),
    }
}

fn b4(_: &Lab) -> Result<Vec<Finding>> {
    let (vocab_size, context_length, emb_dim) = (50257usize, 4usize, 768usize);
    let model = BadLm::new(4, 50, 8, 8, &mut TorchRng::manual_seed(123))?;
    let three = array![[1, 2, 3], [4, 5, 6]];
    let wrong = add_positions(&model.token_embs.forward(&three), 4)
        .err()
        .context("3 tokens, 4 positions")?;
    let right = model.forward(&three)?;
    Ok(vec![
        Finding::new(
            "parameters of the position embedding",
            (vocab_size * emb_dim).to_string(),
            (context_length * emb_dim).to_string(),
        ),
        Finding::new(
            "a sequence of 3 tokens, context 4",
            wrong,
            format!("logits of shape {:?}", right.shape()),
        ),
    ])
}

fn b6(_: &Lab) -> Result<Vec<Finding>> {
    let (short, changed) = (array![[1, 2, 3, 4]], array![[1, 2, 3, 5]]);
    let bad = BadLm::new(4, 50, 16, 16, &mut TorchRng::manual_seed(123))?;
    let gpt = GptModel::new(SMALL, &mut TorchRng::manual_seed(123))?;
    let first_moves = |one: Array3<f32>, other: Array3<f32>| {
        let difference = (one - other).slice_move(ndarray::s![0, 0, ..]);
        let moved = difference
            .iter()
            .fold(0f32, |most, value| most.max(value.abs()));
        format!("{moved:.3e}")
    };
    Ok(vec![Finding::new(
        "how far the logits of token 1 move when token 4 changes (BadLM; a masked model)",
        first_moves(bad.forward(&short)?, bad.forward(&changed)?),
        first_moves(gpt.forward(&short)?, gpt.forward(&changed)?),
    )])
}

/// The document's loop: it makes the ids and drops them, and a Python function without `return` gives `None`.
fn generate_without_return(model: &GptModel, prompt: &Array2<u32>) -> Result<Option<Array2<u32>>> {
    generate_text_simple(model, prompt.clone(), 4, 8)?;
    Ok(None)
}

fn b10(_: &Lab) -> Result<Vec<Finding>> {
    let model = GptModel::new(SMALL, &mut TorchRng::manual_seed(123))?;
    let prompt = array![[1, 2, 3]];
    let wrong = generate_without_return(&model, &prompt)?;
    let right = generate_text_simple(&model, prompt, 4, 8)?;
    Ok(vec![Finding::new(
        "result of generating 4 tokens after [1, 2, 3]",
        format!("{wrong:?}"),
        format!("{:?}", right.row(0).to_vec()),
    )])
}

fn b15(_: &Lab) -> Result<Vec<Finding>> {
    let mut rng = TorchRng::manual_seed(123);
    let batch = Array2::from_shape_vec((2, 5), rng.randn(10))?;
    let out = relu(&Linear::new(5, 6, true, &mut rng).forward(&batch)); // (batch, features)
    // Batch normalization takes the mean of a feature over the batch, layer normalization that of a token over its features.
    let over_batch = LayerNorm::new(2).forward(&out.t()).reversed_axes();
    let over_features = LayerNorm::new(6).forward(&out);
    let means = |normed: &Array2<f32>| show(&normed.mean_axis(Axis(1)).unwrap_or_default());
    let size = GptConfig::GPT2_124M.size()?;
    Ok(vec![
        Finding::new(
            "mean of each row after normalization over the batch, and over the features",
            means(&over_batch),
            means(&over_features),
        ),
        Finding::new(
            "\"MB\" of the 124M model: megabytes, and the mebibytes it prints",
            format!("{:.2}", size.total() as f64 * 4.0 / 1e6),
            format!("{:.2}", size.mebibytes()),
        ),
    ])
}
