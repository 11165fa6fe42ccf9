//! Checks that enough memory is free before a command allocates it. If there isn't enough, the user
//! gets an error message. Without the check, the operating system might kill the process.
//!
//! `gpt::Memory` estimates how much memory a command needs. This module determines how much memory
//! the process can still allocate. It considers the free memory of the system, the limits of the
//! process, and the limits of its control group.

use std::fs::read_to_string;
use std::path::Path;

use anyhow::{Context, Result, bail};
use gpt::{GptConfig, Memory};

use crate::terminal::numbers::{bytes, count};

/// Checks that the configuration of a model is valid, and that the memory that the command needs
/// for the model (`needed`) is free.
///
/// # Errors
/// Returns an error if the configuration is invalid, or if there isn't enough memory.
pub(crate) fn check_model(config: &GptConfig, needed: &Memory) -> Result<()> {
    config.validate()?;
    let parameters = config.size()?.total() as f64;
    check(needed).with_context(|| format!("a model of {} parameters", count(parameters)))
}

/// Checks that enough memory is free for `needed`.
///
/// # Errors
/// Returns an error if there isn't enough memory.
pub(crate) fn check(needed: &Memory) -> Result<()> {
    let parts = parts(needed);
    check_free(needed.total() as f64, &parts)
}

/// Checks that `needed` bytes of memory are free. `what` says what the memory is needed for, and
/// becomes part of the error message.
///
/// # Errors
/// Returns an error if there isn't enough memory.
pub(crate) fn check_free(needed: f64, what: &str) -> Result<()> {
    /// Size in bytes below which an allocation isn't checked. Determining the amount of free memory
    /// would take longer than such a small allocation.
    const LITTLE: f64 = (1 << 20) as f64;
    if needed < LITTLE {
        return Ok(());
    }
    if let Some(free) = available().filter(|&free| needed > free as f64) {
        let (needed, free) = (bytes(needed), bytes(free as f64));
        bail!("about {needed} of memory is required ({what}), but only {free} is free");
    }
    Ok(())
}

/// Formats a memory estimate for a message, as a comma-separated list of its parts, such as the
/// weights and the gradients, each followed by its size.
pub(crate) fn parts(memory: &Memory) -> String {
    let parts = memory.parts().iter();
    let parts = parts.map(|(name, size)| format!("{name} {}", bytes(*size as f64)));
    parts.collect::<Vec<_>>().join(", ")
}

/// Returns the number of bytes that this process can still allocate, or `None` on systems other
/// than Linux.
fn available() -> Option<u64> {
    let free = kibibytes(&read_to_string("/proc/meminfo").ok()?, "MemAvailable:")?;
    let groups = read_to_string("/proc/self/cgroup").unwrap_or_default();
    let limits = [
        address_space(),
        in_group(Path::new("/sys/fs/cgroup"), &groups),
    ];
    limits.into_iter().flatten().chain([free]).min()
}

/// Returns the number of bytes that this process can still allocate without exceeding its limits on
/// address space (`ulimit -v`) and on writable memory (`ulimit -d`). Returns `None` if there are no
/// such limits.
fn address_space() -> Option<u64> {
    let limits = read_to_string("/proc/self/limits").ok()?;
    let status = read_to_string("/proc/self/status").ok()?;
    let left = |(limit, used)| {
        let line = limits.lines().find_map(|line| line.strip_prefix(limit))?;
        // If there is no limit, the first word is "unlimited".
        let limit: u64 = line.split_whitespace().next()?.parse().ok()?;
        Some(limit.saturating_sub(kibibytes(&status, used)?))
    };
    let [space, data] = [
        ("Max address space", "VmSize:"),
        ("Max data size", "VmData:"),
    ]
    .map(left);
    space.into_iter().chain(data).min()
}

/// Returns the number of bytes that can still be allocated in this process's control group and all
/// of its parent groups, or `None` if there is no limit. Containers and batch systems use control
/// groups to limit memory. `root` is the folder of the root group, and `groups` is the content of
/// `/proc/self/cgroup`.
fn in_group(root: &Path, groups: &str) -> Option<u64> {
    let path = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let left = |group: &Path| {
        let number = |name| -> Option<u64> {
            let text = read_to_string(group.join(name)).ok()?;
            text.trim().parse().ok() // If there is no limit, the text is "max".
        };
        // The memory usage in `memory.current` includes the file cache. The inactive part of this
        // cache is subtracted, because the kernel frees it when a process needs the memory.
        let stat = read_to_string(group.join("memory.stat")).unwrap_or_default();
        let mut lines = stat.lines();
        let files = lines.find_map(|line| line.strip_prefix("inactive_file ")?.parse().ok());
        let used = number("memory.current")?.saturating_sub(files.unwrap_or(0));
        Some(number("memory.max")?.saturating_sub(used))
    };
    let group = root.join(path);
    let around = group.ancestors().take_while(|at| at.starts_with(root));
    around.filter_map(left).min()
}

/// Finds the line of `text` that begins with `name`, such as `MemAvailable: 12 kB`, and converts
/// its value to bytes.
fn kibibytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(1024 * kibibytes)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_model_larger_than_the_memory_is_refused_in_one_line() {
        let huge = GptConfig {
            n_layers: 100_000_000,
            ..GptConfig::GPT2_124M
        };
        let needed = huge.training_memory(1, 1).unwrap();
        if available().is_some() {
            let error = format!("{:#}", check_model(&huge, &needed).unwrap_err());
            assert!(
                error.starts_with("a model of 7") && error.contains(" PB of memory is required"),
                "{error}"
            );
        }
    }

    #[test]
    fn the_narrowest_group_says_how_much_is_left() {
        let root = tempfile::tempdir().unwrap();
        let group = |path: &str, files: &[(&str, &str)]| {
            let folder = root.path().join(path);
            fs::create_dir_all(&folder).unwrap();
            for (name, text) in files {
                fs::write(folder.join(name), text).unwrap();
            }
        };
        let left = |groups: &str| in_group(root.path(), groups);
        assert_eq!(left("0::/a/b\n"), None);
        group(
            "a",
            &[("memory.max", "1000\n"), ("memory.current", "900\n")],
        );
        group("a/b", &[("memory.max", "max\n"), ("memory.current", "5\n")]);
        assert_eq!(left("1:cpu:/c\n0::/a/b\n"), Some(100));
        group("a", &[("memory.stat", "anon 5\ninactive_file 300\n")]);
        assert_eq!(left("0::/a/b\n"), Some(400));
    }
}
