//! Translation of ch02.ipynb, which turns a text into tokens, windows and embeddings.
//!
//! Cells are numbered as in revision 28c65cd of the book's repository.

use anyhow::{Context, Result};
use dataloader::{Corpus, DataLoaderConfig, GptDataset, WindowConfig, create_dataloader_v1};
use ndarray::{Array1, array};
use pictures::windows;
use tensor_ops::Embedding;
use tokenizer::bpe::{Bpe, BpeConfig};
use tokenizer::{
    AllowedSpecial, ENDOFTEXT, Gpt2Tokenizer, Separators, SimpleTokenizerV1, SimpleTokenizerV2,
    UNK, build_vocabulary, preprocess, split_keeping, without_blanks,
};
use torch_rng::TorchRng;

use crate::Notebook;
use crate::text::STORY;

pub(crate) fn run(book: &mut Notebook) -> Result<()> {
    book.opens(
        "A model computes with numbers, so a text must first be turned into numbers. This chapter covers the whole path: it splits a text into tokens, gives each token an id, cuts the ids into windows for training, and turns each id into a vector.",
        "some Rust (slices, iterators, `Result`), but no machine learning.",
        50,
    );
    book.part(the_text);
    book.part(splitting_a_text);
    book.part(vocabulary);
    book.part(special_tokens);
    book.part(byte_pairs);
    book.part(sliding_window);
    book.part(token_embeddings);
    book.part(positions);
    Ok(())
}

fn the_text(book: &mut Notebook) -> Result<()> {
    book.section("2.2", "Tokenizing text");
    // A language model reads and writes text in small pieces, which are called *tokens*. All tokens
    // come from a fixed list, so the model can store a few numbers for each of them. The goal of
    // this section is to split a text into words and punctuation marks, which are the simplest kind
    // of token.

    // We need a text to work on. The text in this cell has {characters:,} characters. (Python's
    // `len` counts the characters of a string, whereas Rust's `len()` counts its bytes, so the Rust
    // code counts the characters one by one. The `?` makes a Rust function return early with an
    // error where Python would raise an exception.)
    let raw_text = book.the_verdict()?;
    book.value("characters", raw_text.chars().count());
    book.prints(
        "In [3]",
        &raw_text.chars().count(),
        "Total number of character: 20479",
    );
    let beginning: String = raw_text.chars().take(99).collect();
    book.prints("In [3]", &beginning, "I HAD always thought Jack Gisburn rather a cheap genius--though a good fellow enough--so it was no ");
    Ok(())
}

fn splitting_a_text(book: &mut Notebook) -> Result<()> {
    // The first attempt splits a short text at white space and keeps the white space as separate
    // pieces. In Python, this is `re.split(r'(\s)', text)`, where the parentheses mean "keep the
    // separators". Our function `split_keeping` takes the name of a group of separators instead of
    // a pattern. Look at the punctuation marks in the output: they are still attached to the words.
    let text = book.input("text", "Hello, world. This, is a test.".to_owned(), ..=1000);
    let result = split_keeping(&text, Separators::Whitespace);
    book.prints(
        "In [4]",
        &result,
        "['Hello,', ' ', 'world.', ' ', 'This,', ' ', 'is', ' ', 'a', ' ', 'test.']",
    );

    // A word and the comma after it should be two tokens. Otherwise the model would need one token
    // for the word alone and an additional token for each combination of the word with a
    // punctuation mark. The second attempt therefore also splits the text at commas and periods.
    // However, the result still contains the spaces, and it contains an empty string wherever two
    // separators are adjacent or the text ends with a separator.
    let result = split_keeping(&text, Separators::CommasPeriods);
    book.prints("In [5]", &result, "['Hello', ',', '', ' ', 'world', '.', '', ' ', 'This', ',', '', ' ', 'is', ' ', 'a', ' ', 'test', '.', '']");

    // Now we remove the empty strings and the white space from the list of pieces, which leaves
    // {left} tokens. The Python code does this with a list comprehension that contains `if
    // item.strip()`, and the Rust code does it with a filter.
    let result = without_blanks(&result);
    book.value("left", result.len());
    book.prints(
        "In [6]",
        &result,
        "['Hello', ',', 'world', '.', 'This', ',', 'is', 'a', 'test', '.']",
    );

    // The function `preprocess` performs both steps: it splits a text into tokens and removes the
    // white space. It also splits at other punctuation marks and at the double dash. Sections 2.2
    // to 2.4 use this function. Type a different sentence into the field. Which characters stay
    // together as one token?
    let text = book.input(
        "text",
        "Hello, world. Is this-- a test?".to_owned(),
        ..=1000,
    );
    let result = preprocess(&text);
    book.prints(
        "In [7]",
        &result,
        "['Hello', ',', 'world', '.', 'Is', 'this', '--', 'a', 'test', '?']",
    );
    book.asks(
        "How many tokens does \"don't\" become? Guess, then type it into the field above.",
        "Three: `don`, `'` and `t`, because the apostrophe is a separator, like a comma. A tokenizer that consists only of rules needs a rule for each such case. The tokenizer of section 2.5 learns its tokens from a text instead.",
    );
    book.holds(
        "don't is three tokens",
        preprocess("don't") == ["don", "'", "t"],
    );
    Ok(())
}

