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

pub(crate) fn run(book: &mut Notebook) -> Result<()> {
    book.part(the_text);
    book.part(splitting_a_text);
    book.part(vocabulary);
    book.part(byte_pairs);
    book.part(sliding_window);
    book.part(token_embeddings);
    book.part(positions);
    Ok(())
}

fn the_text(book: &mut Notebook) -> Result<()> {
    book.section("2.2", "Tokenizing text");
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
    let text = book.input("text", "Hello, world. This, is a test.".to_owned(), ..=1000);
    let result = split_keeping(&text, Separators::Whitespace);
    book.prints(
        "In [4]",
        &result,
        "['Hello,', ' ', 'world.', ' ', 'This,', ' ', 'is', ' ', 'a', ' ', 'test.']",
    );

    let result = split_keeping(&text, Separators::CommasPeriods);
    book.prints("In [5]", &result, "['Hello', ',', '', ' ', 'world', '.', '', ' ', 'This', ',', '', ' ', 'is', ' ', 'a', ' ', 'test', '.', '']");

    let result = without_blanks(&result);
    book.prints(
        "In [6]",
        &result,
        "['Hello', ',', 'world', '.', 'This', ',', 'is', 'a', 'test', '.']",
    );

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
    Ok(())
}

fn vocabulary(book: &mut Notebook) -> Result<()> {
    let raw_text = book.the_verdict()?;
    let preprocessed = preprocess(raw_text);
    book.prints("In [8]", &preprocessed[..30], "['I', 'HAD', 'always', 'thought', 'Jack', 'Gisburn', 'rather', 'a', 'cheap', 'genius', '--', 'though', 'a', 'good', 'fellow', 'enough', '--', 'so', 'it', 'was', 'no', 'great', 'surprise', 'to', 'me', 'to', 'hear', 'that', ',', 'in']");

    book.prints("In [9]", &preprocessed.len(), "4690");

    book.section("2.3", "Converting tokens into token IDs");
    let vocab = build_vocabulary(&preprocessed);
    book.prints("In [10]", &vocab.len(), "1130");

    book.prints(
        "In [12]",
        &vocab.tokens()[..=50],
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
    let tokenizer = SimpleTokenizerV1::new(vocab);
    let text = "\"It's the last he painted, you know,\" \n           Mrs. Gisburn said with pardonable pride.";
    let ids = tokenizer.encode(text)?;
    book.prints("In [14]", &ids, "[1, 56, 2, 850, 988, 602, 533, 746, 5, 1126, 596, 5, 1, 67, 7, 38, 851, 1108, 754, 793, 7]");

    let decoded = tokenizer.decode(&ids)?;
    book.prints(
        "In [15]",
        &decoded,
        "\" It' s the last he painted, you know,\" Mrs. Gisburn said with pardonable pride.",
    );

    book.section("2.4", "Adding special context tokens");
    let text = "Hello, do you like tea. Is this-- a test?";
    book.refuses(
        "In [17]",
        tokenizer.encode(text),
        "unknown token \"Hello\" at byte 0",
    );

    let mut vocab = build_vocabulary(&preprocessed);
    vocab.extend([ENDOFTEXT, UNK]);
    book.prints("In [19]", &vocab.len(), "1132");

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
    let tokenizer = SimpleTokenizerV2::new(vocab)?;
    let text1 = "Hello, do you like tea?";
    let text2 = "In the sunlit terraces of the palace.";
    let text = [text1, text2].join(" <|endoftext|> ");
    let ids = tokenizer.encode(&text)?;
    book.prints(
        "In [23]",
        &ids,
        "[1131, 5, 355, 1126, 628, 975, 10, 1130, 55, 988, 956, 984, 722, 988, 1131, 7]",
    );

    let decoded = tokenizer.decode(&ids)?;
    book.prints(
        "In [24]",
        &decoded,
        "<|unk|>, do you like tea? <|endoftext|> In the sunlit terraces of the <|unk|>.",
    );
    Ok(())
}

fn byte_pairs(book: &mut Notebook) -> Result<()> {
    book.section("2.5", "BytePair encoding");
    let tokenizer = Gpt2Tokenizer::new();
    let text = book.input(
        "text",
        "Hello, do you like tea? <|endoftext|> In the sunlit terracesof someunknownPlace."
            .to_owned(),
        ..=1000,
    );
    let integers = tokenizer.encode_allowing(&text, AllowedSpecial::Only(&[ENDOFTEXT]))?;
    book.prints("In [28]", &integers, "[15496, 11, 466, 345, 588, 8887, 30, 220, 50256, 554, 262, 4252, 18250, 8812, 2114, 1659, 617, 34680, 27271, 13]");

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
    Ok(())
}

fn sliding_window(book: &mut Notebook) -> Result<()> {
    book.section("2.6", "Data sampling with a sliding window");
    let raw_text = book.the_verdict()?;
    let tokenizer = Gpt2Tokenizer::new();
    let enc_text = Corpus::from_text(raw_text, &tokenizer)?;
    book.prints("In [30]", &enc_text.len(), "5145");

    book.listing("crates/dataloader/src/dataset.rs", "impl GptDataset {");
    let enc_sample = Corpus::from_ids(&enc_text.read(50..)?[..]);
    let context_size = 4;
    let config = WindowConfig {
        max_length: context_size,
        stride: 1,
    };
    let dataset = GptDataset::new(&enc_sample, config)?;
    let window = dataset.get(0)?.context("a window")?;
    let (x, y) = (&window.input_ids[..], &window.target_ids[..]);
    book.prints("In [32]", x, "x: [290, 4920, 2241, 287]");
    book.prints("In [32]", y, "y:      [4920, 2241, 287, 257]");

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
        let pieces: Vec<String> = (enc_text.read(50..60).iter().flat_map(|ids| ids.iter()))
            .map(|&id| tokenizer.decode_lossy(&[id]).unwrap_or_default())
            .collect();
        let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
        windows("Windows of 4 tokens, stride 1", &pieces, &[0, 1, 2], 4)
    });

    book.listing(
        "crates/dataloader/src/loader.rs",
        "pub fn create_dataloader_v1(",
    );
    let config = DataLoaderConfig {
        batch_size: 1,
        max_length: 4,
        stride: 1,
        shuffle: false,
        drop_last: true,
    };
    let dataloader = create_dataloader_v1(raw_text, &tokenizer, config)?;
    // In order, so the seed decides nothing.
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

    let second_batch = data_iter.next().context("a second batch")??;
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

    let config = DataLoaderConfig {
        batch_size: 8,
        max_length: 4,
        stride: 4,
        shuffle: false,
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
    Ok(())
}

