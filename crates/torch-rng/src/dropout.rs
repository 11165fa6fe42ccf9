//! Dropout masks, as `nn.Dropout(p)` draws them in training mode.
//!
//! To apply dropout with probability `p`, PyTorch draws one Bernoulli sample per element. The
//! sample is 1 with probability `1 - p`, and PyTorch keeps the elements whose sample is 1
//! (`aten/src/ATen/native/Dropout.cpp`). How a sample is drawn depends on the PyTorch build:
//!
//! - [`Build::Portable`] takes two 32-bit draws per element, combines them into a number `u` with
//!   53 random bits in [0, 1), and keeps the element if `u < 1 - p`.
//! - [`Build::Mkl`] takes one draw per tensor, which seeds an MCG31m1 generator. This generator
//!   returns a number `x[i]` for each element `i`. The element is kept if
//!   `x[i] / (2^31 - 1) < 1 - p`, where both sides are rounded to `f32`.

use multiversion::multiversion;
use rayon::prelude::*;

use crate::mcg31m1::{MODULUS, Mcg31m1, unit_f32};
use crate::mt19937::{Mt19937, temper};
use crate::torch_rng::{BatchPart, low_53_bits};
use crate::{Build, KeepMask, TorchRng};

/// Number of 64-bit words that each parallel task fills when a mask is drawn.
const TASK_WORDS: usize = 1 << 10;

impl TorchRng {
    /// Draws a dropout mask for a tensor of `n` elements in row-major order, like `nn.Dropout(p)`
    /// in training mode.
    ///
    /// A sample is drawn for every element, even if the caller ignores the element later, as in
    /// causal attention. As in PyTorch, nothing is drawn if `p` is 0 (all elements are kept), if
    /// `p` is 1 (no elements are kept), or if `n` is 0.
    ///
    /// If this generator was created by [`for_part_of_batch`](Self::for_part_of_batch), `n` is the
    /// number of elements in the generator's part of the batch. The draws for the rest of the batch
    /// are then skipped.
    ///
    /// # Panics
    ///
    /// Panics if `p` isn't in [0, 1]. If this generator draws for a part of a batch, this method
    /// also panics if `n` isn't a multiple of the number of sequences in that part.
    pub fn keep_mask(&mut self, n: usize, p: f64) -> KeepMask {
        assert!(
            (0.0..=1.0).contains(&p),
            "keep_mask: the dropout probability is {p}, but it must be in [0, 1]"
        );
        if p == 0.0 || p == 1.0 || n == 0 {
            return KeepMask::constant(n, p < 1.0);
        }
        let keep = 1.0 - p;
        let [before, after] = self.elements_of_other_parts(n);
        match self.build {
            Build::Portable => {
                self.engine.skip(2 * before);
                let mask = portable_mask(&mut self.engine, n, keep);
                self.engine.skip(2 * after);
                mask
            }
            Build::Mkl => {
                let whole = Mcg31m1::new(self.engine.next_u32());
                mkl_mask(whole.skipped(before), n, keep)
            }
        }
    }

    /// Draws the same mask as [`keep_mask`](Self::keep_mask), but one element at a time. This
    /// method is slow. It defines the mask with as little code as possible, so that readers can
    /// understand the algorithm and tests can check `keep_mask` against it.
    ///
    /// ```
    /// use torch_rng::TorchRng;
    /// let mut plain = TorchRng::manual_seed(123);
    /// let mut fast = plain.clone();
    /// let kept = plain.keep_mask_plain(36, 0.5);
    /// assert_eq!(kept[..6], [true, true, false, true, true, false]);
    /// assert!(fast.keep_mask(36, 0.5).iter().eq(kept));
    /// ```
    ///
    /// # Panics
    ///
    /// Panics under the same conditions as [`keep_mask`](Self::keep_mask).
    pub fn keep_mask_plain(&mut self, n: usize, p: f64) -> Vec<bool> {
        if p == 0.0 || p == 1.0 || n == 0 {
            return self.keep_mask(n, p).iter().collect(); // Nothing is drawn in these cases.
        }
        // Samples are drawn for all elements of the batch, but only the samples for this
        // generator's part are returned.
        let [before, after] = self
            .elements_of_other_parts(n)
            .map(|elements| elements as usize);
        let part = before..before + n;
        let n = before + n + after;
        let kept: Vec<bool> = match self.build {
            Build::Portable => (0..n).map(|_| self.next_f64() < 1.0 - p).collect(),
            Build::Mkl => {
                let mut x = Mcg31m1::new(self.engine.next_u32());
                (0..n)
                    .map(|_| unit_f32(x.next()) < (1.0 - p) as f32)
                    .collect()
            }
        };
        kept[part].to_vec()
    }

