//! Rust port of study notes on self-attention with trainable weights. The notes compute a context
//! vector step by step.

use anyhow::Result;
use attention::{SelfAttentionV1, SelfAttentionV2, WeightInit, scaled_softmax};
use ndarray::{Array2, array, s};
use tensor_ops::matmul;
use torch_rng::TorchRng;

use crate::Notebook;

pub(crate) fn run(book: &mut Notebook) -> Result<()> {
    book.opens(
        "These notes go through self-attention with trainable weights once more: first one context vector step by step, then the two classes, and finally exercise 3.1.",
        "section 3.3, and ideally section 3.4.",
        12,
    );
    book.section("step-by-step", "The context vector z(2) of the input x(2)");
    // The example text has {words:w} words. Each word is represented by a vector with {d_in:w}
    // features. The goal of this section is to compute the context vector of the second word.
    // First, the cell prints the vector of this word.
    let six_words = array![
        [0.43, 0.15, 0.89], // Your     (x^1)
        [0.55, 0.87, 0.66], // journey  (x^2)
        [0.57, 0.85, 0.64], // starts   (x^3)
        [0.22, 0.58, 0.33], // with     (x^4)
        [0.77, 0.25, 0.10], // one      (x^5)
        [0.05, 0.80, 0.55], // step     (x^6)
    ];
    let inputs = book.input("inputs", six_words, 4..=120); // (num_tokens, d_in)
    book.value("words", inputs.nrows());
    book.value("d_in", inputs.ncols());
    let x_2 = inputs.slice(s![1..2, ..]); // (1, d_in)
    let d_in = inputs.ncols();
    let d_out = book.input("d_out", 2, 1..=256);
    book.shows("In [1]", &x_2.row(0), "tensor([0.5500, 0.8700, 0.6600])");

    // Self-attention uses three weight matrices of the same shape. They are initialized with random
    // numbers, which training would change. The cell prints the first matrix, `w_query`, which
    // turns the words' vectors into queries.
    let mut rng = TorchRng::manual_seed(book.input("seed", 123, ..));
    let w_query = Array2::from_shape_vec((d_in, d_out), rng.rand(d_in * d_out))?;
    let w_key = Array2::from_shape_vec((d_in, d_out), rng.rand(d_in * d_out))?;
    let w_value = Array2::from_shape_vec((d_in, d_out), rng.rand(d_in * d_out))?;
    book.prints(
        "In [2]",
        &w_query,
        "\
tensor([[0.2961, 0.5166],
        [0.2517, 0.6886],
        [0.0740, 0.8665]])",
    );

    // The query of the second word describes what this word looks for. Multiplying the word's
    // vector, which has {d_in} features, by `w_query` produces a query with {d_out} features.
    let query_2 = matmul(&x_2, &w_query); // (1, d_out)
    book.prints("In [3]", &query_2.row(0), "tensor([0.4306, 1.4551])");

    // Three matrix products compute the queries, the keys and the values of all words.
    let queries = matmul(&inputs, &w_query); // (num_tokens, d_out)
    let keys = matmul(&inputs, &w_key);
    let values = matmul(&inputs, &w_value);
    book.prints(
        "In [4]",
        &queries,
        "\
tensor([[0.2309, 1.0966],
        [0.4306, 1.4551],
        [0.4300, 1.4343],
        [0.2355, 0.7990],
        [0.2983, 0.6565],
        [0.2568, 1.0533]])",
    );
    book.shape("In [4]", &keys, &[6, 2]);

    // How well does a word's key match the query? This is measured by the attention score, which is
    // the dot product of the key and the query. First, we compute the score of the second word's
    // query and the second word's own key. Then we compute the scores of the same query and all
    // keys.
    let keys_2 = keys.slice(s![1..2, ..]);
    let attn_score_22 = matmul(&query_2, &keys_2.t()); // (1, 1)
    book.prints("In [5]", &attn_score_22[[0, 0]], "tensor(1.8524)");
    let attn_score_2 = matmul(&query_2, &keys.t()); // (1, num_tokens)
    book.prints(
        "In [5]",
        &attn_score_2.row(0),
        "tensor([1.2705, 1.8524, 1.8111, 1.0795, 0.5577, 1.5440])",
    );

    // The attention scores are divided by the square root of the number of features in a key. Then
    // softmax turns the scores into attention weights, which sum to 1.
    let d_k = keys.ncols();
    let attn_weights_2 = scaled_softmax(&attn_score_2, d_k);
    book.prints(
        "In [6]",
        &attn_weights_2.row(0),
        "tensor([0.1500, 0.2264, 0.2199, 0.1311, 0.0906, 0.1820])",
    );
    book.prints("In [6]", &attn_weights_2.sum(), "tensor(1.)");

    // Each word's value vector is multiplied by the word's attention weight. The sum of the
    // products is the context vector of the second word.
    let context_vec_2 = matmul(&attn_weights_2, &values); // (1, d_out)
    book.prints("In [7]", &context_vec_2.row(0), "tensor([0.3061, 0.8210])");

    book.section("SelfAttention_v1", "SelfAttention_v1");
    // The class `SelfAttention_v1` performs the same steps as the previous section, but for all
    // words at once. The cell prints its inputs:
    book.shows(
        "In [9]",
        &inputs,
        "\
tensor([[0.4300, 0.1500, 0.8900],
        [0.5500, 0.8700, 0.6600],
        [0.5700, 0.8500, 0.6400],
        [0.2200, 0.5800, 0.3300],
        [0.7700, 0.2500, 0.1000],
        [0.0500, 0.8000, 0.5500]])",
    );
    // The matrices of `SelfAttention_v1` are drawn with `torch.rand`, which returns random numbers
    // between 0 and 1. Each row of the result is the context vector of a word. With the same seed
    // as in the previous section, the second row equals the context vector in In [7].
    let seed = book.input("seed", 123, ..);
    book.value("seed_v1", seed);
    let sa_v1 = SelfAttentionV1::new(
        d_in,
        d_out,
        WeightInit::Rand,
        &mut TorchRng::manual_seed(seed),
    );
    book.prints(
        "In [9]",
        &sa_v1.forward(&inputs)?,
        "\
tensor([[0.2996, 0.8053],
        [0.3061, 0.8210],
        [0.3058, 0.8203],
        [0.2948, 0.7939],
        [0.2927, 0.7891],
        [0.2990, 0.8040]])",
    );

    book.section("SelfAttention_v2", "SelfAttention_v2");
    // The class `SelfAttention_v2` uses linear layers instead of plain matrices. It is applied to
    // the same inputs as `SelfAttention_v1`:
    book.shows(
        "In [11]",
        &inputs,
        "\
tensor([[0.4300, 0.1500, 0.8900],
        [0.5500, 0.8700, 0.6600],
        [0.5700, 0.8500, 0.6400],
        [0.2200, 0.5800, 0.3300],
        [0.7700, 0.2500, 0.1000],
        [0.0500, 0.8000, 0.5500]])",
    );
    // The results of `SelfAttention_v2` differ from those of `SelfAttention_v1` only because the
    // two objects have different weights. Their seeds are {seed_v1} and {seed_v2}. Even with the
    // same seed, the weights would differ, because a linear layer draws its weights from a
    // different range, which is from -1/√d_in to 1/√d_in.
    let seed = book.input("seed", 789, ..);
    book.value("seed_v2", seed);
    let sa_v2 = SelfAttentionV2::new(d_in, d_out, false, &mut TorchRng::manual_seed(seed));
    book.prints(
        "In [11]",
        &sa_v2.forward(&inputs)?,
        "\
tensor([[-0.0739,  0.0713],
        [-0.0748,  0.0703],
        [-0.0749,  0.0702],
        [-0.0760,  0.0685],
        [-0.0763,  0.0679],
        [-0.0754,  0.0693]])",
    );

    book.section(
        "exercise-3.1",
        "Exercise 3.1: comparing SelfAttention_v1 and SelfAttention_v2",
    );
    // Task: copy the matrices from a `SelfAttention_v2` object to a `SelfAttention_v1` object, so
    // that both objects compute the same context vectors from these inputs.
    book.shows(
        "In [12]",
        &inputs,
        "\
tensor([[0.4300, 0.1500, 0.8900],
        [0.5500, 0.8700, 0.6600],
        [0.5700, 0.8500, 0.6400],
        [0.2200, 0.5800, 0.3300],
        [0.7700, 0.2500, 0.1000],
        [0.0500, 0.8000, 0.5500]])",
    );
    // Solution: `SelfAttentionV1::try_from` copies the matrices of the linear layers and transposes
    // them.
    let sa_v1_v2 = SelfAttentionV1::try_from(&sa_v2)?;
    book.prints(
        "In [12]",
        &sa_v1_v2.forward(&inputs)?,
        "\
tensor([[-0.0739,  0.0713],
        [-0.0748,  0.0703],
        [-0.0749,  0.0702],
        [-0.0760,  0.0685],
        [-0.0763,  0.0679],
        [-0.0754,  0.0693]])",
    );
    Ok(())
}
