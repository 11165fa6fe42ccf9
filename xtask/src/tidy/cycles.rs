//! Checks that the modules of a crate don't depend on each other in a cycle, directly or
//! indirectly. Unit tests are ignored.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::Result;
use regex::Regex;

use super::read;
use crate::workspace::files_below;

/// The path of a module, split into its parts, such as `train` and `log`. The path of the crate's
/// root is empty.
type Module = Vec<String>;

/// The modules that each module uses.
type Uses = BTreeMap<Module, BTreeSet<Module>>;

/// Returns the dependency cycles among the modules of each crate.
pub(super) fn violations(root: &Path) -> Result<Vec<String>> {
    let mut crates: BTreeMap<PathBuf, Vec<PathBuf>> = BTreeMap::new();
    for path in files_below(root, "rs") {
        let is_source =
            |folder: &&Path| folder.join("lib.rs").exists() || folder.join("main.rs").exists();
        if let Some(folder) = path.ancestors().skip(1).find(is_source) {
            crates.entry(folder.to_owned()).or_default().push(path);
        }
    }
    let mut violations = Vec::new();
    for (folder, files) in crates {
        for cycle in cycles(&uses(&folder, &files)?) {
            let names: Vec<String> = cycle.iter().map(|module| module.join("::")).collect();
            violations.push(format!(
                "{}: the modules {} depend on each other in a cycle",
                folder.display(),
                names.join(", ")
            ));
        }
    }
    Ok(violations)
}

/// Reads the files of a crate and returns the modules that each module uses.
fn uses(folder: &Path, files: &[PathBuf]) -> Result<Uses> {
    let paths = Regex::new(r"\b(crate|super(?:::super)*)::(\{|[\w:]+)")?;
    let items =
        Regex::new(r"(?:pub(?:\(\w+\))? )?use (?:crate::|self::)?(\w+)::(\{[^}]*\}|\w+)\s*;")?;
    let mut sources = BTreeMap::new();
    for file in files {
        sources.insert(module_of(folder, file), read(file)?);
    }
    // Items that the root of the crate re-exports, each with the module that defines it. For
    // example, `Trainer` is defined in the module `trainer`, so code that uses `crate::Trainer`
    // depends on this module.
    let mut exported: BTreeMap<String, Module> = BTreeMap::new();
    for found in sources
        .get(&Module::new())
        .into_iter()
        .flat_map(|text| items.captures_iter(text))
    {
        let module = vec![found[1].to_owned()];
        if sources.contains_key(&module) {
            let names = found[2].split(|c: char| !(c.is_alphanumeric() || c == '_'));
            exported.extend(names.map(|name| (name.to_owned(), module.clone())));
        }
    }
    let mut uses = Uses::new();
    for (module, text) in &sources {
        let mut used = BTreeSet::new();
        let code = without_tests_and_comments(text);
        for found in paths.captures_iter(&code) {
            let base = match &found[1] {
                "crate" => &module[..0],
                supers => &module[..module.len().saturating_sub(supers.matches("super").count())],
            };
            let rest = &code[found.get(2).map_or(0, |it| it.start())..];
            for path in expanded(rest) {
                let whole: Module = base.iter().cloned().chain(path.clone()).collect();
                let lengths = (1..=whole.len()).rev();
                let file = lengths
                    .map(|length| whole[..length].to_vec())
                    .find(|it| sources.contains_key(it));
                let exported = path
                    .first()
                    .filter(|_| base.is_empty())
                    .and_then(|name| exported.get(name));
                used.extend(file.or(exported.cloned()));
            }
        }
        // A module may use itself and the modules that contain it.
        used.retain(|other| !module.starts_with(other));
        uses.insert(module.clone(), used);
    }
    Ok(uses)
}

fn module_of(folder: &Path, file: &Path) -> Module {
    let path = file.strip_prefix(folder).unwrap_or(file).with_extension("");
    let mut parts: Module = path
        .iter()
        .map(|part| part.to_string_lossy().into_owned())
        .collect();
    if parts
        .last()
        .is_some_and(|last| ["mod", "lib", "main"].contains(&last.as_str()))
    {
        parts.pop();
    }
    parts
}

