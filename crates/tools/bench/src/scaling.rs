//! Measures how training and decoding scale with the number of threads.
//!
//! The table shows how long each phase, such as attention, takes with 1, 2, 4, 8 and 16 threads.
//! Numbers of threads that exceed the machine's number of cores are omitted. Two more columns show
//! how the work of the phase is divided among 16 threads, even if the machine has fewer cores: the
//! number of parallel loops in the phase, and the number of tasks in the loop with the fewest
//! tasks.

use std::hint::black_box;

use generate::{Decoder, DecoderWeights, Dtype};
use gpt::{BatchParts, GptModel};
use kernels::loop_counts;
use ndarray::Array3;
use rayon::{ThreadPool, ThreadPoolBuilder};
use tensor_ops::engine::{Pooled, awake};
use tensor_ops::{cross_entropy_train, matmul, matmul_into};
use torch_rng::TorchRng;
use train::{AdamW, AdamWConfig};

use crate::clock::time;
use crate::inference::{HEADS, ids};
use crate::report::say;
use crate::training::story;
use crate::turns::{Bench, median};

/// Numbers of threads for which the time is measured.
const THREADS: [usize; 5] = [1, 2, 4, 8, 16];
/// Number of threads in the pool that is used to count parallel loops and their tasks.
const MAX_THREADS: usize = 16;
/// Minimum number of tasks per thread that a parallel loop should have. With fewer tasks, some
/// threads would finish much earlier than others and would be idle.
const MIN_TASKS_PER_THREAD: usize = 4;

/// Measures how each phase of decoding and training scales with the number of threads, and prints
/// the table of results. Does nothing if the bench's filter doesn't select "scaling".
pub(crate) fn measure(bench: &Bench) -> anyhow::Result<()> {
    if !bench.wants("scaling") {
        return Ok(());
    }
    let table = Table::new(bench.repeat)?;
    let [_, (_, config, _)] = HEADS;
    let rng = &mut TorchRng::manual_seed(123);
    let model = GptModel::new(config, rng)?;
    decode(&table, &model)?;
    train(&table, model, rng)
}

/// Measures the phases of a training step of GPT-2 on 4 sequences of 256 tokens. Also measures the
/// forward and backward pass of the small model that `gpt train` trains by default.
fn train(table: &Table, mut model: GptModel, rng: &mut TorchRng) -> anyhow::Result<()> {
    let config = model.config();
    let mut grads = GptModel::zeros(config)?;
    let mut optimizer = AdamW::new(AdamWConfig::default(), &model)?;
    let x = Array3::from_elem((4, 256, config.emb_dim), 0.1);
    let (block, d_block) = (&model.trf_blocks[0], &mut grads.trf_blocks[0]);
    table.phase("train 4x256: a norm", || {
        let (y, cache) = block.norm1.forward_train(&x);
        let y = Pooled::from(y);
        drop(Pooled::from(block.norm1.backward(
            cache,
            &*y,
            &mut d_block.norm1,
        )));
    });
    table.phase("train 4x256: attention", || {
        let forward = block.att.forward_train(x.clone(), rng);
        let (y, cache) = forward.expect("as many tokens as the context has room for");
        let y = Pooled::from(y);
        drop(Pooled::from(block.att.backward(
            cache,
            &y,
            &mut d_block.att,
        )));
    });
    table.phase("train 4x256: feed-forward", || {
        let (y, cache) = block.ff.forward_train(x.clone());
        let y = Pooled::from(y);
        drop(Pooled::from(block.ff.backward(cache, &y, &mut d_block.ff)));
    });
    let rows = x.into_shape_with_order((1024, config.emb_dim))?;
    let targets: Vec<u32> = ids(1, 1024).into_iter().collect();
    table.phase("train 4x256: head and loss", || {
        let logits = matmul(&rows, &model.head_weight().t());
        let d_logits = Pooled::from(cross_entropy_train(logits, &targets, 1.0).1);
        matmul_into(&d_logits.t(), &rows, 1.0, grads.tok_emb.weight.view_mut());
        drop(Pooled::from(matmul(&d_logits, model.head_weight())));
    });
    table.phase("train 4x256: AdamW", || {
        optimizer.step(&mut model, &mut grads)
    });

    let (config, batch) = story();
    let model = GptModel::new(config, rng)?;
    let mut grads = GptModel::zeros(config)?;
    let mut parts = BatchParts::new(&model);
    let ids = ids(batch, config.context_length).mapv(|id| id % config.vocab_size as u32);
    table.phase("train story: a step", || {
        let loss = parts.loss_and_grads(&model, &ids, &ids, 1.0, rng, &mut grads);
        black_box(loss.expect("ids and length suit the model"));
    });
    Ok(())
}

/// Measures how long GPT-2 takes to decode one token after a prompt of 144 tokens. Adds a row to
/// the table for each number format.
fn decode(table: &Table, model: &GptModel) -> anyhow::Result<()> {
    let prompt: Vec<u32> = ids(1, 144).into_iter().collect();
    for &dtype in Dtype::ALL {
        let mut decoder = Decoder::new(DecoderWeights::new(model, dtype)?);
        decoder.start(&prompt)?;
        table.phase(&format!("token, {dtype}: all of it"), || {
            decoder.push(&[11]).expect("a token of the vocabulary");
            black_box(decoder.advance().expect("a sequence"));
        });
    }
    Ok(())
}

/// The table that shows how the time of each phase, such as attention, depends on the number of
/// threads. It is printed row by row. `pools` contains one thread pool for each number of threads,
/// which is a column of the table. `most` is a pool of [`MAX_THREADS`] threads, which is used to
/// count the parallel loops of each phase and the tasks of these loops.
struct Table {
    pools: Vec<ThreadPool>,
    most: ThreadPool,
    repeat: usize,
}

impl Table {
    /// Creates the thread pools and prints the heading.
    fn new(repeat: usize) -> anyhow::Result<Self> {
        let cores = std::thread::available_parallelism()?.get();
        let pool = |threads| ThreadPoolBuilder::new().num_threads(threads).build();
        let columns: Vec<_> = THREADS.into_iter().filter(|&n| n <= cores).collect();
        let names: String = columns.iter().map(|n| format!("{n:>8} threads")).collect();
        say(&format!(
            "\n{:<30}{names}{:>14}{:>14}",
            "scaling, ms", "loops of 16", "fewest tasks"
        ));
        Ok(Self {
            pools: columns.into_iter().map(pool).collect::<Result<_, _>>()?,
            most: pool(MAX_THREADS)?,
            repeat,
        })
    }

    /// Measures a phase and prints its row: the median time for each number of threads, the number
    /// of parallel loops, and the number of tasks in the loop with the fewest tasks. An asterisk
    /// after the last number means that this loop has fewer than [`MIN_TASKS_PER_THREAD`] tasks per
    /// thread.
    fn phase(&self, name: &str, mut work: impl FnMut() + Send) {
        let mut line = format!("{name:<30}");
        for pool in &self.pools {
            let mut run = || time(|| pool.install(|| awake(&mut work)));
            run(); // warm-up
            let times = (0..self.repeat).map(|_| run()).collect();
            line += &format!("{:>16.3}", 1e3 * median(times));
        }
        loop_counts(); // resets the counters
        self.most.install(&mut work);
        let shared = loop_counts();
        let fewest = shared.fewest_tasks.unwrap_or(1);
        let few = if fewest < MIN_TASKS_PER_THREAD * MAX_THREADS {
            "*"
        } else {
            ""
        };
        say(&format!("{line}{:>14}{fewest:>13}{few}", shared.loops));
    }
}
