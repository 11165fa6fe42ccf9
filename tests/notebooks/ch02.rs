//! ch02.ipynb: a text as tokens, windows and embeddings.
//!
//! Cells are numbered as in revision 28c65cd of the book's repository.

use anyhow::{Context, Result};
use dataloader::{Corpus, DataLoaderConfig, GptDataset, WindowConfig, create_dataloader_v1};
use ndarray::{Array1, array};
use pictures::windows;
use tensor_ops::Embedding;
use tokenizer::{
    AllowedSpecial, ENDOFTEXT, Gpt2Tokenizer, Separators, SimpleTokenizerV1, SimpleTokenizerV2,
    UNK, build_vocabulary, preprocess, split_keeping, without_blanks,
};
use torch_rng::TorchRng;

use crate::Notebook;
use crate::text::is_book;

pub(crate) fn run(book: &mut Notebook) -> Result<()> {
    book.opens(
        "A model computes with numbers, so a text must become numbers first. This chapter goes the whole way: text to tokens, tokens to ids, ids to training windows, and ids to vectors.",
        "some Rust (slices, iterators, `Result`); no machine learning.",
        40,
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
    // The chapter needs a text to work on. How long is it? Python's `len` counts characters; in
    // Rust `len()` counts bytes, so the characters are counted one by one. The `?` ends a function
    // early with an error, where Python would raise an exception.
    let raw_text = book.the_verdict()?;
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
    // How can a text be split into tokens? A first try splits at white space and keeps it, like
    // Python's `re.split(r'(\s)', text)`: the parentheses in that pattern mean "keep the
    // separators". Here a named separator replaces the pattern.
    let text = book.input("text", "Hello, world. This, is a test.".to_owned(), ..=1000);
    let result = split_keeping(&text, Separators::Whitespace);
    book.prints(
        "In [4]",
        &result,
        "['Hello,', ' ', 'world.', ' ', 'This,', ' ', 'is', ' ', 'a', ' ', 'test.']",
    );

    // Words and punctuation should be separate: "Hello," is two tokens. Splitting at commas and
    // periods, too, separates them, but it leaves empty strings between two separators, and the
    // spaces.
    let result = split_keeping(&text, Separators::CommasPeriods);
    book.prints("In [5]", &result, "['Hello', ',', '', ' ', 'world', '.', '', ' ', 'This', ',', '', ' ', 'is', ' ', 'a', ' ', 'test', '.', '']");

    // Empty strings and white space are dropped: a list comprehension with `if item.strip()` in
    // Python, a filter in Rust. Ten tokens are left.
    let result = without_blanks(&result);
    book.prints(
        "In [6]",
        &result,
        "['Hello', ',', 'world', '.', 'This', ',', 'is', 'a', 'test', '.']",
    );

    // `preprocess` does both steps, with more kinds of punctuation and the double dash. The rest of
    // the chapter uses it. Type another sentence: which parts stay together?
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
        "How many tokens is \"don't\"? Guess, then type it into the field above.",
        "Three: `don`, `'` and `t`, because the apostrophe is a separator like a comma. A tokenizer made of rules needs a rule for each such case; section 2.5 does without rules.",
    );
    Ok(())
}

