//! Rust port of ch02.ipynb, which turns a text into tokens, training windows and embedding vectors.
//!
//! Cells are numbered as in revision 28c65cd of the book's repository.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use anyhow::{Context, Result};
use dataloader::{Corpus, DataLoaderConfig, GptDataset, WindowConfig, create_dataloader_v1};
use ndarray::{Array1, Array2, array, s};
use pictures::windows;
use tensor_ops::{Embedding, matmul};
use tokenizer::bpe::{Bpe, BpeConfig, gpt2_pieces};
use tokenizer::{
    AllowedSpecial, ENDOFTEXT, ENDOFTEXT_ID, Gpt2Tokenizer, Separators, SimpleTokenizerV1,
    SimpleTokenizerV2, UNK, build_vocabulary, preprocess, split_keeping, without_blanks,
};
use torch_rng::TorchRng;

use crate::Notebook;
use crate::text::STORY;

pub(crate) fn run(book: &mut Notebook) -> Result<()> {
    book.opens(
        "A model operates on numbers, so a text must first be turned into numbers. This chapter covers the whole path: it splits a text into tokens, gives each token an id, cuts the ids into windows for training, and turns each id into a vector.",
        "some Rust (slices, iterators, `Result`), but no machine learning.",
        60,
    );
    book.part(the_text);
    book.part(splitting_a_text);
    book.part(vocabulary);
    book.part(special_tokens);
    book.part(byte_pairs);
    book.part(sliding_window);
    book.part(batches_for_training);
    book.part(token_embeddings);
    book.part(positions);
    Ok(())
}

fn the_text(book: &mut Notebook) -> Result<()> {
    book.section("2.2", "Tokenizing text");
    // A language model reads and writes text in small pieces, which are called *tokens*. All tokens
    // come from a fixed list, so the model can store several hundred numbers for each of them. The
    // goal of this section is to split a text into words and punctuation marks, which are the
    // simplest kind of token.
    //
    // Why not single letters? The list of letters is much shorter than a list of words. However, a
    // letter says almost nothing on its own, and a text has several times as many letters as words,
    // so the model would have to read and write much longer sequences.

    // We need a text to work on. The text that this cell reads has {characters:,} characters. (In
    // Python, `len` counts the characters of a string. In Rust, `len()` counts its bytes, so this
    // code counts the characters with `chars().count()`. The `?` makes a Rust function return early
    // with an error where Python would raise an exception.)
    let raw_text = book.the_verdict()?;
    book.value("characters", raw_text.chars().count());
    book.prints(
        "In [3]",
        &raw_text.chars().count(),
        "Total number of character: 20479",
    );
    // The second output contains the first {beginning} characters.
    let beginning: String = raw_text.chars().take(99).collect();
    book.value("beginning", beginning.chars().count());
    book.prints("In [3]", &beginning, "I HAD always thought Jack Gisburn rather a cheap genius--though a good fellow enough--so it was no ");
    Ok(())
}

fn splitting_a_text(book: &mut Notebook) -> Result<()> {
    // The first attempt splits a short text at whitespace and keeps the whitespace as separate
    // pieces. In Python, this is `re.split(r'(\s)', text)`, where the parentheses mean "keep the
    // separators". Our function `split_keeping` takes the name of a group of separators instead of
    // a pattern. Look at the punctuation marks in the output. A mark that directly follows a word
    // is still attached to it.
    let text = book.input("text", "Hello, world. This, is a test.".to_owned(), ..=1000);
    let result = split_keeping(&text, Separators::Whitespace);
    book.prints(
        "In [4]",
        &result,
        "['Hello,', ' ', 'world.', ' ', 'This,', ' ', 'is', ' ', 'a', ' ', 'test.']",
    );

    // Punctuation marks carry meaning. For example, they show where a sentence ends and whether it
    // is a question. The model should therefore see them, but as tokens of their own. Otherwise, it
    // would need one token for a word alone and an additional token for each combination of this
    // word with a punctuation mark.
    //
    // The second attempt therefore also splits the text at commas and periods. However, the result
    // still contains the spaces of the text, and it contains an empty string wherever two
    // separators are adjacent or the text begins or ends with a separator.
    let result = split_keeping(&text, Separators::CommasPeriods);
    book.prints("In [5]", &result, "['Hello', ',', '', ' ', 'world', '.', '', ' ', 'This', ',', '', ' ', 'is', ' ', 'a', ' ', 'test', '.', '']");

    // Next, we remove the empty strings and the whitespace, which carry little meaning in a story
    // and would make the sequence longer. (In Python code, whitespace matters, so a tokenizer for
    // code must keep it.) The number of tokens that remain is {left}. In Python, this step is a
    // list comprehension with `if item.strip()`. Our function `without_blanks` uses a filter.
    let result = without_blanks(&result);
    book.value("left", result.len());
    book.prints(
        "In [6]",
        &result,
        "['Hello', ',', 'world', '.', 'This', ',', 'is', 'a', 'test', '.']",
    );

    book.listing("crates/tokenizer/src/split.rs", "pub fn preprocess(");
    // The function `preprocess` performs both steps. It calls `split_text`, which splits a text,
    // and `strip_without_blanks`, which removes the whitespace. The separators are whitespace, the
    // punctuation marks `,.:;?!_"'()` and the double dash `--`. Sections 2.2 to 2.4 use this
    // function. Type a different sentence into the field. Which characters stay together as one
    // token?
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
        "Into how many tokens are \"don't\" and \"well-known\" split? Guess first, then type them into the field above.",
        "\"don't\" becomes three tokens, `don`, `'` and `t`, because the apostrophe is a separator, like a comma. \"well-known\" stays one token, because a single hyphen isn't a separator. A tokenizer that consists only of rules needs a rule for each such case. GPT-2's tokenizer (section 2.5) also has a few rules, one of which keeps `'t` together, but it learns from a text which pieces to use.",
    );
    book.holds(
        "don't is three tokens, and well-known is one",
        preprocess("don't well-known") == ["don", "'", "t", "well-known"],
    );
    Ok(())
}

