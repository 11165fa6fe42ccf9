//! Tests of [`Sampling`]: which tokens can be drawn, and which pairs of settings must produce the
//! same results.

use generate::{Sampling, greedy_id, softmax_with_temperature, top_k_filter};
use ndarray::{Array1, Axis, array};
use proptest::prelude::*;
use tensor_ops::softmax;
use torch_rng::{Build, TorchRng};

/// Generates logits, some of which may be equal or minus infinity.
fn logits() -> impl Strategy<Value = Array1<f32>> {
    let one = prop_oneof![
        8 => -12.0f32..12.0,
        2 => (-3..3i32).prop_map(|x| x as f32), // equal logits
        1 => Just(f32::NEG_INFINITY),
    ];
    prop::collection::vec(one, 1..60)
        .prop_filter("some token must be possible", |x| {
            x.iter().any(|x| x.is_finite())
        })
        .prop_map(Array1::from)
}

prop_compose! {
    fn samplings()(
        temperature in prop_oneof![Just(0.0f32), 0.05f32..5.0],
        top_k in prop::option::of(any::<prop::sample::Index>()),
        top_p in prop_oneof![Just(1.0f32), 0.01f32..1.0],
        min_p in prop_oneof![Just(0.0f32), 0.0f32..=1.0],
    ) -> (Sampling, Option<prop::sample::Index>) {
        (Sampling { temperature, top_p, min_p, ..Sampling::GREEDY }, top_k)
    }
}

fn with_top_k(
    (sampling, top_k): (Sampling, Option<prop::sample::Index>),
    vocab_size: usize,
) -> Sampling {
    let top_k = top_k.map(|top_k| 1 + top_k.index(vocab_size));
    Sampling { top_k, ..sampling }
}

/// Returns the IDs of the tokens that can be drawn.
fn kept(p: &Array1<f32>) -> Vec<usize> {
    (0..p.len()).filter(|&i| p[i] > 0.0).collect()
}

const DRAWING: Sampling = Sampling {
    temperature: 1.0,
    ..Sampling::GREEDY
};

proptest! {
    #[test]
    fn probabilities_sum_to_1_and_only_kept_tokens_are_drawn(
        logits in logits(), sampling in samplings(), seed in any::<u64>(), mkl in any::<bool>(),
    ) {
        let sampling = with_top_k(sampling, logits.len());
        let p = sampling.probabilities(&logits).unwrap();
        prop_assert!(p.iter().all(|p| (0.0..=1.0).contains(p)), "{:?}", p);
        let sum: f64 = p.iter().map(|&p| f64::from(p)).sum();
        prop_assert!((sum - 1.0).abs() < 1e-5, "the sum is {}", sum);
        let kept = kept(&p);
        let build = if mkl { Build::Mkl } else { Build::Portable };
        let mut rng = TorchRng::manual_seed(seed).with_build(build);
        for _ in 0..20 {
            let drawn = sampling.choose(&logits, &mut rng).unwrap();
            prop_assert!(kept.contains(&(drawn as usize)), "{} is not in {:?}", drawn, kept);
        }
    }

    #[test]
    fn temperature_0_is_greedy_and_draws_nothing(
        logits in logits(), sampling in samplings(), seed in any::<u64>(),
    ) {
        let sampling = with_top_k(sampling, logits.len());
        let greedy = Sampling { temperature: 0.0, ..sampling };
        let mut rng = TorchRng::manual_seed(seed);
        let before = rng.clone();
        prop_assert_eq!(greedy.choose(&logits, &mut rng).unwrap(), greedy_id(&logits).unwrap());
        prop_assert_eq!(rng, before);
    }

    #[test]
    fn a_temperature_near_0_is_greedy_up_to_ties(logits in logits(), seed in any::<u64>()) {
        for temperature in [1e-6, f32::MIN_POSITIVE, 1e-45] {
            let sampling = Sampling { temperature, ..Sampling::GREEDY };
            let drawn = sampling.choose(&logits, &mut TorchRng::manual_seed(seed)).unwrap();
            let best = logits[greedy_id(&logits).unwrap() as usize];
            prop_assert!(best - logits[drawn as usize] < 1e-3);
        }
    }

    #[test]
    fn filters_that_are_off_change_nothing(logits in logits()) {
        let plain = softmax(&logits, Axis(0));
        prop_assert_eq!(&DRAWING.probabilities(&logits).unwrap(), &plain);
        for top_k in [0, logits.len(), usize::MAX] {
            let all = Sampling { top_k: Some(top_k), ..DRAWING };
            prop_assert_eq!(&all.probabilities(&logits).unwrap(), &plain);
        }
        prop_assert_eq!(&softmax_with_temperature(&logits, 1.0).unwrap(), &plain);
    }

    #[test]
    fn top_k_keeps_exactly_what_is_not_below_the_kth_largest(logits in logits(), k in any::<prop::sample::Index>()) {
        let k = 1 + k.index(logits.len());
        let filtered = top_k_filter(&logits, k);
        let mut sorted = logits.to_vec();
        sorted.sort_by(|a, b| b.total_cmp(a));
        for (before, after) in logits.iter().zip(&filtered) {
            let expected = if *before < sorted[k - 1] { f32::NEG_INFINITY } else { *before };
            prop_assert_eq!(expected, *after);
        }
    }
}

