//! Tests that each row of a matrix product is bitwise identical whether it is computed alone or
//! together with other rows, and regardless of the number of threads.

use kernels::ndarray::{Array1, Array2, s};
use kernels::{Bf16Matrix, F16Matrix, Int4Matrix, Int8Matrix};
use proptest::prelude::*;
use rayon::ThreadPoolBuilder;
use tensor_ops::{Dtype, Linear};
use torch_rng::TorchRng;

type Product<'a> = Box<dyn Fn(&Array2<f32>) -> Array2<f32> + Sync + 'a>;

/// Returns all implementations of the product of a matrix and the weights of `layer`, each with its
/// name. The tests check that every implementation computes each row independently of the other
/// rows. The implementations differ in how the weights are stored and to which number format they
/// are rounded.
fn products(layer: &Linear) -> Vec<(&'static str, Product<'_>)> {
    let linear = |dtype| -> Product<'_> {
        let layer = Linear {
            dtype,
            ..layer.clone()
        };
        Box::new(move |x| layer.forward(x))
    };
    macro_rules! packed {
        ($matrix:ty) => {{
            let weight = <$matrix>::from_f32(&layer.weight);
            Box::new(move |x: &Array2<f32>| {
                let mut y = Array2::from_elem((x.nrows(), layer.out_features()), f32::NAN);
                weight.matmul_rows(x, y.view_mut());
                y
            })
        }};
    }
    vec![
        ("Linear in float32", linear(Dtype::Float32)),
        ("Linear in bfloat16", linear(Dtype::BFloat16)),
        ("Bf16Matrix", packed!(Bf16Matrix)),
        ("F16Matrix", packed!(F16Matrix)),
        ("Int8Matrix", packed!(Int8Matrix)),
        ("Int4Matrix", packed!(Int4Matrix)),
    ]
}

fn bits(y: impl IntoIterator<Item = f32>) -> Vec<u32> {
    y.into_iter().map(f32::to_bits).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_row_has_the_same_bits_alone_and_among_others(
        rows in 1..70usize,
        inputs in prop_oneof![1..70usize, 760..810usize, Just(1600)],
        outputs in 1..120usize,
        (first, count) in (0..70usize, 1..70usize),
        bias: bool,
        seed: u64,
        threads in 1..=8usize,
    ) {
        let mut rng = TorchRng::manual_seed(seed);
        let mut layer = Linear::new(inputs, outputs, bias, &mut rng);
        if let Some(bias) = &mut layer.bias {
            *bias = Array1::from_iter(rng.randn(outputs));
        }
        let x = Array2::from_shape_vec((rows, inputs), rng.randn(rows * inputs)).unwrap();
        let first = first % rows;
        let some = first..rows.min(first + count);
        let pool = |threads| ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let (one, many) = (pool(1), pool(threads));
        for (name, product) in products(&layer) {
            let all = one.install(|| product(&x));
            for range in [some.clone(), first..first + 1, 0..rows] {
                let part = x.slice(s![range.clone(), ..]).to_owned();
                let y = many.install(|| product(&part));
                let expected = all.slice(s![range.clone(), ..]);
                prop_assert_eq!(
                    bits(y), bits(expected.iter().copied()),
                    "{}: rows {:?} of {}", name, range, rows
                );
            }
        }
    }
}
