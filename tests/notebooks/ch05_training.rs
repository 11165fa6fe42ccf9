//! Rust port of section 5.2 of ch05.ipynb, in which the model is trained for ten epochs with seed
//! 123 and then generates text.
//!
//! Cells are numbered as in revision 27d52d6 of the book's repository. This is the last revision
//! whose outputs were computed on a CPU.
//!
//! The token ids that the model generates are compared with ids from PyTorch. We obtained these by
//! running the same training loop in PyTorch 2.4 with the dropout masks of [`Build::Portable`].
//! Decoded, they give the text that the book prints.

use anyhow::Result;
use dataloader::DataLoader;
use generate::{BookSampling, generate, generate_text_simple};
use gpt::{GptConfig, GptModel};
use ndarray::{Array1, Array2, Axis, s, stack};
use pictures::{Chart, Line, Picture, chart};
use tokenizer::{Gpt2Tokenizer, Tokenizer, text_to_token_ids, token_ids_to_text};
use torch_rng::{Build, TorchRng};
use train::{AdamW, AdamWConfig, Event, SimpleTraining, train_model_simple};

use crate::ch05::loaders;
use crate::small_model::{beginning, first_words, small_config, small_loaders};
use crate::{Notebook, numbers};

const ROUNDING_GROWS: &str = "rounding differences grow over 90 steps";
const PYTORCH: &str = "the ids of PyTorch 2.4's run of the same loop";

pub(crate) fn run(book: &mut Notebook) -> Result<()> {
    book.opens(
        "The book's training run: ten epochs on a short story, with the losses and a sample of the model's text after each epoch. Then the trained model generates more text. The interactive pages train the small model of section 5.2 instead, which takes about a second, and show the book's output next to that of the small model.",
        "chapter 5 up to section 5.2, which explains what a training step does.",
        15,
    );
    if let Some(trained) = book.part(training) {
        book.part(|book| trained_model(book, trained));
    }
    Ok(())
}

/// Settings for a training run, which trains either the book's model or the small model of section
/// 5.2.
struct Run {
    is_small: bool,
    config: GptConfig,
    optimizer: AdamWConfig,
    loaders: [DataLoader; 2],
    tokenizer: Box<dyn Tokenizer>,
    /// Prompt for the sample that the model generates after each epoch.
    start_context: String,
}

/// Returns the settings for the book's training run. `config` is the configuration of the model to
/// train.
fn run_of_book(text: &str, config: GptConfig) -> Result<Run> {
    let tokenizer = Gpt2Tokenizer::new();
    Ok(Run {
        is_small: false,
        config,
        optimizer: AdamWConfig::default(), // learning rate 0.0004, weight decay 0.1
        loaders: loaders(text, &tokenizer)?,
        tokenizer: Box::new(tokenizer),
        start_context: "Every effort moves you".to_owned(),
    })
}

/// Returns the settings for training the small model on the beginning of `text`.
fn small_run(text: &str) -> Result<Run> {
    let text = beginning(text);
    let (tokenizer, loaders) = small_loaders(text)?;
    Ok(Run {
        is_small: true,
        config: small_config(tokenizer.vocab_size(), 32),
        optimizer: AdamWConfig {
            lr: 0.005,
            ..AdamWConfig::default()
        },
        loaders,
        start_context: first_words(text, &tokenizer)?,
        tokenizer: Box::new(tokenizer),
    })
}

/// A trained model, together with everything needed to generate text or to continue training.
struct Trained {
    model: GptModel,
    optimizer: AdamW,
    loaders: [DataLoader; 2],
    tokenizer: Box<dyn Tokenizer>,
    start_context: String,
}

