//! Compares the table of layers in docs/ARCHITECTURE.md with the dependencies of every package. A
//! package must depend on exactly the packages that its row lists, and these must be in lower
//! layers. If the row contains `anything`, all dependencies are allowed.
//!
//! Dev-dependencies are exempt, so tests can use any package.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Result;
use serde::Deserialize;

use crate::documents::rows;
use crate::workspace::metadata;

/// A package of a workspace.
#[derive(Deserialize)]
pub(super) struct Package {
    pub(super) name: String,
    pub(super) dependencies: Vec<Dependency>,
}

/// A package that another package depends on.
#[derive(Deserialize)]
pub(super) struct Dependency {
    pub(super) name: String,
    /// Kind of the dependency, which is `dev`, `build`, or `None` for a normal dependency.
    kind: Option<String>,
}

impl Dependency {
    /// Returns true if only tests, examples, benchmarks or build scripts use the dependency.
    pub(super) fn is_dev(&self) -> bool {
        self.kind.is_some()
    }
}

/// Returns the packages of the workspace in `folder`.
///
/// # Errors
///
/// Returns an error if cargo fails or if its output doesn't have the expected form.
pub(super) fn packages(folder: &Path) -> Result<Vec<Package>> {
    #[derive(Deserialize)]
    struct Metadata {
        packages: Vec<Package>,
    }
    let Metadata { packages } = metadata(folder)?;
    Ok(packages)
}

/// The table of layers in docs/ARCHITECTURE.md. It maps the name of each package to the name of its
/// layer and to the packages that it depends on.
type Table = BTreeMap<String, (String, BTreeSet<String>)>;

/// Returns a violation for each package that has no row in the table of layers, for each package
/// whose dependencies differ from its row or aren't in a lower layer, and for each row whose
/// package doesn't exist.
pub(super) fn violations(root: &Path) -> Result<Vec<String>> {
    let mut table = table(rows("docs/ARCHITECTURE.md")?);
    let mut packages = packages(root)?;
    // The folder `fuzz` is a separate workspace.
    packages.extend(self::packages(&root.join("fuzz"))?);
    let mut violations = Vec::new();
    for package in &packages {
        let used = package.dependencies.iter();
        let used = used.filter(|dependency| !dependency.is_dev());
        let used = used.map(|dependency| dependency.name.clone()).collect();
        violations.extend(package_violation(&package.name, used, &table));
    }
    for package in packages {
        table.remove(&package.name);
    }
    violations.extend(table.keys().map(|name| {
        format!("docs/ARCHITECTURE.md has a row for the package `{name}`, which doesn't exist")
    }));
    Ok(violations
        .into_iter()
        .map(|violation| format!("docs/ARCHITECTURE.md: {violation}"))
        .collect())
}

/// Returns true if the word is the name of a layer in docs/ARCHITECTURE.md. The name of a layer is
/// either `dev` or a letter followed by a digit, such as `L0`. The function accepts `dev` and every
/// word of two bytes.
pub(super) fn is_layer(word: &str) -> bool {
    word.len() == 2 || word == "dev"
}

/// Extracts the table of layers from the rows of all tables in docs/ARCHITECTURE.md. The rows of
/// this table are those with three columns whose second column is the name of a layer. The other
/// two columns contain the name of a package and its dependencies.
fn table(rows: Vec<Vec<String>>) -> Table {
    let rows = rows.into_iter().filter_map(|columns| {
        let [name, layer, used] = columns.try_into().ok()?;
        let used = used.split(", ").filter(|name| !name.is_empty());
        let used = used.map(str::to_owned).collect();
        is_layer(&layer).then_some((name, (layer, used)))
    });
    rows.collect()
}

/// Compares the package `name` and its dependencies, `used`, with the table of layers. Returns a
/// description of the violation, or `None` if there is none.
fn package_violation(name: &str, mut used: BTreeSet<String>, table: &Table) -> Option<String> {
    let Some((layer, row)) = table.get(name) else {
        return Some(format!(
            "the package `{name}` has no row in the table of layers in docs/ARCHITECTURE.md"
        ));
    };
    used.retain(|other| table.contains_key(other));
    if row.contains("anything") {
        return None;
    }
    let mut upper = used.iter().filter(|other| table[*other].0 >= *layer);
    if let Some(upper) = upper.next() {
        return Some(format!(
            "the package `{name}` depends on `{upper}`, which isn't in a lower layer"
        ));
    }
    (used != *row)
        .then(|| format!("the package `{name}` depends on {used:?}, but the package's row in docs/ARCHITECTURE.md lists {row:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upward_and_undocumented_dependencies_are_violations() {
        let rows = [
            ["low", "L0", ""],
            ["high", "L1", "low"],
            ["top", "L2", "anything"],
            ["helper", "dev", ""],
            ["serde", "configuration", "high"],
        ];
        let table = table(rows.map(|row| row.map(str::to_owned).to_vec()).to_vec());
        assert_eq!(table.len(), 4);
        for (name, used, is_violation) in [
            ("high", &["low", "ndarray"][..], false),
            ("top", &["low", "high"], false),
            ("high", &[], true),
            ("low", &["high"], true),
            ("high", &["low", "helper"], true),
            ("unknown", &[], true),
        ] {
            let used = used.iter().map(ToString::to_string).collect();
            assert_eq!(
                package_violation(name, used, &table).is_some(),
                is_violation,
                "{name}"
            );
        }
    }
}
