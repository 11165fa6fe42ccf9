//! Translation of ch04.ipynb, which builds a GPT model from its parts, and of gpt.py, which
//! contains the code of the whole chapter in one file.
//!
//! Cells are numbered as in revision 28c65cd of the book's repository.

use anyhow::Result;
use generate::generate_text_simple;
use gpt::{
    DummyGptModel, ExampleDeepNeuralNetwork, FeedForward, GptConfig, GptModel, LayerNorm,
    TransformerBlock,
};
use ndarray::{Array1, Array2, Array3, Axis, array, s, stack};
use pictures::{Chart, Line, PLAIN, chart};
use tensor_ops::{Linear, Parameters, gelu, gelu_backward, relu, relu_backward};
use tokenizer::{Gpt2Tokenizer, text_to_token_ids, token_ids_to_text};
use torch_rng::{Build, TorchRng};

use crate::{Lines, Notebook};

pub(crate) fn run(book: &mut Notebook) -> Result<()> {
    book.opens(
        "A GPT combines the attention of chapter 3 with two simple parts, normalization and a small network, and repeats this combination twelve times. This chapter builds the parts, puts them together, counts the parameters, and generates text with the untrained model.",
        "chapters 2 and 3.",
        55,
    );
    book.part(architecture);
    book.part(normalization_and_feed_forward);
    book.part(shortcut_connections);
    book.part(transformer_block);
    let model = book.part(whole_model);
    book.part(size_of_the_model);
    let encoded = book.part(beginning_of_a_sentence);
    if let (Some(model), Some(encoded)) = (model, encoded) {
        book.part(|book| generating_text(book, &model, encoded));
    }
    book.part(on_windows_and_linux);
    Ok(())
}

fn architecture(book: &mut Notebook) -> Result<()> {
    book.section("4.1", "Coding an LLM architecture");
    // A GPT predicts the next token of a text. The goal of this section is to get an overview of
    // the whole model before the following sections build its parts. We start with a model that
    // can't do anything useful yet, because it already runs and its shapes show how the parts fit
    // together. Each of the following sections then builds a part that replaces a placeholder.
    //
    // A model's sizes and rates are called its *configuration*. The book uses the following
    // configuration for the smallest GPT-2 model:
    //
    // - `vocab_size` = {vocab_size}, the number of tokens that the tokenizer knows;
    // - `context_length` = {context_length}, the largest number of tokens that the model can
    //   process at once;
    // - `emb_dim` = {emb_dim}, the number of features in a token's vector;
    // - `n_layers` = {n_layers}, the number of *transformer blocks*, which are the repeated parts
    //   of the model;
    // - `n_heads` = {n_heads}, the number of attention heads in each block;
    // - `drop_rate` = {drop_rate}, the probability with which dropout sets a number to 0 during
    //   training, so that the model overfits less (section 3.5.2);
    // - `qkv_bias` = {qkv_bias}, which means that no *bias*, a vector of learned numbers, is added
    //   to the queries, keys and values. Many newer models leave it out, too, because they work as
    //   well without it. (OpenAI's GPT-2 has these biases, so they are needed to use OpenAI's
    //   weights.)
    book.aside(|book| {
        let config = GptConfig::GPT2_124M;
        book.value("vocab_size", config.vocab_size);
        book.value("context_length", config.context_length);
        book.value("emb_dim", config.emb_dim);
        book.value("n_heads", config.n_heads);
        book.value("n_layers", config.n_layers);
        book.value("drop_rate", config.drop_rates.emb);
        book.value("qkv_bias", config.qkv_bias);
        book.value("head_dim", config.emb_dim / config.n_heads);
        book.value("hidden_dim", config.feed_forward_dim());
    });
    book.sketch(
        "The model, with shapes (b texts of t tokens)",
        "
ids (b, t)
 |  token embedding ({vocab_size}, {emb_dim}) + positional embedding ({context_length}, {emb_dim}), dropout
 v
x (b, t, {emb_dim})
 |
 |   +--------------------------- x {n_layers} ---------------------------+
 +-->| LayerNorm, attention ({n_heads} heads of {head_dim}), dropout, + shortcut |
     | LayerNorm, {emb_dim} -> {hidden_dim} -> GELU -> {emb_dim}, dropout, + shortcut |
     +------------------------------------------------------------+
 v
LayerNorm (b, t, {emb_dim})
 |  output layer ({vocab_size}, {emb_dim})
 v
logits (b, t, {vocab_size})
",
    );
    // The model first adds two embeddings, because it needs to know which token stands at a
    // position and which position it is (section 2.8). Each of the {n_heads} heads computes vectors
    // of {head_dim} features. Side by side, these vectors have {n_heads} x {head_dim} = {emb_dim}
    // features again, so the output of the attention has the same shape as its input.

    // The input of a GPT is a batch of token ids. The batch in this cell contains two texts of four
    // tokens each, and section 4.6 uses it again.
    let tokenizer = Gpt2Tokenizer::new();
    let txt1 = "Every effort moves you";
    let txt2 = "Every day holds a";
    let mut batch = tokenizer.encode(txt1)?;
    batch.extend(tokenizer.encode(txt2)?);
    let batch = Array2::from_shape_vec((2, 4), batch)?;
    book.prints(
        "In [4]",
        &batch,
        "tensor([[6109, 3626, 6100,  345],
        [6109, 1110, 6622,  257]])",
    );

    book.not_in_a_page()?;
    // At each position, the model outputs a number for every token of the vocabulary. Such a number
    // is called a *logit*. The larger a token's logit is, the more strongly the model expects this
    // token to come next. (Section 5.1.2 turns logits into probabilities.) In this section, the
    // model has placeholders instead of transformer blocks and normalization layers. Although the
    // placeholders return their inputs unchanged, the output already has the right shape: two
    // texts, four positions and {vocab_size:,} logits.
    //
    // In this cell, dropout is active because the book's model is still in training mode. A last
    // digit can differ from the book's output, because the two programs round differently.
    let mut rng = TorchRng::manual_seed(123);
    let model = DummyGptModel::new(GptConfig::GPT2_124M, &mut rng)?;
    let logits = model.forward(&batch, Some(&mut rng))?;
    book.shape("In [5]", &logits, &[2, 4, 50257]);
    book.prints(
        "In [5]",
        &logits,
        "tensor([[[-1.2034,  0.3201, -0.7130,  ..., -1.5548, -0.2390, -0.4667],
         [-0.1192,  0.4539, -0.4432,  ...,  0.2392,  1.3469,  1.2430],
         [ 0.5307,  1.6720, -0.4695,  ...,  1.1966,  0.0111,  0.5835],
         [ 0.0139,  1.6754, -0.3388,  ...,  1.1586, -0.0435, -1.0400]],

        [[-1.0908,  0.1798, -0.9484,  ..., -1.6047,  0.2439, -0.4530],
         [-0.7860,  0.5581, -0.0610,  ...,  0.4835, -0.0077,  1.6621],
         [ 0.3567,  1.2698, -0.6398,  ..., -0.0162, -0.1296,  0.3717],
         [-0.2407, -0.7349, -0.5102,  ...,  2.0057, -0.3694,  0.1814]]],
       grad_fn=<UnsafeViewBackward0>)",
    );

    book.aside(|book| {
        let without_dropout = model.forward(&batch, None);
        let is_so =
            without_dropout.is_ok_and(|it| it.slice(s![0, 0, ..]) == it.slice(s![1, 0, ..]));
        let is_so = is_so && logits.slice(s![0, 0, ..]) != logits.slice(s![1, 0, ..]);
        book.holds("only dropout makes the first rows differ", is_so);
    });
    book.asks(
        "Both texts begin with the token 6109, so the first position of both texts has the same input. Why do the first rows of the two blocks in the output differ?",
        "They differ because of dropout, which sets different numbers to 0 in the two texts. Without dropout, the two rows are equal. In the other rows, the tokens of the two texts differ as well.",
    );
    // The listing shows the whole model. In `forward`, the placeholders for the transformer blocks
    // and for the last normalization layer stand in the same places as in the sketch above.
    book.listing("crates/gpt/src/dummy.rs", "pub struct DummyGptModel");
    book.listing("crates/gpt/src/dummy.rs", "impl DummyGptModel");
    book.asks(
        "The logits have the shape (2, 4, 50257). Which of these numbers does text generation use?",
        "The logits at the last position of each text, because they predict the token that follows the text. Training uses the logits at all four positions, because the correct next token is known for each of them.",
    );
    Ok(())
}

