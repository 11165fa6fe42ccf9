//! Document 004: the course worksheet.

use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};

use anyhow::{Context, Result};
use attention::{SelfAttentionV1, SelfAttentionV2, WeightInit};
use dataloader::{DataLoader, DataLoaderConfig, create_dataloader_v1};
use ndarray::{Array2, ArrayD, Axis, IxDyn, array, s};
use tensor_ops::{Linear, matmul, softmax};

use super::{argmax, randn, seeded};
use crate::verify::compare::Computed;
use crate::verify::lab::Lab;
use crate::verify::registry::{Check, Model};
use crate::verify::table::Case;

/// Its checks.
pub(in crate::verify) const SEED004: &[Check] = &[
    Check::new("seed004.concepts", concepts),
    Check::new("seed004.in8", in8),
    Check::new("seed004.in27", in27),
    Check::new("seed004.in29", in29),
    Check::new("seed004.in31", in31),
    Check::new("seed004.in33", in33),
    Check::new("seed004.in49", in49),
    Check::on("seed004.in55", Model::BadLm, in55),
    Check::on("seed004.in61", Model::BadLm, in61),
];

/// The shape of a product, or `None` where `matmul` refuses: it panics, as ndarray does, on shapes that don't fit.
fn product_shape(a: [usize; 2], b: [usize; 2]) -> Option<Vec<usize>> {
    let hook = take_hook();
    set_hook(Box::new(|_| {})); // the panic is expected: keep it off the report
    let product = catch_unwind(AssertUnwindSafe(|| {
        matmul(&Array2::zeros(a), &Array2::zeros(b))
    }));
    set_hook(hook);
    product.ok().map(|product| product.shape().to_vec())
}

fn concepts(_: &Case, _: &mut Lab) -> Result<Computed> {
    let dot = array![1f32, 2.0, 3.0].dot(&array![4.0, 5.0, 6.0]);
    let exists = |shape: Option<Vec<usize>>| shape.context("this product exists");
    let none =
        |shape: Option<Vec<usize>>| shape.map_or("none".to_owned(), |shape| format!("{shape:?}"));
    Ok(Computed::new()
        .count("dot product", dot as usize)
        .shape("2a", &exists(product_shape([8, 5], [5, 7]))?)
        .text("2b", none(product_shape([8, 6], [3, 4])))
        .text("2c", none(product_shape([8, 8], [2, 8])))
        .shape("2d", &exists(product_shape([2, 8], [8, 8]))?)
        .shape("2e", &exists(product_shape([4, 6], [6, 4]))?))
}

fn in8(_: &Case, _: &mut Lab) -> Result<Computed> {
    let zeros = |rows, columns| Array2::<f32>::zeros((rows, columns));
    let product = matmul(
        &array![[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]],
        &array![[3.0], [4.0], [1.0]],
    );
    let (d, e, g) = (zeros(40, 75), zeros(75, 25), zeros(25, 83));
    let (m1, m2) = (zeros(35, 50), zeros(35, 50));
    let d_e = matmul(&d, &e);
    Ok(Computed::new()
        .numbers("product", product.view())
        .shape("d @ e", d_e.shape())
        .shape("d @ e @ g", matmul(&d_e, &g).shape())
        .shape("m1 @ m2.T", matmul(&m1, &m2.t()).shape()))
}

fn in27(case: &Case, _: &mut Lab) -> Result<Computed> {
    let mut rng = seeded(case)?;
    for _ in 0..3 {
        rng.randn(6); // In [29]: W_q, W_k, W_v
    }
    rng.randn(20); // In [27] itself, run once before the run that is printed
    rng.rand(20);
    let normal = randn((4, 5), 20, &mut rng);
    let uniform = Array2::from_shape_vec((4, 5), rng.rand(20))?;
    Ok(Computed::new()
        .numbers("randn", normal.view())
        .numbers("rand", uniform.view()))
}

fn v1(case: &Case) -> Result<SelfAttentionV1> {
    let (d_in, d_out) = (case.count("d_in")?, case.count("d_out")?);
    Ok(SelfAttentionV1::new(
        d_in,
        d_out,
        WeightInit::Randn,
        &mut seeded(case)?,
    ))
}

