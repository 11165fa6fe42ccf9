//! Rust port of ch03.ipynb, which develops attention mechanisms step by step, from dot products to
//! multi-head attention.

use anyhow::Result;
use attention::{
    AttentionConfig, CausalAttention, MultiHeadAttention, MultiHeadAttentionWrapper,
    SelfAttentionV1, SelfAttentionV2, WeightInit, attention_scores, attention_weights, causal_mask,
    context_vectors, mask_future, normalize_by_sum, normalize_rows, scaled_softmax,
};
use ndarray::{
    Array1, Array2, ArrayRef, ArrayRef1, ArrayRef2, ArrayView1, Axis, Dimension, array,
    concatenate, s, stack,
};
use pictures::{HeatMap, Picture, heat_map};
use tensor_ops::{Dropout, Linear, Parameters, matmul, matmul_batched, softmax, softmax_naive};
use torch_rng::TorchRng;

use crate::Notebook;

pub(crate) fn run(book: &mut Notebook) -> Result<()> {
    book.opens(
        "Earlier translation models compressed a whole sentence into a single vector and lost details of long sentences. Attention removes this bottleneck, because it lets each word of a text collect information from the other words directly. This chapter builds attention in four steps: without trainable weights, with trainable weights, with a mask that hides the future, and with several heads side by side.",
        "chapter 2, matrix products, and mean and variance.",
        60,
    );
    book.section(
        "3.3.1",
        "A simple self-attention mechanism without trainable weights",
    );
    // The meaning of a word depends on its neighbors: near "river", the word "bank" means something
    // different than near "money". For each word, a model therefore needs a vector that also
    // contains information from the other words. Such a vector is called a *context vector*. Our
    // example text is "{example}". The goal of this section is to compute the context vector of its
    // second word, "journey".
    //
    // In this chapter, each word is one token, which is already represented by a vector, its
    // embedding (section 2.7). The numbers in a vector are called *features*. In this example, the
    // number of features is {d_in:w}, whereas it is 768 in the smallest GPT-2 model. The context
    // vector will be a mixture of all words' vectors. In *self-attention*, the words whose vectors
    // are mixed belong to the same text as the word that receives the mixture.
    //
    // We compute the context vector in three steps: first, we compute a score for each word, then
    // we turn the scores into weights that sum to 1, and finally, we mix the vectors. This first
    // version has no trainable numbers, and GPT-2 doesn't use it. However, all later versions in
    // this chapter keep the three steps and add trainable matrices, a mask and several heads.

    // How much information should the second word take from each of the {words:w} words? We call
    // the second word the *query*, because it asks this question. The *score* of a word is the dot
    // product of the word's vector and the query's vector. It is large if both vectors have large
    // numbers at the same positions. {two_best} In the matrix `inputs`, compare the row of each
    // word that has a large score with the query's row. (Our code prints arrays and shapes as
    // PyTorch does, so that you can compare them with the book.)
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
    book.aside(|book| {
        let example = SIX_WORDS[..inputs.nrows().min(6)].join(" ");
        let more = if inputs.nrows() > 6 { " ..." } else { "" };
        book.value("example", example + more);
    });

    let query = inputs.row(1); // the second input token is the query
    let attn_scores_2: Array1<f32> = inputs.outer_iter().map(|x_i| x_i.dot(&query)).collect();
    book.aside(|book| {
        let [best, next] = two_largest(&attn_scores_2);
        let [score, next_score] = [attn_scores_2[best], attn_scores_2[next]];
        let [tied, next_tied] = [score, next_score].map(|it| words_with(&attn_scores_2, it));
        let two_best = match [tied.len(), next_tied.len()] {
            [1, 1] => format!("The largest score, {score:.4}, belongs to \"{}\", and the second largest, {next_score:.4}, belongs to \"{}\".", name_of(best), name_of(next)),
            [1, _] => format!("The largest score, {score:.4}, belongs to \"{}\".", name_of(best)),
            _ => format!("The words {} share the largest score, {score:.4}.", quoted(&tied)),
        };
        book.value("two_best", two_best);
    });
    book.shows(
        "In [3]",
        &attn_scores_2,
        "tensor([0.9544, 1.4950, 1.4754, 0.8434, 0.7070, 1.0865])",
    );

    // A dot product multiplies two vectors entry by entry and adds the products. For the first word
    // and the query, this is {first_sum}. The loop and the function `dot` give the same result.
    book.value("first_sum", sum_of(inputs.row(0), query));
    let mut res = 0.0;
    for (one, other) in inputs.row(0).iter().zip(query) {
        res += one * other;
    }
    book.shows("In [4]", &res, "tensor(0.9544)");
    book.shows("In [4]", &inputs.row(0).dot(&query), "tensor(0.9544)");

    // How can we turn the scores into weights? The weights should sum to 1, so that the mixture is
    // a weighted average and its numbers are about as large as those in the words' vectors. The
    // simplest way is to divide each score by the sum of all scores, which is {sum_of_scores:.4} in
    // this example. However, if some of the scores are negative, some of the weights can be
    // negative, too, and if the sum is 0, the division fails.
    book.value("sum_of_scores", attn_scores_2.sum());
    let attn_weights_2_tmp = normalize_by_sum(&attn_scores_2);
    book.prints(
        "In [5]",
        &attn_weights_2_tmp,
        "tensor([0.1455, 0.2278, 0.2249, 0.1285, 0.1077, 0.1656])",
    );
    book.prints("In [5]", &attn_weights_2_tmp.sum(), "tensor(1.0000)");

    // *Softmax* computes the exponential of each score, e^score, and divides it by the sum of all
    // exponentials. By this formula, every weight is positive, because an exponential is positive
    // whatever the score is. The weights also sum to 1, and a larger score still results in a
    // larger weight. (A sum that is printed as `1.` is exactly 1, and `1.0000` is 1 up to a
    // rounding error.) The function `softmax_naive` computes exactly this formula. {too_large}
    book.listing(
        "tests/notebooks/formulas.rs",
        "pub(crate) fn softmax_naive(",
    );
    let attn_weights_2_naive = softmax_naive(&attn_scores_2, Axis(0));
    book.prints(
        "In [6]",
        &attn_weights_2_naive,
        "tensor([0.1385, 0.2379, 0.2333, 0.1240, 0.1082, 0.1581])",
    );
    book.prints("In [6]", &attn_weights_2_naive.sum(), "tensor(1.)");
    book.aside(|book| {
        let too_large = match attn_scores_2.exp().sum().is_infinite() {
            true => "The scores in this example are so large that the formula fails, for a reason that the next cell shows.",
            false => "",
        };
        book.value("too_large", too_large);
        let apart = (&softmax(&attn_scores_2, Axis(0)) - &attn_weights_2_naive).abs().sum();
        says(
            book,
            "same_weights",
            apart < 1e-5,
            "In this example, In [7] gives the same weights as In [6].",
        );
    });

    // What is wrong with computing softmax directly by its formula? The largest 32-bit
    // floating-point number is about 3.4 x 10^38, and e^89 is larger. So the exponential of a score
    // of 89 becomes infinity, and infinity divided by infinity is not a number (nan). The
    // exponential of 88 is still finite, and a finite number divided by infinity is 0. This
    // explains the first row of the output.
    //
    // The remedy is to subtract the largest score from all scores before computing the
    // exponentials. Then the largest exponential is e^0 = 1. The weights stay the same, because a
    // weight depends only on the differences between the scores: e^89 / e^88 = e^1 / e^0. The
    // second row of the output contains the correct weights.
    let large_scores: Array1<f32> = array![88.0, 89.0];
    let plain = softmax_naive(&large_scores, Axis(0));
    let safe = softmax(&large_scores, Axis(0));
    book.holds(
        "e^88 fits in 32 bits, and e^89 doesn't",
        88f32.exp() < f32::MAX && plain[0] == 0.0 && plain[1].is_nan(),
    );
    book.yours("Large scores", &stack![Axis(0), plain, safe]);

    // From now on, we use `softmax`, which subtracts the largest score first. The exponentials then
    // can't overflow. Very negative scores are safe, too. If all exponentials are so small that
    // they are rounded to 0, `softmax_naive` divides 0 by 0, whereas the largest exponential in
    // `softmax` is always e^0 = 1. {same_weights}
    book.listing("tests/notebooks/formulas.rs", "pub(crate) fn softmax(");
    let attn_weights_2 = softmax(&attn_scores_2, Axis(0));
    book.prints(
        "In [7]",
        &attn_weights_2,
        "tensor([0.1385, 0.2379, 0.2333, 0.1240, 0.1082, 0.1581])",
    );
    book.prints("In [7]", &attn_weights_2.sum(), "tensor(1.)");

    // In the last step, we mix the vectors: we multiply each word's vector by the word's weight and
    // add the {words:w} products. The sum is the second word's context vector. Its first feature,
    // calculated with the unrounded weights, is {first_feature}.
    book.value(
        "first_feature",
        sum_of(attn_weights_2.view(), inputs.column(0)),
    );
    let mut context_vec_2 = Array1::zeros(query.len());
    for (&weight, x_i) in attn_weights_2.iter().zip(inputs.outer_iter()) {
        context_vec_2.scaled_add(weight, &x_i);
    }
    book.prints("In [8]", &context_vec_2, "tensor([0.4419, 0.6515, 0.5683])");

    // How does the context vector differ from the plain average of all words' vectors, which gives
    // each word the same weight? {leans}
    let average = inputs.sum_axis(Axis(0)) / inputs.nrows() as f32;
    book.yours("The plain average", &average);
    book.aside(|book| {
        let is_between = |feature: usize| {
            let (from, to) = (average[feature], query[feature]);
            (context_vec_2[feature] - from) * (to - context_vec_2[feature]) > 0.0
        };
        says(
            book,
            "leans",
            (0..query.len()).all(is_between),
            "Each feature of the context vector lies between this average and the second word's own vector. So the context vector is an average that leans towards the query.",
        );
    });

    book.asks(
        "How do the weights change if all scores are multiplied by 10?",
        "Unequal weights become even more unequal. The largest weight changes from {best_weight:.3} to {best_of_tenfold:.3}, and the sum of the two largest weights changes from {two_weights:%} to {two_of_tenfold:%}. Softmax turns the difference between two scores into the ratio between their weights, which is e^difference. A difference that is ten times as large raises this ratio to its tenth power. Section 3.4.1 divides the scores by a number to prevent such extreme weights.",
    );
    book.aside(|book| {
        let tenfold = softmax(&(&attn_scores_2 * 10.0), Axis(0));
        let [best, next] = two_largest(&attn_scores_2);
        book.value("best_weight", attn_weights_2[best]);
        book.value("two_weights", attn_weights_2[best] + attn_weights_2[next]);
        book.value("best_of_tenfold", tenfold[best]);
        book.value("two_of_tenfold", tenfold[best] + tenfold[next]);
        let ratio = |weights: &Array1<f32>| weights[best] / weights[next];
        let error = ratio(&tenfold) / ratio(&attn_weights_2).powi(10) - 1.0;
        book.holds("the ratio is raised to its tenth power", error.abs() < 1e-3);
    });
    book.section("3.3.2", "Computing attention weights for all input tokens");
    // Every word needs a context vector, so every word has to be the query once. The goal of this
    // section is to compute all context vectors at once, because a computer multiplies whole
    // matrices much faster than one pair of vectors after another.

    // We begin with two nested loops. They compute {pairs} scores, one for each combination of a
    // query and a word. In row i of the result, word i is the query, so the second row matches the
    // scores of In [3].
    let words = inputs.nrows();
    book.value("pairs", words * words);
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

    // A single matrix product replaces both loops, because it computes the dot product of each row
    // of the first matrix and each column of the second. To get all scores, we multiply `inputs` by
    // its *transpose*, whose columns are the rows of `inputs`. (In Python, this product is `inputs
    // @ inputs.T`. The sign @ means a matrix product in our diagrams, too.)
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

    book.asks(
        "The matrix of scores is symmetric: the second word's score with the first word equals the first word's score with the second. Will the matrix of weights be symmetric, too?",
        "Usually not, because softmax divides each row by that row's own sum. {asymmetric}",
    );
    book.listing(
        "crates/attention/src/simple.rs",
        "pub fn attention_weights(",
    );
    // Applying softmax to each row of the scores gives the *attention weights*. The weights in row
    // i say how much word i takes from each of the {words:w} words. The second row matches the
    // weights of In [7].
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
    book.aside(|book| {
        let [to_first, to_second] = [attn_weights[[1, 0]], attn_weights[[0, 1]]];
        says(
            book,
            "asymmetric",
            (to_first - to_second).abs() > 1e-4,
            &format!("In this example, the second word assigns a weight of {to_first:.4} to the first word, whereas the first word assigns a weight of {to_second:.4} to the second word."),
        );
    });
    book.asks(
        "Find the largest weight in each row. Does each word take the most from itself?",
        "{largest_columns} A dot product is large if two vectors point in a similar direction, but also if they are long. {longest} All weights lie between {least_weight:.4} and {most_weight:.4}. If they were equal, each would be {equal_weight:.4}.",
    );
    book.aside(|book| {
        let rows = attn_weights.rows();
        let largest: Vec<Vec<usize>> = rows
            .into_iter()
            .map(|row| words_with(&row, row[two_largest(&row)[0]]))
            .collect();
        let own: Vec<usize> = (0..words).filter(|row| largest[*row].contains(row)).collect();
        let columns = largest.iter().map(|columns| (columns[0] + 1).to_string());
        let is_unique = largest.iter().all(|columns| columns.len() == 1);
        let which = match &own[..] {
            _ if own.len() == words => "Yes.".to_owned(),
            [] => "No. Each word takes more from another word than from itself.".to_owned(),
            [word] => format!("No. Only the word \"{}\" takes the most from itself.", name_of(*word)),
            _ => format!("No. Only the words {} take the most from themselves.", quoted(&own)),
        };
        let largest_columns = match is_unique {
            true => format!("{which} From the first row to the last, the largest weights are in the columns {}.", listed(columns)),
            false => format!("In at least one row, several weights are equal to the largest weight. In {} of the {words} rows, no weight is larger than the weight that the row's word gives to itself.", own.len()),
        };
        book.value("largest_columns", largest_columns);
        let lengths = attn_scores.diag();
        let [first, second] = two_largest(&lengths);
        let [longest, second_longest] = [lengths[first], lengths[second]];
        let are_the_longest = lengths.iter().filter(|&&length| length >= second_longest).count() == 2;
        says(
            book,
            "longest",
            are_the_longest,
            &format!("The diagonal of In [10] contains the dot product of each vector with itself. Its largest values, {longest:.4} and {second_longest:.4}, belong to \"{}\" and \"{}\", so these words have the longest vectors.", name_of(first), name_of(second)),
        );
        let [least, most] = range(&attn_weights);
        book.value("least_weight", least);
        book.value("most_weight", most);
        book.value("equal_weight", 1.0 / words as f32);
    });
    book.draws("Attention without trainable weights", || {
        of_words(
            &attn_weights,
            "Weights without trainable matrices",
            "attention weight (rows sum to 1)",
        )
    });

    // Does each row of the attention weights sum to 1? We check this in two ways: for the second
    // row, we add the weights after rounding them to four decimals, and for every row, we add the
    // unrounded weights.
    let digits = attn_weights
        .row(1)
        .mapv(|weight| (f64::from(weight) * 1e4).round() / 1e4);
    let row_2_sum = digits.sum();
    book.shows("In [12]", &row_2_sum, "1.0");
    book.prints(
        "In [12]",
        &attn_weights.sum_axis(Axis(1)),
        "tensor([1.0000, 1.0000, 1.0000, 1.0000, 1.0000, 1.0000])",
    );

    // The second matrix product multiplies the attention weights by `inputs`, which mixes the
    // words' vectors. Row i of the result is the context vector of word i.
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

    // The second row of the result of In [13] equals the context vector of the second word that
    // section 3.3.1 computed separately:
    book.prints(
        "In [14]",
        &context_vec_2,
        "tensor([0.4419, 0.6515, 0.5683])",
    );
    book.aside(|book| {
        let apart = (&all_context_vecs.row(1) - &context_vec_2).abs().sum();
        book.holds("the second row is the second word's", apart < 1e-5);
    });
    book.section("3.4.1", "Computing the attention weights step by step");
    // The attention mechanism of section 3.3 can't learn anything. Its weights depend only on the
    // embeddings, so a word takes the most from words whose vectors are long or point in a similar
    // direction. The goal of this section is to build an attention mechanism that can be trained.
    // It uses three matrices of *parameters*, which are numbers that training adjusts. These
    // matrices turn each word's vector into three new vectors:
    //
    // - the *query* describes what the word looks for,
    // - the *key* describes what the word offers to others,
    // - the *value* is what the word contributes to a mixture.
    //
    // The score of a pair of words is now the dot product of the first word's query and the second
    // word's key. The names come from databases: a database compares a query with the keys of its
    // entries and returns the values that belong to the matching keys.

    // First, we compute the query vector of the second word. Multiplying a vector of d_in features
    // by a matrix of shape (d_in, d_out) produces a vector of d_out features. In GPT models, d_in
    // and d_out are usually equal. In this example, d_in is {d_in} and d_out is {d_out}.
    // {why_unequal} The matrices are initialized with random numbers, which the seed determines.
    let x_2 = inputs.slice(s![1..2, ..]); // the second input token: (1, d_in)
    let d_in = inputs.ncols();
    let d_out = book.input("d_out", 2, 1..=256);
    book.aside(|book| {
        let why_unequal =
            "These two numbers are different, so that each shape shows which of them it contains.";
        book.value("why_unequal", if d_in == d_out { "" } else { why_unequal });
    });

    let mut rng = TorchRng::manual_seed(book.input("seed", 123, ..));
    let w_query = Array2::from_shape_vec((d_in, d_out), rng.rand(d_in * d_out))?;
    let w_key = Array2::from_shape_vec((d_in, d_out), rng.rand(d_in * d_out))?;
    let w_value = Array2::from_shape_vec((d_in, d_out), rng.rand(d_in * d_out))?;

    let query_2 = matmul(&x_2, &w_query); // (1, d_out)
    book.prints("In [17]", &query_2.row(0), "tensor([0.4306, 1.4551])");

    // The second word will compare its query with the keys of all words and then mix the values of
    // all words. We therefore compute the keys and the values of the {words:w} words. Both results
    // have one row for each word, so the shape ({words}, {d_in}) of `inputs` becomes ({words},
    // {d_out}).
    let keys = matmul(&inputs, &w_key); // (num_tokens, d_out)
    let values = matmul(&inputs, &w_value);
    book.shape("In [18]", &keys, &[6, 2]);
    book.shape("In [18]", &values, &[6, 2]);

    book.multiplies("Keys: inputs @ W_key", &inputs, &w_key);

    // The second row of the keys is the key of the second word.
    let keys_2 = keys.slice(s![1..2, ..]);
    book.yours("The second word's key", &keys_2.row(0));
    // The score of the second word with itself is the dot product of its query and its key:
    // {score_22_sum}. The cell multiplies the unrounded numbers, so your own calculation with these
    // rounded numbers can differ in the last digit.
    book.value("score_22_sum", sum_of(query_2.row(0), keys.row(1)));
    let attn_score_22 = matmul(&query_2, &keys_2.t()); // (1, 1)
    book.prints("In [19]", &attn_score_22[[0, 0]], "tensor(1.8524)");

    // The dot products of the second word's query with the {words:w} keys form a row of {words:w}
    // scores. The second score in this row is the result of In [19].
    let attn_scores_2 = matmul(&query_2, &keys.t()); // (1, num_tokens)
    book.prints(
        "In [20]",
        &attn_scores_2.row(0),
        "tensor([1.2705, 1.8524, 1.8111, 1.0795, 0.5577, 1.5440])",
    );

    book.asks(
        "Which word fits the query of the second word best, and which word fits it least?",
        "{fits} Training adjusts the matrices, and thereby decides which words fit.",
    );
    book.aside(|book| {
        let scores = attn_scores_2.row(0);
        let [smallest, largest] = range(&scores);
        let best = match &words_with(&scores, largest)[..] {
            [word] => format!("The word \"{}\" fits the query best, because it has the highest score, {largest:.4}.", name_of(*word)),
            tied => format!("The words {} fit the query best, because they share the highest score, {largest:.4}.", quoted(tied)),
        };
        let worst = match &words_with(&scores, smallest)[..] {
            [word] => format!("The word \"{}\" fits the query least, because it has the lowest score, {smallest:.4}.", name_of(*word)),
            tied => format!("The words {} fit the query least, because they share the lowest score, {smallest:.4}.", quoted(tied)),
        };
        let fits = match words_with(&scores, largest).len() == words {
            true => "All words fit the query equally well, because their scores are equal.".to_owned(),
            false => format!("{best} {worst} The matrices are random, so this ranking doesn't mean anything yet."),
        };
        book.value("fits", fits);
    });
    // Before softmax, each score is divided by √d_k, where d_k is the number of features in a key.
    // Why the square root? A dot product adds d_k products. If these products are independent and
    // each has mean 0 and variance 1, their sum has variance d_k, so its typical size is √d_k.
    // Dividing the score by √d_k brings its typical size back to 1. Attention with this division is
    // called *scaled dot-product attention*.
    //
    // The table shows the effect of dividing by √d_k for random queries and keys whose features
    // have variance 1. The typical score is the square root of the mean square of all scores. The
    // last two columns show why the size of the scores matters: they contain the largest of ten
    // weights, averaged over many queries, without and with the division. With 256 features and no
    // division, softmax gives nearly all the weight to one word. A small change in a score then
    // hardly changes the weights, so training can't find out in which direction it should change
    // the score. (In the terms of section 5.2, the gradient of the score is nearly 0.)
    let mut lines =
        vec![" d_k   typical score   divided   largest weight   after division".to_owned()];
    for d_k in [4, 16, 64, 256] {
        let scores = random_scores(d_k); // (1000, 10): of 1,000 queries with ten keys each
        let divided = &scores / (d_k as f32).sqrt();
        let [score, divided_score] = [typical_size(&scores), typical_size(&divided)];
        let [weight, divided_weight] = [largest_weight(&scores), largest_weight(&divided)];
        lines.push(format!(
            "{d_k:4} {score:15.2} {divided_score:9.2} {weight:16.2} {divided_weight:16.2}"
        ));
        book.aside(|book| {
            let error = (divided_score - 1.0).abs();
            book.holds("a score grows with the root of d_k", error < 0.05);
            let is_even = divided_weight < 0.45 && (d_k < 256 || weight > 0.85);
            book.holds("the division keeps the weights even", is_even);
        });
    }
    book.yours("Why √d_k", &lines.join("\n"));

    book.listing(
        "tests/notebooks/formulas.rs",
        "pub(crate) fn scaled_softmax(",
    );
    // In this example, d_k is {d_k}, so the scores are divided by √{d_k} = {root:.4}. The second
    // word's score becomes {score_22:.4} / {root:.4} = {divided_22:.3}. {division_effect} The table
    // above shows how the effect of the division grows with the number of features.
    //
    // The function `scaled_softmax` expects a matrix with one row for each query. There is only one
    // query in this cell, so `attn_scores_2` is a matrix with a single row.
    let d_k = keys.ncols();
    book.value("d_k", d_k);
    book.value("root", (d_k as f64).sqrt());
    let attn_weights_2 = scaled_softmax(&attn_scores_2, d_k); // softmax(attn_scores_2 / d_k**0.5)
    book.prints(
        "In [21]",
        &attn_weights_2.row(0),
        "tensor([0.1500, 0.2264, 0.2199, 0.1311, 0.0906, 0.1820])",
    );

    book.aside(|book| {
        let undivided = scaled_softmax(&attn_scores_2, 1);
        let (score, root) = (attn_scores_2[[0, 1]], (d_k as f32).sqrt());
        book.value("score_22", score);
        book.value("divided_22", score / root);
        let [before, after] = [undivided[[0, 1]], attn_weights_2[[0, 1]]];
        let division_effect = match (d_k, (before - after).abs() < 1e-4) {
            (1, _) => "With a single feature, the division by 1 changes nothing.".to_owned(),
            (_, true) => String::new(),
            (_, false) => format!("Without the division, the second word would get a weight of {before:.4} instead of {after:.4}."),
        };
        book.value("division_effect", division_effect);
    });
    // We multiply each word's value vector by the word's attention weight and add the {words:w}
    // products. The sum is the second word's context vector. As in the value vectors, the number of
    // features is d_out = {d_out}.
    let context_vec_2 = matmul(&attn_weights_2, &values); // (1, d_out)
    book.prints("In [22]", &context_vec_2.row(0), "tensor([0.3061, 0.8210])");

    book.asks(
        "Why does a word need both a query and a key? Couldn't one vector serve as both?",
        "With one vector, any two words would have the same score in both directions, as in In [10]. Each word would take the most from words whose vectors point in a similar direction or are long. With two vectors, a word can look for something that it isn't: a verb can look for its subject without the subject having to look for the verb.",
    );
    book.section("3.4.2", "Implementing a compact SelfAttention class");
    // A GPT contains many attention modules, each with its own three matrices, so we need a
    // building block that can be reused. The goal of this section is to write a single type that
    // stores the three matrices and computes the context vectors of a whole text. It corresponds to
    // listing 3.1 of the book:
    book.listing(
        "tests/notebooks/formulas.rs",
        "pub(crate) struct SelfAttentionV1",
    );
    book.listing("tests/notebooks/formulas.rs", "impl SelfAttentionV1 {");
    // This cell uses the type `SelfAttentionV1` of our crate `attention`, which performs the same
    // computation as the listing above. The additional argument `WeightInit::Rand` initializes the
    // matrices with random numbers between 0 and 1. The `?` is necessary because `forward` returns
    // an error if the words' vectors don't have d_in features.
    //
    // Each row of the result is the context vector of a word. Compare the second row with the
    // output of In [22]. If both cells use the same seed (see In [17]), the numbers are the same.
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

    book.aside(|book| {
        let same_seed = TorchRng::manual_seed(123);
        let sa_v1 = SelfAttentionV1::new(d_in, d_out, WeightInit::Rand, &mut same_seed.clone());
        let apart = sa_v1
            .forward(&inputs)
            .map(|all| (&all.row(1) - &context_vec_2.row(0)).abs().sum());
        book.holds(
            "the second row is In [22]",
            apart.is_ok_and(|apart| apart < 1e-5),
        );
        let x = Array2::from_shape_vec((20, 768), TorchRng::manual_seed(1).randn(15360));
        let layer = Linear::new(768, 768, false, &mut TorchRng::manual_seed(2));
        let variance = x.map(|x| layer.forward(&x).var(0.0) / x.var(0.0));
        book.holds(
            "a third of the variance",
            variance.is_ok_and(|it| (it - 1.0 / 3.0).abs() < 0.02),
        );
    });
    // The second version replaces the matrices with linear layers, which are called `nn.Linear` in
    // PyTorch. A *linear layer* also computes a matrix product. In addition, it can have a *bias*,
    // a vector of trainable numbers that is added to the product. In this cell, the linear layers
    // have no bias.
    //
    // The initial weights of a linear layer are better suited to training. In the previous cell,
    // all initial weights are between 0 and 1, so each sum of products grows with the number of
    // features. A linear layer draws its initial weights from the range between -1/√d_in and
    // 1/√d_in, which are -{bound:.3} and {bound:.3} in this example, so positive and negative
    // products partly cancel out. If the inputs have mean 0, the variance of the outputs is about a
    // third of the inputs' variance, regardless of d_in.
    book.listing(
        "crates/attention/src/self_attention.rs",
        "pub struct SelfAttentionV2",
    );
    // The `forward` method of the second version is the same as in listing 3.1, except that
    // `self.w_query.forward(x)` replaces `x.dot(&self.w_query)`, and likewise for the keys and
    // values.
    book.value("bound", 1.0 / (d_in as f64).sqrt());
    book.value("seed_v1", seed);
    let seed_v2 = book.input("seed", 789, ..);
    let qkv_bias = false; // no number is added after the products
    let sa_v2 = SelfAttentionV2::new(d_in, d_out, qkv_bias, &mut TorchRng::manual_seed(seed_v2));
    book.value("seed_v2", seed_v2);
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
        "Compare the rows of this result. How much do they differ?",
        "Within each column, the numbers differ by at most {row_spread:.4} before they are rounded for printing. {nearly_even}",
    );
    book.asks(
        "Both classes use the same formula. Why do their results usually differ?",
        "The two objects have different matrices. Their seeds are {seed_v1} and {seed_v2}, and even with the same seed, `torch.rand` draws numbers between 0 and 1, whereas `nn.Linear` draws numbers between -{bound:.3} and {bound:.3}. A linear layer also stores its matrix transposed. In exercise 3.1, both classes get the same matrices, so their results are equal.",
    );
    book.section("3.5.1", "Applying a causal attention mask");
    // A GPT learns to predict the next word at every position of a text. The context vector of a
    // position must therefore not contain any information from later words, because the next word
    // is the answer. The goal of this section is to build *causal attention*, in which a word takes
    // no information from later words because their weights are 0. The rule that hides later words
    // is called a *causal mask*.
    //
    // The mask also makes training efficient. Because no position sees the words that follow it,
    // the model can predict the next word at every position of a text of {words:w} words at once.
    // It then learns from all of these predictions in a single training step.
    book.sketch(
        "Causal attention, with shapes",
        "
x ({words}, {d_in}) --W_query--> queries ({words}, {d_out})
         --W_key----> keys    ({words}, {d_out})     scores = queries @ keys^T ({words}, {words})
         --W_value--> values  ({words}, {d_out})

scores ({words}, {words}), masked scores, and attention weights, which softmax
computes from the masked scores / √d_k:
{masking}

context vectors = weights ({words}, {words}) @ values ({words}, {d_out}) = ({words}, {d_out})
",
    );
    book.value("masking", masking(words));
    // This cell prints the attention weights of `sa_v2` (In [24]) without a mask. Look above the
    // diagonal. {from_all}
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

    book.aside(|book| {
        let [least, most] = range(&attn_weights);
        says(
            book,
            "from_all",
            least > 0.0,
            "No weight there is 0, so each word except the last takes information from later words.",
        );
        let spread = sa_v2.forward(&inputs).map_or(0.0, |rows| {
            let spreads = rows.axis_iter(Axis(1)).map(|column| range(&column));
            spreads.fold(0.0, |widest: f32, [low, high]| widest.max(high - low))
        });
        book.value("row_spread", spread);
        let even = 1.0 / words as f32;
        says(
            book,
            "nearly_even",
            near_even(&attn_weights, words),
            &format!("The attention weights, which the first cell of section 3.5.1 prints, lie between {least:.4} and {most:.4}. They are close to the equal weight 1/{words} = {even:.4}, so all context vectors are close to the plain average of the value vectors."),
        );
    });
    // Row i of the causal mask contains 1 for each word that word i may take information from (the
    // word itself and all earlier words), and 0 for each later word. In the whole mask, the ones
    // are therefore on and below the diagonal.
    let context_length = attn_scores.nrows();
    book.listing("crates/attention/src/scores.rs", "pub fn causal_mask(");
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

    // The first way to hide later words is to multiply the attention weights by the mask. However,
    // a row then no longer sums to 1 if some of its weights became 0. {first_row_sum} {only_last}
    let masked_simple = &attn_weights * &mask_simple;
    book.aside(|book| {
        let sum = masked_simple.row(0).sum();
        let example = format!("For example, the first row sums to {sum:.4}.");
        book.value("first_row_sum", if sum < 0.9999 { &example } else { "" });
        let sums = masked_simple.sum_axis(Axis(1));
        let (last, others) = (sums.len() - 1, sums.slice(s![..-1]));
        let is_so = (sums[last] - 1.0).abs() < 1e-5 && others.iter().all(|sum| *sum < 0.999);
        says(
            book,
            "only_last",
            is_so,
            "Only the last row still sums to 1.",
        );
    });
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

    // To make the weights in each row sum to 1 again, we divide each row by its sum. {first_row}
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

    book.aside(|book| {
        let first_row = match masked_simple_norm.iter().any(|weight| weight.is_nan()) {
            false => "The first word can take information only from itself, so its weight in the first row becomes 1.",
            true => "But the remaining weights of a row can be so small that their sum is 0 in 32-bit numbers. The quotient 0 / 0 is not a number (nan), so the first way fails in this example.",
        };
        book.value("first_row", first_row);
    });
    // The second way to hide later words is shorter. It changes the scores before softmax is
    // applied: the scores of later words become minus infinity, so their weights become 0.
    book.listing("tests/notebooks/formulas.rs", "pub(crate) fn mask_future(");
    // In the output, the scores on and below the diagonal are unchanged, and all scores above the
    // diagonal are minus infinity.
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

    book.asks(
        "Why are the masked scores minus infinity? Wouldn't 0 hide the later words as well?",
        "No. Softmax takes the exponential of each score, and e^0 is 1, so a word with a score of 0 still gets a positive weight. The exponential of minus infinity is 0, so the weight is 0, too. Softmax then divides the remaining exponentials by their own sum, so the row still sums to 1.",
    );
    // By their formulas, both ways give the same weights, because both end up dividing the same
    // exponentials by the same sum. {second_way}
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
    book.aside(|book| {
        let apart = (&attn_weights - &masked_simple_norm).abs().sum();
        let second_way = match apart.is_nan() {
            false if apart < 1e-4 => "Applying softmax to the masked scores gives the weights of In [28] in a single step.",
            false => "In this example, some weights were so small that they became 0 in In [27], so the first way isn't exact, but the second way is.",
            true => "The second way doesn't fail in this example, because softmax subtracts the largest score that remains in a row.",
        };
        book.value("second_way", second_way);
        book.holds("In [30] is In [28]", apart < 1e-5);
        let [one, other] = [masked[[1, 0]], masked[[1, 1]]];
        let [large, small] = [attn_weights[[1, 0]], attn_weights[[1, 1]]];
        let (difference, d_k) = (one - other, keys.ncols());
        let exponent = difference / (d_k as f32).sqrt();
        let two_decimals = |ratio: f64| format!("{ratio:.2}");
        let ratio = two_decimals(f64::from(large / small));
        let [large_shown, small_shown] = [large, small].map(|it| rounded(f64::from(it)));
        let shown_exponent = (f64::from(exponent) * 1e3).round() / 1e3;
        let is_so = ratio == two_decimals(large_shown / small_shown)
            && ratio == two_decimals(shown_exponent.exp());
        says(
            book,
            "ratio_of_weights",
            is_so,
            &format!("The scores in the second row are {one:.4} and {other:.4}. They differ by {difference:.3}. After the division by √{d_k}, the difference is {exponent:.3}. The ratio of the weights is e^{exponent:.3} = {ratio}, which is {large:.4} / {small:.4}."),
        );
    });
    book.asks(
        "Can you compute the ratio of the two weights in the second row from their scores in In [29]?",
        "Yes, with the rule of section 3.3.1: the ratio is e^difference if the scores are first divided by √d_k. {ratio_of_weights}",
    );
    // Is the future really hidden from each word? If we remove the last word of the text, the
    // context vectors of all other words stay the same, bit for bit.
    let values = sa_v2.w_value.forward(&inputs);
    let context_vecs = matmul(&attn_weights, &values); // (num_tokens, d_out)
    let before = s![..words - 1, ..];
    let shorter_scores = matmul(&queries.slice(before), &keys.slice(before).t());
    let shorter_weights = scaled_softmax(&mask_future(&shorter_scores), keys.ncols());
    let of_shorter_text = matmul(&shorter_weights, &values.slice(before));
    book.value("all_but_one", words - 1);
    book.agrees(
        "Without the last word",
        &of_shorter_text,
        &context_vecs.slice(before),
    );
    book.draws("Causal attention weights", || {
        of_words(
            &attn_weights,
            "Causal attention weights",
            "attention weight (rows sum to 1)",
        )
    });

    book.section("3.5.2", "Masking additional attention weights with dropout");
    // A model that trains for a long time on a short text learns the text by heart instead of
    // learning the language. *Dropout* makes this harder: in each training step, it sets randomly
    // chosen numbers in the model to 0, so that the model can't rely on any single number. On
    // average, a fraction p of the numbers is dropped. The remaining numbers are divided by 1 - p,
    // so that sums stay the same on average. After training, when the model is used, nothing is
    // dropped.
    //
    // Why is dropout applied to attention weights? If a weight is 0, a word receives no information
    // from one of the other words, so the model learns not to rely on the same word every time.
    // GPT-2-style models usually use a p of 0.1 or 0.2 during training. A larger value makes the
    // effect easier to see.
    book.listing("tests/notebooks/formulas.rs", "pub(crate) fn dropout(");
    // In this cell, dropout with p = {dropout} is applied to a matrix of {all} ones. On average, it
    // sets {expected_zeros} of them to 0. With this seed, it sets {zeros} to 0 and replaces each
    // of the others with 1 / (1 - {dropout}) = {scale}.
    let p = book.input("dropout", 0.5, 0.0..=0.9);
    let dropout = Dropout { p };
    book.value("scale", rounded(1.0 / (1.0 - p)));
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

    book.value(
        "zeros",
        example.iter().filter(|&&number| number == 0.0).count(),
    );
    book.value("all", example.len());
    book.value("expected_zeros", rounded(p * example.len() as f64));

    // Next, dropout with the same seed is applied to the causal attention weights. It sets
    // {dropped} of the {visible} positive weights to 0. {emptied}
    let (dropped, _) =
        dropout.forward_train(attn_weights.clone(), &mut TorchRng::manual_seed(seed));
    book.aside(|book| {
        let is_dropped = |(&after, &before): (&f32, &f32)| after == 0.0 && before > 0.0;
        let visible = attn_weights.iter().filter(|&&weight| weight > 0.0).count();
        let count = dropped.iter().zip(&attn_weights).filter(|&it| is_dropped(it)).count();
        book.value("visible", visible);
        book.value("dropped", count);
        let sums = dropped.sum_axis(Axis(1));
        book.value("row_sums", listed(sums.iter().map(|sum| format!("{sum:.4}"))));
        let scale = rounded(1.0 / (1.0 - p));
        let four = |weight: f32| rounded(f64::from(weight));
        let kept = attn_weights.indexed_iter().filter(|(at, before)| {
            let product = rounded(four(**before) * scale);
            **before >= 0.01 && **before < 1.0 && product == four(dropped[*at])
        });
        let kept = kept.map(|((row, _), &before)| format!("For example, the weight {} in row {} has become {0} · {scale} = {}.", four(before), row + 1, rounded(four(before) * scale)));
        book.value("kept_weight", { kept }.next().unwrap_or_default());
        let empty = |row: &usize| dropped.row(*row).iter().all(|&weight| weight == 0.0);
        let empty: Vec<String> = (0..words).filter(empty).map(|row| (row + 1).to_string()).collect();
        let emptied = match &empty[..] {
            [] => String::new(),
            [row] => format!("All weights in row {row} are now 0, so word {row} receives no information in this step."),
            rows => format!("All weights in the rows {} are now 0, so the words of these rows receive no information in this step.", rows.join(", ")),
        };
        book.value("emptied", emptied);
        book.holds("the second row is empty", empty == ["2"]);
    });
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
            &format!("After dropout with p = {p}"),
            &format!(
                "attention weight (kept weights are multiplied by {})",
                rounded(1.0 / (1.0 - p))
            ),
        )
    });

    book.asks(
        "Does each row still sum to 1 after dropout?",
        "If p is larger than 0, a row sums to 1 only on average over many training steps. In this example, the rows of unrounded weights sum to {row_sums}. Each weight that was kept has been multiplied by {scale}. {kept_weight}",
    );
    book.section(
        "3.5.3",
        "Implementing a compact causal self-attention class",
    );
    // A GPT applies causal attention in every layer (chapter 4), and training feeds it *batches*,
    // each of which consists of several texts of the same length (section 2.6). The goal of this
    // section is a type that combines the causal mask and dropout and accepts batches. It
    // corresponds to listing 3.3 of the book.
    //
    // Why does training use batches? Processing several texts at once is more efficient than
    // processing them one after another. In addition, training needs the *gradient*, which
    // describes how a small change of each parameter would change the model's error (section 5.2).
    // The mean gradient of several texts is less random than the gradient of a single text.

    // The batch in this cell consists of two copies of the example text. Each copy consists of
    // {words:w} words, so the batch has the shape (2, {words}, {d_in}).
    let batch = stack![Axis(0), inputs, inputs];
    book.shape("In [33]", &batch, &[2, 6, 3]);

    // For a single text, the following function computes causal attention in the same way as
    // sections 3.5.1 and 3.5.2. The next cell uses the type `CausalAttention` of our crate
    // `attention`, which performs the same computation but also accepts batches and checks its
    // input.
    book.listing(
        "tests/notebooks/formulas.rs",
        "pub(crate) fn causal_attention(",
    );
    // How does the same formula work for a batch? The transpose swaps only the last two dimensions
    // of the keys, so the queries of each text meet only the keys of the same text. The scores
    // therefore have the shape (2, {words}, {words}), which is one matrix for each text, and a
    // single mask serves all texts. The texts of a batch never exchange information.
    //
    // In our batch, both texts are the same, and no weights are dropped, so both texts have the
    // same context vectors. The field `context_length` is the largest number of words that a text
    // may have.
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
    book.asks(
        "The first row of each text's result is the context vector of the first word. From which words does it take information?",
        "The first word can take information only from itself, and its weight is 1. So its context vector is its own value vector, ({first_value}).",
    );
    book.aside(|book| {
        let values = ca.w_value.forward(&inputs);
        let first = values.row(0);
        book.value(
            "first_value",
            listed(first.iter().map(|value| format!("{value:.4}"))),
        );
        let apart = (&first - &context_vecs.slice(s![0, 0, ..])).abs();
        book.holds("the first row is a value vector", apart.sum() < 1e-5);
    });

    // If `CausalAttention` has the same matrices as the attention module in In [24], it computes
    // the same attention weights as In [30], bit for bit.
    let same_matrices = CausalAttention::new(config, &mut TorchRng::manual_seed(seed_v2))?;
    let weights = same_matrices.attention_weights(&batch.slice(s![..1, .., ..]))?;
    let first = weights.index_axis(Axis(0), 0);
    book.agrees(
        "The class gives the weights of In [30]",
        &first,
        &attn_weights,
    );

    book.asks(
        "The context length in this example is {words}. What happens if a text is one word shorter? What happens if it is one word longer?",
        "The shorter text uses only the upper left corner of the mask, of shape ({all_but_one}, {all_but_one}). The longer text is rejected with an error. In the book's class, the mask is made once, with {words} rows, so it has no row for an additional word. There is a second reason why a GPT has this limit: it learns one vector for each position up to the limit (section 2.8) and none for later positions.",
    );
    book.aside(|book| {
        let longer = concatenate![Axis(1), batch, batch.slice(s![.., ..1, ..])];
        let shorter = batch.slice(s![.., 1.., ..]);
        let is_so = ca.forward(&longer).is_err() && ca.forward(&shorter).is_ok();
        book.holds("a longer text is rejected", is_so);
    });
    book.section("3.6.1", "Stacking multiple single-head attention layers");
    // The attention of section 3.5 gives a single weight to each pair of words, so a word can look
    // for only one thing. But a verb may need information about its subject, its object and the
    // word "not" at the same time. The goal of this section is to build *multi-head attention*, in
    // which several attention modules, which are called *heads*, work side by side. Each head has
    // its own three matrices and therefore its own weights.
    //
    // Why do we use several heads instead of a single wider head? A wider head would have as many
    // parameters and take about as long to compute, but it would still assign only one weight to
    // each pair of words.
    book.listing("tests/notebooks/formulas.rs", "pub(crate) fn side_by_side(");
    // The outputs of all heads are concatenated, so the number of features in a context vector is
    // now {num_heads} x {d_out} = {features}. If the seed is the same as in In [34], the first head
    // has the same weights as the module of In [34], so its columns contain the same numbers.
    // {other_heads}
    let config = AttentionConfig {
        num_heads: book.input("num_heads", 2, 1..=64),
        ..config
    };
    let seed = book.input("seed", 123, ..);
    let mha = MultiHeadAttentionWrapper::new(config, &mut TorchRng::manual_seed(seed))?;
    let context_vecs = mha.forward(&batch)?;
    book.value("features", context_vecs.shape()[2]);
    book.aside(|book| {
        let others = match config.num_heads {
            1 => return book.value("other_heads", ""),
            2 => "second head",
            _ => "other heads",
        };
        let other = d_out + 1;
        let first = context_vecs.index_axis(Axis(0), 0);
        let apart = (&first.column(0) - &first.column(d_out)).abs();
        if apart.iter().all(|&apart| apart < 1e-4) {
            return book.value("other_heads", "");
        }
        book.value("other_heads", format!("The remaining columns come from the {others}. In the output for the first text, column 1 comes from the first head and column {other} from the second head. They contain different numbers, because each head has its own matrices. In the first row, every head gives the first word a weight of 1, so the heads can differ in this row only because their value matrices differ."));
    });
    book.aside(|book| {
        let of_ca = ca
            .forward(&batch)
            .is_ok_and(|first| first == context_vecs.slice(s![.., .., ..d_out]));
        book.holds("the first head is In [34]", of_ca);
    });
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

    // Do the heads look at different words? This cell prints the last word's weights, one row for
    // each head. {even_heads}
    let heads = mha.heads.iter().map(|head| head.attention_weights(&batch));
    let heads: Vec<_> = heads.collect::<Result<_, _>>()?;
    let of_last_word = Array2::from_shape_fn((heads.len(), words), |(head, key)| {
        heads[head][[0, words - 1, key]]
    });
    book.aside(|book| {
        says(
            book,
            "even_heads",
            near_even(&of_last_word, words) && heads.len() > 1,
            &format!("All of these weights are close to 1/{words} = {:.4}, so no head clearly prefers a word.", 1.0 / words as f32),
        );
    });
    book.yours("Weights of the last word, one row per head", &of_last_word);

    book.asks(
        "The smallest GPT-2 has 12 heads with d_out = 64. How many features does a context vector have?",
        "A context vector has 12 x 64 = 768 features, because the outputs of the heads are concatenated. In that model, a word's vector also has 768 features, so the result has the same shape as the input.",
    );
    book.section(
        "3.6.2",
        "Implementing multi-head attention with weight splits",
    );
    // Computing the heads one after another is slow, because it requires many small matrix
    // products, and a processor is most efficient with a few large ones. The smallest GPT-2 model
    // would need 12 rounds in each layer, one for each head. The goal of this section is to compute
    // all heads at once.
    //
    // A single matrix product computes the queries of all heads. This is possible because each
    // column of a product depends on only one column of the second matrix. If the matrices of all
    // heads stand side by side in one matrix, the queries of all heads stand side by side in the
    // product. Reshaping then splits the product among the heads: with `num_heads` = {split_heads}
    // and d_out = {d_out_of_all}, each head gets {head_features}. Keys and values are computed in
    // the same way. (In this section, d_out is the number of features of all heads together.)
    //
    // The last step of the module is an additional linear layer, `out_proj`. Without this layer,
    // each feature of a context vector would come from only one head. The linear layer combines the
    // features of all heads, so that every output feature can depend on the results of several
    // heads. Such a layer is customary, but the book notes that models can work without it.
    book.sketch(
        "Splitting the features among heads",
        "
x                       (b, tokens, d_in)
x @ W_query             (b, tokens, d_out)
  as heads              (b, tokens, heads, head_dim)     d_out = heads x head_dim
  heads first           (b, heads, tokens, head_dim)     keys and values likewise
scores = Q @ K^T        (b, heads, tokens, tokens)       masked, softmax, dropout
weights @ V             (b, heads, tokens, head_dim)
  tokens first          (b, tokens, heads, head_dim)
  side by side          (b, tokens, d_out)
out_proj                (b, tokens, d_out)
",
    );
    // Why is the dimension of the heads moved in front of the dimension of the tokens? A product of
    // two arrays with four dimensions multiplies the matrices that are formed by the last two
    // dimensions. Therefore, the last two dimensions must be the tokens and the features of a head.
    //
    // The class `MultiHeadAttention` of listing 3.5 performs the steps of the diagram above in the
    // same order:
    book.listing(
        "crates/attention/src/plain.rs",
        "pub struct MultiHeadAttention",
    );
    book.listing("crates/attention/src/plain.rs", "impl MultiHeadAttention {");
    // Both texts of the batch are equal, so both blocks of the output are equal. The number of
    // features in a row is {d_out_of_all}, and in In [35], it is {features}. Besides the context
    // vectors, the method `forward_plain` returns the attention weights, and a later cell prints a
    // few of them.
    let num_heads = book.input("num_heads", 2, 1..=64);
    let config = AttentionConfig {
        num_heads,
        d_out: d_out.next_multiple_of(num_heads), // all heads get equally many features
        ..config
    };
    let seed = book.input("seed", 123, ..);
    let mha = MultiHeadAttention::new(config, &mut TorchRng::manual_seed(seed))?;
    // weights: (batch, num_heads, num_tokens, num_tokens)
    let (context_vecs, weights) = mha.forward_plain(&batch, None)?;
    book.value("d_out_of_all", config.d_out);
    book.value("split_heads", num_heads);
    book.aside(|book| {
        let head_features = match config.d_out / num_heads {
            1 => "one feature".to_owned(),
            features => format!("{features} features"),
        };
        book.value("head_features", head_features);
    });
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
    book.asks(
        "Why does this result differ from that of In [35]?",
        "In section 3.6.1, d_out counts the features of one head. In this section, it counts the features of all heads, so each head computes {head_features}. In addition, this module applies the linear layer `out_proj` to the concatenated outputs. {parameter_counts}",
    );
    book.aside(|book| {
        let of_out_proj = mha.out_proj.num_parameters();
        let all = mha.num_parameters();
        let of_matrices = all - of_out_proj;
        let of_wrapper = heads.len() * 3 * d_in * d_out;
        let parameter_counts = match all == of_wrapper {
            true => format!("Both modules have {all} parameters, but in this module, {of_matrices} of them belong to the three matrices and {of_out_proj} to `out_proj`."),
            false => format!("The module of In [35] has {of_wrapper} parameters, whereas this module has {all}: {of_matrices} in its three matrices and {of_out_proj} in `out_proj`."),
        };
        book.value("parameter_counts", parameter_counts);
    });
    // Each head has its own queries and keys and therefore its own attention weights. For each
    // head, the cell prints the weight that the last word assigns to the first word.
    // {still_even}
    let last_to_first = weights.slice(s![0, .., words - 1, 0]);
    book.aside(|book| {
        says(
            book,
            "still_even",
            near_even(&last_to_first, words) && num_heads > 1,
            &format!("The weights are close to 1/{words} = {:.4}. The matrices are still random, so no head has learned yet which words it should prefer.", 1.0 / words as f32),
        );
    });
    book.yours("The last word's weight for the first word", &last_to_first);
    book.asks(
        "How different would you expect the weights of several heads to be after training?",
        "Usually clearly different. Each head starts from different random numbers, and training can make the heads look for different things. One head may then give a word nearly all of the weight, whereas another head gives the same word almost none. However, nothing forces the heads to differ, so some heads of a trained model can also be similar.",
    );
    // For training and text generation, our crate `attention` uses a faster method, whose result
    // can differ by rounding errors. This cell adds the absolute values of all differences.
    // {bit_for_bit}
    let differences = (mha.forward(&batch)? - &context_vecs).abs();
    book.aside(|book| {
        let bit_for_bit = match differences.sum() == 0.0 {
            true => "The sum is exactly 0, so both methods give the same numbers in this example, bit for bit.",
            false => "",
        };
        book.value("bit_for_bit", bit_for_bit);
    });
    book.reference(
        "The crate's faster implementation",
        &differences.sum(),
        "0.0000",
        "the expected sum is 0, because both methods compute the same numbers",
    );

    book.draws("Multi-head attention: the first head", || {
        let head = weights.slice(s![0, 0, .., ..]);
        of_words(&head, "The first head", "attention weight (rows sum to 1)")
    });
    book.draws("Multi-head attention: the last head", || {
        let head = weights.slice(s![0, -1, .., ..]);
        of_words(&head, "The last head", "attention weight (rows sum to 1)")
    });

    // Multi-head attention multiplies arrays with four dimensions. How does this work? The last two
    // dimensions form matrices, one for each combination of a text and a head. For example, one
    // text, two heads, three words and four features per head give the shape (1, 2, 3, 4), so there
    // are two matrix products.
    //
    // In this example, a single array serves as both the queries and the keys. Each of its matrices
    // is multiplied by its own transpose, so each product is symmetric. For example, the second
    // number in the first row of the output is {product_01}.
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
    book.value(
        "product_01",
        sum_of(a.slice(s![0, 0, 0, ..]), a.slice(s![0, 0, 1, ..])),
    );
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

    // Computing a separate matrix product for each head gives the same numbers. This cell computes
    // the product for the first head:
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

    // This cell computes the product for the second head:
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
    book.aside(|book| {
        let both = stack![Axis(0), first_res, second_res];
        book.holds("both heads", both == product.index_axis(Axis(0), 0));
    });
    book.asks(
        "What would be the shape of the product if the text had five words?",
        "Each product would have five rows and five columns, so the shape would end with (5, 5) instead of (3, 3). The number of products would stay the same.",
    );
    book.asks(
        "Can `MultiHeadAttention` have 4 features and 3 heads?",
        "No. The features are divided among the heads, so d_out must be a multiple of the number of heads. The class `MultiHeadAttentionWrapper` of section 3.6.1 has no such limit, because each of its heads has d_out features of its own.",
    );
    book.aside(|book| {
        let config = AttentionConfig {
            d_out: 4,
            num_heads: 3,
            ..config
        };
        let mha = MultiHeadAttention::new(config, &mut TorchRng::manual_seed(1));
        book.holds("4 features and 3 heads are rejected", mha.is_err());
    });
    // What have we built in this chapter? Each version of attention adds an idea to the previous
    // version, and all of them keep the three steps of section 3.3: score, weight and mix. Chapter
    // 4 uses the last version in every layer of a GPT.
    book.sketch(
        "The versions of attention in this chapter",
        "
section  new idea                                     result
3.3      score, weight, mix                           (tokens, d_in)
3.4      trainable queries, keys and values           (tokens, d_out)
3.5      mask of the future, dropout, batches         (b, tokens, d_out)
3.6.1    several heads side by side                   (b, tokens, heads x d_out)
3.6.2    all heads at once, out_proj                  (b, tokens, d_out)
",
    );
    Ok(())
}

