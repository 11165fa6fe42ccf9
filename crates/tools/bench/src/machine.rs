//! The machine of a run, as the table and the file name it.

use std::collections::HashMap;
use std::fmt;

use serde::Serialize;

/// As Linux names them.
const FEATURES: [&str; 3] = ["avx2", "avx512f", "avx512_vnni"];

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Machine {
    /// Its processor, as the system names it
    cpu: String,
    /// Threads of ours and of the peers
    threads: usize,
}

impl Machine {
    pub(crate) fn new(threads: usize) -> Self {
        Self {
            cpu: processor(),
            threads,
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {} threads", self.cpu, self.threads)
    }
}

/// Its name; on x86 family and model too, as a virtual machine may tell no more than the make, and
/// which instruction sets that the kernels choose by it has.
fn processor() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let lines = info.lines().filter_map(|line| line.split_once(':'));
    let fields: HashMap<&str, &str> =
        (lines.map(|(key, value)| (key.trim(), value.trim()))).collect();
    let field = |name: &str| fields.get(name).copied().unwrap_or_default();
    let flags = field("flags").split(' ');
    let features: Vec<&str> = flags.filter(|flag| FEATURES.contains(flag)).collect();
    match field("cpu family") {
        "" => std::env::consts::ARCH.to_owned(),
        family => format!(
            "{} (family {family}, model {}; {})",
            field("model name"),
            field("model"),
            features.join(", ")
        ),
    }
}