fn training(book: &mut Notebook) -> Result<Trained> {
    book.section("5.2", "Training an LLM");
    // The goal of this notebook is to reproduce the book's complete training run, in which the
    // model of section 4.6 is trained on the story for ten epochs. Section 5.2 of chapter 5's
    // notebook explains the four parts of a training step: forward, loss, backward and step.
    // Listing 5.3 of the book contains the loop over the training steps. At every fifth step, this
    // loop measures the training loss and the validation loss. After each epoch, the model
    // generates a sample of text.
    book.listing("crates/train/src/simple.rs", "pub fn train_model_simple(");
    // The picture shows the losses that the book prints. The training loss falls below 0.5. The
    // validation loss is lowest in epoch 7 and then rises, because the model overfits. (The number
    // in parentheses after each step is the number of tokens read so far.)
    book.draws("Losses that the book prints", || {
        let rows: Vec<f64> = numbers(LOSSES).iter().map(|(number, _)| *number).collect();
        losses(&[], rows.chunks(4), 512)
    });
    book.aside(|book| {
        let rows: Vec<f64> = numbers(LOSSES).iter().map(|(number, _)| *number).collect();
        let best = rows
            .chunks(4)
            .min_by(|one, other| one[3].total_cmp(&other[3]));
        let last = rows.chunks(4).next_back();
        let is_so = best.is_some_and(|row| row[0] == 7.0) && last.is_some_and(|row| row[2] < 0.5);
        book.holds("the book's best epoch is the seventh", is_so);
    });
    // This cell trains {which}. {outcome}
    let run = if book.takes_small_model(false) {
        small_run(book.the_verdict()?)?
    } else {
        let config = GptConfig {
            context_length: 256,
            emb_dim: 12 * book.input("head_dim", 64, 1..=64),
            n_layers: book.input("n_layers", 12, 1..=12),
            ..GptConfig::GPT2_124M
        };
        book.takes_minutes()?;
        run_of_book(book.the_verdict()?, config)?
    };
    let [train_loader, val_loader] = &run.loaders;

    let build = book.dropout_build(Build::Portable);
    let mut rng = TorchRng::manual_seed(123).with_build(build);
    let mut model = GptModel::new(run.config, &mut rng)?;
    let mut optimizer = AdamW::new(run.optimizer, &model)?;
    let mut printout = Printout::new(&run.start_context, &*run.tokenizer);
    printout.is_quiet = run.is_small;
    let num_epochs = book.epochs(10);
    let history = train_model_simple(
        &mut model,
        &mut optimizer,
        (train_loader, val_loader),
        SimpleTraining {
            num_epochs,
            eval_freq: 5,
            eval_iter: 5,
        },
        &mut rng,
        |event| printout.add(event),
    )?;
    book.aside(|book| {
        let which = match run.is_small {
            true => "the small model of chapter 5's section 5.2, which reads only the beginning of the story, so its losses differ from those of the book",
            false => "the book's model",
        };
        book.value("which", which);
        let [first, .., last] = &printout.losses[..] else {
            return;
        };
        let best = printout.losses.iter().fold(f64::INFINITY, |best, row| best.min(row[3]));
        book.value("outcome", format!("The training loss changes from {:.2} to {:.2}. The lowest validation loss is {best:.2}, and the last one is {:.2}.", first[2], last[2], last[3]));
    });
    book.prints_first(
        "In [27]",
        &printout.losses(),
        LOSSES,
        printout.losses.len(),
        Some((5e-3, ROUNDING_GROWS)),
    );
    // The function `train_model_simple` also returns two lists, one of the training losses and one
    // of the validation losses. This cell checks that they contain the same losses as the output of
    // In [27] above.
    let [train_losses, val_losses] = [history.train_losses, history.val_losses].map(Array1::from);
    let lists = stack![Axis(1), train_losses, val_losses];
    book.agrees("the lists", &printout.losses().slice(s![.., 2..]), &lists);

    book.draws("Losses over steps", || {
        let batch = train_loader.config();
        let tokens = batch.batch_size * batch.max_length;
        losses(&printout.batch_losses, printout.losses.iter(), tokens)
    });

    // The cell prints the sample that the model generates after each epoch. In the book, the first
    // sample repeats commas, and the last samples contain whole sentences of the story.
    let texts = printout.texts()?;
    book.prints_first("In [27]", &texts.join("\n"), SAMPLES, texts.len(), None);
    // The cell prints the token ids of the samples next to the ids that PyTorch generates:
    let ids = printout.ids()?;
    book.reference(
        "In [27] in PyTorch",
        &ids,
        &first(IDS, ids.nrows()),
        PYTORCH,
    );
    book.asks(
        "The samples improve until the last epoch, but the validation loss doesn't. Which of the two shows whether the model would be useful?",
        "The validation loss does, because it measures how well the model predicts a text that it hasn't seen. The samples are good only because the model has learned the story by heart and repeats parts of it.",
    );
    Ok(Trained {
        model,
        optimizer,
        loaders: run.loaders,
        tokenizer: run.tokenizer,
        start_context: run.start_context,
    })
}