fn vocabulary(book: &mut Notebook) -> Result<()> {
    // Now `preprocess` splits the whole text into tokens. Look at the first 30 tokens. Are the
    // splitting rules good enough?
    let raw_text = book.the_verdict()?;
    let preprocessed = preprocess(raw_text);
    let first = &preprocessed[..30.min(preprocessed.len())];
    book.prints("In [8]", first, "['I', 'HAD', 'always', 'thought', 'Jack', 'Gisburn', 'rather', 'a', 'cheap', 'genius', '--', 'though', 'a', 'good', 'fellow', 'enough', '--', 'so', 'it', 'was', 'no', 'great', 'surprise', 'to', 'me', 'to', 'hear', 'that', ',', 'in']");

    // The text has {tokens:,} tokens. On average, a token stands for {per_token:.1} characters of
    // the text, including the white space that was removed.
    book.value("tokens", preprocessed.len());
    let characters = raw_text.chars().count() as f64;
    book.value("per_token", characters / preprocessed.len() as f64);
    book.prints("In [9]", &preprocessed.len(), "4690");

    book.section("2.3", "Converting tokens into token IDs");
    // A model can't compute with words, so each distinct token gets a number, its *id*. The goal of
    // this section is to build a tokenizer that converts a text into ids and ids back into a text.

    // The distinct tokens are sorted and numbered from 0. This list is the *vocabulary*. It has
    // {distinct:,} tokens, far fewer than the {tokens:,} tokens of the text, because frequent words
    // occur again and again. However, {once:%} of the distinct tokens occur only once, so a model
    // could learn little about them.
    let vocab = build_vocabulary(&preprocessed);
    book.aside(|book| {
        let mut sorted = preprocessed.clone();
        sorted.sort_unstable();
        let once = sorted
            .chunk_by(|one, other| one == other)
            .filter(|same| same.len() == 1);
        let once = once.count() as f64 / vocab.len() as f64;
        book.value("distinct", vocab.len());
        book.value("once", once);
        book.holds(
            "about half of the words occur once",
            (0.4..0.75).contains(&once),
        );
    });
    book.prints("In [10]", &vocab.len(), "1130");

    // Here are the first entries of the vocabulary, each with its id. Punctuation marks come before
    // letters, and capital letters come before lowercase letters, because the tokens are sorted by
    // the codes of their characters.
    book.prints(
        "In [12]",
        &vocab.tokens()[..51.min(vocab.len())],
        r#"
('!', 0)
('"', 1)
("'", 2)
('(', 3)
(')', 4)
(',', 5)
('--', 6)
('.', 7)
(':', 8)
(';', 9)
('?', 10)
('A', 11)
('Ah', 12)
('Among', 13)
('And', 14)
('Are', 15)
('Arrt', 16)
('As', 17)
('At', 18)
('Be', 19)
('Begin', 20)
('Burlington', 21)
('But', 22)
('By', 23)
('Carlo', 24)
('Chicago', 25)
('Claude', 26)
('Come', 27)
('Croft', 28)
('Destroyed', 29)
('Devonshire', 30)
('Don', 31)
('Dubarry', 32)
('Emperors', 33)
('Florence', 34)
('For', 35)
('Gallery', 36)
('Gideon', 37)
('Gisburn', 38)
('Gisburns', 39)
('Grafton', 40)
('Greek', 41)
('Grindle', 42)
('Grindles', 43)
('HAD', 44)
('Had', 45)
('Hang', 46)
('Has', 47)
('He', 48)
('Her', 49)
('Hermia', 50)"#,
    );

    book.listing("crates/tokenizer/src/simple.rs", "impl SimpleTokenizerV1 {");
    // The tokenizer uses the vocabulary in both directions: `encode` splits a text and looks up the
    // id of each token, and `decode` looks up the token of each id. The text in this cell has
    // {ids:w} tokens. (`SimpleTokenizerV1::new(vocab)` takes ownership of the vocabulary, so no
    // other code can change it. In Rust, this is called a *move*.)
    let tokenizer = SimpleTokenizerV1::new(vocab);
    let sentence = "\"It's the last he painted, you know,\" \n           Mrs. Gisburn said with pardonable pride.";
    let text = book.input_of_text("text", [sentence, &known(raw_text)], ..=1000);
    let ids = tokenizer.encode(&text)?;
    book.value("ids", ids.len());
    book.prints("In [14]", &ids, "[1, 56, 2, 850, 988, 602, 533, 746, 5, 1126, 596, 5, 1, 67, 7, 38, 851, 1108, 754, 793, 7]");

    // `decode` joins the tokens with spaces and then removes the spaces before punctuation marks.
    // Compare the decoded text with the original: the line break is gone, and there is now a space
    // after the first quotation mark and after the apostrophe.
    let decoded = tokenizer.decode(&ids)?;
    let is_so = decoded.starts_with("\" ") && decoded.contains("' s ") && !decoded.contains('\n');
    book.holds("the spaces and the line break", is_so);
    book.prints(
        "In [15]",
        &decoded,
        "\" It' s the last he painted, you know,\" Mrs. Gisburn said with pardonable pride.",
    );

    book.asks(
        "What information about a text is lost in `decode(encode(text))`?",
        "The white space. The vocabulary has no tokens for spaces and line breaks, so the ids don't show where they were, and `decode` has to guess.",
    );
    Ok(())
}

