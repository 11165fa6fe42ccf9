//! Chapter 5 up to the training loop: losses of the untrained model, and sampling.

use anyhow::{Context, Result};
use dataloader::{DataLoader, DataLoaderConfig, create_dataloader_v1, train_validation_split};
use generate::{generate_text_simple, greedy_id, softmax_with_temperature, top_k_filter};
use gpt::GptModel;
use ndarray::{Array1, Array2, ArrayRef3, Axis};
use tensor_ops::{cross_entropy, softmax};
use tokenizer::AllowedSpecial;
use torch_rng::TorchRng;

use super::{argmax, ids, seeded};
use crate::verify::compare::Computed;
use crate::verify::lab::Lab;
use crate::verify::registry::{Check, Model};
use crate::verify::table::Case;

/// Its checks.
pub(in crate::verify) const CH05: &[Check] = &[
    Check::on("ch05.n15", Model::Gpt256, n15),
    Check::on("ch05.n26", Model::Gpt256, n26),
    Check::on("ch05.n32", Model::Gpt256, n32),
    Check::on("ch05.n47", Model::Gpt256, n47),
    Check::new("ch05.n55", n55),
    Check::new("ch05.n65", n65),
    Check::on("ch05.n71", Model::Gpt256, n71),
    Check::new("ch05.n91", n91),
    Check::new("ch05.n94", histogram_cell),
    Check::new("ch05.n100", histogram_cell),
    Check::new("ch05.n102", histogram_cell),
    Check::new("ch05.n108", n108),
    Check::new("ch05.ex5.1", ex5_1),
];

fn n15(case: &Case, lab: &mut Lab) -> Result<Computed> {
    let tokenizer = *lab.tokenizer();
    let prompt = tokenizer::text_to_token_ids(case.text("text")?, &tokenizer)?;
    let (model, _) = lab.gpt(case.count("context_length")?)?;
    let context_size = model.config().context_length;
    let output = generate_text_simple(model, prompt, case.count("max_new_tokens")?, context_size)?;
    Ok(Computed::new().text(
        "text",
        tokenizer::token_ids_to_text(output.view(), &tokenizer)?,
    ))
}

fn n26(case: &Case, lab: &mut Lab) -> Result<Computed> {
    let tokenizer = *lab.tokenizer();
    let (model, _) = lab.gpt(case.count("context_length")?)?;
    let predicted = argmax(&softmax(&model.forward(&ids(case, "inputs")?)?, Axis(2)))?; // (batch, n_tokens)
    let first = predicted.slice(ndarray::s![..1, ..]);
    let text = tokenizer::token_ids_to_text(first, &tokenizer)?;
    // The space that the first token begins with is lost in print, after the label.
    Ok(Computed::new()
        .ids("argmax", predicted.iter().copied())
        .text("first row", text.trim_start()))
}

fn n32(case: &Case, lab: &mut Lab) -> Result<Computed> {
    let targets = ids(case, "targets")?;
    let (model, _) = lab.gpt(case.count("context_length")?)?;
    let probabilities = softmax(&model.forward(&ids(case, "inputs")?)?, Axis(2));
    let of_targets = Array2::from_shape_fn(targets.dim(), |(row, token)| {
        probabilities[[row, token, targets[[row, token]] as usize]]
    });
    let logs = of_targets.ln();
    Ok(Computed::new()
        .numbers("first row", of_targets.row(0))
        .numbers("second row", of_targets.row(1))
        .series("logs", logs.iter().copied())
        .number("mean", logs.mean().context("six targets")?))
}

/// The mean cross-entropy over all tokens of a batch.
fn batch_loss(logits: &ArrayRef3<f32>, targets: &Array2<u32>) -> f32 {
    let (batch, n_tokens, vocab_size) = logits.dim();
    let rows = logits
        .to_shape((batch * n_tokens, vocab_size))
        .expect("the same elements");
    let targets: Vec<u32> = targets.iter().copied().collect();
    cross_entropy(&rows, &targets)
}

fn n47(case: &Case, lab: &mut Lab) -> Result<Computed> {
    let (model, _) = lab.gpt(case.count("context_length")?)?;
    let loss = batch_loss(
        &model.forward(&ids(case, "inputs")?)?,
        &ids(case, "targets")?,
    );
    Ok(Computed::new()
        .number("cross-entropy", loss)
        .number("perplexity", loss.exp()))
}

fn n55(case: &Case, lab: &mut Lab) -> Result<Computed> {
    let text = lab.book_text()?;
    let characters = text.chars().count();
    let last: String = text.chars().skip(characters - 99).collect();
    // The document shows both ends of these 99 characters: as many as were printed.
    let printed = |figure: usize| case.figures[figure].text().map(|text| text.chars().count());
    let (begin, end) = (printed(0)?, printed(1)?);
    let tokens = lab.tokenizer().encode(text, AllowedSpecial::None)?.len();
    Ok(Computed::new()
        .text(
            "beginning of the last 99 characters",
            last.chars().take(begin).collect::<String>(),
        )
        .text(
            "end of the last 99 characters",
            last.chars().skip(99 - end).collect::<String>(),
        )
        .count("characters", characters)
        .count("tokens", tokens))
}