    /// Advances the generator as far as [`keep_mask`](Self::keep_mask) does with the same
    /// arguments, but doesn't compute the mask. In data-parallel training, each machine calls this
    /// method instead of computing the masks for the batches that other machines process, so that
    /// the generators of all machines stay in the same state.
    ///
    /// # Panics
    ///
    /// Panics if this generator draws for a part of a batch and `n` isn't a multiple of the number
    /// of sequences in that part. Like [`keep_mask`](Self::keep_mask), it accepts any `n` if `p` is
    /// 0 or 1.
    pub fn skip_mask(&mut self, n: usize, p: f64) {
        if p == 0.0 || p == 1.0 || n == 0 {
            return;
        }
        let [before, after] = self.elements_of_other_parts(n);
        self.engine.skip(match self.build {
            Build::Portable => 2 * (before + n as u64 + after),
            Build::Mkl => 1,
        });
    }

    /// Returns how many elements of a dropout mask precede and follow the part of the batch for
    /// which this generator draws the mask. The draws for these elements must be skipped. `n` is
    /// the number of elements in this generator's part. If the generator draws for the whole batch,
    /// both numbers are 0.
    fn elements_of_other_parts(&self, n: usize) -> [u64; 2] {
        let Some(BatchPart {
            before,
            count,
            after,
        }) = self.part
        else {
            return [0; 2];
        };
        assert!(
            n.is_multiple_of(count),
            "keep_mask: the number of elements, {n}, isn't a multiple of the number of sequences, {count}"
        );
        [before, after].map(|sequences| sequences as u64 * (n / count) as u64)
    }
}

fn portable_mask(engine: &mut Mt19937, n: usize, keep: f64) -> KeepMask {
    // An element is kept if its draw, a number with 53 random bits, is less than the probability
    // `keep`. Such a number is `k * 2^-53` for an integer `k`, so instead of `k * 2^-53 < keep`,
    // the equivalent condition `k < ceil(keep * 2^53)` can be evaluated without floating-point
    // numbers.
    let bound = (keep * (1u64 << 53) as f64).ceil() as u64;
    let mut words = vec![0; n.div_ceil(64)];
    let mut kept = [0u8; 64 * 64];
    let mut left = n;
    for words in words.chunks_mut(kept.len() / 64) {
        let mut rest = &mut kept[..left.min(64 * words.len())];
        left -= rest.len();
        while !rest.is_empty() {
            let pairs = engine.take_pairs(rest.len());
            let now = rest.split_off_mut(..pairs.len().max(1)).expect("not empty");
            if pairs.is_empty() {
                now[0] = u8::from(low_53_bits(engine.next_u64()) < bound);
            } else {
                compare_with_bound(bound, pairs, now);
            }
        }
        for (word, kept) in words.iter_mut().zip(kept.as_chunks::<64>().0) {
            *word = pack_bits(kept);
        }
    }
    KeepMask::new(words, n)
}

/// Sets `out[i]` to 1 if the 53-bit number that consists of the two words `pairs[i]` is less than
/// `bound`, and to 0 otherwise.
#[multiversion(targets("x86_64+avx512f+avx512bw", "x86_64+avx2"))]
fn compare_with_bound(bound: u64, pairs: &[[u32; 2]], out: &mut [u8]) {
    // A pair of words forms a 53-bit number, whose upper 21 bits are in the first word. Comparing
    // these 21 bits with the upper 21 bits of `bound` is sufficient unless they are equal, which
    // happens for about one pair in two million. Therefore, first compare only the first words, and
    // read the second words only if at least one comparison was undecided.
    let high_bits = (bound >> 32) as u32;
    let mut undecided = 0;
    for (out, [first, _]) in out.iter_mut().zip(pairs) {
        let first = low_53_bits(u64::from(temper(*first)) << 32) >> 32;
        *out = u8::from((first as u32) < high_bits);
        undecided |= u32::from(first as u32 == high_bits);
    }
    if undecided == 0 {
        return;
    }
    for (out, [first, second]) in out.iter_mut().zip(pairs) {
        let draw = u64::from(temper(*first)) << 32 | u64::from(temper(*second));
        *out = u8::from(low_53_bits(draw) < bound);
    }
}

