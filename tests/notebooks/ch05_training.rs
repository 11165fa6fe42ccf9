//! ch05.ipynb, section 5.2: ten epochs of training from seed 123, and what the trained model
//! answers.
//!
//! Cells are numbered as in revision 27d52d6 of the book's repository, the last one whose outputs
//! come from a CPU.
//! The ids are those of PyTorch 2.4's run of the same loop with portable dropout: decoded, they are
//! the texts that the book prints.

use std::path::Path;

use anyhow::{Context, Result};
use atomic_file::write_output;
use dataloader::{DataLoader, DataLoaderConfig, create_dataloader_v1, train_validation_split};
use generate::{BookSampling, generate, generate_text_simple};
use gpt::{GptConfig, GptModel};
use ndarray::Array2;
use pictures::{Chart, Line, Picture, chart};
use serde_json::json;
use tokenizer::{Gpt2Tokenizer, text_to_token_ids, token_ids_to_text};
use torch_rng::TorchRng;
use train::{
    AdamW, AdamWConfig, Evaluation, Event, SimpleTraining, TrainingHistory, calc_loss_loader,
    train_model_simple,
};

use crate::{Notebook, TrainingRun};

const START_CONTEXT: &str = "Every effort moves you";
const EVAL_FREQ: u64 = 5;

const ONE_UNIT: &str = "one unit of the last of these digits";
const ROUNDING_GROWS: &str = "rounding differences grow over 90 steps";

