//! The machine of a run, as named in the table and the file.

use serde::Serialize;

/// Linux's names.
const FEATURES: [&str; 3] = ["avx2", "avx512f", "avx512_vnni"];

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Machine {
    /// Its processor, by the system's name
    pub(crate) cpu: String,
    /// Threads of this project and of the peers
    pub(crate) threads: usize,
}

/// A processor's name; on x86 also family and model, because a virtual machine may reveal only the
/// make, and the instruction sets that the kernels check.
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
