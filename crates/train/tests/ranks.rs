//! Checks that a training run that several processes (ranks) share produces bit for bit the same
//! results as a run with one process. In these tests, each rank is a thread instead of a process.
#![allow(clippy::unwrap_used)] // a test may panic if its preparation fails

mod common;

use std::ops::ControlFlow;
use std::sync::{Arc, Barrier, Mutex};
use std::thread;

use common::{assert_same_run, finish, loaders, model_config, resume};
use dataloader::DataLoader;
use gpt::{DropRates, GptConfig, GptModel};
use torch_rng::{Build, TorchRng};
use train::{
    AdamWConfig, Dtype, Event, Outcome, Parameters, Ranks, RunFolder, TrainConfig, TrainError,
    Trainer,
};

/// A rank that runs in a thread. The ranks exchange data through a shared vector.
#[derive(Clone, Debug)]
struct Threads {
    rank: usize,
    size: usize,
    sent: Arc<Mutex<Vec<Vec<u8>>>>,
    barrier: Arc<Barrier>,
}

impl Threads {
    fn all(size: usize) -> Vec<Self> {
        let sent = Arc::new(Mutex::new(vec![Vec::new(); size]));
        let barrier = Arc::new(Barrier::new(size));
        (0..size)
            .map(|rank| Self {
                rank,
                size,
                sent: Arc::clone(&sent),
                barrier: Arc::clone(&barrier),
            })
            .collect()
    }

    fn exchange(&self, send: &[u8], receive: impl FnOnce(&[Vec<u8>])) {
        self.sent.lock().unwrap()[self.rank] = send.to_vec();
        self.barrier.wait();
        receive(&self.sent.lock().unwrap());
        self.barrier.wait();
    }
}

impl Ranks for Threads {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn all_to_all(&self, send: &[u8], receive: &mut [u8]) {
        let part = send.len() / self.size;
        self.exchange(send, |sent| {
            for (receive, sent) in receive.chunks_mut(part).zip(sent) {
                receive.copy_from_slice(&sent[self.rank * part..][..part]);
            }
        });
    }

    fn all_gather(&self, own: &[u8], all: &mut [u8]) {
        self.exchange(own, |sent| all.copy_from_slice(&sent.concat()));
    }
}

/// Calls a function on `size` ranks at the same time, and returns the results in the order of the
/// ranks.
fn on_ranks<T: Send>(size: usize, run: impl Fn(Threads) -> T + Sync) -> Vec<T> {
    thread::scope(|scope| {
        let run = &run;
        let ranks = Threads::all(size).into_iter();
        let threads: Vec<_> = ranks.map(|rank| scope.spawn(move || run(rank))).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    })
}

/// Returns settings with six batches per optimizer step, an evaluation every four steps, and
/// gradient clipping.
fn config(max_steps: u64) -> TrainConfig {
    TrainConfig {
        accumulation: 6,
        ..common::config(max_steps)
    }
}

fn trainer(config: TrainConfig, model: GptConfig, build: Build) -> Trainer {
    let mut rng = TorchRng::manual_seed(123).with_build(build);
    let weights = GptModel::new(model, &mut rng).unwrap();
    let (train, validation) = loaders();
    Trainer::new(config, weights, train, validation, rng).unwrap()
}

#[test]
fn any_number_of_ranks_gives_the_bits_of_one_process() {
    let plain = model_config();
    let dry = GptConfig {
        drop_rates: DropRates::all(0.0),
        ..plain
    };
    let tied = GptConfig {
        tied: true,
        ..plain
    };
    let wide = GptConfig {
        vocab_size: 3000, // some weights have more than one block of the optimizer
        ..plain
    };
    for (model, build, whole_epochs, dtype) in [
        (plain, Build::Portable, true, Dtype::Float32), // every second step has five batches
        (plain, Build::Mkl, false, Dtype::Float32),
        (dry, Build::Portable, false, Dtype::Float32),
        (tied, Build::Portable, false, Dtype::BFloat16),
        (wide, Build::Portable, false, Dtype::Float32),
    ] {
        let config = TrainConfig {
            whole_epochs,
            dtype,
            ..config(10)
        };
        let mut one = trainer(config, model, build);
        let (steps, evaluations) = finish(&mut one, None);
        for size in [1, 2, 3, 4, 6] {
            let folder = tempfile::tempdir().unwrap();
            on_ranks(size, |ranks| {
                let run = (ranks.rank == 0).then(|| RunFolder::open(&folder).unwrap());
                let trainer = trainer(config, model, build);
                let mut trainer = trainer.share(Arc::new(ranks)).unwrap();
                let all = finish(&mut trainer, run.as_ref());
                assert!(trainer.model() == one.model(), "the weights differ");
                assert_eq!((&all.0, &all.1), (&steps, &evaluations));
                assert_eq!(trainer.rng(), one.rng());
            });
            let checkpoint = train::latest_checkpoint(&folder).unwrap();
            let (train, validation) = loaders();
            let saved = Trainer::resume(checkpoint, config, model, train, validation);
            assert_same_run(&one, &saved.unwrap());
        }
    }
}

