//! Tests of the forward passes. The results of matrix products and activation functions are
//! compared with reference results, which are computed in `f64` from the definitions. Further tests
//! check properties and special cases.

use ndarray::{Array2, Array3, ArrayD, Axis, IxDyn, array, s};
use proptest::prelude::*;
use tensor_ops::engine::{causal_softmax_from_log_sums, causal_softmax_rows, matmul_into_serial};
use tensor_ops::{
    Dropout, Embedding, Linear, cross_entropy, cross_entropy_rows, cross_entropy_train, gelu,
    matmul, matmul_batched, matmul_into, softmax, softmax_naive,
};
use test_support::{array2, assert_close, test_array};
use torch_rng::TorchRng;

fn matmul_f64(a: &Array2<f32>, b: &Array2<f32>) -> Array2<f64> {
    a.mapv(f64::from).dot(&b.mapv(f64::from))
}

proptest! {
    #![proptest_config(test_support::proptest_config(256))]
    #[test]
    fn softmax_rows_sum_to_one_for_any_finite_input(x in array2(1..6, 1..70, 1e30)) {
        let p = softmax(&x, Axis(1));
        for row in p.rows() {
            prop_assert!(row.iter().all(|&p| (0.0..=1.0).contains(&p)));
            prop_assert!((row.sum() - 1.0).abs() < 1e-5, "sum {}", row.sum());
        }
    }

    #[test]
    fn softmax_ignores_a_constant_added_to_all(x in array2(1..4, 1..40, 5.0), shift in -50.0f32..50.0) {
        assert_close(&softmax(&(&x + shift), Axis(1)), &softmax(&x, Axis(1)), 1e-4);
        assert_close(&softmax_naive(&x, Axis(1)), &softmax(&x, Axis(1)), 1e-5);
    }
}

/// Numbers of rows and columns of the tested matrices. They include 0, and numbers that aren't
/// multiples of the length of a vector register or of a block.
const SIZES: [usize; 11] = [0, 1, 2, 3, 4, 7, 10, 11, 17, 65, 130];

#[test]
fn products_of_every_small_shape_agree_with_the_definition() {
    let small = iproduct(iproduct(SIZES, SIZES), SIZES);
    let wide = iproduct([(2, 3)], [(1 << 16) - 1, 1 << 16, (1 << 16) + 5]); // size of a vocabulary
    for ((m, k), n) in small.chain(wide) {
        let a: Array2<f32> = test_array((m, k), 1.0, 1);
        let w: Array2<f32> = test_array((n, k), 1.0, 2);
        let expected = matmul_f64(&a, &w.t().to_owned());
        assert_close(&matmul(&a, &w.t()), &expected, 1e-4);
        let columns = |x: &Array2<f32>| x.t().as_standard_layout().into_owned();
        let (turned, columns) = (columns(&a), columns(&w));
        for (a, b) in iproduct([a.view(), turned.t()], [w.t(), columns.view()]) {
            let mut c: Array2<f32> = test_array((m, n), 1.0, 3);
            let plus = &expected + &c.mapv(|c| 0.5 * f64::from(c));
            matmul_into(&a, &b, 0.5, c.view_mut());
            assert_close(&c, &plus, 1e-4);
            matmul_into_serial(&a, &b, 0.0, c.view_mut());
            assert_close(&c, &expected, 1e-4);
        }
        for bias in [false, true] {
            let mut linear = Linear::zeros(k, n, bias);
            linear.weight.assign(&w);
            linear.bias.iter_mut().for_each(|bias| bias.fill(0.25));
            let plus = &expected + if bias { 0.25 } else { 0.0 };
            assert_close(&linear.forward(&a), &plus, 1e-4);
        }
    }
}

/// Returns all pairs of an item of `some` and an item of `others`, like `itertools.product` in
/// Python.
fn iproduct<A: Copy, B>(
    some: impl IntoIterator<Item = A>,
    others: impl IntoIterator<Item = B> + Clone,
) -> impl Iterator<Item = (A, B)> {
    let some = some.into_iter();
    some.flat_map(move |a| others.clone().into_iter().map(move |b| (a, b)))
}

#[test]
fn products_have_the_same_bits_on_any_number_of_threads() {
    for (m, k, n) in [
        (515, 1030, 131),
        (1281, 70, 40),
        (257, 600, 129),
        (65, 700, 300),
        (900, 70, 1200),
    ] {
        let a: Array2<f32> = test_array((m, k), 1.0, 1);
        let a_transposed = a.t().as_standard_layout().into_owned();
        let w: Array2<f32> = test_array((n, k), 1.0, 2);
        let on = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
            pool.unwrap().install(|| {
                [
                    matmul(&a, &w.t()),
                    matmul(&a, &w.t().as_standard_layout()),
                    matmul(&a_transposed.t(), &w.t().as_standard_layout()),
                    matmul(&a_transposed.t(), &w.t()),
                ]
            })
        };
        let one = on(1);
        for threads in [2, 3, 7, 16] {
            assert!(on(threads) == one, "{m} x {k} x {n} on {threads} threads");
        }
    }
}