/// Returns an example text that consists of words from `raw_text`, so that a tokenizer whose
/// vocabulary was built from `raw_text` can encode it. If `raw_text` is [`STORY`], the example is a
/// quotation from this story. Otherwise, it consists of the first 18 words of `raw_text`.
fn known(raw_text: &str) -> String {
    let of_story = "\"He was under the bell.\n           He's gone now.\"";
    if raw_text == STORY {
        return of_story.to_owned();
    }
    let words = raw_text.split_whitespace().take(18);
    words.collect::<Vec<_>>().join(" ")
}

fn special_tokens(book: &mut Notebook) -> Result<()> {
    book.section("2.4", "Adding special context tokens");
    // What happens to a word that isn't in the vocabulary? The goal of this section is to build a
    // tokenizer that can encode any text, even if it contains unknown words.

    // The word "Hello" isn't in the vocabulary, so the tokenizer of section 2.3 can't encode the
    // text in this cell. Its method `encode` returns an error that gives the unknown word and the
    // word's position.
    let raw_text = book.the_verdict()?;
    let preprocessed = preprocess(raw_text);
    let tokenizer = SimpleTokenizerV1::new(build_vocabulary(&preprocessed));
    let text = "Hello, do you like tea. Is this-- a test?";
    book.refuses(
        "In [17]",
        tokenizer.encode(text),
        "doesn't contain the word \"Hello\", which is at byte 0",
    );

    // We add two *special tokens*: `<|unk|>`, which stands for any unknown word, and
    // `<|endoftext|>`, which separates unrelated texts. With `<|endoftext|>`, several texts can be
    // joined for training, and the model can learn that whatever comes before this token says
    // nothing about what follows it. (In Rust, `mut` allows us to change the vocabulary after
    // creating it.)
    let mut vocab = build_vocabulary(&preprocessed);
    vocab.extend([ENDOFTEXT, UNK]);
    book.prints("In [19]", &vocab.len(), "1132");

    // The special tokens are added at the end of the sorted vocabulary, so the ids of all other
    // tokens stay the same. Here are the last five entries of the vocabulary:
    let last = &vocab.tokens()[vocab.len() - 5..];
    book.prints(
        "In [20]",
        last,
        "
('younger', 1127)
('your', 1128)
('yourself', 1129)
('<|endoftext|>', 1130)
('<|unk|>', 1131)",
    );
    let ids: Vec<u32> = last.iter().filter_map(|token| vocab.id(token)).collect();
    book.prints("In [20]", &ids, "[1127, 1128, 1129, 1130, 1131]");

    book.listing("crates/tokenizer/src/simple.rs", "impl SimpleTokenizerV2 {");
    // The second tokenizer, `SimpleTokenizerV2`, gives each unknown word the id of `<|unk|>`, which
    // is {unk_id}. In this cell, two texts are joined by `<|endoftext|>`, whose id is {end_id}.
    // Look for both ids in the output.
    book.aside(|book| {
        for (name, token) in [("unk_id", UNK), ("end_id", ENDOFTEXT)] {
            book.value(name, vocab.id(token).unwrap_or_default());
        }
        book.holds("Hello is unknown", vocab.id("Hello").is_none());
    });
    let tokenizer = SimpleTokenizerV2::new(vocab)?;
    let text1 = "Hello, do you like tea?";
    let text2 = "In the sunlit terraces of the palace.";
    let text = [text1, text2].join(" <|endoftext|> ");
    let text = book.input("text", text, ..=1000);
    let ids = tokenizer.encode(&text)?;
    book.prints(
        "In [23]",
        &ids,
        "[1131, 5, 355, 1126, 628, 975, 10, 1130, 55, 988, 956, 984, 722, 988, 1131, 7]",
    );

    // Decoding can't restore the unknown words, because each of them has become `<|unk|>`. In this
    // text, that affects {unknown:w} of the tokens: {which}.
    let decoded = tokenizer.decode(&ids)?;
    book.aside(|book| {
        let vocab = tokenizer.vocabulary();
        let mut unknown = preprocess(&text);
        unknown.retain(|token| vocab.id(token).is_none());
        book.value("unknown", unknown.len());
        book.value(
            "which",
            match &unknown[..] {
                [] => "all words are known".to_owned(),
                words => format!("\"{}\"", words.join("\", \"")),
            },
        );
        let marked = ids.iter().filter(|&&id| Some(id) == vocab.id(UNK)).count();
        book.holds("each of them is marked", marked == unknown.len());
    });
    book.prints(
        "In [24]",
        &decoded,
        "<|unk|>, do you like tea? <|endoftext|> In the sunlit terraces of the <|unk|>.",
    );
    book.asks(
        "Could a model answer a question about \"Hello\" with this tokenizer?",
        "No. \"Hello\" and all other unknown words have the same id, so the model can't tell them apart. A larger vocabulary would help with this word, but there will always be words that it lacks, such as names and spelling mistakes.",
    );
    Ok(())
}

