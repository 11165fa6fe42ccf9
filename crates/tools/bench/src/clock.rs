//! Functions that measure how long an operation takes.

use std::time::{Duration, Instant};

/// Time for which the measurement of a floor is repeated. A short burst of some milliseconds is
/// about 10% faster than the speed that a machine can sustain, whichever program runs.
const SUSTAINED: Duration = Duration::from_millis(250);

/// Returns the number of seconds that `work` takes.
pub(crate) fn time(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64()
}

/// Calls `run`, which returns a number of seconds, repeatedly for the time [`SUSTAINED`], and
/// returns the mean of the results. Returns `None` if a call of `run` returns `None`.
pub(crate) fn sustained(mut run: impl FnMut() -> Option<f64>) -> Option<f64> {
    run()?; // warm-up
    let (start, mut runs, mut seconds) = (Instant::now(), 0, 0.0);
    while runs == 0 || start.elapsed() < SUSTAINED {
        seconds += run()?;
        runs += 1;
    }
    Some(seconds / f64::from(runs))
}
