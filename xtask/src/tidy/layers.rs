//! The layers: the table in docs/ARCHITECTURE.md against every package's `[dependencies]`.
//!
//! The documented graph is the graph.
//! Dev-dependencies are free, as tests may look at anything.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Stdio;

use anyhow::Result;
use serde_json::Value;

use crate::documents::rows;
use crate::workspace::{cargo, run};

/// Each crate of the table: its layer and its dependencies.
type Table = BTreeMap<String, (String, BTreeSet<String>)>;

/// Dependencies that the table does not have, and packages that it does not have.
pub(super) fn faults(root: &Path) -> Result<Vec<String>> {
    let mut table = table(rows("docs/ARCHITECTURE.md")?);
    let mut packages = Vec::new();
    // The fuzz targets are a separate workspace.
    for folder in [root.to_owned(), root.join("fuzz")] {
        let mut metadata = cargo("metadata --no-deps --format-version=1", &folder, &[]);
        let metadata = run(metadata.stdout(Stdio::piped()))?;
        let metadata: Value = serde_json::from_slice(&metadata)?;
        packages.extend(metadata["packages"].as_array().cloned().unwrap_or_default());
    }
    let text = |of: &Value| of.as_str().unwrap_or_default().to_owned();
    let mut faults = Vec::new();
    for package in &packages {
        let used = package["dependencies"].as_array().into_iter().flatten();
        // Those for tests and build scripts have a kind.
        let used = used.filter(|dependency| dependency["kind"].is_null());
        let used = used.map(|dependency| text(&dependency["name"])).collect();
        faults.extend(package_fault(&text(&package["name"]), used, &table));
    }
    for package in packages {
        table.remove(&text(&package["name"]));
    }
    faults.extend(table.keys().map(|name| format!("no package `{name}`")));
    Ok(faults
        .into_iter()
        .map(|fault| format!("docs/ARCHITECTURE.md: {fault}"))
        .collect())
}

/// The rows `crate | layer | may depend on` among all of a page; a layer is L0 to L9, or dev.
fn table(rows: Vec<Vec<String>>) -> Table {
    let rows = rows.into_iter().filter_map(|columns| {
        let [name, layer, used] = columns.try_into().ok()?;
        let used = used.split(", ").filter(|name| !name.is_empty());
        let used = used.map(str::to_owned).collect();
        (layer.len() == 2 || layer == "dev").then_some((name, (layer, used)))
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
