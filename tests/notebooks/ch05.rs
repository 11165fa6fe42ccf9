//! ch05.ipynb: the losses of the untrained model, and decoding; the training run between them is
//! ch05_training.rs.
//!
//! Cells are numbered as in revision 27d52d6 of the book's repository, the last one whose outputs
//! come from a CPU.

use anyhow::Result;
use dataloader::{
    Batch, DataLoader, DataLoaderConfig, create_dataloader_v1, train_validation_split,
};
use generate::{generate_text_simple, greedy_id, softmax_with_temperature, top_k_filter};
use gpt::{GptConfig, GptModel};
use ndarray::{Array1, Array3, Axis, array};
use pictures::{Bars, bars};
use tensor_ops::{cross_entropy, softmax};
use tokenizer::{Gpt2Tokenizer, text_to_token_ids, token_ids_to_text};
use torch_rng::TorchRng;
use train::{calc_loss_batch, calc_loss_loader, perplexity};

use crate::{Lines, Notebook};

pub(crate) fn run(book: &mut Notebook) -> Result<()> {
    book.opens(
        "How good is a model? Chapter 5 measures this by one number, the loss, trains the model to reduce it (section 5.2, on the training page), and shows ways to choose the next token.",
        "chapter 4.",
        40,
    );
    book.part(untrained_model);
    book.part(story);
    book.part(decoding_strategies);
    book.part(what_is_left_out);
    Ok(())
}

