//! ch03.ipynb: coding attention mechanisms, from dot products to multi-head attention.

use anyhow::Result;
use attention::{
    AttentionConfig, CausalAttention, MultiHeadAttention, MultiHeadAttentionWrapper,
    SelfAttentionV1, SelfAttentionV2, WeightInit, attention_scores, attention_weights, causal_mask,
    context_vectors, mask_future, normalize_by_sum, normalize_rows, scaled_softmax,
};
use ndarray::{Array1, Array2, ArrayRef2, Axis, array, s, stack};
use pictures::{HeatMap, Picture, heat_map};
use tensor_ops::{Dropout, matmul, matmul_batched, softmax, softmax_naive};
use torch_rng::TorchRng;

use crate::Notebook;

pub(crate) fn run(book: &mut Notebook) -> Result<()> {
    book.opens(
        "Attention lets each word of a text collect information from the others. The chapter builds it four times, each time with one more idea: without weights, with learned weights, with a mask over the future, and with several heads.",
        "chapter 2, and matrix products.",
        60,
    );
    book.section(
        "3.3.1",
        "A simple self-attention mechanism without trainable weights",
    );
    // How much should the second word listen to each of the six? The dot product of two vectors is
    // large where they point the same way, so it serves as a first score.
    let six_words = array![
        [0.43, 0.15, 0.89], // Your     (x^1)
        [0.55, 0.87, 0.66], // journey  (x^2)
        [0.57, 0.85, 0.64], // starts   (x^3)
        [0.22, 0.58, 0.33], // with     (x^4)
        [0.77, 0.25, 0.10], // one      (x^5)
        [0.05, 0.80, 0.55], // step     (x^6)
    ];
    let inputs = book.input("inputs", six_words, 4..=120); // (num_tokens, d_in) = (6, 3)

    let query = inputs.row(1); // the second input token is the query
    let attn_scores_2: Array1<f32> = inputs.outer_iter().map(|x_i| x_i.dot(&query)).collect();
    book.shows(
        "In [3]",
        &attn_scores_2,
        "tensor([0.9544, 1.4950, 1.4754, 0.8434, 0.7070, 1.0865])",
    );

    // A dot product is the sum of the products of single features. Both ways give the same number.
    let mut res = 0.0;
    for (one, other) in inputs.row(0).iter().zip(query) {
        res += one * other;
    }
    book.shows("In [4]", &res, "tensor(0.9544)");
    book.shows("In [4]", &inputs.row(0).dot(&query), "tensor(0.9544)");

    // How do scores become weights that sum to 1? The simplest way divides them by their sum.
    let attn_weights_2_tmp = normalize_by_sum(&attn_scores_2);
    book.prints(
        "In [5]",
        &attn_weights_2_tmp,
        "tensor([0.1455, 0.2278, 0.2249, 0.1285, 0.1077, 0.1656])",
    );
    book.prints("In [5]", &attn_weights_2_tmp.sum(), "tensor(1.0000)");

    // Softmax also gives weights that sum to 1. They are positive for all scores, and the largest
    // score stands out. This is the plain formula, which overflows for large scores.
    let attn_weights_2_naive = softmax_naive(&attn_scores_2, Axis(0));
    book.prints(
        "In [6]",
        &attn_weights_2_naive,
        "tensor([0.1385, 0.2379, 0.2333, 0.1240, 0.1082, 0.1581])",
    );
    book.prints("In [6]", &attn_weights_2_naive.sum(), "tensor(1.)");

    // The same weights, computed safely: the largest score is subtracted before the exponential.
    let attn_weights_2 = softmax(&attn_scores_2, Axis(0));
    book.prints(
        "In [7]",
        &attn_weights_2,
        "tensor([0.1385, 0.2379, 0.2333, 0.1240, 0.1082, 0.1581])",
    );
    book.prints("In [7]", &attn_weights_2.sum(), "tensor(1.)");

    // What does the second word learn from the others? Its context vector is the sum of all six
    // vectors, each multiplied by its weight.
    let mut context_vec_2 = Array1::zeros(query.len());
    for (&weight, x_i) in attn_weights_2.iter().zip(inputs.outer_iter()) {
        context_vec_2.scaled_add(weight, &x_i);
    }
    book.prints("In [8]", &context_vec_2, "tensor([0.4419, 0.6515, 0.5683])");

    book.asks(
        "Multiply all scores by 10. How do the weights change?",
        "The largest gets nearly everything. Softmax turns differences of scores into ratios of weights, so scores ten times as large make ratios to the tenth power. Section 3.4 divides the scores for this reason.",
    );
    book.section("3.3.2", "Computing attention weights for all input tokens");
    // Now all words at once. Two loops compute 36 dot products, one for each pair of words.
    let words = inputs.nrows();
    let attn_scores =
        Array2::from_shape_fn((words, words), |(i, j)| inputs.row(i).dot(&inputs.row(j)));
    book.shows(
        "In [9]",
        &attn_scores,
        "\
tensor([[0.9995, 0.9544, 0.9422, 0.4753, 0.4576, 0.6310],
        [0.9544, 1.4950, 1.4754, 0.8434, 0.7070, 1.0865],
        [0.9422, 1.4754, 1.4570, 0.8296, 0.7154, 1.0605],
        [0.4753, 0.8434, 0.8296, 0.4937, 0.3474, 0.6565],
        [0.4576, 0.7070, 0.7154, 0.3474, 0.6654, 0.2935],
        [0.6310, 1.0865, 1.0605, 0.6565, 0.2935, 0.9450]])",
    );

    // One matrix product replaces both loops. Row i contains the scores with word i as the query.
    let attn_scores = attention_scores(&inputs); // inputs @ inputs.T
    book.prints(
        "In [10]",
        &attn_scores,
        "\
tensor([[0.9995, 0.9544, 0.9422, 0.4753, 0.4576, 0.6310],
        [0.9544, 1.4950, 1.4754, 0.8434, 0.7070, 1.0865],
        [0.9422, 1.4754, 1.4570, 0.8296, 0.7154, 1.0605],
        [0.4753, 0.8434, 0.8296, 0.4937, 0.3474, 0.6565],
        [0.4576, 0.7070, 0.7154, 0.3474, 0.6654, 0.2935],
        [0.6310, 1.0865, 1.0605, 0.6565, 0.2935, 0.9450]])",
    );
    book.multiplies(
        "Scores of all words: inputs @ inputs.T",
        &inputs,
        &inputs.t(),
    );

    // Softmax over each row gives the attention weights: how much word i attends to each of the
    // six.
    let attn_weights = attention_weights(&attn_scores); // torch.softmax(attn_scores, dim=-1)
    book.prints(
        "In [11]",
        &attn_weights,
        "\
tensor([[0.2098, 0.2006, 0.1981, 0.1242, 0.1220, 0.1452],
        [0.1385, 0.2379, 0.2333, 0.1240, 0.1082, 0.1581],
        [0.1390, 0.2369, 0.2326, 0.1242, 0.1108, 0.1565],
        [0.1435, 0.2074, 0.2046, 0.1462, 0.1263, 0.1720],
        [0.1526, 0.1958, 0.1975, 0.1367, 0.1879, 0.1295],
        [0.1385, 0.2184, 0.2128, 0.1420, 0.0988, 0.1896]])",
    );
    book.draws("Attention without trainable weights", || {
        of_words(
            &attn_weights,
            "Weights without trainable matrices",
            "attention weight (rows sum to 1)",
        )
    });

    // Does each row sum to 1? The printed digits of row 2 do, and so do all computed rows.
    let row_2_sum: f64 = [0.1385, 0.2379, 0.2333, 0.1240, 0.1082, 0.1581]
        .iter()
        .sum();
    book.shows("In [12]", &row_2_sum, "1.0");
    book.prints(
        "In [12]",
        &attn_weights.sum_axis(Axis(1)),
        "tensor([1.0000, 1.0000, 1.0000, 1.0000, 1.0000, 1.0000])",
    );

    // The product of weights and inputs gives the context vectors of all six words, one in each
    // row.
    let all_context_vecs = context_vectors(&attn_weights, &inputs); // attn_weights @ inputs
    book.prints(
        "In [13]",
        &all_context_vecs,
        "\
tensor([[0.4421, 0.5931, 0.5790],
        [0.4419, 0.6515, 0.5683],
        [0.4431, 0.6496, 0.5671],
        [0.4304, 0.6298, 0.5510],
        [0.4671, 0.5910, 0.5266],
        [0.4177, 0.6503, 0.5645]])",
    );

    book.multiplies("Context vectors: weights @ inputs", &attn_weights, &inputs);

    // Row 2 equals the context vector that was computed for the second word alone.
    book.prints(
        "In [14]",
        &context_vec_2,
        "tensor([0.4419, 0.6515, 0.5683])",
    );

    book.asks(
        "The matrix of scores is symmetric. Is the matrix of weights symmetric, too?",
        "No. Each row is divided by its own sum, so the second word may attend more to the fifth than the fifth to the second.",
    );
    book.section("3.4.1", "Computing the attention weights step by step");
    // How can a model learn which words matter? Three trainable matrices turn a word into a query
    // (what it looks for), a key (what it offers) and a value (what it contributes). First, the
    // query of the second word.
    let x_2 = inputs.slice(s![1..2, ..]); // the second input token: (1, d_in)
    let d_in = inputs.ncols();
    let d_out = book.input("d_out", 2, 1..=256);

    let mut rng = TorchRng::manual_seed(book.input("seed", 123, ..));
    let w_query = Array2::from_shape_vec((d_in, d_out), rng.rand(d_in * d_out))?;
    let w_key = Array2::from_shape_vec((d_in, d_out), rng.rand(d_in * d_out))?;
    let w_value = Array2::from_shape_vec((d_in, d_out), rng.rand(d_in * d_out))?;

    let query_2 = matmul(&x_2, &w_query); // (1, d_out)
    book.prints("In [17]", &query_2.row(0), "tensor([0.4306, 1.4551])");

    // Keys and values are needed for all six words, because the second word attends to each of
    // them.
    let keys = matmul(&inputs, &w_key); // (num_tokens, d_out)
    let values = matmul(&inputs, &w_value);
    book.shape("In [18]", &keys, &[6, 2]);
    book.shape("In [18]", &values, &[6, 2]);

    book.multiplies("Keys: inputs @ W_key", &inputs, &w_key);

    // The score of the second word with itself is the dot product of its query and its key.
    let keys_2 = keys.slice(s![1..2, ..]);
    let attn_score_22 = matmul(&query_2, &keys_2.t()); // (1, 1)
    book.prints("In [19]", &attn_score_22[[0, 0]], "tensor(1.8524)");

    // The same query with all six keys gives a row of scores.
    let attn_scores_2 = matmul(&query_2, &keys.t()); // (1, num_tokens)
    book.prints(
        "In [20]",
        &attn_scores_2.row(0),
        "tensor([1.2705, 1.8524, 1.8111, 1.0795, 0.5577, 1.5440])",
    );

    // Before softmax, the scores are divided by the square root of the keys' length. Otherwise long
    // vectors would give large scores, weights near 0 and 1, and hardly any gradient.
    let d_k = keys.ncols();
    let attn_weights_2 = scaled_softmax(&attn_scores_2, d_k); // softmax(attn_scores_2 / d_k**0.5)
    book.prints(
        "In [21]",
        &attn_weights_2.row(0),
        "tensor([0.1500, 0.2264, 0.2199, 0.1311, 0.0906, 0.1820])",
    );

    // The sum of the values, multiplied by these weights, is the second word's context vector.
    let context_vec_2 = matmul(&attn_weights_2, &values); // (1, d_out)
    book.prints("In [22]", &context_vec_2.row(0), "tensor([0.3061, 0.8210])");

    book.asks(
        "Why does a word need a query and a key, when one vector could serve as both?",
        "With one vector a word would attend most to similar words. With two it can look for something else: a verb for its subject, for example.",
    );
    book.section("3.4.2", "Implementing a compact SelfAttention class");
    book.listing(
        "crates/attention/src/self_attention.rs",
        "pub struct SelfAttentionV1",
    );
    book.listing(
        "crates/attention/src/self_attention.rs",
        "impl SelfAttentionV1 {",
    );
    // One type combines these steps: it stores the three matrices and takes a whole sequence.
    let seed = book.input("seed", 123, ..);
    let sa_v1 = SelfAttentionV1::new(
        d_in,
        d_out,
        WeightInit::Rand,
        &mut TorchRng::manual_seed(seed),
    );
    book.prints(
        "In [23]",
        &sa_v1.forward(&inputs)?,
        "\
tensor([[0.2996, 0.8053],
        [0.3061, 0.8210],
        [0.3058, 0.8203],
        [0.2948, 0.7939],
        [0.2927, 0.7891],
        [0.2990, 0.8040]])",
    );

    book.listing(
        "crates/attention/src/self_attention.rs",
        "pub struct SelfAttentionV2",
    );
    book.listing(
        "crates/attention/src/self_attention.rs",
        "impl SelfAttentionV2 {",
    );
    // The second version uses linear layers instead of plain matrices, because their initial
    // weights suit training better. The computation is the same; only the numbers differ.
    let seed = book.input("seed", 789, ..);
    let sa_v2 = SelfAttentionV2::new(d_in, d_out, false, &mut TorchRng::manual_seed(seed));
    book.prints(
        "In [24]",
        &sa_v2.forward(&inputs)?,
        "\
tensor([[-0.0739,  0.0713],
        [-0.0748,  0.0703],
        [-0.0749,  0.0702],
        [-0.0760,  0.0685],
        [-0.0763,  0.0679],
        [-0.0754,  0.0693]])",
    );

    book.asks(
        "Both classes have the same formula and the same seed. Why are their results different?",
        "The start of the weights: `torch.rand` draws from 0 to 1, `nn.Linear` from a small range around 0, and it stores the transposed matrix. Exercise 3.1 makes them equal.",
    );
    book.section("3.5.1", "Applying a causal attention mask");
    book.sketch(
        "Causal attention, with shapes",
        "
x (6, 3) --W_query--> queries (6, 2)
         --W_key----> keys    (6, 2)     scores = queries @ keys^T (6, 6)
         --W_value--> values  (6, 2)

scores (6, 6)            masked                     weights: rows sum to 1
 s  s  s  s  s  s        s -inf -inf -inf ...       1   0   0   0   0   0
 s  s  s  s  s  s   -->  s  s   -inf -inf ...  -->  w   w   0   0   0   0
 s  s  s  s  s  s        s  s   s    -inf ...       w   w   w   0   0   0

context vectors = weights (6, 6) @ values (6, 2) = (6, 2)
",
    );
    // A word must not see later words, because the model must learn to predict them. How can they
    // be hidden? These are the weights without a mask: every word attends to all six.
    let queries = sa_v2.w_query.forward(&inputs);
    let keys = sa_v2.w_key.forward(&inputs);
    let attn_scores = matmul(&queries, &keys.t()); // (num_tokens, num_tokens)
    let attn_weights = scaled_softmax(&attn_scores, keys.ncols());
    book.prints(
        "In [25]",
        &attn_weights,
        "\
tensor([[0.1921, 0.1646, 0.1652, 0.1550, 0.1721, 0.1510],
        [0.2041, 0.1659, 0.1662, 0.1496, 0.1665, 0.1477],
        [0.2036, 0.1659, 0.1662, 0.1498, 0.1664, 0.1480],
        [0.1869, 0.1667, 0.1668, 0.1571, 0.1661, 0.1564],
        [0.1830, 0.1669, 0.1670, 0.1588, 0.1658, 0.1585],
        [0.1935, 0.1663, 0.1666, 0.1542, 0.1666, 0.1529]])",
    );

    // The mask has ones where a word may attend: at its own position and at earlier ones.
    let context_length = attn_scores.nrows();
    let mask_simple = causal_mask(context_length);
    book.prints(
        "In [26]",
        &mask_simple,
        "\
tensor([[1., 0., 0., 0., 0., 0.],
        [1., 1., 0., 0., 0., 0.],
        [1., 1., 1., 0., 0., 0.],
        [1., 1., 1., 1., 0., 0.],
        [1., 1., 1., 1., 1., 0.],
        [1., 1., 1., 1., 1., 1.]])",
    );
    book.draws("The causal mask", || {
        of_words(&mask_simple, "The causal mask", "1: seen, 0: masked")
    });

    // Weights multiplied by the mask: later words are hidden, but the rows no longer sum to 1.
    let masked_simple = &attn_weights * &mask_simple;
    book.prints(
        "In [27]",
        &masked_simple,
        "\
tensor([[0.1921, 0.0000, 0.0000, 0.0000, 0.0000, 0.0000],
        [0.2041, 0.1659, 0.0000, 0.0000, 0.0000, 0.0000],
        [0.2036, 0.1659, 0.1662, 0.0000, 0.0000, 0.0000],
        [0.1869, 0.1667, 0.1668, 0.1571, 0.0000, 0.0000],
        [0.1830, 0.1669, 0.1670, 0.1588, 0.1658, 0.0000],
        [0.1935, 0.1663, 0.1666, 0.1542, 0.1666, 0.1529]])",
    );

    // Divided by its sum, each row sums to 1 again.
    let masked_simple_norm = normalize_rows(&masked_simple);
    book.prints(
        "In [28]",
        &masked_simple_norm,
        "\
tensor([[1.0000, 0.0000, 0.0000, 0.0000, 0.0000, 0.0000],
        [0.5517, 0.4483, 0.0000, 0.0000, 0.0000, 0.0000],
        [0.3800, 0.3097, 0.3103, 0.0000, 0.0000, 0.0000],
        [0.2758, 0.2460, 0.2462, 0.2319, 0.0000, 0.0000],
        [0.2175, 0.1983, 0.1984, 0.1888, 0.1971, 0.0000],
        [0.1935, 0.1663, 0.1666, 0.1542, 0.1666, 0.1529]])",
    );

    // There is a shorter way: the scores of later words are set to minus infinity, which softmax
    // turns into zero.
    let masked = mask_future(&attn_scores);
    book.prints(
        "In [29]",
        &masked,
        "\
tensor([[0.2899,   -inf,   -inf,   -inf,   -inf,   -inf],
        [0.4656, 0.1723,   -inf,   -inf,   -inf,   -inf],
        [0.4594, 0.1703, 0.1731,   -inf,   -inf,   -inf],
        [0.2642, 0.1024, 0.1036, 0.0186,   -inf,   -inf],
        [0.2183, 0.0874, 0.0882, 0.0177, 0.0786,   -inf],
        [0.3408, 0.1270, 0.1290, 0.0198, 0.1290, 0.0078]])",
    );
    book.draws("Scores with a masked future", || {
        of_words(
            &masked,
            "Scores, the future masked",
            "attention score q·k (-∞: masked)",
        )
    });

    // One softmax then gives the same weights as masking and dividing.
    let attn_weights = scaled_softmax(&masked, keys.ncols());
    book.prints(
        "In [30]",
        &attn_weights,
        "\
tensor([[1.0000, 0.0000, 0.0000, 0.0000, 0.0000, 0.0000],
        [0.5517, 0.4483, 0.0000, 0.0000, 0.0000, 0.0000],
        [0.3800, 0.3097, 0.3103, 0.0000, 0.0000, 0.0000],
        [0.2758, 0.2460, 0.2462, 0.2319, 0.0000, 0.0000],
        [0.2175, 0.1983, 0.1984, 0.1888, 0.1971, 0.0000],
        [0.1935, 0.1663, 0.1666, 0.1542, 0.1666, 0.1529]])",
    );
    book.draws("Causal attention weights", || {
        of_words(
            &attn_weights,
            "Causal attention weights",
            "attention weight (rows sum to 1)",
        )
    });

    book.asks(
        "Why are the masked scores minus infinity and not 0?",
        "Softmax takes the exponential: of 0 it is 1, a weight like any other; of minus infinity it is 0, and the rest of the row still sums to 1.",
    );
    book.section("3.5.2", "Masking additional attention weights with dropout");
    book.listing("crates/torch-rng/src/dropout.rs", "pub fn keep_mask_plain(");
    // During training, dropout sets random numbers to zero, so that the model doesn't rely on a few
    // of them. The remaining numbers are scaled up, here by 2, so that their sum stays about the
    // same.
    let p = book.input("dropout", 0.5, 0.0..=1.0);
    let dropout = Dropout { p };
    let seed = book.input("seed", 123, ..);
    let (example, _) = dropout.forward_train(
        Array2::ones((words, words)),
        &mut TorchRng::manual_seed(seed),
    );
    book.prints(
        "In [31]",
        &example,
        "\
tensor([[2., 2., 0., 2., 2., 0.],
        [0., 0., 0., 2., 0., 2.],
        [2., 2., 2., 2., 0., 2.],
        [0., 2., 2., 0., 0., 2.],
        [0., 2., 0., 2., 0., 2.],
        [0., 2., 2., 2., 2., 0.]])",
    );

    // The same by hand: a number is kept if its random draw is below 1 - p.
    let kept = TorchRng::manual_seed(seed).keep_mask_plain(words * words, p);
    let by_hand = kept
        .iter()
        .map(|&kept| if kept { 1.0 / (1.0 - p) } else { 0.0 });
    let by_hand = Array1::from_iter(by_hand).mapv(|x| x as f32);
    book.agrees("In [31] by hand", &by_hand, &example.flatten());

    // Applied to the attention weights, the same draws remove about half of them in this step.
    let (dropped, _) =
        dropout.forward_train(attn_weights.clone(), &mut TorchRng::manual_seed(seed));
    book.prints(
        "In [32]",
        &dropped,
        "\
tensor([[2.0000, 0.0000, 0.0000, 0.0000, 0.0000, 0.0000],
        [0.0000, 0.0000, 0.0000, 0.0000, 0.0000, 0.0000],
        [0.7599, 0.6194, 0.6206, 0.0000, 0.0000, 0.0000],
        [0.0000, 0.4921, 0.4925, 0.0000, 0.0000, 0.0000],
        [0.0000, 0.3966, 0.0000, 0.3775, 0.0000, 0.0000],
        [0.0000, 0.3327, 0.3331, 0.3084, 0.3331, 0.0000]])",
    );
    book.draws("Causal attention weights after dropout", || {
        of_words(
            &dropped,
            "After dropout of one half",
            "attention weight, those kept times 2",
        )
    });

    book.asks(
        "With a dropout of 0.5 the weights that stay are doubled. Does each row still sum to 1?",
        "Only on average over many draws. In one draw a row may sum to more or to less; while the model is used, nothing is dropped.",
    );
    book.section(
        "3.5.3",
        "Implementing a compact causal self-attention class",
    );
    // Training uses batches of several sequences. This batch contains the same six words twice.
    let batch = stack![Axis(0), inputs, inputs];
    book.shape("In [33]", &batch, &[2, 6, 3]);

    book.listing(
        "crates/attention/src/causal.rs",
        "pub struct CausalAttention",
    );
    book.listing("crates/attention/src/causal.rs", "impl CausalAttention {");
    // One type with mask and dropout, for a batch. Both sequences are equal, so their outputs are
    // equal, too.
    let config = AttentionConfig {
        d_in,
        d_out,
        context_length: batch.shape()[1],
        dropout: 0.0,
        num_heads: 1,
        qkv_bias: false,
    };
    let seed = book.input("seed", 123, ..);
    let ca = CausalAttention::new(config, &mut TorchRng::manual_seed(seed))?;
    let context_vecs = ca.forward(&batch)?;
    book.prints(
        "In [34]",
        &context_vecs,
        "\
tensor([[[-0.4519,  0.2216],
         [-0.5874,  0.0058],
         [-0.6300, -0.0632],
         [-0.5675, -0.0843],
         [-0.5526, -0.0981],
         [-0.5299, -0.1081]],

        [[-0.4519,  0.2216],
         [-0.5874,  0.0058],
         [-0.6300, -0.0632],
         [-0.5675, -0.0843],
         [-0.5526, -0.0981],
         [-0.5299, -0.1081]]])",
    );
    book.shape("In [34]", &context_vecs, &[2, 6, 2]);

    // With the weights of In [24], the result equals the steps above bit for bit.
    let same_seed = CausalAttention::new(config, &mut TorchRng::manual_seed(789))?;
    let weights = same_seed.attention_weights(&batch.slice(s![..1, .., ..]))?;
    let first = weights.index_axis(Axis(0), 0);
    book.agrees(
        "the class gives the weights of In [30]",
        &first,
        &attn_weights,
    );

    book.asks(
        "The context length is 6. What happens with a text of 4 words, and of 7?",
        "Of 4 words the mask's upper left corner is used. 7 words are refused: the mask has no row for the seventh.",
    );
    book.section("3.6.1", "Stacking multiple single-head attention layers");
    book.listing(
        "crates/attention/src/wrapper.rs",
        "pub struct MultiHeadAttentionWrapper",
    );
    book.listing(
        "crates/attention/src/wrapper.rs",
        "impl MultiHeadAttentionWrapper {",
    );
    // One head can learn one way to attend; two heads with different matrices can learn two. The
    // first head here is the head of In [34]. The outputs of both are concatenated, so the vectors
    // are twice as long.
    let config = AttentionConfig {
        num_heads: book.input("num_heads", 2, 1..=64),
        ..config
    };
    let seed = book.input("seed", 123, ..);
    let mha = MultiHeadAttentionWrapper::new(config, &mut TorchRng::manual_seed(seed))?;
    let context_vecs = mha.forward(&batch)?;
    book.prints(
        "In [35]",
        &context_vecs,
        "\
tensor([[[-0.4519,  0.2216,  0.4772,  0.1063],
         [-0.5874,  0.0058,  0.5891,  0.3257],
         [-0.6300, -0.0632,  0.6202,  0.3860],
         [-0.5675, -0.0843,  0.5478,  0.3589],
         [-0.5526, -0.0981,  0.5321,  0.3428],
         [-0.5299, -0.1081,  0.5077,  0.3493]],

        [[-0.4519,  0.2216,  0.4772,  0.1063],
         [-0.5874,  0.0058,  0.5891,  0.3257],
         [-0.6300, -0.0632,  0.6202,  0.3860],
         [-0.5675, -0.0843,  0.5478,  0.3589],
         [-0.5526, -0.0981,  0.5321,  0.3428],
         [-0.5299, -0.1081,  0.5077,  0.3493]]])",
    );
    book.shape("In [35]", &context_vecs, &[2, 6, 4]);

    book.asks(
        "Two heads with d_out = 2 give four features. What do three heads with d_out = 4 give?",
        "Twelve: the heads' outputs stand side by side.",
    );
    book.section(
        "3.6.2",
        "Implementing multi-head attention with weight splits",
    );
    book.sketch(
        "Splitting the features among heads",
        "
x                       (b, tokens, d_in)
W_query x               (b, tokens, d_out)
  as heads              (b, tokens, heads, head_dim)     d_out = heads x head_dim
  heads first           (b, heads, tokens, head_dim)     keys and values likewise
scores = Q @ K^T        (b, heads, tokens, tokens)       masked, softmax, dropout
weights @ V             (b, heads, tokens, head_dim)
  tokens first          (b, tokens, heads, head_dim)
  side by side          (b, tokens, d_out)
out_proj                (b, tokens, d_out)
",
    );
    book.listing(
        "crates/attention/src/plain.rs",
        "pub struct MultiHeadAttention",
    );
    book.listing("crates/attention/src/plain.rs", "impl MultiHeadAttention {");
    // All heads in one type: one product computes the queries of all heads (likewise keys and
    // values), which are then split into heads. A last linear layer combines the heads' outputs.
    let num_heads = book.input("num_heads", 2, 1..=64);
    let config = AttentionConfig {
        num_heads,
        d_out: d_out.next_multiple_of(num_heads), // each head has as many of the numbers
        ..config
    };
    let seed = book.input("seed", 123, ..);
    let mha = MultiHeadAttention::new(config, &mut TorchRng::manual_seed(seed))?;
    let (context_vecs, weights) = mha.forward_plain(&batch, None)?; // weights (2, num_heads, 6, 6)
    book.prints(
        "In [36]",
        &context_vecs,
        "\
tensor([[[0.3190, 0.4858],
         [0.2943, 0.3897],
         [0.2856, 0.3593],
         [0.2693, 0.3873],
         [0.2639, 0.3928],
         [0.2575, 0.4028]],

        [[0.3190, 0.4858],
         [0.2943, 0.3897],
         [0.2856, 0.3593],
         [0.2693, 0.3873],
         [0.2639, 0.3928],
         [0.2575, 0.4028]]])",
    );
    book.shape("In [36]", &context_vecs, &[2, 6, 2]);
    // The fast form for training and generating computes the product in blocks. It differs only by
    // rounding.
    let apart = (mha.forward(&batch)? - &context_vecs).mapv(f32::abs);
    book.reference("In [36]", &apart.sum(), "0.0000", "as both are the same");

    book.draws("Multi-head attention: the first head", || {
        let head = weights.slice(s![0, 0, .., ..]);
        of_words(&head, "The first head", "attention weight (rows sum to 1)")
    });
    book.draws("Multi-head attention: the last head", || {
        let head = weights.slice(s![0, -1, .., ..]);
        of_words(&head, "The last head", "attention weight (rows sum to 1)")
    });

    // How does a product of arrays with four dimensions work? The last two dimensions are matrices,
    // one for each head. The shape is (b, num_heads, num_tokens, head_dim) = (1, 2, 3, 4).
    let a = array![[
        [
            [0.2745, 0.6584, 0.2775, 0.8573],
            [0.8993, 0.0390, 0.9268, 0.7388],
            [0.7179, 0.7058, 0.9156, 0.4340]
        ],
        [
            [0.0772, 0.3565, 0.1479, 0.5331],
            [0.4066, 0.2318, 0.4545, 0.9737],
            [0.4606, 0.5159, 0.4220, 0.5786]
        ]
    ]];
    let product = matmul_batched(&a, &a.view().permuted_axes([0, 1, 3, 2])); // a @ a.transpose(2, 3)
    book.prints(
        "In [37]",
        &product,
        "\
tensor([[[[1.3208, 1.1631, 1.2879],
          [1.1631, 2.2150, 1.8424],
          [1.2879, 1.8424, 2.0402]],

         [[0.4391, 0.7003, 0.5903],
          [0.7003, 1.3737, 1.0620],
          [0.5903, 1.0620, 0.9912]]]])",
    );

    // Two ordinary products, one for each head, show the same. The first head:
    let first_head = a.slice(s![0, 0, .., ..]);
    let first_res = matmul(&first_head, &first_head.t());
    book.prints(
        "In [38]",
        &first_res,
        "\
tensor([[1.3208, 1.1631, 1.2879],
        [1.1631, 2.2150, 1.8424],
        [1.2879, 1.8424, 2.0402]])",
    );

    // The second head:
    let second_head = a.slice(s![0, 1, .., ..]);
    let second_res = matmul(&second_head, &second_head.t());
    book.prints(
        "In [38]",
        &second_res,
        "\
tensor([[0.4391, 0.7003, 0.5903],
        [0.7003, 1.3737, 1.0620],
        [0.5903, 1.0620, 0.9912]])",
    );
    // Both equal the product of In [37] bit for bit.
    book.agrees(
        "one head at a time",
        &stack![Axis(0), first_res, second_res],
        &product.index_axis(Axis(0), 0),
    );
    book.asks(
        "Can `MultiHeadAttention` have 2 features and 3 heads?",
        "No: the features are shared out among the heads, so their number must be divisible by the number of heads. The wrapper has no such limit.",
    );
    Ok(())
}

/// A map of a number for each pair of words; those behind the chapter's six are numbered.
fn of_words(values: &ArrayRef2<f32>, title: &str, unit: &str) -> Picture {
    let six = ["Your", "journey", "starts", "with", "one", "step"];
    let more = (six.len() + 1..).map(|number| format!("word {number}"));
    let words = six.map(str::to_owned).into_iter().chain(more);
    let words: Vec<String> = words.take(values.nrows()).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let labels = HeatMap {
        title,
        rows: &words,
        row_axis: "query",
        columns: &words,
        column_axis: "key",
        unit,
    };
    heat_map(values, labels)
}
