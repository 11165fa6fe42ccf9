//! `cargo xtask notebook --html DIR`: a page a notebook and an index, which need nothing but
//! themselves.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use notebooks::{Outcome, PROGRAMS, Part, Program, Settings, Tier, cells};

use crate::documents;
use crate::select::{HOW_LONG, select};
use crate::workspace::{print, root};

mod index;
mod live;
mod notebook;

/// Runs the notebooks that `filter` chooses and writes their pages, those of the errata, and the
/// index.
///
/// # Errors
/// Nothing was chosen, a file could not be read or written, or a cell did not run.
pub(crate) fn write(
    folder: &Path,
    filter: Option<&str>,
    settings: Settings,
    live: bool,
) -> Result<()> {
    // The index names a long notebook, too, and the others refer to the errata.
    let chosen = match filter {
        None | Some("errata") => Vec::new(),
        Some(_) => select(filter, false)?.selections,
    };
    atomic_file::create_folder(folder)?;
    if live {
        live::write(folder)?;
    }
    let book = Book {
        live,
        to_root: way_to_root(folder)?,
        map: documents::map()?,
        errata: documents::errata()?,
        unrun: PROGRAMS.iter().map(|it| (it, it.unrun(""))).collect(),
    };
    let settings = Settings {
        draws: true,
        ..settings
    };
    let mut lost = 0;
    for program in PROGRAMS {
        let selection = chosen.iter().find(|it| it.program.name == program.name);
        let runs = match program.tier {
            Tier::Everyday => filter.is_none() || selection.is_some(),
            Tier::Long => selection.is_some_and(|selection| selection.runs),
            Tier::Errata => true,
        };
        if !runs && filter.is_some() && selection.is_none() {
            continue;
        }
        let parts = match runs {
            true => program.run(&settings),
            false => program.unrun(&format!("not run: it {HOW_LONG}")),
        };
        if live && program.name == STORY_ON {
            live::write_story(folder)?;
        }
        let lost_cells = cells(&parts).filter(|cell| matches!(cell.outcome, Outcome::Lost(_)));
        lost += lost_cells.count();
        save(
            &folder.join(file_name(program)),
            &notebook::page(program, &parts, &book)?,
        )?;
    }
    let exists = |program: &Program| folder.join(file_name(program)).exists();
    save(&folder.join("index.html"), &index::page(&book, &exists)?)?;
    if lost > 0 {
        bail!("{lost} cells did not run");
    }
    Ok(())
}

/// The page that holds the story's model, where pages compute.
const STORY_ON: &str = "ch05";

/// What all pages refer to.
struct Book {
    /// Whether they compute.
    live: bool,
    /// From the folder of the pages to the repository, `../../`.
    to_root: String,
    map: Vec<documents::Row>,
    errata: Vec<documents::Erratum>,
    /// All notebooks as they stand in their sources.
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

    /// Where the bug of this number is computed, if it computes.
    fn computes(&self, number: &str) -> Option<String> {
        let mut errata = self.unrun.iter().filter(|(it, _)| it.tier == Tier::Errata);
        let place = |program| format!("{}#{}", file_name(program), anchor('s', &[number]));
        errata.find_map(|(program, parts)| {
            let mut cells = cells(parts);
            cells
                .any(|cell| cell.section == number)
                .then(|| place(program))
        })
    }

    /// A link to an item's documentation.
    fn item(&self, item: &str) -> Result<String> {
        let place = documents::documentation(item)?;
        Ok(format!(
            "<a href=\"{}target/doc/{place}\"><code>{item}</code></a>",
            self.to_root
        ))
    }
}

fn file_name(program: &Program) -> String {
    format!("{}.html", program.name)
}

/// A name in a page: `c-3.6.2-In--36-`.
fn anchor(kind: char, parts: &[&str]) -> String {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || c == '.' {
            c
        } else {
            '-'
        }
    };
    let names = parts.iter().map(|part| part.chars().map(plain).collect());
    format!("{kind}-{}", names.collect::<Vec<String>>().join("-"))
}

/// From `folder`, which exists, up to what it shares with the repository, and down to it.
fn way_to_root(folder: &Path) -> Result<String> {
    let (folder, root) = (folder.canonicalize()?, root().canonicalize()?);
    let shared = folder
        .components()
        .zip(root.components())
        .take_while(|(one, other)| one == other)
        .count();
    let up = folder.components().count() - shared;
    let down: PathBuf = root.components().skip(shared).collect();
    let mut way = "../".repeat(up);
    for part in &down {
        way += &format!("{}/", part.to_string_lossy());
    }
    Ok(way)
}

fn save(path: &Path, page: &str) -> Result<()> {
    atomic_file::write_output(path, |out| out.write_all(page.as_bytes()))?;
    print(&format!(
        "{} ({} KB)\n",
        path.display(),
        page.len().div_ceil(1000)
    ))
}

/// The style of all pages of notebooks.
fn style() -> String {
    STYLE.to_owned() + pictures::html::VIEW_STYLE
}

/// What the pages of notebooks add to the style of all pages.
const STYLE: &str = ".keyword{color:var(--keyword)}.type{color:var(--type)}.text{color:var(--text)}\
.number{color:var(--number)}.comment{color:var(--comment)}\
.outputs{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,26rem),1fr));gap:0 1rem}\
.outputs>div{min-width:0}.outputs pre{background:none}\
h4{margin:.5rem 0 0;font-size:.85rem;color:var(--dim);font-weight:600}\
.erratum{border-left:4px solid var(--text);padding:.1rem .8rem;margin:.8rem 0;background:var(--panel)}\
.fault{color:#c22;font-weight:600}nav ol{list-style:none;padding:0;margin:0}nav li{margin:.15rem 0}\
a.source{font-weight:400;font-size:.8rem}.table{overflow-x:auto}.next{margin:1.5rem 0}\
.live{display:block;margin:.4rem 0}.live-bar{position:sticky;bottom:0;z-index:1;margin:0;padding:.5rem 0;\
background:var(--paper);border-top:1px solid var(--line);font-size:.9rem;overflow-wrap:anywhere}\
.live input,.live textarea,button{font:inherit;color:inherit;background:var(--panel);\
border:1px solid var(--dim);border-radius:4px;padding:.15rem .4rem;max-width:100%;vertical-align:top}\
.stale,.broken .result,.broken figure{opacity:.35}.changed>figure{outline:3px solid var(--mark)}\
.book>div{min-width:0}h2,h3,section div[id]{scroll-margin-top:3.5rem}\
.book>nav{position:sticky;top:0;z-index:1;background:var(--paper);font-size:.85rem}\
@media(max-width:60rem){.book>nav{overflow-x:auto;border-bottom:1px solid var(--line);padding:.4rem 0}\
.book>nav ol{display:flex;gap:1rem;white-space:nowrap}}\
@media(min-width:60rem){.book{display:grid;grid-template-columns:15rem minmax(0,1fr);gap:2rem;align-items:start}\
.book>nav{max-height:100vh;overflow-y:auto;padding:1rem 0}}\
@media print{nav,.skip,.next,.live-bar{display:none}.book{display:block}}";

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
