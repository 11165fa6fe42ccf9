//! ch04.ipynb: a GPT model from its parts, and gpt.py, the chapter in one file.
//!
//! Cells are numbered as in revision 28c65cd of the book's repository.

use anyhow::Result;
use generate::generate_text_simple;
use gpt::{
    DummyGptModel, ExampleDeepNeuralNetwork, FeedForward, GptConfig, GptModel, LayerNorm,
    TransformerBlock,
};
use ndarray::{Array1, Array2, Array3, Axis, array};
use pictures::{Chart, Line, PLAIN, chart};
use tensor_ops::{Linear, Parameters, gelu, gelu_backward, relu, relu_backward};
use tokenizer::{Gpt2Tokenizer, text_to_token_ids, token_ids_to_text};
use torch_rng::{Build, TorchRng};

use crate::Notebook;

pub(crate) fn run(book: &mut Notebook) -> Result<()> {
    book.opens(
        "A GPT combines attention from chapter 3 with two simple parts, normalization and a small network, and repeats them twelve times. This chapter builds the parts, puts them together, counts the parameters, and generates text with the untrained model.",
        "chapters 2 and 3.",
        50,
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
    Ok(())
}

fn architecture(book: &mut Notebook) -> Result<()> {
    book.section("4.1", "Coding an LLM architecture");
    // Two short texts as token ids: a batch of two rows, the input of all models in this chapter.
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
    book.listing("crates/gpt/src/dummy.rs", "pub struct DummyGptModel");
    book.listing("crates/gpt/src/dummy.rs", "impl DummyGptModel");
    // What goes into the model, and what comes out? A model of placeholders shows it: ids go in,
    // and logits come out, a score for each of the 50,257 tokens at each position. Its blocks and
    // its normalization do nothing yet.
    let mut rng = TorchRng::manual_seed(123);
    let model = DummyGptModel::new(GptConfig::GPT2_124M, &mut rng)?;
    // The book doesn't call `eval()` yet, so the embeddings are dropped, by the draws that follow
    // the weights.
    let logits = model.forward(&batch, Some(&mut rng.clone()))?;
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

    // The note below the cell shows the output of another build of PyTorch. Only the random draws
    // of dropout differ.
    let logits = model.forward(&batch, Some(&mut rng.with_build(Build::Mkl)))?;
    drop(model);
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
    book.asks(
        "The logits have the shape (2, 4, 50257). Which of these numbers does text generation use?",
        "Those of the last of the four positions: 50,257 scores for the token after the text. Training uses all four positions.",
    );
    Ok(())
}

fn normalization_and_feed_forward(book: &mut Notebook) -> Result<()> {
    book.section("4.2", "Normalizing activations with layer normalization");
    // What does normalization do? First, some numbers to normalize: two rows of five random numbers
    // go through a small layer.
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

    // The rows differ in mean and variance; both arrays are (rows, 1). PyTorch's variance is
    // unbiased by default.
    let mean_of = |x: &Array2<f32>| x.sum_axis(Axis(1)).insert_axis(Axis(1)) / x.ncols() as f32;
    let var_of = |x: &Array2<f32>, ddof| x.var_axis(Axis(1), ddof).insert_axis(Axis(1));
    let mean = mean_of(&out);
    let var = var_of(&out, 1.0);
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

    // Subtract the mean and divide by the square root of the variance: now each row has mean 0 and
    // variance 1.
    let out_norm = (&out - &mean) / var.sqrt();
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
    // In [9] prints both again, without exponents.
    book.prints(
        "In [8]",
        &var,
        "tensor([[1.0000],
        [1.0000]], grad_fn=<VarBackward0>)",
    );

    book.listing(
        "crates/tensor-ops/src/layer_norm.rs",
        "pub struct LayerNorm",
    );
    book.listing("crates/tensor-ops/src/layer_norm.rs", "pub fn new(");
    book.listing("crates/gpt/src/plain.rs", "pub fn layer_norm<");
    // The same as a layer. Its variance is divided by n instead of n - 1, and a small epsilon is
    // added to it, so that a row of equal numbers doesn't divide by zero. Scale and shift are
    // learned; they start as 1 and 0.
    let ln = LayerNorm::new(6);
    let out_ln = ln.forward(&out);
    let mean = mean_of(&out_ln);
    let var = var_of(&out_ln, 0.0);
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
        "It doesn't change: mean and variance are normalized, whatever they were. That is the purpose: later layers always get numbers of the same size.",
    );
    book.section(
        "4.3",
        "Implementing a feed forward network with GELU activations",
    );
    book.listing("crates/gpt/src/plain.rs", "pub fn gelu<");
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
    // How long is a token's vector in the small GPT-2? The feed-forward network takes vectors of
    // this length.
    let config = GptConfig {
        emb_dim: book.input("emb_dim", 768, 1..=768),
        n_heads: 1, // no matter here
        ..GptConfig::GPT2_124M
    };
    book.prints("In [16]", &config.emb_dim, "768");

    book.listing("crates/gpt/src/plain.rs", "pub struct FeedForward");
    book.listing("crates/gpt/src/plain.rs", "impl FeedForward");
    // The network makes each token's vector four times as long, applies GELU, and shortens it
    // again. Input and output have the same shape, so blocks can be stacked.
    let ffn = FeedForward::new(config, &mut rng);
    let x = rng.rand(2 * 3 * config.emb_dim);
    let x = Array3::from_shape_vec((2, 3, config.emb_dim), x)?;
    let out = ffn.forward(&x);
    book.shape("In [17]", &out, &[2, 3, 768]);
    book.asks(
        "Can two linear layers without GELU between them compute anything that one layer can't?",
        "No: two matrix products in a row equal one matrix product. The network can do more only because GELU isn't linear.",
    );
    Ok(())
}