fn normalization_and_feed_forward(book: &mut Notebook) -> Result<()> {
    book.section("4.2", "Normalizing activations with layer normalization");
    // In a network with many layers, the *activations*, which are the numbers that a layer
    // computes, can grow or shrink from layer to layer. The gradients then grow or shrink as well,
    // which makes training slow or unstable. *Layer normalization* prevents this by giving each
    // token's features a mean of 0 and a variance of 1. This section normalizes features step by
    // step.
    //
    // Why are the mean and the variance computed for each token instead of for the whole batch? If
    // each token has its own mean and variance, the result for a token doesn't depend on the other
    // texts in the batch or on later tokens in the same text. The model therefore computes the same
    // result for a text, whether it processes many texts during training or generates a single one.

    // First, we need some activations to normalize. We get them by applying a small linear layer to
    // two rows of five random numbers. The layer is followed by *ReLU*, a function that replaces
    // negative numbers with 0.
    let mut rng = TorchRng::manual_seed(book.input("seed", 123, ..));
    let batch_example = Array2::from_shape_vec((2, 5), rng.randn(2 * 5))?;
    let layer = Linear::new(5, 6, true, &mut rng);
    let out = relu(&layer.forward(&batch_example));
    book.prints(
        "In [6]",
        &out,
        "tensor([[0.2260, 0.3470, 0.0000, 0.2216, 0.0000, 0.0000],
        [0.2133, 0.2394, 0.0000, 0.5198, 0.3297, 0.0000]],
       grad_fn=<ReluBackward0>)",
    );

    // The two rows of activations have means of {mean_1:.2} and {mean_2:.2}, and variances of
    // {var_1:.3} and {var_2:.3}. The variance is roughly the mean of the n squared distances of the
    // numbers from their mean. Like PyTorch's `var`, the code divides their sum by n - 1 instead of
    // n.
    let mean_of = |x: &Array2<f32>| x.sum_axis(Axis(1)).insert_axis(Axis(1)) / x.ncols() as f32;
    let var_of = |x: &Array2<f32>, ddof| x.var_axis(Axis(1), ddof).insert_axis(Axis(1));
    let mean = mean_of(&out);
    let var = var_of(&out, 1.0);
    book.aside(|book| {
        for row in 0..2 {
            book.value(&format!("mean_{}", row + 1), mean[[row, 0]]);
            book.value(&format!("var_{}", row + 1), var[[row, 0]]);
        }
    });
    book.prints(
        "In [7]",
        &mean,
        "tensor([[0.1324],
        [0.2170]], grad_fn=<MeanBackward1>)",
    );
    book.prints(
        "In [7]",
        &var,
        "tensor([[0.0231],
        [0.0398]], grad_fn=<VarBackward0>)",
    );

    // Next, we subtract each row's mean from the numbers in the row and divide the differences by
    // the square root of the row's variance. Apart from rounding errors, which can differ from
    // those of the book, each row now has a mean of 0 and a variance of 1. (If all numbers of a row
    // are equal, their variance is 0, and dividing by 0 gives NaN.)
    //
    // {of_zeros}
    let out_norm = (&out - &mean) / var.sqrt();
    book.aside(|book| {
        // The sentences are about the first row that contains zeros and other numbers.
        let with_zeros = (0..2).find_map(|row| {
            let zeros: Vec<usize> = (0..6).filter(|&at| out[[row, at]] == 0.0).collect();
            (1..6).contains(&zeros.len()).then_some((row, zeros))
        });
        let of_zeros = with_zeros.map_or(String::new(), |(row, zeros)| {
            let which = ["first", "second"][row];
            let they = match zeros.len() {
                1 => "the only zero has".to_owned(),
                2 => "both zeros have".to_owned(),
                n => format!("all {} zeros have", ["three", "four", "five"][n - 3]),
            };
            let became = out_norm[[row, zeros[0]]];
            format!("Compare the zeros of In [6] with this output. In the {which} row, {they} become {became:.4}, because 0 is below the row's mean.")
        });
        book.value("of_zeros", of_zeros);
    });
    book.prints(
        "In [8]",
        &out_norm,
        "tensor([[ 0.6159,  1.4126, -0.8719,  0.5872, -0.8719, -0.8719],
        [-0.0189,  0.1121, -1.0876,  1.5173,  0.5647, -1.0876]],
       grad_fn=<DivBackward0>)",
    );
    let mean = mean_of(&out_norm);
    let var = var_of(&out_norm, 1.0);
    book.prints(
        "In [8]",
        &mean,
        "tensor([[-5.9605e-08],
        [ 1.9868e-08]], grad_fn=<MeanBackward1>)",
    );
    book.prints(
        "In [8]",
        &var,
        "tensor([[1.0000],
        [1.0000]], grad_fn=<VarBackward0>)",
    );

    // The normalization layer of a GPT performs the same computation, with three differences:
    //
    // - As in GPT-2, the variance is computed by dividing by n instead of n - 1. For 768 features,
    //   this makes the variance only 767/768 = 0.9987 times as large, but GPT-2's weights were
    //   trained with this variance.
    // - A small number, *epsilon* = {eps}, is added to the variance so that a row of equal numbers
    //   doesn't cause a division by 0.
    // - Each normalized feature is multiplied by a *scale*, and a *shift* is added to the product.
    //   Both are parameters. The scale starts at 1 and the shift at 0, and training can change them
    //   if a different range of numbers works better for a feature.
    book.listing(
        "crates/tensor-ops/src/layer_norm.rs",
        "pub struct LayerNorm",
    );
    book.listing("crates/gpt/src/plain.rs", "pub fn layer_norm<");
    // The listing shows the computation in its simplest form. The cells of this chapter call
    // methods such as `LayerNorm::forward`, which compute the same results faster.
    //
    // This cell prints the mean and the variance of each row of the normalization layer's output.
    // (It divides by n, as the layer does.) The book's notebook prints numbers without an exponent
    // from here on, so its tiny means look like -0.0000. {of_epsilon}
    let ln = LayerNorm::new(6);
    let out_ln = ln.forward(&out);
    let mean = mean_of(&out_ln);
    let var = var_of(&out_ln, 0.0);
    book.aside(|book| {
        let before = var_of(&out, 0.0)[[0, 0]];
        book.value("eps", format!("{:.5}", ln.eps));
        let by_hand = before / (before + ln.eps);
        book.holds(
            "epsilon gives the variance",
            (by_hand - var[[0, 0]]).abs() < 1e-5,
        );
        let hundredfold = var_of(&ln.forward(&(&out * 100.0)), 0.0)[[0, 0]];
        let (eps, after) = (ln.eps, var[[0, 0]]);
        let of_epsilon = format!("Because of epsilon, the first row's variance is {after:.4} instead of 1: it was {before:.5} before the normalization, and {before:.5} / ({before:.5} + {eps:.5}) = {after:.4}.");
        let of_hundredfold = format!("The only difference is that epsilon has less effect: the variance of the normalized first row is now {hundredfold:.4} instead of {after:.4}.");
        // The sentences about the variance are shown only if the difference is visible in four
        // digits, and if the printed digits of the variance before the normalization give the
        // printed result. If all numbers of the first row are equal, for example, its variance is
        // 0.
        let printed = (before * 1e5).round() / 1e5;
        let [after, of_printed] = [after, printed / (printed + eps)].map(|x| format!("{x:.4}"));
        let applies = before > 1e-4 && after != "1.0000" && after == of_printed;
        book.value("of_epsilon", if applies { &of_epsilon } else { "" });
        book.value("of_hundredfold", if applies { &of_hundredfold } else { "" });
    });
    book.prints(
        "In [12]",
        &mean,
        "tensor([[-0.0000],
        [-0.0000]], grad_fn=<MeanBackward1>)",
    );
    book.prints(
        "In [12]",
        &var,
        "tensor([[0.9995],
        [0.9997]], grad_fn=<VarBackward0>)",
    );

    book.asks(
        "A row is multiplied by 100 before the normalization. How does the result change?",
        "The result hardly changes at all. The row's mean and its standard deviation, which is the square root of the variance, also become 100 times as large, so the factor cancels out. {of_hundredfold} This is the purpose of layer normalization. However large its inputs are, the next layer gets numbers of about the same size.",
    );
    book.section(
        "4.3",
        "Implementing a feed forward network with GELU activations",
    );
    // Attention moves information between tokens, but it can only mix their vectors: with attention
    // alone, a block could hardly do more than compute weighted means of the tokens' value vectors
    // (section 3.4). The *feed-forward network* then processes each token's vector separately and
    // computes new features from the information that attention has collected. About two thirds of
    // the parameters of a GPT-2 block are in this network (section 4.6).
    //
    // This section builds a feed-forward network. It consists of two linear layers and, between
    // them, an *activation function*, which is applied to each number separately.
    //
    // Why do GPT models use the activation function *GELU* instead of ReLU? Models with GELU
    // performed better in experiments, and its derivative is a likely reason. The derivative of
    // ReLU is 0 for all negative numbers. If an output of the first linear layer is negative for
    // every token, the weights that compute this output get a gradient of 0 and stop learning. GELU
    // is smooth, and its derivative is 0 at only one negative number (about -0.75), although it is
    // tiny for very negative numbers. (For inputs below about -5, it is practically 0.) These
    // weights therefore still get a gradient and can learn.
    book.listing("crates/gpt/src/plain.rs", "pub fn gelu<");
    // GELU multiplies x by the probability that a random number with a standard normal distribution
    // is smaller than x. For a large x, this probability is almost 1, and for a very negative x, it
    // is almost 0. The listing approximates the probability with tanh, because GPT-2 was trained
    // with this approximation.
    //
    // Compare ReLU with GELU in the rows of the table in which x is negative. At x = -1, both ReLU
    // and its derivative are 0, whereas GELU is {gelu:.3} and its derivative is {d_gelu:.3}. GELU
    // has its lowest point at about x = -0.75, so its derivative is negative to the left of this
    // point.
    let x = array![-3.0, -1.0, -0.5, 0.0, 0.5, 1.0, 3.0];
    let one = Array1::ones(x.len());
    let [of_relu, of_gelu] = [relu(&x), gelu(&x)];
    let d_relu = relu_backward(&x, one.clone()); // the derivative at each x
    let d_gelu = gelu_backward(&x, one);
    let mut lines = vec!["   x     ReLU     GELU    ReLU'    GELU'".to_owned()];
    for i in 0..x.len() {
        let [x, relu, gelu, d_relu, d_gelu] = [x[i], of_relu[i], of_gelu[i], d_relu[i], d_gelu[i]];
        lines.push(format!(
            "{x:4} {relu:8.3} {gelu:8.3} {d_relu:8.3} {d_gelu:8.3}"
        ));
    }
    book.value("gelu", of_gelu[1]);
    book.value("d_gelu", d_gelu[1]);
    book.holds("ReLU is 0 at -1", [of_relu[1], d_relu[1]] == [0.0, 0.0]);
    book.aside(|book| {
        let slopes = gelu_backward(&array![-0.8, -0.7], Array1::ones(2));
        book.holds("GELU turns at -0.75", slopes[0] < 0.0 && slopes[1] > 0.0);
        let tiny = gelu_backward(&array![-4.0, -6.0], Array1::ones(2));
        book.holds(
            "tiny slopes are practically 0",
            tiny[0] != 0.0 && tiny[1].abs() < 1e-6,
        );
    });
    book.yours("ReLU and GELU", &lines.join("\n"));
    book.draws("GELU and ReLU, with their derivatives", || {
        let x = Array1::linspace(-3.0, 3.0, 241);
        let one = Array1::ones(x.len());
        let line = |name: &str, y: Array1<f32>, dashed| Line {
            name: name.to_owned(),
            points: points(&x, &y),
            dashed,
            ..Line::default()
        };
        let lines = vec![
            line("GELU", gelu(&x), false),
            line("ReLU", relu(&x), false),
            line("GELU's derivative", gelu_backward(&x, one.clone()), true),
            line("ReLU's derivative", relu_backward(&x, one.clone()), true),
        ];
        let activations = Chart {
            title: "Activation functions",
            x: "x",
            y: "f(x), f'(x)",
            lines,
            log_y: false,
        };
        chart(&activations, PLAIN)
    });
    // The input of the feed-forward network is a token's vector. The cell prints its number of
    // features, which is that of the smallest GPT-2 model unless you change the field:
    let config = GptConfig {
        emb_dim: book.input("emb_dim", 768, 1..=768),
        n_heads: 1, // not used in this cell
        ..GptConfig::GPT2_124M
    };
    book.prints("In [16]", &config.emb_dim, "768");

    // The first linear layer turns the {emb_dim} features of a token into four times as many
    // *hidden features* ({hidden}). GELU is applied to each of them, and the second linear layer
    // turns them back into {emb_dim} features, so the output has the same shape as the input. A
    // hidden feature becomes large if the token's vector matches a certain pattern, and it then
    // contributes to the output. Because there are many hidden features, the network can respond to
    // many patterns. (The factor of four is a choice of the original transformer that GPT-2 kept.)
    //
    // The output shows only that the shape is unchanged: two texts, three tokens and {emb_dim}
    // features. The listing below the output shows the network: `expand`, GELU and `contract`.
    let ffn = FeedForward::new(config, &mut rng)?;
    let x = rng.rand(2 * 3 * config.emb_dim);
    let x = Array3::from_shape_vec((2, 3, config.emb_dim), x)?;
    let out = ffn.forward(&x);
    book.value("hidden", config.feed_forward_dim());
    book.aside(|book| {
        let product = |rng: &mut TorchRng| Array2::from_shape_vec((9, 9), rng.randn(81));
        let matrices = [1, 2, 3].map(|seed| product(&mut TorchRng::manual_seed(seed)));
        let [Ok(x), Ok(one), Ok(two)] = matrices else {
            return;
        };
        let apart = (x.dot(&one).dot(&two) - x.dot(&one.dot(&two))).abs().sum();
        book.holds("two products are one", apart < 0.01);
    });
    book.shape("In [17]", &out, &[2, 3, 768]);
    book.listing("crates/gpt/src/plain.rs", "pub struct FeedForward");
    book.listing("crates/gpt/src/plain.rs", "impl FeedForward");
    book.asks(
        "Can two linear layers without GELU between them compute anything that one layer can't?",
        "No. Because (x A) B equals x (A B), multiplying by two matrices in a row is the same as multiplying by the single matrix A B. The biases of the two layers together act like a single bias, too. Two layers can compute more than one layer only because GELU, which isn't linear, is between them.",
    );
    Ok(())
}

