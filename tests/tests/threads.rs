//! Checks that computations with the same seed give the same results, bit for bit, for any number
//! of threads. Each computation runs in a separate process, because a process creates its thread
//! pool only once.

use std::process::Command;

/// Runs the program `print-bits` with the argument `what` and the given number of threads. Returns
/// its output without the first line, which contains the number of threads.
fn bits(what: &str, threads: usize) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_print-bits"))
        .arg(what)
        .env("RAYON_NUM_THREADS", threads.to_string())
        .output()
        .expect("the program was built with this test");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "print-bits {what}, {threads} threads: {errors}"
    );
    assert!(
        text.lines().next() == Some(&format!("threads {threads}")),
        "the pool has {threads} threads: {text}"
    );
    text.lines().skip(1).collect::<Vec<_>>().join("\n")
}

fn same_for_all_threads(what: &str) {
    let one = bits(what, 1);
    assert!(!one.is_empty(), "{what} printed nothing");
    for threads in [2, 3, 4] {
        assert_eq!(
            bits(what, threads),
            one,
            "{what} with {threads} threads and with 1"
        );
    }
}

#[test]
fn a_forward_pass_at_the_width_of_124m_has_the_same_bits_for_any_number_of_threads() {
    same_for_all_threads("forward");
}

#[test]
fn twenty_training_steps_with_dropout_have_the_same_bits_for_any_number_of_threads() {
    same_for_all_threads("train");
}

#[test]
fn building_a_model_and_generating_have_the_same_bits_for_any_number_of_threads() {
    same_for_all_threads("generate");
}
