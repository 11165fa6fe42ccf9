//! The layers: the table in docs/ARCHITECTURE.md against every package's `[dependencies]`.
//!
//! The documented graph is the enforced graph. Dev-dependencies are free, as tests may look at
//! anything.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;

use super::{read, shown};
use crate::workspace::cargo_metadata;

/// The word that allows every crate.
const ANYTHING: &str = "anything";
/// The layer of crates that only tests may use.
const DEV: &str = "dev";

/// A row of the table: the layer, and what may be depended on.
type Table = BTreeMap<String, (String, Vec<String>)>;

/// Dependencies that the table does not allow, and packages that it does not have.
pub(super) fn faults(root: &Path) -> Result<Vec<String>> {
    let table = table(&read(&root.join("docs/ARCHITECTURE.md"))?);
    let mut faults = table_faults(&table);
    let mut missing: Vec<&str> = table.keys().map(String::as_str).collect();
    // The fuzz targets are a workspace of their own.
    for package in [packages(root, root)?, packages(root, &root.join("fuzz"))?].concat() {
        let name = package.name.as_str();
        missing.retain(|other| *other != name);
        let found = package_faults(name, &package.dependencies, &table).into_iter();
        faults.extend(found.map(|fault| format!("{}: {fault}", package.manifest)));
    }
    faults.extend(
        missing
            .iter()
            .map(|name| format!("docs/ARCHITECTURE.md: there is no package `{name}`")),
    );
    Ok(faults)
}

/// A package of the workspace.
#[derive(Clone)]
struct Package {
    name: String,
    /// The path of its Cargo.toml
    manifest: String,
    /// Its `[dependencies]`
    dependencies: Vec<String>,
}

/// All packages of the workspace in `folder`, as cargo reads them.
fn packages(root: &Path, folder: &Path) -> Result<Vec<Package>> {
    let metadata: serde_json::Value = serde_json::from_str(&cargo_metadata(folder)?)?;
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let list = |value: &serde_json::Value| value.as_array().cloned().unwrap_or_default();
    let package = |package: &serde_json::Value| Package {
        name: text(&package["name"]),
        manifest: shown(root, Path::new(&text(&package["manifest_path"]))),
        // Those for tests and build scripts have a kind.
        dependencies: (list(&package["dependencies"]).iter())
            .filter(|dependency| dependency["kind"].is_null())
            .map(|dependency| text(&dependency["name"]))
            .collect(),
    };
    Ok(list(&metadata["packages"]).iter().map(package).collect())
}

/// The rows of the table `crate | layer | may depend on`.
fn table(page: &str) -> Table {
    let rows = page
        .lines()
        .skip_while(|line| !line.starts_with("| crate | layer |"))
        .skip(2);
    let rows = rows.take_while(|line| line.starts_with('|'));
    rows.filter_map(|line| {
        let mut cells = line.trim_matches('|').split('|').map(str::trim);
        let (name, layer, may) = (cells.next()?, cells.next()?, cells.next()?);
        let may = may
            .split(',')
            .map(|name| name.trim().to_owned())
            .filter(|name| !name.is_empty());
        Some((name.to_owned(), (layer.to_owned(), may.collect())))
    })
    .collect()
}

/// What may be depended on lies in a lower layer.
fn table_faults(table: &Table) -> Vec<String> {
    let mut faults = Vec::new();
    for (name, (layer, may)) in table {
        for other in may.iter().filter(|other| *other != ANYTHING) {
            if table
                .get(other)
                .is_none_or(|(lower, _)| lower >= layer || lower == DEV)
            {
                faults.push(format!("docs/ARCHITECTURE.md: `{name}` may not depend on `{other}`, which is in no lower layer"));
            }
        }
    }
    faults
}

fn package_faults(name: &str, dependencies: &[String], table: &Table) -> Vec<String> {
    let Some((_, may)) = table.get(name) else {
        return vec![format!("`{name}` has no row in docs/ARCHITECTURE.md")];
    };
    let allowed = |dependency: &String| {
        may.iter()
            .any(|name| name == dependency || name == ANYTHING)
            && table.get(dependency).is_none_or(|(layer, _)| layer != DEV)
    };
    let ours = dependencies
        .iter()
        .filter(|dependency| table.contains_key(*dependency));
    ours.filter(|dependency| !allowed(dependency))
        .map(|dependency| format!("`{name}` may not depend on `{dependency}`"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# A\n\n| crate | layer | may depend on |\n|---|---|---|\n| low | L0 | |\n| high | L1 | low |\n| top | L2 | anything |\n| helper | dev | |\n\ntext\n";

    #[test]
    fn a_dependency_upwards_or_unlisted_is_a_fault() {
        let table = table(PAGE);
        let faults = |name, dependencies: &[&str]| {
            let dependencies: Vec<String> = dependencies.iter().map(ToString::to_string).collect();
            package_faults(name, &dependencies, &table).len()
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
        assert_eq!(table_faults(&table(&upwards)).len(), 1);
        assert!(table_faults(&table(PAGE)).is_empty());
        assert_eq!(table(PAGE).len(), 4);
    }
}