#[test]
fn each_rank_has_its_part_of_the_moments_and_a_checkpoint_all() {
    let model = GptConfig {
        // With this vocabulary size, the weight of the token embedding consists of 35 blocks of
        // 16,384 elements, the units in which weights are divided among ranks. Two ranks exchange
        // at most 32 blocks at a time, so this test covers a weight that requires two exchanges.
        vocab_size: 70_000,
        ..model_config()
    };
    let mut one = trainer(config(2), model, Build::Portable);
    finish(&mut one, None);
    let moments = one.optimizer().num_parameters();
    assert_eq!(moments, 2 * one.model().num_parameters());
    for (size, most_blocks) in [(2, 18), (3, 12), (6, 6)] {
        let folder = tempfile::tempdir().unwrap();
        let own = on_ranks(size, |ranks| {
            let run = (ranks.rank == 0).then(|| RunFolder::open(&folder).unwrap());
            let trainer = trainer(config(2), model, Build::Portable);
            let mut trainer = trainer.share(Arc::new(ranks)).unwrap();
            finish(&mut trainer, run.as_ref());
            assert!(trainer.model() == one.model(), "the weights differ");
            trainer.optimizer().num_parameters()
        });
        assert_eq!(own.iter().sum::<usize>(), moments);
        // Each rank must store only its part of the moments. For the token embedding and for the
        // output layer, these are the moments of at most `most_blocks` blocks each. The limit also
        // leaves room for the moments of all other weights, which are so small that rank 0 stores
        // all of their moments.
        let most = 2 * (2 * most_blocks * 16 * 1024) + (moments - 2 * (2 * 70_000 * 8));
        assert!(own.iter().all(|&n| n <= most), "{size} ranks: {own:?}");
        let checkpoint = train::latest_checkpoint(&folder).unwrap();
        let (train, validation) = loaders();
        let saved = Trainer::resume(checkpoint, config(2), model, train, validation);
        assert_same_run(&one, &saved.unwrap());
    }
}

#[test]
fn a_run_goes_on_with_another_number_of_ranks() {
    let mut one = trainer(config(6), model_config(), Build::Portable);
    finish(&mut one, None);
    let folder = tempfile::tempdir().unwrap();
    common::stop_after(
        &mut trainer(config(6), model_config(), Build::Portable),
        &RunFolder::open(&folder).unwrap(),
        2,
    );
    for (size, stop_after_step) in [(2, 3), (3, 4), (4, 5)] {
        on_ranks(size, |ranks| {
            let run = (ranks.rank == 0).then(|| RunFolder::open(&folder).unwrap());
            let last = ranks.rank == size - 1;
            let resumed = resume(&folder, config(6)).unwrap();
            let mut trainer = resumed.share(Arc::new(ranks)).unwrap();
            let outcome = trainer.run(run.as_ref(), &mut |event| match event {
                Event::Step(step) if last && step.step == stop_after_step => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            });
            assert_eq!(trainer.steps_done(), stop_after_step + 1);
            assert_eq!(outcome.unwrap() == Outcome::Finished, size == 4);
        });
    }
    assert_same_run(&one, &resume(&folder, config(6)).unwrap());
}

#[test]
fn ranks_that_would_train_different_things_are_refused_alike() {
    let start = |config| trainer(config, model_config(), Build::Portable);
    type Case<'a> = (&'a (dyn Fn(usize) -> Trainer + Sync), &'a str);
    let other = |rank, data: DataLoader| {
        let mut rng = TorchRng::manual_seed(100 + rank as u64);
        let model = GptModel::new(model_config(), &mut rng).unwrap();
        Trainer::new(config(4), model, data, None, rng).unwrap()
    };
    let cases: [Case<'_>; 5] = [
        // If the ranks use different data, the error must mention the data, and not the weights or
        // random numbers that differ as a consequence. If the states of the random number
        // generators differ, the error must contain only their hashes, because the states are long.
        (
            &|rank| match rank {
                0 => other(0, loaders().0),
                _ => other(rank, loaders().1.unwrap()),
            },
            "rank 1 differs from rank 0 in the training data's ",
        ),
        (
            &|rank| other(rank, loaders().0),
            "rank 1 differs from rank 0 in rng: rank 1 has a value with the SHA-256 ",
        ),
        (
            &|_| start(common::config(4)),
            "accumulation must be at least 4 (one batch for each rank), got 3",
        ),
        (
            &|rank| start(config(if rank == 2 { 5 } else { 4 })),
            "rank 2 differs from rank 0 in settings.config.max_steps: rank 2 has 5, but rank 0 has 4; ",
        ),
        (
            &|rank| {
                let mut rng = TorchRng::manual_seed(123);
                let mut weights = GptModel::new(model_config(), &mut rng).unwrap();
                if rank == 1 {
                    weights.final_norm.scale[3] += 1e-6;
                }
                Trainer::new(config(4), weights, loaders().0, None, rng).unwrap()
            },
            "rank 1 differs from rank 0 in the weights: ",
        ),
    ];
    for (trainer, expected) in cases {
        let all = on_ranks(4, |ranks| {
            let shared = trainer(ranks.rank).share(Arc::new(ranks));
            shared.unwrap_err().to_string()
        });
        assert!(
            all[0].starts_with(expected) && all[0].len() < 300,
            "{}",
            all[0]
        );
        assert!(all.iter().all(|line| *line == all[0]), "{all:?}");
    }
}

#[test]
fn all_ranks_learn_which_of_them_met_a_loss_that_is_not_finite() {
    let errors = on_ranks(3, |ranks| {
        let hot = TrainConfig {
            optimizer: AdamWConfig {
                lr: 1e30,
                ..AdamWConfig::default()
            },
            max_grad_norm: None,
            eval_every: None,
            ..config(50)
        };
        let trainer = trainer(hot, model_config(), Build::Portable);
        let mut trainer = trainer.share(Arc::new(ranks)).unwrap();
        let result = trainer.run(None, &mut |_| ControlFlow::Continue(()));
        let error = result.unwrap_err();
        assert!(matches!(error, TrainError::OnRank { .. }), "{error}");
        error.to_string()
    });
    assert!(
        errors[0].starts_with("rank 0: the loss of step "),
        "{}",
        errors[0]
    );
    assert!(errors.iter().all(|error| *error == errors[0]));
}
