//! Functions that measure how long an operation takes.

use std::time::{Duration, Instant};

/// Duration for which [`sustained`] repeats a measurement. For the first few milliseconds, any
/// program can be about 10% faster than the speed that the machine can sustain.
const SUSTAINED: Duration = Duration::from_millis(250);

/// Returns the number of seconds that `work` takes.
pub(crate) fn time(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64()
}

/// Calls `run` once as a warm-up and then repeatedly for the duration [`SUSTAINED`], and returns
/// the mean of its results. `run` must return the number of seconds that it took, or `None` if it
/// fails. In the second case, this function also returns `None`.
pub(crate) fn sustained(mut run: impl FnMut() -> Option<f64>) -> Option<f64> {
    run()?; // warm-up
    let (start, mut runs, mut seconds) = (Instant::now(), 0, 0.0);
    while runs == 0 || start.elapsed() < SUSTAINED {
        seconds += run()?;
        runs += 1;
    }
    Some(seconds / f64::from(runs))
}
