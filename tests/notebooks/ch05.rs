//! Translation of ch05.ipynb, which computes the losses of the untrained model, trains a model, and
//! generates text with several decoding methods. This file trains a small model. The book's
//! training run is in ch05_training.rs.
//!
//! Cells are numbered as in revision 27d52d6 of the book's repository, which is the last revision
//! whose outputs were computed on a CPU.

use std::collections::HashSet;

use anyhow::{Context, Result};
use dataloader::{
    Batch, DataLoader, DataLoaderConfig, create_dataloader_v1, train_validation_split,
};
use generate::{
    BookSampling, generate, generate_text_simple, greedy_id, softmax_with_temperature, top_k_filter,
};
use gpt::{GptConfig, GptModel};
use ndarray::{Array1, Array2, Array3, Axis, array};
use pictures::{Bars, Chart, Line, PLAIN, bars, chart};
use tensor_ops::{Linear, Parameters, cross_entropy, cross_entropy_train, softmax};
use tokenizer::{Gpt2Tokenizer, SimpleTokenizerV1, text_to_token_ids, token_ids_to_text};
use torch_rng::TorchRng;
use train::{AdamW, AdamWConfig, Schedule, calc_loss_batch, calc_loss_loader, perplexity};

use crate::ch04::significant;
use crate::small_model::{beginning, first_words, small_config, small_loaders};
use crate::{Lines, Notebook};

pub(crate) fn run(book: &mut Notebook) -> Result<()> {
    book.opens(
        "How good is a model, and how does it become better? This chapter measures a model's quality by one number, the loss. It explains how training changes the weights so that the loss falls, first for a single weight and then for a small model that you train. Finally, it shows several ways to choose the next token.",
        "chapter 4.",
        75,
    );
    book.part(untrained_model);
    book.part(story);
    book.part(one_weight);
    let trained = book.part(small_training);
    book.part(decoding_strategies);
    if let Some(trained) = trained {
        book.part(|book| writing(book, trained));
    }
    book.part(what_is_left_out);
    Ok(())
}

fn untrained_model(book: &mut Notebook) -> Result<()> {
    book.section("5.1.1", "Using GPT to generate text");
    book.value("of_a_million", 1e6f64.ln());
    book.value("of_a_guess", 50_257f64.ln());
    // First, we look at the text that a model generates before it is trained. We will see that it
    // is bad, but not how bad. Training needs a number for that, which section 5.1.2 computes. We
    // use a model like that of section 4.6 and the
    // greedy loop of section 4.7, which always chooses the token with the largest logit. Two short
    // functions convert between texts and ids: `text_to_token_ids` turns a text into a batch of
    // ids, and `token_ids_to_text` turns ids into a text.
    book.listing("crates/tokenizer/src/ids.rs", "pub fn text_to_token_ids(");
    book.listing("crates/tokenizer/src/ids.rs", "pub fn token_ids_to_text(");
    // Because the model's weights are random numbers, its continuation of the prompt is nonsense.
    //
    // The context length is 256 tokens instead of 1,024, because training then needs less memory
    // and computation. With 1,024 tokens, the validation part of section 5.1.3 wouldn't fill a
    // single window, because it has only {val_len} tokens.
    let config = GptConfig {
        context_length: 256,
        ..GptConfig::GPT2_124M
    };
    let prompt = book.input("prompt", "Every effort moves you".to_owned(), 1..=500);
    let max_new_tokens = book.input("max_new_tokens", 10, 1..=50);
    book.not_in_a_page()?;
    let tokenizer = Gpt2Tokenizer::new();
    let idx = text_to_token_ids(&prompt, &tokenizer)?;
    let model = GptModel::new(config, &mut TorchRng::manual_seed(123))?;
    let token_ids = generate_text_simple(&model, idx, max_new_tokens, config.context_length)?;
    let text = token_ids_to_text(&token_ids, &tokenizer)?;
    book.prints(
        "In [3]",
        &text,
        "Every effort moves you rentingetic wasnم refres RexMeCHicular stren",
    );
    book.aside(|book| {
        let has_pieces = ["refres", "stren", "م"].iter().all(|piece| text.contains(piece));
        let pieces = match has_pieces {
            true => "The new text contains pieces of words, such as \"refres\" and \"stren\", and even an Arabic letter.",
            false => "",
        };
        book.value("pieces", pieces);
        book.holds("there are pieces of words", has_pieces);
    });
    // Look at the new tokens. {pieces} An untrained model can choose any of the 50,257 tokens,
    // because it knows neither the language of the prompt nor which tokens are frequent.

    book.asks(
        "Suppose a model gave every token the same probability. What would it generate with greedy decoding?",
        "It would repeat a single token. If several tokens have the largest logit, greedy decoding chooses the first of them, so it would choose the same token at each step. The untrained model generates various tokens, because its logits depend on the preceding text, even though they are meaningless. If tokens are drawn at random instead (section 5.3.1), both models generate similar nonsense.",
    );
    book.section(
        "5.1.2",
        "Calculating the text generation loss: cross-entropy and perplexity",
    );
    book.aside(|book| {
        let equal = Array1::from_elem(9, 0.5f32);
        book.holds(
            "the first of equals",
            greedy_id(&equal).is_ok_and(|id| id == 0),
        );
    });
    // How can we measure how well a model predicts a text? Before you read on, guess which number
    // could say how bad the text of section 5.1.1 is. The goal of this section is to compute a
    // single number that measures the quality of a model's predictions, the *loss*. The better the
    // model predicts a text, the smaller the loss. Training will make the loss smaller.
    //
    // This cell contains two short texts as inputs, together with their targets. The target at each
    // position is the id of the token that comes next in the text. At each of the 2 x 3 positions,
    // the model computes a *logit* for each of the 50,257 tokens, and softmax turns these logits
    // into probabilities.
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

    // At each position, greedy decoding chooses the id with the highest probability. At all six
    // positions, this id differs from the target.
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

    // Compare the targets of the first text with the tokens that the model chooses. Training should
    // make the model choose the targets, so it has to increase the probabilities of the targets.
    let text = tokenizer.decode(&targets.row(0).to_vec())?;
    book.prints("In [7]", &text, " effort moves you");
    let first_row: Vec<u32> = token_ids.index_axis(Axis(0), 0).iter().copied().collect();
    let text = tokenizer.decode(&first_row)?;
    book.prints("In [7]", &text, " Armed heNetflix");

    // How probable are the targets before training? Guess first. If all tokens were equally
    // probable, each target would have a probability of 1 in 50,257. In the output, the
    // probabilities of the targets lie between about 1 in 210,000 and about 1 in 13,000.
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

    book.aside(|book| {
        let both = || target_probas_1.iter().chain(&target_probas_2);
        let [least, most] = [
            both().fold(1.0f32, |a, &b| a.min(b)),
            both().fold(0.0f32, |a, &b| a.max(b)),
        ];
        let is_so = (1.0 / most - 13_000.0).abs() < 500.0;
        let is_so = is_so && (1.0 / least - 210_000.0).abs() < 500.0;
        book.holds("1 in 13,000 to 1 in 210,000", is_so);
        let chosen = token_ids.iter().zip(&targets);
        book.holds(
            "no choice is right",
            chosen.into_iter().all(|(a, b)| a != b),
        );
        let product = (1.0f64 / 50_257.0).powi(1000);
        let sum = 1000.0 * (1.0f64 / 50_257.0).ln();
        let is_so = product == 0.0 && (sum + 10_825.0).abs() < 0.5;
        book.holds("a product underflows and a sum doesn't", is_so);
    });
    // The probability of a whole text is the product of its tokens' probabilities. But such a
    // product is too small for a floating-point number. For 1,000 tokens that each have a
    // probability of 1 in 50,257, it is about 10^-4701, whereas the smallest positive 64-bit
    // floating-point number is about 5 x 10^-324, so the computed product would be 0. Logarithms
    // turn the product into a sum, which is -10,825 in this example. The cell computes the natural
    // logarithms of the six target probabilities. The lowest, -12.2561, belongs to "chocolate", the
    // least probable of the six targets.
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

    book.aside(|book| {
        let is_lowest = log_probas.iter().all(|&it| it >= log_probas[5]);
        let is_so = is_lowest && (log_probas[5] + 12.2561).abs() < 1e-3;
        book.holds("chocolate is the least probable", is_so);
    });

    // The mean of the six log probabilities summarizes all positions in one number. Unlike their
    // sum, its size doesn't grow with the length of the text. The mean can't exceed 0, and it is 0
    // only if every target has a probability of 1.
    let avg_log_probas = log_probas.sum() / 6.0;
    book.prints("In [10]", &avg_log_probas, "tensor(-10.7940)");

    // The loss is the negative of this mean, which is called the *cross-entropy*. The smaller the
    // loss, the better the model predicts the text.
    let neg_avg_log_probas = -avg_log_probas;
    book.prints("In [11]", &neg_avg_log_probas, "tensor(10.7940)");

    // A single function can compute the loss from the logits. For one position, the computation is
    // short:
    book.listing(
        "tests/notebooks/formulas.rs",
        "pub(crate) fn cross_entropy(",
    );
    // The function `cross_entropy` of the crate `tensor_ops` computes the mean loss of several
    // positions. It expects a matrix of logits with one row for each position, but our logits have
    // one axis for the texts and another for the positions. We therefore merge these two axes into
    // one, so that the logits of the 2 x 3 positions become six rows.
    let logits_flat = logits.into_shape_with_order((6, 50257))?;
    book.shape("In [13]", &logits_flat, &[6, 50257]);

    // The function `cross_entropy` performs all steps from the logits to the mean, so it returns
    // the same loss as In [11].
    let targets_flat: Vec<u32> = targets.iter().copied().collect();
    let loss = cross_entropy(&logits_flat, &targets_flat);
    book.prints("In [14]", &loss, "tensor(10.7940)");
    // The function `calc_loss_batch` takes a batch of windows, computes the model's logits for
    // them, and returns the loss. For the batch of this section, it returns the same loss as
    // `cross_entropy`.
    let batch = Batch {
        input_ids: inputs,
        target_ids: targets,
    };
    book.agrees("In [14]", &calc_loss_batch(&batch, &model)?, &loss);

    // The *perplexity* is the exponential of the loss, e^loss. A perplexity of 50 means that the
    // model is as uncertain as if it chose among 50 equally probable tokens. The untrained model's
    // perplexity is almost as large as the vocabulary, so the model knows almost nothing.
    let perplexity = perplexity(f64::from(loss)) as f32;
    book.prints("In [15]", &perplexity, "tensor(48725.8203)");
    book.asks(
        "At one position, a model is sure of a wrong token and gives the target a probability of 1 in a million. How large is its loss at this position?",
        "The loss is ln 1,000,000 = {of_a_million:.1}. A model that gives all tokens the same probability has a loss of ln 50,257 = {of_a_guess:.1}, so being sure of a wrong token leads to a larger loss than being undecided.",
    );
    book.asks(
        "The loss of 10.794 is a little smaller than ln 50,257 = {of_a_guess:.3}. Does this mean that the untrained model is better than a model that gives all tokens the same probability?",
        "No. In the output of In [9], three of the six targets have a log probability above -{of_a_guess:.3}, and three have one below it. The small difference is due to chance.",
    );
    book.aside(|book| {
        let better = log_probas.iter().filter(|&&it| it > -(50_257f32.ln()));
        book.holds("three targets are better than a guess", better.count() == 3);
    });
    Ok(())
}