fn token_embeddings(book: &mut Notebook) -> Result<()> {
    book.section("2.7", "Creating token embeddings");
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

    book.prints(
        "In [45]",
        &embedding_layer.forward(&array![3]),
        "tensor([[-0.4015,  0.9666, -1.1481]], grad_fn=<EmbeddingBackward0>)",
    );

    book.prints(
        "In [46]",
        &embedding_layer.forward(&input_ids),
        "tensor([[ 1.2753, -0.2010, -0.1606],
        [-0.4015,  0.9666, -1.1481],
        [-2.8400, -0.7849, -1.4096],
        [ 0.9178,  1.5810,  1.3010]], grad_fn=<EmbeddingBackward0>)",
    );
    Ok(())
}

fn positions(book: &mut Notebook) -> Result<()> {
    book.section("2.8", "Encoding word positions");
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
    // Its ids are those of In [41].
    book.shape("In [49]", &batch.input_ids, &[8, 4]);

    let token_embeddings = token_embedding_layer.forward(&batch.input_ids);
    book.shape("In [50]", &token_embeddings, &[8, 4, 256]);

    let context_length = max_length;
    let pos_embedding_layer = Embedding::new(context_length, output_dim, &mut rng);
    let positions: Array1<u32> = (0..max_length as u32).collect();
    let pos_embeddings = pos_embedding_layer.forward(&positions);
    book.shape("In [52]", &pos_embeddings, &[4, 256]);

    let input_embeddings = &token_embeddings + &pos_embeddings;
    book.shape("In [53]", &input_embeddings, &[8, 4, 256]);
    Ok(())
}
