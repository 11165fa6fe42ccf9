//! Rust port of chapter 4's exercise-solutions.ipynb.
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
        "Three tasks of chapter 4 with their solutions: counting the parameters of a block, creating the larger GPT-2 models, and using separate dropout rates for different parts of the model.",
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
    // Task: count the parameters of the feed-forward network and of the attention module in a
    // transformer block. Which of the two has more parameters?

    // Solution: the feed-forward network has {share:%} of the block's parameters, not counting
    // those of the normalization layers. Change the sizes in the input fields and see how this
    // percentage changes.
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
    book.aside(|book| {
        let both = (size.feed_forward + size.attention) as f64;
        book.value("share", size.feed_forward as f64 / both);
    });
    book.agrees("In [3]", &size.feed_forward, &total_params);

    // If a token's vector has d features, the feed-forward network has two matrices of d x 4d
    // numbers, which is 8d² numbers in total. The attention module has four matrices of d x d
    // numbers, which is 4d². Not counting the biases, the feed-forward network therefore has twice
    // as many parameters as the attention module.
    let total_params = block.att.num_parameters();
    book.prints(
        "In [4]",
        &total_params,
        "Total number of parameters in attention module: 2,360,064",
    );
    book.agrees("In [4]", &size.attention, &total_params);

    book.section("ex4.2", "Initialize larger GPT models");
    // Task: create the models GPT-2 medium, GPT-2 large and GPT-2 XL without changing the code of
    // `GptModel`. How many parameters does each model have, and how much memory do these parameters
    // need?

    // Solution: only the configuration changes. The cells compute the number of parameters from the
    // configuration. They don't create the models, because the largest model would take about 6 GiB
    // of memory. The first cells show the small model for comparison.
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

    // GPT-2 medium has 1,024 features, 24 transformer blocks and 16 heads in each block.
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
    // GPT-2 large has 1,280 features, 36 transformer blocks and 20 heads in each block.
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

    // GPT-2 XL, the largest model, has 1,600 features, 48 transformer blocks and 25 heads in each
    // block.
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
    // Task: give the model three dropout rates instead of one. The first rate is for the
    // embeddings, and the second is for the attention weights. The third is for the outputs of a
    // block's two halves, before these outputs are added to the shortcuts.

    // Solution: `DropRates` has a field for each of the three rates. If all three rates are equal,
    // the model computes the same logits as with a single rate.
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

    // Does the model use each of the three rates? The cell starts with a model without dropout and
    // sets one rate at a time to 0.5. Each of the three rates changes the logits, so the model uses
    // all of them.
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
    book.agrees(
        "each rate",
        &switched,
        &["emb", "attention", "shortcut"][..],
    );
    Ok(())
}

/// Returns the logits that a small model with these dropout rates computes during training, in an
/// array of shape (1, 4, 50). The seed determines the model's weights and dropout masks.
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