fn byte_pairs(book: &mut Notebook) -> Result<()> {
    book.section("2.5", "BytePair encoding");
    // How can a tokenizer handle every word? It can spell rare words with shorter pieces. *Byte
    // pair encoding* (BPE) is a method of finding such pieces in a text. The goal of this section
    // is to see how BPE works and how GPT-2's tokenizer treats known and unknown words.
    //
    // Byte-level BPE starts with a text that is split into single bytes. (A plain English letter is
    // one byte.) It counts all pairs of adjacent pieces and joins the most frequent pair into a new
    // piece. It repeats this step, which is called a *merge*, until the vocabulary has the desired
    // size. In GPT-2, a space belongs to the word that follows it, and merges never cross a word
    // boundary.

    // The output shows how a tiny text is split into pieces before the first merge and after each
    // of the first four merges. Vertical lines separate the pieces. {first_merge} In the last line,
    // the text has {pieces_after} pieces instead of {pieces_before}.
    let tiny_text = book.input("tiny_text", "low low lower lowest".to_owned(), 1..=200);
    let mut lines = Vec::new();
    for merges in 0..=4 {
        let config = BpeConfig {
            vocab_size: 256 + merges,
            ..BpeConfig::default()
        };
        let bpe = Bpe::train_plain(&tiny_text, &config)?;
        let ids = bpe.encode_ordinary(&tiny_text);
        let pieces: Vec<String> = ids
            .iter()
            .map(|&id| String::from_utf8_lossy(&bpe.tokens()[id as usize]).into_owned())
            .collect();
        lines.push(format!("{merges} merges: {}", pieces.join("|")));
        book.aside(|book| {
            let piece = |id: u32| String::from_utf8_lossy(&bpe.tokens()[id as usize]);
            let first_merge = match bpe.merges().first() {
                Some(it) => {
                    let (left, right) = (piece(it.left), piece(it.right));
                    format!("The first merge joins \"{left}\" and \"{right}\".")
                }
                None => "No pair occurs twice, so nothing is joined.".to_owned(),
            };
            book.value("first_merge", first_merge);
            match merges {
                0 => book.value("pieces_before", pieces.len()),
                _ => book.value("pieces_after", pieces.len()),
            }
        });
    }
    book.yours("merges", &lines.join("\n"));

    // GPT-2's vocabulary was built from a large text by byte pair encoding. It consists of 256
    // tokens for the single bytes, one token for each of 50,000 merges, and `<|endoftext|>`, which
    // makes 50,257 tokens. A frequent word is a single token, and a rare word consists of several
    // tokens. Because every byte is a token, any text can be encoded.
    //
    // Look at the last word before the final period: its {of_last:w} tokens are {last}. The special
    // token `<|endoftext|>` has the id 50256, and this call of `encode_allowing` permits it. If a
    // text contains a special token that isn't permitted, `encode_allowing` returns an error, so
    // that users can't insert special tokens by typing them. (In contrast, `encode` always converts
    // `<|endoftext|>` into 50256, and `encode_ordinary` splits it into several tokens like ordinary
    // text.)
    let tokenizer = Gpt2Tokenizer::new();
    let text = book.input(
        "text",
        "Hello, do you like tea? <|endoftext|> In the sunlit terracesof someunknownPlace."
            .to_owned(),
        ..=1000,
    );
    let integers = tokenizer.encode_allowing(&text, AllowedSpecial::Only(&[ENDOFTEXT]))?;
    book.aside(|book| {
        let piece = |id: u32| tokenizer.decode_lossy(&[id]).unwrap_or_default();
        let last = text
            .trim_end_matches('.')
            .rsplit(' ')
            .next()
            .unwrap_or_default();
        let ids = tokenizer.encode(&format!(" {last}")).unwrap_or_default();
        let pieces: Vec<String> = ids.iter().map(|&id| format!("\"{}\"", piece(id))).collect();
        book.value("of_last", pieces.len());
        book.value("last", pieces.join(", "));
        book.holds(
            "256 bytes, 50,000 merges and the end",
            tokenizer.vocab_size() == 256 + 50_000 + 1,
        );
        let count = |word: &str| tokenizer.encode(word).map_or(0, |ids| ids.len());
        let counts = ["Tea", "tea", "TEA", " tea"].map(count);
        book.holds(
            "Tea, tea, TEA and a space before tea",
            counts == [1, 2, 2, 1],
        );
    });
    book.prints("In [28]", &integers, "[15496, 11, 466, 345, 588, 8887, 30, 220, 50256, 554, 262, 4252, 18250, 8812, 2114, 1659, 617, 34680, 27271, 13]");

    // Decoding returns exactly the original text, including all its spaces, because the tokens keep
    // every byte. A space usually belongs to the same token as the word that follows it. For
    // example, " tea" with a space before it is a single token.
    let strings = tokenizer.decode(&integers)?;
    book.prints(
        "In [29]",
        &strings,
        "Hello, do you like tea? <|endoftext|> In the sunlit terracesof someunknownPlace.",
    );

    book.draws("The tokens of In [28]", || {
        let pieces: Vec<String> = integers
            .iter()
            .map(|&id| tokenizer.decode_lossy(&[id]).unwrap_or_default())
            .collect();
        let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
        windows("A text's tokens", &pieces, &[], 0)
    });
    book.asks(
        "Which of these are single tokens: \"Tea\", \"tea\", \"TEA\", and \" tea\" with a space before it? Guess, then try them in the field above.",
        "\"Tea\" and \" tea\" are single tokens, whereas \"tea\" and \"TEA\" consist of two tokens each. Each spelling consists of different bytes, and a spelling gets a token of its own only if it was frequent in the text from which the vocabulary was made. Inside a sentence, \"tea\" follows a space, so \" tea\" was frequent, and \"tea\" without a space was not.",
    );
    Ok(())
}