fn shortcut_connections(book: &mut Notebook) -> Result<()> {
    book.section("4.4", "Adding shortcut connections");
    // Networks with many layers are hard to train because of their *gradients*. A weight's gradient
    // says how fast the loss, which measures the model's error, changes if the weight changes a
    // little. With gradient descent (section 5.2), a weight whose gradient is almost 0 hardly
    // changes, so it learns almost nothing. The gradient of a weight in the first layer is a
    // product that contains a factor for each of the following layers. If most of these factors are
    // smaller than 1, the product is close to 0, which is called a *vanishing* gradient.
    //
    // A *shortcut connection* adds a layer's input to its output. As a result, the factor f of such
    // a layer becomes 1 + f. If f is close to 0, then 1 + f is close to 1, so factors close to 0 no
    // longer make the product small. (A layer with several features has a matrix instead of the
    // number f, but the idea is the same.) The goal of this section is to compare the gradients of
    // a network with and without shortcut connections.
    book.listing("tests/notebooks/formulas.rs", "pub(crate) fn deep_network(");

    // The first network has {n_layers:w} small layers and no shortcut connections. The loss is the
    // square of the difference between the network's output and the target 0. The cell prints the
    // mean absolute gradient of each layer's weights. (The field allows at most 12 layers. Without
    // normalization, a much deeper network with shortcuts has gradients that are huge for some
    // seeds and 0 for others.)
    //
    // Read the means from the last layer to the first. {of_steps} In the first layer, the mean is
    // {share_without} times as large as in the last layer.
    let n_layers = book.input("n_layers", 5, 2..=12);
    let layer_sizes = [vec![3; n_layers], vec![1]].concat();
    let sample_input = array![[1.0, 0.0, -1.0]];
    let target = array![[0.0]];
    let seed = book.input("seed", 123, ..);
    let mut rng = TorchRng::manual_seed(seed);
    let model_without_shortcut = ExampleDeepNeuralNetwork::new(&layer_sizes, false, &mut rng)?;
    let gradients = model_without_shortcut.mean_absolute_gradients(&sample_input, &target);
    let (_, without_shortcut): (Vec<String>, Vec<f32>) = gradients.into_iter().unzip();
    book.prints(
        "In [19]",
        &by_layer(&without_shortcut),
        "\
layers.0.0.weight has gradient mean of 0.00020173587836325169
layers.1.0.weight has gradient mean of 0.00012011159560643137
layers.2.0.weight has gradient mean of 0.0007152039906941354
layers.3.0.weight has gradient mean of 0.0013988736318424344
layers.4.0.weight has gradient mean of 0.005049645435065031",
    );

    // The second network has the same weights, but each layer except the last has a shortcut
    // connection. (The last layer has three inputs and one output, which can't be added.) In the
    // first layer, the mean absolute gradient is {share_with} times as large as in the last layer,
    // and {times_larger} times as large as it was without shortcuts.
    rng.reseed(seed);
    let model_with_shortcut = ExampleDeepNeuralNetwork::new(&layer_sizes, true, &mut rng)?;
    let gradients = model_with_shortcut.mean_absolute_gradients(&sample_input, &target);
    let (_, gradients): (Vec<String>, Vec<f32>) = gradients.into_iter().unzip();
    book.prints(
        "In [20]",
        &by_layer(&gradients),
        "\
layers.0.0.weight has gradient mean of 0.22169792652130127
layers.1.0.weight has gradient mean of 0.20694106817245483
layers.2.0.weight has gradient mean of 0.32896995544433594
layers.3.0.weight has gradient mean of 0.2665732204914093
layers.4.0.weight has gradient mean of 1.3258540630340576",
    );

    book.aside(|book| {
        let share = |gradients: &[f32]| significant(gradients[0] / gradients[n_layers - 1]);
        book.value("share_without", share(&without_shortcut));
        book.value("share_with", share(&gradients));
        let times_larger = significant(gradients[0] / without_shortcut[0]);
        book.value("times_larger", times_larger);
        // Layers whose mean isn't smaller than that of the following layer.
        let pairs = without_shortcut.windows(2).enumerate();
        let larger: Vec<usize> = pairs.filter(|(_, it)| it[0] >= it[1]).map(|it| it.0).collect();
        let of_steps = match larger[..] {
            [] => "They become smaller from each layer to the one before it.".to_owned(),
            [at] if n_layers > 2 => format!("They become smaller from each layer to the one before it, with one exception: the mean of layers.{at} isn't smaller than that of layers.{}.", at + 1),
            _ => String::new(),
        };
        book.value("of_steps", of_steps);
    });
    book.draws("Gradients with and without shortcuts", || {
        let layers: Array1<f32> = (0..n_layers as u16).map(f32::from).collect();
        let line = |name: &str, gradients: &[f32]| Line {
            name: name.to_owned(),
            points: points(&layers, &gradients.to_vec().into()),
            ..Line::default()
        };
        let by_layer = Chart {
            title: "Mean absolute gradient by layer",
            x: "layer (0 is the input's)",
            y: "mean |gradient| of the weights",
            lines: vec![
                line("with shortcuts", &gradients),
                line("without", &without_shortcut),
            ],
            log_y: true,
        };
        chart(&by_layer, PLAIN)
    });
    // A single network proves little, because a different seed gives different weights and
    // gradients. We therefore look at the median, over 500 networks with different seeds, of the
    // first layer's mean absolute gradient.
    book.asks(
        "If the network has ten layers instead of five, does the first layer's gradient change more with shortcuts or without them?",
        "It changes more without shortcuts: its median over 500 networks falls to 1/{smaller:,}. With shortcuts, the median only goes from {with_5:.4} to {with_10:.4}.",
    );
    // The table shows these medians. In each column, compare the median of five layers with that of
    // ten layers.
    let mut lines = vec!["layers    without shortcuts    with shortcuts".to_owned()];
    let mut medians = Vec::new();
    for n_layers in [5, 10] {
        let [without, with] = [false, true].map(|it| median_gradient(n_layers, it));
        medians.push([without?, with?]);
    }
    for (n_layers, [without, with]) in [5, 10].iter().zip(&medians) {
        lines.push(format!("{n_layers:6} {without:20.1e} {with:17.4}"));
    }
    book.aside(|book| {
        let [[without_5, with_5], [without_10, with_10]] = [medians[0], medians[1]];
        book.value("with_5", with_5);
        book.value("with_10", with_10);
        book.value("smaller", (without_5 / without_10).round());
        let is_so = without_5 > 100.0 * without_10 && (0.5..2.0).contains(&(with_10 / with_5));
        book.holds("the gradient without shortcuts changes more", is_so);
    });
    book.yours("medians of 500 networks", &lines.join("\n"));
    book.asks(
        "In the network of In [20], the first layer's gradient is {times_larger} times as large as without shortcuts. Is this factor typical of networks with {n_layers:w} layers?",
        "{of_factor} The factor depends strongly on the seed.",
    );
    book.aside(|book| {
        let of_both = [false, true].map(|it| first_layer_gradients(n_layers, it));
        let [Ok(without), Ok(with)] = of_both else {
            return;
        };
        let mut factors: Vec<f32> = with.iter().zip(&without).map(|(a, b)| a / b).collect();
        factors.sort_by(f32::total_cmp);
        let factor = gradients[0] / without_shortcut[0];
        let as_large = factors.iter().filter(|&&it| it >= factor).count();
        let median = significant(factors[250]);
        book.value("of_factor", format!("In 500 pairs of networks with different seeds, the median factor is {median}. (It is a median of quotients, not the quotient of two medians in the table.) In {as_large} of the pairs, the factor is at least as large as the one in In [20]."));
        let is_so = factor > 5.0 * factors[250] && factors[450] > 100.0 * factors[50];
        book.holds("this factor is unusually large, and factors vary", is_so);
    });
    Ok(())
}