fn story(book: &mut Notebook) -> Result<()> {
    book.section(
        "5.1.3",
        "Calculating the training and validation set losses",
    );
    // A model that is trained on a text may learn the language, or it may merely learn the text by
    // heart. To find out, we don't use all of the text for training. The loss on the remaining
    // part, the *validation loss*, shows how well the model predicts a text that it hasn't seen.
    // The goal of this section is to measure the loss on both parts of a text.

    // The text is a short story. In the book, the model of this section is trained on "The
    // Verdict". The cells use "The Answering Bell", a story that was written for this project,
    // unless you provide the book's text. (Section 5.2 trains a smaller model on the beginning of
    // the story.) To check that the whole story was loaded, the next two cells print its first and
    // its last 99 characters.
    let text_data = book.the_verdict()?;
    let characters: Vec<char> = text_data.chars().collect();
    let beginning: String = characters[..99].iter().collect();
    book.prints("In [17]", &beginning, "I HAD always thought Jack Gisburn rather a cheap genius--though a good fellow enough--so it was no ");

    // The story ends with these 99 characters:
    let total_characters = characters.len();
    let end: String = characters[total_characters - 99..].iter().collect();
    book.prints("In [18]", &end, "it for me! The Strouds stand alone, and happen once--but there's no exterminating our kind of art.\"");

    // The story has {total_characters:,} characters and {total_tokens:,} tokens, so a token has
    // about {per_token:w} characters. This is a very short training text for a language model.
    // (GPT-2 was trained on 40 gigabytes of text.) Training on the story takes only minutes, but
    // the trained model predicts the story much better than any other text, which is a sign
    // of *overfitting* (section 5.2).
    let tokenizer = Gpt2Tokenizer::new();
    let total_tokens = tokenizer.encode(text_data)?.len();
    book.value("total_tokens", total_tokens);
    book.aside(|book| {
        book.value("total_characters", total_characters);
        let per_token = total_characters as f64 / total_tokens as f64;
        book.value("per_token", per_token.round());
    });
    book.prints("In [19]", &total_characters, "Characters: 20479");
    book.prints("In [19]", &total_tokens, "Tokens: 5145");

    // The first nine tenths of the characters are for training, and the rest is used only for
    // validation. Both parts are cut into windows of 256 tokens, and each batch consists of two
    // windows. Two is a small number, because the text is short and each window needs memory.
    //
    // Why is the validation part the end of the text and not a random choice of windows?
    // Neighboring windows are often about the same people and things. If the model were trained on
    // the windows before and after a validation window, this window would be too easy to predict.
    //
    // The stride equals the length of a window, so each token is a target at most once per epoch.
    // Only the training windows are shuffled, because the order doesn't matter when a loss is
    // measured. (Section 5.2 explains why the order matters during training.)
    book.listing("tests/notebooks/ch05.rs", "pub(crate) fn loaders(");
    book.asks(
        "The training part contains {train_len:,} tokens. How many windows of 256 tokens fit into it, and how many batches of two windows do they make?",
        "{train_len:,} / 256 = {quotient:.2}, so {train_windows} windows fit into it. They make {train_batches:w} batches{of_rest}.",
    );
    // Each line of the output shows the shapes of a batch's inputs and targets. Count the lines:
    // there are {train_batches:w} for training, as computed above, and {val_batches:w} for
    // validation.
    let [train_loader, val_loader] = loaders(text_data, &tokenizer)?;
    book.aside(|book| {
        let len = |loader: &DataLoader| loader.dataset().corpus().len();
        let [train_windows, val_windows] =
            [&train_loader, &val_loader].map(|it| it.dataset().len());
        book.value("train_len", len(&train_loader));
        book.value("val_len", len(&val_loader));
        book.holds("1,024 tokens are too many", len(&val_loader) <= 1024);
        book.value("quotient", len(&train_loader) as f64 / 256.0);
        book.value("train_windows", train_windows);
        book.value("train_batches", train_loader.len());
        book.value("val_batches", val_loader.len());
        book.value("train_rest", len(&train_loader) - 256 * train_windows);
        book.value("val_rest", len(&val_loader) - 256 * val_windows);
        let of_windows = match train_windows % 2 {
            1 => format!("Because the number of training windows, {train_windows}, is odd, one more window is left out of each epoch, and the shuffling decides which one."),
            _ => format!("Because the number of training windows, {train_windows}, is even, each of them is in a batch."),
        };
        book.value("of_windows", of_windows);
        let is_odd = train_windows % 2 == 1;
        book.value("of_rest", if is_odd { ", and one window is left over" } else { "" });
        // If the cut goes through a token, the two parts have more tokens than the text.
        let of_both = len(&train_loader) + len(&val_loader);
        let of_cut = format!("(Together, the two parts have {},{:03} tokens, because the cut between them goes through a word.)", of_both / 1000, of_both % 1000);
        let is_cut = of_both != total_tokens && goes_through_a_word(text_data);
        book.value("of_cut", if is_cut { &of_cut } else { "" });
        book.holds("the cut explains the number of tokens", is_cut || of_both == total_tokens);
    });
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

    // The inputs of all batches contain {used_tokens:,} tokens. The last {train_rest} tokens of the
    // training part and the last {val_rest} tokens of the validation part don't fill a window, so
    // they aren't used as inputs. {of_windows} {of_cut}
    let mut tokens_of = |loader: &DataLoader| {
        let lengths = loader.epoch(&mut rng);
        lengths.map(|batch| Ok(batch?.input_ids.len())).sum()
    };
    let train_tokens: Result<usize> = tokens_of(&train_loader);
    let val_tokens: Result<usize> = tokens_of(&val_loader);
    let (train_tokens, val_tokens) = (train_tokens?, val_tokens?);
    book.value("used_tokens", train_tokens + val_tokens);
    book.prints("In [23]", &train_tokens, "Training tokens: 4608");
    book.prints("In [23]", &val_tokens, "Validation tokens: 512");
    book.prints("In [23]", &(train_tokens + val_tokens), "All tokens: 5120");

    book.not_in_a_page()?;
    // The function `calc_loss_loader` returns the mean loss of the first `num_batches` batches, or
    // of all batches if `num_batches` is `None`. A few batches give a quicker but less exact
    // result.
    book.listing("crates/train/src/loss.rs", "pub fn calc_loss_batch(");
    book.listing("crates/train/src/loss.rs", "pub fn calc_loss_loader(");
    // Before training, the training loss and the validation loss are both close to 10.99. This is a
    // little more than ln 50,257 = 10.82, the loss of a model that gives all tokens the same
    // probability.
    //
    // The two losses differ by less than 0.02, because the model has seen neither part of the text.
    // During training, the training loss usually becomes much smaller than the validation loss. The
    // validation part is there to show this gap.
    //
    // Why is the loss before training larger than ln 50,257? The untrained model's logits are
    // random numbers with a variance of about 1/3. They make some tokens more probable than others,
    // but the more probable tokens aren't more often the targets. On average, this adds half of the
    // variance to the loss: 10.82 + 1/6 = 10.99.
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
    book.aside(|book| {
        let near = |loss: f64| (loss - 10.99).abs() < 0.04;
        let logits = model.forward(&array![[16833, 3626, 6100]]);
        let variance = logits.map(|logits| logits.var(0.0)).unwrap_or_default();
        let is_so = near(train_loss) && near(val_loss);
        book.holds("both losses are near 10.99", is_so);
        let apart = (train_loss - val_loss).abs();
        book.holds("the losses differ by less than 0.02", apart < 0.02);
        book.holds("the variance is 1/3", (variance - 1.0 / 3.0).abs() < 0.04);
        book.holds("a tenth is less than a window", total_tokens < 7000);
    });
    book.asks(
        "Why do the untrained model's logits have a variance of about 1/3?",
        "A logit is the sum of 768 products, each of a feature and a weight. After the last normalization layer, the squares of a token's 768 features sum to about 768. The weights are spread evenly between -1/√768 and 1/√768, which gives them a variance of 1/(3 x 768). The variance of the logit is the product of these two numbers, 768 x 1/(3 x 768) = 1/3.",
    );
    Ok(())
}

