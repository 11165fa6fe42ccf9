//! Document 001: chapter 3, cell by cell, from dot products to multi-head attention.

use anyhow::Result;
use attention::{
    CausalAttention, MultiHeadAttention, MultiHeadAttentionWrapper, SelfAttentionV1,
    SelfAttentionV2, WeightInit, attention_scores, attention_weights, context_vectors,
    normalize_by_sum,
};
use ndarray::{Array1, Array2, Axis, s};
use tensor_ops::{Dropout, matmul, matmul_batched, softmax, softmax_naive};
use torch_rng::TorchRng;

use super::{attention_config, row_sums, seeded, twice};
use crate::verify::compare::Computed;
use crate::verify::lab::Lab;
use crate::verify::registry::Check;
use crate::verify::table::Case;

/// Its checks.
pub(in crate::verify) const SEED001: &[Check] = &[
    Check::new("seed001.in3", in3),
    Check::new("seed001.in4", in4),
    Check::new("seed001.in5", in5),
    Check::new("seed001.in6", in6),
    Check::new("seed001.in7", in7),
    Check::new("seed001.in8", in8),
    Check::new("seed001.in9", in9),
    Check::new("seed001.in10", in10),
    Check::new("seed001.in11", in11),
    Check::new("seed001.in12", in12),
    Check::new("seed001.in13", in13),
    Check::new("seed001.in14", in14),
    Check::new("seed001.in17", in17),
    Check::new("seed001.in18", in18),
    Check::new("seed001.in19", in19),
    Check::new("seed001.in20", in20),
    Check::new("seed001.in21", in21),
    Check::new("seed001.in22", in22),
    Check::new("seed001.in23", in23),
    Check::new("seed001.in24", in24),
    Check::new("seed001.in25", in25),
    Check::new("seed001.in26", in26),
    Check::new("seed001.in27", in27),
    Check::new("seed001.in28", in28),
    Check::new("seed001.in29", in29),
    Check::new("seed001.in30", in30),
    Check::new("seed001.in31", in31),
    Check::new("seed001.in32", in32),
    Check::new("seed001.in33", in33),
    Check::new("seed001.in34", in34),
    Check::new("seed001.in35", in35),
    Check::new("seed001.in36", in36),
    Check::new("seed001.in37", in37),
    Check::new("seed001.in38", in38),
];

// Section 3.3: attention without weights. "Token 2" is the row with index 1.

fn scores_2(lab: &Lab) -> Array1<f32> {
    let query = lab.inputs().row(1);
    lab.inputs()
        .outer_iter()
        .map(|token| token.dot(&query))
        .collect()
}

fn in3(_: &Case, lab: &mut Lab) -> Result<Computed> {
    Ok(Computed::new().numbers("scores", scores_2(lab).view()))
}

fn in4(_: &Case, lab: &mut Lab) -> Result<Computed> {
    let (first, query) = (lab.inputs().row(0), lab.inputs().row(1));
    let mut sum = 0f32;
    for (one, other) in first.iter().zip(query) {
        sum += one * other;
    }
    Ok(Computed::new()
        .number("loop", sum)
        .number("dot", first.dot(&query)))
}

fn in5(_: &Case, lab: &mut Lab) -> Result<Computed> {
    let weights = normalize_by_sum(&scores_2(lab));
    Ok(Computed::new()
        .numbers("weights", weights.view())
        .number("sum", weights.sum()))
}

fn in6(_: &Case, lab: &mut Lab) -> Result<Computed> {
    let weights = softmax_naive(&scores_2(lab), Axis(0));
    Ok(Computed::new()
        .numbers("weights", weights.view())
        .number("sum", weights.sum()))
}

fn in7(_: &Case, lab: &mut Lab) -> Result<Computed> {
    let weights = softmax(&scores_2(lab), Axis(0));
    Ok(Computed::new()
        .numbers("weights", weights.view())
        .number("sum", weights.sum()))
}

