//! ch05.ipynb, section 5.2: ten epochs of training from seed 123, and the trained model's texts.
//!
//! Cells are numbered as in revision 27d52d6 of the book's repository, the last one whose outputs
//! come from a CPU. The ids come from PyTorch 2.4's run of the same loop with portable dropout:
//! decoded, they are the texts that the book prints.

use anyhow::Result;
use dataloader::DataLoader;
use generate::{BookSampling, generate, generate_text_simple};
use gpt::{GptConfig, GptModel};
use ndarray::{Array1, Array2, Axis, s, stack};
use pictures::{Chart, Line, Picture, chart};
use tokenizer::{Gpt2Tokenizer, text_to_token_ids, token_ids_to_text};
use torch_rng::{Build, TorchRng};
use train::{AdamW, AdamWConfig, Event, SimpleTraining, train_model_simple};

use crate::ch05::loaders;
use crate::{Notebook, numbers};

const ROUNDING_GROWS: &str = "rounding differences grow over 90 steps";
const PYTORCH: &str = "the ids of PyTorch 2.4's run of the same loop";

pub(crate) fn run(book: &mut Notebook) -> Result<()> {
    book.opens(
        "Section 5.2: the book's training run, ten epochs on a short story, with its losses and samples; then the trained model writes.",
        "sections 5.1.1 to 5.1.3; some minutes for the run.",
        15,
    );
    if let Some(trained) = book.part(training) {
        book.part(|book| trained_model(book, trained));
    }
    Ok(())
}

/// The trained model, and its optimizer and data.
struct Trained {
    model: GptModel,
    optimizer: AdamW,
    train_loader: DataLoader,
    val_loader: DataLoader,
    tokenizer: Gpt2Tokenizer,
}

fn training(book: &mut Notebook) -> Result<Trained> {
    book.section("5.2", "Training an LLM");
    book.listing("crates/train/src/adamw.rs", "pub fn step_plain<");
    book.listing("crates/train/src/simple.rs", "pub fn train_model_simple(");
    book.draws("Losses that the book prints", || {
        let rows: Vec<f64> = numbers(LOSSES).iter().map(|(number, _)| *number).collect();
        losses(&[], rows.chunks(4))
    });
    // What does training change? The run takes ten epochs over the larger part of the story, one
    // step per batch. Every fifth step prints both losses: the training loss falls to almost zero,
    // but the validation loss stays above 6, because the model overfits such a short story. After
    // each epoch the model generates a text.
    let config = GptConfig {
        context_length: 256,
        emb_dim: 12 * book.input("head_dim", 64, 1..=64),
        n_layers: book.input("n_layers", 12, 1..=12),
        ..GptConfig::GPT2_124M
    };
    book.takes_minutes()?;
    let text_data = book.the_verdict()?;
    let tokenizer = Gpt2Tokenizer::new();
    let [train_loader, val_loader] = loaders(text_data, &tokenizer)?;

    let build = book.dropout_build(Build::Portable);
    let mut rng = TorchRng::manual_seed(123).with_build(build);
    let mut model = GptModel::new(config, &mut rng)?;
    let mut optimizer = AdamW::new(AdamWConfig::default(), &model)?; // lr 0.0004, weight decay 0.1
    let mut printout = Printout::new("Every effort moves you", &tokenizer);
    let num_epochs = book.epochs(10);
    let history = train_model_simple(
        &mut model,
        &mut optimizer,
        (&train_loader, &val_loader),
        SimpleTraining {
            num_epochs,
            eval_freq: 5,
            eval_iter: 5,
        },
        &mut rng,
        |event| printout.add(event),
    )?;
    book.prints_first(
        "In [27]",
        &printout.losses(),
        LOSSES,
        printout.losses.len(),
        Some((5e-3, ROUNDING_GROWS)),
    );
    // The function also returns the losses, as separate lists.
    let [train_losses, val_losses] = [history.train_losses, history.val_losses].map(Array1::from);
    let lists = stack![Axis(1), train_losses, val_losses];
    book.agrees("the lists", &printout.losses().slice(s![.., 2..]), &lists);

    book.draws("Losses over steps and tokens seen", || {
        losses(&printout.batch_losses, printout.losses.iter())
    });

    // The generated text after each epoch: at first commas, at the end sentences of the story.
    let texts = printout.texts()?;
    book.prints_first("In [27]", &texts.join("\n"), SAMPLES, texts.len(), None);
    // The ids of these texts.
    let ids = printout.ids()?;
    book.reference(
        "In [27] in PyTorch",
        &ids,
        &first(IDS, ids.nrows()),
        PYTORCH,
    );
    Ok(Trained {
        model,
        optimizer,
        train_loader,
        val_loader,
        tokenizer,
    })
}

