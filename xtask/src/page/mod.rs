//! The command `cargo xtask notebook --html DIR`, which writes a page for each notebook, a glossary
//! and an index. The pages work without a network connection.

use std::io::Write as _;
use std::path::Path;

use anyhow::{Result, ensure};
use notebooks::{Cell, Outcome, PROGRAMS, Part, Program, Settings, Tier, TrainingRun, cells};
use pictures::html::escape;

use crate::documents;
use crate::select::{Selection, select};
use crate::workspace::{print, root};

mod glossary;
mod index;
mod live;
mod notebook;
mod overview;

/// Runs the notebooks that `filter` selects and writes their pages, as well as the pages of the
/// errata, the glossary and the index.
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
    let is_chosen = |program: &Program| {
        let names =
            |chosen: &Vec<Selection>| chosen.iter().any(|it| it.program.name == program.name);
        // The errata are always written because other pages refer to them.
        program.tier == Tier::Errata || chosen.as_ref().is_none_or(names)
    };
    let is_page =
        |program: &&Program| is_chosen(program) || folder.join(file_name(program)).exists();
    let book = Book {
        live,
        to_root: escape(&path_to_root(folder)?),
        map: documents::map()?,
        errata: documents::errata()?,
        glossary: glossary::Glossary::read()?,
        unrun: PROGRAMS.iter().map(|it| (it, it.unrun())).collect(),
        pages: PROGRAMS.iter().filter(is_page).map(|it| it.name).collect(),
    };
    let mut lost = 0;
    for program in PROGRAMS {
        let mut selections = chosen.iter().flatten();
        let selection = selections.find(|it| it.program.name == program.name);
        if !is_chosen(program) {
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
    save(&folder.join("index.html"), &index::page(&book))?;
    ensure!(
        lost == 0,
        "{lost} cells didn't run; see their pages for the reasons"
    );
    print(&format!("open {}\n", folder.join("index.html").display()))
}

/// Name of the notebook whose page contains a trained model. The page contains the model only if
/// the pages are interactive.
const MODEL_PAGE: &str = "ch05";
/// Name of the notebook whose page lets the reader train a model. Training is possible only if the
/// pages are interactive.
const TRAINING_PAGE: &str = "training";

/// The data that all pages have in common.
struct Book {
    /// Whether the pages are interactive.
    live: bool,
    /// Path from the folder that contains the pages to the root of the repository, such as
    /// `../../`.
    to_root: String,
    map: Vec<documents::Row>,
    errata: Vec<documents::Erratum>,
    glossary: glossary::Glossary,
    /// All notebooks, each with its parts. The cells haven't been run.
    unrun: Vec<(&'static Program, Vec<Part>)>,
    /// Names of the notebooks that have a page in the folder.
    pages: Vec<&'static str>,
}

impl Book {
    /// Returns the HTML of a link to a line of a source file. The text of the link is the name of
    /// the file without its folders.
    fn source(&self, path: &str, line: usize) -> String {
        let name = path.rsplit('/').next().unwrap_or(path);
        // In the narrow margin, a long name may continue on the next line after an underscore.
        let name = name.replace('_', "_<wbr>");
        format!(
            "<a class=\"source\" href=\"{}{path}#L{line}\" title=\"{path}:{line}\">{name}:{line}</a>",
            self.to_root
        )
    }

    /// Returns true if the notebook has a page.
    fn has_page(&self, program: &Program) -> bool {
        self.pages.contains(&program.name)
    }

    /// Returns the address of the section with this number, or `None` if no page contains this
    /// section.
    fn section(&self, number: &str) -> Option<String> {
        let has_section =
            |part: &Part| matches!(part, Part::Section { number: it, .. } if it == number);
        let mut pages = self.unrun.iter().filter(|(it, _)| self.has_page(it));
        let (program, _) = pages.find(|(_, parts)| parts.iter().any(has_section))?;
        Some(format!("{}#{}", file_name(program), anchor('s', &[number])))
    }

    /// Returns the number of the figure that the call in source line `line` draws, such as `3.2`.
    /// Figures are counted within a chapter, which can have several pages, or within a page that
    /// doesn't belong to a chapter.
    fn figure(&self, program: &Program, line: u32) -> String {
        let chapter = chapter(program);
        let of_chapter = |other: &Program| match chapter {
            Some(_) => self::chapter(other) == chapter,
            None => other.name == program.name,
        };
        let pages = self.unrun.iter().filter(|(it, _)| of_chapter(it));
        let lines = pages.flat_map(|(it, parts)| {
            parts.iter().filter_map(|part| match part {
                Part::Figure { line, .. } | Part::Sketch { line, .. } => Some((it.name, *line)),
                _ => None,
            })
        });
        let before = lines.take_while(|place| *place != (program.name, line));
        let number = before.count() + 1;
        match chapter {
            Some(chapter) => format!("{chapter}.{number}"),
            None => number.to_string(),
        }
    }

    /// Returns the address of the section that demonstrates an erratum, or `None` if no cell
    /// demonstrates it.
    fn computes(&self, number: &str) -> Option<String> {
        let mut errata = self.unrun.iter().filter(|(it, _)| it.tier == Tier::Errata);
        let (program, _) =
            errata.find(|(_, parts)| cells(parts).any(|cell| cell.section == number))?;
        Some(format!("{}#{}", file_name(program), anchor('s', &[number])))
    }

    /// Returns the HTML of a link to the documentation of an item. The link starts a search in
    /// rustdoc and opens the first result.
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

/// Returns the number of the chapter that a notebook belongs to, if its title begins with one.
fn chapter(program: &Program) -> Option<&str> {
    let title = program.title.strip_prefix("Chapter ")?;
    title.split(|c: char| !c.is_ascii_digit()).next()
}

fn file_name(program: &Program) -> String {
    format!("{}.html", program.name)
}

/// Returns an ID for an HTML element of a page, such as `c-3.6.2-In--36-`.
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
