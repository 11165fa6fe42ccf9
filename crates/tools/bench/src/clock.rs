//! Functions for measuring how long an operation takes.

use std::time::{Duration, Instant};

/// Minimum duration for which [`sustained`] repeats a measurement. In its first few milliseconds, a
/// program can be about 10% faster than the machine can sustain, so a shorter measurement would be
/// too optimistic.
const SUSTAINED: Duration = Duration::from_millis(250);

/// Returns the number of seconds that `work` takes.
pub(crate) fn time(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64()
}

/// Measures how long an operation takes if it is repeated without a pause. Calls `run` once as a
/// warm-up and then repeatedly for the duration [`SUSTAINED`]. `run` must return the number of
/// seconds that it took, or `None` if it failed. Returns the mean of these numbers, or `None` if
/// any call failed.
pub(crate) fn sustained(mut run: impl FnMut() -> Option<f64>) -> Option<f64> {
    run()?; // warm-up
    let (start, mut runs, mut seconds) = (Instant::now(), 0, 0.0);
    while runs == 0 || start.elapsed() < SUSTAINED {
        seconds += run()?;
        runs += 1;
    }
    Some(seconds / f64::from(runs))
}
