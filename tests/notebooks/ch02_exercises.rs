//! Rust port of chapter 2's exercise-solutions.ipynb.
//!
//! Cells are numbered as in revision 28c65cd of the book's repository.

use anyhow::{Context, Result};
use dataloader::{DataLoaderConfig, create_dataloader_v1};
use tokenizer::Gpt2Tokenizer;
use torch_rng::TorchRng;

use crate::Notebook;

pub(crate) fn run(book: &mut Notebook) -> Result<()> {
    book.opens(
        "Two tasks of chapter 2 with their solutions: how GPT-2's tokenizer treats a made-up word, and how the stride and the window length change the batches.",
        "sections 2.5 and 2.6.",
        8,
    );
    book.part(unknown_words);
    book.part(strides_and_contexts);
    Ok(())
}

fn unknown_words(book: &mut Notebook) -> Result<()> {
    book.section("ex2.1", "Byte pair encoding of unknown words");
    // Task: encode the made-up words "Akwirw ier" with GPT-2's tokenizer. Print the text of each
    // id, and then decode the whole list of ids.

    // Solution: GPT-2's vocabulary contains neither "Akwirw" nor " ier" (with a space at the
    // beginning), so the tokenizer splits these words into smaller pieces. The number of ids for
    // the text in this cell is {count}.
    let tokenizer = Gpt2Tokenizer::new();
    let text = book.input("text", "Akwirw ier".to_owned(), ..=1000);
    let integers = tokenizer.encode(&text)?;
    book.value("count", integers.len());
    book.prints("In [3]", &integers, "[33901, 86, 343, 86, 220, 959]");

    // The output lists each id together with the text of its token. A token can be as short as a
    // single letter.
    let mut lines = Vec::new();
    for &i in &integers {
        lines.push(format!("{i} -> {}", tokenizer.decode_lossy(&[i])?));
    }
    book.prints(
        "In [4]",
        &lines.join("\n"),
        "33901 -> Ak\n86 -> w\n343 -> ir\n86 -> w\n220 ->  \n959 -> ier",
    );

    // Conversely, encoding the text of a single token returns the token's id. The next
    // cells show this for the tokens of the book's example.
    book.prints("In [5]", &tokenizer.encode("Ak")?, "[33901]");
    // ...
    book.prints("In [6]", &tokenizer.encode("w")?, "[86]");
    // ...
    book.prints("In [7]", &tokenizer.encode("ir")?, "[343]");
    // ...
    book.prints("In [8]", &tokenizer.encode("w")?, "[86]");
    // ...
    book.prints("In [9]", &tokenizer.encode(" ")?, "[220]");
    // ...
    book.prints("In [10]", &tokenizer.encode("ier")?, "[959]");

    // Decoding all ids together returns the original words.
    book.prints("In [11]", &tokenizer.decode(&integers)?, "Akwirw ier");
    Ok(())
}

fn strides_and_contexts(book: &mut Notebook) -> Result<()> {
    book.section(
        "ex2.2",
        "Data loaders with different strides and context sizes",
    );
    // Task: create two data loaders with a stride of 2. The first has windows of 2 tokens, and the
    // second has windows of 8 tokens. In each case, which ids do neighboring rows have in common?
    // Try to answer this before you look at the solution.

    // Solution: each row of the batch is a window. The shape of the batch is ({batch_size},
    // {max_length}). {next_row}
    let raw_text = book.the_verdict()?;
    let tokenizer = Gpt2Tokenizer::new();
    // Without `shuffle`, the seed has no effect.
    let mut rng = TorchRng::manual_seed(0);
    let config = DataLoaderConfig {
        batch_size: book.input("batch_size", 4, 1..=64),
        max_length: book.input("max_length", 2, 1..=64),
        stride: book.input("stride", 2, 1..=64),
        shuffle: book.input("shuffle", false, ..),
        drop_last: false,
    };
    let dataloader = create_dataloader_v1(raw_text, &tokenizer, config)?;
    let batch = dataloader.epoch(&mut rng).next().context("a batch")??;
    book.aside(|book| {
        let next_row = match config.shuffle {
            true => "The windows are in random order.".to_owned(),
            false => format!("The stride is the number of tokens from the beginning of each window to the beginning of the next one. In this cell, the stride is {}.", config.stride),
        };
        book.value("next_row", next_row);
    });
    book.prints(
        "In [13]",
        &batch.input_ids,
        "tensor([[  40,  367],
        [2885, 1464],
        [1807, 3619],
        [ 402,  271]])",
    );

    // If the windows are longer than the stride, they overlap. {overlap} (In Rust, `..config`
    // copies all other fields from `config`.)
    let config = DataLoaderConfig {
        max_length: book.input("max_length", 8, 1..=64),
        ..config
    };
    book.aside(|book| {
        let overlap = match config.max_length.saturating_sub(config.stride) {
            0 => "In this cell, the windows aren't longer than the stride, so they don't overlap.".to_owned(),
            _ if config.shuffle => {
                "With `shuffle`, however, neighboring rows usually come from different parts of the text.".to_owned()
            }
            1 => "In this cell, each row begins with the last id of the row above.".to_owned(),
            ids => format!("In this cell, each row begins with the last {ids} ids of the row above."),
        };
        book.value("overlap", overlap);
    });
    let dataloader = create_dataloader_v1(raw_text, &tokenizer, config)?;
    let batch = dataloader.epoch(&mut rng).next().context("a batch")??;
    book.prints(
        "In [14]",
        &batch.input_ids,
        "tensor([[   40,   367,  2885,  1464,  1807,  3619,   402,   271],
        [ 2885,  1464,  1807,  3619,   402,   271, 10899,  2138],
        [ 1807,  3619,   402,   271, 10899,  2138,   257,  7026],
        [  402,   271, 10899,  2138,   257,  7026, 15632,   438]])",
    );
    Ok(())
}
