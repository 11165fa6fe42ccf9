//! "Transformer", a reader's notes on chapters 2 to 5: they print little, most of their code is
//! that of chapters 2 to 4.

use anyhow::Result;
use gpt::GptConfig;
use tokenizer::{
    Gpt2Tokenizer, Separators, preprocess, python_strip, split_keeping, strip_without_blanks,
    without_blanks,
};

use crate::Notebook;

pub(crate) fn run(book: &mut Notebook) -> Result<()> {
    book.section("tokenizing", "2.2 Tokenizing text");
    let text = book.input("text", "Hello, world. This, is a test.".to_owned(), ..=1000);
    let result = split_keeping(&text, Separators::Whitespace);
    book.prints(
        "line 87",
        &result,
        "['Hello,', ' ', 'world.', ' ', 'This,', ' ', 'is', ' ', 'a', ' ', 'test.']",
    );
    let result = split_keeping(&text, Separators::CommasPeriods);
    book.prints(
        "line 97",
        &result,
        "['Hello', ',', '', ' ', 'world', '.', '', ' ', 'This', ',', '', ' ', 'is',' ', 'a', ' ', 'test', '.', '']",
    );
    let result = without_blanks(&result);
    book.prints(
        "line 108",
        &result,
        "['Hello', ',', 'world', '.', 'This', ',', 'is', 'a', 'test', '.']",
    );
    let result = preprocess("Hello, world. Is this-- a test?");
    book.prints(
        "line 120",
        &result,
        "['Hello', ',', 'world', '.', 'Is', 'this', '--', 'a', 'test', '?']",
    );

    let result = ["Hello", "world", " ! ", "     "];
    let stripped: Vec<&str> = result.iter().map(|item| python_strip(item)).collect();
    book.prints("line 182", &stripped, "['Hello', 'world', '!', '']");
    book.prints(
        "line 185",
        &strip_without_blanks(&result),
        "['Hello', 'world', '!']",
    );
    book.prints(
        "line 188",
        &without_blanks(&result),
        "['Hello', 'world', ' ! ']",
    );

    book.section("byte-pair-encoding", "2.5 Byte pair encoding");
    let tokenizer = Gpt2Tokenizer::new();
    book.prints("line 277", &tokenizer.vocab_size(), "50,257");

    book.section("configuration", "4.1 Coding an LLM architecture");
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
