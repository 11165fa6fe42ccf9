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

/// What the training of a model takes besides its weights, gradients and moments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct TrainingNeed {
    /// Bytes of the weights, their gradients and two moments.
    pub(crate) model: f64,
    /// Bytes of what a batch leaves in each layer for the backward pass, and of some rows of logits.
    pub(crate) batch: f64,
    /// Bytes of the order of the windows in an epoch, and of the copy that is shuffled.
    pub(crate) order: f64,
}

impl TrainingNeed {
    /// By the model, the windows in a batch, the tokens in a window, and the windows of an epoch.
    pub(crate) fn of(
        config: &GptConfig,
        (batch_size, max_length, windows): (usize, usize, usize),
    ) -> Result<Self> {
        /// Rows of features that a block keeps of a token: two norms' inputs, the projections' three outputs and input, the context, the feed-forward network's input, and its hidden rows before and after GELU, which count four each.
        const ROWS: f64 = 16.0;
        /// Rows of logits that exist at once.
        const LOGITS: f64 = 512.0;
        let [layers, features, heads, vocabulary, length] = [
            config.n_layers,
            config.emb_dim,
            config.n_heads,
            config.vocab_size,
            max_length,
        ]
        .map(|n| n as f64);
        let tokens = batch_size as f64 * length;
        let masks = match config.drop_rates.attention > 0.0 {
            true => tokens * length * heads * layers / 8.0,
            false => 0.0,
        };
        Ok(Self {
            model: 4.0 * 4.0 * config.size()?.total() as f64,
            batch: 4.0 * (tokens * ROWS * layers * features + tokens.min(LOGITS) * vocabulary)
                + masks,
            order: 2.0 * 8.0 * windows as f64,
        })
    }

    /// All of it, in bytes.
    pub(crate) fn total(&self) -> f64 {
        self.model + self.batch + self.order
    }

    /// # Errors
    /// If that is more than the memory that is free.
    pub(crate) fn check(&self) -> Result<()> {
        check_free(self.total(), &self.to_string())
    }
}

impl std::fmt::Display for TrainingNeed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [model, batch, order] = [self.model, self.batch, self.order].map(bytes);
        write!(
            f,
            "weights, gradients and moments {model}, a batch {batch}, the order of the windows {order}"
        )
    }
}

/// # Errors
/// If more than the memory that is free is needed.
pub(crate) fn check_free(needed: f64, what: &str) -> Result<()> {
    if let Some(free) = lacking(needed) {
        let needed = bytes(needed);
        bail!("about {needed} of memory are needed ({what}), but {free} are free");
    }
    Ok(())
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
    if let Some(free) = lacking(needed) {
        let (parameters, needed) = (count(parameters), bytes(needed));
        bail!(
            "a model of {parameters} parameters needs {needed} for {what}, but {free} of memory are free"
        );
    }
    Ok(())
}

/// The memory that is free, if that is less than `needed`.
fn lacking(needed: f64) -> Option<String> {
    let free = available()? as f64;
    (needed > free).then(|| bytes(free))
}

/// Bytes of memory that are free, and that this process may have, where the system tells.
fn available() -> Option<u64> {
    let free = free()?;
    Some(allowed().map_or(free, |allowed| allowed.min(free)))
}

/// Bytes that this process has left of address space and of writable memory, if they have a limit (`ulimit -v`, `ulimit -d`).
fn allowed() -> Option<u64> {
    let limits = std::fs::read_to_string("/proc/self/limits").ok()?;
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let left = |(limit, used)| {
        let line = limits.lines().find_map(|line| line.strip_prefix(limit))?;
        let limit: u64 = line.split_whitespace().next()?.parse().ok()?; // or "unlimited"
        Some(limit.saturating_sub(kibibytes(&status, used)?))
    };
    [
        ("Max address space", "VmSize:"),
        ("Max data size", "VmData:"),
    ]
    .into_iter()
    .filter_map(left)
    .min()
}

fn free() -> Option<u64> {
    kibibytes(
        &std::fs::read_to_string("/proc/meminfo").ok()?,
        "MemAvailable:",
    )
}

/// The bytes in a line `NAME 12 kB`.
fn kibibytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(1024 * kibibytes)
}

/// `124.4M`
pub(crate) fn count(n: f64) -> String {
    scaled(n, &["", "K", "M", "B", "T"])
}

/// `497.6 MB`, a megabyte being a million bytes.
pub(crate) fn bytes(n: f64) -> String {
    scaled(n, &[" bytes", " kB", " MB", " GB", " TB"])
}

fn scaled(mut n: f64, units: &[&str]) -> String {
    let mut unit = 0;
    while n >= 1000.0 && unit + 1 < units.len() {
        n /= 1000.0;
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