/// Compares the probabilities with results of the transformers library. The script
/// `fixtures/make_logits_processors.py` has written these results to a file.
#[test]
fn probabilities_are_those_of_the_logits_processors_of_transformers() {
    let file = include_str!("../fixtures/logits_processors.txt");
    let cases: Vec<&str> = file.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(cases.len(), 9);
    for case in cases {
        let numbers = case.split('|').map(|part| {
            part.split_whitespace()
                .map(|x| x.parse().unwrap())
                .collect()
        });
        let [setting, logits, expected]: [Vec<f32>; 3] =
            numbers.collect::<Vec<_>>().try_into().unwrap();
        let sampling = Sampling {
            temperature: setting[0],
            top_k: Some(setting[1] as usize).filter(|&top_k| top_k > 0),
            top_p: setting[2],
            ..Sampling::GREEDY
        };
        let p = sampling.probabilities(&Array1::from(logits)).unwrap();
        let expected = Array1::from(expected);
        assert_eq!(kept(&p), kept(&expected), "{sampling:?}");
        test_support::assert_close_named(&format!("{sampling:?}"), &p, &expected, 1e-6);
    }
}

/// Compares the results of the min-p filter and of the repetition penalty with the classes
/// `MinPLogitsWarper` and `RepetitionPenaltyLogitsProcessor` of the transformers library (version
/// 5.24). The expected results were calculated by hand, according to the documentation of these
/// classes.
#[test]
fn min_p_and_the_repetition_penalty_are_those_of_transformers() {
    // The probabilities are 0.5, 0.25, 0.125 and 0.125.
    let logits = array![8.0f32.ln(), 4.0f32.ln(), 2.0f32.ln(), 2.0f32.ln()];
    for (min_p, expected) in [
        (0.0, vec![0, 1, 2, 3]),
        (0.2, vec![0, 1, 2, 3]),
        (0.3, vec![0, 1]),
        (0.6, vec![0]),
        (1.0, vec![0]),
    ] {
        let p = Sampling { min_p, ..DRAWING }
            .probabilities(&logits)
            .unwrap();
        assert_eq!(kept(&p), expected, "{min_p}");
    }
    let greedy = |repetition_penalty, tokens: &[u32], logits: &Array1<f32>| {
        let sampling = Sampling {
            repetition_penalty,
            ..Sampling::GREEDY
        };
        let mut rng = TorchRng::manual_seed(1);
        sampling.choose_after(tokens, logits, &mut rng).unwrap()
    };
    let logits = array![2.0, 1.5, -1.0, -1.4];
    assert_eq!(greedy(1.0, &[0, 0], &logits), 0);
    assert_eq!(
        greedy(1.3, &[0, 0], &logits),
        0,
        "2 / 1.3 > 1.5; a token counts once"
    );
    assert_eq!(greedy(1.4, &[0], &logits), 1);
    assert_eq!(
        greedy(1.5, &[2], &array![f32::NEG_INFINITY, -1.6, -1.0, -1.4]),
        3,
        "-1 times 1.5"
    );
    assert_eq!(
        greedy(0.5, &[1], &logits),
        1,
        "below 1 it prefers what was there"
    );
    for wrong in [
        Sampling {
            min_p: -0.1,
            ..DRAWING
        },
        Sampling {
            min_p: 1.1,
            ..DRAWING
        },
        Sampling {
            min_p: f32::NAN,
            ..DRAWING
        },
        Sampling {
            repetition_penalty: 0.0,
            ..DRAWING
        },
        Sampling {
            repetition_penalty: f32::INFINITY,
            ..DRAWING
        },
    ] {
        assert!(
            wrong
                .choose_after(&[0], &logits, &mut TorchRng::manual_seed(1))
                .is_err(),
            "{wrong:?}"
        );
    }
}
