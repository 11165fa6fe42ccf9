//! Tests the gradient check with a softmax in `f32`. A correct gradient must pass at each scale of
//! the input, and typical mistakes in a gradient must be detected.

use ndarray::{Array1, Array2, Axis, array};
use test_support::{
    GradientCheck, INPUT_SCALES, check_gradient, project, projection_weights, test_array,
};

fn softmax(x: &Array2<f32>) -> Array2<f32> {
    let mut out = x.clone();
    for mut row in out.rows_mut() {
        let max = row.fold(f32::NEG_INFINITY, |max, &x| max.max(x));
        row.mapv_inplace(|x| (x - max).exp());
        let sum = row.sum();
        row.mapv_inplace(|x| x / sum);
    }
    out
}

fn softmax_backward(x: &Array2<f32>, d_out: &Array2<f32>) -> Array2<f32> {
    let out = softmax(x);
    let along = (&out * d_out).sum_axis(Axis(1)).insert_axis(Axis(1));
    out * (d_out - &along)
}

#[test]
fn a_correct_gradient_passes_with_a_margin_and_a_missing_term_is_detected_at_every_scale() {
    for scale in INPUT_SCALES {
        let x = test_array((6, 16), scale, 1);
        let weights = projection_weights((6, 16), 1);
        let objective = |x: &Array2<f32>| project(&softmax(x), &weights);
        let d_x = softmax_backward(&x, &weights);
        // The transposed array checks that the layout in memory doesn't matter.
        let transposed = |x: &Array2<f32>| objective(&x.t().to_owned());
        let report = check_gradient("softmax", &x.t(), &d_x.t(), transposed);
        assert!(report.max_rel_error < 1e-4, "{report}");
        let lost = softmax(&x) * &weights;
        let report = GradientCheck::default().measure("lost", &x, &lost, objective);
        assert!(report.max_rel_error > 0.05, "scale {scale}: {report}");
    }
}

#[test]
fn one_wrong_element_in_a_hundred_is_detected_and_reported() {
    let x = test_array((10, 10), 1.0, 3);
    let weights = projection_weights((10, 10), 3);
    let mut d_x = softmax_backward(&x, &weights);
    d_x[[7, 4]] *= 1.5;
    let report =
        GradientCheck::default().measure("softmax", &x, &d_x, |x| project(&softmax(x), &weights));
    assert!(report.max_rel_error > 0.01, "{report}");
    assert_eq!(report.worst.expect("a hundred elements"), [7, 4]);
}

#[test]
fn a_gradient_of_zero_passes_although_the_differences_are_noise() {
    // Adding the same number to all elements of a row doesn't change the softmax of the row, so the
    // gradient with respect to this number is 0.
    let x = test_array((4, 8), 1.0, 4);
    let weights = projection_weights((4, 8), 4);
    for seed in 0..20 {
        let shift = test_array(4, 1.0, seed);
        check_gradient("shift", &shift, &array![0.0, 0.0, 0.0, 0.0], |shift| {
            project(
                &softmax(&(&x + &shift.view().insert_axis(Axis(1)))),
                &weights,
            )
        });
    }
}

#[test]
fn a_missing_gradient_is_detected_even_if_the_derivatives_are_small() {
    // Correct derivatives may be so small that a gradient of 0 seems to be nearly correct. The
    // check must nevertheless detect it. In this test, the objective is the mean of 1,000 squares,
    // whose derivative with respect to each element is at most about 0.002, and the gradient under
    // test is 0, which is wrong.
    let x = test_array(1000, 1.0, 5);
    let objective = |x: &Array1<f32>| x.iter().map(|&x| f64::from(x * x)).sum::<f64>() / 1000.0;
    let report =
        GradientCheck::default().measure("mean square", &x, &Array1::zeros(1000), objective);
    assert!(report.max_rel_error > 0.5, "{report}");
}

#[test]
fn a_sample_of_a_large_model_is_spread_over_it() {
    let x = Array1::ones(1000);
    let mut wrong = Array1::from_elem(1000, 2.0);
    wrong[900] = 9.0;
    let check = GradientCheck {
        max_elements: 10,
        ..Default::default()
    };
    let squares = |x: &Array1<f32>| x.iter().map(|&x| f64::from(x * x)).sum();
    let report = check.measure("squares", &x, &wrong, squares);
    assert_eq!(report.checked, 10);
    assert_eq!(report.worst.expect("ten elements"), [900]);
}

#[test]
#[should_panic(expected = "the gradient is wrong: nan")]
fn a_gradient_that_is_not_a_number_fails() {
    check_gradient("nan", &array![1.0], &array![f32::NAN], |x| f64::from(x[0]));
}

#[test]
#[should_panic(expected = "the gradient is wrong: log")]
fn an_objective_that_is_not_finite_fails() {
    check_gradient("log", &array![0.0, 1.0], &array![1.0, 1.0], |x| {
        x.iter().map(|&x| f64::from(x).ln()).sum()
    });
}
