//! Rust ports of the bonus notebooks for chapter 2 and of one bonus notebook for chapter 3,
//! multihead-attention.ipynb. The latter applies attention to the batches of text from chapter 2.
//!
//! Cells are numbered as in revision 28c65cd of the book's repository.

use anyhow::{Context, Result};
use attention::{AttentionConfig, MultiHeadAttention, MultiHeadAttentionWrapper};
use dataloader::{Corpus, DataLoader, DataLoaderConfig, create_dataloader_v1};
use ndarray::{Array2, Array3, array};
use pictures::windows;
use tensor_ops::{Embedding, Linear};
use tokenizer::bpe::{Bpe, BpeConfig, Ties};
use tokenizer::{ENDOFTEXT, Gpt2Tokenizer};
use torch_rng::TorchRng;

use crate::Notebook;

pub(crate) fn run(book: &mut Notebook) -> Result<()> {
    book.opens(
        "These are five smaller notebooks that accompany chapter 2: the whole chapter in a few lines, a comparison of embedding layers with linear layers, windows of plain numbers, attention on a text, and byte pair encoding from scratch.",
        "chapter 2, and chapter 3 for the multi-head attention.",
        20,
    );
    book.part(dataloader_summary);
    book.part(embedding_against_matmul);
    book.part(dataloader_intuition);
    book.part(multi_head_attention_on_text);
    book.part(bpe_from_scratch);
    Ok(())
}

/// Rust port of dataloader.ipynb, which contains all of chapter 2's code in a single notebook.
fn dataloader_summary(book: &mut Notebook) -> Result<()> {
    book.section("dataloader", "The Main Data Loading Pipeline Summarized");
    // This cell performs all steps of chapter 2. It encodes the text as ids, cuts the ids into
    // windows, and replaces each id with a vector. To each vector, it adds a second vector that
    // represents the id's position. A batch of eight windows with four tokens each becomes an array
    // of shape (8, 4, 256), which is the input of a model.
    let raw_text = book.the_verdict()?;
    let input_embeddings = embed_first_batch(raw_text)?;
    book.shape("In [4]", &input_embeddings, &[8, 4, 256]);
    Ok(())
}

/// Returns the embeddings of the first batch of a text, in an array of shape (8, 4, 256). The token
/// embedding has a row for each token of GPT-2's vocabulary, and the position embedding has a row
/// for each of 1,024 positions. This code comes from cells In \[2\] and In \[3\], which are the
/// same in two of the book's bonus notebooks, dataloader.ipynb and multihead-attention.ipynb.
fn embed_first_batch(raw_text: &str) -> Result<Array3<f32>> {
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
    let batch = dataloader.epoch(&mut rng).next().context("a batch")??;
    let token_embeddings = token_embedding_layer.forward(&batch.input_ids); // (8, 4, 256)
    let pos_embeddings = pos_embedding_layer.forward(&array![0, 1, 2, 3]); // (4, 256)
    Ok(token_embeddings + &pos_embeddings)
}

/// Rust port of embeddings-and-linear-layers.ipynb. This notebook tests a special case of PyTorch's
/// random numbers: the embedding layer needs 4 * 5 = 20 normal samples. Because 20 isn't a multiple
/// of 16, PyTorch draws the last 16 samples again.
fn embedding_against_matmul(book: &mut Notebook) -> Result<()> {
    book.section(
        "embedding-vs-matmul",
        "Understanding the Difference Between Embedding Layers and Linear Layers",
    );
    // Is an embedding layer something new, or is it just a linear layer in disguise? We begin with
    // an embedding layer that stores a vector of five numbers for each of four ids.
    let idx = array![2, 3, 1];
    let (num_idx, out_dim) = (4, 5);
    let seed = book.input("seed", 123, ..);
    let embedding = Embedding::new(num_idx, out_dim, &mut TorchRng::manual_seed(seed));
    book.prints(
        "In [4]",
        &embedding.weight,
        "tensor([[ 0.3374, -0.1778, -0.3035, -0.5880,  1.5810],
        [ 1.3010,  1.2753, -0.2010, -0.1606, -0.4015],
        [ 0.6957, -1.8061, -1.1589,  0.3255, -0.6315],
        [-2.8400, -0.7849, -1.4096, -0.4076,  0.7953]], requires_grad=True)",
    );

    // Looking up one id returns one row of the embedding layer's weights.
    book.prints(
        "In [5]",
        &embedding.forward(&array![1]),
        "tensor([[ 1.3010,  1.2753, -0.2010, -0.1606, -0.4015]],
       grad_fn=<EmbeddingBackward0>)",
    );

    // ...
    book.prints(
        "In [6]",
        &embedding.forward(&array![2]),
        "tensor([[ 0.6957, -1.8061, -1.1589,  0.3255, -0.6315]],
       grad_fn=<EmbeddingBackward0>)",
    );

    // Looking up three ids returns three rows of the embedding layer's weights, in the order of the
    // ids.
    let rows = embedding.forward(&idx);
    book.prints(
        "In [7]",
        &rows,
        "tensor([[ 0.6957, -1.8061, -1.1589,  0.3255, -0.6315],
        [-2.8400, -0.7849, -1.4096, -0.4076,  0.7953],
        [ 1.3010,  1.2753, -0.2010, -0.1606, -0.4015]],
       grad_fn=<EmbeddingBackward0>)",
    );

    // Next, we create a linear layer of the same size. Its weight matrix has the transposed shape,
    // (5, 4), because a linear layer stores one row for each output. Its weights differ from those
    // of the embedding layer, because they are drawn from a different distribution, with a smaller
    // range.
    let seed = book.input("seed", 123, ..);
    let mut linear = Linear::new(num_idx, out_dim, false, &mut TorchRng::manual_seed(seed));
    book.prints(
        "In [9]",
        &linear.weight,
        "tensor([[-0.2039,  0.0166, -0.2483,  0.1886],
        [-0.4260,  0.3665, -0.3634, -0.3975],
        [-0.3159,  0.2264, -0.1847,  0.1871],
        [-0.4244, -0.3034, -0.1836, -0.0983],
        [-0.3814,  0.3274, -0.1179,  0.1605]], requires_grad=True)",
    );

    // A *one-hot* row represents an id by a 1 at the id's position and zeros elsewhere. We copy the
    // embedding layer's weights into the linear layer and apply this layer to a one-hot row for
    // each id. Every other row of the weights is multiplied by 0, so the result is the id's row of
    // the embedding layer. Both layers therefore compute the same result, but looking up a row
    // avoids the multiplications by 0.
    let onehot = Array2::from_shape_fn((3, num_idx), |(row, id)| {
        f32::from(u8::from(idx[row] as usize == id))
    });
    linear.weight.assign(&embedding.weight.t());
    book.agrees("In [11]", &linear.forward(&onehot), &rows);
    Ok(())
}