pub(crate) fn run(book: &mut Notebook) -> Result<()> {
    if let Some(text_data) = book.the_verdict() {
        // The story's two parts and a model from seed 123; the losses before the first step.
        let TrainingRun {
            epochs,
            build,
            json,
        } = book.training().clone();
        let tokenizer = Gpt2Tokenizer::new();
        let config = GptConfig {
            context_length: 256,
            ..GptConfig::GPT2_124M
        };

        book.section(
            "5.1.3",
            "Calculating the training and validation set losses",
        );
        let (train_data, val_data) = train_validation_split(text_data, 0.90)?;
        let of_training = DataLoaderConfig {
            batch_size: 2,
            max_length: config.context_length,
            stride: config.context_length,
            drop_last: true,
            shuffle: true,
        };
        let of_validation = DataLoaderConfig {
            drop_last: false,
            shuffle: false,
            ..of_training
        };
        let train_loader = create_dataloader_v1(train_data, &tokenizer, of_training)?;
        let val_loader = create_dataloader_v1(val_data, &tokenizer, of_validation)?;
        let mut rng = TorchRng::manual_seed(123).with_build(build);
        let mut model = GptModel::new(config, &mut rng)?;
        // In [25] seeds again before it reads the loaders; the run of In [27] is not touched by it.
        let mut other = TorchRng::manual_seed(123);
        let train_loss = calc_loss_loader(&train_loader, &model, None, &mut other)?;
        let val_loss = calc_loss_loader(&val_loader, &model, None, &mut other)?;
        book.prints_within("In [25]", &train_loss, "10.98758", 1e-5, ONE_UNIT);
        book.prints_within("In [25]", &val_loss, "10.98111", 1e-5, ONE_UNIT);

        book.section("5.2", "Training an LLM");
        book.listing("crates/train/src/simple.rs", "pub fn train_model_simple(");
        // Ten passes over the training part, a step a batch, and after every fifth step both
        // losses: the one of training falls to almost nothing, that of validation stops at 6, as
        // the story is short.
        let mut optimizer = AdamW::new(AdamWConfig::default(), &model)?;
        let loaders = (&train_loader, &val_loader);
        let (history, printout) = train(
            &mut model,
            &mut optimizer,
            loaders,
            epochs,
            &tokenizer,
            &mut rng,
        )?;
        write_run(&printout, [train_loss, val_loss], json.as_deref())?;
        let as_in_the_book = build == TrainingRun::default().build;
        book.ends_unless(
            as_in_the_book,
            "the book prints nothing of a run with this dropout",
        )?;
        let rows = (epochs * train_loader.len() as u64).div_ceil(EVAL_FREQ) as usize;
        let printed = printed_losses("Train loss ", rows);
        book.prints_within(
            "In [27]",
            &history.train_losses,
            &printed,
            5e-3,
            ROUNDING_GROWS,
        );
        let printed = printed_losses("Val loss ", rows);
        book.prints_within(
            "In [27]",
            &history.val_losses,
            &printed,
            5e-3,
            ROUNDING_GROWS,
        );

        book.draws("Losses over steps and tokens seen", || losses(&printout));

        let samples =
            Array2::from_shape_vec((printout.samples.len(), 54), printout.samples.concat())?;
        let mut texts = Vec::new();
        for sample in samples.rows() {
            texts.push(tokenizer.decode(&sample.to_vec())?.replace('\n', " "));
        }
        let printed: Vec<&str> = OUTPUT
            .lines()
            .filter(|line| line.starts_with("Every"))
            .take(epochs as usize)
            .collect();
        book.prints("In [27]", &texts.join("\n"), &printed.join("\n"));
        // The ids of these texts, beside those of PyTorch 2.4's run of the same loop.
        let printed: Vec<&str> = SAMPLE_IDS.lines().take(epochs as usize).collect();
        book.prints("In [27] in PyTorch", &samples, &printed.join("\n"));
        book.ends_unless(
            epochs == TrainingRun::EPOCHS,
            "only the whole run is compared with what follows it",
        )?;

        book.section("5.3", "Decoding strategies to control randomness");
        // The trained model writes on, greedily: words of the story, learned by heart.
        let idx = text_to_token_ids(START_CONTEXT, &tokenizer)?;
        let token_ids = generate_text_simple(&model, idx.clone(), 25, config.context_length)?;
        book.prints("In [29]", &token_ids_to_text(&token_ids, &tokenizer)?, "Every effort moves you know,\" was one of the axioms he laid down across the Sevres and silver of an exquisitely appointed lun");
        // Its ids, beside PyTorch's.
        book.prints("In [29] in PyTorch", &token_ids, "6109 3626 6100 345 760 553 373 530 286 262 7877 72 3150 339 8104 866 1973 262 37918 411 290 8465 286 281 33954 271 3973 9899 14678");

        book.section("5.3.3", "Modifying the text generation function");
        book.listing("crates/generate/src/book.rs", "pub fn generate(");
        // Top-k and temperature together: a draw among the 25 likeliest tokens gives other
        // sentences.
        let mut rng = TorchRng::manual_seed(123);
        let sampling = BookSampling {
            max_new_tokens: 15,
            context_size: config.context_length,
            top_k: Some(25),
            temperature: 1.4,
            eos_id: None,
        };
        let drawn_ids = generate(&model, idx.clone(), sampling, &mut rng)?;
        book.prints(
            "In [41]",
            &token_ids_to_text(&drawn_ids, &tokenizer)?,
            "Every effort moves you stand to work on surprise, a one of us had gone with random-",
        );
        // Its ids, beside PyTorch's.
        book.prints(
            "In [41] in PyTorch",
            &drawn_ids,
            "6109 3626 6100 345 1302 284 670 319 5975 11 257 530 286 514 550 3750 351 4738 12",
        );

        book.section("ex5.3", "Deterministic behavior in the decoding functions");
        // Without chance, at temperature 0, it writes the same again each time.
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
        // One more pass with the model and its optimizer as they are.
        let mut rng = TorchRng::manual_seed(123);
        let (history, printout) =
            train(&mut model, &mut optimizer, loaders, 1, &tokenizer, &mut rng)?;
        book.prints_within(
            "In [12]",
            &history.train_losses,
            "0.271 0.244",
            5e-3,
            ROUNDING_GROWS,
        );
        book.prints_within(
            "In [12]",
            &history.val_losses,
            "6.545 6.614",
            5e-3,
            ROUNDING_GROWS,
        );
        let text = tokenizer.decode(&printout.samples[0])?.replace('\n', " ");
        book.prints("In [12]", &text, "Every effort moves you?\"  \"Yes--quite insensible to the irony. She wanted him vindicated--and by me!\"  He laughed again, and threw back his head to look up at the sketch of the donkey. \"There were days when I");
    }
    Ok(())
}