fn vocabulary(book: &mut Notebook) -> Result<()> {
    // The function splits the whole text. Are the rules good enough? The first 30 tokens show it.
    let raw_text = book.the_verdict()?;
    let preprocessed = preprocess(raw_text);
    let first = &preprocessed[..30.min(preprocessed.len())];
    book.prints("In [8]", first, "['I', 'HAD', 'always', 'thought', 'Jack', 'Gisburn', 'rather', 'a', 'cheap', 'genius', '--', 'though', 'a', 'good', 'fellow', 'enough', '--', 'so', 'it', 'was', 'no', 'great', 'surprise', 'to', 'me', 'to', 'hear', 'that', ',', 'in']");

    // The number of tokens is about a quarter of the number of characters.
    book.prints("In [9]", &preprocessed.len(), "4690");

    book.section("2.3", "Converting tokens into token IDs");
    // Which number does a token get? The distinct tokens are sorted and numbered: that list is the
    // vocabulary. Its length is the number of ids, far less than the number of tokens, because most
    // words occur again and again.
    let vocab = build_vocabulary(&preprocessed);
    book.prints("In [10]", &vocab.len(), "1130");

    // The first entries: punctuation comes before letters, and capitals before small letters,
    // because that is the order of the characters' codes.
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
    // A tokenizer is that vocabulary in both directions: `encode` looks up the id of each token.
    // `SimpleTokenizerV1::new(vocab)` takes ownership of the vocabulary (Rust calls this a *move*),
    // so nobody else can change it.
    let tokenizer = SimpleTokenizerV1::new(vocab);
    let sentence = "\"It's the last he painted, you know,\" \n           Mrs. Gisburn said with pardonable pride.";
    let text = book.input("text", known(raw_text, sentence), ..=1000);
    let ids = tokenizer.encode(&text)?;
    book.prints("In [14]", &ids, "[1, 56, 2, 850, 988, 602, 533, 746, 5, 1126, 596, 5, 1, 67, 7, 38, 851, 1108, 754, 793, 7]");

    // `decode` goes the other way: it joins the tokens with spaces and removes the spaces before
    // punctuation. The result isn't quite the original text: the line break is gone, and there is a
    // space in "It' s".
    let decoded = tokenizer.decode(&ids)?;
    book.prints(
        "In [15]",
        &decoded,
        "\" It' s the last he painted, you know,\" Mrs. Gisburn said with pardonable pride.",
    );

    book.asks(
        "Which information about a text does `decode(encode(text))` lose?",
        "White space: how many spaces there were, and line breaks. The vocabulary has no token for them, so no rule can bring them back.",
    );
    Ok(())
}

/// Returns the book's sentence; for another text, its beginning, whose words the vocabulary has.
fn known(raw_text: &str, sentence: &str) -> String {
    if is_book(raw_text) {
        return sentence.to_owned();
    }
    let words = raw_text.split_whitespace().take(18);
    words.collect::<Vec<_>>().join(" ")
}

fn special_tokens(book: &mut Notebook) -> Result<()> {
    book.section("2.4", "Adding special context tokens");
    // How does the tokenizer treat a word that the text doesn't have? "Hello" is not in the
    // vocabulary, so encoding fails. In Rust the error is a value of the type `Result`, and it
    // names the word and its place.
    let raw_text = book.the_verdict()?;
    let preprocessed = preprocess(raw_text);
    let tokenizer = SimpleTokenizerV1::new(build_vocabulary(&preprocessed));
    let text = "Hello, do you like tea. Is this-- a test?";
    book.refuses(
        "In [17]",
        tokenizer.encode(text),
        "unknown token \"Hello\" at byte 0",
    );

    // Two special tokens are added: one for every unknown word, and one between two unrelated
    // texts. `mut` allows the vocabulary to change.
    let mut vocab = build_vocabulary(&preprocessed);
    vocab.extend([ENDOFTEXT, UNK]);
    book.prints("In [19]", &vocab.len(), "1132");

    // They are appended after sorting, so no other id has changed.
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
    // The second tokenizer puts the id of `<|unk|>` where a word is unknown. Two texts are joined
    // with the end of text between them; look for the ids of the two special tokens.
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

    // Decoding can't restore the unknown words: "Hello" and "palace" have both become `<|unk|>`.
    let decoded = tokenizer.decode(&ids)?;
    book.prints(
        "In [24]",
        &decoded,
        "<|unk|>, do you like tea? <|endoftext|> In the sunlit terraces of the <|unk|>.",
    );
    book.asks(
        "Could a model answer a question about \"Hello\" with this tokenizer?",
        "No. \"Hello\" and every other unknown word have the same id, so the model can't tell them apart.",
    );
    Ok(())
}

