//! Reads docs/glossary.md, converts it to a web page, and links the first use of each term on the
//! other pages to its explanation.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::LazyLock;

use anyhow::{Context, Result};
use pictures::html::{self, escape};
use regex::{Captures, Regex};

use super::{anchor, style};
use crate::workspace::root;

/// File name of the glossary's page.
pub(super) const FILE: &str = "glossary.html";

/// The terms of the glossary.
pub(super) struct Glossary {
    /// Terms and their explanations, in the order of the file.
    terms: Vec<(String, String)>,
    /// Regular expression that matches the singular and the plural of every term.
    pattern: Regex,
}

impl Glossary {
    /// Reads docs/glossary.md.
    ///
    /// # Errors
    ///
    /// Returns an error if the file can't be read.
    pub(super) fn read() -> Result<Self> {
        let path = root().join("docs/glossary.md");
        let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let terms = text.lines().filter_map(|line| {
            let (term, about) = line.strip_prefix("- **")?.split_once("**: ")?;
            Some((term.to_owned(), about.to_owned()))
        });
        let terms: Vec<(String, String)> = terms.collect();
        let mut names: Vec<String> = terms.iter().map(|(term, _)| regex::escape(term)).collect();
        // The regular expression uses the first alternative that matches, so longer terms must come
        // before the shorter terms that they may contain.
        names.sort_by_key(|name| std::cmp::Reverse(name.len()));
        let pattern = Regex::new(&format!(r"(?i)\b({})(s|es)?\b", names.join("|")))?;
        Ok(Self { terms, pattern })
    }

    /// Returns the HTML of the glossary's page.
    pub(super) fn page(&self) -> String {
        let entry = |(term, about): &(String, String)| {
            let (id, term, about) = (anchor('g', &[term]), escape(term), escape(about));
            format!("<dt id=\"{id}\">{term}</dt><dd>{about}</dd>\n")
        };
        let entries: String = self.terms.iter().map(entry).collect();
        let body = format!(
            "<h1>Glossary</h1>\n<p><a href=\"index.html\">All notebooks</a></p>\n\
             <dl class=\"glossary\">\n{entries}</dl>\n"
        );
        html::page("Glossary", &style(), &body)
    }

    /// Returns the state for adding links to a new page.
    pub(super) fn links(&self) -> Links<'_> {
        Links {
            glossary: self,
            used: RefCell::default(),
        }
    }
}

/// Converts the texts of one page to HTML, and links the first use of each term on this page to the
/// term's entry in the glossary.
pub(super) struct Links<'g> {
    glossary: &'g Glossary,
    /// Indices of the terms that already have a link on this page.
    used: RefCell<BTreeSet<usize>>,
}

impl Links<'_> {
    /// Converts paragraphs and lists to HTML. Text between backticks becomes code, and text between
    /// asterisks is emphasized. The first use of a term becomes a link.
    pub(super) fn prose(&self, text: &str) -> String {
        let linked = |text: &str| inline_with(text, |part| self.linked(part));
        let paragraphs = text
            .split("\n\n")
            .map(|text| match text.strip_prefix("- ") {
                Some(items) => {
                    let items = items.split("\n- ");
                    let items: String = items
                        .map(|it| format!("<li>{}</li>\n", linked(it)))
                        .collect();
                    format!("<ul>\n{items}</ul>\n")
                }
                None => format!("<p>{}</p>\n", linked(text)),
            });
        paragraphs.collect()
    }

    fn linked(&self, html: &str) -> String {
        let link = |found: &Captures<'_>| {
            let (whole, name) = (&found[0], found[1].to_lowercase());
            let mut terms = self.glossary.terms.iter();
            let place = terms.position(|(term, _)| term.to_lowercase() == name);
            let Some(place) = place.filter(|&place| self.used.borrow_mut().insert(place)) else {
                return whole.to_owned();
            };
            let (term, about) = &self.glossary.terms[place];
            let (id, about) = (anchor('g', &[term]), escape(about));
            format!("<a class=\"term\" href=\"{FILE}#{id}\" data-about=\"{about}\">{whole}</a>")
        };
        self.glossary.pattern.replace_all(html, link).into_owned()
    }
}

/// Converts a line of text to HTML. Text between backticks becomes code, and text between asterisks
/// is emphasized.
pub(super) fn inline(text: &str) -> String {
    inline_with(text, str::to_owned)
}

fn inline_with(text: &str, of_words: impl Fn(&str) -> String) -> String {
    static EMPHASIS: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"\*([^\s*][^*]*)\*").expect("a regular expression"));
    let parts = text.split('`').map(escape).enumerate();
    let parts = parts.map(|(index, part)| match index % 2 {
        1 => format!("<code>{part}</code>"),
        _ => of_words(&EMPHASIS.replace_all(&part, "<em>$1</em>")),
    });
    parts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_use_of_a_term_is_a_link() {
        let glossary = Glossary::read().unwrap();
        assert!(glossary.terms.len() >= 40);
        let links = glossary.links();
        let html = links.prose("Logits, `logit` and a logit < 1; attention weights");
        assert_eq!(html.matches("<a class=\"term\"").count(), 2, "{html}");
        assert!(html.starts_with("<p><a class=\"term\" href=\"glossary.html#g-logit\""));
        assert!(html.contains(">Logits</a>, <code>logit</code> and a logit &lt; 1;"));
        assert!(html.contains(">attention weights</a>"));
        for (term, _) in &glossary.terms {
            let id = anchor('g', &[term]);
            assert!(glossary.page().contains(&format!("id=\"{id}\"")), "{term}");
        }
    }
}
