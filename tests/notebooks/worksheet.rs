//! Rust port of a course's worksheet on attention. The results are compared with the output in the
//! worksheet. The worksheet contains concept questions, matrix products, four exercises, and a bad
//! language model, which has no causal mask and isn't trained.

use std::panic::{catch_unwind, set_hook, take_hook};

use anyhow::{Result, anyhow};
use attention::{SelfAttentionV1, SelfAttentionV2, WeightInit, scaled_softmax};
use dataloader::{DataLoaderConfig, create_dataloader_v1};
use generate::greedy_id;
use gpt::{BadLm, BadLmConfig};
use ndarray::{Array, Array2, ArrayD, Axis, Dimension, Ix2, Ix3, IxDyn, RemoveAxis, array, s};
use tensor_ops::{Embedding, Linear, matmul};
use tokenizer::Gpt2Tokenizer;
use torch_rng::TorchRng;

use crate::Notebook;

pub(crate) fn run(book: &mut Notebook) -> Result<()> {
    book.opens(
        "This worksheet from a course covers attention: matrix products by hand, queries, keys and values, attention modules, batches, and a very bad language model.",
        "section 3.4.",
        15,
    );
    book.part(products);
    book.part(products_that_do_not_exist);
    book.part(more_products);
    book.part(attention);
    book.part(larger_exercises);
    Ok(())
}

fn products(book: &mut Notebook) -> Result<()> {
    book.section("concepts", "Concept Questions");
    // The first question asks for a dot product, and the second question asks for the shapes of
    // five matrix products. A matrix of shape (a, b) can be multiplied by a matrix of shape (c, d)
    // if b = c. In that case, the product has the shape (a, d).

    // The dot product of (1, 2, 3) and (4, 5, 6) is 1 · 4 + 2 · 5 + 3 · 6.
    let dot = matmul(&array![[1.0, 2.0, 3.0]], &array![[4.0], [5.0], [6.0]]); // (1, 1)
    book.prints("1", &dot[[0, 0]], "32");
    // A matrix of shape (8, 5) can be multiplied by a matrix of shape (5, 7), because the inner
    // dimensions are equal: both are 5.
    book.shape("2a", &product([8, 5], [5, 7])?, &[8, 7]);
    Ok(())
}

fn products_that_do_not_exist(book: &mut Notebook) -> Result<()> {
    book.not_in_a_page()?;
    // The next two matrix products aren't defined, because the inner dimensions of the two matrices
    // differ. They are 6 and 3 for the first product, and 8 and 2 for the second product.
    book.refuses("2b", product([8, 6], [3, 4]), "can't be multiplied");
    // ...
    book.refuses("2c", product([8, 8], [2, 8]), "can't be multiplied");
    Ok(())
}

fn more_products(book: &mut Notebook) -> Result<()> {
    // The last two matrix products are defined, because the inner dimensions of the two matrices
    // are equal in both cases.
    book.shape("2d", &product([2, 8], [8, 8])?, &[2, 8]);
    // ...
    book.shape("2e", &product([4, 6], [6, 4])?, &[4, 4]);
    Ok(())
}