/// Packs 64 bytes, each of which is 0 or 1, into a 64-bit word. Byte `i` becomes bit `i` of the
/// word.
#[inline(always)]
fn pack_bits(bytes: &[u8; 64]) -> u64 {
    let mut word = 0u64;
    for (i, eight) in bytes.as_chunks::<8>().0.iter().enumerate() {
        let bits = u64::from_le_bytes(*eight).wrapping_mul(0x0102_0408_1020_4080) >> 56;
        word |= bits << (8 * i);
    }
    word
}

fn mkl_mask(start: Mcg31m1, n: usize, keep: f64) -> KeepMask {
    let bound = mkl_bound(keep);
    let mut words = vec![0; n.div_ceil(64)];
    let fill = |task: usize, words: &mut [u64]| {
        let mut generator = start.skipped((task * TASK_WORDS * 64) as u64);
        words.fill_with(|| generator.next_64_below(bound));
    };
    if words.len() <= TASK_WORDS {
        fill(0, &mut words);
    } else {
        words
            .par_chunks_mut(TASK_WORDS)
            .enumerate()
            .for_each(|(task, words)| fill(task, words));
    }
    KeepMask::new(words, n)
}

/// Returns the threshold with which the outputs of the MCG31m1 generator are compared. An element
/// is kept if the output for this element is below the threshold, and dropped otherwise.
fn mkl_bound(keep: f64) -> u64 {
    let (mut low, mut high) = (0, MODULUS);
    while low < high {
        let middle = (low + high) / 2;
        if unit_f32(middle) < keep as f32 {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_word_decides_where_the_first_has_the_bits_of_the_bound() {
        let mut engine = Mt19937::new(3);
        let pairs = engine.take_pairs(70).to_vec();
        let draws = pairs.iter().map(|pair| {
            let [high, low] = pair.map(|word| u64::from(temper(word)));
            low_53_bits(high << 32 | low)
        });
        for draw in draws.clone() {
            for bound in [draw, draw + 1] {
                let mut below = [0; 70];
                compare_with_bound(bound, &pairs, &mut below);
                let expected = draws.clone().map(|draw| u8::from(draw < bound));
                assert!(below.into_iter().eq(expected), "{bound}");
            }
        }
    }

    #[test]
    fn the_plain_form_keeps_the_same_elements_with_the_same_draws() {
        for build in [Build::Portable, Build::Mkl] {
            for (n, p) in [
                (0, 0.5),
                (1, 0.5),
                (70, 0.0),
                (70, 1.0),
                (5_000, 0.1),
                (999, 0.9),
            ] {
                let mut fast = TorchRng::manual_seed(5).with_build(build);
                let mut plain = fast.clone();
                let kept = plain.keep_mask_plain(n, p);
                assert!(
                    fast.keep_mask(n, p).iter().eq(kept),
                    "{build}, n = {n}, p = {p}"
                );
                assert_eq!(fast, plain, "{build}, n = {n}, p = {p}");
            }
        }
    }

    #[test]
    fn parts_of_a_batch_draw_the_same_mask_as_the_whole_batch() {
        for build in [Build::Portable, Build::Mkl] {
            let batch = 7;
            let mut whole = TorchRng::manual_seed(5).with_build(build);
            let mut parts = [0..1, 1..4, 4..7]
                .map(|sequences| (sequences.clone(), whole.for_part_of_batch(sequences, batch)));
            let mut skipping = whole.for_part_of_batch(2..5, batch);
            for elements in [1, 63, 1000] {
                let mask = whole.keep_mask(batch * elements, 0.3);
                for (sequences, rng) in &mut parts {
                    let mut plain = rng.clone();
                    let kept = rng.keep_mask(sequences.len() * elements, 0.3);
                    let by_plain = plain.keep_mask_plain(sequences.len() * elements, 0.3);
                    assert!(kept.iter().eq(by_plain), "{sequences:?}, {build}");
                    assert_eq!(*rng, plain, "{sequences:?}, {build}");
                    let expected = mask
                        .iter()
                        .skip(sequences.start * elements)
                        .take(kept.len());
                    assert!(kept.iter().eq(expected), "{sequences:?}, {build}");
                }
                skipping.skip_mask(3 * elements, 0.3);
            }
            for rng in parts.into_iter().map(|(_, rng)| rng).chain([skipping]) {
                assert_eq!(rng.for_part_of_batch(0..batch, batch), whole, "{build}");
            }
        }
    }

    #[test]
    fn threads_do_not_change_a_bit() {
        let n = 3 * 64 * TASK_WORDS + 11;
        let mut single = Mcg31m1::new(TorchRng::manual_seed(8).engine.next_u32());
        let expected: Vec<bool> = (0..n).map(|_| unit_f32(single.next()) < 0.9).collect();
        for threads in [1, 2, 5] {
            let pool = rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .build()
                .expect("a small pool starts");
            let mut rng = TorchRng::manual_seed(8).with_build(Build::Mkl);
            let mask = pool.install(|| rng.keep_mask(n, 0.1));
            assert!(
                mask.iter().eq(expected.iter().copied()),
                "{threads} threads"
            );
        }
    }

    #[test]
    fn nothing_is_drawn_where_nothing_is_decided() {
        for build in [Build::Portable, Build::Mkl] {
            let fresh = TorchRng::manual_seed(5).with_build(build);
            let mut rng = fresh.clone();
            assert!(rng.keep_mask(70, 0.0).iter().all(|kept| kept));
            assert!(!rng.keep_mask(70, 1.0).iter().any(|kept| kept));
            assert!(rng.keep_mask(0, 0.5).is_empty());
            assert_eq!(rng, fresh);
        }
    }

    #[test]
    fn a_skipped_mask_leaves_the_generator_that_a_drawn_one_leaves() {
        for build in [Build::Portable, Build::Mkl] {
            for (n, p) in [(0, 0.5), (1, 0.5), (70, 0.0), (70, 1.0), (5_000, 0.1)] {
                let mut drawn = TorchRng::manual_seed(5).with_build(build);
                let mut skipped = drawn.clone();
                drawn.keep_mask(n, p);
                skipped.skip_mask(n, p);
                assert_eq!(skipped, drawn, "{build}, {n} elements, p = {p}");
            }
        }
    }

    #[test]
    fn the_integer_bound_parts_kept_from_dropped() {
        for keep in [
            0.5,
            0.9,
            0.1,
            1.0 / 3.0,
            1e-7,
            1.0 - f64::EPSILON / 2.0,
            7.0 / MODULUS as f64,
        ] {
            let bound = mkl_bound(keep);
            assert!(unit_f32(bound) >= keep as f32);
            assert!(unit_f32(bound - 1) < keep as f32);
        }
        assert_eq!(mkl_bound(f64::MIN_POSITIVE), 0);
    }

    #[test]
    fn the_mkl_build_compares_single_precision() {
        // In PyTorch 2.4.1, dropout with p = 0.1 divides each output of the MCG31m1 generator by
        // the modulus 2^31 - 1, rounds the quotient to `f32`, and keeps the element if the result
        // is less than 0.9. Because of this rounding, elements are dropped for all of the following
        // outputs. Without rounding, the quotient would be less than 0.9 for all of these outputs
        // except the last.
        let bound = mkl_bound(0.9);
        for x in [
            1_932_735_222,
            1_932_735_234,
            1_932_735_243,
            1_932_735_267,
            1_932_735_293,
        ] {
            assert!(x >= bound, "{x}");
        }
    }

    #[test]
    #[should_panic(expected = "the dropout probability is NaN, but it must be in [0, 1]")]
    fn a_probability_outside_of_zero_to_one_panics() {
        TorchRng::manual_seed(0).keep_mask(1, f64::NAN);
    }
}
