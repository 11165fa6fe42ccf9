//! Whether a model fits this machine, asked before any of it is made: a refused size is a line, not a killed process.

use anyhow::{Result, bail};
use gpt::GptConfig;

/// What a model is for: how many copies of its weights there will be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Weights alone.
    Inference,
    /// Weights, gradients and AdamW's two moments.
    Training,
}

/// # Errors
/// If the configuration is not valid, or the weights don't fit the memory that is free.
pub(crate) fn check_fits(config: &GptConfig, purpose: Purpose) -> Result<()> {
    config.validate()?;
    let parameters = config.size()?.total() as f64;
    let (copies, what) = match purpose {
        Purpose::Inference => (1.0, "its weights"),
        Purpose::Training => (4.0, "training (weights, gradients and two moments)"),
    };
    let needed = 4.0 * copies * parameters;
    match available() {
        Some(free) if needed > free as f64 => bail!(
            "a model of {} parameters needs {} for {what}, but {} of memory are free",
            count(parameters),
            bytes(needed),
            bytes(free as f64)
        ),
        _ => Ok(()),
    }
}

/// Bytes of memory that are free, where the system tells.
fn available() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(1024 * kibibytes)
}

/// `124.4M`
pub(crate) fn count(n: f64) -> String {
    scaled(n, 1000.0, &["", "K", "M", "B", "T"])
}

/// `497.6 MB`, a megabyte being a million bytes.
pub(crate) fn bytes(n: f64) -> String {
    scaled(n, 1000.0, &[" bytes", " kB", " MB", " GB", " TB"])
}

fn scaled(mut n: f64, by: f64, units: &[&str]) -> String {
    let mut unit = 0;
    while n >= by && unit + 1 < units.len() {
        n /= by;
        unit += 1;
    }
    if unit == 0 {
        format!("{n:.0}{}", units[0])
    } else {
        format!("{n:.1}{}", units[unit])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_shown_with_a_unit() {
        assert_eq!(count(124_412_160.0), "124.4M");
        assert_eq!(bytes(12.0), "12 bytes");
        assert_eq!(bytes(497_648_640.0), "497.6 MB");
    }

    #[test]
    fn a_model_larger_than_the_memory_is_refused_in_one_line() {
        let huge = GptConfig {
            n_layers: 100_000_000,
            ..GptConfig::GPT2_124M
        };
        if available().is_some() {
            let error = check_fits(&huge, Purpose::Training)
                .unwrap_err()
                .to_string();
            assert!(
                error.contains("needs 1") && error.contains(" TB for training"),
                "{error}"
            );
        }
    }
}