fn sliding_window(book: &mut Notebook) -> Result<()> {
    book.section("2.6", "Data sampling with a sliding window");
    // A model learns by predicting the next token of a text. Nobody has to write down the right
    // answers, because the text contains them: the right answer at each position is the token that
    // comes next. The goal of this section is to cut a text into *inputs*, from which the model
    // makes its predictions, and *targets*, which are the right answers, and to group both into
    // *batches*, each of which the model processes at once.

    // First, we encode the whole text with GPT-2's tokenizer, which splits it into {total_tokens:,}
    // tokens.
    let raw_text = book.the_verdict()?;
    let tokenizer = Gpt2Tokenizer::new();
    let enc_text = Corpus::from_text(raw_text, &tokenizer)?;
    book.value("total_tokens", enc_text.len());
    book.prints("In [30]", &enc_text.len(), "5145");

    book.listing("crates/dataloader/src/dataset.rs", "impl GptDataset {");
    // A training example is a pair of *windows* with {context_size} tokens each. The input x is a
    // window of the text, and the target y is the window that begins one token later. The id at
    // each position in y is therefore the right answer for the same position in x. Compare the two
    // lines of output. (The book's Python code slices the list of ids twice. In this notebook,
    // `GptDataset` creates both windows.)
    let first = 50.min(enc_text.len());
    let enc_sample = Corpus::from_ids(&enc_text.read(first..)?[..]);
    let context_size = book.input("context_size", 4, 1..=64);
    let config = WindowConfig {
        max_length: context_size,
        stride: 1,
    };
    let dataset = GptDataset::new(&enc_sample, config)?;
    let window = dataset.get(0)?.context("a window")?;
    let (x, y) = (&window.input_ids[..], &window.target_ids[..]);
    book.prints("In [32]", x, "x: [290, 4920, 2241, 287]");
    book.prints("In [32]", y, "y:      [4920, 2241, 287, 257]");

    // One pair of windows contains several exercises for the model: given the first token, predict
    // the second; given the first two tokens, predict the third; and so on. The causal mask of
    // chapter 3 lets the model do all of these exercises at once.
    let mut lines = Vec::new();
    for i in 1..=context_size {
        let (context, desired) = (&x[..i], y[i - 1]);
        lines.push(format!("{context:?} ----> {desired}"));
    }
    book.prints(
        "In [33]",
        &lines.join("\n"),
        "\
[290] ----> 4920
[290, 4920] ----> 2241
[290, 4920, 2241] ----> 287
[290, 4920, 2241, 287] ----> 257",
    );

    // Here are the same exercises with text instead of ids. The model must learn to predict the
    // token to the right of each arrow from the text to the left of it.
    let mut lines = Vec::new();
    for i in 1..=context_size {
        let (context, desired) = (tokenizer.decode(&x[..i])?, tokenizer.decode(&y[i - 1..i])?);
        lines.push(format!("{context} ----> {desired}"));
    }
    book.prints(
        "In [34]",
        &lines.join("\n"),
        " and ---->  established
 and established ---->  himself
 and established himself ---->  in
 and established himself in ---->  a",
    );
    book.draws("Windows and their targets", || {
        let shown = first + context_size + 6;
        let pieces: Vec<String> = (enc_text
            .read(first..enc_text.len().min(shown))
            .iter()
            .flat_map(|ids| ids.iter()))
        .map(|&id| tokenizer.decode_lossy(&[id]).unwrap_or_default())
        .collect();
        let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
        let title = format!(
            "Windows of {context_size} tokens, each starting one token after the previous one"
        );
        windows(&title, &pieces, &[0, 1, 2], context_size)
    });

    book.sketch(
        "From a text to a batch",
        "
ids of the text          i0  i1  i2  i3  i4  i5  i6  i7  i8 ...   ({total_tokens})
x                        i0  i1  i2  i3                          (max_length)
y, one token later           i1  i2  i3  i4                      (max_length)
next x, one stride later                 i4  i5  i6  i7          (max_length)

a batch: inputs (batch_size, max_length), targets (batch_size, max_length)
",
    );
    book.listing(
        "crates/dataloader/src/loader.rs",
        "pub fn create_dataloader_v1(",
    );
    // A *data loader* cuts the whole text into windows and delivers them in batches. The number of
    // windows in a batch is batch_size = {batch_size}, and the number of tokens in a window is
    // max_length = {max_length}. (Python's keyword arguments become the fields of a struct in
    // Rust.)
    let config = DataLoaderConfig {
        batch_size: book.input("batch_size", 1, 1..=64),
        max_length: book.input("max_length", 4, 1..=64),
        stride: book.input("stride", 1, 1..=64),
        shuffle: book.input("shuffle", false, ..),
        drop_last: true,
    };
    let dataloader = create_dataloader_v1(raw_text, &tokenizer, config)?;
    // The seed has an effect only with `shuffle`, which puts the windows in random order.
    let mut data_iter = dataloader.epoch(&mut TorchRng::manual_seed(0));
    let first_batch = data_iter.next().context("a batch")??;
    book.prints(
        "In [39]",
        &first_batch.input_ids,
        "tensor([[  40,  367, 2885, 1464]])",
    );
    book.prints(
        "In [39]",
        &first_batch.target_ids,
        "tensor([[ 367, 2885, 1464, 1807]])",
    );

    // The *stride*, which is {stride} in this example, is the number of tokens from the start of
    // one window to the start of the next. If the stride is smaller than max_length, the windows
    // overlap. Compare the second batch with the first. (The code contains two question marks
    // because two errors are possible: there may be no second batch, or reading the batch may
    // fail.)
    let second_batch = data_iter.next().context(
        "the text is long enough for only one batch; use a smaller batch_size or stride",
    )??;
    book.prints(
        "In [40]",
        &second_batch.input_ids,
        "tensor([[ 367, 2885, 1464, 1807]])",
    );
    book.prints(
        "In [40]",
        &second_batch.target_ids,
        "tensor([[2885, 1464, 1807, 3619]])",
    );

    // For training, the stride usually equals max_length, so that no token is used as an input
    // twice. Overlapping windows would repeat tokens, and the model would overfit sooner, which
    // means that it would learn the text by heart. The data loader in this cell has a stride of
    // {stride} and windows of {max_length} tokens. A batch has {batch_size} windows, one in each
    // row. (`drop_last` drops the last batch if it has too few windows, because a training step
    // with such a small batch would be unusually random.)
    let config = DataLoaderConfig {
        batch_size: book.input("batch_size", 8, 1..=64),
        max_length: book.input("max_length", 4, 1..=64),
        stride: book.input("stride", 4, 1..=64),
        shuffle: book.input("shuffle", false, ..),
        drop_last: true,
    };
    let dataloader = create_dataloader_v1(raw_text, &tokenizer, config)?;
    let mut data_iter = dataloader.epoch(&mut TorchRng::manual_seed(0));
    let batch = data_iter.next().context("a batch")??;
    book.prints(
        "In [41]",
        &batch.input_ids,
        "tensor([[   40,   367,  2885,  1464],
        [ 1807,  3619,   402,   271],
        [10899,  2138,   257,  7026],
        [15632,   438,  2016,   257],
        [  922,  5891,  1576,   438],
        [  568,   340,   373,   645],
        [ 1049,  5975,   284,   502],
        [  284,  3285,   326,    11]])",
    );
    book.prints(
        "In [41]",
        &batch.target_ids,
        "tensor([[  367,  2885,  1464,  1807],
        [ 3619,   402,   271, 10899],
        [ 2138,   257,  7026, 15632],
        [  438,  2016,   257,   922],
        [ 5891,  1576,   438,   568],
        [  340,   373,   645,  1049],
        [ 5975,   284,   502,   284],
        [ 3285,   326,    11,   287]])",
    );
    book.asks(
        "What happens to the windows if the stride is larger than `max_length`? What if it is smaller?",
        "If the stride is larger, some tokens are in no input window. If it is larger by just one, each skipped token is still the last target of the window before it, but with an even larger stride, some tokens aren't used at all. If the stride is smaller, the windows overlap, and the tokens in the overlap belong to more than one window.",
    );
    Ok(())
}