/// Returns the indices of the word with the largest score and the word with the second largest
/// score.
fn two_largest(scores: &ArrayRef1<f32>) -> [usize; 2] {
    let mut words: Vec<usize> = (0..scores.len()).collect();
    words.sort_by(|&one, &other| scores[other].total_cmp(&scores[one]));
    [words[0], words[1]]
}

/// Returns the indices of the words whose score equals `score`, up to rounding errors.
fn words_with(scores: &ArrayRef1<f32>, score: f32) -> Vec<usize> {
    let is_equal = |other: f32| (other - score).abs() <= 1e-6 * score.abs().max(1.0);
    (0..scores.len())
        .filter(|&word| is_equal(scores[word]))
        .collect()
}

/// Joins the quoted names of words with commas, or with "and" if there are two of them.
fn quoted(words: &[usize]) -> String {
    if let [one, other] = words {
        return format!("\"{}\" and \"{}\"", name_of(*one), name_of(*other));
    }
    listed(words.iter().map(|&word| format!("\"{}\"", name_of(word))))
}

/// Checks a sentence of the prose with [`Notebook::holds`] and records it under the name `name`,
/// which serves as a placeholder in the prose. If the sentence isn't true, records an empty string
/// instead, so that the prose doesn't contain the sentence.
#[track_caller]
fn says(book: &mut Notebook, name: &str, is_true: bool, sentence: &str) {
    book.holds(sentence, is_true);
    book.value(name, if is_true { sentence } else { "" });
}

