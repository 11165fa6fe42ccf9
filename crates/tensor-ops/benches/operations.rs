//! Measures the speed of each operation, with arrays of the same size as in the GPT-2 model with
//! 124 million parameters. The following command runs the benchmarks:
//!
//! ```sh
//! cargo bench -p tensor-ops
//! ```
//!
//! To run only some of the benchmarks, add `-- FILTER` to the command. Criterion compares the
//! results with the previous run and reports which operations have become slower. To compare
//! complete programs with PyTorch and other implementations, use `cargo xtask bench` instead.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use kernels::{Bf16Matrix, Int8Matrix};
use ndarray::{Array2, ArrayView2};
use tensor_ops::{
    Dropout, Embedding, LayerNorm, Linear, cross_entropy_train, gelu, gelu_backward, matmul,
    matmul_into,
};
use torch_rng::{Build, TorchRng};

const EMB_DIM: usize = 768;
const VOCAB_SIZE: usize = 50257;
/// Number of rows of the matrices in a training step that processes 4 sequences of 256 tokens.
const ROWS: usize = 1024;

fn random(rows: usize, columns: usize) -> Array2<f32> {
    let numbers = TorchRng::manual_seed(1).rand(rows * columns);
    Array2::from_shape_vec((rows, columns), numbers).expect("rows * columns numbers") - 0.5
}

fn products(c: &mut Criterion) {
    let mut group = c.benchmark_group("matmul");
    for (name, m, k, n) in [
        ("projection", ROWS, EMB_DIM, EMB_DIM),
        ("expand", ROWS, EMB_DIM, 4 * EMB_DIM),
        ("contract", ROWS, 4 * EMB_DIM, EMB_DIM),
        ("head", ROWS, EMB_DIM, VOCAB_SIZE),
    ] {
        let (x, w) = (random(m, k), random(n, k));
        let d_y = random(m, n);
        let mut d_w = Array2::zeros((n, k));
        group.throughput(Throughput::Elements(2 * (m * k * n) as u64));
        group.bench_function(format!("{name}, forward"), |b| {
            b.iter(|| matmul(&x, &w.t()));
        });
        group.bench_function(format!("{name}, weight gradient"), |b| {
            b.iter(|| matmul_into(&d_y.t(), &x, 1.0, d_w.view_mut()));
        });
        group.bench_function(format!("{name}, input gradient"), |b| {
            b.iter(|| matmul(&d_y, &w));
        });
    }
}

fn one_row(c: &mut Criterion) {
    let mut group = c.benchmark_group("one row");
    for (name, outputs) in [("projection", EMB_DIM), ("head", VOCAB_SIZE)] {
        let (x, w) = (random(1, EMB_DIM), random(outputs, EMB_DIM));
        let (bf16, int8) = (Bf16Matrix::from_f32(&w), Int8Matrix::from_f32(&w));
        let mut y = Array2::zeros((1, outputs));
        group.throughput(Throughput::Bytes(4 * w.len() as u64));
        group.bench_function(format!("{name}, f32"), |b| {
            b.iter(|| matmul_into(&x, &w.t(), 0.0, y.view_mut()));
        });
        group.throughput(Throughput::Bytes(bf16.bytes() as u64));
        group.bench_function(format!("{name}, bf16"), |b| {
            b.iter(|| bf16.matmul_rows(&x, y.view_mut()));
        });
        group.throughput(Throughput::Bytes(int8.bytes() as u64));
        group.bench_function(format!("{name}, int8"), |b| {
            b.iter(|| int8.matmul_rows(&x, y.view_mut()));
        });
    }
}

fn rows(c: &mut Criterion) {
    let mut group = c.benchmark_group("rows");
    let x = random(ROWS, EMB_DIM);
    let hidden = random(ROWS, 4 * EMB_DIM);
    let mut rng = TorchRng::manual_seed(123);
    let linear = Linear::new(EMB_DIM, 4 * EMB_DIM, true, &mut rng);
    let norm = LayerNorm::new(EMB_DIM);
    let mut d_norm = LayerNorm::zeros(EMB_DIM);
    group.throughput(Throughput::Elements(x.len() as u64));
    group.bench_function("linear with bias", |b| b.iter(|| linear.forward(&x)));
    group.bench_function("layer norm, forward", |b| b.iter(|| norm.forward(&x)));
    group.bench_function("layer norm, forward and backward", |b| {
        b.iter(|| {
            let (y, cache) = norm.forward_train(&x);
            norm.backward(cache, &y, &mut d_norm)
        });
    });
    group.throughput(Throughput::Elements(hidden.len() as u64));
    group.bench_function("gelu, forward", |b| b.iter(|| gelu(&hidden)));
    group.bench_function("gelu, backward", |b| {
        b.iter_with_setup(|| hidden.clone(), |d| gelu_backward(&hidden, d));
    });
    for build in [Build::Portable, Build::Mkl] {
        let mut rng = TorchRng::manual_seed(123).with_build(build);
        group.bench_function(format!("dropout, {build} draws"), |b| {
            b.iter_with_setup(
                || hidden.clone(),
                |x| Dropout { p: 0.1 }.forward_train(x, &mut rng),
            );
        });
    }
}

fn ends(c: &mut Criterion) {
    let mut group = c.benchmark_group("ends");
    let logits = random(ROWS, VOCAB_SIZE);
    let targets: Vec<u32> = (0..ROWS as u32).map(|i| i * 7).collect();
    group.throughput(Throughput::Elements(logits.len() as u64));
    group.bench_function("cross-entropy, forward and backward", |b| {
        b.iter_with_setup(
            || (logits.clone(), targets.clone()),
            |(logits, targets)| cross_entropy_train(logits, &targets, 1.0),
        );
    });
    let table = Embedding::new(VOCAB_SIZE, EMB_DIM, &mut TorchRng::manual_seed(123));
    let mut d_table = Embedding::zeros(VOCAB_SIZE, EMB_DIM);
    let ids = Array2::from_shape_fn((4, 256), |(i, j)| (i * 256 + j) as u32 * 7);
    let d_out = table.forward(&ids);
    group.throughput(Throughput::Elements(d_out.len() as u64));
    group.bench_function("embedding, forward", |b| b.iter(|| table.forward(&ids)));
    group.bench_function("embedding, backward", |b| {
        b.iter(|| table.backward(&ids, &d_out, &mut d_table));
    });
    let sum = |x: ArrayView2<f32>| x.iter().sum::<f32>();
    group.bench_function("plain sum, for comparison", |b| {
        b.iter(|| black_box(sum(logits.view())));
    });
}

criterion_group!(benches, products, one_row, rows, ends);
criterion_main!(benches);
