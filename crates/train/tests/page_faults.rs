//! Checks that a training step reuses the memory of the previous step. Otherwise, the system's
//! memory allocator, which this test uses, would map new pages in each step.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)] // a test may panic if its preparation fails

use std::ops::ControlFlow;

use dataloader::{Corpus, DataLoader, DataLoaderConfig};
use gpt::{DropRates, GptConfig, GptModel};
use torch_rng::TorchRng;
use train::{Event, TrainConfig, Trainer};

/// Returns the number of minor page faults of this process so far. A page fault is minor if it can
/// be resolved without reading from a disk.
fn page_faults() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let after_name = stat.rsplit_once(") ").unwrap().1;
    after_name.split(' ').nth(7).unwrap().parse().unwrap()
}

#[test]
fn steps_after_the_third_map_no_pages() {
    // Limit the number of threads. If there were more threads, some of them might start to work
    // only in a late step and allocate their buffers in that step, which would cause page faults.
    let pool = rayon::ThreadPoolBuilder::new().num_threads(4);
    pool.build_global().unwrap();
    let config = GptConfig {
        vocab_size: 65,
        context_length: 64,
        emb_dim: 128,
        n_heads: 4,
        n_layers: 4,
        drop_rates: DropRates::all(0.1),
        tied: true,
        ..GptConfig::GPT2_124M
    };
    let ids: Vec<u32> = (0..64 * 12 * 40u32).map(|i| i * 7919 % 65).collect();
    let windows = DataLoaderConfig {
        batch_size: 12,
        max_length: 64,
        stride: 64,
        ..DataLoaderConfig::default()
    };
    let loader = DataLoader::new(&Corpus::from_ids(ids), windows).unwrap();
    let mut rng = TorchRng::manual_seed(123);
    let model = GptModel::new(config, &mut rng).unwrap();
    let config = TrainConfig {
        max_steps: 13,
        eval_every: None,
        ..TrainConfig::default()
    };
    let mut trainer = Trainer::new(config, model, loader, None, rng).unwrap();
    let before = page_faults();
    std::hint::black_box(vec![1u8; 64 << 20]);
    if page_faults() == before {
        println!("skipped: this system doesn't count page faults");
        return;
    }
    let mut so_far = Vec::new();
    let outcome = trainer.run(None, &mut |event| {
        if let Event::Step(_) = event {
            so_far.push(page_faults());
        }
        ControlFlow::Continue(())
    });
    outcome.unwrap();
    // Use the step with the fewest page faults, because some steps may have page faults for other
    // reasons. For example, a thread may start late, or the operating system may move pages. If
    // buffers weren't reused, each step would allocate about 20 MB, which would cause thousands of
    // page faults.
    let steps = so_far[2..12].iter().zip(&so_far[3..]);
    let least = steps.map(|(before, after)| after - before).min().unwrap();
    assert!(least < 100, "{least} page faults a step, after the third");
}
