//! The speed of a text: a line on standard error, or a part of `--json`.

use std::time::Duration;

use generate::Timings;
use serde::Serialize;

use crate::output::note;

/// The timings that `--json` prints.
#[derive(Serialize)]
pub(crate) struct TimingsReport {
    load_seconds: f64,
    prompt_tokens: usize,
    prompt_seconds: f64,
    prompt_tokens_per_second: f64,
    decoded_tokens: usize,
    decode_seconds: f64,
    decode_tokens_per_second: f64,
}

impl TimingsReport {
    pub(crate) fn new(timings: &Timings, load_time: Duration) -> Self {
        Self {
            load_seconds: load_time.as_secs_f64(),
            prompt_tokens: timings.prompt_tokens,
            prompt_seconds: timings.prompt_time.as_secs_f64(),
            prompt_tokens_per_second: timings.prompt_tokens_per_second(),
            decoded_tokens: timings.decoded_tokens,
            decode_seconds: timings.decode_time.as_secs_f64(),
            decode_tokens_per_second: timings.decoded_tokens_per_second(),
        }
    }
}

/// Prints the speed on standard error; that of loading once.
pub(crate) fn tell(timings: &Timings, load_time: Option<Duration>) {
    let load = load_time.map(|time| format!("load {:.2} s; ", time.as_secs_f64()));
    note(&format!(
        "{}prompt {} tokens, {:.1} tokens/s; decode {} tokens, {:.1} tokens/s",
        load.unwrap_or_default(),
        timings.prompt_tokens,
        timings.prompt_tokens_per_second(),
        timings.decoded_tokens,
        timings.decoded_tokens_per_second()
    ));
}