/// Returns the book's two data loaders, for training and for validation. Both group windows of 256
/// tokens into batches of two. The training loader shuffles the windows of the first nine tenths of
/// the text. The validation loader returns the windows of the last tenth in their original order.
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

/// Returns true if the cut between the training part and the validation part is inside a word.
fn goes_through_a_word(text: &str) -> bool {
    let is_alphabetic = |c: Option<char>| c.is_some_and(char::is_alphabetic);
    train_validation_split(text, 0.90).is_ok_and(|(train_data, val_data)| {
        is_alphabetic(train_data.chars().next_back()) && is_alphabetic(val_data.chars().next())
    })
}

/// Returns the output of In \[22\], which contains a line with the shapes of the inputs and targets
/// of each batch.
fn shapes(loader: &DataLoader, rng: &mut TorchRng) -> Result<String> {
    let lines = loader.epoch(rng).map(|batch| {
        let batch = batch?;
        let (inputs, targets) = (batch.input_ids.shape(), batch.target_ids.shape());
        Ok(format!("torch.Size({inputs:?}) torch.Size({targets:?})"))
    });
    Ok(lines.collect::<Result<Vec<_>>>()?.join("\n"))
}

fn one_weight(book: &mut Notebook) -> Result<()> {
    book.section("5.2", "From a loss to a better weight");
    // The loss measures how good a model is, and *training* changes the model's weights so that the
    // loss falls. The goal of this section is to understand one such change, which is called a
    // *training step*. We begin with a model that has a single weight, so everything can be
    // computed by hand. After that, we perform one training step of a small GPT, look at the rule
    // by which it changes the weights, and finally train the small GPT.
    //
    // The first model has a single weight, w, and knows only two words. In its training text, the
    // word "the" is followed by "bell" three times and by "door" once. After "the", the model gives
    // "bell" the logit w and "door" the logit 0, so w determines the probability of "bell".
    //
    // With w = {w}, the model gives "bell" a probability of {p_bell:.4}. The loss is the mean of
    // the losses at the four positions after "the", which is {loss:.4}:
    let targets = [0, 0, 0, 1]; // three times "bell", and "door"
    let logits_of = |w: f32| Array2::from_shape_fn((4, 2), |(_, word)| [w, 0.0][word]);
    let loss_of = |w: f32| cross_entropy(&logits_of(w), &targets);
    let w = book.input("w", 0.5, -5.0..=5.0);
    book.value("p_bell", p_bell(w));
    book.value("loss", loss_of(w));
    book.yours("the loss", &loss_of(w));

    // Should w become larger or smaller? To find out, we increase and decrease w by a small number
    // h and compare the two losses. The change in the loss divided by the change in w is called a
    // *finite difference*. It approximates the slope of the loss at w, which is called the
    // *gradient*. In this example, the finite difference is {slope:.4}. If the gradient is
    // negative, the loss falls when w increases, and if the gradient is positive, the loss falls
    // when w decreases.
    let h = 0.01;
    let slope = (loss_of(w + h) - loss_of(w - h)) / (2.0 * h);
    book.value("slope", slope);
    book.yours("the gradient by a finite difference", &slope);

    // A finite difference requires computing two losses for each weight, which is far too slow for
    // a model with millions of weights. The *backward pass* computes the gradients of all weights
    // at once: it starts from the loss and applies the rules for derivatives to each step of the
    // model's computation, back to the weights. For the step from the logits to the loss, the rule
    // is short: the gradient of a logit is the token's probability, minus 1 if the token is the
    // target.
    book.listing(
        "tests/notebooks/formulas.rs",
        "pub(crate) fn cross_entropy_backward(",
    );
    // The function `cross_entropy_train` of the crate `tensor_ops` applies this rule to the four
    // rows of logits and divides the gradients by the number of rows. In each row, the first logit
    // is that of "bell", which is the weight w, so the gradient of w is the sum of the gradients in
    // the first column. This sum agrees with the finite difference.
    //
    // The sum can also be computed by hand. With the probability p = {p_bell:.4} of "bell", the
    // gradient is p - 1 in the three rows in which "bell" is the target, and p in the fourth row:
    // (3 x ({p_bell:.4} - 1) + {p_bell:.4}) / 4 = {gradient:.4}.
    let (_, d_logits) = cross_entropy_train(logits_of(w), &targets, 1.0); // (4, 2)
    let gradient = d_logits.column(0).sum();
    book.holds("both gradients agree", (gradient - slope).abs() < 1e-4);
    book.yours("the gradient by the backward pass", &gradient);
    book.asks(
        "For which probability of \"bell\" is the gradient of w equal to 0?",
        "For p = 0.75. The gradient is (3 x (p - 1) + p) / 4 = p - 0.75. If p is below 0.75, the gradient is negative, so a training step increases w and therefore p. If p is above 0.75, a step decreases both.",
    );

    // In a training step, the weight moves in the direction opposite to its gradient. The gradient
    // is multiplied by the *learning rate* and subtracted from the weight: {w} - {learning_rate} x
    // ({gradient:.6}) = {new_w:.4}. {of_rate}
    let learning_rate = book.input("learning_rate", 3.0, 0.01..=100.0);
    let new_w = w - learning_rate * gradient;
    book.value("gradient", gradient);
    book.value("new_w", new_w);
    book.value("new_loss", loss_of(new_w));
    book.holds("the loss falls", loss_of(new_w) < loss_of(w));
    book.yours("the weight after a step", &new_w);
    // The loss was {loss:.4}, and with the new weight it is {new_loss:.4}:
    book.yours("the loss after a step", &loss_of(new_w));
    book.aside(|book| {
        let of_rate = "This learning rate is large, so that the step is easy to see.";
        book.value("of_rate", if learning_rate >= 1.0 { of_rate } else { "" });
        // The gradient is 0 at w = ln 3, which gives "bell" a probability of 0.75.
        let from_lowest = new_w - 3f32.ln();
        let side = if from_lowest < 0.0 { "left" } else { "right" };
        let of_end = format!("Notice that the step ends to the {side} of the lowest point, which is at about w = 1.10.");
        book.value("of_end", if from_lowest.abs() > 0.1 { &of_end } else { "" });
    });

    // The picture shows how the loss depends on the weight w. The slope of the dashed line is the
    // gradient at the current weight. The line "the step" connects the points of the curve at this
    // weight and at the new one. {of_end}
    book.draws("The loss around the weight", || {
        let (low, high) = (w.min(new_w).min(-3.0), w.max(new_w).max(5.0));
        let at = |w: f32| (f64::from(w), f64::from(loss_of(w)));
        let line = |name: &str, points, dashed| Line {
            name: name.to_owned(),
            points,
            dashed,
            ..Line::default()
        };
        let tangent = [w - 1.0, w + 1.0].map(|other| {
            let along = loss_of(w) + gradient * (other - w);
            (f64::from(other), f64::from(along))
        });
        let mut step = vec![at(w), at(new_w)];
        step.sort_by(|one, other| one.0.total_cmp(&other.0));
        let curve = Array1::linspace(low, high, 200);
        let lines = vec![
            line("loss", curve.iter().map(|&w| at(w)).collect(), false),
            line("slope at w", tangent.to_vec(), true),
            line("the step", step, false),
        ];
        let around = Chart {
            title: "The loss around the weight",
            x: "w",
            y: "loss",
            lines,
            log_y: false,
        };
        chart(&around, PLAIN)
    });

    // If the learning rate is small enough and the training step is repeated often enough, the loss
    // falls to its lowest point, at which the gradient is 0. At this point, the model gives "bell"
    // a probability of 0.75, because "bell" follows "the" three times out of four in the training
    // text.
    //
    // Training with this loss has the same effect on every model: after each context, the
    // probabilities approach the frequencies with which the tokens follow this context in the
    // training text, as far as the model's weights allow.
    let mut lines = vec!["steps          w    P(bell)     loss".to_owned()];
    let mut weight = w;
    for step in 0..=12 {
        if step % 4 == 0 {
            let (p, loss) = (p_bell(weight), loss_of(weight));
            lines.push(format!("{step:5} {weight:10.4} {p:10.4} {loss:8.4}"));
        }
        let (_, d_logits) = cross_entropy_train(logits_of(weight), &targets, 1.0);
        weight -= learning_rate * d_logits.column(0).sum();
    }
    book.holds("bell has 0.75", (p_bell(weight) - 0.75).abs() < 1e-3);
    book.yours("more steps", &lines.join("\n"));

    book.asks(
        "With a learning rate of 40, does the first training step make the loss smaller or larger? Guess, then enter 40 in the field and look at the picture.",
        "{of_large_step}",
    );
    book.aside(|book| {
        let far = w - 40.0 * gradient;
        let (before, after) = (loss_of(w), loss_of(far));
        let how = if after > before { "larger" } else { "smaller" };
        let is_flat = gradient.abs() < 1e-3;
        book.value("of_large_step", if is_flat { format!("Neither. At w = {w:.4}, the gradient is almost 0, so even a large step hardly changes the weight.") } else { format!("The loss becomes {how}. The training step ends at w = {far:.2}, and the loss changes from {before:.4} to {after:.4}. The gradient only says in which direction the loss falls and how steep the curve is at w. It doesn't say where the lowest point is, so a step that is too large jumps over this point.") });
        book.holds("a large step is worse", after > before);
    });
    Ok(())
}

