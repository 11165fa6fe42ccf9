//! Describes the machine in the output of the bench.

use serde::Serialize;

/// Instruction sets that [`processor`] lists, as they are named in `/proc/cpuinfo`.
const FEATURES: [&str; 3] = ["avx2", "avx512f", "avx512_vnni"];

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Machine {
    /// Description of the processor, based on what the operating system reports.
    pub(crate) cpu: String,
    /// Number of threads used by this project and by the peers.
    pub(crate) threads: usize,
}

/// Returns a description of the processor.
///
/// On Linux on x86, the description of the processor consists of its name, its family and model
/// numbers, and those instruction sets in [`FEATURES`] that it supports. A virtual machine may hide
/// the exact name, but the family and the model still identify the processor. On other systems, the
/// description is only the name of the architecture, such as `aarch64`.
pub(crate) fn processor() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        let mut fields = info.lines().filter_map(|line| line.split_once(':'));
        let (_, value) = fields.find(|(key, _)| key.trim() == name)?;
        Some(value.trim())
    };
    let fields = ["cpu family", "model", "model name", "flags"].map(field);
    let [Some(family), Some(model), Some(name), Some(flags)] = fields else {
        return std::env::consts::ARCH.to_owned();
    };
    let features = flags.split(' ').filter(|flag| FEATURES.contains(flag));
    let features = features.collect::<Vec<_>>().join(", ");
    format!("{name} (family {family}, model {model}; {features})")
}