fn attention(book: &mut Notebook) -> Result<()> {
    book.section("attention", "Attention");
    // For the first matrix product in this section, the worksheet specifies the numbers in the
    // matrices. For the other products, it asks only for the shapes of the results, so our matrices
    // contain zeros.
    let a = array![[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]; // 2x3
    let b = array![[3.0], [4.0], [1.0]]; // 3x1
    let c = matmul(&a, &b); // 2x1
    book.prints("In [8]", &c, "tensor([[14],\n        [38]])");
    let (d, e) = (Array2::zeros((40, 75)), Array2::zeros((75, 25)));
    let f = matmul(&d, &e); // 40x25
    book.shape("In [8]", &f, &[40, 25]);
    let g = Array2::zeros((25, 83));
    let h = matmul(&matmul(&d, &e), &g);
    book.shape("In [8]", &h, &[40, 83]);
    let (m1, m2) = (Array2::zeros((35, 50)), Array2::<f32>::zeros((35, 50)));
    let m3 = matmul(&m1, &m2.t());
    book.shape("In [8]", &m3, &[35, 35]);

    // In the original worksheet, this cell doesn't set a seed, so its output depends on which cells
    // drew random numbers before it. The output shown in the worksheet is the result of running
    // cell In [29] first and then this cell twice.
    let mut rng = TorchRng::manual_seed(123);
    for size in [6, 6, 6, 20] {
        rng.randn(size);
    }
    rng.rand(20);
    let normal = randn(Ix2(4, 5), &mut rng);
    let uniform = Array2::from_shape_vec((4, 5), rng.rand(20))?;
    book.prints(
        "In [27]",
        &normal,
        "\
tensor([[ 1.0720e+00,  1.5026e+00, -8.1899e-01,  2.6860e-01, -9.4053e-01],
        [-4.6806e-01,  1.0322e+00, -2.8300e-01,  4.9275e-01, -1.4078e-02],
        [-2.7466e-01, -7.6409e-01,  1.3966e+00, -9.9491e-01, -1.5822e-03],
        [ 1.2471e+00, -7.7105e-02,  1.2774e+00, -1.4596e+00, -2.1595e+00]])",
    );
    book.prints(
        "In [27]",
        &uniform,
        "\
tensor([[0.6397, 0.8954, 0.2979, 0.6314, 0.5028],
        [0.1239, 0.3786, 0.1661, 0.7211, 0.5449],
        [0.5490, 0.3483, 0.5024, 0.3445, 0.6437],
        [0.9856, 0.5757, 0.2785, 0.1946, 0.5382]])",
    );

    // Each of the {words:w} words in the example is a row of `x`. Multiplying `x` by three random
    // weight matrices produces the queries, keys and values. From the queries and keys, the cell
    // computes the attention scores and then the attention weights. The scores are divided by the
    // square root of d_out. This keeps softmax from assigning nearly all of the weight to a single
    // word (section 3.4.1).
    let six_words = array![
        [0.43, 0.15, 0.89],
        [0.55, 0.87, 0.66],
        [0.57, 0.85, 0.64],
        [0.22, 0.58, 0.33],
        [0.77, 0.25, 0.10],
        [0.05, 0.80, 0.55],
    ];
    let x = book.input("x", six_words, 4..=120); // (n, d_in)
    book.value("words", x.nrows());
    let (d_in, d_out) = (x.ncols(), 2);
    let mut rng = TorchRng::manual_seed(book.input("seed", 123, ..));
    let w_q = randn(Ix2(d_in, d_out), &mut rng);
    let w_k = randn(Ix2(d_in, d_out), &mut rng);
    let w_v = randn(Ix2(d_in, d_out), &mut rng);
    let q = matmul(&x, &w_q); // (n, d_out)
    let k = matmul(&x, &w_k);
    let v = matmul(&x, &w_v);
    book.prints(
        "In [29]",
        &q,
        "\
tensor([[-1.1686,  0.2019],
        [-1.1729, -0.0048],
        [-1.1438, -0.0018],
        [-0.6339, -0.0439],
        [-0.2979,  0.0535],
        [-0.9596, -0.0712]])",
    );
    book.prints(
        "In [29]",
        &k,
        "\
tensor([[-0.1823, -0.6888],
        [-0.1142, -0.7676],
        [-0.1443, -0.7728],
        [ 0.0434, -0.3580],
        [-0.6467, -0.6476],
        [ 0.3262, -0.3395]])",
    );
    book.prints(
        "In [29]",
        &v,
        "\
tensor([[ 0.1196, -0.3566],
        [ 0.4107,  0.6274],
        [ 0.4091,  0.6390],
        [ 0.2436,  0.4182],
        [ 0.2653,  0.6668],
        [ 0.2728,  0.3242]])",
    );
    let qkt = matmul(&q, &k.t()); // (n, n)
    book.prints(
        "In [29]",
        &qkt,
        "\
tensor([[ 0.0740, -0.0216,  0.0126, -0.1230,  0.6250, -0.4498],
        [ 0.2172,  0.1376,  0.1730, -0.0491,  0.7616, -0.3809],
        [ 0.2098,  0.1320,  0.1665, -0.0489,  0.7408, -0.3725],
        [ 0.1458,  0.1061,  0.1254, -0.0118,  0.4384, -0.1919],
        [ 0.0175, -0.0071,  0.0017, -0.0321,  0.1580, -0.1153],
        [ 0.2240,  0.1642,  0.1935, -0.0161,  0.6667, -0.2888]])",
    );
    let a = scaled_softmax(&qkt, d_out);
    book.reference(
        "In [29]",
        &a,
        "\
tensor([[0.1687, 0.1576, 0.1615, 0.1467, 0.2490, 0.1165],
        [0.1704, 0.1611, 0.1652, 0.1412, 0.2505, 0.1117],
        [0.1704, 0.1613, 0.1653, 0.1419, 0.2481, 0.1129],
        [0.1704, 0.1656, 0.1679, 0.1524, 0.2095, 0.1342],
        [0.1680, 0.1651, 0.1661, 0.1622, 0.1856, 0.1529],
        [0.1711, 0.1640, 0.1675, 0.1444, 0.2340, 0.1191]])",
        "the document's output ends at the first bracket, so the expected values were computed in plain Python",
    );
    book.reference(
        "In [29]",
        &a.row(0).sum(),
        "1.0000",
        "the expected value is in a comment of the document's cell",
    );

    book.section("ex1", "Exercise 1: an attention module");
    // Task: write an attention module that performs the steps of cell In [29] and returns the
    // context vectors.

    // Solution: the attention module draws its weight matrices in the same order as cell In [29].
    // With the same seed, the module therefore has the same weights and computes the same context
    // vectors, bit for bit.
    let context_vector = matmul(&a, &v);
    let seed = book.input("seed", 123, ..);
    let self_attention =
        SelfAttentionV1::new(d_in, 2, WeightInit::Randn, &mut TorchRng::manual_seed(seed));
    book.prints(
        "In [31]",
        &self_attention.forward(&x)?,
        "\
tensor([[0.2845, 0.4071],
        [0.2854, 0.4081],
        [0.2854, 0.4075],
        [0.2864, 0.3974],
        [0.2863, 0.3910],
        [0.2860, 0.4039]])",
    );
    book.agrees("In [31]", &context_vector, &self_attention.forward(&x)?);

    book.section("ex2", "Exercise 2: the same with nn.Linear");
    // Task: find out which shapes of arrays `nn.Linear(10, 20)` accepts.

    // Solution: `nn.Linear(10, 20)` accepts any array whose last dimension is 10. The last
    // dimension of the result is 20, and all other dimensions are unchanged.
    let linear_layer = Linear::new(10, 20, true, &mut TorchRng::manual_seed(123));
    let zeros = |shape: &[usize]| ArrayD::zeros(IxDyn(shape));
    book.shape("In [33]", &linear_layer.forward(&zeros(&[10])), &[20]);
    book.shape("In [33]", &linear_layer.forward(&zeros(&[8, 10])), &[8, 20]);
    book.shape(
        "In [33]",
        &linear_layer.forward(&zeros(&[2, 4, 10])),
        &[2, 4, 20],
    );
    let h = linear_layer.forward(&zeros(&[5, 5, 5, 5, 5, 5, 10]));
    book.shape("In [33]", &h, &[5, 5, 5, 5, 5, 5, 20]);
    Ok(())
}