/// Returns the smallest and the largest element of an array.
fn range<D: Dimension>(values: &ArrayRef<f32, D>) -> [f32; 2] {
    let smallest = values.fold(f32::INFINITY, |smallest, &value| smallest.min(value));
    let largest = values.fold(f32::NEG_INFINITY, |largest, &value| largest.max(value));
    [smallest, largest]
}

/// Returns whether all weights of a text with `words` words are close to the weight that each word
/// would have if all weights were equal.
fn near_even<D: Dimension>(weights: &ArrayRef<f32, D>, words: usize) -> bool {
    let even = 1.0 / words as f32;
    range(weights)
        .iter()
        .all(|weight| (weight - even).abs() < 0.25 * even)
}

/// Joins the items with commas. If there are more than eight items, the result contains only the
/// first eight, followed by three dots.
fn listed(items: impl ExactSizeIterator<Item = String>) -> String {
    let more = if items.len() > 8 { ", ..." } else { "" };
    items.take(8).collect::<Vec<_>>().join(", ") + more
}

/// Draws the upper left corners of three matrices that belong to a text with `words` words: the
/// attention scores, the masked scores, and the attention weights. In the drawing, `s` stands for a
/// score, and `w` stands for a weight.
fn masking(words: usize) -> String {
    let more = if words > 4 { " ..." } else { "" };
    let row = |query: usize| {
        let draw = |[seen, masked]: [&str; 2]| {
            let cell = |key| if key > query { masked } else { seen };
            let cells: String = (0..words.min(4))
                .map(|key| format!("{:>5}", cell(key)))
                .collect();
            cells + more
        };
        let weight = if query == 0 { "1" } else { "w" };
        let arrow = if query == 1 { " -->" } else { "    " };
        [["s", "s"], ["s", "-inf"], [weight, "0"]]
            .map(draw)
            .join(arrow)
    };
    (0..words.min(3)).map(row).collect::<Vec<_>>().join("\n")
}

