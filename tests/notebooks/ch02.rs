//! ch02.ipynb, working with text data, and the chapter's bonus notebooks.
//!
//! Cells are numbered as in revision 28c65cd of the book's repository.

use anyhow::{Context, Result};
use attention::{AttentionConfig, MultiHeadAttention, MultiHeadAttentionWrapper};
use dataloader::{Corpus, DataLoader, DataLoaderConfig, GptDataset, create_dataloader_v1};
use ndarray::{Array1, Array2, array};
use tensor_ops::{Embedding, Linear};
use tokenizer::{
    AllowedSpecial, ENDOFTEXT, Gpt2Tokenizer, Separators, SimpleTokenizerV1, SimpleTokenizerV2,
    UNK, build_vocabulary, preprocess, split_keeping, without_blanks,
};
use torch_rng::TorchRng;

use crate::Notebook;

pub(crate) fn run(book: &mut Notebook) -> Result<()> {
    main_chapter(book)?;
    dataloader_summary(book)?;
    embedding_against_matmul(book)?;
    dataloader_intuition(book)?;
    multi_head_attention_on_text(book)?;
    bpe_from_scratch(book);
    Ok(())
}

fn main_chapter(book: &mut Notebook) -> Result<()> {
    book.section("2.2", "Tokenizing text");
    if let Some(raw_text) = book.the_verdict() {
        book.prints(
            "In [3]",
            &raw_text.chars().count(),
            "Total number of character: 20479",
        );
        let beginning: String = raw_text.chars().take(99).collect();
        book.prints("In [3]", &beginning, "I HAD always thought Jack Gisburn rather a cheap genius--though a good fellow enough--so it was no ");
    }

    let text = "Hello, world. This, is a test.";
    let result = split_keeping(text, Separators::Whitespace);
    book.prints(
        "In [4]",
        &result,
        "['Hello,', ' ', 'world.', ' ', 'This,', ' ', 'is', ' ', 'a', ' ', 'test.']",
    );

    let result = split_keeping(text, Separators::CommasPeriods);
    book.prints("In [5]", &result, "['Hello', ',', '', ' ', 'world', '.', '', ' ', 'This', ',', '', ' ', 'is', ' ', 'a', ' ', 'test', '.', '']");

    let result = without_blanks(&result);
    book.prints(
        "In [6]",
        &result,
        "['Hello', ',', 'world', '.', 'This', ',', 'is', 'a', 'test', '.']",
    );

    let result = preprocess("Hello, world. Is this-- a test?");
    book.prints(
        "In [7]",
        &result,
        "['Hello', ',', 'world', '.', 'Is', 'this', '--', 'a', 'test', '?']",
    );

    if let Some(raw_text) = book.the_verdict() {
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

        let tokenizer = SimpleTokenizerV2::new(vocab)?;
        let text1 = "Hello, do you like tea?";
        let text2 = "In the sunlit terraces of the palace.";
        let text = [text1, text2].join(" <|endoftext|> ");
        let ids = tokenizer.encode(&text);
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
    }

    book.section("2.5", "BytePair encoding");
    let tokenizer = Gpt2Tokenizer::new();
    let text = "Hello, do you like tea? <|endoftext|> In the sunlit terracesof someunknownPlace.";
    let integers = tokenizer.encode(text, AllowedSpecial::Only(&[ENDOFTEXT]))?;
    book.prints("In [28]", &integers, "[15496, 11, 466, 345, 588, 8887, 30, 220, 50256, 554, 262, 4252, 18250, 8812, 2114, 1659, 617, 34680, 27271, 13]");

    let strings = tokenizer.decode(&integers)?;
    book.prints(
        "In [29]",
        &strings,
        "Hello, do you like tea? <|endoftext|> In the sunlit terracesof someunknownPlace.",
    );

    book.section("2.6", "Data sampling with a sliding window");
    if let Some(raw_text) = book.the_verdict() {
        let enc_text = Corpus::from_text(raw_text, &tokenizer, AllowedSpecial::None)?;
        book.prints("In [30]", &enc_text.len(), "5145");

        let enc_sample = Corpus::from_ids(&enc_text.ids()[50..]);
        let context_size = 4;
        let dataset = GptDataset::new(&enc_sample, context_size, 1)?;
        let window = dataset.get(0).context("a window")?;
        let (x, y) = (window.input_ids, window.target_ids);
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
        let first_batch = data_iter.next().context("a batch")?;
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

        let second_batch = data_iter.next().context("a second batch")?;
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
        let batch = data_iter.next().context("a batch")?;
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
    }

    book.section("2.7", "Creating token embeddings");
    let input_ids = array![2, 3, 5, 1];
    let (vocab_size, output_dim) = (6, 3);
    let mut rng = TorchRng::manual_seed(123);
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

    book.section("2.8", "Encoding word positions");
    if let Some(raw_text) = book.the_verdict() {
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
        let batch = dataloader.epoch(&mut rng).next().context("a batch")?;
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
    }
    Ok(())
}

