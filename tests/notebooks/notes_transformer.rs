//! "Transformer", a reader's notes on chapters 2 to 5: they print little, and most of their code
//! comes from chapters 2 to 4.

use anyhow::Result;
use gpt::GptConfig;
use tokenizer::{
    Gpt2Tokenizer, Separators, preprocess, python_strip, split_keeping, strip_without_blanks,
    without_blanks,
};

use crate::Notebook;

pub(crate) fn run(book: &mut Notebook) -> Result<()> {
    book.opens(
        "A reader's notes on chapters 2 to 5, as far as they print figures: splitting a text, GPT-2's vocabulary, its configuration, its parameters.",
        "nothing; each part names its section.",
        6,
    );
    book.section("tokenizing", "2.2 Tokenizing text");
    // Section 2.2 in short: a text is cut at white space, and the white space is kept.
    let text = book.input("text", "Hello, world. This, is a test.".to_owned(), ..=1000);
    let result = split_keeping(&text, Separators::Whitespace);
    book.prints(
        "line 87",
        &result,
        "['Hello,', ' ', 'world.', ' ', 'This,', ' ', 'is', ' ', 'a', ' ', 'test.']",
    );
    // Commas and periods become separate tokens.
    let result = split_keeping(&text, Separators::CommasPeriods);
    book.prints(
        "line 97",
        &result,
        "['Hello', ',', '', ' ', 'world', '.', '', ' ', 'This', ',', '', ' ', 'is',' ', 'a', ' ', 'test', '.', '']",
    );
    // Without the blanks.
    let result = without_blanks(&result);
    book.prints(
        "line 108",
        &result,
        "['Hello', ',', 'world', '.', 'This', ',', 'is', 'a', 'test', '.']",
    );
    // All punctuation, and the double dash.
    let result = preprocess("Hello, world. Is this-- a test?");
    book.prints(
        "line 120",
        &result,
        "['Hello', ',', 'world', '.', 'Is', 'this', '--', 'a', 'test', '?']",
    );

    // What does `strip` do in the Python code? It takes white space off both ends; of a string of
    // spaces nothing is left.
    let result = ["Hello", "world", " ! ", "     "];
    let stripped: Vec<&str> = result.iter().map(|item| python_strip(item)).collect();
    book.prints("line 182", &stripped, "['Hello', 'world', '!', '']");
    // Stripped, and the empty one dropped.
    book.prints(
        "line 185",
        &strip_without_blanks(&result),
        "['Hello', 'world', '!']",
    );
    // Only dropped: the spaces around the exclamation mark stay.
    book.prints(
        "line 188",
        &without_blanks(&result),
        "['Hello', 'world', ' ! ']",
    );

    book.section("byte-pair-encoding", "2.5 Byte pair encoding");
    // The number of pieces in GPT-2's vocabulary: 256 bytes, 50,000 merges and the end of text.
    let tokenizer = Gpt2Tokenizer::new();
    book.prints("line 277", &tokenizer.vocab_size(), "50,257");

    book.section("configuration", "4.1 Coding an LLM architecture");
    // The dictionary `GPT_CONFIG_124M` is a struct here, with the same names and numbers.
    let config = GptConfig::GPT2_124M;
    let sizes = [
        config.vocab_size,
        config.context_length,
        config.emb_dim,
        config.n_heads,
        config.n_layers,
    ];
    book.prints("lines 561-569", &sizes, "[50257, 1024, 768, 12, 12]");
    let rates = config.drop_rates;
    book.prints("lines 561-569", &rates.emb, "0.1");
    book.agrees("lines 561-569", &rates.shortcut, &rates.emb);
    book.agrees("lines 561-569", &rates.attention, &rates.emb);
    let qkv_bias = if config.qkv_bias { "True" } else { "False" };
    book.prints("lines 561-569", &qkv_bias, "False");

    book.section("parameters", "4.6 Coding the GPT model");
    // How many parameters is that? With a separate output layer 163 million; if it shares the token
    // embedding's weights, 124 million.
    let untied = config.size()?.total();
    book.prints("line 851", &untied, "163,009,536");
    let tied = GptConfig {
        tied: true,
        ..config
    }
    .size()?
    .total();
    book.prints("line 851", &tied, "124,412,160");
    Ok(())
}