fn shortcut_connections(book: &mut Notebook) -> Result<()> {
    book.section("4.4", "Adding shortcut connections");
    book.listing("crates/gpt/src/shortcut.rs", "pub fn forward_train(");
    // Why does a deep network need shortcuts? Here are five layers without them, and the mean
    // gradient of each. The first layer's gradient is some 25 times smaller than the last layer's,
    // so the first layer hardly learns.
    let n_layers = book.input("n_layers", 5, 2..=50);
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
        &without_shortcut,
        "\
layers.0.0.weight has gradient mean of 0.00020173587836325169
layers.1.0.weight has gradient mean of 0.00012011159560643137
layers.2.0.weight has gradient mean of 0.0007152039906941354
layers.3.0.weight has gradient mean of 0.0013988736318424344
layers.4.0.weight has gradient mean of 0.005049645435065031",
    );

    // A shortcut adds a layer's input to its output. With shortcuts, the gradients no longer
    // vanish.
    rng.reseed(seed);
    let model_with_shortcut = ExampleDeepNeuralNetwork::new(&layer_sizes, true, &mut rng)?;
    let gradients = model_with_shortcut.mean_absolute_gradients(&sample_input, &target);
    let (_, gradients): (Vec<String>, Vec<f32>) = gradients.into_iter().unzip();
    book.prints(
        "In [20]",
        &gradients,
        "\
layers.0.0.weight has gradient mean of 0.22169792652130127
layers.1.0.weight has gradient mean of 0.20694106817245483
layers.2.0.weight has gradient mean of 0.32896995544433594
layers.3.0.weight has gradient mean of 0.2665732204914093
layers.4.0.weight has gradient mean of 1.3258540630340576",
    );

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
    book.asks(
        "With ten layers instead of five, which of the two gradients of the first layer changes more?",
        "The one without shortcuts: each additional layer makes it smaller. With shortcuts, there is always a path around the layers.",
    );
    Ok(())
}

fn transformer_block(book: &mut Notebook) -> Result<()> {
    book.section(
        "4.5",
        "Connecting attention and linear layers in a transformer block",
    );
    book.listing("crates/gpt/src/plain.rs", "pub struct TransformerBlock");
    book.listing("crates/gpt/src/plain.rs", "impl TransformerBlock");
    // A block consists of attention and a feed-forward network. Each follows a normalization and
    // has a shortcut around it. The output has the shape of the input.
    let mut rng = TorchRng::manual_seed(123);
    let emb_dim = book.input("emb_dim", 768, 1..=768);
    let x = Array3::from_shape_vec((2, 4, emb_dim), rng.rand(2 * 4 * emb_dim))?;
    let config = GptConfig {
        emb_dim,
        n_heads: book.input("n_heads", 12, 1..=64),
        ..GptConfig::GPT2_124M
    };
    let block = TransformerBlock::new(config, &mut rng)?;
    let output = block.forward(&x)?;
    book.shape("In [22]", &output, &[2, 4, 768]);
    book.asks(
        "A block's output has the shape of its input. Why does that matter?",
        "Any number of blocks can be stacked without other layers between them. The GPT-2 models have 12, 24, 36 and 48.",
    );
    Ok(())
}