fn transformer_block(book: &mut Notebook) -> Result<()> {
    book.section(
        "4.5",
        "Connecting attention and linear layers in a transformer block",
    );
    // Now we put the parts together into a *transformer block*. The block is the unit that a GPT
    // repeats. A single block can combine only what the tokens' first vectors contain. The next
    // block works on its results, so it can find more complex relations. In the smallest GPT-2
    // model, the twelve blocks differ only in their weights.
    //
    // A block has two halves, attention and a feed-forward network. Each half is preceded by a
    // normalization layer and bypassed by a shortcut connection:
    //
    // - x = x + attention(norm(x)): each token collects information from itself and from earlier
    //   tokens.
    // - x = x + feed_forward(norm(x)): the network processes the information that each token has
    //   collected.
    //
    // During training, dropout is applied to the result of each half before the addition.
    //
    // Because of the shortcuts, a block doesn't have to compute a token's vector from scratch, but
    // only learns what to add to the vector. The vectors pass along the shortcuts from the first
    // block to the last block, and each half of a block reads them and adds its result to them.
    // This flow of vectors is called the *residual stream*.
    //
    // Why does the normalization come before each half of the block and not after the addition?
    // With this order, the path along the shortcuts contains only additions, so a gradient passes
    // along it unchanged from the last block to the first. The original transformer of 2017
    // normalized the vectors after each addition, and it was harder to train.

    // The transformer block in this cell takes a batch of two texts with four tokens each, where
    // each token is a vector of {emb_dim} features, and returns an array of the same shape.
    let mut rng = TorchRng::manual_seed(123);
    let emb_dim = book.input("emb_dim", 768, 4..=768);
    let x = Array3::from_shape_vec((2, 4, emb_dim), rng.rand(2 * 4 * emb_dim))?;
    let config = GptConfig {
        emb_dim,
        n_heads: book.input("n_heads", 12, 1..=64),
        ..GptConfig::GPT2_124M
    };
    let block = TransformerBlock::new(config, &mut rng)?;
    let output = block.forward(&x)?;
    book.shape("In [22]", &output, &[2, 4, 768]);
    book.listing("crates/gpt/src/plain.rs", "pub struct TransformerBlock");
    book.listing("crates/gpt/src/plain.rs", "impl TransformerBlock");
    book.asks(
        "Suppose that the second token's input vector changes. For which tokens does the output of the feed-forward network change? And for which tokens does the output of the whole block change?",
        "In the feed-forward network, only the second token's output changes, because the network processes each token separately. In the block, the outputs of all later tokens change as well, because attention lets them see the second token. The first token's output stays the same, because the causal mask hides later tokens from it.",
    );
    // This experiment replaces the second token's vector with the vector of a different token. In
    // the output, each column belongs to a token, and each number is the sum of the absolute
    // changes of the token's {emb_dim} features. The first row is for the feed-forward network
    // alone, which changes only the second token's result. The second row is for the whole block.
    // In this row, the third and fourth tokens change because attention reads the second token.
    // {of_shortcuts}
    let mut changed_x = x.clone();
    let of_other_text = x.slice(s![1, 1, ..]);
    changed_x.slice_mut(s![0, 1, ..]).assign(&of_other_text);
    let change = |one: Array3<f32>, other: Array3<f32>| {
        (one - other).abs().sum_axis(Axis(2)).row(0).to_owned()
    };
    let of_network = change(block.ff.forward(&changed_x), block.ff.forward(&x));
    let of_block = change(block.forward(&changed_x)?, output.clone());
    book.aside(|book| {
        let changes = |change: &Array1<f32>| change.map(|&change| change > 1e-3).to_vec();
        book.holds(
            "the network changes one token",
            changes(&of_network) == [false, true, false, false],
        );
        book.holds(
            "the block changes later tokens",
            changes(&of_block) == [false, true, true, true],
        );
        let of_x = change(changed_x.clone(), x.clone())[1];
        let is_so = of_block[1] > of_block[2].max(of_block[3]) && 2.0 * of_x > of_block[1];
        let of_shortcuts = format!("The second token changes most, mainly because the shortcuts pass its vector on to the output: the old and the new vector already differ by {of_x:.1}.");
        book.value("of_shortcuts", if is_so { &of_shortcuts } else { "" });
        book.holds("the shortcuts make the second token change most", is_so);
    });
    book.yours(
        "which tokens change",
        &stack![Axis(0), of_network, of_block],
    );
    book.asks(
        "A block's output has the same shape as its input. Why does this matter?",
        "Because the shapes are the same, the output of one block can be the input of the next one, so any number of blocks can be stacked. The four GPT-2 models have different numbers of blocks: the smallest model has a dozen, and the largest has 48.",
    );
    Ok(())
}