/// What `train_model_simple` tells while it runs.
#[derive(Default)]
struct Printout {
    batch_losses: Vec<f32>,
    evaluations: Vec<Evaluation>,
    /// The ids of each epoch's sample, prompt included.
    samples: Vec<Vec<u32>>,
}

/// `train_model_simple` with the arguments of In \[27\]; each evaluation is printed to standard
/// error.
fn train(
    model: &mut GptModel,
    optimizer: &mut AdamW,
    loaders: (&DataLoader, &DataLoader),
    num_epochs: u64,
    tokenizer: &Gpt2Tokenizer,
    rng: &mut TorchRng,
) -> Result<(TrainingHistory, Printout)> {
    let training = SimpleTraining {
        num_epochs,
        eval_freq: EVAL_FREQ,
        eval_iter: 5,
    };
    let idx = text_to_token_ids(START_CONTEXT, tokenizer)?;
    let context_size = model.config().context_length;
    let mut samples = Vec::new();
    let mut printout = Printout::default();
    let on_event = |event: Event<'_>| match event {
        Event::Batch(batch) => printout.batch_losses.extend(batch.loss),
        Event::Evaluation(evaluation) => {
            eprintln!(
                "Ep {} (Step {:06}): Train loss {:.3}, Val loss {:.3}",
                evaluation.epoch + 1,
                evaluation.steps_done - 1,
                evaluation.train_loss,
                evaluation.val_loss.unwrap_or(f64::NAN)
            );
            printout.evaluations.push(*evaluation);
        }
        Event::SampleDue { model, .. } => {
            samples.push(generate_text_simple(model, idx.clone(), 50, context_size));
        }
        _ => {}
    };
    let history = train_model_simple(model, optimizer, loaders, training, rng, on_event)?;
    for sample in samples {
        printout.samples.push(sample?.into_iter().collect());
    }
    Ok((history, printout))
}

/// The book's figure of both losses, with every batch's behind them.
fn losses(printout: &Printout) -> Picture {
    let line = |name: &str, points: Vec<(f64, f64)>, faint| Line {
        name: name.to_owned(),
        points,
        faint,
        ..Line::default()
    };
    let batches = printout.batch_losses.iter().zip(0u32..);
    let batches = batches.map(|(&loss, step)| (f64::from(step), f64::from(loss)));
    let evaluated = |loss: fn(&Evaluation) -> Option<f64>| -> Vec<(f64, f64)> {
        let points = printout.evaluations.iter();
        points
            .filter_map(|e| Some((e.steps_done as f64 - 1.0, loss(e)?)))
            .collect()
    };
    let losses = Chart {
        title: "Losses of the training run",
        x: "step (tokens seen)",
        y: "cross-entropy of a token",
        lines: vec![
            line("each batch", batches.collect(), true),
            line("training", evaluated(|e| Some(e.train_loss)), false),
            line("validation", evaluated(|e| e.val_loss), false),
        ],
        log_y: false,
    };
    chart(
        &losses,
        Some(|step| format!("{step} ({})", (step + 1.0) * 512.0)),
    )
}

/// The numbers after `label` in the first `rows` lines of the table.
fn printed_losses(label: &str, rows: usize) -> String {
    let numbers = OUTPUT.lines().filter_map(|line| line.split_once(label));
    let numbers = numbers.map(|(_, rest)| rest.split(',').next().unwrap_or(rest));
    numbers.take(rows).collect::<Vec<_>>().join(" ")
}

