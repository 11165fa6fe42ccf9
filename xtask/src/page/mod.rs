//! The command `cargo xtask notebook --html DIR`, which writes a page for each notebook, a glossary
//! and an index. The pages need no network.

use std::io::Write as _;
use std::path::Path;

use anyhow::{Result, ensure};
use notebooks::{Cell, Outcome, PROGRAMS, Part, Program, Settings, Tier, TrainingRun, cells};
use pictures::html::escape;

use crate::documents;
use crate::select::select;
use crate::workspace::{print, root};

mod glossary;
mod index;
mod live;
mod notebook;

/// Runs the notebooks that `filter` selects and writes their pages, the pages of the errata, the
/// glossary and the index.
///
/// # Errors
///
/// Returns an error if nothing was selected, if a file can't be read or written, or if a cell
/// didn't run.
pub(crate) fn write(
    folder: &Path,
    filter: Option<&str>,
    settings: Settings,
    live: bool,
    model: Option<&Path>,
) -> Result<()> {
    let chosen = filter.map(|words| select(Some(words))).transpose()?;
    atomic_file::create_folder(folder)?;
    if live {
        live::write(folder, settings.text)?;
    }
    let book = Book {
        live,
        to_root: escape(&path_to_root(folder)?),
        map: documents::map()?,
        errata: documents::errata()?,
        glossary: glossary::Glossary::read()?,
        unrun: PROGRAMS.iter().map(|it| (it, it.unrun())).collect(),
    };
    let mut lost = 0;
    for program in PROGRAMS {
        let mut selections = chosen.iter().flatten();
        let selection = selections.find(|it| it.program.name == program.name);
        // Without a filter, all notebooks are selected. The errata are always written because other
        // pages refer to them.
        if chosen.is_some() && selection.is_none() && program.tier != Tier::Errata {
            continue;
        }
        let trains = selection.is_some_and(|selection| selection.trains);
        let parts = program.run(&Settings {
            training: trains.then(TrainingRun::default),
            draws: true,
            ..settings.clone()
        });
        if live && program.name == MODEL_PAGE {
            live::write_story(folder, model)?;
        }
        let is_lost = |cell: &&Cell| matches!(cell.outcome, Outcome::Lost(_));
        lost += cells(&parts).filter(is_lost).count();
        save(
            &folder.join(file_name(program)),
            &notebook::page(program, &parts, &book)?,
        )?;
    }
    save(&folder.join(glossary::FILE), &book.glossary.page())?;
    let exists = |program: &Program| folder.join(file_name(program)).exists();
    save(&folder.join("index.html"), &index::page(&book, &exists))?;
    ensure!(lost == 0, "{lost} cells didn't run; their pages say why");
    print(&format!("open {}\n", folder.join("index.html").display()))
}

/// Name of the notebook whose page contains the trained model, if the pages are interactive.
const MODEL_PAGE: &str = "ch05";
/// Name of the notebook on whose page a model can be trained, if the pages are interactive.
const TRAINING_PAGE: &str = "training";

/// The data that all pages have in common.
struct Book {
    /// Whether the pages are interactive.
    live: bool,
    /// Path from the folder of the pages to the repository, such as `../../`.
    to_root: String,
    map: Vec<documents::Row>,
    errata: Vec<documents::Erratum>,
    glossary: glossary::Glossary,
    /// All notebooks and their parts, which haven't been run.
    unrun: Vec<(&'static Program, Vec<Part>)>,
}

impl Book {
    /// Returns a link to a line of a source file.
    fn source(&self, path: &str, line: usize) -> String {
        format!(
            "<a class=\"source\" href=\"{}{path}#L{line}\">{path}:{line}</a>",
            self.to_root
        )
    }

    /// Returns the address of the section that demonstrates an erratum, or `None` if no cell does.
    fn computes(&self, number: &str) -> Option<String> {
        let mut errata = self.unrun.iter().filter(|(it, _)| it.tier == Tier::Errata);
        let (program, _) =
            errata.find(|(_, parts)| cells(parts).any(|cell| cell.section == number))?;
        Some(format!("{}#{}", file_name(program), anchor('s', &[number])))
    }

    /// Returns a link to the documentation of an item. The link runs rustdoc's search and goes to
    /// the first result.
    fn item(&self, item: &str) -> String {
        let (krate, name) = item.split_once("::").unwrap_or((item, ""));
        let name = name.replace("::", "%3A%3A");
        let search = format!("target/doc/{krate}/index.html?search={name}&amp;go_to_first=true");
        format!(
            "<a href=\"{}{search}\"><code>{item}</code></a>",
            self.to_root
        )
    }
}

fn file_name(program: &Program) -> String {
    format!("{}.html", program.name)
}

/// Returns an ID for an element of a page, such as `c-3.6.2-In--36-`.
fn anchor(kind: char, parts: &[&str]) -> String {
    let name = format!("{kind}-{}", parts.join("-"));
    name.replace(|c: char| c != '.' && !c.is_ascii_alphanumeric(), "-")
}

/// Returns the path from `folder` to the repository. It is relative if the folder is inside the
/// repository, and absolute otherwise. The folder must exist.
fn path_to_root(folder: &Path) -> Result<String> {
    let (folder, root) = (folder.canonicalize()?, root().canonicalize()?);
    Ok(match folder.strip_prefix(&root) {
        Ok(inside) => "../".repeat(inside.components().count()),
        Err(_) => format!("{}/", root.display()),
    })
}

fn save(path: &Path, page: &str) -> Result<()> {
    atomic_file::write_atomically(path, |out| out.write_all(page.as_bytes()))?;
    print(&format!(
        "{} ({} KB)\n",
        path.display(),
        page.len().div_ceil(1000)
    ))
}

/// Returns the style sheet of the pages.
fn style() -> String {
    include_str!("page.css").to_owned() + pictures::html::VIEW_STYLE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_finds_the_repository_wherever_it_is() {
        assert_eq!(path_to_root(&root().join("xtask/src")).unwrap(), "../../");
        assert_eq!(path_to_root(&root()).unwrap(), "");
        let elsewhere = tempfile::tempdir().unwrap();
        let way = path_to_root(elsewhere.path()).unwrap();
        assert!(elsewhere.path().join(way).join("xtask/Cargo.toml").exists());
    }
}