fn larger_exercises(book: &mut Notebook) -> Result<()> {
    book.section("ex3", "Exercise 3: a batch of 40 context windows");
    book.not_in_a_page()?;
    // Task: extend the attention module so that it can process a batch of 40 texts, each of which
    // has 50 words with 768 features per word. The module should also accept smaller batches.

    // Solution: `forward` operates on the last two dimensions of its input, so it accepts a batch
    // of any size. As a check, we process the first 28 texts in a separate batch. Their context
    // vectors must be the same as in the batch of 40 texts.
    let mut rng = TorchRng::manual_seed(123);
    let x_batch = randn(Ix3(40, 50, 768), &mut rng);
    let self_attention = SelfAttentionV2::new(768, 1024, true, &mut rng);
    let context_batch = self_attention.forward(&x_batch)?;
    book.shape("In [49]", &context_batch, &[40, 50, 1024]);
    let x_batch_2 = x_batch.slice(s![..28, .., ..]);
    let context_batch_2 = self_attention.forward(&x_batch_2)?;
    book.shape("In [49]", &context_batch_2, &[28, 50, 1024]);
    let first_28 = context_batch.slice(s![..28, .., ..]);
    book.agrees("In [49]", &first_28, &context_batch_2);

    book.section("ex4", "Exercise 4: from text to context vectors");
    // Task: turn a sentence into context vectors. First, convert the sentence to token ids and
    // divide the ids into windows of four tokens. Then compute the embeddings of the tokens and of
    // their positions, and apply attention.

    // Solution: the sentence has 13 ids. A window has four inputs and four targets. The targets are
    // shifted by one token, so each window needs five tokens. With a stride of 1, a window begins
    // at each token that is followed by at least four other tokens, which gives 9 windows.
    let my_text = "I am currently taking a class about learning how to build LLMs";
    let config = DataLoaderConfig {
        batch_size: 2,
        max_length: 4,
        stride: 1,
        shuffle: true,
        drop_last: true,
    };
    let loader = create_dataloader_v1(my_text, &Gpt2Tokenizer::new(), config)?;
    book.reference(
        "windows",
        &loader.dataset().len(),
        "9",
        "the expected number is 9, because the text has 13 ids and each window takes 4 inputs and one more id as its last target",
    );
    // Each batch contains two windows. The ninth window is left out, because it doesn't fill a
    // batch. The context vectors form an array with 4 batches, 2 windows per batch, 4 tokens per
    // window, and 1,024 features per token.
    let (vocab_size, context_length) = (50257, 4);
    let mut rng = TorchRng::manual_seed(123);
    let token_embs = Embedding::new(vocab_size, 768, &mut rng);
    let pos_embs = Embedding::new(context_length, 768, &mut rng);
    let model = SelfAttentionV2::new(768, 1024, true, &mut rng);
    let mut context_embs = Vec::new();
    for batch in loader.epoch(&mut rng) {
        let embedding = token_embs.forward(&batch?.input_ids) + &pos_embs.weight;
        context_embs.push(model.forward(&embedding)?); // (batch, num_tokens, att_dim)
    }
    drop(token_embs);
    book.shape("In [55]", &stacked(&context_embs)?, &[4, 2, 4, 1024]);

    book.section("bad-lm", "Building a bad minimal language model");
    // An attention module is already a language model if it is followed by a linear layer that
    // computes a logit for each token of the vocabulary. This model is a bad one, because it has no
    // causal mask and isn't trained. The cell uses it to predict the next token at each position in
    // eight windows.
    let sizes = BadLmConfig {
        context_length: 4,
        vocab_size,
        emb_dim: 768,
        att_dim: 1024,
    };
    let model = BadLm::new(sizes, &mut TorchRng::manual_seed(123))?;
    let mut predictions = Vec::new();
    for batch in loader.epoch(&mut TorchRng::manual_seed(123)) {
        let output = model.forward(&batch?.input_ids)?; // (batch, num_tokens, vocab_size)
        let tokens: Result<Vec<u32>, _> = output
            .lanes(Axis(2))
            .into_iter()
            .map(|lane| greedy_id(&lane))
            .collect();
        predictions.push(Array2::from_shape_vec((2, 4), tokens?)?);
    }
    book.shape("In [61]", &stacked(&predictions)?, &[4, 2, 4]);
    book.leaves_out(
        "In [61]",
        32,
        "the model's weights and the order of the windows are random and have no seed",
    );
    Ok(())
}

