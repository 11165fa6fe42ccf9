//! Figures printed by the notebooks of "Build a Large Language Model (From Scratch)" and by a course worksheet that uses it.

use torch_rng::{Build, KeepMask, TorchRng};

/// Half a unit of the last printed decimal, and rounding noise.
fn assert_printed(actual: &[f32], printed: &[f32], decimals: i32) {
    let half_a_unit = 0.5 * 10f64.powi(-decimals);
    for (i, (&got, &expected)) in actual.iter().zip(printed).enumerate() {
        let (got, expected) = (f64::from(got), f64::from(expected));
        let tolerance = half_a_unit + 1e-5 * expected.abs().max(1.0);
        assert!(
            (got - expected).abs() <= tolerance,
            "index {i}: expected {expected}, got {got}"
        );
    }
    assert_eq!(actual.len(), printed.len());
}

/// A 6 x 6 mask as rows of ones and zeros.
fn rows(mask: &KeepMask) -> Vec<String> {
    let bits: Vec<char> = mask
        .iter()
        .map(|kept| if kept { '1' } else { '0' })
        .collect();
    bits.chunks(6).map(|row| row.iter().collect()).collect()
}

#[test]
fn rand_3_2_of_seed_123_is_the_w_query_of_chapter_3() {
    let w_query = TorchRng::manual_seed(123).rand(6);
    assert_printed(
        &w_query,
        &[0.2961, 0.5166, 0.2517, 0.6886, 0.0740, 0.8665],
        4,
    );
}

#[test]
fn randn_3_2_of_seed_123_is_the_worksheets() {
    let weight = TorchRng::manual_seed(123).randn(6);
    assert_printed(
        &weight,
        &[-0.1115, 0.1204, -0.3696, -0.2404, -1.1969, 0.2093],
        4,
    );
}

#[test]
fn an_embedding_of_18_elements_redraws_its_tail() {
    // Chapter 2: torch.nn.Embedding(6, 3) after manual_seed(123).
    let mut embedding = vec![0.0; 18];
    TorchRng::manual_seed(123).fill_normal(&mut embedding, 0.0, 1.0);
    let printed = [
        0.3374, -0.1778, -0.1690, 0.9178, 1.5810, 1.3010, 1.2753, -0.2010, -0.1606, //
        -0.4015, 0.9666, -1.1481, -1.1589, 0.3255, -0.6315, -2.8400, -0.7849, -1.4096,
    ];
    assert_printed(&embedding, &printed, 4);
}

#[test]
fn an_embedding_of_20_elements_redraws_its_tail() {
    // Chapter 2, bonus on embeddings and linear layers: Embedding(4, 5), first and last row.
    let embedding = TorchRng::manual_seed(123).randn(20);
    assert_printed(
        &embedding[..5],
        &[0.3374, -0.1778, -0.3035, -0.5880, 1.5810],
        4,
    );
    assert_printed(
        &embedding[15..],
        &[-2.8400, -0.7849, -1.4096, -0.4076, 0.7953],
        4,
    );
}

#[test]
fn the_worksheets_unseeded_cell_continues_from_seed_123() {
    // In [27]: the cell of the seed ran before (36 draws), then this one once already (36 + 20).
    let mut rng = TorchRng::manual_seed(123);
    rng.rand(92);
    let printed_normals = [
        1.0720e+00,
        1.5026e+00,
        -8.1899e-01,
        2.6860e-01,
        -9.4053e-01, //
        -4.6806e-01,
        1.0322e+00,
        -2.8300e-01,
        4.9275e-01,
        -1.4078e-02, //
        -2.7466e-01,
        -7.6409e-01,
        1.3966e+00,
        -9.9491e-01,
        -1.5822e-03, //
        1.2471e+00,
        -7.7105e-02,
        1.2774e+00,
        -1.4596e+00,
        -2.1595e+00,
    ];
    assert_printed(&rng.randn(20), &printed_normals, 4);
    let printed_uniforms = [
        0.6397, 0.8954, 0.2979, 0.6314, 0.5028, 0.1239, 0.3786, 0.1661, 0.7211, 0.5449, //
        0.5490, 0.3483, 0.5024, 0.3445, 0.6437, 0.9856, 0.5757, 0.2785, 0.1946, 0.5382,
    ];
    assert_printed(&rng.rand(20), &printed_uniforms, 4);
}

#[test]
fn the_portable_dropout_of_ones_is_chapter_3s() {
    let mask = TorchRng::manual_seed(123).keep_mask(36, 0.5);
    assert_eq!(
        rows(&mask),
        ["110110", "000101", "111101", "011001", "010101", "011110"]
    );
}

#[test]
fn the_mkl_dropout_of_ones_is_that_of_linux() {
    let mask = TorchRng::manual_seed(123)
        .with_build(Build::Mkl)
        .keep_mask(36, 0.5);
    assert_eq!(
        rows(&mask),
        ["111111", "010000", "001010", "110001", "100001", "010000"]
    );
}

#[test]
fn a_shuffled_loader_ends_with_the_printed_batch() {
    // Chapter 2, bonus on the data loader: the numbers 0 to 1000 in windows of 4, stride 4, batches of 2.
    // Window w begins at 4 w, so the batch that begins with 880 and 112 holds windows 220 and 28.
    let n_windows = (1001usize - 4).div_ceil(4);
    let order = TorchRng::manual_seed(123).data_loader_order(n_windows, true);
    assert_eq!(order.len(), 250);
    assert_eq!(
        order
            .iter()
            .skip(248)
            .map(|window| 4 * window)
            .collect::<Vec<_>>(),
        [880, 112]
    );
}

#[test]
fn a_thousand_samples_are_spread_as_in_exercise_5_1() {
    #[allow(clippy::approx_constant)] // 6.28 is the book's logit, not 2 pi.
    let logits = [4.51f32, 0.89, -1.90, 6.75, 1.63, -1.62, -1.89, 6.28, 1.79];
    let printed = [
        (1.0, [73, 0, 0, 582, 2, 0, 0, 343, 0]),
        (0.1, [0, 0, 0, 985, 0, 0, 0, 15, 0]),
        (5.0, [165, 75, 42, 239, 71, 46, 32, 227, 103]),
    ];
    for (temperature, expected) in printed {
        let exp = logits.map(|logit| ((logit - 6.75) / temperature).exp());
        let sum: f32 = exp.iter().sum();
        let probabilities = exp.map(|e| e / sum);
        let mut rng = TorchRng::manual_seed(123);
        let mut histogram = [0; 9];
        for _ in 0..1_000 {
            histogram[rng.multinomial(&probabilities)] += 1;
        }
        assert_eq!(histogram, expected, "temperature {temperature}");
    }
}