fn byte_pairs(book: &mut Notebook) -> Result<()> {
    book.section("2.5", "BytePair encoding");
    // How can a tokenizer know every word? GPT-2's vocabulary has 50,257 pieces: frequent words are
    // one piece, rare words several, and every single byte is a piece, so nothing is unknown. Look
    // at how many ids "someunknownPlace" has. The end of text is special only if it is allowed.
    let tokenizer = Gpt2Tokenizer::new();
    let text = book.input(
        "text",
        "Hello, do you like tea? <|endoftext|> In the sunlit terracesof someunknownPlace."
            .to_owned(),
        ..=1000,
    );
    let integers = tokenizer.encode_allowing(&text, AllowedSpecial::Only(&[ENDOFTEXT]))?;
    book.prints("In [28]", &integers, "[15496, 11, 466, 345, 588, 8887, 30, 220, 50256, 554, 262, 4252, 18250, 8812, 2114, 1659, 617, 34680, 27271, 13]");

    // Decoding returns exactly the original text, including spaces, because a space is part of a
    // token: " tea" and "tea" are different tokens.
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
        "Does \"Tea\" have as many tokens as \"tea\"? And \"TEA\"?",
        "No. Capital letters are different bytes, so they need different tokens, and a spelling that was rare in the text for GPT-2's vocabulary is split into more of them. Try it in the field above.",
    );
    Ok(())
}

fn sliding_window(book: &mut Notebook) -> Result<()> {
    book.section("2.6", "Data sampling with a sliding window");
    // What does a model learn from? It learns by guessing the next token, so a text gives as many
    // exercises as it has tokens. First, the whole text is encoded with GPT-2's tokenizer.
    let raw_text = book.the_verdict()?;
    let tokenizer = Gpt2Tokenizer::new();
    let enc_text = Corpus::from_text(raw_text, &tokenizer)?;
    book.prints("In [30]", &enc_text.len(), "5145");

    book.listing("crates/dataloader/src/dataset.rs", "impl GptDataset {");
    // An exercise for the model is a window of the text, x, and the same window one token later, y:
    // the right answers. Python slices the list twice; here `GptDataset` does. The numbers of y are
    // the numbers of x moved to the left.
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

    // One window holds several exercises: after one token guess the second, after two the third,
    // and so on.
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

    // The same exercises as text. The token to the right of the arrow is the one that the model
    // must learn to predict.
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
    book.draws("Windows of four tokens, and their targets", || {
        let pieces: Vec<String> = (enc_text
            .read(first..enc_text.len().min(first + 10))
            .iter()
            .flat_map(|ids| ids.iter()))
        .map(|&id| tokenizer.decode_lossy(&[id]).unwrap_or_default())
        .collect();
        let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
        windows("Windows of 4 tokens, stride 1", &pieces, &[0, 1, 2], 4)
    });

    book.sketch(
        "From a text to a batch",
        "
ids of the text          i0  i1  i2  i3  i4  i5  i6  i7  i8 ...     (5145)
                         \\_____________/
x, max_length = 4        i0  i1  i2  i3                              (4)
y, one later                 i1  i2  i3  i4                          (4)
                                         \\_____________/
next x, stride = 4                       i4  i5  i6  i7              (4)

batch_size = 8 windows   inputs (8, 4)        targets (8, 4)
",
    );
    book.listing(
        "crates/dataloader/src/loader.rs",
        "pub fn create_dataloader_v1(",
    );
    // A data loader cuts the whole text into windows and hands them out in batches. This one is as
    // small as possible: one window of four tokens. Python's keyword arguments are the fields of a
    // struct here.
    let config = DataLoaderConfig {
        batch_size: book.input("batch_size", 1, 1..=64),
        max_length: book.input("max_length", 4, 1..=64),
        stride: book.input("stride", 1, 1..=64),
        shuffle: book.input("shuffle", false, ..),
        drop_last: true,
    };
    let dataloader = create_dataloader_v1(raw_text, &tokenizer, config)?;
    // The seed matters only with `shuffle`: it decides the order of the windows.
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

    // With a stride of 1 the second window begins one token later, so the two overlap. `??` is two
    // early exits: there may not be another batch, and reading it may fail.
    let second_batch = data_iter
        .next()
        .context("the text has one batch only; use a smaller batch_size or stride")??;
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

    // Eight windows in a batch, with a stride as long as a window: no token is left out, and no
    // token is used twice, because repeated tokens would make the model overfit sooner.
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
        "What happens to the windows if the stride is larger than `max_length`? And if it is smaller?",
        "Larger: some tokens are in no window and are never learned from. Smaller: windows overlap, and a token is in several of them.",
    );
    Ok(())
}

