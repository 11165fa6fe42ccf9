//! The checks of chapter 4.

use ndarray::{Array1, Array2, array};
use tensor_ops::{LayerNorm, Linear, relu};
use torch_rng::TorchRng;

use crate::check::{Check, Report, ToAnswer, random};

/// Each row normalized, its variance divided by n - `ddof`.
fn normalized(x: &Array2<f32>, eps: f32, ddof: f32, eps_outside: bool) -> Array2<f32> {
    let mut out = x.clone();
    for mut row in out.rows_mut() {
        let mean = row.mean().unwrap_or_default();
        let var = row.var(ddof);
        let root = match eps_outside {
            true => var.sqrt() + eps,
            false => (var + eps).sqrt(),
        };
        row.mapv_inplace(|x| (x - mean) / root);
    }
    out
}

type Norm = fn(&Array2<f32>, &Array1<f32>, &Array1<f32>, f32) -> Array2<f32>;

/// Exercise 4.2.
pub fn layer_norm(yours: Norm) -> Report {
    let mut check = Check::default();
    let mut rng = TorchRng::manual_seed(123);
    let batch = Array2::from_shape_vec((2, 5), rng.randn(10)).expect("ten numbers");
    let out = relu(&Linear::new(5, 6, true, &mut rng).forward(&batch));
    let (ones, zeros) = (Array1::ones(6), Array1::zeros(6));
    check.printed(("ch04", "In [12]", 1), || {
        let normed = yours(&out, &ones, &zeros, 1e-5);
        let variances: Array1<f32> = normed.rows().into_iter().map(|row| row.var(0.0)).collect();
        variances.into_shape_with_order((2, 1)).expect("two rows")
    });
    let x = random(3, 4, 7);
    let (scale, shift) = (array![1.0, 2.0, 0.5, -1.0], array![0.0, 1.0, -1.0, 3.0]);
    let norm = LayerNorm {
        scale: scale.clone(),
        shift: shift.clone(),
        eps: 0.1,
    };
    let with = |normed: Array2<f32>| (normed * &scale + &shift).answer();
    check.second(
        "a second input (seed 7)",
        || yours(&x, &scale, &shift, 0.1),
        gpt::layer_norm(&norm, &x).answer(),
        vec![
            (
                "the variance is divided by n - 1, not by n",
                with(normalized(&x, 0.1, 1.0, false)),
            ),
            (
                "eps is added after the root, not before",
                with(normalized(&x, 0.1, 0.0, true)),
            ),
            (
                "scale and shift are missing",
                normalized(&x, 0.1, 0.0, false).answer(),
            ),
            ("the mean is not subtracted", with(x.mapv(|x| x))),
        ],
    );
    check.property("a row of equal numbers does no harm", || {
        let same = yours(
            &array![[2.0, 2.0, 2.0, 2.0]],
            &Array1::ones(4),
            &Array1::zeros(4),
            1e-5,
        );
        match same.iter().all(|x| *x == 0.0) {
            true => Ok(()),
            false => Err(format!("{same} instead of zeros")),
        }
    });
    check.property("100 times the row: the same result", || {
        let (ones, zeros) = (Array1::ones(4), Array1::zeros(4));
        let (one, other) = (
            yours(&x, &ones, &zeros, 0.0),
            yours(&(&x * 100.0), &ones, &zeros, 0.0),
        );
        match (&one - &other).iter().all(|d| d.abs() < 1e-3) {
            true => Ok(()),
            false => Err("the results differ".to_owned()),
        }
    });
    check.end()
}

/// Exercise 4.3.
pub fn gelu(yours: fn(f32) -> f32) -> Report {
    let mut check = Check::default();
    let x = Array1::linspace(-3.0, 3.0, 13);
    let sigmoid = x.mapv(|x: f32| x / (1.0 + (-1.702 * x).exp()));
    let no_cube =
        x.mapv(|x: f32| 0.5 * x * (1.0 + ((2.0 / std::f32::consts::PI).sqrt() * x).tanh()));
    let mut expected = gpt::gelu(&x);
    // The exact form is nearer than the usual tolerance: compare it with more digits.
    expected.mapv_inplace(|y| y * 1000.0);
    let times = |values: Array1<f32>| (values * 1000.0).answer();
    check.second(
        "-3 to 3, times 1000",
        || x.mapv(|x| yours(x) * 1000.0),
        expected.answer(),
        vec![
            (
                "the exact form with the error function; the book's is an approximation by tanh",
                times(tensor_ops::gelu_exact(&x)),
            ),
            ("this is ReLU", times(relu(&x))),
            (
                "the approximation by a sigmoid, not by tanh",
                times(sigmoid),
            ),
            ("the term with x cubed is missing", times(no_cube)),
        ],
    );
    check.property("GELU of 0 is 0", || match yours(0.0) {
        0.0 => Ok(()),
        y => Err(format!("{y}")),
    });
    check.property("far right it is x, far left 0", || {
        let (right, left) = (yours(20.0), yours(-20.0));
        match (right - 20.0).abs() < 1e-4 && left.abs() < 1e-4 {
            true => Ok(()),
            false => Err(format!("{right} and {left}")),
        }
    });
    check.end()
}

/// A layer as a function.
type Layer<'a> = &'a dyn Fn(&Array1<f32>) -> Array1<f32>;