fn context_2(lab: &Lab) -> Array1<f32> {
    let weights = softmax(&scores_2(lab), Axis(0));
    let mut context = Array1::zeros(lab.inputs().ncols());
    for (&weight, token) in weights.iter().zip(lab.inputs().outer_iter()) {
        context.scaled_add(weight, &token);
    }
    context
}

fn in8(_: &Case, lab: &mut Lab) -> Result<Computed> {
    Ok(Computed::new().numbers("context", context_2(lab).view()))
}

fn in9(_: &Case, lab: &mut Lab) -> Result<Computed> {
    let x = lab.inputs();
    let n_tokens = x.nrows();
    let scores = Array2::from_shape_fn((n_tokens, n_tokens), |(i, j)| x.row(i).dot(&x.row(j)));
    Ok(Computed::new().numbers("scores", scores.view()))
}

fn in10(_: &Case, lab: &mut Lab) -> Result<Computed> {
    Ok(Computed::new().numbers("scores", attention_scores(lab.inputs()).view()))
}

fn in11(_: &Case, lab: &mut Lab) -> Result<Computed> {
    Ok(Computed::new().numbers(
        "weights",
        attention_weights(&attention_scores(lab.inputs())).view(),
    ))
}

fn in12(case: &Case, lab: &mut Lab) -> Result<Computed> {
    let printed_row: Vec<f64> = case.numbers("row")?;
    let weights = attention_weights(&attention_scores(lab.inputs()));
    Ok(Computed::new()
        .number("sum of the printed row 2", printed_row.iter().sum::<f64>())
        .series("row sums", row_sums(&weights)))
}

fn in13(_: &Case, lab: &mut Lab) -> Result<Computed> {
    let weights = attention_weights(&attention_scores(lab.inputs()));
    Ok(Computed::new().numbers("context", context_vectors(&weights, lab.inputs()).view()))
}

fn in14(_: &Case, lab: &mut Lab) -> Result<Computed> {
    Ok(Computed::new().numbers("context", context_2(lab).view()))
}

// Section 3.4: attention with weights, step by step, then as classes.

fn v1(case: &Case) -> Result<SelfAttentionV1> {
    let (d_in, d_out) = (case.count("d_in")?, case.count("d_out")?);
    Ok(SelfAttentionV1::new(
        d_in,
        d_out,
        WeightInit::Rand,
        &mut seeded(case)?,
    ))
}

fn v2(case: &Case) -> Result<SelfAttentionV2> {
    Ok(SelfAttentionV2::new(
        case.count("d_in")?,
        case.count("d_out")?,
        false,
        &mut seeded(case)?,
    ))
}

/// The second query against all keys: scores, scaled softmax, context vector.
pub(super) struct SecondQuery {
    pub(super) query: Array1<f32>,
    pub(super) scores: Array1<f32>,
    pub(super) weights: Array1<f32>,
    pub(super) context: Array1<f32>,
}

impl SecondQuery {
    pub(super) fn of(v1: &SelfAttentionV1, x: &Array2<f32>) -> Self {
        let query = matmul(&x.slice(s![1..2, ..]), &v1.w_query); // (1, d_out)
        let keys = matmul(x, &v1.w_key); // (n_tokens, d_out)
        let scores = matmul(&query, &keys.t()); // (1, n_tokens)
        let weights = softmax(&(&scores / (keys.ncols() as f32).sqrt()), Axis(1));
        let context = matmul(&weights, &matmul(x, &v1.w_value)); // (1, d_out)
        let first = |matrix: Array2<f32>| matrix.row(0).to_owned();
        Self {
            query: first(query),
            scores: first(scores),
            weights: first(weights),
            context: first(context),
        }
    }
}

fn second_query(case: &Case, lab: &Lab) -> Result<SecondQuery> {
    Ok(SecondQuery::of(&v1(case)?, lab.inputs()))
}