fn whole_model(book: &mut Notebook) -> Result<GptModel> {
    book.section("4.6", "Coding the GPT model");
    // The goal of this section is to build the whole model that section 4.1 sketched, with real
    // transformer blocks instead of placeholders. The model consists of two embedding layers,
    // twelve transformer blocks, a final normalization layer, and a linear layer that computes the
    // logits. Section 4.7 generates text with this model, and chapter 5 measures and trains such
    // models. This section also counts the parameters, because their number decides how much memory
    // and time the model needs.
    book.aside(|book| {
        let size = GptConfig::GPT2_124M.size().unwrap_or_default();
        let total = size.total() as f64;
        let blocks = (size.n_layers * (size.attention + size.feed_forward + size.norms)) as f64;
        let tables = (size.tok_emb + size.out_head) as f64;
        book.value("total", total / 1e6);
        book.value("in_blocks", blocks / 1e6);
        book.value("share_of_blocks", blocks / total);
        book.value("in_tables", tables / 1e6);
        book.value("share_of_tables", tables / total);
        let in_matrices = (4 * 768 * 768 + 2 * 768 * 3072) as f64;
        book.value("in_matrices", in_matrices / 1e6);
        book.value("in_all_matrices", 12.0 * in_matrices / 1e6);
        let others = (size.attention + size.feed_forward) as f64 - in_matrices;
        book.holds(
            "most of a block is matrices",
            (0.0..0.01 * in_matrices).contains(&others),
        );
        book.value("one_table", size.out_head as f64 / 1e6);
        let share = size.feed_forward as f64 / (size.feed_forward + size.attention) as f64;
        book.holds("two thirds", (share - 2.0 / 3.0).abs() < 0.01);
    });
    book.not_in_a_page()?;
    // For the two texts of In [4], the model computes logits of the same shape as in section 4.1.
    // The numbers differ from In [5], because real blocks have replaced the placeholders. The model
    // is untrained, so its logits don't mean anything yet. As in section 4.1, dropout is active.
    let mut rng = TorchRng::manual_seed(123);
    let model = GptModel::new(GptConfig::GPT2_124M, &mut rng)?;
    let batch = array![[6109, 3626, 6100, 345], [6109, 1110, 6622, 257]];
    let (out, _) = model.forward_train(&batch, &mut rng)?; // with dropout
    book.shape("In [24]", &out, &[2, 4, 50257]);
    book.prints(
        "In [24]",
        &out,
        "tensor([[[ 0.3613,  0.4222, -0.0711,  ...,  0.3483,  0.4661, -0.2838],
         [-0.1792, -0.5660, -0.9485,  ...,  0.0477,  0.5181, -0.3168],
         [ 0.7120,  0.0332,  0.1085,  ...,  0.1018, -0.4327, -0.2553],
         [-1.0076,  0.3418, -0.1190,  ...,  0.7195,  0.4023,  0.0532]],

        [[-0.2564,  0.0900,  0.0335,  ...,  0.2659,  0.4454, -0.6806],
         [ 0.1230,  0.3653, -0.2074,  ...,  0.7705,  0.2710,  0.2246],
         [ 1.0558,  1.0318, -0.2800,  ...,  0.6936,  0.3205, -0.3178],
         [-0.1565,  0.3926,  0.3288,  ...,  1.2630, -0.1858,  0.0388]]],
       grad_fn=<UnsafeViewBackward0>)",
    );

    // Compare `forward_plain` in the listing with the sketch of section 4.1. The steps stand in the
    // same order.
    book.listing("crates/gpt/src/plain.rs", "pub struct GptModel");
    book.listing("crates/gpt/src/plain.rs", "impl GptModel");
    // How many parameters does the model have? It has more than the 124 million in the name of its
    // configuration, `GPT2_124M`. The following cells show why.
    let total_params = model.num_parameters();
    book.prints(
        "In [25]",
        &total_params,
        "Total number of parameters: 163,009,536",
    );

    // The weights of the token embedding and of the output layer have the same shape, with a row
    // for each token. In the token embedding, a token's row is the vector with which the model
    // starts. In the output layer, the logit of a token is the dot product of its row and the final
    // vector of a position. Both rows describe the same token, so the original GPT-2 uses a single
    // weight matrix for both layers, which is called *weight tying*.
    book.shape("In [26]", &model.tok_emb.weight, &[50257, 768]);
    let out_head = model
        .out_head
        .as_ref()
        .expect("the book's head is not tied");
    book.shape("In [26]", &out_head.weight, &[50257, 768]);

    // If the model uses a single matrix for the token embedding and the output layer, it has
    // {one_table:.1} million fewer parameters, which leaves the 124 million in its name. Weight
    // tying saves memory, but each row then has two jobs. The book's author found it easier to
    // train the model with separate matrices.
    let total_params_gpt2 = total_params - out_head.num_parameters();
    book.prints(
        "In [27]",
        &total_params_gpt2,
        "Number of trainable parameters considering weight tying: 124,412,160",
    );

    // The number of parameters can also be computed from the configuration alone, without creating
    // the model. With d features, the attention of a block has four matrices of d x d weights, and
    // the feed-forward network has two of d x 4d. In this model, these are {in_matrices:.1} million
    // weights in each block and {in_all_matrices:.0} million in all blocks. With the other parts,
    // which the table below lists, the result agrees with the counts above:
    let size = GptConfig::GPT2_124M.size()?;
    book.agrees("from the configuration", &size.total(), &total_params);
    book.agrees(
        "from the configuration",
        &size.without_out_head(),
        &total_params_gpt2,
    );
    book.asks(
        "Where are most of the model's {total:,} million parameters: in the transformer blocks, or in the token embedding and the output layer together?",
        "Most of them are in the twelve blocks, which have {in_blocks:.1} million parameters ({share_of_blocks:%}). The token embedding and the output layer together have {in_tables:.1} million ({share_of_tables:%}).",
    );
    Ok(model)
}