fn trained_model(book: &mut Notebook, trained: Trained) -> Result<()> {
    book.takes_all_epochs()?;
    book.section("5.3", "Decoding strategies to control randomness");
    // The trained model continues the prompt by greedy decoding. In the book's run, it repeats a
    // sentence of the story.
    let Trained {
        mut model,
        mut optimizer,
        loaders: [train_loader, val_loader],
        tokenizer,
        start_context,
    } = trained;
    let tokenizer = &*tokenizer;
    let idx = text_to_token_ids(&start_context, tokenizer)?;
    let context_size = model.config().context_length;
    let token_ids = generate_text_simple(&model, idx.clone(), 25, context_size)?;
    book.prints("In [29]", &token_ids_to_text(&token_ids, tokenizer)?, "Every effort moves you know,\" was one of the axioms he laid down across the Sevres and silver of an exquisitely appointed lun");
    // The cell prints the token ids of this text next to the ids that PyTorch generates:
    book.reference("In [29] in PyTorch", &token_ids, "6109 3626 6100 345 760 553 373 530 286 262 7877 72 3150 339 8104 866 1973 262 37918 411 290 8465 286 281 33954 271 3973 9899 14678", PYTORCH);

    book.section("5.3.3", "Modifying the text generation function");
    book.listing("crates/generate/src/book.rs", "pub fn generate(");
    // With a temperature and top-k sampling (sections 5.3.1 and 5.3.2), the model draws each token
    // at random from the {top_k} most probable tokens. The generated text is therefore usually no
    // longer a sentence of the story.
    let mut rng = TorchRng::manual_seed(123);
    let sampling = BookSampling {
        max_new_tokens: book.input("max_new_tokens", 15, 1..=100),
        context_size,
        top_k: Some(book.input("top_k", 25, 1..=50_257)),
        temperature: book.input("temperature", 1.4, 0.0..=100.0),
        eos_id: None,
    };
    let drawn_ids = generate(&model, idx.clone(), sampling, &mut rng)?;
    book.prints(
        "In [41]",
        &token_ids_to_text(&drawn_ids, tokenizer)?,
        "Every effort moves you stand to work on surprise, a one of us had gone with random-",
    );
    // The cell prints the token ids of this text next to the ids that PyTorch generates:
    book.reference(
        "In [41] in PyTorch",
        &drawn_ids,
        "6109 3626 6100 345 1302 284 670 319 5975 11 257 530 286 514 550 3750 351 4738 12",
        PYTORCH,
    );

    book.section("ex5.3", "Deterministic behavior in the decoding functions");
    // Task: find settings with which `generate` returns the same text in every run.

    // Solution: at temperature 0, `generate` always chooses the token with the largest logit and
    // doesn't draw random numbers. It therefore returns the same text with every seed: the text
    // that In [29] printed. Top-k sampling with k = 1 has the same effect.
    let sampling = BookSampling {
        max_new_tokens: 25,
        top_k: None,
        temperature: 0.0,
        ..sampling
    };
    // In the book's solution, cell In [9] repeats cell In [8]. Both print the same text as In [29]
    // above.
    let without_chance = generate(&model, idx, sampling, &mut rng)?;
    book.agrees("In [8]", &without_chance, &token_ids);

    book.section("ex5.4", "Continued pretraining");
    // Task: continue the training for one more epoch.

    // Solution: the training loop runs again with the same model and the same optimizer. A new
    // optimizer wouldn't do, because training needs the two running means that the old optimizer
    // stores for each weight.
    let mut rng = TorchRng::manual_seed(123);
    let mut printout = Printout::new(&start_context, tokenizer);
    printout.is_quiet = model.config().n_layers == 1; // the small model has a single block
    let once = SimpleTraining {
        num_epochs: 1,
        eval_freq: 5,
        eval_iter: 5,
    };
    train_model_simple(
        &mut model,
        &mut optimizer,
        (&train_loader, &val_loader),
        once,
        &mut rng,
        |event| printout.add(event),
    )?;
    book.prints_first(
        "In [12]",
        &printout.losses(),
        "\
Ep 1 (Step 000000): Train loss 0.271, Val loss 6.545
Ep 1 (Step 000005): Train loss 0.244, Val loss 6.614",
        2,
        Some((5e-3, ROUNDING_GROWS)),
    );
    book.prints("In [12]", &printout.texts()?.join("\n"), "Every effort moves you?\"  \"Yes--quite insensible to the irony. She wanted him vindicated--and by me!\"  He laughed again, and threw back his head to look up at the sketch of the donkey. \"There were days when I");
    Ok(())
}