/// Writes every step of a run as JSON: its batch's loss, and both losses where it was evaluated.
fn write_run(printout: &Printout, initial: [f64; 2], path: Option<&Path>) -> Result<()> {
    let Some(path) = path else { return Ok(()) };
    let losses = printout.batch_losses.iter().zip(0u64..);
    let steps: Vec<_> = losses
        .map(|(loss, step)| {
            let mut line = json!({ "step": step, "batch_loss": loss });
            if let Some(evaluation) = printout
                .evaluations
                .iter()
                .find(|e| e.steps_done == step + 1)
            {
                line["train"] = json!(evaluation.train_loss);
                line["val"] = json!(evaluation.val_loss);
            }
            line
        })
        .collect();
    let [init_train, init_val] = initial;
    let run = json!({
        "init_train": init_train,
        "init_val": init_val,
        "steps": steps,
        "samples": printout.samples,
    });
    let text = serde_json::to_string_pretty(&run).context("a run is valid JSON")?;
    Ok(write_output(path, |out| writeln!(out, "{text}"))?)
}

/// What In \[27\] prints.
const OUTPUT: &str = "\
Ep 1 (Step 000000): Train loss 9.781, Val loss 9.933
Ep 1 (Step 000005): Train loss 8.111, Val loss 8.339
Every effort moves you,,,,,,,,,,,,.                                    \x20
Ep 2 (Step 000010): Train loss 6.661, Val loss 7.048
Ep 2 (Step 000015): Train loss 5.961, Val loss 6.616
Every effort moves you, and, and, and, and, and, and, and, and, and, and, and, and, and, and, and, and, and, and, and, and, and, and,, and, and,
Ep 3 (Step 000020): Train loss 5.726, Val loss 6.600
Ep 3 (Step 000025): Train loss 5.201, Val loss 6.348
Every effort moves you, and I had been.                                           \x20
Ep 4 (Step 000030): Train loss 4.417, Val loss 6.278
Ep 4 (Step 000035): Train loss 4.069, Val loss 6.226
Every effort moves you know the                          \"I he had the donkey and I had the and I had the donkey and down the room, I had
Ep 5 (Step 000040): Train loss 3.732, Val loss 6.160
Every effort moves you know it was not that the picture--I had the fact by the last I had been--his, and in the            \"Oh, and he said, and down the room, and in
Ep 6 (Step 000045): Train loss 2.850, Val loss 6.179
Ep 6 (Step 000050): Train loss 2.427, Val loss 6.141
Every effort moves you know,\" was one of the picture. The--I had a little of a little: \"Yes, and in fact, and in the picture was, and I had been at my elbow and as his pictures, and down the room, I had
Ep 7 (Step 000055): Train loss 2.104, Val loss 6.134
Ep 7 (Step 000060): Train loss 1.882, Val loss 6.233
Every effort moves you know,\" was one of the picture for nothing--I told Mrs.  \"I was no--as! The women had been, in the moment--as Jack himself, as once one had been the donkey, and were, and in his
Ep 8 (Step 000065): Train loss 1.320, Val loss 6.238
Ep 8 (Step 000070): Train loss 0.985, Val loss 6.242
Every effort moves you know,\" was one of the axioms he had been the tips of a self-confident moustache, I felt to see a smile behind his close grayish beard--as if he had the donkey. \"strongest,\" as his
Ep 9 (Step 000075): Train loss 0.717, Val loss 6.293
Ep 9 (Step 000080): Train loss 0.541, Val loss 6.393
Every effort moves you?\"  \"Yes--quite insensible to the irony. She wanted him vindicated--and by me!\"  He laughed again, and threw back the window-curtains, I had the donkey. \"There were days when I
Ep 10 (Step 000085): Train loss 0.391, Val loss 6.452
Every effort moves you know,\" was one of the axioms he laid down across the Sevres and silver of an exquisitely appointed luncheon-table, when, on a later day, I had again run over from Monte Carlo; and Mrs. Gis";

/// PyTorch's ids of the sample after each epoch, prompt included.
const SAMPLE_IDS: &str = "\
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