/// Returns the product of two matrices of zeros that have the shapes `a` and `b`. The notebook uses
/// it to show which shapes can be multiplied. Returns an error if the first matrix doesn't have as
/// many columns as the second matrix has rows. In this case, `matmul` panics, and this function
/// catches the panic.
fn product(a: [usize; 2], b: [usize; 2]) -> Result<Array2<f32>> {
    let hook = take_hook();
    set_hook(Box::new(|_| {})); // the panic is expected, so its message is suppressed
    let product = catch_unwind(|| matmul(&Array2::zeros(a), &Array2::zeros(b)));
    set_hook(hook);
    product.map_err(|_| {
        anyhow!("a matrix of shape {a:?} can't be multiplied by a matrix of shape {b:?}")
    })
}

/// Returns an array of the given shape, filled with normal samples (random numbers with mean 0 and
/// standard deviation 1), like `torch.randn(shape)`.
fn randn<D: Dimension>(shape: D, rng: &mut TorchRng) -> Array<f32, D> {
    let numbers = rng.randn(shape.size());
    Array::from_shape_vec(shape, numbers).expect("as many numbers as the shape has places")
}

/// Stacks arrays of the same shape, one for each batch of an epoch, along a new first axis. For
/// example, 4 arrays of shape (2, 4) become one array of shape (4, 2, 4).
fn stacked<A: Clone, D: RemoveAxis>(batches: &[Array<A, D>]) -> Result<Array<A, D::Larger>>
where
    D::Larger: RemoveAxis,
{
    let views: Vec<_> = batches.iter().map(|batch| batch.view()).collect();
    Ok(ndarray::stack(Axis(0), &views)?)
}
