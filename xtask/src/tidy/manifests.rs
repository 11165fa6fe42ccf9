//! The packages of the workspace, as their manifests describe them; none may be published.
//!
//! Several of their names are taken on the public registry, so a slip would be a stranger's package.

use std::path::Path;

use anyhow::{Context, Result};

use super::shown;
use crate::workspace::files_below;

/// What the rules need of a manifest.
pub(super) struct Package {
    pub(super) name: String,
    /// Its path, as messages write it.
    pub(super) manifest: String,
    /// The names in `[dependencies]`, `[build-dependencies]` and those of targets.
    pub(super) dependencies: Vec<String>,
    pub(super) publish_is_false: bool,
}

/// Packages whose `publish` is not false.
pub(super) fn faults(root: &Path) -> Result<Vec<String>> {
    let published = packages(root)?
        .into_iter()
        .filter(|package| !package.publish_is_false);
    Ok(published
        .map(|package| {
            format!(
                "{}: `{}` lacks publish = false",
                package.manifest, package.name
            )
        })
        .collect())
}

/// All packages below `root`.
pub(super) fn packages(root: &Path) -> Result<Vec<Package>> {
    let read = |path: &Path| -> Result<toml::Table> {
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        toml::from_str(&text).with_context(|| path.display().to_string())
    };
    let workspace = read(&root.join("Cargo.toml"))?;
    let shared_publish =
        get(&workspace, &["workspace", "package", "publish"]).and_then(toml::Value::as_bool);
    let mut packages = Vec::new();
    for path in files_below(root, "toml") {
        if path.file_name().is_none_or(|name| name != "Cargo.toml") {
            continue;
        }
        let manifest = read(&path)?;
        let Some(name) = get(&manifest, &["package", "name"]).and_then(toml::Value::as_str) else {
            continue;
        };
        packages.push(Package {
            name: name.to_owned(),
            manifest: shown(root, &path),
            dependencies: dependencies(&manifest),
            publish_is_false: publish(&manifest, shared_publish) == Some(false),
        });
    }
    Ok(packages)
}

fn publish(manifest: &toml::Table, shared: Option<bool>) -> Option<bool> {
    match get(manifest, &["package", "publish"])? {
        toml::Value::Boolean(publish) => Some(*publish),
        toml::Value::Table(inherited) if inherited.get("workspace")?.as_bool()? => shared,
        _ => None,
    }
}

fn dependencies(manifest: &toml::Table) -> Vec<String> {
    let targets = manifest.get("target").and_then(toml::Value::as_table);
    let targets = targets
        .into_iter()
        .flat_map(toml::Table::values)
        .filter_map(toml::Value::as_table);
    let mut names = Vec::new();
    for table in targets.chain([manifest]) {
        for section in ["dependencies", "build-dependencies"] {
            let Some(entries) = table.get(section).and_then(toml::Value::as_table) else {
                continue;
            };
            for (name, entry) in entries {
                let package = entry.get("package").and_then(toml::Value::as_str);
                names.push(package.unwrap_or(name).to_owned());
            }
        }
    }
    names
}

fn get<'a>(table: &'a toml::Table, path: &[&str]) -> Option<&'a toml::Value> {
    let (last, tables) = path.split_last()?;
    let mut table = table;
    for key in tables {
        table = table.get(*key)?.as_table()?;
    }
    table.get(*last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(text: &str) -> toml::Table {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn publish_must_be_false_itself_or_by_the_workspace() {
        let package = |publish: &str| manifest(&format!("[package]\nname = \"x\"\n{publish}"));
        assert_eq!(publish(&package("publish = false"), None), Some(false));
        assert_eq!(
            publish(&package("publish.workspace = true"), Some(false)),
            Some(false)
        );
        assert_eq!(publish(&package("publish.workspace = true"), None), None);
        assert_eq!(publish(&package(""), Some(false)), None);
        assert_eq!(
            publish(&package("publish = [\"registry\"]"), Some(false)),
            None
        );
    }

    #[test]
    fn renamed_and_target_dependencies_are_seen_and_dev_dependencies_are_not() {
        let text = "[dependencies]\na = \"1\"\nb = { package = \"c\", version = \"1\" }\n[target.'cfg(unix)'.dependencies]\nd = \"1\"\n[dev-dependencies]\ne = \"1\"\n";
        let mut names = dependencies(&manifest(text));
        names.sort();
        assert_eq!(names, ["a", "c", "d"]);
    }
}