fn size_of_the_model(book: &mut Notebook) -> Result<()> {
    // The table shows how many parameters each part of the model has, and what percentage of all
    // parameters this is:
    let size = GptConfig::GPT2_124M.size()?;
    let of_blocks = |of_block: usize| size.n_layers * of_block;
    let mut lines = Vec::new();
    for (part, count) in [
        ("token embedding", size.tok_emb),
        ("positional embedding", size.pos_emb),
        ("attention of all blocks", of_blocks(size.attention)),
        (
            "feed-forward networks of all blocks",
            of_blocks(size.feed_forward),
        ),
        ("normalizations", of_blocks(size.norms) + size.final_norm),
        ("output layer", size.out_head),
    ] {
        let percentage = 100.0 * count as f64 / size.total() as f64;
        lines.push(format!("{part:<36} {count:>10} {percentage:5.1}%"));
    }
    book.yours("by part", &lines.join("\n"));

    book.asks(
        "Which model needs more memory: one with twice as many blocks, or one whose vectors have twice as many features? Guess, then try both in the fields of the next cell.",
        "The model with twice as many features needs more memory. Most of its matrices have twice as many rows and twice as many columns, and therefore four times as many numbers. It has {wider:.0} million parameters, whereas the model with twice as many blocks has only {deeper:.0} million.",
    );
    book.aside(|book| {
        let config = GptConfig::GPT2_124M;
        let deeper = GptConfig {
            n_layers: 2 * config.n_layers,
            ..config
        };
        let wider = GptConfig {
            emb_dim: 2 * config.emb_dim,
            ..config
        };
        let [deeper, wider] =
            [deeper, wider].map(|it| it.size().unwrap_or_default().total() as f64 / 1e6);
        book.value("deeper", deeper);
        book.value("wider", wider);
        book.holds("wider is larger", wider > deeper);
    });
    // How much memory do the model's parameters need? Each parameter takes four bytes. As in the
    // book, a megabyte means 1,024 x 1,024 bytes.
    let config = GptConfig {
        emb_dim: book.input("emb_dim", 768, 1..=1600),
        n_layers: book.input("n_layers", 12, 1..=48),
        n_heads: 1, // not used in this cell
        ..GptConfig::GPT2_124M
    };
    let size = config.size()?;
    book.prints(
        "In [28]",
        &size.mebibytes(),
        "Total size of the model: 621.83 MB",
    );
    book.value("in_training", 4.0 * size.mebibytes());
    book.asks(
        "Training stores three more numbers for each parameter: its gradient and two means that the optimizer keeps (section 5.2). How much memory does training the model in the cell above need?",
        "It needs four times as much memory, {in_training:,} MB. In addition, training has to keep the activations of all layers until the backward pass has used them.",
    );
    Ok(())
}

