//! The layers: the table in docs/ARCHITECTURE.md against every package's `[dependencies]`.
//!
//! The documented graph is the enforced graph. Dev-dependencies are free, as tests may look at
//! anything.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use serde_json::Value;

use super::shown;
use crate::documents::rows;
use crate::workspace::cargo_metadata;

/// The word that allows every crate.
const ANYTHING: &str = "anything";
/// The layer of crates that only tests may use.
const DEV: &str = "dev";

/// A row of the table: the layer, and what may be depended on.
type Table = BTreeMap<String, (String, Vec<String>)>;

/// Dependencies that the table does not allow, and packages that it does not have.
pub(super) fn faults(root: &Path) -> Result<Vec<String>> {
    let table = table(rows("docs/ARCHITECTURE.md")?);
    let mut faults = table_faults(&table);
    let mut missing: Vec<&str> = table.keys().map(String::as_str).collect();
    // The fuzz targets are a workspace of their own.
    for folder in [root.to_owned(), root.join("fuzz")] {
        let metadata: Value = serde_json::from_str(&cargo_metadata(&folder)?)?;
        let list = |of: &Value| of.as_array().cloned().unwrap_or_default();
        let text = |of: &Value| of.as_str().unwrap_or_default().to_owned();
        for package in list(&metadata["packages"]) {
            let name = text(&package["name"]);
            missing.retain(|other| *other != name);
            let used = list(&package["dependencies"]).into_iter();
            // Those for tests and build scripts have a kind.
            let used = used.filter(|dependency| dependency["kind"].is_null());
            let used: Vec<String> = used.map(|dependency| text(&dependency["name"])).collect();
            let manifest = shown(root, Path::new(&text(&package["manifest_path"])));
            let found = package_faults(&name, &used, &table).into_iter();
            faults.extend(found.map(|fault| format!("{manifest}: {fault}")));
        }
    }
    let missing = missing.iter();
    faults
        .extend(missing.map(|name| format!("docs/ARCHITECTURE.md: there is no package `{name}`")));
    Ok(faults)
}

/// The rows of the table `crate | layer | may depend on` among all of a page.
fn table(rows: Vec<Vec<String>>) -> Table {
    let rows = rows.into_iter().filter_map(|columns| {
        let [name, layer, may] = columns.try_into().ok()?;
        let number = layer
            .strip_prefix('L')
            .is_some_and(|number| number.parse::<u8>().is_ok());
        let may = may.split(", ").filter(|name| !name.is_empty());
        let may = may.map(str::to_owned).collect();
        (number || layer == DEV).then_some((name, (layer, may)))
    });
    rows.collect()
}

/// Crates of the table that may depend on one of the same or an upper layer.
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

    fn of(low_may: &str) -> Table {
        let rows = [
            ["low", "L0", low_may],
            ["high", "L1", "low"],
            ["top", "L2", "anything"],
            ["helper", "dev", ""],
            ["serde", "configuration", "high"],
        ];
        table(rows.map(|row| row.map(str::to_owned).to_vec()).to_vec())
    }

    #[test]
    fn a_dependency_upwards_or_unlisted_is_a_fault() {
        let table = of("");
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
        assert_eq!(table_faults(&of("high")).len(), 1);
        assert!(table_faults(&of("")).is_empty());
        assert_eq!(of("").len(), 4);
    }
}