fn vocabulary(book: &mut Notebook) -> Result<()> {
    // Next, `preprocess` splits the whole text into tokens. Look at the first 30 tokens in the
    // output.
    let raw_text = book.the_verdict()?;
    let preprocessed = preprocess(raw_text);
    let first = &preprocessed[..30.min(preprocessed.len())];
    book.prints("In [8]", first, "['I', 'HAD', 'always', 'thought', 'Jack', 'Gisburn', 'rather', 'a', 'cheap', 'genius', '--', 'though', 'a', 'good', 'fellow', 'enough', '--', 'so', 'it', 'was', 'no', 'great', 'surprise', 'to', 'me', 'to', 'hear', 'that', ',', 'in']");

    book.aside(|book| {
        let other_case = |token: &&str| {
            let mut others = preprocessed.iter();
            let other = others.find(|it| *it != token && it.eq_ignore_ascii_case(token))?;
            Some(format!("For example, `{token}` and `{other}` are two tokens, so a model has to learn separately what each of them means."))
        };
        let cases = first.iter().find_map(other_case);
        book.value("cases", cases.unwrap_or_default());
    });
    book.asks(
        "Are these splitting rules good enough?",
        "Mostly yes, because they separate words and punctuation marks. However, the rules know nothing about the meaning of the words. {cases} In addition, a name that consists of two words becomes two tokens.",
    );

    // The text has {tokens:,} tokens. On average, a token stands for {per_token:.1} characters of
    // the text, including the whitespace that was removed. If each character were a token, the
    // sequence would be {per_token:.1} times as long.
    book.aside(|book| {
        let characters = raw_text.chars().count() as f64;
        book.value("tokens", preprocessed.len());
        book.value("per_token", characters / preprocessed.len() as f64);
    });
    book.prints("In [9]", &preprocessed.len(), "4690");

    book.section("2.3", "Converting tokens into token IDs");
    // A model can calculate only with numbers, so each distinct token is assigned a number, its
    // *id*. An id is also a row number in the table of vectors that section 2.7 introduces. The
    // goal of this section is to build a tokenizer that converts a text into ids and converts ids
    // back into a text.

    // The distinct tokens are sorted and numbered from 0. This list is the *vocabulary*. It has
    // {distinct:,} tokens, far fewer than the {tokens:,} tokens of the text, because frequent words
    // occur again and again.
    //
    // Why are the tokens sorted? The ids are only names, so any order would work. However, a
    // trained model must be used with the same ids with which it was trained. Sorting ensures that
    // the same text always produces the same vocabulary and therefore the same ids.
    let vocab = build_vocabulary(&preprocessed);
    book.value("distinct", vocab.len());
    book.prints("In [10]", &vocab.len(), "1130");

    // How many of the distinct tokens occur only once in the text? To count them, this cell sorts
    // all tokens of the text, so that equal tokens are next to each other. The tokens that occur
    // only once make up {once:%} of the vocabulary. A model could learn little about them from this
    // text.
    let mut sorted = preprocessed.clone();
    sorted.sort_unstable();
    let groups = sorted.chunk_by(|one, other| one == other);
    let once = groups.filter(|group| group.len() == 1).count();
    book.value("once", once as f64 / vocab.len() as f64);
    book.yours("Tokens that occur once", &once);

    // Here are the first entries of the vocabulary. The position of a token in this list is its id,
    // so `{first_token}` has the id 0, and the last token in the output, `{last_token}`, has the id
    // {last_id}. The tokens are sorted by the codes of their characters. In ASCII, most punctuation
    // marks have smaller codes than the letters, and capital letters have smaller codes than
    // lowercase letters.
    book.aside(|book| {
        let last_id = vocab.len().clamp(1, 51) - 1;
        book.value("last_id", last_id);
        for (name, id) in [("first_token", 0), ("last_token", last_id)] {
            book.value(name, vocab.tokens().get(id).map_or("", |token| token));
        }
    });
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
    // The tokenizer uses the vocabulary in both directions: its method `encode` splits a text into
    // tokens and looks up the id of each token, and its method `decode` looks up the token for each
    // id. If the text contains a word that isn't in the vocabulary, `encode` returns an error
    // (section 2.4). Otherwise, the output contains one id for each token of the text. {repeated}
    //
    // (`SimpleTokenizerV1::new(vocab)` takes ownership of the vocabulary, so the variable `vocab`
    // can't be used afterward. In Rust, this is called a *move*.)
    let tokenizer = SimpleTokenizerV1::new(vocab);
    let text = book.input_of_text("text", [OF_BOOK, &known(raw_text)], ..=1000);
    book.aside(|book| {
        let words = preprocess(&text);
        let mut places = words.iter().enumerate();
        let again = places.find(|(at, word)| words[..*at].contains(word));
        let repeated = again.and_then(|(_, word)| {
            let id = tokenizer.vocabulary().id(word)?;
            Some(format!("A token that occurs several times has the same id each time. For example, look for {id}, the id of `{word}`."))
        });
        book.value("repeated", repeated.unwrap_or_default());
        book.value("decoded_text", ""); // in case the text can't be encoded
    });
    let ids = tokenizer.encode(&text)?;
    book.prints("In [14]", &ids, "[1, 56, 2, 850, 988, 602, 533, 746, 5, 1126, 596, 5, 1, 67, 7, 38, 851, 1108, 754, 793, 7]");

    // `decode` joins the tokens with spaces and then removes the spaces before some punctuation
    // marks (`,.?!"()'`). Compare the decoded text with the original. {decoded_text}
    let decoded = tokenizer.decode(&ids)?;
    book.aside(|book| {
        let is_quote = text.starts_with('"') && !text.starts_with("\" ");
        let has_spaces = decoded.starts_with("\" ") && decoded.contains("' s ");
        let is_one_line = text.matches('\n').count() == 1 && !decoded.contains('\n');
        let has_one_s = text.contains("'s ") && text.matches('\'').count() == 1;
        let is_so = is_quote && has_spaces && has_one_s && is_one_line;
        book.holds("the spaces and the line break", is_so);
        let changes = "The line break is gone, and there is now a space after the first quotation mark and after the apostrophe.";
        book.value("decoded_text", if is_so { changes } else { "" });
    });
    book.prints(
        "In [15]",
        &decoded,
        "\" It' s the last he painted, you know,\" Mrs. Gisburn said with pardonable pride.",
    );

    book.asks(
        "What information about a text is lost in `decode(encode(text))`?",
        "The whitespace. The vocabulary has no tokens for spaces and line breaks, so the ids don't show where they were, and `decode` has to guess.",
    );
    Ok(())
}