/// Returns the code before the unit tests.
pub(super) fn without_tests(text: &str) -> &str {
    let end = text
        .find("\nmod tests")
        .or(text.find("\npub(crate) mod tests"));
    &text[..end.unwrap_or(text.len())]
}

/// Returns the code without its comments and unit tests.
fn without_tests_and_comments(text: &str) -> String {
    let lines = without_tests(text).lines();
    let code = lines.map(|line| line.split("//").next().unwrap_or_default());
    code.collect::<Vec<_>>().join("\n")
}

/// Expands the use tree at the beginning of `text` and returns its paths. For example, `a::{b,
/// c::d}` is expanded to `a::b` and `a::c::d`.
fn expanded(text: &str) -> Vec<Module> {
    fn walk(rest: &mut &str, prefix: &[String], paths: &mut Vec<Module>) {
        if let Some(group) = rest.strip_prefix('{') {
            *rest = group.trim_start();
            while !rest.is_empty() && !rest.starts_with('}') {
                walk(rest, prefix, paths);
                let next = rest.find([',', '}']).unwrap_or(rest.len());
                *rest = rest[next..].trim_start_matches(',').trim_start();
            }
            *rest = rest.strip_prefix('}').unwrap_or(rest);
            return;
        }
        let is_name = |c: char| c.is_alphanumeric() || c == '_';
        let (name, behind) = rest.split_at(rest.find(|c| !is_name(c)).unwrap_or(rest.len()));
        let path = [prefix, &[name.to_owned()]].concat();
        *rest = behind;
        match rest.strip_prefix("::") {
            Some(behind) => {
                *rest = behind;
                walk(rest, &path, paths);
            }
            None => paths.push(path),
        }
    }
    let (mut rest, mut paths) = (text, Vec::new());
    walk(&mut rest, &[], &mut paths);
    paths
}

/// Returns the groups of modules that depend on each other.
fn cycles(uses: &Uses) -> Vec<BTreeSet<Module>> {
    let reached = |from: &Module| {
        let (mut reached, mut open) = (BTreeSet::new(), vec![from]);
        while let Some(module) = open.pop() {
            for next in uses.get(module).into_iter().flatten() {
                if reached.insert(next.clone()) {
                    open.push(next);
                }
            }
        }
        reached
    };
    let all: BTreeMap<&Module, BTreeSet<Module>> =
        uses.keys().map(|it| (it, reached(it))).collect();
    let mut cycles: Vec<BTreeSet<Module>> = Vec::new();
    for (module, reaches) in &all {
        let is_back = |other: &&Module| all.get(other).is_some_and(|back| back.contains(*module));
        let cycle: BTreeSet<Module> = reaches.iter().filter(is_back).cloned().collect();
        if !cycle.is_empty() && !cycles.contains(&cycle) {
            cycles.push(cycle);
        }
    }
    cycles
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_that_depend_on_each_other_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("lib.rs", "mod a;\nmod b;\nmod c;\npub use c::{C, Other};\n");
        write("a.rs", "use crate::b::{self, B};\nuse super::C;\n");
        write(
            "b.rs",
            "// crate::a\nfn f() { crate::d::e::g() }\n#[cfg(test)]\nmod tests {\n    use crate::a;\n}\n",
        );
        write("c.rs", "use std::fmt;\n");
        write("d/mod.rs", "mod e;\n");
        write("d/e.rs", "use super::super::c::C;\n");
        assert_eq!(violations(folder.path()).unwrap(), Vec::<String>::new());
        write("c.rs", "use crate::{x, a::A};\n");
        let violations = violations(folder.path()).unwrap();
        assert_eq!(violations.len(), 1, "{violations:?}");
        assert!(
            violations[0].ends_with("the modules a, b, c, d::e depend on each other in a cycle"),
            "{violations:?}"
        );
    }
}