fn whole_model(book: &mut Notebook) -> Result<GptModel> {
    book.section("4.6", "Coding the GPT model");
    book.sketch(
        "The model, with shapes (b texts of t tokens)",
        "
ids (b, t)
 |  token embedding (50257, 768) + place embedding (1024, 768), dropout
 v
x (b, t, 768)
 |
 |   +--------------------------- x 12 ---------------------------+
 +-->| LayerNorm, attention (12 heads of 64), dropout, + shortcut |
     | LayerNorm, 768 -> 3072 -> GELU -> 768, dropout, + shortcut |
     +------------------------------------------------------------+
 v
LayerNorm (b, t, 768)
 |  output layer (768, 50257)
 v
logits (b, t, 50257)
",
    );
    book.not_in_a_page()?;
    book.listing("crates/gpt/src/plain.rs", "pub struct GptModel");
    book.listing("crates/gpt/src/plain.rs", "impl GptModel");
    // The whole model: embeddings, twelve blocks, a final normalization, and a linear layer that
    // gives the logits, for the two texts of In [4]. The model is untrained, so the numbers don't
    // mean anything yet.
    let mut rng = TorchRng::manual_seed(123);
    let model = GptModel::new(GptConfig::GPT2_124M, &mut rng)?;
    let batch = array![[6109, 3626, 6100, 345], [6109, 1110, 6622, 257]];
    let (out, _) = model.forward_train(&batch, &mut rng)?; // it still drops
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

    // How many parameters does it have? More than the 124 million of its name; the next cells show
    // why.
    let total_params = model.num_parameters();
    book.prints(
        "In [25]",
        &total_params,
        "Total number of parameters: 163,009,536",
    );

    // The embedding of tokens and the output layer have the same shape: GPT-2 uses one for both.
    book.shape("In [26]", &model.tok_emb.weight, &[50257, 768]);
    let out_head = model
        .out_head
        .as_ref()
        .expect("the book's head is not tied");
    book.shape("In [26]", &out_head.weight, &[50257, 768]);

    // If the shared table is counted once, the model has the 124 million parameters of its name.
    let total_params_gpt2 = total_params - out_head.num_parameters();
    book.prints(
        "In [27]",
        &total_params_gpt2,
        "Number of trainable parameters considering weight tying: 124,412,160",
    );

    let size = GptConfig::GPT2_124M.size()?;
    book.agrees("In [25]", &size.total(), &total_params);
    book.agrees("In [27]", &size.without_out_head(), &total_params_gpt2);
    book.asks(
        "Where are most of the 163 million parameters?",
        "In two tables of 50,257 x 768: the token embedding and the output layer, 38.6 million each. A block has 7.1 million, and there are twelve.",
    );
    Ok(model)
}

fn size_of_the_model(book: &mut Notebook) -> Result<()> {
    // How much memory does a model need? Its configuration is enough to count the parameters. Each
    // takes four bytes; a megabyte here is 1,024 x 1,024 bytes. Which costs more: twice as many
    // layers, or vectors twice as long?
    let config = GptConfig {
        emb_dim: book.input("emb_dim", 768, 1..=1600),
        n_layers: book.input("n_layers", 12, 1..=48),
        n_heads: 1, // their number changes nothing here
        ..GptConfig::GPT2_124M
    };
    let size = config.size()?;
    book.prints(
        "In [28]",
        &size.mebibytes(),
        "Total size of the model: 621.83 MB",
    );
    Ok(())
}

fn beginning_of_a_sentence(book: &mut Notebook) -> Result<Array2<u32>> {
    book.section("4.7", "Generating text");
    book.listing(
        "crates/generate/src/book.rs",
        "pub fn generate_text_simple(",
    );
    // How does a model write? It continues the beginning of a sentence, here a batch of one row.
    let prompt = book.input("prompt", "Hello, I am".to_owned(), 1..=500);
    let tokenizer = Gpt2Tokenizer::new();
    let encoded = text_to_token_ids(&prompt, &tokenizer)?;
    book.prints("In [30]", &encoded.row(0), "encoded: [15496, 11, 314, 716]");
    book.shape("In [30]", &encoded, &[1, 4]);
    book.asks(
        "Does a second run give a different text? What would have to change?",
        "No: it always takes the most probable token, so nothing is random. Another seed gives other weights and another text; section 5.3 draws tokens at random.",
    );
    Ok(encoded)
}

fn generating_text(book: &mut Notebook, model: &GptModel, encoded: Array2<u32>) -> Result<()> {
    // Six times: compute the logits, take the id with the highest score at the last position, and
    // append it.
    let context_size = GptConfig::GPT2_124M.context_length;
    let max_new_tokens = book.input("max_new_tokens", 6, 1..=50);
    let out = generate_text_simple(model, encoded.clone(), max_new_tokens, context_size)?;
    book.prints(
        "In [31]",
        &out,
        "Output: tensor([[15496,    11,   314,   716, 27018, 24086, 47843, 30961, 42348,  7267]])",
    );
    book.prints("In [31]", &out.ncols(), "Output length: 10");

    // Decoded, the ids are nonsense, because the weights are random. It is the same nonsense as in
    // the book.
    let tokenizer = Gpt2Tokenizer::new();
    let decoded_text = token_ids_to_text(&out, &tokenizer)?;
    book.prints(
        "In [32]",
        &decoded_text,
        "Hello, I am Featureiman Byeswickattribute argue",
    );

    book.section("gpt.py", "The chapter in one file, and its test");
    // The chapter's script creates the same model from the same seed and generates ten tokens.
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

/// Pairs of coordinates for a chart.
fn points(x: &Array1<f32>, y: &Array1<f32>) -> Vec<(f64, f64)> {
    let pairs = x.iter().zip(y);
    pairs.map(|(&x, &y)| (f64::from(x), f64::from(y))).collect()
}