fn in17(case: &Case, lab: &mut Lab) -> Result<Computed> {
    Ok(Computed::new().numbers("query", second_query(case, lab)?.query.view()))
}

fn in18(case: &Case, lab: &mut Lab) -> Result<Computed> {
    let v1 = v1(case)?;
    Ok(Computed::new()
        .shape("keys", matmul(lab.inputs(), &v1.w_key).shape())
        .shape("values", matmul(lab.inputs(), &v1.w_value).shape()))
}

fn in19(case: &Case, lab: &mut Lab) -> Result<Computed> {
    let keys = matmul(lab.inputs(), &v1(case)?.w_key);
    Ok(Computed::new().number("score", second_query(case, lab)?.query.dot(&keys.row(1))))
}

fn in20(case: &Case, lab: &mut Lab) -> Result<Computed> {
    Ok(Computed::new().numbers("scores", second_query(case, lab)?.scores.view()))
}

fn in21(case: &Case, lab: &mut Lab) -> Result<Computed> {
    Ok(Computed::new().numbers("weights", second_query(case, lab)?.weights.view()))
}

fn in22(case: &Case, lab: &mut Lab) -> Result<Computed> {
    Ok(Computed::new().numbers("context", second_query(case, lab)?.context.view()))
}

fn in23(case: &Case, lab: &mut Lab) -> Result<Computed> {
    Ok(Computed::new().numbers("context", v1(case)?.forward(lab.inputs())?.view()))
}

fn in24(case: &Case, lab: &mut Lab) -> Result<Computed> {
    Ok(Computed::new().numbers("context", v2(case)?.forward(lab.inputs())?.view()))
}

// Section 3.5: the causal mask and dropout.

fn weights(case: &Case, lab: &Lab) -> Result<Array2<f32>> {
    Ok(v2(case)?.forward_with_weights(lab.inputs())?.1)
}

fn lower_triangle(n_tokens: usize) -> Array2<f32> {
    Array2::from_shape_fn(
        (n_tokens, n_tokens),
        |(query, key)| if key <= query { 1.0 } else { 0.0 },
    )
}

fn renormalised(case: &Case, lab: &Lab) -> Result<Array2<f32>> {
    let weights = weights(case, lab)?;
    let masked = &weights * &lower_triangle(weights.nrows());
    let sums = masked.sum_axis(Axis(1)).insert_axis(Axis(1)); // (n_tokens, 1)
    Ok(masked / sums)
}

fn in25(case: &Case, lab: &mut Lab) -> Result<Computed> {
    Ok(Computed::new().numbers("weights", weights(case, lab)?.view()))
}

fn in26(case: &Case, _: &mut Lab) -> Result<Computed> {
    Ok(Computed::new().numbers("mask", lower_triangle(case.count("n_tokens")?).view()))
}

fn in27(case: &Case, lab: &mut Lab) -> Result<Computed> {
    let weights = weights(case, lab)?;
    let masked = &weights * &lower_triangle(weights.nrows());
    Ok(Computed::new().numbers("weights", masked.view()))
}

fn in28(case: &Case, lab: &mut Lab) -> Result<Computed> {
    Ok(Computed::new().numbers("weights", renormalised(case, lab)?.view()))
}

fn in29(case: &Case, lab: &mut Lab) -> Result<Computed> {
    let v2 = v2(case)?;
    let (queries, keys) = (
        v2.w_query.forward(lab.inputs()),
        v2.w_key.forward(lab.inputs()),
    );
    let mut scores = matmul(&queries, &keys.t());
    for (query, mut row) in scores.outer_iter_mut().enumerate() {
        row.slice_mut(s![query + 1..]).fill(f32::NEG_INFINITY);
    }
    Ok(Computed::new().numbers("scores", scores.view()))
}