/// Example text from section 2.3 of the original ch02.ipynb. All of its words occur in the book's
/// text.
const OF_BOOK: &str =
    "\"It's the last he painted, you know,\" \n           Mrs. Gisburn said with pardonable pride.";

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

    // The word "Hello" isn't in the vocabulary, so the tokenizer from section 2.3 can't encode the
    // text in this cell. Instead of ids, `encode` returns an error that contains the unknown word
    // and its position in the text.
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
    // The second tokenizer, `SimpleTokenizerV2`, replaces each unknown word with `<|unk|>`, whose
    // id is {unk_id}. The id of `<|endoftext|>` is {end_id}. The characters `<` and `|` aren't
    // separators, so `preprocess` keeps `<|endoftext|>` together as a single token if there are
    // spaces around it. {look_for}
    book.aside(|book| {
        for (name, token) in [("unk_id", UNK), ("end_id", ENDOFTEXT)] {
            book.value(name, vocab.id(token).unwrap_or_default());
        }
        book.holds("Hello is unknown", vocab.id("Hello").is_none());
    });
    let tokenizer = SimpleTokenizerV2::new(vocab)?;
    let text1 = "Hello, do you like tea?";
    let text2 = "In the sunlit terraces of the palace.";
    let text = book.input("text", [text1, text2].join(" <|endoftext|> "), ..=1000);
    let ids = tokenizer.encode(&text)?;
    book.aside(|book| {
        let id = |token| tokenizer.vocabulary().id(token);
        let has_both = [UNK, ENDOFTEXT]
            .iter()
            .all(|token| id(token).is_some_and(|id| ids.contains(&id)));
        let look = "Look for both ids in the output.";
        book.value("look_for", if has_both { look } else { "" });
    });
    book.prints(
        "In [23]",
        &ids,
        "[1131, 5, 355, 1126, 628, 975, 10, 1130, 55, 988, 956, 984, 722, 988, 1131, 7]",
    );

    // Decoding can't restore the unknown words, because each of them was replaced with `<|unk|>`.
    // {unknown_words}
    let decoded = tokenizer.decode(&ids)?;
    book.aside(|book| {
        let vocab = tokenizer.vocabulary();
        let mut unknown = preprocess(&text);
        unknown.retain(|token| vocab.id(token).is_none());
        let unknown_words = match &unknown[..] {
            [] => "In this text, all words are known.".to_owned(),
            [word] => format!("This text has one unknown word, \"{word}\"."),
            [words @ .., last] => {
                let count = unknown.len();
                let words = words.join("\", \"");
                format!("This text has {count} unknown words: \"{words}\" and \"{last}\".")
            }
        };
        book.value("unknown_words", unknown_words);
        let marked = ids.iter().filter(|&&id| Some(id) == vocab.id(UNK)).count();
        book.holds("each of them is marked", marked == unknown.len());
    });
    book.prints(
        "In [24]",
        &decoded,
        "<|unk|>, do you like tea? <|endoftext|> In the sunlit terraces of the <|unk|>.",
    );
    // Other tokenizers use different special tokens. For example, `[BOS]` and `[EOS]` mark the
    // beginning and the end of a text, `[PAD]` pads the shorter texts of a batch to the length of
    // the longest one, and `[UNK]` stands for an unknown word. GPT-2's tokenizer uses only
    // `<|endoftext|>`. It doesn't need a token for unknown words, because it can spell any word
    // with shorter pieces, as the next section shows.
    book.asks(
        "Could a model that uses this tokenizer answer a question about the word \"Hello\"?",
        "No. \"Hello\" and all other unknown words have the same id, so the model can't tell them apart. A larger vocabulary could contain this word, but it would still lack other words, such as rare names and spelling mistakes.",
    );
    Ok(())
}

