//! The layers: the table in docs/ARCHITECTURE.md against every package's `[dependencies]`.
//!
//! The documented graph is the enforced graph. Dev-dependencies are free, as tests may look at anything.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::manifests::{Package, packages};

/// The word that allows every crate.
const ANYTHING: &str = "anything";
/// The layer of crates that only tests may use.
const DEV: &str = "dev";

/// One row of the table.
struct Allowed {
    layer: String,
    may: BTreeSet<String>,
}

/// Dependencies that the table does not allow, and packages that it does not have.
pub(super) fn faults(root: &Path) -> Result<Vec<String>> {
    let page = std::fs::read_to_string(root.join("docs/ARCHITECTURE.md"))
        .context("docs/ARCHITECTURE.md")?;
    let table = read_table(&page)?;
    let packages = packages(root)?;
    let mut faults = table_faults(&table);
    for package in &packages {
        faults.extend(package_faults(package, &table));
    }
    for name in table.keys() {
        if !packages.iter().any(|package| package.name == *name) {
            faults.push(format!(
                "docs/ARCHITECTURE.md: there is no package `{name}`"
            ));
        }
    }
    Ok(faults)
}

/// The rows of the table `crate | layer | may depend on`.
fn read_table(page: &str) -> Result<BTreeMap<String, Allowed>> {
    let mut lines = page
        .lines()
        .skip_while(|line| cells(line) != ["crate", "layer", "may depend on"]);
    lines
        .next()
        .context("docs/ARCHITECTURE.md has no table `crate | layer | may depend on`")?;
    let mut table = BTreeMap::new();
    for line in lines.skip(1).take_while(|line| line.starts_with('|')) {
        let cells = cells(line);
        ensure!(
            cells.len() == 3,
            "docs/ARCHITECTURE.md: `{line}` has not three cells"
        );
        let may = cells[2]
            .split(',')
            .map(|name| name.trim().to_owned())
            .filter(|name| !name.is_empty())
            .collect();
        table.insert(
            cells[0].clone(),
            Allowed {
                layer: cells[1].clone(),
                may,
            },
        );
    }
    Ok(table)
}

fn cells(line: &str) -> Vec<String> {
    let line = line.trim();
    let inner = line
        .strip_prefix('|')
        .and_then(|line| line.strip_suffix('|'))
        .unwrap_or(line);
    inner
        .split('|')
        .map(|cell| cell.trim().replace('`', ""))
        .collect()
}

/// What may be depended on lies in a lower layer.
fn table_faults(table: &BTreeMap<String, Allowed>) -> Vec<String> {
    let mut faults = Vec::new();
    for (name, Allowed { layer, may }) in table {
        for other in may.iter().filter(|other| *other != ANYTHING) {
            match table.get(other) {
                None => faults.push(format!(
                    "docs/ARCHITECTURE.md: `{name}` may depend on `{other}`, which has no row"
                )),
                Some(lower) if lower.layer >= *layer || lower.layer == DEV => faults.push(format!(
                    "docs/ARCHITECTURE.md: `{name}` ({layer}) may not depend on `{other}` ({})",
                    lower.layer
                )),
                Some(_) => {}
            }
        }
    }
    faults
}

fn package_faults(package: &Package, table: &BTreeMap<String, Allowed>) -> Vec<String> {
    let Some(Allowed { may, .. }) = table.get(&package.name) else {
        return vec![format!(
            "{}: `{}` has no row in docs/ARCHITECTURE.md",
            package.manifest, package.name
        )];
    };
    let mut faults = Vec::new();
    for dependency in &package.dependencies {
        let Some(layer) = table.get(dependency).map(|row| row.layer.as_str()) else {
            continue;
        };
        if layer == DEV || !(may.contains(dependency) || may.contains(ANYTHING)) {
            faults.push(format!(
                "{}: `{}` may not depend on `{dependency}`",
                package.manifest, package.name
            ));
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# A\n\n| crate | layer | may depend on |\n|---|---|---|\n| low | L0 | |\n| high | L1 | low |\n| top | L2 | anything |\n| helper | dev | |\n\ntext\n";

    fn package(name: &str, dependencies: &[&str]) -> Package {
        Package {
            name: name.to_owned(),
            manifest: "Cargo.toml".to_owned(),
            dependencies: dependencies.iter().map(|&name| name.to_owned()).collect(),
            publish_is_false: true,
        }
    }

    #[test]
    fn a_dependency_upwards_or_unlisted_is_a_fault() {
        let table = read_table(PAGE).unwrap();
        let faults = |name, dependencies: &[&str]| {
            package_faults(&package(name, dependencies), &table).len()
        };
        assert_eq!(faults("high", &["low", "ndarray"]), 0);
        assert_eq!(faults("top", &["low", "high"]), 0);
        assert_eq!(faults("low", &["high"]), 1);
        assert_eq!(faults("high", &["helper"]), 1);
        assert_eq!(faults("top", &["helper"]), 1);
        assert_eq!(faults("unknown", &[]), 1);
    }

    #[test]
    fn a_table_that_allows_a_dependency_upwards_is_a_fault() {
        let upwards = PAGE.replace("| low | L0 | |", "| low | L0 | high |");
        assert_eq!(table_faults(&read_table(&upwards).unwrap()).len(), 1);
        assert!(table_faults(&read_table(PAGE).unwrap()).is_empty());
        assert!(read_table("no table").is_err());
    }
}
