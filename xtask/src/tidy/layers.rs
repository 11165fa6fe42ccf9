//! The layers: the table in docs/ARCHITECTURE.md against every package's `[dependencies]`.
//!
//! The documented graph is the graph.
//! Dev-dependencies are free, as tests may look at anything.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Result;
use serde::Deserialize;

use crate::documents::rows;
use crate::workspace::metadata;

/// A package of the workspace.
#[derive(Deserialize)]
pub(super) struct Package {
    pub(super) name: String,
    pub(super) dependencies: Vec<Dependency>,
}

/// A package that another package depends on.
#[derive(Deserialize)]
pub(super) struct Dependency {
    pub(super) name: String,
    /// `None` for a normal dependency, otherwise `dev` or `build`
    kind: Option<String>,
}

impl Dependency {
    /// Returns true if only tests, examples, benches or build scripts use the dependency.
    pub(super) fn is_dev(&self) -> bool {
        self.kind.is_some()
    }
}

/// Returns the packages of the workspace in `folder`.
///
/// # Errors
/// Cargo fails, or prints something unexpected.
pub(super) fn packages(folder: &Path) -> Result<Vec<Package>> {
    #[derive(Deserialize)]
    struct Metadata {
        packages: Vec<Package>,
    }
    let Metadata { packages } = metadata(folder)?;
    Ok(packages)
}

/// Each crate of the table: its layer and its dependencies.
type Table = BTreeMap<String, (String, BTreeSet<String>)>;

/// Dependencies that the table does not have, and packages that it does not have.
pub(super) fn faults(root: &Path) -> Result<Vec<String>> {
    let mut table = table(rows("docs/ARCHITECTURE.md")?);
    let mut packages = packages(root)?;
    packages.extend(self::packages(&root.join("fuzz"))?); // a separate workspace
    let mut faults = Vec::new();
    for package in &packages {
        let used = package.dependencies.iter();
        let used = used.filter(|dependency| !dependency.is_dev());
        let used = used.map(|dependency| dependency.name.clone()).collect();
        faults.extend(package_fault(&package.name, used, &table));
    }
    for package in packages {
        table.remove(&package.name);
    }
    faults.extend(table.keys().map(|name| format!("no package `{name}`")));
    Ok(faults
        .into_iter()
        .map(|fault| format!("docs/ARCHITECTURE.md: {fault}"))
        .collect())
}

/// Returns true for L0 to L9 and dev.
pub(super) fn is_layer(word: &str) -> bool {
    word.len() == 2 || word == "dev"
}

/// The rows `crate | layer | may depend on` among all rows of a page.
fn table(rows: Vec<Vec<String>>) -> Table {
    let rows = rows.into_iter().filter_map(|columns| {
        let [name, layer, used] = columns.try_into().ok()?;
        let used = used.split(", ").filter(|name| !name.is_empty());
        let used = used.map(str::to_owned).collect();
        is_layer(&layer).then_some((name, (layer, used)))
    });
    rows.collect()
}

/// The fault of a package that depends on these crates.
fn package_fault(name: &str, mut used: BTreeSet<String>, table: &Table) -> Option<String> {
    let Some((layer, row)) = table.get(name) else {
        return Some(format!("`{name}` has no row"));
    };
    used.retain(|other| table.contains_key(other));
    if row.contains("anything") {
        return None;
    }
    let mut upper = used.iter().filter(|other| table[*other].0 >= *layer);
    if let Some(upper) = upper.next() {
        return Some(format!(
            "`{name}` depends on `{upper}`, which is in no lower layer"
        ));
    }
    (used != *row).then(|| format!("`{name}` depends on {used:?}, its row has {row:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dependency_upwards_or_other_than_documented_is_a_fault() {
        let rows = [
            ["low", "L0", ""],
            ["high", "L1", "low"],
            ["top", "L2", "anything"],
            ["helper", "dev", ""],
            ["serde", "configuration", "high"],
        ];
        let table = table(rows.map(|row| row.map(str::to_owned).to_vec()).to_vec());
        assert_eq!(table.len(), 4);
        for (name, used, is_fault) in [
            ("high", &["low", "ndarray"][..], false),
            ("top", &["low", "high"], false),
            ("high", &[], true),
            ("low", &["high"], true),
            ("high", &["low", "helper"], true),
            ("unknown", &[], true),
        ] {
            let used = used.iter().map(ToString::to_string).collect();
            assert_eq!(
                package_fault(name, used, &table).is_some(),
                is_fault,
                "{name}"
            );
        }
    }
}
