//! Chapter 4: the GPT model and its parts.

use anyhow::Result;
use generate::generate_text_simple;
use gpt::{
    DropRates, ExampleDeepNeuralNetwork, FeedForward, GptConfig, GptModel, TransformerBlock,
};
use ndarray::{Array2, Array3, ArrayRef3, Axis, array};
use tensor_ops::{LayerNorm, Linear, Parameters, relu};
use tokenizer::AllowedSpecial;

use super::{ids, randn, seeded};
use crate::verify::compare::Computed;
use crate::verify::lab::Lab;
use crate::verify::registry::{Check, Model};
use crate::verify::table::Case;

/// Its checks.
pub(in crate::verify) const CH04: &[Check] = &[
    Check::new("ch04.n15", n15),
    Check::on("ch04.n16", Model::Dummy, n16),
    Check::on("ch04.n17", Model::Dummy, n16),
    Check::new("ch04.n22", n22),
    Check::new("ch04.n28", n28),
    Check::new("ch04.n35", n35),
    Check::new("ch04.n47", n47),
    Check::new("ch04.n55", n55),
    Check::new("ch04.n57", n55),
    Check::new("ch04.n64", n64),
    Check::on("ch04.n72", Model::Gpt1024, n72),
    Check::on("ch04.n74", Model::Gpt1024, n74),
    Check::on("ch04.n90", Model::Gpt1024, n90),
    Check::on("ch04.gpt.py", Model::Gpt1024, gpt_py),
    Check::new("ch04.ex4.1", ex4_1),
    Check::new("ch04.ex4.2", ex4_2),
    Check::new("ch04.ex4.3", ex4_3),
];

fn n15(case: &Case, lab: &mut Lab) -> Result<Computed> {
    let mut batch = Vec::new();
    for text in case.texts("texts")? {
        batch.extend(lab.tokenizer().encode(text, AllowedSpecial::None)?);
    }
    Ok(Computed::new().ids("batch", batch))
}

/// The first three and last three logits of each row, as PyTorch abbreviates them.
fn ends(logits: &ArrayRef3<f32>) -> Array2<f32> {
    let (batch, n_tokens, vocab_size) = logits.dim();
    let columns = [0, 1, 2, vocab_size - 3, vocab_size - 2, vocab_size - 1];
    let rows = logits
        .to_shape((batch * n_tokens, vocab_size))
        .expect("the same elements");
    rows.select(Axis(1), &columns)
}

fn logits(logits: &ArrayRef3<f32>) -> Computed {
    let ends = ends(logits);
    Computed::new()
        .shape("logits", logits.shape())
        .numbers("first and last three logits of each row", ends.view())
}

fn n16(case: &Case, lab: &mut Lab) -> Result<Computed> {
    let (model, rng) = lab.dummy()?;
    let mut rng = rng.with_build(case.text("build")?.parse()?);
    Ok(logits(
        &model.forward_train(&ids(case, "batch")?, &mut rng)?,
    ))
}

/// Section 4.2: the input (2, 5) through a linear layer and ReLU -> (2, 6).
fn layer_output(case: &Case) -> Result<Array2<f32>> {
    let mut rng = seeded(case)?;
    let batch = randn((2, 5), 10, &mut rng);
    Ok(relu(&Linear::new(5, 6, true, &mut rng).forward(&batch)))
}

fn means(x: &Array2<f32>) -> Vec<f32> {
    x.mean_axis(Axis(1))
        .map_or(Vec::new(), |means| means.to_vec())
}

fn n22(case: &Case, _: &mut Lab) -> Result<Computed> {
    let out = layer_output(case)?;
    Ok(Computed::new()
        .numbers("layer output", out.view())
        .series("mean", means(&out))
        .numbers("variance", out.var_axis(Axis(1), 1.0).view()))
}

fn n28(case: &Case, _: &mut Lab) -> Result<Computed> {
    let out = layer_output(case)?;
    let column = |values: ndarray::Array1<f32>| values.insert_axis(Axis(1)); // (2, 1)
    let mean = column(out.mean_axis(Axis(1)).unwrap_or_default());
    let variance = column(out.var_axis(Axis(1), 1.0)); // unbiased, as torch.var
    let normalised = (&out - &mean) / variance.sqrt();
    Ok(Computed::new()
        .numbers("normalised", normalised.view())
        .series("mean", means(&normalised))
        .numbers("variance", normalised.var_axis(Axis(1), 1.0).view()))
}

fn n35(case: &Case, _: &mut Lab) -> Result<Computed> {
    let out = layer_output(case)?;
    let normed = LayerNorm::new(out.ncols()).forward(&out);
    Ok(Computed::new()
        .series("mean", means(&normed))
        .numbers("variance", normed.var_axis(Axis(1), 0.0).view()))
}

fn n47(case: &Case, _: &mut Lab) -> Result<Computed> {
    let mut rng = seeded(case)?;
    let ff = FeedForward::new(768, &mut rng);
    let x = Array3::from_shape_vec((2, 3, 768), rng.rand(2 * 3 * 768))?;
    Ok(Computed::new().shape("output", ff.forward(&x).shape()))
}