fn untrained_model(book: &mut Notebook) -> Result<()> {
    book.section("5.1.1", "Using GPT to generate text");
    book.listing("crates/tokenizer/src/ids.rs", "pub fn text_to_token_ids(");
    book.listing("crates/tokenizer/src/ids.rs", "pub fn token_ids_to_text(");
    // What can a model write before training? An untrained model with a shorter context generates
    // ten tokens.
    let config = GptConfig {
        context_length: 256,
        ..GptConfig::GPT2_124M
    };
    let prompt = book.input("prompt", "Every effort moves you".to_owned(), 1..=500);
    book.not_in_a_page()?;
    let tokenizer = Gpt2Tokenizer::new();
    let idx = text_to_token_ids(&prompt, &tokenizer)?;
    let model = GptModel::new(config, &mut TorchRng::manual_seed(123))?;
    let max_new_tokens = book.input("max_new_tokens", 10, 1..=50);
    let token_ids = generate_text_simple(&model, idx, max_new_tokens, config.context_length)?;
    let text = token_ids_to_text(&token_ids, &tokenizer)?;
    book.prints(
        "In [3]",
        &text,
        "Every effort moves you rentingetic wasnم refres RexMeCHicular stren",
    );

    book.asks(
        "The text is nonsense. What would a model write that gives all tokens the same probability?",
        "The same kind of nonsense. An untrained model isn't worse than a random guess, and training starts from there.",
    );
    book.section(
        "5.1.2",
        "Calculating the text generation loss: cross-entropy and perplexity",
    );
    // How can nonsense be measured? Here are two inputs and their targets, the same ids moved by
    // one position. At each of the 2 x 3 positions, the model gives each of the 50,257 tokens a
    // probability.
    let inputs = array![
        [16833, 3626, 6100], // "every effort moves"
        [40, 1107, 588]      // "I really like"
    ];
    let targets = array![
        [3626, 6100, 345],  // " effort moves you"
        [1107, 588, 11311]  // " really like chocolate"
    ];
    let logits = model.forward(&inputs)?;
    let probas = softmax(&logits, Axis(2));
    book.shape("In [5]", &probas, &[2, 3, 50257]);

    // The model's choice at each position is the id with the highest probability.
    let mut token_ids = Array3::zeros((2, 3, 1));
    for (id, probas) in token_ids.iter_mut().zip(probas.lanes(Axis(2))) {
        *id = greedy_id(&probas)?;
    }
    book.prints(
        "In [6]",
        &token_ids,
        "tensor([[[16657],
         [  339],
         [42826]],

        [[49906],
         [29669],
         [41751]]])",
    );

    // Decoded: the correct continuation, and the model's choice.
    let text = tokenizer.decode(&targets.row(0).to_vec())?;
    book.prints("In [7]", &text, " effort moves you");
    let first_row: Vec<u32> = token_ids.index_axis(Axis(0), 0).iter().copied().collect();
    let text = tokenizer.decode(&first_row)?;
    book.prints("In [7]", &text, " Armed heNetflix");

    // Which probability does the model give the correct tokens? About 1 in 50,000, like a random
    // guess.
    let of_targets = |text_idx: usize| -> Array1<f32> {
        let ids = targets.row(text_idx).to_owned();
        let probas = probas.index_axis(Axis(0), text_idx);
        ids.iter()
            .zip(probas.rows())
            .map(|(&id, row)| row[id as usize])
            .collect()
    };
    let target_probas_1 = of_targets(0);
    book.prints(
        "In [8]",
        &target_probas_1,
        "Text 1: tensor([7.4541e-05, 3.1061e-05, 1.1563e-05])",
    );
    let target_probas_2 = of_targets(1);
    book.prints(
        "In [8]",
        &target_probas_2,
        "Text 2: tensor([1.0337e-05, 5.6776e-05, 4.7559e-06])",
    );

    // The logarithms of these probabilities can be added; probabilities would have to be
    // multiplied.
    let log_probas: Array1<f32> = target_probas_1
        .iter()
        .chain(&target_probas_2)
        .map(|p| p.ln())
        .collect();
    book.prints(
        "In [9]",
        &log_probas,
        "tensor([ -9.5042, -10.3796, -11.3677, -11.4798,  -9.7764, -12.2561])",
    );

    // Their mean is one number for all six positions: the nearer to 0, the better.
    let avg_log_probas = log_probas.sum() / 6.0;
    book.prints("In [10]", &avg_log_probas, "tensor(-10.7940)");

    // With the opposite sign, this number is a loss, the cross-entropy. Training makes it small.
    let neg_avg_log_probas = -avg_log_probas;
    book.prints("In [11]", &neg_avg_log_probas, "tensor(10.7940)");

    // The loss function takes a list of positions, so the axes of batch and position become one.
    let logits_flat = logits.into_shape_with_order((6, 50257))?;
    book.shape("In [13]", &logits_flat, &[6, 50257]);

    // `cross_entropy` does all these steps from the logits, and returns the same number.
    let targets_flat: Vec<u32> = targets.iter().copied().collect();
    let loss = cross_entropy(&logits_flat, &targets_flat);
    book.prints("In [14]", &loss, "tensor(10.7940)");
    // So does `calc_loss_batch`, which training calls for each batch.
    let batch = Batch {
        input_ids: inputs,
        target_ids: targets,
    };
    book.agrees("In [14]", &calc_loss_batch(&batch, &model)?, &loss);

    // The perplexity is the exponential of the loss: the model is as uncertain as a random choice
    // among this number of tokens.
    let perplexity = perplexity(f64::from(loss)) as f32;
    book.prints("In [15]", &perplexity, "tensor(48725.8203)");
    book.asks(
        "A model is sure of a wrong token and gives the right one a probability of 1 in a million. How large is its loss there?",
        "ln 1,000,000 = 13.8. Being sure and wrong costs more than not knowing, which costs ln 50,257 = 10.8.",
    );
    Ok(())
}

