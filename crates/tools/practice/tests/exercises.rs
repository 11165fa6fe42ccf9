//! Tests of the checks that decide whether a learner has solved an exercise. The checks must accept
//! all solutions, must reject all known mistakes and describe them as the likely cause, and must
//! report other wrong results.

#![allow(clippy::disallowed_methods, reason = "tests read folders as they like")]

use practice::ndarray::{Array1, array};
use practice::{EXERCISES, Outcome, Report};

#[test]
fn every_solution_passes() {
    for exercise in EXERCISES {
        let report = exercise.check_solution();
        assert!(report.is_done(), "{}:\n{report}", exercise.name);
    }
}

#[test]
fn every_known_mistake_is_rejected_and_named() {
    let mut faults = String::new();
    for exercise in EXERCISES {
        for (mistake, report) in exercise.check_mistakes() {
            let named = format!("likely cause: {mistake}\n");
            if report.is_done() || !report.to_string().contains(&named) {
                faults += &format!("{}, {mistake}:\n{report}\n", exercise.name);
            }
        }
    }
    assert!(faults.is_empty(), "{faults}");
}

/// A learner's code usually looks different from this crate's solutions and known mistakes, so a
/// check must judge it only by its results. This test checks training loops and other functions
/// that were written in another way: correct ones must be accepted, and mistakes must be
/// recognized.
#[test]
fn a_mistake_is_named_however_it_is_made() {
    let report = practice::training_loop(|model, batches, epochs, every| {
        let mut losses = Vec::new();
        for steps in 1..=batches * epochs {
            model.zero_grad();
            model.loss((steps - 1) % batches);
            model.step();
            model.backward();
            if steps % every == 0 {
                losses.push((steps, model.validation_loss()));
            }
        }
        losses
    });
    let report = report.to_string();
    assert!(report.contains("`step` uses gradients of 0"), "{report}");
    // This training loop resets the gradients after the optimizer step instead of before the
    // backward pass. That is also correct, so the check must accept it.
    let report = practice::training_loop(|model, batches, epochs, every| {
        let mut losses = Vec::new();
        for steps in 1..=batches * epochs {
            model.loss((steps - 1) % batches);
            model.backward();
            model.step();
            model.zero_grad();
            if steps % every == 0 {
                losses.push((steps, model.validation_loss()));
            }
        }
        losses
    });
    assert!(report.is_done(), "{report}");
    // Learners wrote the following incorrect functions, and earlier versions of the checks accepted
    // them by mistake. The checks must now reject them.
    let report = practice::softmax(|scores| {
        let clamped = scores.mapv(|x| x.clamp(-80.0, 80.0).exp());
        &clamped / clamped.sum()
    });
    assert!(!report.is_done(), "{report}");
    let report = practice::causal_weights(|scores, d_k| {
        let mut masked = scores / (d_k as f32).sqrt();
        for ((i, j), score) in masked.indexed_iter_mut() {
            *score = if j > i { -1e2 } else { *score };
        }
        practice::given::softmax_rows(masked)
    });
    let named = "masked scores are -100";
    assert!(
        !report.is_done() && report.to_string().contains(named),
        "{report}"
    );
    let report = practice::windows(|ids, length, stride| {
        let starts = (0..ids.len() - length).step_by(stride);
        let part = |start: usize| ids[start..start + length].to_vec();
        starts.map(|start| (part(start), part(start + 1))).collect()
    });
    assert!(!report.is_done(), "{report}");
}

#[test]
fn every_file_of_the_folder_is_in_the_list() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/exercises");
    let names = std::fs::read_dir(folder).expect("a folder").map(|entry| {
        let name = entry.expect("a file").file_name();
        name.to_string_lossy().trim_end_matches(".rs").to_owned()
    });
    for name in names.filter(|name| name != "mod") {
        assert!(
            EXERCISES.iter().any(|exercise| exercise.name == name),
            "{name}"
        );
    }
}

#[test]
fn a_wrong_shape_a_panic_and_a_mistake_are_results() {
    let check = |yours| practice::softmax(yours).to_string();
    let of_shape = check(|_| array![1.0]);
    assert!(
        of_shape.contains("your code returned 1 value, but 6 are expected"),
        "{of_shape}"
    );
    assert!(
        of_shape.contains("the shape is [1], but it should be [5]"),
        "{of_shape}"
    );
    let of_panic = check(|_| panic!("a reason"));
    assert!(
        of_panic.contains("the function panicked: a reason"),
        "{of_panic}"
    );
    let of_constants = check(|_| array![0.1385, 0.2379, 0.2333, 0.1240, 0.1082, 0.1581]);
    assert!(
        of_constants.contains("In [7]") && of_constants.contains(" ok"),
        "{of_constants}"
    );
    assert!(!practice::softmax(|_| array![0.1385]).is_done());
}

/// A learner's function can combine a known mistake with another deviation from the correct
/// function. In this test, softmax doesn't divide the exponentials by their sum, which is a known
/// mistake, and it also limits the scores to 50. As a result, no known mistake reproduces the
/// results of this softmax in all rows of the check. The check must still recognize the missing
/// division.
#[test]
fn a_mistake_among_others_is_named() {
    let report = practice::softmax(|scores| scores.mapv(|x| x.min(50.0).exp())).to_string();
    assert!(
        report.contains("likely cause: the exponentials aren't divided by their sum"),
        "{report}"
    );
}

#[test]
#[allow(clippy::todo, reason = "as in a stub")]
fn a_function_that_is_not_written_is_no_mistake() {
    let report = practice::softmax(|_| todo!());
    assert_eq!(report.outcome, Outcome::NotWritten);
    assert_eq!(report.to_string(), "not written yet\n");
    // Only one of the two functions has been written.
    let report = practice::cross_entropy(|_, _| todo!(), f32::exp);
    assert!(
        matches!(report.outcome, Outcome::Checked(1, total) if total > 1),
        "{report}"
    );
    assert!(report.to_string().contains("not written yet"), "{report}");
}

#[test]
fn no_check_takes_numbers_that_are_not_numbers() {
    let passed = |report: Report| match report.outcome {
        Outcome::Checked(passed, _) => passed,
        Outcome::NotWritten => usize::MAX,
    };
    assert_eq!(
        passed(practice::softmax(|scores| scores.mapv(|_| f32::NAN))),
        0
    );
    assert_eq!(
        passed(practice::causal_weights(
            |scores, _| scores.mapv(|_| f32::NAN)
        )),
        0
    );
    assert_eq!(passed(practice::gelu(|_| f32::NAN)), 0);
    assert_eq!(
        passed(practice::cross_entropy(|_, _| f32::NAN, |_| f32::NAN)),
        0
    );
    let nan = |_: &Array1<f32>, _| array![f32::NAN];
    assert!(!practice::decoding(nan, |_, _| array![f32::NAN]).is_done());
}

#[test]
fn the_outcome_of_a_report_is_in_its_last_line() {
    assert_eq!(
        Outcome::of_report("x\n3 of 5 checks passed\n"),
        Some(Outcome::Checked(3, 5))
    );
    assert_eq!(
        Outcome::of_report("not written yet\n"),
        Some(Outcome::NotWritten)
    );
    for text in [
        "",
        "\n",
        "3 of 5 checks passed\nx",
        "a of 5 checks passed",
        "4 checks passed",
    ] {
        assert_eq!(Outcome::of_report(text), None, "{text:?}");
    }
}