/// Collects what the book's `train_model_simple` prints: the training loss and the validation loss
/// at each evaluation, and a sample of generated text after each epoch.
struct Printout<'a> {
    start_context: &'a str,
    tokenizer: &'a dyn Tokenizer,
    /// Whether to suppress the printing of losses to standard error.
    is_quiet: bool,
    batch_losses: Vec<f32>,
    /// Epoch, step, training loss and validation loss of each evaluation.
    losses: Vec<[f64; 4]>,
    /// Token IDs of each sample, including the prompt. Each array has the shape (1, num_tokens).
    samples: Vec<Array2<u32>>,
}

impl<'a> Printout<'a> {
    fn new(start_context: &'a str, tokenizer: &'a dyn Tokenizer) -> Self {
        Self {
            start_context,
            tokenizer,
            is_quiet: false,
            batch_losses: Vec::new(),
            losses: Vec::new(),
            samples: Vec::new(),
        }
    }

    /// Records an event of the training run. If the event contains the losses of an evaluation and
    /// `is_quiet` is false, also prints these losses to standard error.
    fn add(&mut self, event: Event<'_>) {
        match event {
            Event::Batch { loss } => self.batch_losses.push(loss),
            Event::Evaluation(evaluation) => {
                let (epoch, step) = (evaluation.epoch + 1, evaluation.steps_done - 1);
                let train_loss = evaluation.train_loss;
                let val_loss = evaluation.val_loss.unwrap_or(f64::NAN);
                if !self.is_quiet {
                    eprintln!(
                        "Ep {epoch} (Step {step:06}): Train loss {train_loss:.3}, Val loss {val_loss:.3}"
                    );
                }
                let row = [epoch as f64, step as f64, train_loss, val_loss];
                self.losses.push(row);
            }
            Event::SampleDue { model, .. } => {
                let idx = text_to_token_ids(self.start_context, self.tokenizer);
                let idx = idx.expect("it has tokens");
                let sample = generate_text_simple(model, idx, 50, model.config().context_length);
                self.samples
                    .push(sample.expect("the model has its vocabulary"));
            }
            _ => {}
        }
    }

    fn losses(&self) -> Array2<f64> {
        Array2::from(self.losses.clone())
    }

    /// Returns the text of each sample. Line breaks are replaced with spaces, as in the book's
    /// output.
    fn texts(&self) -> Result<Vec<String>> {
        let text =
            |ids: &Array2<u32>| Ok(token_ids_to_text(ids, self.tokenizer)?.replace('\n', " "));
        self.samples.iter().map(text).collect()
    }

