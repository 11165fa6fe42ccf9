//! Demonstrates the bugs that we found in the book's companion notebooks and in other documents
//! about the book. If a bug affects a computation, this notebook runs both the faulty code and the
//! corrected code and shows both results. The file docs/errata.md lists all bugs, including those
//! that don't affect a computation.

use anyhow::{Context, Result};
use attention::{
    AttentionConfig, CausalAttention, MultiHeadAttentionWrapper, SelfAttentionV1, SelfAttentionV2,
    WeightInit, scaled_softmax,
};
use dataloader::{Corpus, GptDataset, WindowConfig};
use generate::generate_text_simple;
use gpt::{BadLm, BadLmConfig, GptConfig, GptModel, LayerNorm};
use ndarray::{Array2, Array3, Axis, array, s, stack};
use tensor_ops::{Linear, Parameters, matmul, relu};
use tokenizer::{
    AllowedSpecial, ENDOFTEXT, Gpt2Tokenizer, Separators, SimpleTokenizerV1, SimpleTokenizerV2,
    UNK, Vocabulary, split_keeping, strip_without_blanks,
};
use torch_rng::TorchRng;

use crate::Notebook;
use crate::ch03_exercises::columns_normalised;

pub(crate) fn run(book: &mut Notebook) -> Result<()> {
    book.section("B1", "The softmax ran over the columns");
    let inputs = array![
        [0.43, 0.15, 0.89],
        [0.55, 0.87, 0.66],
        [0.57, 0.85, 0.64],
        [0.22, 0.58, 0.33],
        [0.77, 0.25, 0.10],
        [0.05, 0.80, 0.55],
    ]; // (6, 3)
    let batch = stack![Axis(0), inputs]; // (1, 6, 3)
    let config = AttentionConfig {
        d_in: 3,
        d_out: 1,
        context_length: 6,
        dropout: 0.0,
        num_heads: 1,
        qkv_bias: false,
    };
    let mha = MultiHeadAttentionWrapper::new(config, &mut TorchRng::manual_seed(123))?;
    let columns = columns_normalised(&mha.heads[0], &batch);
    let rows = mha.forward(&batch)?;
    book.erratum(
        "exercise 3.2",
        "columns sum to 1",
        &columns,
        "rows sum to 1",
        &rows,
    );

    book.section(
        "B3",
        "forward uses globals instead of the module's own weights",
    );
    let w = SelfAttentionV1::new(3, 2, WeightInit::Randn, &mut TorchRng::manual_seed(123)); // W_q, W_k, W_v
    let module = SelfAttentionV1::new(3, 2, WeightInit::Randn, &mut TorchRng::manual_seed(456));
    let (q, k, v) = (
        matmul(&inputs, &w.w_query),
        matmul(&inputs, &w.w_key),
        matmul(&inputs, &w.w_value),
    );
    let with_globals = matmul(&scaled_softmax(&matmul(&q, &k.t()), 2), &v);
    let with_own = module.forward(&inputs)?;
    book.erratum(
        "In [28]",
        "x @ W_q",
        &with_globals,
        "x @ self.W_query",
        &with_own,
    );

    book.section(
        "B4",
        "The position embedding is as long as the vocabulary, the positions are fixed",
    );
    let (vocab_size, context_length, emb_dim) = (50, 4, 8);
    let sizes = BadLmConfig {
        context_length,
        vocab_size,
        emb_dim,
        att_dim: 8,
    };
    let model = BadLm::new(sizes, &mut TorchRng::manual_seed(123))?;
    let three = array![[1, 2, 3], [4, 5, 6]];
    let tokens = model.token_embs.forward(&three); // (2, 3, emb_dim)
    let sum = model.pos_embs.weight.broadcast(tokens.dim()); // arange(context_length): 4 positions for 3 tokens
    let sum = if sum.is_some() {
        "logits"
    } else {
        "shapes [2, 3, 8] and [4, 8] don't broadcast"
    };
    let logits = model.forward(&three)?;
    let right = format!("logits of shape {:?}", logits.shape());
    book.erratum(
        "In [60]",
        "pos_embs(arange(context_length))",
        &sum,
        "as many positions as tokens",
        &right,
    );

    book.section("B5", "The worksheet's projections keep nn.Linear's bias");
    let biased =
        SelfAttentionV2::new(3, 2, true, &mut TorchRng::manual_seed(123)).forward(&inputs)?;
    let plain =
        SelfAttentionV2::new(3, 2, false, &mut TorchRng::manual_seed(123)).forward(&inputs)?;
    book.erratum(
        "In [40]",
        "bias=True",
        &biased,
        "qkv_bias=False, as in the book",
        &plain,
    );

    book.section(
        "B6",
        "Without a mask a token sees the future that it should predict",
    );
    let (short, changed) = (array![[1, 2, 3, 4]], array![[1, 2, 3, 5]]);
    let sizes = BadLmConfig {
        context_length: 4,
        vocab_size: 50,
        emb_dim: 16,
        att_dim: 16,
    };
    let bad = BadLm::new(sizes, &mut TorchRng::manual_seed(123))?;
    let small = GptConfig {
        vocab_size: 50,
        context_length: 8,
        emb_dim: 16,
        n_heads: 2,
        n_layers: 2,
        ..GptConfig::GPT2_124M
    };
    let gpt = GptModel::new(small, &mut TorchRng::manual_seed(123))?;
    let of_bad = first_moves(&bad.forward(&short)?, &bad.forward(&changed)?);
    let of_gpt = first_moves(&gpt.forward(&short)?, &gpt.forward(&changed)?);
    book.erratum(
        "In [60]",
        "the logits of token 1 move when token 4 changes, by",
        &of_bad,
        "with a mask, by",
        &of_gpt,
    );

    book.section("B7", "encode(text) refuses a special token");
    let tokenizer = Gpt2Tokenizer::new();
    let refused = tokenizer
        .encode_allowing("one <|endoftext|> two", AllowedSpecial::None)
        .err();
    let refused = refused.context("a special token is refused")?.to_string();
    let ids = tokenizer.encode("one <|endoftext|> two")?;
    book.erratum("In [55]", "encode(text)", &refused, "allowed_special", &ids);

    book.section(
        "B9",
        "Tensors that look unseeded, and a text that is too short",
    );
    let fresh = TorchRng::manual_seed(123).randn(20);
    let mut rng = TorchRng::manual_seed(123);
    for size in [6, 6, 6, 20] {
        rng.randn(size);
    }
    rng.rand(20);
    let printed = rng.randn(20);
    book.erratum(
        "In [27]",
        "manual_seed(123) afresh",
        &fresh[..5],
        "after In [29] and a first run of the cell, as printed",
        &printed[..5],
    );
    let ids = vec![1, 2, 3];
    let windows = (0..ids.len().saturating_sub(4)).count(); // range(0, len(token_ids) - context_length)
    let of_four = WindowConfig {
        max_length: 4,
        stride: 1,
    };
    let refused = GptDataset::new(&Corpus::from_ids(ids), of_four).err();
    let refused = refused.context("a short text is refused")?.to_string();
    book.erratum(
        "In [55]",
        "windows of 3 ids, context 4",
        &windows,
        "an error",
        &refused,
    );

    book.section("B10", "generate_text_simple has no `return idx`");
    let prompt = array![[1, 2, 3]];
    let returned = generate_text_simple(&gpt, prompt.clone(), 4, 8)?;
    book.erratum(
        "lines 862-877",
        "the caller's remaining value",
        &prompt,
        "the returned value",
        &returned,
    );

    book.section(
        "B12",
        "V1 splits without `:` and `;`, which its vocabulary was built with",
    );
    let text = "one word; and: more";
    let vocabulary = Vocabulary::from_text(text);
    let pieces = split_keeping(text, Separators::WithoutColons);
    let key_error = strip_without_blanks(&pieces)
        .into_iter()
        .find(|word| vocabulary.id(word).is_none());
    let key_error = format!(
        "KeyError: {:?}",
        key_error.context("a word that the vocabulary lacks")?
    );
    let ids = SimpleTokenizerV1::new(vocabulary).encode(text)?;
    book.erratum(
        "line 154",
        "without `:` and `;`",
        &key_error,
        "with them",
        &ids,
    );

    book.section("B13", "A comment has <unk>, the code needs <|unk|>");
    let mut vocabulary = Vocabulary::from_text("the cat");
    vocabulary.extend([ENDOFTEXT, "<unk>"]);
    let refused = SimpleTokenizerV2::new(vocabulary).err();
    let refused = refused
        .context("a vocabulary without <|unk|> is refused")?
        .to_string();
    let mut vocabulary = Vocabulary::from_text("the cat");
    vocabulary.extend([ENDOFTEXT, UNK]);
    let ids = SimpleTokenizerV2::new(vocabulary)?.encode("the dog")?;
    book.erratum(
        "lines 218-226",
        "a vocabulary with <unk>",
        &refused,
        "with <|unk|>",
        &ids,
    );

    book.section("B14", "Two literals join without a space");
    let joined = tokenizer.encode(" terracesof")?;
    let meant = tokenizer.encode(" terraces of")?;
    book.erratum(
        "lines 265-268",
        "\"terracesof\", whose ids are printed",
        &joined,
        "\"terraces of\"",
        &meant,
    );

    book.section(
        "B15",
        "Layer normalization, not batch normalization; MiB, not MB",
    );
    let mut rng = TorchRng::manual_seed(123);
    let batch = Array2::from_shape_vec((2, 5), rng.randn(10))?;
    let out = relu(&Linear::new(5, 6, true, &mut rng).forward(&batch)); // (batch, features)
    let over_batch = LayerNorm::new(2).forward(&out.t()).reversed_axes();
    let over_features = LayerNorm::new(6).forward(&out);
    book.erratum(
        "section 4.2",
        "normalised over the batch",
        &over_batch,
        "over the features of a token",
        &over_features,
    );
    let size = GptConfig::GPT2_124M.size()?;
    let megabytes = size.total() as f64 * 4.0 / 1e6;
    book.erratum(
        "section 4.6",
        "MB",
        &megabytes,
        "MiB, which is printed",
        &size.mebibytes(),
    );

    book.section("B17", "The module copies bare tensors from a global");
    let sa_v2 = SelfAttentionV2::new(3, 2, false, &mut TorchRng::manual_seed(789));
    let copied = SelfAttentionV1::try_from(&sa_v2)?;
    let drawn = SelfAttentionV1::new(3, 2, WeightInit::Rand, &mut TorchRng::manual_seed(123));
    book.erratum(
        "In [12]",
        "after manual_seed(123), which does nothing",
        &copied.forward(&inputs)?,
        "weights of that seed",
        &drawn.forward(&inputs)?,
    );
    let optimized: usize = 0; // plain tensors: module.parameters() is empty
    book.erratum(
        "In [12]",
        "numbers that an optimizer sees",
        &optimized,
        "of a module with parameters",
        &copied.num_parameters(),
    );

    book.section(
        "B19",
        "More tokens than the context length fail inside the mask",
    );
    let config = AttentionConfig { d_out: 2, ..config };
    let attention = CausalAttention::new(config, &mut TorchRng::manual_seed(123))?;
    let mask = Array2::<f32>::zeros((7, 7)); // mask[:7, :7] of 6 rows and columns has 6
    let mask = mask.slice(s![..6, ..6]);
    let clash = if mask.broadcast((1, 7, 7)).is_some() {
        "a mask"
    } else {
        "shapes [6, 6] and [1, 7, 7] don't broadcast"
    };
    let refused = attention.forward(&Array3::zeros((1, 7, 3))).err();
    let refused = refused.context("7 tokens are too many")?.to_string();
    book.erratum(
        "In [34]",
        "masked_fill",
        &clash,
        "an error that names both numbers",
        &refused,
    );
    Ok(())
}

/// Returns the largest absolute difference between two arrays of logits for the first token of the
/// first text in a batch. Both arrays, `one` and `other`, have the shape (batch, tokens,
/// vocabulary).
fn first_moves(one: &Array3<f32>, other: &Array3<f32>) -> f32 {
    let moved = (one - other).slice_move(s![0, 0, ..]);
    moved.iter().fold(0.0, |most, value| most.max(value.abs()))
}