/// `CausalAttention` from the same seed has the same weights, so its own attention weights are In \[30\]'s.
fn causal_weights(case: &Case, lab: &Lab, rng: &mut TorchRng) -> Result<Array2<f32>> {
    let config = attention::AttentionConfig {
        d_in: case.count("d_in")?,
        d_out: case.count("d_out")?,
        context_length: lab.inputs().nrows(),
        dropout: 0.0,
        num_heads: 1,
        qkv_bias: false,
    };
    let x = lab.inputs().view().insert_axis(Axis(0)); // (1, n_tokens, d_in)
    Ok(CausalAttention::new(config, rng)?
        .attention_weights(&x)?
        .index_axis_move(Axis(0), 0))
}

fn in30(case: &Case, lab: &mut Lab) -> Result<Computed> {
    Ok(Computed::new()
        .numbers(
            "weights",
            causal_weights(case, lab, &mut seeded(case)?)?.view(),
        )
        .numbers(
            "renormalised weights, In [28]",
            renormalised(case, lab)?.view(),
        ))
}

fn in31(case: &Case, _: &mut Lab) -> Result<Computed> {
    let mut rng = seeded(case)?.with_build(case.text("build")?.parse()?);
    let (dropped, _) = Dropout {
        p: case.number("p")?,
    }
    .forward_train(Array2::ones((6, 6)), &mut rng);
    Ok(Computed::new().numbers("dropped", dropped.view()))
}

fn in32(case: &Case, lab: &mut Lab) -> Result<Computed> {
    let weights = causal_weights(
        case,
        lab,
        &mut TorchRng::manual_seed(case.count("weights_seed")? as u64),
    )?;
    let mut rng = seeded(case)?.with_build(case.text("build")?.parse()?);
    let (dropped, _) = Dropout {
        p: case.number("p")?,
    }
    .forward_train(weights, &mut rng);
    Ok(Computed::new().numbers("dropped", dropped.view()))
}

fn in33(_: &Case, lab: &mut Lab) -> Result<Computed> {
    Ok(Computed::new().shape("shape", twice(lab.inputs()).shape()))
}

fn in34(case: &Case, lab: &mut Lab) -> Result<Computed> {
    let context = CausalAttention::new(attention_config(case)?, &mut seeded(case)?)?
        .forward(&twice(lab.inputs()))?;
    Ok(Computed::new()
        .numbers("context", context.view())
        .shape("shape", context.shape()))
}

// Section 3.6: several heads.

fn in35(case: &Case, lab: &mut Lab) -> Result<Computed> {
    let wrapper = MultiHeadAttentionWrapper::new(attention_config(case)?, &mut seeded(case)?)?;
    let context = wrapper.forward(&twice(lab.inputs()))?;
    Ok(Computed::new()
        .numbers("context", context.view())
        .shape("shape", context.shape()))
}

fn in36(case: &Case, lab: &mut Lab) -> Result<Computed> {
    let module = MultiHeadAttention::new(attention_config(case)?, &mut seeded(case)?)?;
    let context = module.forward(&twice(lab.inputs()))?;
    Ok(Computed::new()
        .numbers("context", context.view())
        .shape("shape", context.shape()))
}

fn in37(_: &Case, lab: &mut Lab) -> Result<Computed> {
    let a = lab.four_dimensional(); // (batch, n_heads, n_tokens, head_dim)
    let product = matmul_batched(a, &a.view().permuted_axes([0, 1, 3, 2]));
    Ok(Computed::new().numbers("product", product.view()))
}

fn in38(_: &Case, lab: &mut Lab) -> Result<Computed> {
    let a = lab.four_dimensional();
    let head = |head: usize| {
        let tokens = a.slice(s![0, head, .., ..]); // (n_tokens, head_dim)
        matmul(&tokens, &tokens.t())
    };
    let (first, second) = (head(0), head(1));
    let together = matmul_batched(a, &a.view().permuted_axes([0, 1, 3, 2]));
    Ok(Computed::new()
        .numbers("first head", first.view())
        .numbers("second head", second.view())
        .identical(
            "as one product of all heads, bit for bit",
            first.iter().chain(&second),
            &together,
        ))
}
