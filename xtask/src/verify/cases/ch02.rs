//! Chapter 2: text, tokenizers, windows and embeddings.

use anyhow::{Context, Result, bail};
use attention::{AttentionConfig, MultiHeadAttention, MultiHeadAttentionWrapper};
use dataloader::{Batch, Corpus, DataLoader, DataLoaderConfig, GptDataset, create_dataloader_v1};
use ndarray::{Array1, Array3, array};
use tensor_ops::Embedding;
use tokenizer::{
    AllowedSpecial, ENDOFTEXT, SimpleTokenizerV1, SimpleTokenizerV2, TokenizerError, UNK,
    Vocabulary, preprocess,
};
use torch_rng::TorchRng;

use super::seeded;
use crate::verify::compare::Computed;
use crate::verify::lab::Lab;
use crate::verify::registry::Check;
use crate::verify::table::Case;

/// Its checks.
pub(in crate::verify) const CH02: &[Check] = &[
    Check::new("ch02.n18", n18),
    Check::new("ch02.n29", n29),
    Check::new("ch02.n31", n31),
    Check::new("ch02.n39", n39),
    Check::new("ch02.n47", n47),
    Check::new("ch02.n58", n58),
    Check::new("ch02.n61", n61),
    Check::new("ch02.n67", n67),
    Check::new("ch02.n74", n74),
    Check::new("ch02.n81", n81),
    Check::new("ch02.n84", n84),
    Check::new("ch02.n97", n97),
    Check::new("ch02.n102", n102),
    Check::new("ch02.n109", n109),
    Check::new("ch02.n130", n130),
    Check::new("ch02.ex2.1", n74),
    Check::new("ch02.ex2.2-stride-2", ex2_2),
    Check::new("ch02.ex2.2-overlap", ex2_2),
    Check::new("ch02.dataloader", dataloader_notebook),
    Check::new("ch02.multihead", multihead_notebook),
    Check::new("ch02.loader-order", loader_order),
    Check::new("ch02.embedding-4x5", embedding_4x5),
];

fn n18(_: &Case, lab: &mut Lab) -> Result<Computed> {
    let text = lab.book_text()?;
    Ok(Computed::new()
        .count("characters", text.chars().count())
        .text(
            "first 99 characters",
            text.chars().take(99).collect::<String>(),
        ))
}

fn n29(_: &Case, lab: &mut Lab) -> Result<Computed> {
    let tokens = preprocess(lab.book_text()?);
    Ok(Computed::new().strings("tokens", tokens.into_iter().take(30)))
}

fn n31(_: &Case, lab: &mut Lab) -> Result<Computed> {
    let text = lab.book_text()?;
    Ok(Computed::new()
        .count("tokens", preprocess(text).len())
        .count("vocabulary", Vocabulary::from_text(text).len()))
}

fn n39(_: &Case, lab: &mut Lab) -> Result<Computed> {
    let vocabulary = Vocabulary::from_text(lab.book_text()?);
    Ok(Computed::new().strings("entries", vocabulary.tokens().iter().take(51)))
}

fn n47(case: &Case, lab: &mut Lab) -> Result<Computed> {
    let tokenizer = SimpleTokenizerV1::new(Vocabulary::from_text(lab.book_text()?));
    let ids = tokenizer.encode(case.text("text")?)?;
    let text = tokenizer.decode(&ids)?;
    Ok(Computed::new().ids("ids", ids).text("text", text))
}

fn n58(case: &Case, lab: &mut Lab) -> Result<Computed> {
    let tokenizer = SimpleTokenizerV1::new(Vocabulary::from_text(lab.book_text()?));
    match tokenizer.encode(case.text("text")?) {
        Err(TokenizerError::UnknownToken { token, .. }) => {
            Ok(Computed::new().text("unknown word", token))
        }
        other => bail!("an unknown word should be an error, but the result is {other:?}"),
    }
}