fn story(book: &mut Notebook) -> Result<()> {
    book.section(
        "5.1.3",
        "Calculating the training and validation set losses",
    );
    // The model will be trained on this story. Here are its first 99 characters.
    let text_data = book.the_verdict()?;
    let characters: Vec<char> = text_data.chars().collect();
    let beginning: String = characters[..99].iter().collect();
    book.prints("In [17]", &beginning, "I HAD always thought Jack Gisburn rather a cheap genius--though a good fellow enough--so it was no ");

    // And its last 99 characters.
    let total_characters = characters.len();
    let end: String = characters[total_characters - 99..].iter().collect();
    book.prints("In [18]", &end, "it for me! The Strouds stand alone, and happen once--but there's no exterminating our kind of art.\"");

    // It is short for training a language model: a few minutes are enough, and the model will
    // overfit.
    let tokenizer = Gpt2Tokenizer::new();
    let total_tokens = tokenizer.encode(text_data)?.len();
    book.prints("In [19]", &total_characters, "Characters: 20479");
    book.prints("In [19]", &total_tokens, "Tokens: 5145");

    // How can we see whether a model has learned or memorized? It trains on nine tenths of the
    // text; the last tenth is only for validation. Both are split into windows of 256 tokens, two
    // in a batch: nine batches and one.
    book.listing("tests/notebooks/ch05.rs", "pub(crate) fn loaders(");
    let [train_loader, val_loader] = loaders(text_data, &tokenizer)?;
    let mut rng = TorchRng::manual_seed(123);
    book.prints(
        "In [22]",
        &shapes(&train_loader, &mut rng)?,
        "\
torch.Size([2, 256]) torch.Size([2, 256])
torch.Size([2, 256]) torch.Size([2, 256])
torch.Size([2, 256]) torch.Size([2, 256])
torch.Size([2, 256]) torch.Size([2, 256])
torch.Size([2, 256]) torch.Size([2, 256])
torch.Size([2, 256]) torch.Size([2, 256])
torch.Size([2, 256]) torch.Size([2, 256])
torch.Size([2, 256]) torch.Size([2, 256])
torch.Size([2, 256]) torch.Size([2, 256])",
    );
    book.prints(
        "In [22]",
        &shapes(&val_loader, &mut rng)?,
        "torch.Size([2, 256]) torch.Size([2, 256])",
    );

    // The number of tokens in both parts. Remainders at the ends are not used.
    let mut tokens_of = |loader: &DataLoader| {
        let lengths = loader.epoch(&mut rng);
        lengths.map(|batch| Ok(batch?.input_ids.len())).sum()
    };
    let train_tokens: Result<usize> = tokens_of(&train_loader);
    let val_tokens: Result<usize> = tokens_of(&val_loader);
    let (train_tokens, val_tokens) = (train_tokens?, val_tokens?);
    book.prints("In [23]", &train_tokens, "Training tokens: 4608");
    book.prints("In [23]", &val_tokens, "Validation tokens: 512");
    book.prints("In [23]", &(train_tokens + val_tokens), "All tokens: 5120");

    book.not_in_a_page()?;
    book.listing("crates/train/src/loss.rs", "pub fn calc_loss_batch(");
    book.listing("crates/train/src/loss.rs", "pub fn calc_loss_loader(");
    // The mean loss of both parts before training is near ln 50257 = 10.82, the loss of a random
    // guess.
    let config = GptConfig {
        context_length: 256,
        ..GptConfig::GPT2_124M
    };
    let model = GptModel::new(config, &mut TorchRng::manual_seed(123))?;
    rng.reseed(123); // for the order of the training loader
    let train_loss = calc_loss_loader(&train_loader, &model, None, &mut rng)?;
    let val_loss = calc_loss_loader(&val_loader, &model, None, &mut rng)?;
    book.prints("In [25]", &train_loss, "Training loss: 10.98758347829183");
    book.prints("In [25]", &val_loss, "Validation loss: 10.98110580444336");
    book.asks(
        "Why is the loss before training near 10.8, for any text?",
        "The untrained model spreads its probability over all 50,257 tokens, and ln 50,257 is 10.82.",
    );
    Ok(())
}