    fn ids(&self) -> Result<Array2<u32>> {
        let rows: Vec<_> = self.samples.iter().map(|ids| ids.row(0)).collect();
        Ok(stack(Axis(0), &rows)?)
    }
}

/// Returns the book's chart of the training and validation losses, with the loss of each batch in
/// the background. Each of the `rows` contains the epoch, the step, the training loss and the
/// validation loss of one evaluation. On the horizontal axis, each tick label contains a step and
/// the number of tokens that the model has read up to this step.
fn losses(
    batches: &[f32],
    rows: impl Iterator<Item = impl AsRef<[f64]>>,
    tokens_per_step: usize,
) -> Picture {
    let line = |name: &str, points: Vec<(f64, f64)>, faint| Line {
        name: name.to_owned(),
        points,
        faint,
        ..Line::default()
    };
    let batches = batches.iter().zip(0u32..);
    let batches = batches.map(|(&loss, step)| (f64::from(step), f64::from(loss)));
    let (mut training, mut validation) = (Vec::new(), Vec::new());
    for row in rows {
        if let [_, step, train, val] = *row.as_ref() {
            training.push((step, train));
            validation.push((step, val));
        }
    }
    let losses = Chart {
        title: "Losses of the training run",
        x: "step (tokens seen)",
        y: "cross-entropy of a token",
        lines: vec![
            line("each batch", batches.collect(), true),
            line("training", training, false),
            line("validation", validation, false),
        ],
        log_y: false,
    };
    let tokens_seen =
        move |step: f64| format!("{step} ({})", (step + 1.0) * tokens_per_step as f64);
    chart(&losses, Some(tokens_seen))
}

/// Returns the first `lines` lines of `text`.
fn first(text: &str, lines: usize) -> String {
    text.lines().take(lines).collect::<Vec<_>>().join("\n")
}

/// Losses that In \[27\] of the book's notebook prints.
const LOSSES: &str = "\
Ep 1 (Step 000000): Train loss 9.781, Val loss 9.933
Ep 1 (Step 000005): Train loss 8.111, Val loss 8.339
Ep 2 (Step 000010): Train loss 6.661, Val loss 7.048
Ep 2 (Step 000015): Train loss 5.961, Val loss 6.616
Ep 3 (Step 000020): Train loss 5.726, Val loss 6.600
Ep 3 (Step 000025): Train loss 5.201, Val loss 6.348
Ep 4 (Step 000030): Train loss 4.417, Val loss 6.278
Ep 4 (Step 000035): Train loss 4.069, Val loss 6.226
Ep 5 (Step 000040): Train loss 3.732, Val loss 6.160
Ep 6 (Step 000045): Train loss 2.850, Val loss 6.179
Ep 6 (Step 000050): Train loss 2.427, Val loss 6.141
Ep 7 (Step 000055): Train loss 2.104, Val loss 6.134
Ep 7 (Step 000060): Train loss 1.882, Val loss 6.233
Ep 8 (Step 000065): Train loss 1.320, Val loss 6.238
Ep 8 (Step 000070): Train loss 0.985, Val loss 6.242
Ep 9 (Step 000075): Train loss 0.717, Val loss 6.293
Ep 9 (Step 000080): Train loss 0.541, Val loss 6.393
Ep 10 (Step 000085): Train loss 0.391, Val loss 6.452";

