//! Document 000: the exercises of chapter 3.

use anyhow::{Context, Result};
use attention::{MultiHeadAttention, MultiHeadAttentionWrapper, SelfAttentionV1, SelfAttentionV2};
use ndarray::Axis;
use tensor_ops::Parameters;

use super::{attention_config, seeded, twice};
use crate::verify::compare::Computed;
use crate::verify::errata::column_softmax;
use crate::verify::lab::Lab;
use crate::verify::registry::Check;
use crate::verify::table::Case;

/// Its checks.
pub(in crate::verify) const SEED000: &[Check] = &[
    Check::new("seed000.in14", in14),
    Check::new("seed000.in15", in15),
    Check::new("seed000.ex3.2-columns", ex3_2_columns),
    Check::new("seed000.ex3.2", ex3_2),
    Check::new("seed000.ex3.3", ex3_3),
];

fn self_attention_v2(case: &Case) -> Result<SelfAttentionV2> {
    Ok(SelfAttentionV2::new(
        case.count("d_in")?,
        case.count("d_out")?,
        false,
        &mut seeded(case)?,
    ))
}

fn in14(case: &Case, lab: &mut Lab) -> Result<Computed> {
    let v2 = self_attention_v2(case)?;
    let v1 = SelfAttentionV1::from_v2(&v2).context("a V2 without biases")?;
    let (one, other) = (v1.forward(lab.inputs())?, v2.forward(lab.inputs())?);
    Ok(Computed::new().numbers("context", one.view()).identical(
        "v1 and v2, bit for bit",
        &one,
        &other,
    ))
}

fn in15(case: &Case, lab: &mut Lab) -> Result<Computed> {
    Ok(Computed::new().numbers(
        "context",
        self_attention_v2(case)?.forward(lab.inputs())?.view(),
    ))
}

fn ex3_2_columns(case: &Case, lab: &mut Lab) -> Result<Computed> {
    let wrapper = MultiHeadAttentionWrapper::new(attention_config(case)?, &mut seeded(case)?)?;
    let context = column_softmax::forward(&wrapper, &twice(lab.inputs()));
    Ok(Computed::new()
        .numbers("context", context.view())
        .shape("shape", context.shape()))
}

fn ex3_2(case: &Case, lab: &mut Lab) -> Result<Computed> {
    let wrapper = MultiHeadAttentionWrapper::new(attention_config(case)?, &mut seeded(case)?)?;
    let context = wrapper.forward(&twice(lab.inputs()))?;
    let first = context.index_axis(Axis(0), 0);
    Ok(Computed::new()
        .numbers("context of one sequence", first)
        .shape("shape", context.shape()))
}

fn ex3_3(case: &Case, _: &mut Lab) -> Result<Computed> {
    let module = MultiHeadAttention::zeros(attention_config(case)?)?;
    Ok(Computed::new().count("parameters", module.num_parameters()))
}
