//! The checks of chapter 5.

use ndarray::{Array1, Array2, Axis, array};

use crate::check::{Check, Report, ToAnswer, random, sum_is_1};

/// The loss of rows of logits, and the perplexity of a loss.
type Loss = fn(&Array2<f32>, &[u32]) -> f32;

/// Exercise 5.1.
pub fn cross_entropy(yours: Loss, perplexity: fn(f32) -> f32) -> Report {
    let mut check = Check::default();
    // The probabilities of In [8], as logits among two tokens each.
    let probabilities = [
        7.4541e-05f32,
        3.1061e-05,
        1.1563e-05,
        1.0337e-05,
        5.6776e-05,
        4.7559e-06,
    ];
    let of_cell = Array2::from_shape_fn((6, 2), |(row, column)| match column {
        0 => probabilities[row].ln(),
        _ => (1.0 - probabilities[row]).ln(),
    });
    check.printed(("ch05", "In [11]", 0), || yours(&of_cell, &[0; 6]));
    let logits = random(4, 5, 7);
    let targets = [0, 4, 2, 2];
    let loss = tensor_ops::cross_entropy(&logits, &targets);
    let probability = |row: usize, id: u32| {
        tensor_ops::softmax(&logits.row(row).to_owned(), Axis(0))[id as usize]
    };
    let pairs = || targets.iter().enumerate();
    let mean: f32 = pairs().map(|(row, &id)| probability(row, id)).sum::<f32>() / 4.0;
    let of_logits: f32 = -pairs()
        .map(|(row, &id)| logits[[row, id as usize]])
        .sum::<f32>()
        / 4.0;
    check.second(
        "a second input (seed 7)",
        || yours(&logits, &targets),
        loss.answer(),
        vec![
            ("the losses are added, not averaged", (4.0 * loss).answer()),
            ("the sign is missing", (-loss).answer()),
            (
                "the logarithm of the mean, not the mean of the logarithms",
                (-mean.ln()).answer(),
            ),
            (
                "the logits are taken for logarithms of probabilities: softmax is missing",
                of_logits.answer(),
            ),
            (
                "log2 or log10, not the natural logarithm",
                (loss / std::f32::consts::LN_2).answer(),
            ),
        ],
    );
    check.second(
        "the perplexity of that loss",
        || perplexity(loss),
        loss.exp().answer(),
        vec![(
            "2 to the power of the loss; the loss is in nats",
            2f32.powf(loss).answer(),
        )],
    );
    check.property("a guess among 50,257 tokens costs ln 50257", || {
        let loss = yours(&Array2::zeros((1, 50257)), &[7]);
        match (loss - 50257f32.ln()).abs() < 1e-3 {
            true => Ok(()),
            false => Err(format!("{loss} instead of {}", 50257f32.ln())),
        }
    });
    check.property("logits of 1000 don't overflow", || {
        let loss = yours(&array![[1000.0, 0.0]], &[0]);
        match loss.abs() < 1e-3 {
            true => Ok(()),
            false => Err(format!(
                "{loss} instead of 0: subtract the largest logit first"
            )),
        }
    });
    check.end()
}

/// The logits of the book's nine words.
#[expect(clippy::approx_constant)] // a printed logit, not 2 pi
fn nine_words() -> Array1<f32> {
    array![4.51, 0.89, -1.90, 6.75, 1.63, -1.62, -1.89, 6.28, 1.79]
}

/// Probabilities of logits at a temperature; logits of which k are left.
type Temperature = fn(&Array1<f32>, f32) -> Array1<f32>;
type TopK = fn(&Array1<f32>, usize) -> Array1<f32>;

/// Exercise 5.3.
pub fn decoding(temperature: Temperature, top_k: TopK) -> Report {
    let mut check = Check::default();
    let logits = nine_words();
    check.printed(("ch05", "In [38]", 0), || top_k(&logits, 3));
    check.printed(("ch05", "In [39]", 0), || {
        temperature(&top_k(&logits, 3), 1.0)
    });
    let second = random(1, 6, 7).row(0).to_owned();
    let softmax = |logits: Array1<f32>| tensor_ops::softmax(&logits, Axis(0));
    check.second(
        "temperature 0.5 (seed 7)",
        || temperature(&second, 0.5),
        softmax(&second / 0.5).answer(),
        vec![
            (
                "multiplied by the temperature, not divided",
                softmax(&second * 0.5).answer(),
            ),
            (
                "divided after softmax",
                (softmax(second.clone()) / 0.5).answer(),
            ),
            ("softmax is missing", (&second / 0.5).answer()),
            (
                "the temperature changes nothing",
                softmax(second.clone()).answer(),
            ),
        ],
    );
    let kept = generate::top_k_filter(&second, 2);
    check.second(
        "the two largest (seed 7)",
        || top_k(&second, 2),
        kept.answer(),
        vec![
            (
                "the others are 0, which softmax gives a weight; they must be minus infinity",
                kept.mapv(|x| if x.is_finite() { x } else { 0.0 }).answer(),
            ),
            (
                "the smallest are kept, not the largest",
                (-generate::top_k_filter(&-&second, 2))
                    .mapv(|x| if x.is_finite() { x } else { f32::NEG_INFINITY })
                    .answer(),
            ),
            (
                "one too many is kept",
                generate::top_k_filter(&second, 3).answer(),
            ),
        ],
    );
    check.property("the probabilities sum to 1", || {
        sum_is_1(temperature(&second, 3.0).sum())
    });
    check.property("k as large as the vocabulary keeps all", || {
        match top_k(&second, 6) == second {
            true => Ok(()),
            false => Err("a logit is gone".to_owned()),
        }
    });
    check.end()
}
