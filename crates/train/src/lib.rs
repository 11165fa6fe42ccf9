#![doc = include_str!("../README.md")]
#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests write files as they like")
)]
#![forbid(unsafe_code)]

mod adamw;
mod checkpoint;
mod clip;
mod config;
mod diff;
mod error;
mod evaluate;
mod events;
mod fingerprint;
mod gradients;
mod hex;
mod identity;
mod loop_state;
mod loss;
mod manifest;
mod moments;
pub mod presets;
mod ranks;
mod run_checkpoints;
mod run_folder;
#[doc(hidden)]
pub mod runs;
mod schedule;
mod shards;
mod simple;
mod state;
mod trainer;

// Types from the following crates appear in the public API of this crate. The crates are
// re-exported so that dependent crates use the same versions of them.
pub use ::checkpoint::{CheckpointError, SpecialTokens};
pub use {dataloader, gpt, torch_rng};

pub use tensor_ops::{Dtype, Parameters, Selection};

pub use adamw::{AdamW, AdamWConfig};
pub use checkpoint::{check_tokenizer, read_settings};
pub use clip::{clip_grad_norm, grad_norm};
pub use config::TrainConfig;
pub use error::TrainError;
pub use events::{Evaluation, Event, Outcome, StepReport};
pub use loop_state::LoopState;
pub use loss::{calc_loss_batch, calc_loss_loader, perplexity};
pub use ranks::Ranks;
pub use run_checkpoints::{best_checkpoint, latest_checkpoint};
pub use run_folder::RunFolder;
pub use schedule::Schedule;
pub use simple::{SimpleTraining, TrainingHistory, evaluate_model, train_model_simple};
pub use state::Settings;
pub use trainer::Trainer;
