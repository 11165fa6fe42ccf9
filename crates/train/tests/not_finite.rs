//! Checks that a run stops if a loss or a gradient isn't finite, and that neither the weights nor
//! the last good checkpoint are lost.
#![allow(clippy::unwrap_used)] // a test may panic if its preparation fails

mod common;

use std::ops::ControlFlow;

use common::{config, finish, loaders, model_config, trainer};
use gpt::GptModel;
use ndarray::Array2;
use tensor_ops::Parameters;
use torch_rng::TorchRng;
use train::{AdamWConfig, RunFolder, Schedule, TrainConfig, Trainer};

/// Returns settings whose learning rate is low in the first step and extremely high afterwards, so
/// that the second step ruins the weights.
fn exploding(max_steps: u64) -> TrainConfig {
    TrainConfig {
        max_steps,
        optimizer: AdamWConfig {
            lr: 1e38,
            weight_decay: 0.0,
            ..AdamWConfig::default()
        },
        schedule: Some(Schedule {
            warmup_steps: 3,
            total_steps: 50,
            initial_lr: 1e-3,
            min_lr: 0.0,
        }),
        eval_every: None,
        ..config(max_steps)
    }
}

/// In the first block of this model, the normalization multiplies by 1e20, the value projection by
/// 1e-44, and the output projection by 1e24. The product of these factors is about 1, so the loss
/// is finite. However, the gradient of the value projection is proportional to 1e20 times 1e24,
/// which is infinite in `f32`.
#[test]
fn a_gradient_that_is_not_finite_leaves_the_weights_and_nothing_for_the_next_step() {
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
    let mut trainer = Trainer::new(config(1), model, train, validation, rng).unwrap();
    for _ in 0..3 {
        let result = trainer.run(None, &mut |_| ControlFlow::Continue(()));
        let line = result.unwrap_err().to_string();
        assert!(line.contains("the gradient norm of step 1 is"), "{line}");
        assert!(line.contains("set lr below 4e-4"), "{line}");
        assert!(trainer.model() == &before && trainer.last_step().is_none());
    }
}

/// Checks that a model whose loss isn't finite isn't saved, so that the last good checkpoint
/// remains the newest one. The learning rate of this run is so high that the weights, although they
/// remain finite, become very large and the logits become infinite or NaN.
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
    // The first run saves a good checkpoint after step 1, in which the learning rate is low. The
    // resumed run takes only step 2, whose high learning rate makes the weights useless. This step
    // itself succeeds, because its loss is computed before the weights are updated. The check
    // before saving must therefore find that the loss of the new weights isn't finite.
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
    assert_eq!(train::runs::steps_of(newest), Some(1));
    assert!(common::resume(&folder, wild(2)).unwrap().model() == good.model());
}