fn with_special_tokens(lab: &Lab) -> Result<Vocabulary> {
    let mut vocabulary = Vocabulary::from_text(lab.book_text()?);
    vocabulary.extend([ENDOFTEXT, UNK]);
    Ok(vocabulary)
}

fn n61(_: &Case, lab: &mut Lab) -> Result<Computed> {
    let vocabulary = with_special_tokens(lab)?;
    let last = &vocabulary.tokens()[vocabulary.len() - 5..];
    let ids: Vec<u32> = last
        .iter()
        .filter_map(|token| vocabulary.id(token))
        .collect();
    Ok(Computed::new()
        .count("vocabulary", vocabulary.len())
        .strings("last five", last)
        .ids("their ids", ids))
}

fn n67(case: &Case, lab: &mut Lab) -> Result<Computed> {
    let tokenizer = SimpleTokenizerV2::new(with_special_tokens(lab)?)?;
    let ids = tokenizer.encode(case.text("text")?);
    let text = tokenizer.decode(&ids)?;
    Ok(Computed::new().ids("ids", ids).text("text", text))
}

fn n74(case: &Case, lab: &mut Lab) -> Result<Computed> {
    let ids = lab
        .tokenizer()
        .encode(case.text("text")?, AllowedSpecial::Only(&[ENDOFTEXT]))?;
    let text = lab.tokenizer().decode(&ids)?;
    Ok(Computed::new().ids("ids", ids).text("text", text))
}

fn n81(_: &Case, lab: &mut Lab) -> Result<Computed> {
    let ids = lab
        .tokenizer()
        .encode(lab.book_text()?, AllowedSpecial::None)?;
    Ok(Computed::new().count("tokens", ids.len()))
}

fn n84(case: &Case, lab: &mut Lab) -> Result<Computed> {
    let corpus = Corpus::from_text(lab.book_text()?, lab.tokenizer(), AllowedSpecial::None)?;
    let sample = Corpus::from_ids(&corpus.ids()[case.count("offset")?..]);
    let dataset = GptDataset::new(&sample, case.count("context_size")?, 1)?;
    let window = dataset.get(0).context("a window")?;
    let texts: Result<Vec<String>, _> = window
        .target_ids
        .iter()
        .map(|&id| lab.tokenizer().decode(&[id]))
        .collect();
    Ok(Computed::new()
        .ids("x", window.input_ids.iter().copied())
        .ids("y", window.target_ids.iter().copied())
        .strings("targets as text", texts?))
}

/// The batches of the book's text, in order.
fn batches(case: &Case, lab: &Lab) -> Result<impl Iterator<Item = Batch>> {
    let config = DataLoaderConfig {
        batch_size: case.count("batch_size")?,
        max_length: case.count("max_length")?,
        stride: case.count("stride")?,
        shuffle: false,
        drop_last: true,
    };
    let loader = create_dataloader_v1(lab.book_text()?, lab.tokenizer(), config)?;
    Ok(loader.epoch(&mut TorchRng::manual_seed(0))) // in order: the seed decides nothing
}

fn first_batch(case: &Case, lab: &Lab) -> Result<Batch> {
    batches(case, lab)?.next().context("a batch")
}

fn n97(case: &Case, lab: &mut Lab) -> Result<Computed> {
    let mut batches = batches(case, lab)?;
    let (first, second) = (
        batches.next().context("a batch")?,
        batches.next().context("a second batch")?,
    );
    Ok(Computed::new()
        .ids("first input", first.input_ids)
        .ids("first target", first.target_ids)
        .ids("second input", second.input_ids)
        .ids("second target", second.target_ids))
}

fn n102(case: &Case, lab: &mut Lab) -> Result<Computed> {
    let batch = first_batch(case, lab)?;
    Ok(Computed::new()
        .ids("inputs", batch.input_ids)
        .ids("targets", batch.target_ids))
}

fn ex2_2(case: &Case, lab: &mut Lab) -> Result<Computed> {
    Ok(Computed::new().ids("inputs", first_batch(case, lab)?.input_ids))
}