/// Rust port of dataloader-intuition.ipynb, which uses the numbers from 0 to 1,000 instead of a
/// text. Each number is its own token id.
fn dataloader_intuition(book: &mut Notebook) -> Result<()> {
    book.section(
        "dataloader-intuition",
        "Data sampling with a sliding window with number data",
    );
    // With a real text, it is hard to see what a data loader does. This section therefore uses the
    // numbers 0, 1, 2 and so on instead of a text. Each number is its own id, so the numbers in a
    // window show where the window begins and ends.
    let numbers = Corpus::from_ids((0..=1000).collect::<Vec<u32>>());
    let mut rng = TorchRng::manual_seed(123);

    let in_order = DataLoaderConfig {
        batch_size: 1,
        max_length: 4,
        stride: 1,
        shuffle: false,
        drop_last: true,
    };
    let dataloader = DataLoader::new(&numbers, in_order)?;
    let mut data_iter = dataloader.epoch(&mut rng);
    let first_batch = data_iter.next().context("a batch")??;
    book.prints("In [68]", &first_batch.input_ids, "tensor([[0, 1, 2, 3]])");
    book.prints("In [68]", &first_batch.target_ids, "tensor([[1, 2, 3, 4]])");

    // The stride is 1, so the second window begins one number after the first.
    let second_batch = data_iter.next().context("a second batch")??;
    book.prints("In [69]", &second_batch.input_ids, "tensor([[1, 2, 3, 4]])");
    book.prints(
        "In [69]",
        &second_batch.target_ids,
        "tensor([[2, 3, 4, 5]])",
    );

    // ...
    let third_batch = data_iter.next().context("a third batch")??;
    book.prints("In [70]", &third_batch.input_ids, "tensor([[2, 3, 4, 5]])");
    book.prints("In [70]", &third_batch.target_ids, "tensor([[3, 4, 5, 6]])");

    // The last window of targets ends with 1000, the last number in the list. The last window of
    // inputs ends one number earlier, with 999.
    let last_batch = dataloader.epoch(&mut rng).last().context("a batch")??;
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

    book.draws("Windows of four numbers, stride 1 and stride 4", || {
        let names: Vec<String> = (0..13).map(|number| number.to_string()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        windows(
            "Windows of 4: two with stride 1, then with stride 4",
            &names,
            &[0, 1, 4, 8],
            4,
        )
    });
    // In this cell, the stride is 4, the same as the length of a window. Each window therefore
    // begins where the previous window ends, so no number is used as an input twice. Each batch
    // contains two windows. The output shows the last batch of an *epoch*, which is one pass over
    // all of the numbers:
    let side_by_side = DataLoaderConfig {
        batch_size: 2,
        stride: 4,
        ..in_order
    };
    let dataloader = DataLoader::new(&numbers, side_by_side)?;
    let batch = dataloader.epoch(&mut rng).last().context("a batch")??;
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

    // With `shuffle`, the data loader puts the windows in a new random order for each epoch. The
    // numbers within a window stay in order. With the same seed, PyTorch's data loader puts the
    // windows in the same order.
    rng.reseed(123);
    let shuffled = DataLoaderConfig {
        shuffle: true,
        ..side_by_side
    };
    let dataloader = DataLoader::new(&numbers, shuffled)?;
    let batch = dataloader.epoch(&mut rng).last().context("a batch")??;
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

/// Rust port of multihead-attention.ipynb. Unlike the original notebook, this port reads the same
/// text as chapter 2. The results are the same, because the notebook prints only the shapes of
/// arrays.
fn multi_head_attention_on_text(book: &mut Notebook) -> Result<()> {
    book.section(
        "multihead-attention",
        "Multi-head Attention Plus Data Loading",
    );
    // The output of chapter 2 is the input of chapter 3. This section applies multi-head attention
    // to the batch of input vectors that we computed in the first section of this notebook.
    let raw_text = book.the_verdict()?;
    let input_embeddings = embed_first_batch(raw_text)?;
    book.shape("In [4]", &input_embeddings, &[8, 4, 256]);

    // In this example, each of the two heads of `MultiHeadAttentionWrapper` (section 3.6.1)
    // computes 128 features. Together, the heads compute 256 features, so the output has the same
    // shape as the input.
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

    // The class `MultiHeadAttention` of section 3.6.2 computes both heads at once. Its output also
    // has the same shape as its input.
    let mha = MultiHeadAttention::new(config, &mut TorchRng::manual_seed(123))?;
    book.shape("In [8]", &mha.forward(&input_embeddings)?, &[8, 4, 256]);
    Ok(())
}

/// Rust port of bpe-from-scratch.ipynb. The tokenizer in this notebook differs from GPT-2's
/// tokenizer in two ways. During training, it counts pairs in the whole text, even across word
/// boundaries. It also has a separate token for a space, with the id 256.
fn bpe_from_scratch(book: &mut Notebook) -> Result<()> {
    book.section(
        "bpe-from-scratch",
        "Byte Pair Encoding (BPE) Tokenizer From Scratch",
    );
    // Section 2.5 shows four merges of byte pair encoding. The goal of this section is to train a
    // complete tokenizer on a story. Training starts with single bytes. Each merge joins the most
    // frequent pair of adjacent pieces into a new piece. Training ends when the vocabulary has
    // 1,000 pieces.
    let text = book.the_verdict()?;
    book.listing("crates/tokenizer/src/bpe.rs", "pub fn train_plain(");
    let bytes = (0..=255).map(|byte| vec![byte]);
    let config = BpeConfig {
        vocab_size: 1000,
        alphabet: bytes.chain([b" ".to_vec(), ENDOFTEXT.into()]).collect(),
        divide: |text| text,
        ties: Ties::FirstInText,
        ..BpeConfig::default()
    };
    let tokenizer = Bpe::train(text, &config)?;
    book.prints("In [7]", &tokenizer.tokens().len(), "1000");

    // Each merge adds a piece to the vocabulary. Before the first merge, the vocabulary has 258
    // pieces: the 256 bytes, an additional piece for a space, and `<|endoftext|>`. To reach 1,000
    // pieces, training therefore needs 1,000 - 258 = 742 merges.
    book.prints("In [8]", &tokenizer.merges().len(), "742");

    // To encode a word, the tokenizer starts with the word's bytes and applies the merges that it
    // learned during training. A frequent word becomes one piece, whereas a rare word consists of
    // several pieces.
    let input_text = "Jack embraced beauty through art and life.";
    let mut token_ids = Vec::new();
    for (number, word) in input_text.split(' ').enumerate() {
        let space = if number > 0 { " " } else { "" };
        token_ids.extend(from_left_to_right(&tokenizer, &format!("{space}{word}")));
    }
    book.prints(
        "In [9]",
        &token_ids[..],
        "[424, 256, 654, 531, 302, 311, 256, 296, 97, 465, 121, 595, 841, 116, 287, 466, 256, 326, 972, 46]",
    );
    // Decoding doesn't need the merges. Concatenating the bytes of all pieces restores the original
    // text.
    book.agrees("decode", &tokenizer.decode(&token_ids)?, &input_text);
    Ok(())
}

/// Encodes a word in the same way as bpe-from-scratch.ipynb: merges pairs from left to right until
/// no pair can be merged. The order in which the merges were learned doesn't matter.
///
/// In contrast, [`Bpe::encode`] first applies the merge that was learned first, as GPT-2's
/// tokenizer does. The two methods produce different ids for `" and"` and `" life"`.
fn from_left_to_right(tokenizer: &Bpe, word: &str) -> Vec<u32> {
    let mut known = tokenizer.tokens().iter();
    if let Some(id) = known.rposition(|token| token == word.as_bytes()) {
        return vec![id as u32];
    }
    let of_byte = |byte| if byte == b' ' { 256 } else { u32::from(byte) };
    let mut ids: Vec<u32> = word.bytes().map(of_byte).collect();
    loop {
        let mut joined = Vec::new();
        let mut rest = &ids[..];
        while let [left, behind @ ..] = rest {
            let merged = |right: &u32| tokenizer.merged(*left, *right);
            let pair = behind.first().and_then(merged);
            joined.push(pair.unwrap_or(*left));
            rest = if pair.is_some() { &behind[1..] } else { behind };
        }
        if joined.len() == ids.len() {
            return ids;
        }
        ids = joined;
    }
}
