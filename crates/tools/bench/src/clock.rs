//! The time that something takes.

use std::time::{Duration, Instant};

/// A floor's measurement is repeated for this long: a burst of some milliseconds is 10% faster than
/// a machine's sustained speed, for any program.
const SUSTAINED: Duration = Duration::from_millis(250);

/// Returns the seconds that `work` takes.
pub(crate) fn time(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64()
}

/// The mean seconds of `run`, repeated for a while; `None` if it fails.
pub(crate) fn sustained(mut run: impl FnMut() -> Option<f64>) -> Option<f64> {
    run()?; // warms up
    let (start, mut runs, mut seconds) = (Instant::now(), 0, 0.0);
    while runs == 0 || start.elapsed() < SUSTAINED {
        seconds += run()?;
        runs += 1;
    }
    Some(seconds / f64::from(runs))
}
