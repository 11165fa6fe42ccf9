//! Compares the table of external crates in docs/ARCHITECTURE.md with the dependencies of all
//! packages. The table gives a reason for each external crate.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Result;

use super::layers::{Package, is_layer, packages};
use crate::documents::rows;

/// Suffix that the table appends to the name of a package if the package uses a crate only in
/// tests, examples or build scripts.
const DEV: &str = " (dev)";

/// The packages that use each external crate.
type Users = BTreeMap<String, BTreeSet<String>>;

/// Returns the differences between the table of external crates in docs/ARCHITECTURE.md and the
/// dependencies in the manifests.
pub(super) fn violations(root: &Path) -> Result<Vec<String>> {
    let rows = rows("docs/ARCHITECTURE.md")?;
    let violations = differences(&users(&packages(root)?), &rows);
    let violations = violations.into_iter();
    Ok(violations
        .map(|violation| format!("docs/ARCHITECTURE.md: {violation}"))
        .collect())
}

/// Returns the users of each external crate, according to the manifests.
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

/// Returns a violation for each external crate that has no row in the table of external crates in
/// docs/ARCHITECTURE.md. Also returns a violation for each row of this table that doesn't list
/// exactly the packages that use its crates.
///
/// Each row has the columns crates, reason and users. If a row lists several crates, its users are
/// all packages that use at least one of these crates.
fn differences(users: &Users, rows: &[Vec<String>]) -> Vec<String> {
    let mut documented = BTreeSet::new();
    let mut violations = Vec::new();
    for row in rows {
        let [crates, reason, stated] = &row[..] else {
            continue;
        };
        if is_layer(reason) {
            continue; // This row belongs to the table of layers.
        }
        let crates: BTreeSet<String> = crates.split(", ").map(str::to_owned).collect();
        let all = crates.iter().flat_map(|name| users.get(name)).flatten();
        let all: BTreeSet<&str> = all.map(String::as_str).collect();
        // If a package uses a crate both as a normal dependency and in its tests, only the normal
        // dependency is listed.
        let is_only_dev = |user: &str| user.strip_suffix(DEV).is_none_or(|it| !all.contains(it));
        let actual: BTreeSet<&str> = all.iter().copied().filter(|it| is_only_dev(it)).collect();
        let stated: BTreeSet<&str> = stated.split(", ").collect();
        if actual != stated {
            violations.push(format!(
                "the crates {crates:?} are used by {actual:?}, but their row in docs/ARCHITECTURE.md lists {stated:?}"
            ));
        }
        documented.extend(crates);
    }
    let missing = users.keys().filter(|name| !documented.contains(*name));
    violations.extend(
        missing.map(|name| {
            format!("the dependency `{name}` has no row in docs/ARCHITECTURE.md; add a row that gives the reason for the dependency")
        }),
    );
    violations
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_wrong_and_superfluous_rows_are_violations() {
        let packages: Vec<Package> = serde_json::from_str(
            r#"[{"name": "low", "dependencies": [{"name": "serde", "kind": null},
                {"name": "serde", "kind": "dev"}, {"name": "tempfile", "kind": "dev"}]},
                {"name": "high", "dependencies": [{"name": "low", "kind": null},
                {"name": "toml", "kind": null}]}]"#,
        )
        .unwrap();
        let users = users(&packages);
        let violations = |rows: &[[&str; 3]]| {
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
        assert_eq!(violations(&[text, temporary]), Vec::<String>::new());
        assert_eq!(violations(&[text]).len(), 1); // There is no row for tempfile.
        assert_eq!(violations(&[text, ["tempfile", "", "low"]]).len(), 1);
        assert_eq!(
            violations(&[["serde, toml", "", "low"], temporary]).len(),
            1
        );
        assert_eq!(
            violations(&[text, temporary, ["anyhow", "", "low"]]).len(),
            1
        );
    }
}