fn trained_model(
    book: &mut Notebook,
    Trained {
        mut model,
        mut optimizer,
        train_loader,
        val_loader,
        tokenizer,
    }: Trained,
) -> Result<()> {
    book.takes_all_epochs()?;
    book.section("5.3", "Decoding strategies to control randomness");
    // The trained model continues the prompt by greedy decoding. It has memorized the story's
    // sentences.
    let idx = text_to_token_ids("Every effort moves you", &tokenizer)?;
    let context_size = model.config().context_length;
    let token_ids = generate_text_simple(&model, idx.clone(), 25, context_size)?;
    book.prints("In [29]", &token_ids_to_text(&token_ids, &tokenizer)?, "Every effort moves you know,\" was one of the axioms he laid down across the Sevres and silver of an exquisitely appointed lun");
    // Its ids, beside PyTorch's.
    book.reference("In [29] in PyTorch", &token_ids, "6109 3626 6100 345 760 553 373 530 286 262 7877 72 3150 339 8104 866 1973 262 37918 411 290 8465 286 281 33954 271 3973 9899 14678", PYTORCH);

    book.section("5.3.3", "Modifying the text generation function");
    book.listing("crates/generate/src/book.rs", "pub fn generate(");
    // With top-k and temperature, draws among the 25 most probable tokens give new sentences.
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
        &token_ids_to_text(&drawn_ids, &tokenizer)?,
        "Every effort moves you stand to work on surprise, a one of us had gone with random-",
    );
    // Its ids, beside PyTorch's.
    book.reference(
        "In [41] in PyTorch",
        &drawn_ids,
        "6109 3626 6100 345 1302 284 670 319 5975 11 257 530 286 514 550 3750 351 4738 12",
        PYTORCH,
    );

    book.section("ex5.3", "Deterministic behavior in the decoding functions");
    // At temperature 0 nothing is random, so every run gives the same text.
    let sampling = BookSampling {
        max_new_tokens: 25,
        top_k: None,
        temperature: 0.0,
        ..sampling
    };
    // In [9] repeats In [8], and both print the text of In [29].
    let without_chance = generate(&model, idx, sampling, &mut rng)?;
    book.agrees("In [8]", &without_chance, &token_ids);

    book.section("ex5.4", "Continued pretraining");
    // Training continues for one more epoch, with the same model and optimizer.
    let mut rng = TorchRng::manual_seed(123);
    let mut printout = Printout::new("Every effort moves you", &tokenizer);
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

/// The lines that the book's `train_model_simple` prints: both losses at each evaluation, and a
/// sample after each epoch.
struct Printout<'a> {
    start_context: &'a str,
    tokenizer: &'a Gpt2Tokenizer,
    batch_losses: Vec<f32>,
    /// Epoch, step, training and validation loss.
    losses: Vec<[f64; 4]>,
    /// The ids of each sample, prompt included: (1, num_tokens).
    samples: Vec<Array2<u32>>,
}

impl<'a> Printout<'a> {
    fn new(start_context: &'a str, tokenizer: &'a Gpt2Tokenizer) -> Self {
        Self {
            start_context,
            tokenizer,
            batch_losses: Vec::new(),
            losses: Vec::new(),
            samples: Vec::new(),
        }
    }

    /// Takes down an event of the training; losses appear on standard error at once.
    fn add(&mut self, event: Event<'_>) {
        match event {
            Event::Batch { loss } => self.batch_losses.push(loss),
            Event::Evaluation(evaluation) => {
                let (epoch, step) = (evaluation.epoch + 1, evaluation.steps_done - 1);
                let train_loss = evaluation.train_loss;
                let val_loss = evaluation.val_loss.unwrap_or(f64::NAN);
                eprintln!(
                    "Ep {epoch} (Step {step:06}): Train loss {train_loss:.3}, Val loss {val_loss:.3}"
                );
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

    /// The samples, one per line.
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

/// The book's figure of both losses, with the losses of all batches behind them; a row has epoch,
/// step, training and validation loss.
fn losses(batches: &[f32], rows: impl Iterator<Item = impl AsRef<[f64]>>) -> Picture {
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
    let tokens_seen = |step: f64| format!("{step} ({})", (step + 1.0) * 512.0);
    chart(&losses, Some(tokens_seen))
}

/// The first lines of a text.
fn first(text: &str, lines: usize) -> String {
    text.lines().take(lines).collect::<Vec<_>>().join("\n")
}

/// The losses that In \[27\] prints.
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

/// The samples that In \[27\] prints.
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

/// PyTorch's ids of the sample after each epoch, prompt included.
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