/// Samples that In \[27\] of the book's notebook prints.
const SAMPLES: &str = "\
Every effort moves you,,,,,,,,,,,,.                                    \x20
Every effort moves you, and, and, and, and, and, and, and, and, and, and, and, and, and, and, and, and, and, and, and, and, and, and,, and, and,
Every effort moves you, and I had been.                                           \x20
Every effort moves you know the                          \"I he had the donkey and I had the and I had the donkey and down the room, I had
Every effort moves you know it was not that the picture--I had the fact by the last I had been--his, and in the            \"Oh, and he said, and down the room, and in
Every effort moves you know,\" was one of the picture. The--I had a little of a little: \"Yes, and in fact, and in the picture was, and I had been at my elbow and as his pictures, and down the room, I had
Every effort moves you know,\" was one of the picture for nothing--I told Mrs.  \"I was no--as! The women had been, in the moment--as Jack himself, as once one had been the donkey, and were, and in his
Every effort moves you know,\" was one of the axioms he had been the tips of a self-confident moustache, I felt to see a smile behind his close grayish beard--as if he had the donkey. \"strongest,\" as his
Every effort moves you?\"  \"Yes--quite insensible to the irony. She wanted him vindicated--and by me!\"  He laughed again, and threw back the window-curtains, I had the donkey. \"There were days when I
Every effort moves you know,\" was one of the axioms he laid down across the Sevres and silver of an exquisitely appointed luncheon-table, when, on a later day, I had again run over from Monte Carlo; and Mrs. Gis";

/// Token IDs of the samples that PyTorch generates, including the prompt. There is one line for
/// each epoch.
const IDS: &str = "\
6109 3626 6100 345 11 11 11 11 11 11 11 11 11 11 11 11 13 198 198 198 198 198 198 198 198 198 198 198 198 198 198 198 198 198 198 198 198 198 198 198 198 198 198 198 198 198 198 198 198 198 198 198 198 198
6109 3626 6100 345 11 290 11 290 11 290 11 290 11 290 11 290 11 290 11 290 11 290 11 290 11 290 11 290 11 290 11 290 11 290 11 290 11 290 11 290 11 290 11 290 11 290 11 290 11 11 290 11 290 11
6109 3626 6100 345 11 290 314 550 587 13 198 198 198 198 198 198 198 198 198 198 198 198 198 198 198 198 198 198 198 198 198 198 198 198 198 198 198 198 198 198 198 198 198 198 198 198 198 198 198 198 198 198 198 198
6109 3626 6100 345 760 262 198 198 198 198 198 198 198 198 198 198 198 198 198 198 198 198 198 198 198 198 198 198 198 198 198 198 1 40 339 550 262 50085 290 314 550 262 290 314 550 262 50085 290 866 262 2119 11 314 550
6109 3626 6100 345 760 340 373 407 326 262 4286 438 40 550 262 1109 416 262 938 314 550 587 438 14363 11 290 287 262 198 198 198 198 198 198 198 198 198 198 198 198 1 5812 11 290 339 531 11 290 866 262 2119 11 290 287
6109 3626 6100 345 760 553 373 530 286 262 4286 13 383 438 40 550 257 1310 286 257 1310 25 366 5297 11 290 287 1109 11 290 287 262 4286 373 11 290 314 550 587 379 616 22662 290 355 465 5986 11 290 866 262 2119 11 314 550
6109 3626 6100 345 760 553 373 530 286 262 4286 329 2147 438 40 1297 9074 13 198 198 1 40 373 645 438 292 0 383 1466 550 587 11 287 262 2589 438 292 3619 2241 11 355 1752 530 550 587 262 50085 11 290 547 11 290 287 465
6109 3626 6100 345 760 553 373 530 286 262 7877 72 3150 339 550 587 262 9040 286 257 2116 12 10414 738 285 23968 4891 11 314 2936 284 766 257 8212 2157 465 1969 12768 680 21213 438 292 611 339 550 262 50085 13 366 11576 395 553 355 465
6109 3626 6100 345 1701 198 198 1 5297 438 37121 1035 27339 284 262 21296 13 1375 2227 683 29178 3474 438 392 416 502 2474 198 198 1544 13818 757 11 290 9617 736 262 4324 12 66 3325 1299 11 314 550 262 50085 13 366 1858 547 1528 618 314
6109 3626 6100 345 760 553 373 530 286 262 7877 72 3150 339 8104 866 1973 262 37918 411 290 8465 286 281 33954 271 3973 9899 14678 40556 12 11487 11 618 11 319 257 1568 1110 11 314 550 757 1057 625 422 22489 40089 26 290 9074 13 402 271";