fn n55(case: &Case, _: &mut Lab) -> Result<Computed> {
    let sizes = case.counts("sizes")?;
    let network =
        ExampleDeepNeuralNetwork::new(&sizes, case.flag("use_shortcut")?, &mut seeded(case)?)?;
    let x = Array2::from_shape_vec((1, 3), case.numbers("x")?)?;
    let gradients = network.mean_absolute_gradients(&x, &array![[0.0]]);
    Ok(Computed::new().series(
        "gradients",
        gradients.into_iter().map(|(_, gradient)| gradient),
    ))
}

fn n64(case: &Case, _: &mut Lab) -> Result<Computed> {
    let mut rng = seeded(case)?;
    let x = Array3::from_shape_vec((2, 4, 768), rng.rand(2 * 4 * 768))?;
    let block = TransformerBlock::new(&GptConfig::GPT2_124M, &mut rng)?;
    Ok(Computed::new().shape("output", block.forward(&x)?.shape()))
}

fn n72(case: &Case, lab: &mut Lab) -> Result<Computed> {
    let (model, rng) = lab.gpt(1024)?;
    let mut rng = rng.with_build(case.text("build")?.parse()?);
    let (computed, _) = model.forward_train(&ids(case, "batch")?, &mut rng)?;
    Ok(logits(&computed))
}

fn n74(_: &Case, lab: &mut Lab) -> Result<Computed> {
    let (model, _) = lab.gpt(1024)?;
    let size = GptConfig::GPT2_124M.size()?;
    let shape = |wanted: &str| {
        let parameters = model.named_parameters();
        let found = parameters.iter().find(|(name, _)| name == wanted);
        found.map_or(Vec::new(), |(_, weight)| weight.shape().to_vec())
    };
    Ok(Computed::new()
        .count("parameters", model.num_parameters())
        .shape("tok_emb", &shape("tok_emb.weight"))
        .shape("out_head", &shape("out_head.weight"))
        .count("parameters, head tied", size.without_out_head())
        .number("MiB", size.mebibytes()))
}

fn greedy(case: &Case, lab: &mut Lab) -> Result<(Vec<u32>, Vec<u32>, String)> {
    let tokenizer = *lab.tokenizer();
    let prompt = tokenizer::text_to_token_ids(case.text("text")?, &tokenizer)?;
    let (model, _) = lab.gpt(1024)?;
    let context_size = model.config().context_length;
    let output = generate_text_simple(
        model,
        prompt.clone(),
        case.count("max_new_tokens")?,
        context_size,
    )?;
    let text = tokenizer::token_ids_to_text(output.view(), &tokenizer)?;
    Ok((
        prompt.into_raw_vec_and_offset().0,
        output.into_raw_vec_and_offset().0,
        text,
    ))
}

fn n90(case: &Case, lab: &mut Lab) -> Result<Computed> {
    let (prompt, output, text) = greedy(case, lab)?;
    let length = output.len();
    Ok(Computed::new()
        .ids("prompt", prompt)
        .ids("output", output)
        .count("length", length)
        .text("text", text))
}

fn gpt_py(case: &Case, lab: &mut Lab) -> Result<Computed> {
    let (_, output, text) = greedy(case, lab)?;
    Ok(Computed::new().ids("output", output).text("text", text))
}

fn ex4_1(_: &Case, _: &mut Lab) -> Result<Computed> {
    let size = GptConfig::GPT2_124M.size()?;
    Ok(Computed::new()
        .count("feed-forward", size.feed_forward)
        .count("attention", size.attention))
}

fn ex4_2(_: &Case, _: &mut Lab) -> Result<Computed> {
    let presets = [
        ("medium", GptConfig::GPT2_MEDIUM),
        ("large", GptConfig::GPT2_LARGE),
        ("xl", GptConfig::GPT2_XL),
    ];
    let mut computed = Computed::new();
    for (name, config) in presets {
        let size = config.size()?;
        computed = computed
            .count(&format!("{name} parameters"), size.total())
            .count(
                &format!("{name} parameters, head tied"),
                size.without_out_head(),
            )
            .number(&format!("{name} MiB"), size.mebibytes());
    }
    Ok(computed)
}

fn ex4_3(case: &Case, _: &mut Lab) -> Result<Computed> {
    let logits = |drop_rates: DropRates| -> Result<Array3<f32>> {
        let mut rng = seeded(case)?;
        let small = GptConfig {
            vocab_size: 50,
            context_length: 8,
            emb_dim: 16,
            n_heads: 2,
            n_layers: 2,
            ..GptConfig::GPT2_124M
        };
        let model = GptModel::new(
            GptConfig {
                drop_rates,
                ..small
            },
            &mut rng,
        )?;
        Ok(model.forward_train(&array![[1, 2, 3, 4]], &mut rng)?.0)
    };
    let none = DropRates::all(0.0);
    let three = DropRates {
        emb: 0.1,
        attention: 0.1,
        shortcut: 0.1,
    };
    let undropped = logits(none)?;
    let mut sites = 0;
    for one in [
        DropRates { emb: 0.5, ..none },
        DropRates {
            attention: 0.5,
            ..none
        },
        DropRates {
            shortcut: 0.5,
            ..none
        },
    ] {
        sites += usize::from(logits(one)? != undropped);
    }
    let (one, other) = (logits(three)?, logits(DropRates::all(0.1))?);
    Ok(Computed::new()
        .identical("three equal rates against one, bit for bit", &one, &other)
        .count("sites that their own rate switches", sites))
}
