//! Document 002: self-attention with weights, step by step.

use anyhow::{Context, Result};
use attention::{SelfAttentionV1, SelfAttentionV2, WeightInit};
use tensor_ops::matmul;

use super::seed001::SecondQuery;
use super::seeded;
use crate::verify::compare::Computed;
use crate::verify::lab::Lab;
use crate::verify::registry::Check;
use crate::verify::table::Case;

/// Its checks.
pub(in crate::verify) const SEED002: &[Check] = &[
    Check::new("seed002.in1", in1),
    Check::new("seed002.in2", in2),
    Check::new("seed002.in3", in3),
    Check::new("seed002.in4", in4),
    Check::new("seed002.in5", in5),
    Check::new("seed002.in6", in6),
    Check::new("seed002.in7", in7),
    Check::new("seed002.in9", in9),
    Check::new("seed002.in11", in11),
    Check::new("seed002.in12", in12),
];

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

fn second_query(case: &Case, lab: &Lab) -> Result<SecondQuery> {
    Ok(SecondQuery::of(&v1(case)?, lab.inputs()))
}

fn in1(_: &Case, lab: &mut Lab) -> Result<Computed> {
    Ok(Computed::new().numbers("x_2", lab.inputs().row(1)))
}

fn in2(case: &Case, _: &mut Lab) -> Result<Computed> {
    Ok(Computed::new().numbers("W_query", v1(case)?.w_query.view()))
}

fn in3(case: &Case, lab: &mut Lab) -> Result<Computed> {
    Ok(Computed::new().numbers("query", second_query(case, lab)?.query.view()))
}

fn in4(case: &Case, lab: &mut Lab) -> Result<Computed> {
    let v1 = v1(case)?;
    Ok(Computed::new()
        .numbers("queries", matmul(lab.inputs(), &v1.w_query).view())
        .shape("keys", matmul(lab.inputs(), &v1.w_key).shape()))
}

fn in5(case: &Case, lab: &mut Lab) -> Result<Computed> {
    let scores = second_query(case, lab)?.scores;
    Ok(Computed::new()
        .number("score", scores[1])
        .numbers("scores", scores.view()))
}

fn in6(case: &Case, lab: &mut Lab) -> Result<Computed> {
    let weights = second_query(case, lab)?.weights;
    Ok(Computed::new()
        .numbers("weights", weights.view())
        .number("sum", weights.sum()))
}

fn in7(case: &Case, lab: &mut Lab) -> Result<Computed> {
    Ok(Computed::new().numbers("context", second_query(case, lab)?.context.view()))
}

fn in9(case: &Case, lab: &mut Lab) -> Result<Computed> {
    let context = v1(case)?.forward(lab.inputs())?;
    Ok(Computed::new()
        .numbers("inputs", lab.inputs().view())
        .numbers("context", context.view()))
}

fn in11(case: &Case, lab: &mut Lab) -> Result<Computed> {
    let context = v2(case)?.forward(lab.inputs())?;
    Ok(Computed::new()
        .numbers("inputs", lab.inputs().view())
        .numbers("context", context.view()))
}

fn in12(case: &Case, lab: &mut Lab) -> Result<Computed> {
    let v1 = SelfAttentionV1::from_v2(&v2(case)?).context("a V2 without biases")?;
    let context = v1.forward(lab.inputs())?;
    Ok(Computed::new()
        .numbers("inputs", lab.inputs().view())
        .numbers("context", context.view()))
}
