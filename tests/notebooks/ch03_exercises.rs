//! Rust port of chapter 3's exercise-solutions.ipynb.

use anyhow::Result;
use attention::{
    AttentionConfig, CausalAttention, MultiHeadAttention, MultiHeadAttentionWrapper,
    SelfAttentionV1, SelfAttentionV2, mask_future,
};
use ndarray::{Array3, ArrayRef3, Axis, array, concatenate, stack};
use tensor_ops::{Parameters, matmul_batched, softmax};
use torch_rng::TorchRng;

use crate::Notebook;

pub(crate) fn run(book: &mut Notebook) -> Result<()> {
    book.opens(
        "Three tasks of chapter 3 with their solutions: the same weights in two classes, two heads with one feature each, and an attention module of GPT-2's size.",
        "chapter 3.",
        10,
    );
    book.section(
        "ex3.1",
        "Exercise 3.1: comparing SelfAttention_v1 and SelfAttention_v2",
    );
    // Task: `SelfAttention_v2` stores its weights in linear layers, whereas `SelfAttention_v1`
    // stores them as plain matrices. Copy the weights of a `SelfAttention_v2` into a
    // `SelfAttention_v1`, so that both compute the same result. Hint: a linear layer stores its
    // matrix transposed.

    // Solution: `SelfAttentionV1::try_from` copies the three matrices and transposes them.
    let six_words = array![
        [0.43, 0.15, 0.89],
        [0.55, 0.87, 0.66],
        [0.57, 0.85, 0.64],
        [0.22, 0.58, 0.33],
        [0.77, 0.25, 0.10],
        [0.05, 0.80, 0.55],
    ];
    let inputs = book.input("inputs", six_words, 4..=120); // (num_tokens, d_in)
    let (d_in, d_out) = (inputs.ncols(), book.input("d_out", 2, 1..=256));
    let seed = book.input("seed", 123, ..);
    let sa_v2 = SelfAttentionV2::new(d_in, d_out, false, &mut TorchRng::manual_seed(seed));
    let sa_v1 = SelfAttentionV1::try_from(&sa_v2)?;
    let of_v1 = sa_v1.forward(&inputs)?;
    book.prints(
        "In [14]",
        &of_v1,
        "\
tensor([[-0.5337, -0.1051],
        [-0.5323, -0.1080],
        [-0.5323, -0.1079],
        [-0.5297, -0.1076],
        [-0.5311, -0.1066],
        [-0.5299, -0.1081]])",
    );
    // The `SelfAttentionV2` whose weights were copied computes the same context vectors.
    let of_v2 = sa_v2.forward(&inputs)?;
    book.prints(
        "In [15]",
        &of_v2,
        "\
tensor([[-0.5337, -0.1051],
        [-0.5323, -0.1080],
        [-0.5323, -0.1079],
        [-0.5297, -0.1076],
        [-0.5311, -0.1066],
        [-0.5299, -0.1081]])",
    );
    // The results of the two classes are equal bit for bit, not just in the printed digits.
    book.agrees("v1 and v2", &of_v1, &of_v2);

    book.section(
        "ex3.2",
        "Exercise 3.2: returning two-dimensional embedding vectors",
    );
    // Task: a `MultiHeadAttentionWrapper` with two heads returns context vectors with four
    // features. Make it return two features instead. You may change only the arguments that you
    // pass to its constructor.

    // Solution: with `d_out: 1`, each of the two heads computes one feature. The output in the
    // book's solution comes from an earlier version of the class. That version applied softmax to
    // the columns of the scores instead of the rows (erratum B1). To reproduce the output, the cell
    // makes the same mistake.
    let batch = stack![Axis(0), inputs, inputs]; // (batch, num_tokens, d_in)
    let config = AttentionConfig {
        d_in,
        d_out: 1,
        context_length: inputs.nrows(),
        dropout: 0.0,
        num_heads: 2,
        qkv_bias: false,
    };
    let seed = book.input("seed", 123, ..);
    let mha = MultiHeadAttentionWrapper::new(config, &mut TorchRng::manual_seed(seed))?;
    let heads: Vec<_> = mha
        .heads
        .iter()
        .map(|head| columns_normalised(head, &batch))
        .collect();
    let context_vecs = concatenate![Axis(2), heads[0], heads[1]];
    book.prints(
        "as printed",
        &context_vecs,
        "\
tensor([[[-9.1476e-02,  3.4164e-02],
         [-2.6796e-01, -1.3427e-03],
         [-4.8421e-01, -4.8909e-02],
         [-6.4808e-01, -1.0625e-01],
         [-8.8380e-01, -1.7140e-01],
         [-1.4744e+00, -3.4327e-01]],

        [[-9.1476e-02,  3.4164e-02],
         [-2.6796e-01, -1.3427e-03],
         [-4.8421e-01, -4.8909e-02],
         [-6.4808e-01, -1.0625e-01],
         [-8.8380e-01, -1.7140e-01],
         [-1.4744e+00, -3.4327e-01]]])",
    );
    // The corrected class applies softmax to each row of the scores. Its context vectors have the
    // same shape but contain different numbers:
    let context_vecs = mha.forward(&batch)?;
    book.shape("rows normalised", &context_vecs, &[2, 6, 2]);
    book.reference(
        "rows normalised",
        &context_vecs.index_axis(Axis(0), 0),
        "\
tensor([[-5.7399e-01,  2.2160e-01],
        [-7.3199e-01,  1.5525e-02],
        [-7.7736e-01, -5.4602e-02],
        [-6.9786e-01, -8.1738e-02],
        [-6.5384e-01, -9.5701e-02],
        [-6.4238e-01, -1.0645e-01]])",
        "the expected values were computed in plain Python with the same seed",
    );

    book.section(
        "ex3.3",
        "Exercise 3.3: initializing GPT-2 size attention modules",
    );
    // Task: create a multi-head attention module of the same size as the one in the smallest GPT-2
    // model. It has 12 heads, 768 input features, 768 output features, and a context length of
    // 1,024 tokens. How many parameters does the module have?

    // Solution: the module has four matrices of 768 x 768 numbers. In addition, its output layer
    // `out_proj` has a bias of 768 numbers. The total is {count:,} parameters.
    book.value("count", 4 * 768 * 768 + 768);
    let config = AttentionConfig {
        d_in: 768,
        d_out: 768,
        context_length: 1024,
        dropout: 0.0,
        num_heads: 12,
        qkv_bias: false,
    };
    let mha = MultiHeadAttention::zeros(config)?;
    book.prints("count_parameters(mha)", &mha.num_parameters(), "2360064");
    Ok(())
}

/// Returns the context vectors of an attention head that has the bug described in erratum B1.
/// Because of this bug, softmax is applied to axis 1 of the scores, which have the shape (batch,
/// num_tokens, num_tokens). As a result, the columns of the attention weights sum to 1 instead of
/// the rows.
pub(crate) fn columns_normalised(head: &CausalAttention, x: &ArrayRef3<f32>) -> Array3<f32> {
    let queries = head.w_query.forward(x); // (batch, num_tokens, d_out)
    let keys = head.w_key.forward(x);
    let scores = matmul_batched(&queries, &keys.view().permuted_axes([0, 2, 1])); // (batch, num_tokens, num_tokens)
    let scores = mask_future(&scores) / (keys.shape()[2] as f32).sqrt();
    let weights = softmax(&scores, Axis(1)); // Axis(2) is right
    matmul_batched(&weights, &head.w_value.forward(x))
}