fn beginning_of_a_sentence(book: &mut Notebook) -> Result<Array2<u32>> {
    book.section("4.7", "Generating text");
    // A model that predicts the next token can also generate text: the predicted token is appended
    // to the text, the model predicts the next token from the longer text, and so on. The goal of
    // this section is to write this loop. The loop always chooses the token with the largest logit,
    // which is called *greedy decoding*.

    // The model continues a given text, which is called the *prompt*. Because the model takes
    // batches, the ids of the prompt form a batch with a single row.
    let prompt = book.input("prompt", "Hello, I am".to_owned(), 1..=500);
    let tokenizer = Gpt2Tokenizer::new();
    let encoded = text_to_token_ids(&prompt, &tokenizer)?;
    book.prints("In [30]", &encoded.row(0), "encoded: [15496, 11, 314, 716]");
    book.shape("In [30]", &encoded, &[1, 4]);
    Ok(encoded)
}

fn generating_text(book: &mut Notebook, model: &GptModel, encoded: Array2<u32>) -> Result<()> {
    // The loop that generates text runs once for each new token. Each time, the model computes the
    // logits for the whole text, and the id with the largest logit at the last position is appended
    // to the text. (The listing chooses the id with the largest probability, which is the same id,
    // because softmax preserves the order of the logits.)
    //
    // Why does the loop use only the last position? The logits at the earlier positions predict
    // tokens that are already in the text. Why does it append one token at a time? The prediction
    // of each token depends on all tokens before it, including the token that was just appended.
    // And why does the listing cut off all but the last `context_size` tokens? The positional
    // embedding has only 1,024 rows, so the model can't process longer texts.
    book.listing(
        "crates/generate/src/book.rs",
        "pub fn generate_text_simple(",
    );
    // The output begins with the ids of the prompt, which In [30] printed. The remaining ids were
    // generated by the model. The last number is the length: {n_prompt} ids of the prompt and
    // {max_new_tokens} new ones.
    let context_size = GptConfig::GPT2_124M.context_length;
    let max_new_tokens = book.input("max_new_tokens", 6, 1..=50);
    let out = generate_text_simple(model, encoded.clone(), max_new_tokens, context_size)?;
    book.prints(
        "In [31]",
        &out,
        "Output: tensor([[15496,    11,   314,   716, 27018, 24086, 47843, 30961, 42348,  7267]])",
    );
    book.prints("In [31]", &out.ncols(), "Output length: 10");
    book.aside(|book| {
        // The model sees at most the last `context_size` tokens.
        let lengths = (encoded.ncols()..out.ncols()).map(|length| length.min(context_size));
        book.value("n_prompt", encoded.ncols().min(context_size));
        book.value("longest", (out.ncols() - 1).min(context_size));
        book.value("processed", lengths.sum::<usize>());
    });
    book.asks(
        "In the first step, the model processes the prompt. In each further step, it processes the text again, with one more token. How many tokens does it process in all steps together?",
        "The model processes {n_prompt} tokens in the first step and {longest} in the last step. The sum of all lengths is {processed}, although the number of new tokens is only {max_new_tokens}. Practical programs avoid this repetition: they store the keys and values of earlier tokens in a *KV cache*.",
    );

    // The generated text is nonsense because the model's weights are random. The weights come from
    // the book's seed, so the model generates the same nonsense from the book's prompt as in the
    // book.
    let tokenizer = Gpt2Tokenizer::new();
    let decoded_text = token_ids_to_text(&out, &tokenizer)?;
    book.prints(
        "In [32]",
        &decoded_text,
        "Hello, I am Featureiman Byeswickattribute argue",
    );
    book.asks(
        "Will the model generate a different text in a second run? If not, what would have to change?",
        "No. Dropout is switched off, and greedy decoding always chooses the most probable token, so nothing is random. With a different seed, the model would have different weights and would therefore generate a different text. Section 5.3 draws the tokens at random, which also gives different texts.",
    );

    book.section("gpt.py", "The chapter in one file");
    // The book's file gpt.py contains the code of chapters 2 to 4 that the model needs, so that the
    // model can be used without the notebooks. It creates the model with the same seed as section
    // 4.6 and generates ten tokens. Compare the ids with In [31]: both outputs begin with the same
    // ids, because the weights and the prompt are the same and nothing in greedy decoding is
    // random. The length is now {n_prompt} + 10.
    let out = generate_text_simple(model, encoded, 10, context_size)?;
    book.prints(
        "gpt.py",
        &out,
        "Output: tensor([[15496,    11,   314,   716, 27018, 24086, 47843, 30961, 42348,  7267,
         49706, 43231, 47062, 34657]])",
    );
    book.prints("gpt.py", &out.ncols(), "Output length: 14");
    let decoded_text = token_ids_to_text(&out, &tokenizer)?;
    book.prints(
        "gpt.py",
        &decoded_text,
        "Hello, I am Featureiman Byeswickattribute argue logger Normandy Compton analogous",
    );
    Ok(())
}