/// Rounds a number to four decimals.
fn rounded(number: f64) -> f64 {
    (number * 1e4).round() / 1e4
}

/// Formats a dot product with its terms and its result, such as `0.43 · 0.55 + 0.15 · 0.87 =
/// 0.3670`. If the numbers as shown give a different result, because they are rounded, the equals
/// sign is replaced with `≈`. If the vectors have more than six elements, only the first six
/// products are shown, followed by an ellipsis.
fn sum_of(one: ArrayView1<f32>, other: ArrayView1<f32>) -> String {
    let factors = one.iter().zip(other);
    let is_small = |number: f64| number != 0.0 && number.abs() < 0.001;
    let factor = |number: &f32| match f64::from(*number) {
        number if is_small(number) => number,
        number => rounded(number),
    };
    let factors: Vec<[f64; 2]> = factors.map(|(a, b)| [a, b].map(factor)).collect();
    let shown = |number: f64| match (number * 100.0).round() / 100.0 == number {
        _ if is_small(number) => format!("{number:.4e}"),
        true => number.to_string(),
        false => format!("{number:.4}"),
    };
    let products = factors.iter().take(6);
    let products = products.map(|factors| factors.map(shown).join(" · "));
    let sum = products.collect::<Vec<_>>().join(" + ");
    let more = if one.len() > 6 { " + …" } else { "" };
    let result = one.dot(&other);
    let exact: f64 = factors.iter().map(|[a, b]| a * b).sum();
    let is_exact = (exact - rounded(f64::from(result))).abs() < 1e-9;
    let sign = if is_exact { "=" } else { "≈" };
    format!("{sum}{more} {sign} {result:.4}")
}