/// dataloader.ipynb: the chapter in one piece.
fn dataloader_summary(book: &mut Notebook) -> Result<()> {
    book.section("dataloader", "The Main Data Loading Pipeline Summarized");
    if let Some(raw_text) = book.the_verdict() {
        let input_embeddings = embed_first_batch(raw_text)?;
        book.shape("In [4]", &input_embeddings, &[8, 4, 256]);
    }
    Ok(())
}

/// In \[2\] and \[3\] of two notebooks: embeddings for GPT-2's vocabulary and 1,024 places, of the first batch of a text.
fn embed_first_batch(raw_text: &str) -> Result<ndarray::Array3<f32>> {
    let tokenizer = Gpt2Tokenizer::new();
    let mut rng = TorchRng::manual_seed(123);
    let token_embedding_layer = Embedding::new(tokenizer.vocab_size(), 256, &mut rng);
    let pos_embedding_layer = Embedding::new(1024, 256, &mut rng);
    let config = DataLoaderConfig {
        batch_size: 8,
        max_length: 4,
        stride: 4,
        ..DataLoaderConfig::default()
    };
    let dataloader = create_dataloader_v1(raw_text, &tokenizer, config)?;
    let batch = dataloader.epoch(&mut rng).next().context("a batch")?;
    let token_embeddings = token_embedding_layer.forward(&batch.input_ids); // (8, 4, 256)
    let pos_embeddings = pos_embedding_layer.forward(&array![0, 1, 2, 3]); // (4, 256)
    Ok(token_embeddings + &pos_embeddings)
}

/// embeddings-and-linear-layers.ipynb; 4 * 5 normals are no multiple of 16, so the last ones are drawn afresh.
fn embedding_against_matmul(book: &mut Notebook) -> Result<()> {
    book.section(
        "embedding-vs-matmul",
        "Understanding the Difference Between Embedding Layers and Linear Layers",
    );
    let idx = array![2, 3, 1];
    let (num_idx, out_dim) = (4, 5);
    let embedding = Embedding::new(num_idx, out_dim, &mut TorchRng::manual_seed(123));
    book.prints(
        "In [4]",
        &embedding.weight,
        "tensor([[ 0.3374, -0.1778, -0.3035, -0.5880,  1.5810],
        [ 1.3010,  1.2753, -0.2010, -0.1606, -0.4015],
        [ 0.6957, -1.8061, -1.1589,  0.3255, -0.6315],
        [-2.8400, -0.7849, -1.4096, -0.4076,  0.7953]], requires_grad=True)",
    );

    book.prints(
        "In [5]",
        &embedding.forward(&array![1]),
        "tensor([[ 1.3010,  1.2753, -0.2010, -0.1606, -0.4015]],
       grad_fn=<EmbeddingBackward0>)",
    );

    book.prints(
        "In [6]",
        &embedding.forward(&array![2]),
        "tensor([[ 0.6957, -1.8061, -1.1589,  0.3255, -0.6315]],
       grad_fn=<EmbeddingBackward0>)",
    );

    let rows = embedding.forward(&idx);
    book.prints(
        "In [7]",
        &rows,
        "tensor([[ 0.6957, -1.8061, -1.1589,  0.3255, -0.6315],
        [-2.8400, -0.7849, -1.4096, -0.4076,  0.7953],
        [ 1.3010,  1.2753, -0.2010, -0.1606, -0.4015]],
       grad_fn=<EmbeddingBackward0>)",
    );

    let mut linear = Linear::new(num_idx, out_dim, false, &mut TorchRng::manual_seed(123));
    book.prints(
        "In [9]",
        &linear.weight,
        "tensor([[-0.2039,  0.0166, -0.2483,  0.1886],
        [-0.4260,  0.3665, -0.3634, -0.3975],
        [-0.3159,  0.2264, -0.1847,  0.1871],
        [-0.4244, -0.3034, -0.1836, -0.0983],
        [-0.3814,  0.3274, -0.1179,  0.1605]], requires_grad=True)",
    );

    let onehot = Array2::from_shape_fn((3, num_idx), |(row, id)| {
        f32::from(u8::from(idx[row] as usize == id))
    });
    linear.weight.assign(&embedding.weight.t());
    book.agrees("In [11]", &linear.forward(&onehot), &rows);
    Ok(())
}

