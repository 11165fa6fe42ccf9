//! A loss or a gradient that is not finite stops a run, and costs neither the weights nor the last
//! good checkpoint.
#![allow(clippy::unwrap_used)] // a test that can't begin panics

mod common;

use std::ops::ControlFlow;

use common::{config, finish, loaders, model_config, trainer};
use gpt::GptModel;
use ndarray::Array2;
use tensor_ops::Parameters;
use torch_rng::TorchRng;
use train::{AdamWConfig, RunFolder, Schedule, TrainConfig, TrainError, Trainer};

/// A run whose third step has a learning rate that sends the weights to infinity.
fn exploding(max_steps: u64) -> TrainConfig {
    TrainConfig {
        max_steps,
        optimizer: AdamWConfig {
            lr: 1e38,
            weight_decay: 0.0,
            ..AdamWConfig::default()
        },
        schedule: Schedule::WarmupCosine {
            warmup_steps: 3,
            total_steps: 50,
            initial_lr: 1e-3,
            min_lr: 0.0,
        },
        eval_every: None,
        sample: None,
        ..config(max_steps)
    }
}

#[test]
fn a_loss_that_is_no_number_stops_the_run() {
    // Without a folder nothing is saved, so nothing but the step itself shows the loss.
    let mut trainer = trainer(exploding(30));
    let error = trainer
        .run(None, &mut |_| ControlFlow::Continue(()))
        .unwrap_err();
    let line = error.to_string();
    assert!(matches!(error, TrainError::NotFinite { .. }), "{line}");
    let step = trainer.steps_done();
    assert!(
        line.contains(&format!("step {}", step + 1)) && line.contains("try a learning rate below"),
        "{line}"
    );
}

/// The next matrix takes back what a value has grown by, so that the loss is finite; the gradient
/// of the small one between is not.
#[test]
fn after_a_gradient_that_is_not_finite_the_next_batch_begins_the_step_anew() {
    let mut rng = TorchRng::manual_seed(123);
    let mut model = GptModel::new(model_config(), &mut rng).unwrap();
    for (name, mut weight) in model.named_parameters_mut() {
        match name.strip_prefix("trf_blocks.0.").unwrap_or_default() {
            "norm1.scale" => weight.fill(1e20),
            "att.W_query.weight" | "att.W_key.weight" => weight.fill(0.0),
            "att.W_value.weight" => weight.assign(&(1e-44 * Array2::<f32>::eye(8))),
            "att.out_proj.weight" => weight.assign(&(1e24 * Array2::<f32>::eye(8))),
            _ => {}
        }
    }
    let before = model.clone();
    let (train, validation) = loaders();
    let batches = 3 * train.len() as u64; // the last of an epoch is any of a step
    let mut trainer = Trainer::new(config(1), model, train, validation, rng).unwrap();
    for i in 0..batches {
        let result = trainer.train_batch();
        if i % 3 < 2 {
            assert_eq!(result.unwrap().batch.micro_step, i % 3);
            continue;
        }
        let line = result.unwrap_err().to_string();
        assert!(line.contains("the gradient's norm of step 1 is"), "{line}");
        assert!(line.contains("try a learning rate below"), "{line}");
    }
    assert!(trainer.model() == &before && trainer.last_step().is_none());
    let folder = tempfile::tempdir().unwrap();
    trainer
        .save(Some(&RunFolder::open(&folder).unwrap()))
        .unwrap();
    let mut resumed = common::resume(&folder, config(1)).unwrap();
    for _ in 0..3 {
        let [ours, theirs] = [&mut trainer, &mut resumed]
            .map(|trainer| trainer.train_batch().map_err(|error| error.to_string()));
        assert_eq!(ours, theirs);
    }
}

/// A run whose weights stay finite, but so large that its logits don't.
#[test]
fn a_model_without_a_finite_loss_is_not_saved_over_a_good_one() {
    let folder = tempfile::tempdir().unwrap();
    let run = RunFolder::open(&folder).unwrap();
    let wild = |max_steps| TrainConfig {
        accumulation: 1,
        optimizer: AdamWConfig {
            lr: 1e25,
            ..AdamWConfig::default()
        },
        ..exploding(max_steps)
    };
    // The last step of this run is the first wild one: no further step shows its loss.
    let mut good = trainer(wild(1));
    finish(&mut good, Some(&run));
    let error = common::resume(&folder, wild(2))
        .unwrap()
        .run(Some(&run), &mut |_| ControlFlow::Continue(()))
        .unwrap_err();
    assert!(
        error.to_string().contains("loss after step 2 is"),
        "{error}"
    );
    let newest = train::latest_checkpoint(&folder).unwrap();
    assert_eq!(train::runs::read_settings(&newest).unwrap().steps_done, 1);
    assert!(common::resume(&folder, wild(2)).unwrap().model() == good.model());
}