/// The book's loaders, windows of 256 tokens, two to a batch: of the first nine tenths of a text,
/// shuffled, and of the last tenth, in order.
pub(crate) fn loaders(text: &str, tokenizer: &Gpt2Tokenizer) -> Result<[DataLoader; 2]> {
    let (train_data, val_data) = train_validation_split(text, 0.90)?;
    let of_training = DataLoaderConfig {
        batch_size: 2,
        max_length: 256,
        stride: 256,
        drop_last: true,
        shuffle: true,
    };
    let of_validation = DataLoaderConfig {
        drop_last: false,
        shuffle: false,
        ..of_training
    };
    Ok([
        create_dataloader_v1(train_data, tokenizer, of_training)?,
        create_dataloader_v1(val_data, tokenizer, of_validation)?,
    ])
}

/// In \[22\]: a line a batch.
fn shapes(loader: &DataLoader, rng: &mut TorchRng) -> Result<String> {
    let lines = loader.epoch(rng).map(|batch| {
        let batch = batch?;
        let (inputs, targets) = (batch.input_ids.shape(), batch.target_ids.shape());
        Ok(format!("torch.Size({inputs:?}) torch.Size({targets:?})"))
    });
    Ok(lines.collect::<Result<Vec<_>>>()?.join("\n"))
}

fn decoding_strategies(book: &mut Notebook) -> Result<()> {
    book.section("5.3.1", "Temperature scaling");
    // How else can the next token be chosen? Nine words are the vocabulary in this example. Greedy
    // decoding always takes the most probable word.
    let vocab = VOCAB;
    #[expect(clippy::approx_constant, reason = "6.28 is a logit")]
    let next_token_logits = array![4.51, 0.89, -1.90, 6.75, 1.63, -1.62, -1.89, 6.28, 1.79];
    let probas = softmax(&next_token_logits, Axis(0));
    let next_token_id = greedy_id(&probas)?;
    book.prints("In [30]", vocab[next_token_id as usize], "forward");

    // A random draw takes each word with its probability. This draw gives the most probable word,
    // too.
    let mut rng = TorchRng::manual_seed(book.input("seed", 123, ..));
    let next_token_id = rng.multinomial(&probas.to_vec());
    book.prints("In [31]", vocab[next_token_id], "forward");

    // In a thousand draws, each word's count is near a thousand times its probability.
    let sampled_ids = sampled_tokens(&probas);
    book.prints(
        "In [32]",
        &with_words(sampled_ids),
        "\
73 x closer
0 x every
0 x effort
582 x forward
2 x inches
0 x moves
0 x pizza
343 x toward
0 x you",
    );

    book.listing(
        "crates/generate/src/filters.rs",
        "pub fn softmax_with_temperature(",
    );
    // A temperature below 1 sharpens the probabilities: almost always the most probable word is
    // drawn.
    let temperature = book.input("temperature", 0.1, 0.001..=1000.0);
    let colder = softmax_with_temperature(&next_token_logits, temperature)?;
    book.prints(
        "In [35]",
        &with_words(sampled_tokens(&colder)),
        "\
0 x closer
0 x every
0 x effort
985 x forward
0 x inches
0 x moves
0 x pizza
15 x toward
0 x you",
    );

    // A temperature above 1 flattens them: the words vary more, and more of them are nonsense.
    let temperature = book.input("temperature", 5.0, 0.001..=1000.0);
    let hotter = softmax_with_temperature(&next_token_logits, temperature)?;
    book.prints(
        "In [36]",
        &with_words(sampled_tokens(&hotter)),
        "\
165 x closer
75 x every
42 x effort
239 x forward
71 x inches
46 x moves
32 x pizza
227 x toward
103 x you",
    );

    book.draws("Probabilities at three temperatures", || {
        let groups = [
            ("temperature 0.1", &colder),
            ("temperature 1", &probas),
            ("temperature 5", &hotter),
        ];
        bars(&Bars {
            title: "Temperature scaling",
            x: "next token",
            y: "probability",
            labels: &vocab,
            groups: &groups.map(|(temperature, probas)| {
                (temperature, probas.iter().map(|&p| f64::from(p)).collect())
            }),
        })
    });

    book.asks(
        "What does a temperature of 0.001 do? And one of 1000?",
        "0.001 nearly gives the greedy choice; 1000 nearly gives all words the same probability. Try both in the fields.",
    );
    book.section("5.3.2", "Top-k sampling");
    // Top-k sampling avoids nonsense in another way: it draws only among the k most probable words.
    // These are the best three.
    let top_k = book.input("top_k", 3, 1..=100);
    let new_logits = top_k_filter(&next_token_logits, top_k);
    let mut top_pos: Vec<usize> = (0..vocab.len())
        .filter(|&id| new_logits[id].is_finite())
        .collect();
    top_pos.sort_by(|&one, &other| new_logits[other].total_cmp(&new_logits[one]));
    let top_logits = new_logits.select(Axis(0), &top_pos);
    book.prints(
        "In [37]",
        &top_logits,
        "Top logits: tensor([6.7500, 6.2800, 4.5100])",
    );
    book.prints("In [37]", &top_pos, "Top positions: tensor([3, 7, 0])");

    // The logits of all other words become minus infinity.
    book.prints(
        "In [38]",
        &new_logits,
        "tensor([4.5100,   -inf,   -inf, 6.7500,   -inf,   -inf,   -inf, 6.2800,   -inf])",
    );

    // Softmax turns minus infinity into zero; the remaining probabilities sum to 1.
    let topk_probas = softmax(&new_logits, Axis(0));
    book.prints(
        "In [39]",
        &topk_probas,
        "tensor([0.0615, 0.0000, 0.0000, 0.5775, 0.0000, 0.0000, 0.0000, 0.3610, 0.0000])",
    );
    book.draws("Probabilities before and after top-k", || {
        let groups = [("all tokens", &probas), ("top 3", &topk_probas)];
        bars(&Bars {
            title: "Top-k sampling, k = 3",
            x: "next token",
            y: "probability",
            labels: &vocab,
            groups: &groups
                .map(|(name, probas)| (name, probas.iter().map(|&p| f64::from(p)).collect())),
        })
    });
    book.asks(
        "With k = 1, which method of section 5.1 do you get back?",
        "The greedy one: only the most probable token remains, at any temperature.",
    );
    Ok(())
}

