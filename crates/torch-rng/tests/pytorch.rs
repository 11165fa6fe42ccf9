//! Comparison of this crate with PyTorch. The expected values are in the text files in `fixtures/`,
//! which were written by the script `fixtures/pytorch.py`. The name of each file contains the
//! PyTorch release.
//!
//! To compare this crate with more values or with another PyTorch release, run
//! `fixtures/pytorch.py` and set `TORCH_RNG_FIXTURE` to the path of its output.

use std::str::FromStr;

use torch_rng::{Build, TorchRng};

/// Largest accepted difference between this crate's normal samples and PyTorch's samples. In
/// PyTorch's x86 code, the vectorized logarithm, sine and cosine don't always return the `f32` that
/// is nearest to the exact value.
const NORMAL_TOLERANCE: f32 = 3e-6;

#[test]
fn every_draw_equals_that_of_the_mkl_build() {
    assert_eq!(
        check(include_str!("fixtures/pytorch_2.4.1.txt")),
        Build::Mkl
    );
}

#[test]
fn every_draw_equals_that_of_the_portable_build() {
    assert_eq!(
        check(include_str!("fixtures/pytorch_2.15.0.txt")),
        Build::Portable
    );
}

#[test]
fn every_draw_equals_that_of_a_file_named_by_the_environment() {
    if let Some(path) = std::env::var_os("TORCH_RNG_FIXTURE") {
        check(&std::fs::read_to_string(path).expect("TORCH_RNG_FIXTURE names a text file"));
    }
}

/// Checks this crate against a fixture, a text file with random numbers that PyTorch has drawn.
/// Each line contains an operation and its results. Performs these operations and compares the
/// results. Returns the PyTorch build that the first line of the fixture specifies.
///
/// For most lines of the fixture, a new generator is created with the seed in the line. In two
/// cases, a line continues with the generator of the preceding line instead: if the seed in the
/// line is `-`, or if both lines have the same seed and both contain the operation `randn` or both
/// contain the operation `loader`.
fn check(fixture: &str) -> Build {
    let mut lines = fixture.lines();
    let build = parse(
        lines
            .next()
            .and_then(|line| line.strip_prefix("build "))
            .expect("the build comes first"),
    );
    let (mut rng, mut previous) = (TorchRng::manual_seed(0), String::new());
    let (mut normals, mut exact, mut furthest) = (0u32, 0u32, 0.0f32);
    for line in lines.filter(|line| !line.starts_with('#')) {
        let (call, values) = line.split_once(" =").expect("arguments = values");
        let words: Vec<&str> = call.split_whitespace().collect();
        let (operation, seed) = (words[0], words[1]);
        let group = format!("{operation} {seed}");
        let continued = seed == "-" || matches!(operation, "randn" | "loader") && group == previous;
        if !continued {
            rng = TorchRng::manual_seed(parse(seed)).with_build(build);
        }
        previous = group;
        let expected: Vec<&str> = values.split_whitespace().collect();
        let drawn = draw(&mut rng, operation, &words[2..], expected.len());
        assert!(
            drawn.len() >= expected.len(),
            "{call}: {} values, expected {}",
            drawn.len(),
            expected.len()
        );
        let first = drawn.len() - expected.len();
        for (i, (got, expected)) in drawn[first..].iter().zip(&expected).enumerate() {
            let is_normal = matches!(operation, "randn" | "normal");
            if is_normal {
                let (got, expected) = (float(got), float(expected));
                furthest = furthest.max((got - expected).abs());
                (normals, exact) = (normals + 1, exact + u32::from(got == expected));
                assert!(
                    (got - expected).abs() <= NORMAL_TOLERANCE,
                    "{call}: element {}: {got}, expected {expected}",
                    first + i
                );
            } else {
                assert_eq!(got, expected, "{call}: element {}", first + i);
            }
        }
    }
    println!(
        "{exact} of {normals} normal samples have the same bits as in PyTorch, and the others differ by at most {furthest:e}"
    );
    build
}

/// Performs the random operation that a line of a fixture describes. Returns the generated values
/// as strings, in the format that the fixture uses.
fn draw(rng: &mut TorchRng, operation: &str, arguments: &[&str], listed: usize) -> Vec<String> {
    let n = || parse::<usize>(arguments[0]);
    match operation {
        "rand" => bits(&rng.rand(n())),
        "randn" => bits(&rng.randn(n())),
        "uniform" | "normal" => {
            let mut out = vec![0.0; n()];
            let fill = if operation == "uniform" {
                TorchRng::fill_uniform
            } else {
                TorchRng::fill_normal
            };
            fill(rng, &mut out, parse(arguments[1]), parse(arguments[2]));
            bits(&out)
        }
        "linear" => {
            let (n_in, n_out) = (n(), parse::<usize>(arguments[1]));
            let bound = (1.0 / (n_in as f64).sqrt()) as f32;
            let (mut weight, mut bias) = (vec![0.0; n_in * n_out], vec![0.0; n_out]);
            rng.fill_uniform(&mut weight, -bound, bound);
            rng.fill_uniform(&mut bias, -bound, bound);
            bits(&[weight, bias].concat())
        }
        "dropout" => {
            rng.rand(n());
            let mask = rng.keep_mask(parse(arguments[1]), parse(arguments[2]));
            mask.iter().map(|kept| u8::from(kept).to_string()).collect()
        }
        "multinomial" => {
            let p = weights(parse(arguments[1]), n());
            texts((0..listed).map(|_| rng.multinomial(&p)))
        }
        "multinomial_rows" => {
            let n_categories = parse(arguments[1]);
            let p = weights(listed * n_categories, n());
            texts(
                rng.multinomial_rows(&p, n_categories)
                    .expect("valid probabilities"),
            )
        }
        "randperm" => texts(rng.randperm(n())),
        "randint" => {
            texts((0..listed).map(|_| rng.randint(parse(arguments[0]), parse(arguments[1]))))
        }
        "loader" => texts(rng.data_loader_order(n(), parse(arguments[1]))),
        _ => panic!(
            "the fixture contains the operation {operation}, which this test doesn't support"
        ),
    }
}

/// Returns the same weights as the function `weights` in `pytorch.py`.
fn weights(n: usize, case: usize) -> Vec<f32> {
    (0..n)
        .map(|i| ((i * 7 + case) % 11) as f32 + if i.is_multiple_of(3) { 1.0 } else { 0.0 })
        .collect()
}

fn parse<T: FromStr>(text: &str) -> T {
    text.parse()
        .unwrap_or_else(|_| panic!("the fixture has {text}"))
}

fn bits(values: &[f32]) -> Vec<String> {
    values
        .iter()
        .map(|value| format!("{:08x}", value.to_bits()))
        .collect()
}

fn float(bits: &str) -> f32 {
    f32::from_bits(u32::from_str_radix(bits, 16).expect("eight hexadecimal digits"))
}

fn texts<T: ToString>(values: impl IntoIterator<Item = T>) -> Vec<String> {
    values.into_iter().map(|value| value.to_string()).collect()
}