/// Returns the probability that the model with the single weight `w` gives to "bell" after "the".
fn p_bell(w: f32) -> f32 {
    softmax(&array![w, 0.0], Axis(0))[0]
}

fn small_training(book: &mut Notebook) -> Result<Trained> {
    // A GPT learns in the same way as the model with a single weight, but it has many weights. The
    // model of section 5.1.3 has {book_weights:.0} million weights, so training it takes minutes.
    // (The notebook of the book's training run does this.) This section trains a much smaller GPT.
    // Its text consists of the complete words within the first 5,000 characters of the story. Its
    // tokens are words (section 2.3), because 50,257 tokens would need too many weights.
    book.listing(
        "tests/notebooks/small_model.rs",
        "pub(crate) fn small_loaders(",
    );
    // The small GPT has the same parts as GPT-2, but only {emb_dim} features, four heads, one
    // transformer block and a context length of 16 tokens. It has no dropout, so the loss of a
    // batch depends only on the weights. With {weights:,} weights instead of {book_weights:.0}
    // million, it can be trained in about a second.
    let text = beginning(book.the_verdict()?);
    let (tokenizer, [train_loader, val_loader]) = small_loaders(text)?;
    let config = small_config(tokenizer.vocab_size(), book.input("emb_dim", 32, 4..=64));
    let seed = book.input("seed", 123, ..);
    let mut rng = TorchRng::manual_seed(seed);
    let mut model = GptModel::new(config, &mut rng)?;
    let sizes = [
        ("words in the vocabulary", config.vocab_size),
        ("weights", model.num_parameters()),
        ("batches to train on", train_loader.len()),
        ("batches to validate", val_loader.len()),
    ];
    book.aside(|book| {
        let of_book = GptConfig {
            context_length: 256,
            ..GptConfig::GPT2_124M
        };
        let size = of_book.size().unwrap_or_default();
        book.value("book_weights", size.total() as f64 / 1e6);
    });
    book.value("weights", model.num_parameters());
    book.value("batches", train_loader.len());
    let sizes = sizes.map(|(what, count)| format!("{what:<24} {count:>7}"));
    book.yours("the small model", &sizes.join("\n"));

    // A training step of the small GPT has four parts:
    //
    // - *forward*: the model computes the logits for a batch of inputs;
    // - *loss*: the loss is computed, which is the cross-entropy of the logits and the targets;
    // - *backward*: the gradients are passed back from the loss through all layers, from the last
    //   layer to the first, and each layer computes the gradients of its weights;
    // - *step*: the optimizer changes each weight a little, in the direction opposite to its
    //   gradient.
    //
    // The comments in the code mark the four parts of the training step. The cell prints the loss
    // of the batch before and after the step. The step changes it only a little, because the
    // learning rate is only 0.001. (The training below has its own learning rate.)
    let mut optimizer = AdamW::new(
        AdamWConfig {
            lr: 0.001,
            ..AdamWConfig::default()
        },
        &model,
    )?;
    let mut grads = GptModel::zeros(config)?;
    let batch = train_loader.epoch(&mut rng).next().context("a batch")??;
    let targets: Vec<u32> = batch.target_ids.iter().copied().collect();

    let (logits, cache) = model.forward_train(&batch.input_ids, &mut rng)?; // forward
    let (texts, words, vocab_size) = logits.dim();
    let rows = logits.into_shape_with_order((texts * words, vocab_size))?;
    let (loss, d_logits) = cross_entropy_train(rows, &targets, 1.0); // loss
    let d_logits = d_logits.into_shape_with_order((texts, words, vocab_size))?;
    model.backward(cache, &d_logits, &mut grads); // backward
    let before_step = model.clone();
    let gradients = grads.clone();
    optimizer.step(&mut model, &mut grads); // step
    let new_loss = calc_loss_batch(&batch, &model)?;
    book.holds("the loss of the batch falls", new_loss < loss);
    book.yours(
        "a training step",
        &format!("before {loss:.4}\nafter  {new_loss:.4}"),
    );

    // Are the gradients of the backward pass right? Each of them can be checked by a finite
    // difference, like the gradient of the single weight w. The cell checks three weights of the
    // output layer. It takes the rows of the first three targets, and in each row the weight of the
    // first feature. Compare the two columns of the output: before rounding, they differ by at most
    // {apart}. Here h is 0.05, because the computed loss has only about seven digits, and a
    // smaller h would make the effect of this rounding larger.
    //
    // Computing all {weights:,} gradients by finite differences would take {twice:,} forward passes
    // of the model, whereas the backward pass takes only about as long as two forward passes.
    let mut checks = Vec::new();
    for &target in &targets[..3] {
        let place = [target as usize, 0];
        let loss_at = |change: f32| {
            let mut changed = before_step.clone();
            head_of(&mut changed)[place] += change;
            calc_loss_batch(&batch, &changed)
        };
        let h = 0.05;
        let slope = (loss_at(h)? - loss_at(-h)?) / (2.0 * h);
        let gradient = head_of(&mut gradients.clone())[place];
        checks.push((tokenizer.decode(&[target])?, slope, gradient));
    }
    let mut lines = vec!["weight of          finite difference     backward".to_owned()];
    for (word, slope, gradient) in &checks {
        lines.push(format!("{word:<16} {slope:19.6} {gradient:12.6}"));
    }
    book.value("twice", 2 * model.num_parameters());
    book.yours("three gradients", &lines.join("\n"));
    book.aside(|book| {
        let apart = |(_, slope, gradient): &(String, f32, f32)| (slope - gradient).abs();
        let is_near = checks.iter().all(|it| apart(it) < 2e-4 + 0.02 * it.2.abs());
        book.holds("the gradients agree", is_near);
        let farthest = checks.iter().map(apart).fold(0.0, f32::max);
        book.value("apart", format!("{:.6}", (farthest * 1e6).ceil() / 1e6));
        for (name, is_rising) in [("rising", true), ("falling", false)] {
            let words = checks.iter().filter(|it| (it.2 < 0.0) == is_rising);
            let words: Vec<String> = words.map(|it| format!("\"{}\"", it.0)).collect();
            let none = words.is_empty();
            let words = words.join(" and ");
            book.value(name, if none { "none of them" } else { &words });
        }
    });
    book.asks(
        "A step of gradient descent uses these gradients. For which of the three words does it increase the weight?",
        "It increases a weight if the gradient is negative, and decreases it if the gradient is positive. In the table, the gradient is negative for {rising} and positive for {falling}. All three words are targets, and the gradient of a target's logit is negative at its position. But the gradient of a weight is the logit's gradient times the feature, added up over all positions. A negative feature reverses the sign.",
    );
    // Now look at the sizes of all gradients. The cell sorts the gradients that aren't 0 by their
    // absolute value. ({zeros:%} of the gradients are 0. {all_or_most} of them belong to the
    // embeddings of words that aren't among the inputs of the batch.)
    let mut sizes = Vec::new();
    gradients.visit("", &mut |_, view| {
        sizes.extend(view.iter().map(|gradient| gradient.abs()))
    });
    let all = sizes.len();
    sizes.retain(|&size| size > 0.0);
    sizes.sort_by(f32::total_cmp);
    let [small, large] = [sizes.len() / 100, sizes.len() * 99 / 100].map(|at| sizes[at]);
    let lines = [
        format!("gradients other than 0         {:>9}", sizes.len()),
        format!("the smallest 1% are at most    {small:>9.3e}"),
        format!("the largest 1% are at least    {large:>9.3e}"),
        format!(
            "ratio of the last two numbers  {:>9.0}",
            (large / small).floor()
        ),
    ];
    book.aside(|book| {
        let words: HashSet<&u32> = batch.input_ids.iter().collect();
        book.value("zeros", 1.0 - sizes.len() as f64 / all as f64);
        book.value("spread", (large / small).floor());
        book.holds("gradients differ in size", large > 100.0 * small);
        let idle = (config.vocab_size - words.len()) * config.emb_dim;
        let zeros = all - sizes.len();
        let all_or_most = match idle {
            _ if idle == zeros => "All",
            _ if 2 * idle > zeros => "Most",
            _ => "Many",
        };
        book.value("all_or_most", all_or_most);
        book.holds("all zeros are in the token embedding", idle == zeros);
    });
    book.yours("sizes of the gradients", &lines.join("\n"));

    // The *optimizer* is the rule by which a training step changes the weights. The training step
    // of the single weight used *gradient descent*: weight - learning rate x gradient.
    //
    // Gradient descent has two problems. The gradient of a weight differs from batch to batch, so
    // the steps zigzag. Moreover, the gradients of different weights differ in size. Among the
    // gradients that aren't 0 in the training step above, the largest 1% are at least {spread:,}
    // times as large as the smallest 1%, so no single learning rate suits all weights. The small
    // GPT is therefore trained with the optimizer *AdamW*, which keeps two running means for each
    // weight:
    //
    // - m is the mean of about the last ten gradients of the weight. In this mean, differences
    //   between the batches largely cancel out.
    // - v is the mean of the squares of about the last thousand gradients of the weight. The square
    //   root of v is the typical size of the weight's gradient.
    //
    // In each step, AdamW subtracts learning rate x m / √v from the weight, after it has corrected
    // both means for their start at 0. A weight whose gradients always have the same sign and about
    // the same size therefore moves by about the learning rate in each step, whether its gradients
    // are large or small. A weight whose gradients keep changing sign hardly moves.
    //
    // How does the listing correct the two means? Because they start at 0, they are too small at
    // first. After step 1, m is only 0.1 times the gradient, and v is only 0.001 times its square.
    // In step t, the listing therefore divides m by 1 - 0.9^t and v by 1 - 0.999^t, which gives
    // `m_hat` and `v_hat`. The tiny number `eps` prevents a division by 0 if all gradients of a
    // weight have been 0. (The method `step`, which the cells call, computes the same result
    // faster.)
    book.listing("crates/train/src/adamw.rs", "pub fn step_plain<");
    // In this example, AdamW changes three weights that start at 0. The gradient of the first
    // weight is always 100, the gradient of the second is always 0.001, and the gradient of the
    // third alternates between 1 and -1. The cell prints the weights after twenty steps with a
    // learning rate of 0.01. Guess first: how far does each weight move?
    let mut three = Linear::new(3, 1, false, &mut rng);
    three.weight.fill(0.0);
    let without_decay = AdamWConfig {
        lr: 0.01,
        weight_decay: 0.0,
        ..AdamWConfig::default()
    };
    let mut of_three = AdamW::new(without_decay, &three)?;
    let mut d_three = three.clone();
    for step in 0..20 {
        let sign = if step % 2 == 0 { 1.0 } else { -1.0 };
        d_three.weight.assign(&array![[100.0, 0.001, sign]]);
        of_three.step(&mut three, &mut d_three);
    }
    book.aside(|book| {
        let moved = three.weight.row(0).mapv(f32::abs);
        let is_so = (moved[0] - 0.2).abs() < 1e-3 && (moved[1] - 0.2).abs() < 1e-3;
        let third_moves_little = (moved[2] - 0.0169).abs() < 1e-4;
        book.holds(
            "both move by the learning rate",
            is_so && third_moves_little,
        );
        let kept = (1.0 - AdamWConfig::default().lr * 0.1).powi(1000);
        book.value("kept", kept);
    });
    book.yours("three weights after twenty steps", &three.weight);
    // In twenty steps, the first two weights moved by 20 x 0.01 = 0.2, which is the learning rate
    // in each step, although the first gradient is 100,000 times as large as the second. The third
    // weight moved by only 0.0169. Of this distance, 0.01 comes from the first step, in which m
    // contains only a single gradient.
    book.asks(
        "AdamW makes up for small gradients. Why does a deep network still need shortcut connections (section 4.4)?",
        "AdamW only rescales the gradient of each weight. If a gradient has passed through many layers without shortcuts, it often differs so much from one text to the next that it says little about how the weight should change.",
    );
    // The W in the name AdamW stands for *weight decay*. In each step, AdamW also multiplies each
    // weight by 1 - learning rate x 0.1. In a thousand steps with the book's learning rate, a
    // weight whose gradient is always 0 shrinks to {kept:.3} of its original size. In a
    // long training run, a weight therefore stays large only if its gradients keep it large, which
    // makes it harder for the model to learn a text by heart.
    //
    // Why does the book train with a learning rate of 0.0004? In each step, AdamW usually changes a
    // weight by at most about the learning rate, so the learning rate should be small compared with
    // the weights. In a linear layer with 768 inputs, the initial weights lie between -{bound:.3}
    // and {bound:.3}, so a step changes a typical weight by about {share:%}. In the 90 steps of the
    // book's training run, a weight can move by about 90 x 0.0004 = 0.036, as far as the largest
    // initial weight is from 0. The weights can therefore become quite different, and yet no single
    // batch can destroy what the model has learned from the others. A small model has fewer and
    // larger weights, so it can take larger steps.
    book.aside(|book| {
        let bound = 1.0 / 768f64.sqrt();
        book.value("bound", bound);
        // If numbers are spread evenly between -bound and bound, their root mean square is bound /
        // √3.
        book.value("share", 0.0004 / (bound / 3f64.sqrt()));
    });

    // Now we can train the small GPT. In each *epoch*, training takes one step for each of the
    // {batches} batches. The data loader shuffles the windows again for each epoch. Without
    // shuffling, successive batches would come from the same page and pull the weights in the same
    // direction. The cell prints the training and the validation loss before the training and after
    // each epoch.
    let num_epochs = book.input("num_epochs", 10, 1..=20);
    let mut model = GptModel::new(config, &mut TorchRng::manual_seed(seed))?;
    let lr = book.input("learning_rate", 0.005, 0.0..=10.0);
    let mut optimizer = AdamW::new(
        AdamWConfig {
            lr,
            ..AdamWConfig::default()
        },
        &model,
    )?;
    let prompt = first_words(text, &tokenizer)?;
    let idx = text_to_token_ids(&prompt, &tokenizer)?;
    let continues =
        |model: &GptModel| generate_text_simple(model, idx.clone(), 20, config.context_length);
    let (mut losses, mut samples) = (Vec::new(), Vec::new());
    for epoch in 0..=num_epochs {
        if epoch > 0 {
            for batch in train_loader.epoch(&mut rng) {
                let Batch {
                    input_ids,
                    target_ids,
                } = batch?;
                // forward, loss and backward
                model.loss_and_grads(&input_ids, &target_ids, 1.0, &mut rng, &mut grads)?;
                optimizer.step(&mut model, &mut grads);
            }
        }
        let train_loss = calc_loss_loader(&train_loader, &model, None, &mut rng)?;
        let val_loss = calc_loss_loader(&val_loader, &model, None, &mut rng)?;
        losses.push([train_loss, val_loss]);
        if [0, 1, 3, num_epochs].contains(&epoch) {
            samples.push((epoch, continues(&model)?));
        }
    }
    let line = |(epoch, [train_loss, val_loss]): (usize, &[f64; 2])| {
        format!("{epoch:5} {train_loss:15.3} {val_loss:17.3}")
    };
    let lines: Vec<String> = losses.iter().enumerate().map(line).collect();
    let heading = "epoch   training loss   validation loss\n";
    book.yours("training", &(heading.to_owned() + &lines.join("\n")));
    book.aside(|book| {
        let order =
            |one: &(usize, &[f64; 2]), other: &(usize, &[f64; 2])| one.1[1].total_cmp(&other.1[1]);
        let best = losses
            .iter()
            .enumerate()
            .min_by(order)
            .map_or(0, |(epoch, _)| epoch);
        let last = losses[num_epochs];
        book.value("last_train_loss", last[0]);
        book.value("first_train_loss", losses[0][0]);
        book.value("of_a_guess_here", (config.vocab_size as f64).ln());
        let of_a_guess = (config.vocab_size as f64).ln();
        let is_worse = last[1] > losses[0][1].max(of_a_guess) && last[1] < 15.0;
        let worse = format!("On the text that it hasn't seen, the trained model is even worse than a model that gives all words the same probability. Its perplexity (section 5.1.2) is {:.1} for the training text, but {:.0} for the validation text, although the vocabulary has only {} words.", perplexity(last[0]), perplexity(last[1]), config.vocab_size);
        book.value("worse_than_a_guess", if is_worse { &worse } else { "" });
        let of_new = of_new_words(&model, text, &tokenizer).unwrap_or_default();
        let has_learned = last[0] < of_a_guess - 1.0;
        book.value("of_new_words", if is_worse && has_learned { &of_new } else { "" });
        book.holds("the last validation loss is that of no guess", is_worse);
        let [best_loss, last_loss] = [losses[best][1], last[1]];
        let when_to_stop = if best == 0 {
            format!("The validation loss never falls below its initial value of {best_loss:.2}, so this training doesn't make the model better at predicting a text that it hasn't seen.")
        } else if best == num_epochs {
            format!("The validation loss is lowest after the last epoch, at {best_loss:.2}. Keep this model. You could also train it for more epochs to see whether it improves further.")
        } else {
            format!("You should stop after epoch {best}. The model then has its lowest validation loss, {best_loss:.2}, so it is best at predicting a text that it hasn't seen. After the last epoch, the validation loss is {last_loss:.2}.")
        };
        book.value("when_to_stop", when_to_stop);
        let is_overfit = best > 0 && best < num_epochs && last[1] > losses[best][1] + 0.3;
        book.holds(
            "the model overfits",
            is_overfit && last[0] < 0.5 * losses[best][0],
        );
        let apart = (losses[0][0] - (config.vocab_size as f64).ln()).abs();
        book.holds("the first loss is that of a guess", apart < 0.4);
    });
    book.draws("The losses of the small model", || {
        let of = |name: &str, part: usize| Line {
            name: name.to_owned(),
            points: (0u32..)
                .zip(&losses)
                .map(|(epoch, losses)| (f64::from(epoch), losses[part]))
                .collect(),
            ..Line::default()
        };
        let curves = Chart {
            title: "The losses of the small model",
            x: "epoch",
            y: "cross-entropy of a token",
            lines: vec![of("training", 0), of("validation", 1)],
            log_y: false,
        };
        chart(&curves, PLAIN)
    });
    book.asks(
        "After which epoch would you stop and keep the model?",
        "{when_to_stop}",
    );
    // Compare the curves of the training loss and the validation loss. The training loss starts at
    // {first_train_loss:.2}, close to ln V = {of_a_guess_here:.2}, which is the loss of a model
    // that gives all V tokens of the vocabulary the same probability. At the end, the training loss
    // is {last_train_loss:.2}. {worse_than_a_guess}
    //
    // {of_new_words}
    //
    // If the training loss falls while the validation loss rises, the model *overfits*: it learns
    // the training text by heart, and what it learns doesn't help with a different text. More text,
    // a smaller model, dropout, weight decay and stopping earlier reduce overfitting.

    // Before the training, and after some of the epochs, the model continued the first four words
    // of its training text, "{first_words}", by greedy decoding. Compare the texts.
    let mut lines = Vec::new();
    for (epoch, token_ids) in &samples {
        let text = token_ids_to_text(token_ids, &tokenizer)?;
        lines.push(format!("epoch {epoch:2}: {text}"));
    }
    book.value("first_words", &prompt);
    book.yours("what the model writes", &lines.join("\n"));
    let pairs = pairs_of(text, &tokenizer)?;
    book.aside(|book| {
        let of = |(_, token_ids): &(usize, Array2<u32>)| {
            let ids = token_ids.row(0).to_vec();
            variety(&ids[ids.len() - 21..], &pairs)
        };
        let [Some([_, first_known]), Some([distinct, known])] =
            [samples.first().map(of), samples.last().map(of)]
        else {
            return;
        };
        book.value("first_known", first_known);
        let of_second = samples.get(1).map(of);
        let is_learning = losses.get(1).is_some_and(|loss| loss[0] < losses[0][0]);
        let is_frequent = of_second.is_some_and(|[distinct, _]| distinct < 8);
        let is_frequent = is_frequent && is_learning && num_epochs > 1;
        let of_first_epoch = match is_frequent {
            true => "After epoch 1, it has hardly learned more than which words and punctuation marks are frequent.",
            false => "",
        };
        book.value("of_first_epoch", of_first_epoch);
        book.value("distinct", distinct);
        book.value("known_pairs", known);
        let copied = samples.last().map_or(0, |(_, token_ids)| {
            longest_copy(&token_ids.row(0).to_vec()[idx.ncols()..], text, &tokenizer)
        });
        let of_copy = format!("The longest piece of the last text that is copied word for word has {copied} words or punctuation marks.");
        book.value("of_copy", if copied >= 3 { &of_copy } else { "" });
    });
    // We call two neighboring words (or punctuation marks) a *known pair* if they are also
    // neighbors in the training text. The first text adds {first_known} known pairs to the prompt,
    // and the last adds {known_pairs}, out of 20. {of_copy} {of_first_epoch} The more the model
    // learns which words follow each other, the more known pairs it writes, but that alone doesn't
    // make a meaningful sentence.
    book.asks(
        "Does the last text repeat itself? Why is this typical of greedy decoding?",
        "Of the 20 new words and punctuation marks, {distinct} are different. Longer texts repeat themselves more often, because greedy decoding always makes the same choice in the same situation. If a text returns to words that it contained before, the most probable continuation is often the same as before, so the text goes around in a circle. Section 5.3 draws words at random, which breaks the circle, and counts the repetitions.",
    );
    // Long training runs also use three other techniques (appendix D of the book). The command `gpt
    // train` has an option for each of them:
    //
    // - *Warmup* (`--warmup-steps`): the learning rate starts near 0 and increases. In the first
    //   steps, AdamW's means m and v contain only a few gradients, so m follows single batches and
    //   v is a poor estimate of a gradient's typical size. These steps should therefore be small.
    // - *Cosine decay* (`--min-lr`): after the warmup, the learning rate falls along half a period
    //   of a cosine. Small steps at the end of the training let the weights settle instead of
    //   jumping around the lowest point of the loss.
    // - *Clipping* (`--grad-clip`): the *norm* of the gradients is the square root of the sum of
    //   their squares. If it exceeds a limit, all gradients are multiplied by the same factor, so
    //   that their norm equals the limit. This way, a single unusual batch has only a limited
    //   effect on m and v.
    book.draws("Warmup and cosine decay", || {
        let schedule = Schedule {
            warmup_steps: 20,
            total_steps: 100,
            initial_lr: 0.00002,
            min_lr: 0.00004,
        };
        let rates = (0..=100u32).map(|step| {
            let rate = schedule.learning_rate(u64::from(step), 0.0004);
            (f64::from(step), rate)
        });
        let rate = Line {
            name: "learning rate".to_owned(),
            points: rates.collect(),
            ..Line::default()
        };
        let rates = Chart {
            title: "The learning rate with warmup and cosine decay",
            x: "step",
            y: "learning rate",
            lines: vec![rate],
            log_y: false,
        };
        chart(&rates, PLAIN)
    });
    Ok(Trained {
        model,
        tokenizer,
        prompt,
        pairs,
    })
}