fn what_is_left_out(book: &mut Notebook) -> Result<()> {
    book.section("5.5", "Loading pretrained weights from OpenAI");
    book.leaves_out(
        "In [50], [51], [52], [56]",
        49,
        "needs OpenAI's weights, which are not downloaded",
    );

    book.section(
        "appendix D",
        "Adding Bells and Whistles to the Training Loop",
    );
    book.leaves_out(
        "In [5], [11], [12], [14]",
        72,
        "the appendices aren't part of this project",
    );

    book.section("appendix E", "Parameter-efficient Finetuning with LoRA");
    book.leaves_out(
        "In [6], [11], [15], [16], [18], [19], [21]",
        51,
        "the appendices aren't part of this project",
    );
    Ok(())
}

/// The nine words of section 5.3's example.
const VOCAB: [&str; 9] = [
    "closer", "every", "effort", "forward", "inches", "moves", "pizza", "toward", "you",
];

/// Counts of the first words, as the book prints them.
pub(crate) fn with_words(counts: Vec<u64>) -> Lines<u64> {
    Lines::new(counts, |id, count| format!("{count} x {}", VOCAB[id]))
}

/// The book's `print_sampled_tokens`: how often each id comes in 1,000 draws.
pub(crate) fn sampled_tokens(probas: &Array1<f32>) -> Vec<u64> {
    let mut rng = TorchRng::manual_seed(123);
    let mut sampled_ids = vec![0; probas.len()];
    for _ in 0..1000 {
        sampled_ids[rng.multinomial(&probas.to_vec())] += 1;
    }
    sampled_ids
}
