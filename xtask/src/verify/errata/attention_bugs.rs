//! Bugs of the attention chapters: B1, B3, B5, B8, B17, B19.

use anyhow::{Context, Result};
use attention::{
    AttentionConfig, CausalAttention, MultiHeadAttentionWrapper, SelfAttentionV1, SelfAttentionV2,
    WeightInit,
};
use ndarray::{Array2, ArrayRef2, Axis, stack};
use tensor_ops::{Parameters, matmul, softmax};
use torch_rng::TorchRng;

use super::{Erratum, Finding, column_softmax, show};
use crate::verify::lab::Lab;

pub(super) const ERRATA: &[Erratum] = &[
    Erratum {
        id: "errata.b1",
        source: "document 000, exercise 3.2, lines 132-145",
        what: "The softmax ran over dim=1, so columns sum to 1 instead of rows.",
        show: b1,
    },
    Erratum {
        id: "errata.b3",
        source: "document 004, In [28], lines 196-198",
        what: "forward uses the global W_q, W_k, W_v instead of the module's own weights; equal seeds hide it.",
        show: b3,
    },
    Erratum {
        id: "errata.b5",
        source: "document 004, In [40]",
        what: "SelfAttentionV2 keeps nn.Linear's default bias, which documents 000 to 003 switch off.",
        show: b5,
    },
    Erratum {
        id: "errata.b8",
        source: "document 004, concept question 3b",
        what: "Q, K and V are said to have one size; only Q and K must.",
        show: b8,
    },
    Erratum {
        id: "errata.b17",
        source: "document 002, In [12]",
        what: "The module holds bare tensors taken from the global sa_v2: no optimizer sees them, and the seed does nothing.",
        show: b17,
    },
    Erratum {
        id: "errata.b19",
        source: "document 001, comments at lines 696-699 and 837-840",
        what: "More tokens than the context length fail inside the mask, which names neither.",
        show: b19,
    },
];

fn b1(lab: &Lab) -> Result<Vec<Finding>> {
    let config = AttentionConfig {
        d_in: 3,
        d_out: 1,
        context_length: 6,
        dropout: 0.0,
        num_heads: 2,
        qkv_bias: false,
    };
    let wrapper = MultiHeadAttentionWrapper::new(config, &mut TorchRng::manual_seed(123))?;
    let x = stack(Axis(0), &[lab.inputs().view()])?; // (1, n_tokens, d_in)
    let (wrong, right) = (column_softmax::forward(&wrapper, &x), wrapper.forward(&x)?);
    let row = |context: &ndarray::Array3<f32>, token: usize| {
        show(context.slice(ndarray::s![0, token, ..]))
    };
    Ok(vec![
        Finding::new("context of the first token", row(&wrong, 0), row(&right, 0)),
        Finding::new("context of the last token", row(&wrong, 5), row(&right, 5)),
    ])
}

/// The worksheet's forward: whatever the module holds, the weights are the caller's globals.
fn forward_with_globals(
    _module: &SelfAttentionV1,
    globals: &SelfAttentionV1,
    x: &ArrayRef2<f32>,
) -> Array2<f32> {
    let (q, k, v) = (
        matmul(x, &globals.w_query),
        matmul(x, &globals.w_key),
        matmul(x, &globals.w_value),
    );
    let weights = softmax(&(matmul(&q, &k.t()) / (k.ncols() as f32).sqrt()), Axis(1));
    matmul(&weights, &v)
}

fn b3(lab: &Lab) -> Result<Vec<Finding>> {
    let v1 = |seed| SelfAttentionV1::new(3, 2, WeightInit::Randn, &mut TorchRng::manual_seed(seed));
    let (globals, module) = (v1(123), v1(456));
    let wrong = forward_with_globals(&module, &globals, lab.inputs());
    let right = module.forward(lab.inputs())?;
    Ok(vec![Finding::new(
        "first context of a module from seed 456, globals from seed 123",
        show(wrong.row(0)),
        show(right.row(0)),
    )])
}