/// Explains why the trained small model is so bad at predicting the validation part of its `text`.
/// Returns an empty string if the words that occur only in this part aren't a reason.
fn of_new_words(model: &GptModel, text: &str, tokenizer: &SimpleTokenizerV1) -> Result<String> {
    let ids = tokenizer.encode(text)?;
    let (train_ids, val_ids) = ids.split_at(ids.len() * 9 / 10);
    let known: HashSet<&u32> = train_ids.iter().collect();
    // Losses of the new words and of the others.
    let mut losses = [Vec::new(), Vec::new()];
    for window in val_ids.windows(17).step_by(16) {
        let logits = model.forward(&Array2::from_shape_vec((1, 16), window[..16].to_vec())?)?;
        for (logits, &target) in logits
            .index_axis(Axis(0), 0)
            .rows()
            .into_iter()
            .zip(&window[1..])
        {
            let row = logits.to_owned().insert_axis(Axis(0));
            let is_known = known.contains(&target);
            losses[usize::from(is_known)].push(cross_entropy(&row, &[target]));
        }
    }
    let [new, others] = losses;
    let mean = |losses: &[f32]| losses.iter().sum::<f32>() / losses.len().max(1) as f32;
    let (of_new, of_others) = (mean(&new), mean(&others));
    if new.len() < 2 || of_new <= of_others {
        return Ok(String::new());
    }
    Ok(format!(
        "Why is it so bad? It has become sure of the words that follow in the training text, and being sure of a wrong word is worse than being undecided (section 5.1.2). Moreover, the vocabulary contains the words of both parts, but training makes all words improbable that it never sees as targets. Of the {} targets in the validation part, {} don't occur in the training part. Their mean loss is {of_new:.1}, whereas it is {of_others:.1} for the other targets.",
        new.len() + others.len(),
        new.len()
    ))
}