/// Returns the text of a piece. If the piece isn't valid UTF-8, for example because it is only one
/// byte of a character, returns its bytes as escape sequences, such as `\xc3`.
fn spelled(piece: &[u8]) -> String {
    match str::from_utf8(piece) {
        Ok(text) => text.to_owned(),
        Err(_) => piece.escape_ascii().to_string(),
    }
}

/// Encodes a text and returns its pieces as text.
fn pieces_of(text: &str, bpe: &Bpe) -> Vec<String> {
    let ids = bpe.encode_ordinary(text);
    ids.iter()
        .map(|&id| spelled(&bpe.tokens()[id as usize]))
        .collect()
}

fn byte_pairs(book: &mut Notebook) -> Result<()> {
    book.section("2.5", "BytePair encoding");
    // How can a tokenizer handle every word? A list of words is never complete, so some words
    // remain unknown. With single bytes, every text can be represented, but the sequences become
    // several times as long. *Byte pair encoding* (BPE) is a compromise between the two: frequent
    // words are single tokens, and rare words are spelled with shorter pieces, which the method
    // learns from a text. The goal of this section is to see how BPE works and how GPT-2's
    // tokenizer treats known and unknown words.
    //
    // Byte-level BPE starts with a text that is split into single bytes. (A plain English letter is
    // one byte.) It counts all pairs of adjacent pieces and joins the most frequent pair into a new
    // piece. It repeats this step, which is called a *merge*, until the vocabulary has the desired
    // size. Before the first merge, GPT-2's tokenizer divides the text into words. A single space
    // before a word belongs to the word, and merges never cross the boundary between two words.

    // Which pair of adjacent bytes occurs most often in this tiny text? Count the pairs by hand
    // before you look at the output, which lists up to five of the most frequent pairs. A vertical
    // line separates the two pieces of a pair. Pairs that cross the boundary between two words
    // aren't counted.
    let tiny_text = book.input("tiny_text", "low low lower lowest".to_owned(), 1..=200);
    let mut counts = BTreeMap::new();
    for word in gpt2_pieces(&tiny_text) {
        for pair in word.as_bytes().windows(2) {
            *counts.entry([&pair[..1], &pair[1..]]).or_insert(0) += 1;
        }
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| Reverse(*count));
    let mut lines = Vec::new();
    for (pair, count) in counts.iter().take(5) {
        lines.push(format!("{}: {count}", pair.map(spelled).join("|")));
    }
    book.yours("Pair counts", &lines.join("\n"));

    // The output shows the pieces of the tiny text before the first merge and after each merge. The
    // loop performs at most four merges. {first_merge} If several pairs are equally frequent, the
    // pair with the smallest ids is merged first.
    //
    // After each merge, the pairs are counted again, because the new piece forms new pairs with its
    // neighbors. {fewer_pieces}
    let mut lines = Vec::new();
    for merges in 0..=4 {
        let config = BpeConfig {
            vocab_size: 256 + merges,
            ..BpeConfig::default()
        };
        let bpe = Bpe::train_plain(&tiny_text, &config)?;
        if bpe.merges().len() < merges {
            break; // no pair occurs twice
        }
        let pieces = pieces_of(&tiny_text, &bpe);
        let plural = if merges == 1 { "" } else { "s" };
        lines.push(format!("{merges} merge{plural}: {}", pieces.join("|")));
        book.aside(|book| {
            let spelled_id = |id: u32| spelled(&bpe.tokens()[id as usize]);
            let first_merge = match bpe.merges().first() {
                Some(it) => {
                    let (left, right) = (spelled_id(it.left), spelled_id(it.right));
                    format!("The first merge combines \"{left}\" and \"{right}\".")
                }
                None => "In this text, no pair occurs twice, so nothing is merged.".to_owned(),
            };
            book.value("first_merge", first_merge);
            let (before, after) = (tiny_text.len(), pieces.len());
            let fewer_pieces = match merges {
                0 => String::new(),
                1 => format!("One merge reduces {before} pieces to {after}."),
                _ => format!("Together, {merges} merges reduce {before} pieces to {after}."),
            };
            book.value("fewer_pieces", fewer_pieces);
        });
    }
    book.yours("Merges", &lines.join("\n"));

    // How do these merges encode a new text? The new text is split into single bytes, too, and the
    // learned merges are applied in the order in which they were learned. Nothing is counted this
    // time. {new_to_text} Guess its pieces before you look at the output.
    let new_word = book.input("new_word", "lowly".to_owned(), 1..=40);
    let config = BpeConfig {
        vocab_size: 256 + 4,
        ..BpeConfig::default()
    };
    let bpe = Bpe::train_plain(&tiny_text, &config)?; // the merges in the output above
    let pieces = pieces_of(&new_word, &bpe);
    book.aside(|book| {
        let new_to_text = match tiny_text.contains(&new_word) {
            true => format!("This cell encodes \"{new_word}\"."),
            false => format!("This cell encodes \"{new_word}\", which the tiny text doesn't contain."),
        };
        book.value("new_to_text", new_to_text);
        let ids = bpe.encode_ordinary(&new_word);
        let mut tokens = ids.iter().map(|&id| &bpe.tokens()[id as usize]);
        let known = match tokens.find(|token| token.len() > 1) {
            Some(token) => format!("In this example, the tokenizer has learned the piece \"{}\" from the tiny text. Bytes that aren't part of a learned piece stay separate.", spelled(token)),
            None => "In this example, none of the merges applies, so all pieces are single bytes.".to_owned(),
        };
        book.value("known_piece", known);
        book.holds("lowly is low, l and y", pieces == ["low", "l", "y"]);
    });
    book.yours("A new word", &pieces.join("|"));
    book.asks(
        "Why can the tokenizer encode a word that it has never seen?",
        "Every byte is a token, so any text can at least be spelled byte by byte. {known_piece}",
    );

    // GPT-2's vocabulary was built from a large text by byte pair encoding. It consists of 256
    // tokens for the single bytes, one token for each of 50,000 merges, and `<|endoftext|>`, which
    // makes 50,257 tokens. A frequent word is a single token, and a rare word consists of several
    // tokens.
    //
    // Which words become single tokens, and which words are split into several tokens?
    // {split_words} {lone_space}
    //
    // The special token `<|endoftext|>` has the id 50256. In this cell, the second argument of
    // `encode_allowing` permits this token. If a text contains a special token that isn't
    // permitted, `encode_allowing` returns an error, so users can't insert special tokens by typing
    // them.
    let tokenizer = Gpt2Tokenizer::new();
    let text = book.input(
        "text",
        "Hello, do you like tea? <|endoftext|> In the sunlit terracesof someunknownPlace."
            .to_owned(),
        ..=1000,
    );
    let integers = tokenizer.encode_allowing(&text, AllowedSpecial::Only(&[ENDOFTEXT]))?;
    book.aside(|book| {
        let is_word = |word: &&str| {
            let letters = word.trim();
            !letters.is_empty() && letters.chars().all(char::is_alphabetic)
        };
        let in_pieces = |ids: Vec<u32>| {
            let pieces = ids.iter().filter_map(|&id| tokenizer.piece(id));
            let pieces = pieces.map(|piece| format!("\"{}\"", spelled(piece)));
            pieces.collect::<Vec<_>>().join(" + ")
        };
        let words = text.split(ENDOFTEXT).flat_map(gpt2_pieces).filter(is_word);
        let split = words.map(|word| tokenizer.encode_ordinary(word));
        let split = split.filter(|ids| ids.len() > 1).map(in_pieces);
        let split_words = match &split.collect::<Vec<_>>()[..] {
            [] => String::new(),
            [one] => format!("In this text, one word is split into several tokens: {one}."),
            [first @ .., _] if first.len() >= 3 => format!(
                "In this text, {} words are split into several tokens. Here are the tokens of the first three words: {}.",
                first.len() + 1,
                first[..3].join(", ")
            ),
            words => format!(
                "In this text, {} words are split into several tokens: {}.",
                words.len(),
                words.join(", ")
            ),
        };
        book.value("split_words", split_words);
        let is_lone = integers.windows(2).any(|ids| ids == [220, ENDOFTEXT_ID]);
        let lone_space = "The id 220 before 50256 is a single space. The special token is cut out of the text first, so no word follows this space.";
        book.value("lone_space", if is_lone { lone_space } else { "" });
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
        "Which of these are single tokens: \"Tea\", \"tea\", \"TEA\", and \" tea\" with a space before it? Guess first, then try them in the field above.",
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

    // First, we encode the whole text with GPT-2's tokenizer, which produces {total_tokens:,}
    // tokens. {than_words} On average, a token stands for {per_gpt2_token:.1} characters.
    let raw_text = book.the_verdict()?;
    let tokenizer = Gpt2Tokenizer::new();
    let enc_text = Corpus::from_text(raw_text, &tokenizer)?;
    book.aside(|book| {
        let (total, words) = (enc_text.len(), preprocess(raw_text).len());
        let ids = tokenizer.encode_ordinary(raw_text);
        let pieces = ids.iter().filter_map(|&id| tokenizer.piece(id));
        let line_breaks = pieces.filter(|piece| piece.contains(&b'\n')).count();
        let reason = match 2 * line_breaks > total.saturating_sub(words) {
            true => format!("The main reason is that GPT-2's tokenizer also represents line breaks by tokens, {line_breaks} of them in this text."),
            false => "The reasons are that GPT-2's tokenizer splits rare words and also represents line breaks by tokens.".to_owned(),
        };
        let more = format!("GPT-2's vocabulary is far larger than that of section 2.3, so you might expect fewer tokens. However, GPT-2's tokenizer splits this text into more tokens than the function `preprocess` of section 2.2 does. {reason}");
        book.value("total_tokens", total);
        book.value("than_words", if total > words { &more } else { "" });
        book.value("per_gpt2_token", raw_text.chars().count() as f64 / total as f64);
        book.holds("GPT-2's tokenizer gives more tokens", total > words);
    });
    book.prints("In [30]", &enc_text.len(), "5145");

    book.listing("crates/dataloader/src/dataset.rs", "impl GptDataset {");
    // A training example is a pair of *windows*, each of which contains context_size tokens. In
    // this cell, context_size is {context_size}. As in the book, the first window begins after
    // {skipped} tokens, but any other position would do as well. The input x is a window of the
    // text, and the target y is the window that begins one token later. The id at each position in
    // y is therefore the right answer for the same position in x. Compare the two lines of output.
    // (The book's Python code slices the list of ids twice. In this notebook, `GptDataset` creates
    // both windows.)
    let first = 50.min(enc_text.len());
    book.value("skipped", first);
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

    // A pair of windows contains one prediction task for each input token. In the first task, the
    // model must predict the second token from the first. Each later task adds one token to the
    // known tokens and asks for the token that follows them. With the causal mask of chapter 3, the
    // model can do all tasks of a window at once.
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

    // This cell shows the same prediction tasks with text instead of ids. The model must learn to
    // predict the token to the right of each arrow from the text to the left of the arrow.
    // {split_names}
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
    book.aside(|book| {
        let shown = tokenizer.decode_lossy(&[x, &y[context_size - 1..]].concat());
        let shown = shown.unwrap_or_default();
        let is_split = |word: &&str| {
            let letters = word.trim();
            let is_word = !letters.is_empty() && letters.chars().all(char::is_alphabetic);
            is_word && tokenizer.encode_ordinary(word).len() > 1
        };
        let names: Vec<String> = gpt2_pieces(&shown)
            .into_iter()
            .filter(is_split)
            .map(|word| format!("\"{word}\""))
            .collect();
        let split_names = match &names[..] {
            [] => String::new(),
            names => format!("GPT-2's vocabulary has no single token for {}, so in some of the prediction tasks, the right answer is only a part of a word.", names.join(" or ")),
        };
        book.value("split_names", split_names);
    });
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
    // A *data loader* cuts the whole text into windows and delivers them in batches. Each batch
    // contains batch_size windows, and each window contains max_length tokens. In this cell,
    // batch_size is {batch_size}, and max_length is {max_length}. (Where Python uses keyword
    // arguments, the Rust code sets the fields of a struct.)
    //
    // The first output contains the inputs of the first batch, and the second output contains its
    // targets. In each row, the targets are the inputs, moved by one token. (Our code prints arrays
    // and shapes as PyTorch does, so that you can compare them with the book.)
    let config = DataLoaderConfig {
        batch_size: book.input("batch_size", 1, 1..=64),
        max_length: book.input("max_length", 4, 1..=64),
        stride: book.input("stride", 1, 1..=64),
        shuffle: book.input("shuffle", false, ..),
        drop_last: true,
    };
    let dataloader = create_dataloader_v1(raw_text, &tokenizer, config)?;
    // The seed has an effect only if `shuffle` is true, in which case the windows are in random
    // order.
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

    // The *stride* is the number of tokens from the start of one window to the start of the next,
    // which is {stride} in this example. If the stride is smaller than max_length, the windows
    // overlap. Compare the second batch with the first. {moved} (The code contains two question
    // marks because two things can fail: there may be no second batch, or reading it may fail.)
    book.aside(|book| {
        let is_single = config.batch_size == 1 && !config.shuffle;
        let moved = match config.stride {
            1 => "The window in the second batch is the window in the first batch, moved by one token.".to_owned(),
            stride => format!("The window in the second batch is the window in the first batch, moved by {stride} tokens."),
        };
        book.value("moved", if is_single { &moved } else { "" });
    });
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

    Ok(())
}

fn batches_for_training(book: &mut Notebook) -> Result<()> {
    // For training, the stride usually equals max_length, so that no token is used as an input
    // twice. Overlapping windows would repeat tokens, and the model would overfit sooner, which
    // means that it would learn the text by heart.
    //
    // The data loader in this cell uses a stride of {stride}, a max_length of {max_length} and a
    // batch_size of {batch_size}. Each row of the output is a window. {look_41}
    let config = DataLoaderConfig {
        batch_size: book.input("batch_size", 8, 1..=64),
        max_length: book.input("max_length", 4, 1..=64),
        stride: book.input("stride", 4, 1..=64),
        shuffle: book.input("shuffle", false, ..),
        drop_last: true,
    };
    let raw_text = book.the_verdict()?;
    let dataloader = create_dataloader_v1(raw_text, &Gpt2Tokenizer::new(), config)?;
    let mut data_iter = dataloader.epoch(&mut TorchRng::manual_seed(0));
    let batch = data_iter.next().context("a batch")??;
    book.aside(|book| {
        let is_joined = config.stride == config.max_length && !config.shuffle;
        let continues = is_joined && config.batch_size > 1;
        let look = "Find the last target of the first row in the table of inputs. It is the first input of the second row, because each window begins where the window above it ends.";
        book.value("look_41", if continues { look } else { "" });
        let last = batch.target_ids[[0, config.max_length - 1]];
        book.holds("the second row continues", continues && batch.input_ids[[1, 0]] == last);
    });
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
    // How many windows and batches does the text provide? Each window needs {max_length} inputs and
    // one more token as its last target, so it can start at any of the first {starts:,} tokens.
    // Windows start at every position that is a multiple of the stride, so the number of windows is
    // {starts:,} / {stride} = {windows:,}. {rounded} {left_out}
    //
    // For training, we set `shuffle` to true, so that each batch contains windows from different
    // parts of the text. Neighboring passages are similar. Without shuffling, all windows of a
    // batch would therefore teach the model nearly the same thing.
    let windows_and_batches = [dataloader.dataset().len(), dataloader.len()];
    book.aside(|book| {
        let [windows, batches] = windows_and_batches;
        let starts = dataloader.dataset().corpus().len() - config.max_length;
        book.value("starts", starts);
        book.value("windows", windows);
        book.holds(
            "the number of windows",
            windows == starts.div_ceil(config.stride),
        );
        let is_exact = starts.is_multiple_of(config.stride);
        let rounded = "(This quotient is rounded up.)";
        book.value("rounded", if is_exact { "" } else { rounded });
        let left_out = match windows - batches * config.batch_size {
            0 => "The windows fill all batches, so `drop_last` leaves none of them out.".to_owned(),
            1 => "The last window doesn't fill a batch, so `drop_last` leaves it out.".to_owned(),
            number => format!(
                "The last {number} windows don't fill a batch, so `drop_last` leaves them out."
            ),
        };
        book.value("left_out", left_out);
    });
    book.yours("Windows and batches", &windows_and_batches);
    book.asks(
        "What happens to the windows if the stride is larger than `max_length`? What if it is smaller?",
        "If the stride is larger, some tokens don't belong to any input window. If the stride is larger by just one, each skipped token is still the last target of the window before it, but with an even larger stride, some tokens aren't used at all. If the stride is smaller, the windows overlap, and the tokens in the overlap belong to more than one window.",
    );
    Ok(())
}

fn token_embeddings(book: &mut Notebook) -> Result<()> {
    book.section("2.7", "Creating token embeddings");
    // An id is only a position in a list. A larger id doesn't mean more of anything, so ids aren't
    // suitable for calculations. A model needs several numbers for each token, which can describe
    // different aspects of the token. Together, these numbers form a vector, which is called the
    // token's *embedding*. The goal of this section is to create a table with one vector for each
    // id.
    //
    // The embeddings start as random numbers, and training changes them. In a trained model, words
    // with similar meanings have similar embeddings, because they occur in similar texts. What the
    // model learns about one of these words therefore also helps with the others.

    // The embedding table in this cell has the shape (6, {output_dim}), with one row for each of
    // six ids. The numbers in the table are random, but a seed always produces the same numbers.
    // For the seed {seed}, they are the same numbers as in PyTorch.
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

    // Looking up an id means reading the row with this number. Rows are numbered from 0, so compare
    // the result with the fourth row of the table above. The lookup only copies the row and
    // computes nothing.
    book.prints(
        "In [45]",
        &embedding_layer.forward(&array![3]),
        "tensor([[-0.4015,  0.9666, -1.1481]], grad_fn=<EmbeddingBackward0>)",
    );

    // How can training change the rows of a table? Training adjusts the numbers in matrix products
    // (chapter 5), and a lookup is equivalent to a matrix product. In this cell, the left matrix is
    // a *one-hot* row, which has a 1 in the fourth place and zeros elsewhere. Every row of the
    // table except the fourth is multiplied by 0, so only the fourth row remains.
    //
    // Training can therefore adjust the table like any other matrix. In practice, a model looks up
    // the rows, because a lookup avoids the multiplications by 0.
    let mut one_hot = Array2::zeros((1, vocab_size));
    one_hot[[0, 3]] = 1.0;
    let product = matmul(&one_hot, &embedding_layer.weight);
    book.holds(
        "the product is the row",
        product == embedding_layer.forward(&array![3]),
    );
    book.yours("A lookup as a product", &product);

    // Looking up four ids returns four rows of the embedding table, in the order of the ids in
    // `input_ids`. Find these rows in the table above. The lookup turns an array of shape (4) into
    // an array of shape (4, {output_dim}).
    book.prints(
        "In [46]",
        &embedding_layer.forward(&input_ids),
        "tensor([[ 1.2753, -0.2010, -0.1606],
        [-0.4015,  0.9666, -1.1481],
        [-2.8400, -0.7849, -1.4096],
        [ 0.9178,  1.5810,  1.3010]], grad_fn=<EmbeddingBackward0>)",
    );
    book.asks(
        "A training step uses only these four ids. On which rows of the table can the model's error depend in this step?",
        "Only on the four rows that are looked up. The rows of the ids 0 and 4 aren't used, so this step teaches the model nothing about these ids. The embedding of a rare token is therefore adjusted rarely.",
    );
    book.asks(
        "If the same token occurs twice in a sentence, do both occurrences have the same embedding?",
        "Yes. Both occurrences have the same id, and an id always selects the same row of the table, regardless of the token's position. (The same word isn't always the same token. For example, \"Tea\" and \" tea\" have different ids in GPT-2's tokenizer.)",
    );
    Ok(())
}