fn b5(lab: &Lab) -> Result<Vec<Finding>> {
    let v2 = |bias| SelfAttentionV2::new(3, 2, bias, &mut TorchRng::manual_seed(123));
    let (biased, plain) = (v2(true), v2(false));
    Ok(vec![
        Finding::new(
            "parameters",
            biased.num_parameters().to_string(),
            plain.num_parameters().to_string(),
        ),
        Finding::new(
            "first context, seed 123",
            show(biased.forward(lab.inputs())?.row(0)),
            show(plain.forward(lab.inputs())?.row(0)),
        ),
    ])
}

fn b8(lab: &Lab) -> Result<Vec<Finding>> {
    let mut rng = TorchRng::manual_seed(123);
    let mut weight = |d_out: usize| Array2::from_shape_vec((3, d_out), rng.randn(3 * d_out));
    let (w_query, w_key, w_value) = (weight(2)?, weight(2)?, weight(5)?);
    let (q, k, v) = (
        matmul(lab.inputs(), &w_query),
        matmul(lab.inputs(), &w_key),
        matmul(lab.inputs(), &w_value),
    );
    let context = matmul(&softmax(&matmul(&q, &k.t()), Axis(1)), &v);
    Ok(vec![Finding::new(
        "size of a value, with queries and keys of 2 numbers",
        format!("{} (stated: all three are equal)", q.ncols()),
        format!("{}: the context is {:?}", v.ncols(), context.shape()),
    )])
}

/// The notes' module: its tensors are no parameters.
struct BareTensors(SelfAttentionV1);

impl Parameters for BareTensors {
    fn visit<'a>(&'a self, _: &str, _: &mut dyn FnMut(String, ndarray::ArrayViewD<'a, f32>)) {}
    fn visit_mut<'a>(
        &'a mut self,
        _: &str,
        _: &mut dyn FnMut(String, ndarray::ArrayViewMutD<'a, f32>),
    ) {
    }
}

fn b17(lab: &Lab) -> Result<Vec<Finding>> {
    let v2 = SelfAttentionV2::new(3, 2, false, &mut TorchRng::manual_seed(789));
    let v1 = SelfAttentionV1::from_v2(&v2).context("a V2 without biases")?;
    let bare = BareTensors(v1.clone());
    let reseeded = SelfAttentionV1::new(3, 2, WeightInit::Rand, &mut TorchRng::manual_seed(123));
    Ok(vec![
        Finding::new(
            "numbers that an optimizer sees",
            bare.num_parameters().to_string(),
            v1.num_parameters().to_string(),
        ),
        Finding::new(
            "first context after manual_seed(123): the copied weights, and weights drawn from that seed",
            show(bare.0.forward(lab.inputs())?.row(0)),
            show(reseeded.forward(lab.inputs())?.row(0)),
        ),
    ])
}

/// `scores.masked_fill(mask[:n, :n], -inf)` in Python's terms: a slice past the end is cut short, then the shapes clash.
fn mask_scores(n_tokens: usize, context_length: usize) -> Result<(), String> {
    let rows = n_tokens.min(context_length);
    let mask = Array2::<f32>::zeros((rows, rows));
    match mask.broadcast((1, n_tokens, n_tokens)) {
        Some(_) => Ok(()),
        None => Err(format!(
            "shape ({rows}, {rows}) does not broadcast to (1, {n_tokens}, {n_tokens})"
        )),
    }
}

fn b19(_: &Lab) -> Result<Vec<Finding>> {
    let config = AttentionConfig {
        d_in: 3,
        d_out: 2,
        context_length: 6,
        dropout: 0.0,
        num_heads: 1,
        qkv_bias: false,
    };
    let attention = CausalAttention::new(config, &mut TorchRng::manual_seed(123))?;
    let wrong = mask_scores(7, 6).err().context("the mask is too small")?;
    let right = attention
        .forward(&ndarray::Array3::zeros((1, 7, 3)))
        .err()
        .context("7 tokens are too many")?;
    Ok(vec![Finding::new(
        "7 tokens with a context of 6",
        wrong,
        right.to_string(),
    )])
}