/// Returns the output layer's weights, of shape (vocab_size, emb_dim).
fn head_of(model: &mut GptModel) -> &mut Array2<f32> {
    let head = model.out_head.as_mut();
    &mut head
        .expect("the model has an output layer of its own")
        .weight
}

fn decoding_strategies(book: &mut Notebook) -> Result<()> {
    book.section("5.3.1", "Temperature scaling");
    // Greedy decoding (section 4.7) generates the same text in every run, and this text often
    // repeats itself. The goal of this section is to draw the next token at random instead, and to
    // control the randomness of the draws by one number, the *temperature*.
    //
    // In the example, a model with a vocabulary of nine words has computed a logit for each word
    // after the text "every effort moves you". Greedy decoding chooses the word with the largest
    // logit.
    let vocab = VOCAB;
    #[expect(clippy::approx_constant, reason = "6.28 is a logit")]
    let next_token_logits = array![4.51, 0.89, -1.90, 6.75, 1.63, -1.62, -1.89, 6.28, 1.79];
    let probas = softmax(&next_token_logits, Axis(0));
    let next_token_id = greedy_id(&probas)?;
    book.prints("In [30]", vocab[next_token_id as usize], "forward");

    // Now the next word is drawn at random, according to the probabilities that softmax computes
    // from the logits. {of_drawn} Try other seeds.
    let mut rng = TorchRng::manual_seed(book.input("seed", 123, ..));
    let next_token_id = rng.multinomial(&probas.to_vec());
    book.aside(|book| {
        let of_drawn = match next_token_id {
            FORWARD => format!("The drawn word is \"forward\", as with greedy decoding. This is no surprise, because its probability is {:.0}%.", 100.0 * probas[FORWARD]),
            id => format!("The drawn word is \"{}\", whereas greedy decoding chose \"forward\".", vocab[id]),
        };
        book.value("of_drawn", of_drawn);
    });
    book.prints("In [31]", vocab[next_token_id], "forward");

    // In a thousand draws, the number of times that a word is drawn is close to a thousand times
    // its probability. The word "forward" has a probability of {p_forward:.3} and is drawn
    // {n_forward} times. The word "toward" has a probability of {p_toward:.3} and is drawn
    // {n_first_toward} times. (The seed field above doesn't affect these draws.)
    let sampled_ids = sampled_tokens(&probas);
    book.value("p_forward", probas[FORWARD]);
    book.value("n_forward", sampled_ids[FORWARD]);
    book.value("p_toward", probas[TOWARD]);
    book.value("n_first_toward", sampled_ids[TOWARD]);
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

    // In temperature scaling, the logits are divided by the temperature T before softmax is
    // applied:
    book.listing(
        "tests/notebooks/formulas.rs",
        "pub(crate) fn softmax_with_temperature(",
    );
    // What effect does dividing the logits by T have? Softmax turns the difference between two
    // logits into the ratio of their probabilities, e^difference (section 3.3.1). Dividing the
    // difference by T raises this ratio to the power 1/T. A temperature of 1 leaves all
    // probabilities as they are, and "forward" is then {ratio} times as probable as "toward". With
    // T = {temperature}, it is {ratio_of_colder} times as probable, because the ratio is raised to
    // the power 1/{temperature}.
    //
    // With this temperature, "toward" is expected {expected_toward:.0} times in a thousand draws,
    // and it is drawn {n_toward} times. {of_difference}
    let temperature = book.input("temperature", 0.1, 0.001..=1000.0);
    let colder = softmax_with_temperature(&next_token_logits, temperature)?;
    let of_colder = temperature;
    book.aside(|book| {
        let ratio = |probas: &Array1<f32>| probas[FORWARD] / probas[TOWARD];
        let power = 1.0 / temperature;
        book.value("ratio", significant(ratio(&probas)));
        book.value("ratio_of_colder", significant(ratio(&colder)));
        book.value("expected_toward", 1000.0 * colder[TOWARD]);
        let n_toward = sampled_tokens(&colder)[TOWARD];
        book.value("n_toward", n_toward);
        book.value("of_difference", of_difference(n_toward, colder[TOWARD]));
        let error = ratio(&colder) / ratio(&probas).powf(power) - 1.0;
        book.holds("the ratio is raised to the power 1/T", error.abs() < 1e-3);
    });
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

    // At a temperature above 1, the ratio of any two probabilities is raised to a power below 1,
    // which brings the probabilities closer together. The generated text then becomes more varied,
    // but unsuitable words become more probable.
    //
    // With T = {temperature}, "forward" is {ratio_of_hotter} times as probable as "toward". As the
    // continuation of "every effort moves you", the word "pizza" has a probability of {p_pizza:.4}
    // at T = 1 and of {p_pizza_hotter:.4} at T = {temperature}. Compare the counts with those of In
    // [32], where it was never drawn. Now it is expected {expected_pizza:.0} times in a thousand
    // draws, and it is drawn {n_pizza} times.
    let temperature = book.input("temperature", 5.0, 0.001..=1000.0);
    let hotter = softmax_with_temperature(&next_token_logits, temperature)?;
    book.aside(|book| {
        let ratio_of_hotter = significant(hotter[FORWARD] / hotter[TOWARD]);
        book.value("ratio_of_hotter", ratio_of_hotter);
        book.value("p_pizza", probas[PIZZA]);
        book.value("p_pizza_hotter", hotter[PIZZA]);
        book.value("expected_pizza", 1000.0 * hotter[PIZZA]);
        book.value("n_pizza", sampled_tokens(&hotter)[PIZZA]);
    });
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

    book.draws("The probabilities at three temperatures", || {
        let name = |temperature: f32| format!("temperature {temperature}");
        let groups = [
            (name(of_colder), &colder),
            (name(1.0), &probas),
            (name(temperature), &hotter),
        ];
        bars(&Bars {
            title: "Temperature scaling",
            x: "next token",
            y: "probability",
            labels: &vocab,
            groups: &groups
                .each_ref()
                .map(|(name, probas)| (&**name, probas.iter().map(|&p| f64::from(p)).collect())),
        })
    });

    book.asks(
        "What is the effect of a temperature of 0.001? And of a temperature of 1000?",
        "At a temperature of 0.001, the most probable word has a probability of {of_coldest:.3}, so sampling is almost the same as greedy decoding. At a temperature of 1000, all probabilities lie between {least_of_hottest} and {most_of_hottest}, so the nine words are about equally probable, and the text becomes nonsense. Try both temperatures in the fields.",
    );
    book.aside(|book| {
        let at = |temperature| softmax_with_temperature(&next_token_logits, temperature);
        let [Ok(coldest), Ok(hottest)] = [at(0.001), at(1000.0)] else {
            return;
        };
        book.value("of_coldest", coldest[FORWARD]);
        // The lower bound is rounded down and the upper bound is rounded up, so that all
        // probabilities lie between them.
        let least = (1e4 * hottest.fold(1.0f32, |a, &b| a.min(b))).floor() / 1e4;
        let most = (1e4 * hottest.fold(0.0f32, |a, &b| a.max(b))).ceil() / 1e4;
        book.value("least_of_hottest", format!("{least:.4}"));
        book.value("most_of_hottest", format!("{most:.4}"));
        let is_so = coldest[FORWARD] > 0.999 && hottest.iter().all(|p| (p - 0.111).abs() < 0.001);
        book.holds("0.001 is greedy, and 1000 makes all words equal", is_so);
    });
    book.section("5.3.2", "Top-k sampling");
    // A high temperature makes a text varied, but it also increases the probabilities of words that
    // don't fit. Each of these words is improbable, but a vocabulary of 50,257 tokens has so many
    // of them that one is often drawn. *Top-k sampling* excludes these words: only the k most
    // probable tokens can be drawn.

    // Top-k sampling keeps the k largest logits, here with k = {top_k}. The first output shows
    // these logits, and the second shows the ids of their words: {kept_words}.
    let top_k = book.input("top_k", 3, 1..=8);
    let new_logits = top_k_filter(&next_token_logits, top_k);
    let mut top_pos: Vec<usize> = (0..vocab.len())
        .filter(|&id| new_logits[id].is_finite())
        .collect();
    top_pos.sort_by(|&one, &other| new_logits[other].total_cmp(&new_logits[one]));
    book.aside(|book| {
        let kept = top_pos.iter().map(|&id| format!("\"{}\"", vocab[id]));
        book.value("kept_words", kept.collect::<Vec<_>>().join(", "));
    });
    let top_logits = new_logits.select(Axis(0), &top_pos);
    book.prints(
        "In [37]",
        &top_logits,
        "Top logits: tensor([6.7500, 6.2800, 4.5100])",
    );
    book.prints("In [37]", &top_pos, "Top positions: tensor([3, 7, 0])");

    // Top-k sampling replaces the logits of all other words with minus infinity, as the causal mask
    // does with the scores of later words.
    book.listing("tests/notebooks/formulas.rs", "pub(crate) fn top_k_filter(");
    // In the output, top-k sampling has replaced {excluded:w} of the nine logits with minus
    // infinity. The others are unchanged.
    book.value("excluded", vocab.len() - top_pos.len());
    book.prints(
        "In [38]",
        &new_logits,
        "tensor([4.5100,   -inf,   -inf, 6.7500,   -inf,   -inf,   -inf, 6.2800,   -inf])",
    );

    // Softmax gives the excluded words a probability of 0, because e to the power of minus infinity
    // is 0. The probabilities of the remaining words are multiplied by a common factor, so that
    // they sum to 1 again. For example, the probability of "forward" changes from {p_forward:.4} to
    // {p_forward_of_top:.4}.
    let topk_probas = softmax(&new_logits, Axis(0));
    book.value("p_forward_of_top", topk_probas[FORWARD]);
    book.prints(
        "In [39]",
        &topk_probas,
        "tensor([0.0615, 0.0000, 0.0000, 0.5775, 0.0000, 0.0000, 0.0000, 0.3610, 0.0000])",
    );
    book.asks(
        "Why does top-k sampling replace the logits with minus infinity and not with 0?",
        "A logit of 0 doesn't mean a probability of 0. Softmax computes e^0 = 1 for it, so the word could still be drawn. In this example, {n_negative:w} of the nine logits are negative, and replacing them with 0 would even make their words more probable.",
    );
    book.aside(|book| {
        let n_negative = next_token_logits.iter().filter(|&&it| it < 0.0).count();
        book.value("n_negative", n_negative);
    });
    book.draws("The probabilities before and after top-k", || {
        let name = format!("top {top_k}");
        let groups = [("all tokens", &probas), (&*name, &topk_probas)];
        bars(&Bars {
            title: &format!("Top-k sampling, k = {top_k}"),
            x: "next token",
            y: "probability",
            labels: &vocab,
            groups: &groups
                .map(|(name, probas)| (name, probas.iter().map(|&p| f64::from(p)).collect())),
        })
    });
    book.asks(
        "Suppose that top-k sampling keeps two words. Does it change the ratio of their probabilities?",
        "No. The ratio depends only on the difference between the two logits, and top-k sampling doesn't change the logits that it keeps. As long as it keeps both \"forward\" and \"toward\", the first is {ratio} times as probable as the second. Only a temperature changes this ratio.",
    );
    // Now we combine the two methods: the logits that top-k sampling keeps are divided by the
    // temperature before softmax is applied. The words that are excluded here were drawn
    // {n_excluded} times in In [36]. Now they are never drawn, however high the temperature is.
    let temperature = book.input("temperature", 5.0, 0.001..=1000.0);
    let both = softmax_with_temperature(&new_logits, temperature)?;
    book.aside(|book| {
        let hot = sampled_tokens(&hotter);
        let excluded = (0..vocab.len()).filter(|id| !top_pos.contains(id));
        book.value("n_excluded", excluded.map(|id| hot[id]).sum::<u64>());
        let drawn = sampled_tokens(&both);
        let mut excluded = (0..vocab.len()).filter(|id| !top_pos.contains(id));
        book.holds(
            "no excluded word is drawn",
            excluded.all(|id| drawn[id] == 0),
        );
    });
    book.yours("top-k with a temperature", &both);
    // How large should k be? No number suits every position. After "once upon a", hardly any word
    // but "time" fits, so a large k admits unsuitable words. After "her name was", hundreds of
    // names fit, so a small k excludes suitable ones. A k of 40 is a common choice. OpenAI used
    // it for its published samples of GPT-2's texts.
    book.asks(
        "What does top-k sampling do with k = 1? Does the temperature still matter?",
        "It always chooses the most probable token, like the greedy decoding of section 4.7. The temperature doesn't matter, because only one token remains, and its probability is 1.",
    );
    Ok(())
}

