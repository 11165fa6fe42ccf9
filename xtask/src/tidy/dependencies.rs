//! The dependencies: the table in docs/ARCHITECTURE.md that gives a reason for each crate from
//! outside the workspace, against every package's dependencies.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Result;

use super::layers::{Package, is_layer, packages};
use crate::documents::rows;

/// Ends the name of a package that uses a crate only in tests, examples or build scripts.
const DEV: &str = " (dev)";

/// Packages that use each external crate.
type Users = BTreeMap<String, BTreeSet<String>>;

/// Returns the differences between the table and the manifests.
pub(super) fn faults(root: &Path) -> Result<Vec<String>> {
    let rows = rows("docs/ARCHITECTURE.md")?;
    let faults = differences(&users(&packages(root)?), &rows);
    let faults = faults.into_iter();
    Ok(faults
        .map(|fault| format!("docs/ARCHITECTURE.md: {fault}"))
        .collect())
}

/// Returns the users of each external crate, as the manifests state them.
fn users(packages: &[Package]) -> Users {
    let is_member = |name: &str| packages.iter().any(|package| package.name == name);
    let mut users = Users::new();
    for package in packages {
        for dependency in &package.dependencies {
            if !is_member(&dependency.name) {
                let user = match dependency.is_dev() {
                    true => format!("{}{DEV}", package.name),
                    false => package.name.clone(),
                };
                let all = users.entry(dependency.name.clone()).or_default();
                all.insert(user);
            }
        }
    }
    users
}

/// Returns a sentence for each crate whose row is missing, superfluous, or names other users.
///
/// A row is `crate | reason | users`. A row of several crates names the users of all of them.
fn differences(users: &Users, rows: &[Vec<String>]) -> Vec<String> {
    let mut documented = BTreeSet::new();
    let mut faults = Vec::new();
    for row in rows {
        let [crates, reason, stated] = &row[..] else {
            continue;
        };
        if is_layer(reason) {
            continue; // a row of the page's other table
        }
        let crates: BTreeSet<String> = crates.split(", ").map(str::to_owned).collect();
        let all = crates.iter().flat_map(|name| users.get(name)).flatten();
        let all: BTreeSet<&str> = all.map(String::as_str).collect();
        // A package that uses a crate normally may also use it in tests.
        let is_only_dev = |user: &str| user.strip_suffix(DEV).is_none_or(|it| !all.contains(it));
        let actual: BTreeSet<&str> = all.iter().copied().filter(|it| is_only_dev(it)).collect();
        let stated: BTreeSet<&str> = stated.split(", ").collect();
        if actual != stated {
            faults.push(format!(
                "{crates:?}: the users are {actual:?}, but the row has {stated:?}"
            ));
        }
        documented.extend(crates);
    }
    let missing = users.keys().filter(|name| !documented.contains(*name));
    faults.extend(missing.map(|name| format!("`{name}` has no row with a reason")));
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_that_is_missing_wrong_or_superfluous_is_a_fault() {
        let packages: Vec<Package> = serde_json::from_str(
            r#"[{"name": "low", "dependencies": [{"name": "serde", "kind": null},
                {"name": "serde", "kind": "dev"}, {"name": "tempfile", "kind": "dev"}]},
                {"name": "high", "dependencies": [{"name": "low", "kind": null},
                {"name": "toml", "kind": null}]}]"#,
        )
        .unwrap();
        let users = users(&packages);
        let faults = |rows: &[[&str; 3]]| {
            let rows: Vec<_> = rows
                .iter()
                .map(|row| row.map(str::to_owned).to_vec())
                .collect();
            differences(&users, &rows)
        };
        let (text, temporary) = (
            ["serde, toml", "", "low, high"],
            ["tempfile", "", "low (dev)"],
        );
        assert_eq!(faults(&[text, temporary]), Vec::<String>::new());
        assert_eq!(faults(&[text]).len(), 1); // tempfile has no row
        assert_eq!(faults(&[text, ["tempfile", "", "low"]]).len(), 1);
        assert_eq!(faults(&[["serde, toml", "", "low"], temporary]).len(), 1);
        assert_eq!(faults(&[text, temporary, ["anyhow", "", "low"]]).len(), 1);
    }
}