/// dataloader-intuition.ipynb: a text of the numbers 0 to 1,000, each its own id.
fn dataloader_intuition(book: &mut Notebook) -> Result<()> {
    book.section(
        "dataloader-intuition",
        "Data sampling with a sliding window with number data",
    );
    let numbers = Corpus::from_ids((0..=1000).collect::<Vec<u32>>());
    let mut rng = TorchRng::manual_seed(123);

    let dataloader = DataLoader::new(GptDataset::new(&numbers, 4, 1)?, 1, false, true)?;
    let mut data_iter = dataloader.epoch(&mut rng);
    let first_batch = data_iter.next().context("a batch")?;
    book.prints("In [68]", &first_batch.input_ids, "tensor([[0, 1, 2, 3]])");
    book.prints("In [68]", &first_batch.target_ids, "tensor([[1, 2, 3, 4]])");

    let second_batch = data_iter.next().context("a second batch")?;
    book.prints("In [69]", &second_batch.input_ids, "tensor([[1, 2, 3, 4]])");
    book.prints(
        "In [69]",
        &second_batch.target_ids,
        "tensor([[2, 3, 4, 5]])",
    );

    let third_batch = data_iter.next().context("a third batch")?;
    book.prints("In [70]", &third_batch.input_ids, "tensor([[2, 3, 4, 5]])");
    book.prints("In [70]", &third_batch.target_ids, "tensor([[3, 4, 5, 6]])");

    let last_batch = dataloader.epoch(&mut rng).last().context("a batch")?;
    book.prints(
        "In [71]",
        &last_batch.input_ids,
        "tensor([[996, 997, 998, 999]])",
    );
    book.prints(
        "In [71]",
        &last_batch.target_ids,
        "tensor([[ 997,  998,  999, 1000]])",
    );

    let dataset = GptDataset::new(&numbers, 4, 4)?;
    let dataloader = DataLoader::new(dataset.clone(), 2, false, true)?;
    let batch = dataloader.epoch(&mut rng).last().context("a batch")?;
    book.prints(
        "In [75]",
        &batch.input_ids,
        "tensor([[992, 993, 994, 995],
        [996, 997, 998, 999]])",
    );
    book.prints(
        "In [75]",
        &batch.target_ids,
        "tensor([[ 993,  994,  995,  996],
        [ 997,  998,  999, 1000]])",
    );

    rng.reseed(123);
    let dataloader = DataLoader::new(dataset, 2, true, true)?;
    let batch = dataloader.epoch(&mut rng).last().context("a batch")?;
    book.prints(
        "In [76]",
        &batch.input_ids,
        "tensor([[880, 881, 882, 883],
        [112, 113, 114, 115]])",
    );
    book.prints(
        "In [76]",
        &batch.target_ids,
        "tensor([[881, 882, 883, 884],
        [113, 114, 115, 116]])",
    );
    Ok(())
}

/// multihead-attention.ipynb; it reads another text than the chapter, but prints shapes only.
fn multi_head_attention_on_text(book: &mut Notebook) -> Result<()> {
    book.section(
        "multihead-attention",
        "Multi-head Attention Plus Data Loading",
    );
    if let Some(raw_text) = book.the_verdict() {
        let input_embeddings = embed_first_batch(raw_text)?;
        book.shape("In [4]", &input_embeddings, &[8, 4, 256]);

        let config = AttentionConfig {
            d_in: 256,
            d_out: 256,
            context_length: 4,
            dropout: 0.0,
            num_heads: 2,
            qkv_bias: false,
        };
        let of_one_head = AttentionConfig {
            d_out: 128,
            ..config
        };
        let mha = MultiHeadAttentionWrapper::new(of_one_head, &mut TorchRng::manual_seed(123))?;
        book.shape("In [6]", &mha.forward(&input_embeddings)?, &[8, 4, 256]);

        let mha = MultiHeadAttention::new(config, &mut TorchRng::manual_seed(123))?;
        book.shape("In [8]", &mha.forward(&input_embeddings)?, &[8, 4, 256]);
    }
    Ok(())
}

/// bpe-from-scratch.ipynb trains a vocabulary of its own.
fn bpe_from_scratch(book: &mut Notebook) {
    book.section(
        "bpe-from-scratch",
        "Byte Pair Encoding (BPE) Tokenizer From Scratch",
    );
    book.leaves_out(
        "In [7]",
        1,
        "training a tokenizer is no goal of this project",
    );
    book.leaves_out(
        "In [8]",
        1,
        "training a tokenizer is no goal of this project",
    );
    book.leaves_out(
        "In [9]",
        20,
        "training a tokenizer is no goal of this project",
    );
}