#[test]
fn matmul_overwrites_nan_when_beta_is_zero() {
    let a: Array2<f32> = test_array((1, 4), 1.0, 1);
    let w: Array2<f32> = test_array((3, 4), 1.0, 2);
    let mut c = Array2::from_elem((1, 3), f32::NAN);
    matmul_into(&a, &w.t(), 0.0, c.view_mut());
    assert!(c.iter().all(|c| c.is_finite()), "{c}");
}

#[test]
#[should_panic(
    expected = "matmul: a matrix of shape [2, 3] can't be multiplied by a matrix of shape [4, 5]"
)]
fn matmul_names_the_shapes_that_dont_fit() {
    drop(matmul(&Array2::zeros((2, 3)), &Array2::zeros((4, 5))));
}

#[test]
fn matmul_batched_gives_the_bits_of_each_product_alone() {
    let a: ArrayD<f32> = test_array(IxDyn(&[2, 3, 5, 4]), 1.0, 1);
    let c = matmul_batched(&a, &a.view().permuted_axes(IxDyn(&[0, 1, 3, 2])));
    for i in 0..2 {
        for j in 0..3 {
            let one = a.slice(s![i, j, .., ..]);
            assert_eq!(c.slice(s![i, j, .., ..]), matmul(&one, &one.t()));
        }
    }
}

#[test]
fn linear_takes_any_number_of_leading_dimensions() {
    let linear = Linear::new(10, 20, true, &mut TorchRng::manual_seed(123));
    for shape in [
        &[10][..],
        &[8, 10],
        &[2, 4, 10],
        &[5, 5, 5, 5, 5, 5, 10],
        &[0, 10],
    ] {
        let mut expected = shape.to_vec();
        *expected.last_mut().unwrap() = 20;
        let y = linear.forward(&ArrayD::<f32>::zeros(shape));
        assert_eq!(y.shape(), expected);
        let bias = linear.bias.as_ref().unwrap();
        assert!(
            y.rows().into_iter().all(|row| row == bias),
            "zeros give the bias"
        );
    }
}

#[test]
fn linear_of_a_transposed_view_equals_that_of_its_copy() {
    let linear = Linear::new(7, 4, false, &mut TorchRng::manual_seed(1));
    let x: Array2<f32> = test_array((7, 5), 1.0, 1);
    assert_eq!(
        linear.forward(&x.t()),
        linear.forward(&x.t().as_standard_layout().into_owned())
    );
}

#[test]
#[should_panic(
    expected = "Linear::forward: the input has shape [2, 3], but its last dimension must be 4"
)]
fn linear_names_both_shapes() {
    Linear::zeros(4, 5, false).forward(&Array2::<f32>::zeros((2, 3)));
}

#[test]
#[should_panic(expected = "the ID 6 is out of range for a table with 6 rows")]
fn embedding_names_the_id_out_of_range() {
    Embedding::zeros(6, 3).forward(&array![6u32]);
}

#[test]
fn exact_gelu_is_x_times_the_normal_distribution() {
    // The exact form of GELU is `x * phi`, where `phi` is the cumulative distribution function of
    // the standard normal distribution at `x`. These values come from a table of this function.
    for (x, phi) in [
        (-3.0f64, 0.001349898),
        (-1.0, 0.158655254),
        (0.0, 0.5),
        (0.5, 0.691462461),
        (1.0, 0.841344746),
        (4.0, 0.999968329),
    ] {
        let got = f64::from(tensor_ops::gelu_exact(&array![x as f32])[0]);
        let expected = x * phi;
        assert!(
            (got - expected).abs() <= 1e-6 * expected.abs(),
            "gelu_exact({x}) = {got}, not {expected}"
        );
    }
    assert!(tensor_ops::gelu_exact(&array![f32::NAN])[0].is_nan());
}

#[test]
fn gelu_is_the_tanh_form() {
    for i in -800..=800 {
        let x = i as f32 / 100.0;
        let v = f64::from(x);
        let u = (2.0 / std::f64::consts::PI).sqrt() * (v + 0.044715 * v.powi(3));
        let expected = 0.5 * v * (1.0 + u.tanh());
        let got = f64::from(gelu(&array![x])[0]);
        assert!(
            (got - expected).abs() < 1e-6 * v.abs().max(0.1),
            "gelu({x}) = {got}, not {expected}"
        );
    }
    assert!(gelu(&array![f32::NAN])[0].is_nan());
}