fn on_windows_and_linux(book: &mut Notebook) -> Result<()> {
    book.section("windows", "The output of section 4.1 on Windows and Linux");
    book.not_in_a_page()?;
    // If you run the book's notebook on Windows or Linux, section 4.1 may print these logits
    // instead of those in In [5]. Nothing is wrong: the weights are the same, but some builds of
    // PyTorch draw the random numbers for dropout differently. Compare the two outputs. They have
    // the same shape, and only the numbers differ. You needn't change anything, because the next
    // sections don't use these numbers.
    let mut rng = TorchRng::manual_seed(123);
    let model = DummyGptModel::new(GptConfig::GPT2_124M, &mut rng)?;
    let batch = array![[6109, 3626, 6100, 345], [6109, 1110, 6622, 257]];
    let mut mkl = rng.with_build(Build::Mkl);
    let logits = model.forward(&batch, Some(&mut mkl))?;
    book.shape("In [5] on Windows or Linux", &logits, &[2, 4, 50257]);
    book.prints(
        "In [5] on Windows or Linux",
        &logits,
        "tensor([[[-0.9289,  0.2748, -0.7557,  ..., -1.6070,  0.2702, -0.5888],
         [-0.4476,  0.1726,  0.5354,  ..., -0.3932,  1.5285,  0.8557],
         [ 0.5680,  1.6053, -0.2155,  ...,  1.1624,  0.1380,  0.7425],
         [ 0.0447,  2.4787, -0.8843,  ...,  1.3219, -0.0864, -0.5856]],

        [[-1.5474, -0.0542, -1.0571,  ..., -1.8061, -0.4494, -0.6747],
         [-0.8422,  0.8243, -0.1098,  ..., -0.1434,  0.2079,  1.2046],
         [ 0.1355,  1.1858, -0.1453,  ...,  0.0869, -0.1590,  0.1552],
         [ 0.1666, -0.8138,  0.2307,  ...,  2.5035, -0.3055, -0.3083]]],
       grad_fn=<UnsafeViewBackward0>)",
    );
    Ok(())
}

/// Creates 500 networks with different seeds and returns the mean absolute gradient of each
/// network's first layer, in the order of the seeds.
fn first_layer_gradients(n_layers: usize, use_shortcut: bool) -> Result<Vec<f32>> {
    let layer_sizes = [vec![3; n_layers], vec![1]].concat();
    let mut gradients = Vec::new();
    for seed in 0..500 {
        let mut rng = TorchRng::manual_seed(seed);
        let network = ExampleDeepNeuralNetwork::new(&layer_sizes, use_shortcut, &mut rng)?;
        let of_layers = network.mean_absolute_gradients(&array![[1.0, 0.0, -1.0]], &array![[0.0]]);
        gradients.push(of_layers[0].1);
    }
    Ok(gradients)
}

/// Returns the median of the results of [`first_layer_gradients`].
fn median_gradient(n_layers: usize, use_shortcut: bool) -> Result<f32> {
    let mut gradients = first_layer_gradients(n_layers, use_shortcut)?;
    gradients.sort_by(f32::total_cmp);
    Ok(gradients[gradients.len() / 2])
}

/// Formats the ratio of two numbers with at least two significant digits.
pub(crate) fn significant(ratio: f32) -> String {
    match ratio {
        0.0 => "0".to_owned(),
        ..1.0 => {
            let zeros = -ratio.log10().floor();
            format!("{ratio:.*}", zeros as usize + 1)
        }
        ..10.0 => format!("{ratio:.2}"),
        ..1e3 => format!("{ratio:.0}"),
        ..1e6 => {
            let whole = ratio.round() as u32;
            format!("{},{:03}", whole / 1000, whole % 1000)
        }
        _ => "more than a million".to_owned(),
    }
}

/// Returns the mean absolute gradients of all layers, with one line of text for each layer, as the
/// book prints them.
fn by_layer(gradients: &[f32]) -> Lines<f32> {
    Lines::new(gradients.to_vec(), |layer, gradient| {
        format!("layers.{layer}.0.weight has gradient mean of {gradient:?}")
    })
}

/// Returns the points (x, y) of a line in a chart.
fn points(x: &Array1<f32>, y: &Array1<f32>) -> Vec<(f64, f64)> {
    let pairs = x.iter().zip(y);
    pairs.map(|(&x, &y)| (f64::from(x), f64::from(y))).collect()
}