fn token_embeddings(book: &mut Notebook) -> Result<()> {
    book.section("2.7", "Creating token embeddings");
    // An id is only a position in a list. A larger id doesn't mean more of anything, so a model
    // can't compute with ids. It needs several numbers for each token, each of which can describe a
    // different aspect of the token. Together, these numbers form a vector, which is called the
    // token's *embedding*. The goal of this section is to create a table with one vector for each
    // id.
    //
    // The embeddings start as random numbers, and training changes them. In a trained model, words
    // with similar meanings have similar embeddings, because they occur in similar texts. What the
    // model learns about one of these words therefore also helps with the others.

    // The embedding table in this cell has six rows, one for each id, and {output_dim} columns. Its
    // numbers are random, but PyTorch draws the same numbers from the same seed.
    let input_ids = array![2, 3, 5, 1];
    let (vocab_size, output_dim) = (6, book.input("output_dim", 3, 1..=64));
    let mut rng = TorchRng::manual_seed(book.input("seed", 123, ..));
    let embedding_layer = Embedding::new(vocab_size, output_dim, &mut rng);
    book.prints(
        "In [44]",
        &embedding_layer.weight,
        "tensor([[ 0.3374, -0.1778, -0.1690],
        [ 0.9178,  1.5810,  1.3010],
        [ 1.2753, -0.2010, -0.1606],
        [-0.4015,  0.9666, -1.1481],
        [-1.1589,  0.3255, -0.6315],
        [-2.8400, -0.7849, -1.4096]], requires_grad=True)",
    );

    // Looking up the id three means reading the row with this index. The first row has the index
    // zero, so compare the result with the fourth row of the table above. The lookup only copies
    // the row and doesn't compute anything.
    book.prints(
        "In [45]",
        &embedding_layer.forward(&array![3]),
        "tensor([[-0.4015,  0.9666, -1.1481]], grad_fn=<EmbeddingBackward0>)",
    );

    // Looking up four ids gives four rows of the embedding table, in the order of the ids: two,
    // three, five, one. Find these rows in the table above. The lookup turns an array of shape (4)
    // into an array of shape (4, {output_dim}).
    book.prints(
        "In [46]",
        &embedding_layer.forward(&input_ids),
        "tensor([[ 1.2753, -0.2010, -0.1606],
        [-0.4015,  0.9666, -1.1481],
        [-2.8400, -0.7849, -1.4096],
        [ 0.9178,  1.5810,  1.3010]], grad_fn=<EmbeddingBackward0>)",
    );
    book.asks(
        "If the same word occurs twice in a sentence, do both occurrences have the same embedding?",
        "Yes. Both occurrences have the same id, and the same id gives the same row of the table, regardless of the word's position. That is why section 2.8 adds a vector for the position.",
    );
    Ok(())
}