/// The training loader (shuffled, last batch dropped) and the validation loader (neither).
fn loaders(case: &Case, lab: &Lab, max_length: usize) -> Result<[DataLoader; 2]> {
    let (train, validation) =
        train_validation_split(lab.book_text()?, case.number("train_ratio")?)?;
    let batch_size = case.count("batch_size")?;
    let config = DataLoaderConfig {
        batch_size,
        max_length,
        stride: max_length,
        shuffle: true,
        drop_last: true,
    };
    let validation_config = DataLoaderConfig {
        shuffle: false,
        drop_last: false,
        ..config
    };
    Ok([
        create_dataloader_v1(train, lab.tokenizer(), config)?,
        create_dataloader_v1(validation, lab.tokenizer(), validation_config)?,
    ])
}

fn n65(case: &Case, lab: &mut Lab) -> Result<Computed> {
    let [train, validation] = loaders(case, lab, case.count("max_length")?)?;
    let mut rng = seeded(case)?;
    let train: Vec<_> = train.epoch(&mut rng).collect();
    let validation: Vec<_> = validation.epoch(&mut rng).collect();
    let tokens = |batches: &[dataloader::Batch]| {
        batches
            .iter()
            .map(|batch| batch.input_ids.len())
            .sum::<usize>()
    };
    let all = || train.iter().chain(&validation);
    let shape = train[0].input_ids.shape().to_vec();
    anyhow::ensure!(
        all().all(|batch| batch.input_ids.shape() == shape),
        "the batches differ in shape"
    );
    anyhow::ensure!(
        all().all(|batch| batch.target_ids.shape() == shape),
        "the targets differ in shape"
    );
    Ok(Computed::new()
        .count("training batches", train.len())
        .count("validation batches", validation.len())
        .shape("each batch", &shape)
        .count("training tokens", tokens(&train))
        .count("validation tokens", tokens(&validation))
        .count("all tokens", tokens(&train) + tokens(&validation)))
}

/// The mean loss of a loader's batches, in evaluation.
fn loader_loss(model: &GptModel, loader: &DataLoader, rng: &mut TorchRng) -> Result<f64> {
    let mut total = 0.0;
    for batch in loader.epoch(rng) {
        total += f64::from(batch_loss(
            &model.forward(&batch.input_ids)?,
            &batch.target_ids,
        ));
    }
    Ok(total / loader.len() as f64)
}

fn n71(case: &Case, lab: &mut Lab) -> Result<Computed> {
    let [train, validation] = loaders(case, lab, case.count("context_length")?)?;
    let (model, _) = lab.gpt(case.count("context_length")?)?;
    let mut rng = seeded(case)?;
    Ok(Computed::new()
        .number("training loss", loader_loss(model, &train, &mut rng)?)
        .number(
            "validation loss",
            loader_loss(model, &validation, &mut rng)?,
        ))
}

// Section 5.3: a vocabulary of nine words.

fn word_logits(case: &Case) -> Result<Array1<f32>> {
    Ok(Array1::from_vec(case.numbers("logits")?))
}

fn word(case: &Case, index: usize) -> Result<&str> {
    case.text("words")?
        .split_whitespace()
        .nth(index)
        .context("an index of the nine words")
}

fn n91(case: &Case, _: &mut Lab) -> Result<Computed> {
    let probabilities = softmax(&word_logits(case)?, Axis(0));
    let likely = greedy_id(&probabilities)?;
    let drawn = seeded(case)?.multinomial(&probabilities.to_vec());
    Ok(Computed::new()
        .text("argmax", word(case, likely as usize)?)
        .text("multinomial", word(case, drawn)?))
}

/// `bincount` of the draws: as long as the largest index that was drawn.
fn histogram(case: &Case, temperature: f64) -> Result<Vec<u64>> {
    let probabilities = softmax_with_temperature(&word_logits(case)?, temperature as f32)?.to_vec();
    let mut rng = seeded(case)?;
    let mut counts = vec![0; probabilities.len()];
    for _ in 0..case.count("draws")? {
        counts[rng.multinomial(&probabilities)] += 1;
    }
    while counts.last() == Some(&0) {
        counts.pop();
    }
    Ok(counts)
}

fn histogram_cell(case: &Case, _: &mut Lab) -> Result<Computed> {
    let counts = histogram(case, case.number("temperature")?)?;
    Ok(Computed::new().ids(&case.figures[0].name, counts))
}

fn n108(case: &Case, _: &mut Lab) -> Result<Computed> {
    let logits = word_logits(case)?;
    let mut order: Vec<usize> = (0..logits.len()).collect();
    order.sort_by(|&one, &other| logits[other].total_cmp(&logits[one]));
    order.truncate(case.count("top_k")?);
    let masked = top_k_filter(&logits, case.count("top_k")?)?;
    let probabilities = softmax(&masked, Axis(0));
    Ok(Computed::new()
        .series("top logits", order.iter().map(|&index| logits[index]))
        .ids("positions", order.iter().map(|&index| index as u64))
        .numbers("masked logits", masked.view())
        .numbers("probabilities", probabilities.view()))
}

fn ex5_1(case: &Case, _: &mut Lab) -> Result<Computed> {
    let pizza = softmax_with_temperature(&word_logits(case)?, 5.0)?[6];
    Ok(Computed::new()
        .ids("temperature 1", histogram(case, 1.0)?)
        .ids("temperature 0.1", histogram(case, 0.1)?)
        .ids("temperature 5", histogram(case, 5.0)?)
        .number("pizza", pizza))
}
