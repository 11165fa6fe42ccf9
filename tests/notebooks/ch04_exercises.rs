//! exercise-solutions.ipynb of chapter 4.
//!
//! Cells are numbered as in revision 28c65cd of the book's repository.

use anyhow::Result;
use gpt::{DropRates, GptConfig, GptModel, TransformerBlock};
use ndarray::{Array3, array};
use tensor_ops::Parameters;
use torch_rng::TorchRng;

use crate::Notebook;

pub(crate) fn run(book: &mut Notebook) -> Result<()> {
    book.opens(
        "Three tasks of chapter 4, each with its solution: where a block's parameters are, the larger GPT-2s, and one dropout rate for each place.",
        "chapter 4.",
        8,
    );
    book.part(parameters);
    book.part(largest_models);
    book.part(dropout_rates);
    Ok(())
}

fn parameters(book: &mut Notebook) -> Result<()> {
    book.section(
        "ex4.1",
        "Parameters in the feed forward versus attention module",
    );
    // Task: count the parameters of the feed-forward network and of the attention in one block.
    // Which is larger? Expected: 4,722,432 and 2,360,064. Change the sizes in the fields and count
    // again. Solution:
    let n_heads = book.input("n_heads", 12, 1..=64);
    let config = GptConfig {
        emb_dim: book.input("emb_dim", 768, 1..=768),
        n_heads,
        ..GptConfig::GPT2_124M
    };
    let block = TransformerBlock::new(config, &mut TorchRng::manual_seed(123))?;
    let total_params = block.ff.num_parameters();
    book.prints(
        "In [3]",
        &total_params,
        "Total number of parameters in feed forward module: 4,722,432",
    );

    let size = config.size()?;
    book.agrees("In [3]", &size.feed_forward, &total_params);

    // The feed-forward network has two thirds of a block's parameters, because its hidden layer is
    // four times as wide.
    let total_params = block.att.num_parameters();
    book.prints(
        "In [4]",
        &total_params,
        "Total number of parameters in attention module: 2,360,064",
    );
    book.agrees("In [4]", &size.attention, &total_params);

    book.section("ex4.2", "Initialize larger GPT models");
    // Task: without changing the model's code, create GPT-2 medium, large and XL, and count their
    // parameters and megabytes. Expected: 406, 838 and 1,638 million parameters. Here they are
    // counted from the configuration, because the largest model takes 6 GiB. Solution, beginning
    // with the small model:
    let small = GptConfig::GPT2_124M.size()?;
    book.prints(
        "In [6] gpt2-small",
        &small.total(),
        "Total number of parameters: 163,009,536",
    );
    book.prints(
        "In [6] gpt2-small",
        &small.without_out_head(),
        "Number of trainable parameters considering weight tying: 124,412,160",
    );
    book.prints(
        "In [6] gpt2-small",
        &small.mebibytes(),
        "Total size of the model: 621.83 MB",
    );

    // The medium model: 1,024 features, 24 blocks, 16 heads.
    let medium = GptConfig::GPT2_MEDIUM.size()?;
    book.prints(
        "In [6] gpt2-medium",
        &medium.total(),
        "Total number of parameters: 406,212,608",
    );
    book.prints(
        "In [6] gpt2-medium",
        &medium.without_out_head(),
        "Number of trainable parameters considering weight tying: 354,749,440",
    );
    book.prints(
        "In [6] gpt2-medium",
        &medium.mebibytes(),
        "Total size of the model: 1549.58 MB",
    );
    Ok(())
}

fn largest_models(book: &mut Notebook) -> Result<()> {
    book.not_in_a_page()?;
    // The large model: 1,280 features, 36 blocks, 20 heads.
    let large = GptConfig::GPT2_LARGE.size()?;
    book.prints(
        "In [6] gpt2-large",
        &large.total(),
        "Total number of parameters: 838,220,800",
    );
    book.prints(
        "In [6] gpt2-large",
        &large.without_out_head(),
        "Number of trainable parameters considering weight tying: 773,891,840",
    );
    book.prints(
        "In [6] gpt2-large",
        &large.mebibytes(),
        "Total size of the model: 3197.56 MB",
    );

    // The largest: 1,600 features, 48 blocks, 25 heads.
    let xl = GptConfig::GPT2_XL.size()?;
    book.prints(
        "In [6] gpt2-xl",
        &xl.total(),
        "Total number of parameters: 1,637,792,000",
    );
    book.prints(
        "In [6] gpt2-xl",
        &xl.without_out_head(),
        "Number of trainable parameters considering weight tying: 1,557,380,800",
    );
    book.prints(
        "In [6] gpt2-xl",
        &xl.mebibytes(),
        "Total size of the model: 6247.68 MB",
    );

    Ok(())
}

fn dropout_rates(book: &mut Notebook) -> Result<()> {
    book.section("ex4.3", "Using separate dropout parameters");
    // Task: give the model three dropout rates, one for the embeddings, one for the attention
    // weights and one for the shortcuts, instead of one for all. Expected: three equal rates change
    // nothing, and each rate by itself changes the result. Solution:
    let seed = book.input("seed", 123, ..);
    let rate = book.input("dropout", 0.1, 0.0..=1.0);
    let one_rate = logits(seed, DropRates::all(rate))?;
    let rates = DropRates {
        emb: rate,
        attention: rate,
        shortcut: rate,
    };
    let three_rates = logits(seed, rates)?;
    book.agrees("In [9]", &three_rates, &one_rate);

    let none = DropRates::all(0.0);
    let (mut emb, mut attention, mut shortcut) = (none, none, none);
    emb.emb = 0.5;
    attention.attention = 0.5;
    shortcut.shortcut = 0.5;
    let undropped = logits(seed, none)?;
    let mut switched = Vec::new();
    for (site, rates) in [
        ("emb", emb),
        ("attention", attention),
        ("shortcut", shortcut),
    ] {
        if logits(seed, rates)? != undropped {
            switched.push(site);
        }
    }
    book.agrees("In [9]", &switched, &["emb", "attention", "shortcut"][..]);
    Ok(())
}

/// The logits (1, 4, 50) of a small model in training with these rates, from this seed.
fn logits(seed: u64, drop_rates: DropRates) -> Result<Array3<f32>> {
    let config = GptConfig {
        vocab_size: 50,
        context_length: 8,
        emb_dim: 16,
        n_heads: 2,
        n_layers: 2,
        drop_rates,
        ..GptConfig::GPT2_124M
    };
    let mut rng = TorchRng::manual_seed(seed);
    let model = GptModel::new(config, &mut rng)?;
    Ok(model.forward_train(&array![[1, 2, 3, 4]], &mut rng)?.0)
}