fn in29(case: &Case, lab: &mut Lab) -> Result<Computed> {
    let v1 = v1(case)?;
    let q = matmul(lab.inputs(), &v1.w_query); // (n_tokens, d_out)
    let k = matmul(lab.inputs(), &v1.w_key);
    let v = matmul(lab.inputs(), &v1.w_value);
    let scores = matmul(&q, &k.t()); // (n_tokens, n_tokens)
    let a = softmax(&(&scores / (q.ncols() as f32).sqrt()), Axis(1));
    Ok(Computed::new()
        .numbers("Q", q.view())
        .numbers("K", k.view())
        .numbers("V", v.view())
        .numbers("QK^T", scores.view())
        .numbers("A, recovered", a.view())
        .number("sum of row 0 of A, recovered", a.row(0).sum())
        .numbers("context, as in In [31]", matmul(&a, &v).view()))
}

fn in31(case: &Case, lab: &mut Lab) -> Result<Computed> {
    Ok(Computed::new().numbers("context", v1(case)?.forward(lab.inputs())?.view()))
}

fn in33(case: &Case, _: &mut Lab) -> Result<Computed> {
    let layer = Linear::new(
        case.count("d_in")?,
        case.count("d_out")?,
        true,
        &mut seeded(case)?,
    );
    let shape = |shape: &[usize]| layer.forward(&ArrayD::zeros(IxDyn(shape))).shape().to_vec();
    Ok(Computed::new()
        .shape("1", &shape(&[10]))
        .shape("2", &shape(&[8, 10]))
        .shape("3", &shape(&[2, 4, 10]))
        .shape("7", &shape(&[5, 5, 5, 5, 5, 5, 10])))
}

fn in49(case: &Case, _: &mut Lab) -> Result<Computed> {
    let mut rng = seeded(case)?;
    let (d_in, d_out) = (case.count("d_in")?, case.count("d_out")?);
    let x = randn((40, 50, d_in), 40 * 50 * d_in, &mut rng);
    let attention = SelfAttentionV2::new(d_in, d_out, true, &mut rng);
    let second = x.slice(s![..28, .., ..]);
    Ok(Computed::new()
        .shape("batch of 40", attention.forward_batch(&x)?.shape())
        .shape("batch of 28", attention.forward_batch(&second)?.shape()))
}

/// The worksheet's `my_batch`: windows of its sentence, shuffled, the last batch dropped.
fn my_batch(case: &Case, lab: &Lab) -> Result<DataLoader> {
    let config = DataLoaderConfig {
        batch_size: case.count("batch_size")?,
        max_length: case.count("context_length")?,
        stride: case.count("stride")?,
        shuffle: true,
        drop_last: true,
    };
    Ok(create_dataloader_v1(
        case.text("text")?,
        lab.tokenizer(),
        config,
    )?)
}

fn in55(case: &Case, lab: &mut Lab) -> Result<Computed> {
    let loader = my_batch(case, lab)?;
    let mut computed = Computed::new().count("windows", loader.dataset().len());
    let model = lab.bad_lm()?; // its parts are this exercise's embeddings and attention
    for (index, batch) in loader.epoch(&mut seeded(case)?).enumerate() {
        let embedding = model.token_embs.forward(&batch.input_ids) + &model.pos_embs.weight;
        let context = model.att.forward_batch(&embedding)?; // (batch, n_tokens, att_dim)
        computed = computed.shape(&format!("batch {index}"), context.shape());
    }
    Ok(computed)
}

fn in61(case: &Case, lab: &mut Lab) -> Result<Computed> {
    let loader = my_batch(case, lab)?;
    let model = lab.bad_lm()?;
    let mut computed = Computed::new();
    let mut outside = 0;
    for (index, batch) in loader.epoch(&mut seeded(case)?).enumerate() {
        let predicted = argmax(&model.forward(&batch.input_ids)?)?; // (batch, n_tokens)
        outside += predicted.iter().filter(|&&id| id >= 50257).count();
        computed = computed.shape(&format!("batch {index}"), predicted.shape());
    }
    Ok(computed.count("ids at or over 50257", outside))
}
