//! How long the large fills of a GPT-2 124M take: `cargo run --release -p torch-rng --example fill_speed`.
//!
//! RAYON_NUM_THREADS sets the number of threads.

use std::time::{Duration, Instant};

use torch_rng::{Build, TorchRng};

/// The two embeddings: 50257 x 768 and 1024 x 768.
const NORMALS: usize = 39_383_808;
/// All weights, the output head apart from the token embedding.
const UNIFORMS: usize = 163_009_536;
/// Dropout elements of a training step of 4 x 256 tokens.
const MASKED: usize = 57_000_000;

fn main() {
    let mut rng = TorchRng::manual_seed(123);
    let mut mkl = TorchRng::manual_seed(123).with_build(Build::Mkl);
    let mut out = vec![1.0f32; UNIFORMS];
    println!("{} threads", rayon::current_num_threads());
    report("39 M normals", || {
        rng.fill_normal(&mut out[..NORMALS], 0.0, 1.0)
    });
    report("163 M uniforms", || rng.fill_uniform(&mut out, -0.02, 0.02));
    report("57 M mask bits, portable", || {
        drop(rng.keep_mask(MASKED, 0.1))
    });
    report("57 M mask bits, MKL", || drop(mkl.keep_mask(MASKED, 0.1)));
}

/// The best of three.
fn report(what: &str, mut run: impl FnMut()) {
    let mut best = Duration::MAX;
    for _ in 0..3 {
        let start = Instant::now();
        run();
        best = best.min(start.elapsed());
    }
    println!("{what:26} {best:.1?}");
}