/// Returns the attention scores of 1,000 random queries in an array of shape (1000, 10). Each row
/// contains the dot products of one query with ten random keys, which are different for each query.
/// The queries and keys have `d_k` features.
fn random_scores(d_k: usize) -> Array2<f32> {
    let mut rng = TorchRng::manual_seed(123);
    let mut scores = Array2::zeros((1000, 10));
    for mut scores in scores.rows_mut() {
        let query = Array1::from(rng.randn(d_k));
        for score in &mut scores {
            *score = query.dot(&Array1::from(rng.randn(d_k)));
        }
    }
    scores
}

/// Returns the root mean square of the scores, which measures their typical size.
fn typical_size(scores: &Array2<f32>) -> f32 {
    scores.pow2().mean().unwrap_or(0.0).sqrt()
}

/// Applies softmax to each row of `scores`, which contains the scores of one query. Returns the
/// largest attention weight of a row, averaged over all rows.
fn largest_weight(scores: &Array2<f32>) -> f32 {
    let weights = softmax(scores, Axis(1));
    let largest = weights.map_axis(Axis(1), |weights| weights.fold(0.0, |a: f32, &b| a.max(b)));
    largest.mean().unwrap_or(0.0)
}

const SIX_WORDS: [&str; 6] = ["Your", "journey", "starts", "with", "one", "step"];

/// Returns the name by which the prose refers to a word of the example text. This is the word with
/// the index `word` in [`SIX_WORDS`], or a numbered name, such as `word 7`, if the index is larger
/// than 5.
fn name_of(word: usize) -> String {
    let numbered = || format!("word {}", word + 1);
    SIX_WORDS
        .get(word)
        .map_or_else(numbered, |&name| name.to_owned())
}

/// Returns a heat map of a matrix that has a row for each query word and a column for each key
/// word.
fn of_words(values: &ArrayRef2<f32>, title: &str, unit: &str) -> Picture {
    let words: Vec<String> = (0..values.nrows()).map(name_of).collect();
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
