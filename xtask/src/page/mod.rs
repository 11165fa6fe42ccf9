//! `cargo xtask notebook --html DIR`: a page a notebook and an index, which need nothing but
//! themselves.

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

/// Runs the notebooks that `filter` chooses and writes their pages, the errata's pages, and the
/// index.
///
/// # Errors
/// Nothing was chosen, a file could not be read or written, or a cell did not run.
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
        to_root: escape(&way_to_root(folder)?),
        map: documents::map()?,
        errata: documents::errata()?,
        glossary: glossary::Glossary::read()?,
        unrun: PROGRAMS.iter().map(|it| (it, it.unrun())).collect(),
    };
    let mut lost = 0;
    for program in PROGRAMS {
        let mut selections = chosen.iter().flatten();
        let selection = selections.find(|it| it.program.name == program.name);
        // Without a filter all are chosen; the other pages refer to the errata.
        if chosen.is_some() && selection.is_none() && program.tier != Tier::Errata {
            continue;
        }
        let trains = selection.is_some_and(|selection| selection.trains);
        let parts = program.run(&Settings {
            training: trains.then(TrainingRun::default),
            draws: true,
            ..settings.clone()
        });
        if live && program.name == STORY_ON {
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
    ensure!(lost == 0, "{lost} cells did not run");
    print(&format!("open {}\n", folder.join("index.html").display()))
}

/// The page that holds the story's model, where pages compute.
const STORY_ON: &str = "ch05";
/// The page on which a model learns, where pages compute.
const LESSON_ON: &str = "training";

/// Everything that all pages refer to.
struct Book {
    /// True if they compute.
    live: bool,
    /// From the folder of the pages to the repository, `../../`, or its whole path.
    to_root: String,
    map: Vec<documents::Row>,
    errata: Vec<documents::Erratum>,
    glossary: glossary::Glossary,
    /// All notebooks in their source form.
    unrun: Vec<(&'static Program, Vec<Part>)>,
}

impl Book {
    /// A link to a line of a file of the repository.
    fn source(&self, path: &str, line: usize) -> String {
        format!(
            "<a class=\"source\" href=\"{}{path}#L{line}\">{path}:{line}</a>",
            self.to_root
        )
    }

    /// A link to the place that computes the bug of this number, if one does.
    fn computes(&self, number: &str) -> Option<String> {
        let mut errata = self.unrun.iter().filter(|(it, _)| it.tier == Tier::Errata);
        let (program, _) =
            errata.find(|(_, parts)| cells(parts).any(|cell| cell.section == number))?;
        Some(format!("{}#{}", file_name(program), anchor('s', &[number])))
    }

    /// A link to an item's documentation, which rustdoc's own search finds.
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

/// A name in a page: `c-3.6.2-In--36-`.
fn anchor(kind: char, parts: &[&str]) -> String {
    let name = format!("{kind}-{}", parts.join("-"));
    name.replace(|c: char| c != '.' && !c.is_ascii_alphanumeric(), "-")
}

/// The path from `folder`, which exists, to the repository: upwards, if it is inside.
fn way_to_root(folder: &Path) -> Result<String> {
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

/// The style of all pages of notebooks.
fn style() -> String {
    include_str!("page.css").to_owned() + pictures::html::VIEW_STYLE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_finds_the_repository_wherever_it_is() {
        assert_eq!(way_to_root(&root().join("xtask/src")).unwrap(), "../../");
        assert_eq!(way_to_root(&root()).unwrap(), "");
        let elsewhere = tempfile::tempdir().unwrap();
        let way = way_to_root(elsewhere.path()).unwrap();
        assert!(elsewhere.path().join(way).join("xtask/Cargo.toml").exists());
    }
}