fn embedding(case: &Case) -> Result<Embedding> {
    Ok(Embedding::new(
        case.count("rows")?,
        case.count("dim")?,
        &mut seeded(case)?,
    ))
}

fn n109(case: &Case, _: &mut Lab) -> Result<Computed> {
    let embedding = embedding(case)?;
    Ok(Computed::new()
        .numbers("weight", embedding.weight.view())
        .numbers("row 3", embedding.forward(&array![3]).view())
        .numbers(
            "rows 2, 3, 5, 1",
            embedding.forward(&array![2, 3, 5, 1]).view(),
        ))
}

fn embedding_4x5(case: &Case, _: &mut Lab) -> Result<Computed> {
    Ok(Computed::new().numbers("weight", embedding(case)?.weight.view()))
}

/// Section 2.8: token embeddings (batch, n_tokens, emb_dim), positional embeddings (n_tokens, emb_dim), their sum.
fn embeddings(
    case: &Case,
    lab: &Lab,
    rng: &mut TorchRng,
) -> Result<(Array3<f32>, ndarray::Array2<f32>)> {
    let batch = first_batch(case, lab)?;
    let (emb_dim, context_length) = (case.count("emb_dim")?, case.count("max_length")?);
    let tokens =
        Embedding::new(lab.tokenizer().vocab_size(), emb_dim, rng).forward(&batch.input_ids);
    let positions: Array1<u32> = (0..context_length as u32).collect();
    let positions = Embedding::new(context_length, emb_dim, rng).forward(&positions);
    Ok((tokens, positions))
}

fn n130(case: &Case, lab: &mut Lab) -> Result<Computed> {
    let (tokens, positions) = embeddings(case, lab, &mut seeded(case)?)?;
    let sum = &tokens + &positions;
    Ok(Computed::new()
        .shape("token embeddings", tokens.shape())
        .shape("positional embeddings", positions.shape())
        .shape("input embeddings", sum.shape()))
}

fn dataloader_notebook(case: &Case, lab: &mut Lab) -> Result<Computed> {
    let (tokens, positions) = embeddings(case, lab, &mut seeded(case)?)?;
    Ok(Computed::new().shape("input embeddings", (tokens + &positions).shape()))
}

fn multihead_notebook(case: &Case, lab: &mut Lab) -> Result<Computed> {
    let mut rng = seeded(case)?;
    let (tokens, positions) = embeddings(case, lab, &mut rng)?;
    let x = tokens + &positions;
    let (emb_dim, num_heads) = (case.count("emb_dim")?, case.count("num_heads")?);
    let config = AttentionConfig {
        d_in: emb_dim,
        d_out: emb_dim,
        context_length: case.count("max_length")?,
        dropout: 0.0,
        num_heads,
        qkv_bias: false,
    };
    // The wrapper's heads each have their share of the output.
    let wrapper = MultiHeadAttentionWrapper::new(
        AttentionConfig {
            d_out: emb_dim / num_heads,
            ..config
        },
        &mut rng,
    )?;
    let module = MultiHeadAttention::new(config, &mut rng)?;
    Ok(Computed::new()
        .shape("input embeddings", x.shape())
        .shape("wrapper", wrapper.forward(&x)?.shape())
        .shape("multi-head attention", module.forward(&x)?.shape()))
}

fn loader_order(case: &Case, _: &mut Lab) -> Result<Computed> {
    let corpus = Corpus::from_ids((0..case.count("numbers")? as u32).collect::<Vec<u32>>());
    let dataset = GptDataset::new(&corpus, case.count("max_length")?, case.count("stride")?)?;
    let loader = DataLoader::new(dataset, case.count("batch_size")?, true, true)?;
    let last = loader.epoch(&mut seeded(case)?).last().context("a batch")?;
    Ok(Computed::new().ids("last batch", last.input_ids))
}
