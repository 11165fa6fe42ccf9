//! Checks that a run that is stopped and resumed produces bit for bit the same results as an
//! uninterrupted run.

#![allow(clippy::disallowed_methods, reason = "tests write files as they like")]
#![allow(clippy::unwrap_used)] // a test may panic if its preparation fails

mod common;

use std::fs;
use std::ops::ControlFlow;

use common::{
    assert_same_run, config, finish, model_config, resume, resume_of, stop_after, trainer,
    trainer_of,
};
use gpt::{Activation, GptConfig};
use train::runs::steps_of;
use train::{Dtype, Event, Outcome, RunFolder, TrainConfig, TrainError};

/// Checks that a run can be stopped after any step, resumed, and made longer. A step uses three
/// batches, and an epoch consists of eleven. The run is therefore usually stopped in the middle of
/// an epoch, except after step 11, which is exactly the end of the third epoch.
#[test]
fn a_run_may_stop_after_any_step_and_be_made_longer() {
    stops_and_is_made_longer(config);
    // Repeat the test with a run that rounds the operands of matrix products to bfloat16. Its
    // results must also be bit for bit the same after resuming.
    stops_and_is_made_longer(|max_steps| TrainConfig {
        dtype: Dtype::BFloat16,
        ..config(max_steps)
    });
}

fn stops_and_is_made_longer(config: impl Fn(u64) -> TrainConfig) {
    let mut whole = trainer(config(12));
    finish(&mut whole, None);
    for n in 1..=12 {
        let folder = tempfile::tempdir().unwrap();
        let run = RunFolder::open(&folder).unwrap();
        stop_after(&mut trainer(config(12)), &run, n);
        let mut resumed = resume(&folder, config(12)).unwrap();
        finish(&mut resumed, None);
        assert_same_run(&whole, &resumed);
    }
    // A run that has reached its last step can be continued if `max_steps` is increased.
    let folder = tempfile::tempdir().unwrap();
    finish(
        &mut trainer(config(7)),
        Some(&RunFolder::open(&folder).unwrap()),
    );
    let mut longer = resume(&folder, config(12)).unwrap();
    finish(&mut longer, None);
    assert_same_run(&whole, &longer);
}

/// In Hugging Face's layout, which checkpoints use, the query, key and value projections are stored
/// as a single transposed tensor that always has biases. This test checks for several model
/// configurations that converting the weights to this layout and back doesn't change any bit.
#[test]
fn a_model_of_any_configuration_resumes_with_the_same_bits() {
    type Change = fn(&mut GptConfig);
    let changes: [Change; 7] = [
        |model| model.qkv_bias = true,
        |model| model.tied = true,
        |model| (model.tied, model.qkv_bias) = (true, true),
        |model| model.hidden_dim = Some(7),
        |model| (model.activation, model.norm_eps) = (Activation::Gelu, 1.7),
        |model| (model.activation, model.norm_eps) = (Activation::Relu, 0.0),
        |model| model.drop_rates.attention = 0.3,
    ];
    for change in changes {
        let mut model = model_config();
        change(&mut model);
        let mut whole = trainer_of(model, config(4));
        finish(&mut whole, None);
        let folder = tempfile::tempdir().unwrap();
        let run = RunFolder::open(&folder).unwrap();
        stop_after(&mut trainer_of(model, config(4)), &run, 2);
        let mut resumed = resume_of(model, &folder, config(4)).unwrap();
        finish(&mut resumed, None);
        assert_same_run(&whole, &resumed);
    }
}

#[test]
fn a_run_of_another_dtype_is_refused_by_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let run = RunFolder::open(&folder).unwrap();
    stop_after(&mut trainer(config(12)), &run, 2);
    let other = TrainConfig {
        dtype: Dtype::BFloat16,
        ..config(12)
    };
    let error = resume(&folder, other).unwrap_err().to_string();
    for part in ["dtype", "float32", "bfloat16"] {
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn checkpoints_are_saved_in_their_turn_and_at_the_end_and_the_newest_stay() {
    let folder = tempfile::tempdir().unwrap();
    let keeping = TrainConfig {
        save_every: Some(2),
        keep: 2,
        eval_every: None,
        ..config(7)
    };
    let run = RunFolder::open(&folder).unwrap();
    let mut saved = Vec::new();
    let outcome = trainer(keeping).run(Some(&run), &mut |event| {
        if let Event::Saved { steps_done, .. } = event {
            saved.push(steps_done);
        }
        ControlFlow::Continue(())
    });
    assert_eq!(outcome.unwrap(), Outcome::Finished);
    assert_eq!(saved, [2, 4, 6, 7]);
    assert_eq!(names(&folder), ["step-00000006", "step-00000007"]);
}

#[test]
fn the_evaluation_that_is_best_keeps_its_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let run = RunFolder::open(&folder).unwrap();
    let config = train::TrainConfig {
        eval_every: Some(1),
        save_every: None,
        optimizer: train::AdamWConfig {
            lr: 3e-2, // so high that the loss increases again
            ..train::AdamWConfig::default()
        },
        ..config(20)
    };
    let (_, evaluations) = finish(&mut trainer(config), Some(&run));
    let best = evaluations.iter().map(|e| e.val_loss.unwrap());
    let best = best.fold(f64::INFINITY, f64::min);
    let first = evaluations.iter().rfind(|e| e.val_loss == Some(best));
    let steps = first.unwrap().steps_done;
    assert!(steps < 20 && best < evaluations[0].val_loss.unwrap());
    let (path, loss) = run.best().unwrap().unwrap();
    assert_eq!((steps_of(&path), loss), (Some(steps), best));
    assert_eq!(train::best_checkpoint(&folder).unwrap(), path);
    let newest = train::latest_checkpoint(&folder).unwrap();
    assert_eq!(steps_of(newest), Some(20));
    assert_eq!(names(&folder).len(), 2);
}

#[test]
fn a_file_is_no_folder_to_keep_a_run_in() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run");
    fs::write(&file, "").unwrap();
    let error = RunFolder::open(&file).unwrap_err();
    assert!(error.to_string().contains("but this is a file"), "{error}");
    assert!(matches!(
        resume(&folder, config(1)),
        Err(TrainError::NoCheckpoint { .. })
    ));
}

/// Returns the names of a run's checkpoints.
fn names(run: &tempfile::TempDir) -> Vec<std::ffi::OsString> {
    atomic_file::names_in(run.path().join("checkpoints")).unwrap()
}

#[test]
fn an_evaluation_that_was_interrupted_changes_no_bit_of_the_resumed_run() {
    let mut whole = trainer(config(9));
    finish(&mut whole, None);
    // Check that canceling an evaluation and repeating it in the resumed run doesn't change any
    // result. The evaluations of this run process eight batches in total, and the run is stopped
    // before each of these batches in turn.
    for place in 0..8 {
        let folder = tempfile::tempdir().unwrap();
        let run = RunFolder::open(&folder).unwrap();
        let mut waits = 0;
        let mut stopped = trainer(config(9));
        let ended = stopped.run(Some(&run), &mut |event| {
            waits += u32::from(matches!(event, Event::EvaluationBatch));
            match waits > place {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
        ended.unwrap();
        let mut resumed = resume(&folder, config(9)).unwrap();
        finish(&mut resumed, None);
        assert_same_run(&whole, &resumed);
    }
}