/// Exercise 4.4.
pub fn shortcut(yours: fn(&Array1<f32>, &[Layer<'_>]) -> Array1<f32>) -> Report {
    let mut check = Check::default();
    let double = |x: &Array1<f32>| x * 2.0;
    let sum = |x: &Array1<f32>| array![x.sum()];
    let x = array![1.0, -2.0, 3.0];
    let layers: [Layer<'_>; 3] = [&double, &double, &sum];
    check.second(
        "two layers that keep the shape, one that doesn't",
        || yours(&x, &layers),
        array![18.0].answer(),
        vec![
            ("the input is not added", array![8.0].answer()),
            (
                "the very first input is added each time",
                array![14.0].answer(),
            ),
        ],
    );
    check.property("without layers nothing changes", || {
        match yours(&x, &[]) == x {
            true => Ok(()),
            false => Err("another vector came back".to_owned()),
        }
    });
    check.property("layers that give zero let the input through", || {
        let zero = |x: &Array1<f32>| Array1::zeros(x.len());
        match yours(&x, &[&zero, &zero, &zero]) == x {
            true => Ok(()),
            false => Err("another vector came back".to_owned()),
        }
    });
    check.end()
}

/// A part of a block as a function of all rows.
type Part<'a> = &'a dyn Fn(&Array2<f32>) -> Array2<f32>;

/// Exercise 4.5: the input, the two norms, attention and the feed-forward network.
type Block = fn(&Array2<f32>, [Part<'_>; 2], Part<'_>, Part<'_>) -> Array2<f32>;

/// Exercise 4.5.
pub fn block(yours: Block) -> Report {
    let mut check = Check::default();
    let x = random(2, 3, 7);
    let norm1 = |x: &Array2<f32>| x + 1.0;
    let norm2 = |x: &Array2<f32>| x - 0.5;
    let attention = |x: &Array2<f32>| x * 3.0;
    let network = |x: &Array2<f32>| x.mapv(|x| x * x);
    let after = &x + &attention(&norm1(&x));
    let expected = &after + &network(&norm2(&after));
    let post = {
        let first = norm1(&(&x + &attention(&x)));
        norm2(&(&first + &network(&first)))
    };
    check.second(
        "with simple functions for its parts",
        || yours(&x, [&norm1, &norm2], &attention, &network),
        expected.answer(),
        vec![
            (
                "normalized after the parts, as in the first transformers; GPT-2 normalizes before",
                post.answer(),
            ),
            (
                "the second shortcut is missing",
                network(&norm2(&after)).answer(),
            ),
            ("the first shortcut is missing", {
                let a = attention(&norm1(&x));
                (&a + &network(&norm2(&a))).answer()
            }),
            (
                "the second shortcut adds the block's input",
                (&x + &network(&norm2(&after))).answer(),
            ),
            (
                "the network gets rows that are not normalized",
                (&after + &network(&after)).answer(),
            ),
        ],
    );
    check.property("parts that give zero let the input through", || {
        let zero = |x: &Array2<f32>| Array2::zeros(x.dim());
        match yours(&x, [&norm1, &norm2], &zero, &zero) == x {
            true => Ok(()),
            false => Err("other rows came back".to_owned()),
        }
    });
    check.end()
}

/// A model: ids to the logits of the next token.
type Model<'a> = &'a dyn Fn(&[u32]) -> Array1<f32>;

/// Exercise 4.7.
pub fn greedy(yours: fn(Model<'_>, Vec<u32>, usize, usize) -> Vec<u32>) -> Report {
    let mut check = Check::default();
    // A model whose next token depends on all that it sees: their sum, modulo 10.
    let model = |ids: &[u32]| {
        let mut logits = Array1::from_elem(10, -5.0);
        logits[ids.iter().sum::<u32>() as usize % 10] = -1.0;
        logits
    };
    let plain = |context: usize, first: bool| {
        let mut ids = vec![3, 1, 4];
        for _ in 0..6 {
            let seen = ids.len().min(context);
            let window = if first {
                &ids[..seen]
            } else {
                &ids[ids.len() - seen..]
            };
            ids.push(window.iter().sum::<u32>() % 10);
        }
        ids
    };
    check.second(
        "six tokens, a context of 4",
        || yours(&model, vec![3, 1, 4], 6, 4),
        plain(4, false).answer(),
        vec![
            (
                "the context is not cropped",
                plain(usize::MAX, false).answer(),
            ),
            (
                "the first tokens are kept, not the last",
                plain(4, true).answer(),
            ),
            (
                "only the new tokens are returned",
                plain(4, false)[3..].to_vec().answer(),
            ),
        ],
    );
    check.property("no token asked for: the prompt", || {
        match yours(&model, vec![7, 7], 0, 4) {
            ids if ids == [7, 7] => Ok(()),
            ids => Err(format!("{ids:?} instead of [7, 7]")),
        }
    });
    check.property("the model never sees more than its context", || {
        let strict = |ids: &[u32]| {
            assert!(
                ids.len() <= 2,
                "the model was given {} tokens, its context is 2",
                ids.len()
            );
            array![0.0, 1.0]
        };
        yours(&strict, vec![1, 0, 1], 3, 2);
        Ok(())
    });
    check.end()
}