fn positions(book: &mut Notebook) -> Result<()> {
    book.section("2.8", "Encoding word positions");
    // The embedding of a token doesn't depend on the token's position: "dog bites man" and "man
    // bites dog" give the same three vectors, only in a different order. The attention of section
    // 3.3 doesn't see the order either, because it treats all words alike. How can a model
    // distinguish the two sentences? The goal of this section is to add information about a token's
    // position to its vector.

    // We begin with a batch of ids like the one in In [41] and an embedding table of 50,257 rows,
    // one for each id of GPT-2's tokenizer. (A comment such as `(8, 4)` gives an array's shape, as
    // in the book.)
    let raw_text = book.the_verdict()?;
    let tokenizer = Gpt2Tokenizer::new();
    let mut rng = TorchRng::manual_seed(123);
    let (vocab_size, output_dim) = (tokenizer.vocab_size(), 256);
    let token_embedding_layer = Embedding::new(vocab_size, output_dim, &mut rng);

    let max_length = 4;
    let config = DataLoaderConfig {
        batch_size: 8,
        max_length,
        stride: max_length,
        shuffle: false,
        drop_last: true,
    };
    let dataloader = create_dataloader_v1(raw_text, &tokenizer, config)?;
    let batch = dataloader.epoch(&mut rng).next().context("a batch")??;
    book.shape("In [49]", &batch.input_ids, &[8, 4]);

    // Each of the 8 x 4 ids in the batch becomes a vector of 256 numbers.
    let token_embeddings = token_embedding_layer.forward(&batch.input_ids);
    book.shape("In [50]", &token_embeddings, &[8, 4, 256]);

    // A second embedding table has one row for each of the four positions in a window, which are
    // numbered from 0 to 3. Training changes the vectors in both tables.
    let context_length = max_length;
    let pos_embedding_layer = Embedding::new(context_length, output_dim, &mut rng);
    let positions: Array1<u32> = (0..max_length as u32).collect();
    let pos_embeddings = pos_embedding_layer.forward(&positions);
    book.shape("In [52]", &pos_embeddings, &[4, 256]);

    // The model's input is the sum of the token's vector and the position's vector. For example,
    // the first number of the first token is {of_token:.4} + {of_position:.4} = {of_both:.4}. At a
    // different position, the same token gets a different sum. As in PyTorch, adding an array of
    // shape (4, 256) to one of shape (8, 4, 256) adds the smaller array to each of the 8 windows.
    let input_embeddings = &token_embeddings + &pos_embeddings;
    book.value("of_token", token_embeddings[[0, 0, 0]]);
    book.value("of_position", pos_embeddings[[0, 0]]);
    book.value("of_both", input_embeddings[[0, 0, 0]]);
    book.shape("In [53]", &input_embeddings, &[8, 4, 256]);
    book.asks(
        "Why are the two vectors added instead of concatenated?",
        "Concatenation would work, too, but with two vectors of 256 numbers, every later layer would have to be twice as wide. The sum keeps the width. The model can still tell the two parts apart, because training can use different directions of the vector space for tokens and for positions.",
    );
    Ok(())
}
