//! Rust port of "Transformer", study notes on chapters 2 to 5 of the book. The notes contain few
//! printed results, and most of their code comes from chapters 2 to 4.

use anyhow::Result;
use gpt::GptConfig;
use tokenizer::{
    Gpt2Tokenizer, Separators, preprocess, python_strip, split_keeping, strip_without_blanks,
    without_blanks,
};

use crate::Notebook;

pub(crate) fn run(book: &mut Notebook) -> Result<()> {
    book.opens(
        "These are study notes on chapters 2 to 5 of the book. This notebook contains only the parts that print results: splitting a text, the size of GPT-2's vocabulary, GPT-2's configuration, and its number of parameters.",
        "nothing. The title of each section names the section of the book to which it belongs.",
        6,
    );
    book.section("tokenizing", "2.2 Tokenizing text");
    // Section 2.2 of the book begins with the simplest way to split a text into words. The first
    // version splits the text at white space and keeps the white space as separate pieces.
    let text = book.input("text", "Hello, world. This, is a test.".to_owned(), ..=1000);
    let result = split_keeping(&text, Separators::Whitespace);
    book.prints(
        "line 87",
        &result,
        "['Hello,', ' ', 'world.', ' ', 'This,', ' ', 'is', ' ', 'a', ' ', 'test.']",
    );
    // The second version also splits the text at commas and periods, which become separate pieces.
    let result = split_keeping(&text, Separators::CommasPeriods);
    book.prints(
        "line 97",
        &result,
        "['Hello', ',', '', ' ', 'world', '.', '', ' ', 'This', ',', '', ' ', 'is',' ', 'a', ' ', 'test', '.', '']",
    );
    // Next, all pieces that are empty or contain only white space are removed from the list.
    let result = without_blanks(&result);
    book.prints(
        "line 108",
        &result,
        "['Hello', ',', 'world', '.', 'This', ',', 'is', 'a', 'test', '.']",
    );
    // The final version in section 2.2 also splits the text at other punctuation marks and at the
    // double dash. It then removes the white space.
    let result = preprocess("Hello, world. Is this-- a test?");
    book.prints(
        "line 120",
        &result,
        "['Hello', ',', 'world', '.', 'Is', 'this', '--', 'a', 'test', '?']",
    );

    // What does the method `strip` do in the book's Python code? It removes white space from both
    // ends of a string, so a string that contains only spaces becomes empty.
    let result = ["Hello", "world", " ! ", "     "];
    let stripped: Vec<&str> = result.iter().map(|item| python_strip(item)).collect();
    book.prints("line 182", &stripped, "['Hello', 'world', '!', '']");
    // This cell strips each string and then removes the empty strings.
    book.prints(
        "line 185",
        &strip_without_blanks(&result),
        "['Hello', 'world', '!']",
    );
    // This cell removes the strings that are empty or contain only white space. It doesn't strip
    // the other strings, so the spaces around the exclamation mark remain.
    book.prints(
        "line 188",
        &without_blanks(&result),
        "['Hello', 'world', ' ! ']",
    );

    book.section("byte-pair-encoding", "2.5 Byte pair encoding");
    // GPT-2's vocabulary contains a token for each of the 256 bytes, a token for each of 50,000
    // merges, and a token that marks the end of a text. The cell prints the total number of tokens:
    let tokenizer = Gpt2Tokenizer::new();
    book.prints("line 277", &tokenizer.vocab_size(), "50,257");

    book.section("configuration", "4.1 Coding an LLM architecture");
    // A Rust struct takes the place of the Python dictionary `GPT_CONFIG_124M`. Most fields of the
    // struct have the same names and values as the entries of the dictionary. Instead of a single
    // `drop_rate`, the struct has three `drop_rates`, which are equal in this configuration. The
    // struct can also describe other models, using the fields `tied`, `hidden_dim`, `norm_eps` and
    // `activation`.
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
    // How many parameters does the smallest GPT-2 model have? The answer depends on its output
    // layer. With weights of its own, this layer brings the total to 163 million parameters. If it
    // shares the weights of the token embedding instead, the model has 124 million parameters.
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