fn positions(book: &mut Notebook) -> Result<()> {
    book.section("2.8", "Encoding word positions");
    // The embedding of a token doesn't depend on the token's position. If every word is a token
    // (section 2.3), "dog bites man" and "man bites dog" are represented by the same three vectors,
    // only in a different order. The attention of section 3.3 doesn't see the order either, because
    // it treats all words alike. How can a model distinguish the two sentences? The goal of this
    // section is to add information about a token's position to its vector.

    // We begin with a batch of ids and an embedding table of 50,257 rows, one for each id of
    // GPT-2's tokenizer. Each of the 8 windows in the batch has 4 tokens.
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

    // Next, each of the 8 x 4 ids in the batch is replaced with a vector of 256 numbers.
    let token_embeddings = token_embedding_layer.forward(&batch.input_ids);
    book.shape("In [50]", &token_embeddings, &[8, 4, 256]);

    // A second embedding table has one row for each of the four positions in a window, which are
    // numbered from 0 to 3. Training changes this table, too. Compare the shape of the position
    // vectors with the shape of the token vectors above.
    let context_length = max_length;
    let pos_embedding_layer = Embedding::new(context_length, output_dim, &mut rng);
    let positions: Array1<u32> = (0..max_length as u32).collect();
    let pos_embeddings = pos_embedding_layer.forward(&positions);
    book.shape("In [52]", &pos_embeddings, &[4, 256]);
    book.asks(
        "Why doesn't the shape of the positional embeddings contain the batch size?",
        "The positions are the same in every window, so one vector for each position is enough for all windows of the batch.",
    );

    // How many numbers do the token table and the position table contain? For each table, multiply
    // the number of rows by the number of columns before you look at the output.
    let sizes = [&token_embedding_layer, &pos_embedding_layer].map(|layer| layer.weight.len());
    book.holds("rows times columns", sizes == [50_257 * 256, 4 * 256]);
    book.yours("Numbers in the tables", &sizes);

    // The model's input is the sum of two vectors: the token's embedding and the embedding of its
    // position. The same token is therefore represented by a different sum at each position. As in
    // PyTorch, adding an array of shape (4, 256) to an array of shape (8, 4, 256) adds the smaller
    // array to each of the 8 windows.
    let input_embeddings = &token_embeddings + &pos_embeddings;
    book.shape("In [53]", &input_embeddings, &[8, 4, 256]);

    // The output shows the first three numbers of the first token's vector, of the first position's
    // vector, and of their sum. Add the first two rows column by column. For example, {of_token:.4}
    // + {of_position:.4} ≈ {of_both:.4}. (The numbers are rounded, so the last digit can differ.)
    //
    // These positions are *absolute*, because each row of the position table belongs to one
    // position in the window. A window with more than four tokens would contain positions for which
    // the table has no row. For the same reason, a GPT model can process only a limited number of
    // tokens at once, which is called its *context length*.
    book.value("of_token", token_embeddings[[0, 0, 0]]);
    book.value("of_position", pos_embeddings[[0, 0]]);
    book.value("of_both", input_embeddings[[0, 0, 0]]);
    let lines = [
        format!("token:    {:.4}", token_embeddings.slice(s![0, 0, ..3])),
        format!("position: {:.4}", pos_embeddings.slice(s![0, ..3])),
        format!("sum:      {:.4}", input_embeddings.slice(s![0, 0, ..3])),
    ];
    book.yours("Token, position, sum", &lines.join("\n"));
    book.asks(
        "Why are the two vectors added instead of concatenated?",
        "Concatenation would work, too, but with two vectors of 256 numbers, every later layer would have to be twice as wide, unless an additional layer reduced the width again. The sum, however, has only 256 numbers. The model can still tell the token and the position apart, because training can use different directions of the vector space for tokens and for positions.",
    );
    // We have now followed the whole path from a text to the input of a model. In chapter 3, the
    // input of attention is an array like the last one.
    book.sketch(
        "From a text to the input of a model",
        "
text
tokens                                   (section 2.5)
a batch of token ids        (8, 4)       (section 2.6)
token embeddings            (8, 4, 256)  (section 2.7)
+ positional embeddings        (4, 256)  (section 2.8)
= input embeddings          (8, 4, 256)
",
    );
    Ok(())
}