/// The small model after its training, with the data that is needed to generate text.
struct Trained {
    model: GptModel,
    tokenizer: SimpleTokenizerV1,
    /// First words of the training text. They are the prompt with which the model generates text.
    prompt: String,
    /// All pairs of neighboring tokens in the training text.
    pairs: HashSet<Vec<u32>>,
}

/// Returns all pairs of neighboring tokens in the part of the text on which the small model is
/// trained.
fn pairs_of(text: &str, tokenizer: &SimpleTokenizerV1) -> Result<HashSet<Vec<u32>>> {
    let ids = tokenizer.encode(text)?;
    let train_ids = &ids[..ids.len() * 9 / 10];
    Ok(train_ids.windows(2).map(<[u32]>::to_vec).collect())
}

/// Returns the length of the longest sequence of generated tokens that also occurs in the part of
/// the text on which the small model is trained.
fn longest_copy(ids: &[u32], text: &str, tokenizer: &SimpleTokenizerV1) -> usize {
    let train_ids = tokenizer.encode(text).unwrap_or_default();
    let train_ids = &train_ids[..train_ids.len() * 9 / 10];
    let occurs = |piece: &[u32]| train_ids.windows(piece.len()).any(|it| it == piece);
    let is_copied = |&length: &usize| ids.windows(length).any(occurs);
    (1..=ids.len()).take_while(is_copied).last().unwrap_or(0)
}