fn token_embeddings(book: &mut Notebook) -> Result<()> {
    book.section("2.7", "Creating token embeddings");
    // An id is only a number in a list: 3 is not "more" than 2. So each id gets a vector, a row of
    // a matrix, which training will change. Here are 6 ids with 3 numbers each, drawn at random;
    // PyTorch draws the same numbers from this seed.
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

    // To look up id 3 means to read row 3 of the matrix, its fourth row. Nothing is computed.
    book.prints(
        "In [45]",
        &embedding_layer.forward(&array![3]),
        "tensor([[-0.4015,  0.9666, -1.1481]], grad_fn=<EmbeddingBackward0>)",
    );

    // Four ids give four rows, in the order of the ids: (4) becomes (4, 3).
    book.prints(
        "In [46]",
        &embedding_layer.forward(&input_ids),
        "tensor([[ 1.2753, -0.2010, -0.1606],
        [-0.4015,  0.9666, -1.1481],
        [-2.8400, -0.7849, -1.4096],
        [ 0.9178,  1.5810,  1.3010]], grad_fn=<EmbeddingBackward0>)",
    );
    book.asks(
        "Two words of a sentence are the same. Are their vectors the same, too?",
        "Yes: the same id is the same row, at every position. That is why section 2.8 adds a vector for the position.",
    );
    Ok(())
}

fn positions(book: &mut Notebook) -> Result<()> {
    book.section("2.8", "Encoding word positions");
    // The lookup doesn't know a token's position: "dog bites man" and "man bites dog" give the same
    // three vectors. How can a model tell them apart? We begin with a batch as in 2.6 and a table
    // of 50,257 rows, one for each id. A comment such as `(8, 4)` gives an array's shape, as in the
    // book.
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
    // The batch has the ids of In [41].
    book.shape("In [49]", &batch.input_ids, &[8, 4]);

    // Each of the 8 x 4 ids becomes 256 numbers.
    let token_embeddings = token_embedding_layer.forward(&batch.input_ids);
    book.shape("In [50]", &token_embeddings, &[8, 4, 256]);

    // A second table has a row for each position: 0, 1, 2, 3. Its rows are learned, too.
    let context_length = max_length;
    let pos_embedding_layer = Embedding::new(context_length, output_dim, &mut rng);
    let positions: Array1<u32> = (0..max_length as u32).collect();
    let pos_embeddings = pos_embedding_layer.forward(&positions);
    book.shape("In [52]", &pos_embeddings, &[4, 256]);

    // The sum of both is the input of the model: the position vectors are added to each of the 8
    // texts. Adding (4, 256) to (8, 4, 256) repeats the smaller array, as in PyTorch.
    let input_embeddings = &token_embeddings + &pos_embeddings;
    book.shape("In [53]", &input_embeddings, &[8, 4, 256]);
    book.asks(
        "Why are the two vectors added instead of concatenated?",
        "Concatenation would work, too, but every later layer would be twice as wide. The sum keeps the width, and training can use different directions for tokens and positions.",
    );
    Ok(())
}
