//! Every solution passes, every stub is "not written yet", and every known mistake is named.

#![allow(clippy::todo, clippy::type_complexity)] // stubs, and signatures of exercises
#![allow(
    dead_code,
    reason = "each file is a separate program with its own main"
)]
#![allow(missing_docs, unreachable_pub, reason = "the files are exercises")]

use practice::{EXERCISES, Outcome, Report};

#[path = "../exercises/ex3_1.rs"]
mod ex3_1;
#[path = "../exercises/s2_3.rs"]
mod s2_3;
#[path = "../exercises/s2_5.rs"]
mod s2_5;
#[path = "../exercises/s2_6.rs"]
mod s2_6;
#[path = "../exercises/s3_3_1.rs"]
mod s3_3_1;
#[path = "../exercises/s3_3_2.rs"]
mod s3_3_2;
#[path = "../exercises/s3_4.rs"]
mod s3_4;
#[path = "../exercises/s3_5.rs"]
mod s3_5;
#[path = "../exercises/s3_6.rs"]
mod s3_6;
#[path = "../exercises/s4_2.rs"]
mod s4_2;
#[path = "../exercises/s4_3.rs"]
mod s4_3;
#[path = "../exercises/s4_4.rs"]
mod s4_4;
#[path = "../exercises/s4_5.rs"]
mod s4_5;
#[path = "../exercises/s4_7.rs"]
mod s4_7;
#[path = "../exercises/s5_1.rs"]
mod s5_1;
#[path = "../exercises/s5_3.rs"]
mod s5_3;

/// An exercise's name, its check with the solution, and with the stub.
type Case = (&'static str, fn() -> Report, fn() -> Report);

const CASES: &[Case] = &[
    (
        "s2_3",
        || practice::simple_tokenizer(s2_3::encode, s2_3::decode),
        || practice::simple_tokenizer(|_, _| todo!(), |_, _| todo!()),
    ),
    (
        "s2_5",
        || practice::merge_pair(s2_5::merge),
        || practice::merge_pair(|_, _, _| todo!()),
    ),
    (
        "s2_6",
        || practice::windows(s2_6::windows),
        || practice::windows(|_, _, _| todo!()),
    ),
    (
        "s3_3_1",
        || practice::softmax(s3_3_1::softmax),
        || practice::softmax(|_| todo!()),
    ),
    (
        "s3_3_2",
        || practice::context_vectors(s3_3_2::context_vectors),
        || practice::context_vectors(|_| todo!()),
    ),
    (
        "s3_4",
        || practice::attention_with_weights(s3_4::attention),
        || practice::attention_with_weights(|_, _, _, _| todo!()),
    ),
    (
        "s3_5",
        || practice::causal_weights(s3_5::causal_weights),
        || practice::causal_weights(|_, _| todo!()),
    ),
    (
        "s3_6",
        || practice::heads(s3_6::split, s3_6::join),
        || practice::heads(|_, _| todo!(), |_| todo!()),
    ),
    (
        "ex3_1",
        || practice::weights_of_linear(ex3_1::v1_weights),
        || practice::weights_of_linear(|_| todo!()),
    ),
    (
        "s4_2",
        || practice::layer_norm(s4_2::layer_norm),
        || practice::layer_norm(|_, _, _, _| todo!()),
    ),
    (
        "s4_3",
        || practice::gelu(s4_3::gelu),
        || practice::gelu(|_| todo!()),
    ),
    (
        "s4_4",
        || practice::shortcut(s4_4::forward),
        || practice::shortcut(|_, _| todo!()),
    ),
    (
        "s4_5",
        || practice::block(s4_5::block),
        || practice::block(|_, _, _, _| todo!()),
    ),
    (
        "s4_7",
        || practice::greedy(s4_7::generate),
        || practice::greedy(|_, _, _, _| todo!()),
    ),
    (
        "s5_1",
        || practice::cross_entropy(s5_1::cross_entropy, s5_1::perplexity),
        || practice::cross_entropy(|_, _| todo!(), |_| todo!()),
    ),
    (
        "s5_3",
        || practice::decoding(s5_3::with_temperature, s5_3::top_k),
        || practice::decoding(|_, _| todo!(), |_, _| todo!()),
    ),
];

#[test]
#[allow(clippy::todo, reason = "as in a stub")]
fn every_solution_passes_and_every_stub_is_not_written_yet() {
    let names: Vec<&str> = EXERCISES.iter().map(|exercise| exercise.name).collect();
    assert_eq!(
        names,
        CASES.iter().map(|(name, ..)| *name).collect::<Vec<_>>()
    );
    for (name, solution, stub) in CASES {
        let report = solution();
        assert!(report.is_done(), "{name}: {:#?}", report.lines);
        assert_eq!(report.unnamed, [""; 0], "{name}");
        assert_eq!(stub().outcome, Outcome::NotWritten, "{name}");
    }
}

#[test]
fn a_wrong_shape_a_panic_and_a_mistake_are_results() {
    use practice::ndarray::{Array1, array};
    let lines = |yours| practice::softmax(yours).lines.join("\n");
    let of_shape = lines(|_| array![1.0]);
    assert!(
        of_shape.contains("1 numbers instead of the 6 printed"),
        "{of_shape}"
    );
    assert!(
        of_shape.contains("the shape is [1] instead of [5]"),
        "{of_shape}"
    );
    let of_panic = lines(|_| panic!("a reason"));
    assert!(of_panic.contains("it panicked: a reason"), "{of_panic}");
    let of_mistake = lines(|scores: &Array1<f32>| scores.mapv(f32::exp));
    let name = "a known mistake: the division by the sum is missing";
    assert!(of_mistake.contains(name), "{of_mistake}");
    let of_constants = lines(|_| array![0.1385, 0.2379, 0.2333, 0.1240, 0.1082, 0.1581]);
    assert!(
        of_constants.contains("In [7]") && of_constants.contains(" ok"),
        "{of_constants}"
    );
    assert!(!practice::softmax(|_| array![0.1385]).is_done());
}

#[test]
fn no_check_takes_numbers_that_are_not_numbers() {
    for report in [
        practice::softmax(|scores| scores.mapv(|_| f32::NAN)),
        practice::causal_weights(|scores, _| scores.mapv(|_| f32::NAN)),
        practice::gelu(|_| f32::NAN),
        practice::cross_entropy(|_, _| f32::NAN, |_| f32::NAN),
    ] {
        assert_eq!(report.outcome, Outcome::Checked(0, report.lines.len()));
    }
}