/// Returns the number of distinct generated tokens, and how many of the generated tokens form one
/// of the `pairs` with the token before them. The first of the `ids` is the last token of the
/// prompt, so it doesn't count as generated.
fn variety(ids: &[u32], pairs: &HashSet<Vec<u32>>) -> [usize; 2] {
    let distinct: HashSet<&u32> = ids[1..].iter().collect();
    let known = ids.windows(2).filter(|&pair| pairs.contains(pair));
    [distinct.len(), known.count()]
}

fn writing(book: &mut Notebook, trained: Trained) -> Result<()> {
    book.section("5.3.3", "Modifying the text generation function");
    // So far, we have drawn a single word from a list of nine. Does drawing at random also help a
    // trained model, and what does it cost? The goal of this section is to write a function that
    // generates text with a temperature and top-k sampling, and to compare its texts with those of
    // greedy decoding.
    //
    // The function is the greedy loop of section 4.7 with a top-k filter before softmax and a
    // random draw after it. As in section 4.7, only the last position predicts a new token. The
    // filter can be applied before the temperature, because dividing the logits by a positive
    // number doesn't change their order. The logits can't be divided by 0, so temperature 0 means
    // greedy decoding, which very small temperatures approach. The function can also stop when it
    // draws the token `eos_id`. In training texts, this token separates one text from the next, so
    // a trained model predicts it at the end of a text.
    book.listing("crates/generate/src/book.rs", "pub fn generate(");
    // In this cell, the small GPT of section 5.2 continues the first words of its training text.
    // Compare the result with the last text of section 5.2, which greedy decoding generated. Then
    // change the fields. With k = 1, the function generates the same text as greedy decoding. With
    // a high temperature and a large k, all words become about equally probable.
    let Trained {
        model,
        tokenizer,
        prompt,
        pairs,
    } = trained;
    let mut rng = TorchRng::manual_seed(book.input("seed", 123, ..));
    let sampling = BookSampling {
        max_new_tokens: book.input("max_new_tokens", 20, 1..=100),
        context_size: model.config().context_length,
        top_k: Some(book.input("top_k", 25, 1..=1000)),
        temperature: book.input("temperature", 1.4, 0.0..=100.0),
        eos_id: None,
    };
    let idx = text_to_token_ids(&prompt, &tokenizer)?;
    let token_ids = generate(&model, idx.clone(), sampling, &mut rng)?;
    book.yours(
        "drawn with top-k and temperature",
        &token_ids_to_text(&token_ids, &tokenizer)?,
    );
    book.asks(
        "Does the text repeat words, and does each pair of neighboring words make sense?",
        "{of_drawn_text}",
    );
    book.aside(|book| {
        let ids = token_ids.row(0).to_vec();
        let [distinct, known] = variety(&ids[idx.ncols() - 1..], &pairs);
        let text = token_ids_to_text(&token_ids, &tokenizer).unwrap_or_default();
        let example = match text.contains("on its in were") {
            true => " But \"on its in were\" makes no sense.",
            false => " Read the other pairs to find out whether they make sense.",
        };
        book.value("of_drawn_text", format!("Of the {} new words and punctuation marks, {distinct} are different, and {known} form a known pair (section 5.2) with the one before them.{example}", sampling.max_new_tokens));
        let greedy = BookSampling {
            top_k: None,
            temperature: 0.0,
            ..sampling
        };
        let only_one = BookSampling {
            top_k: Some(1),
            ..sampling
        };
        let [greedy, only_one] =
            [greedy, only_one].map(|it| generate(&model, idx.clone(), it, &mut rng).ok());
        let is_so = greedy.is_some() && greedy == only_one && greedy.as_ref() != Some(&token_ids);
        book.holds("k = 1 is greedy, and this text isn't", is_so);
    });
    // A single text proves little. This cell therefore generates 500 words at each of four
    // temperatures, all with k = {top_k}. (Temperature 0 means greedy decoding, and punctuation
    // marks count as words.) It counts the different words and the known pairs. {compromise}
    let mut lines = vec!["temperature   different words   known pairs".to_owned()];
    let mut counts = Vec::new();
    for temperature in [0.0, 0.5, 1.4, 5.0] {
        let sampling = BookSampling {
            max_new_tokens: 500,
            temperature,
            ..sampling
        };
        let ids = generate(&model, idx.clone(), sampling, &mut rng)?;
        let [distinct, known] = variety(&ids.row(0).to_vec()[idx.ncols() - 1..], &pairs);
        lines.push(format!("{temperature:11.1} {distinct:17} {known:13}"));
        counts.push([distinct, known]);
    }
    book.aside(|book| {
        let [greedy, low, high] = [counts[0], counts[1], counts[2]];
        let is_so = greedy[0] < low[0] && low[0] < high[0] && low[1] > high[1] + 50;
        let of_greedy = match greedy[1] > low[1] {
            true => format!(" (A model that copies its training text also writes known pairs, so the {} known pairs of greedy decoding don't show that its text is good.)", greedy[1]),
            false => String::new(),
        };
        let compromise = format!("Greedy decoding uses only {} different words. At temperature 1.4, the text has {} different words, but only {} known pairs. At temperature 0.5, it has {} known pairs and still {} different words, so this temperature is a better compromise for such a weak model.{of_greedy}", greedy[0], high[0], high[1], low[1], low[0]);
        book.value("compromise", if is_so { &compromise } else { "" });
        book.holds("a low temperature is a compromise", is_so);
        let hottest = counts[3];
        let loses_more = hottest[0] < high[0] + (high[1].saturating_sub(hottest[1]));
        let loses_more = loses_more && hottest[0] >= high[0];
        let verdict = match loses_more {
            _ if hottest == high => "It makes no difference. The text has as many different words and known pairs as before.".to_owned(),
            true => format!("No. The text gains only {} different words, but it has {} fewer known pairs.", hottest[0].saturating_sub(high[0]), high[1].saturating_sub(hottest[1])),
            false => format!("The number of different words changes from {} to {}, and the number of known pairs changes from {} to {}.", high[0], hottest[0], high[1], hottest[1]),
        };
        book.value("from_high_to_hottest", verdict);
        book.holds("5.0 loses more than it gains", loses_more);
    });
    book.yours("variety and quality", &lines.join("\n"));
    book.asks(
        "Is it worth raising the temperature from 1.4 to 5.0? Use the table to compare what the text gains with what it loses.",
        "{from_high_to_hottest}",
    );
    book.asks(
        "Should a program that writes code use a high or a low temperature? And what about a program that invents names for a shop?",
        "A low temperature is better for code, which must be correct: at most positions, only a few tokens are right. A high temperature is better for names, which should be surprising, and a bad suggestion does no harm.",
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

/// IDs of three of the words in [`VOCAB`].
const FORWARD: usize = 3;
const PIZZA: usize = 6;
const TOWARD: usize = 7;

/// Vocabulary of the example in section 5.3. The index of a word is its ID.
const VOCAB: [&str; 9] = [
    "closer", "every", "effort", "forward", "inches", "moves", "pizza", "toward", "you",
];

/// Returns how often each word of [`VOCAB`] was drawn, one word per line, as the book prints it. If
/// `counts` is shorter than the vocabulary, the last words are left out.
pub(crate) fn with_words(counts: Vec<u64>) -> Lines<u64> {
    Lines::new(counts, |id, count| format!("{count} x {}", VOCAB[id]))
}

/// Says how probable it is that a word with the probability `p` is drawn at least `count` times in
/// a thousand draws, or at most `count` times if fewer draws than expected gave this word.
fn of_difference(count: u64, p: f32) -> String {
    let p = f64::from(p);
    let (mut term, mut below) = ((1.0 - p).powi(1000), 0.0); // (1 - p)^1000 is 0 for a large p
    let is_small = term > 0.0;
    for k in 0..count {
        below += term;
        term *= (1000 - k) as f64 / (k + 1) as f64 * p / (1.0 - p);
    }
    let (most, probability) = match count as f64 > 1000.0 * p {
        true => ("at least", 1.0 - below),
        false => ("at most", below + term),
    };
    match is_small && (0.005..0.3).contains(&probability) {
        _ if count as f64 == (1000.0 * p).round() => String::new(),
        true => format!(
            "In about {:.0}% of all runs of a thousand draws, it is drawn {most} {count} times, so the difference can be due to chance.",
            100.0 * probability
        ),
        false => {
            "Differences between these counts are normal, because the draws are random.".to_owned()
        }
    }
}

/// Draws an ID 1,000 times with the probabilities `probas` and returns how often each ID was drawn,
/// like the book's `print_sampled_tokens`. The random numbers always start from seed 123.
pub(crate) fn sampled_tokens(probas: &Array1<f32>) -> Vec<u64> {
    let mut rng = TorchRng::manual_seed(123);
    let mut sampled_ids = vec![0; probas.len()];
    for _ in 0..1000 {
        sampled_ids[rng.multinomial(&probas.to_vec())] += 1;
    }
    sampled_ids
}