#[test]
fn softmax_works_along_any_axis_as_along_the_last() {
    let x: Array3<f32> = test_array((3, 4, 5), 2.0, 1);
    let along_1 = softmax(&x, Axis(1));
    let moved = softmax(&x.view().permuted_axes([0, 2, 1]), Axis(2));
    assert_eq!(along_1, moved.permuted_axes([0, 2, 1]));
}

#[test]
fn softmax_of_nothing_but_minus_infinity_is_nan_as_in_pytorch() {
    let p = softmax(&array![f32::NEG_INFINITY, f32::NEG_INFINITY], Axis(0));
    assert!(p.iter().all(|p| p.is_nan()));
}

#[test]
fn causal_softmax_equals_masking_with_minus_infinity_first() {
    for first_query in [0, 3, 10] {
        let x: Array2<f32> = test_array((6, 16), 3.0, 1);
        let mut masked = &x * 0.25;
        for i in 0..6 {
            masked
                .slice_mut(s![i, (first_query + i + 1).min(16)..])
                .fill(f32::NEG_INFINITY);
        }
        let expected = softmax(&masked, Axis(1));
        let mut got = x.clone();
        let mut log_sums = [0.0; 6];
        causal_softmax_rows(got.view_mut(), 0.25, first_query, &mut log_sums);
        assert_close(&got, &expected, 1e-6);
        let mut again = x.clone();
        causal_softmax_from_log_sums(again.view_mut(), 0.25, first_query, &log_sums);
        assert_close(&again, &expected, 1e-6);
    }
}

#[test]
fn losses_keep_their_digits_however_far_the_logits_are_from_0() {
    let expected = std::f32::consts::LN_2;
    for at in [0.0, 100.0, -1e4, 1e6, 1e8] {
        let logits = array![[at, at]];
        let rows = cross_entropy_rows(&logits, &[1]);
        let (trained, _) = cross_entropy_train(logits.clone(), &[1], 1.0);
        let losses = [cross_entropy(&logits, &[1]), rows[0], trained];
        for loss in losses {
            assert!((loss - expected).abs() < 1e-6, "logits {at}: {losses:?}");
        }
    }
}

#[test]
fn cross_entropy_is_finite_where_probabilities_underflow() {
    let loss = cross_entropy(&array![[1000.0, 0.0]], &[1]);
    assert_eq!(loss, 1000.0);
    assert!(cross_entropy(&Array2::zeros((0, 3)), &[]).is_nan());
}

#[test]
fn dropout_of_rate_0_draws_nothing_and_of_rate_1_keeps_nothing() {
    let mut rng = TorchRng::manual_seed(1);
    let x: Array2<f32> = test_array((4, 5), 1.0, 1);
    let (y, _) = Dropout { p: 0.0 }.forward_train(x.clone(), &mut rng);
    assert_eq!((y, &rng), (x.clone(), &TorchRng::manual_seed(1)));
    let (y, _) = Dropout { p: 1.0 }.forward_train(x, &mut rng);
    assert_eq!(y, Array2::<f32>::zeros((4, 5)));
}

#[test]
fn applying_part_of_a_mask_equals_that_part_of_the_whole() {
    let dropout = Dropout { p: 0.5 };
    let mask = dropout.draw(1000, &mut TorchRng::manual_seed(3)).unwrap();
    let mut whole = vec![1.0; 1000];
    dropout.apply(&mask, 0, &mut whole);
    for (first, len) in [
        (0, 1),
        (1, 63),
        (63, 2),
        (64, 64),
        (100, 300),
        (999, 1),
        (937, 63),
        (500, 0),
    ] {
        let mut part = vec![1.0; len];
        dropout.apply(&mask, first, &mut part);
        assert_eq!(
            part,
            whole[first..first + len],
            "{len} elements from {first}"
        );
    }
    for (i, &y) in whole.iter().enumerate() {
        assert_eq!(y, if mask.get(i) { 2.0 } else { 0.0 });
    }
}

#[test]
#[should_panic(expected = "the bias has 1 elements, but the weight has 2 rows")]
fn a_bias_of_another_length_is_not_broadcast() {
    let mut layer = tensor_ops::Linear::zeros(3, 2, true);
    layer.bias = Some(array![1.0]);
    layer.forward(&array![[1.0, 2.0, 3.0]]);
}

#[test]
#[should_panic(expected = "the shift has 3 elements, but the scale has 2")]
fn a_shift_of_another_length_is_refused() {
    let mut norm = tensor_ops::LayerNorm::new(2);
    norm.shift = array![0.0, 0.0, 0.0];
    norm.forward(&array![[1.0, 2.0]]);
}

#[test]
#[should_panic(expected = "the scale must be at least 0, got -1")]
fn a_negative_scale_is_refused() {
    causal_softmax_rows(array![[1.0, 2.0]].view_mut(), -1.0, 0, &mut [0.0]);
}
