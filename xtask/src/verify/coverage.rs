//! The coverage check: every place that prints a figure has a case, every case a function and figures.
//!
//! `goldens/rows.toml` lists the places; one without a case says why.
//! Where the list of figures it was made from is at hand (`../shared/design/goldens.md`, optional),
//! a test reads that list and fails when one of its rows is missing here.

use std::collections::{BTreeMap, BTreeSet};

use super::errata;
use super::literal::Rule;
use super::registry::checks;
use super::rows::{self, Row};
use super::table::{self, Case, Kind};

fn rows() -> Vec<Row> {
    rows::load().unwrap()
}

fn cases() -> Vec<Case> {
    table::load().unwrap()
}

#[test]
fn every_row_names_its_cases_or_says_why_there_is_none() {
    let known: BTreeSet<String> = cases()
        .into_iter()
        .map(|case| case.id)
        .chain(errata::ids().map(str::to_owned))
        .collect();
    for row in rows() {
        match (&row.cases, &row.absent) {
            (Some(cases), None) => {
                assert!(!cases.is_empty(), "{}: an empty list of cases", row.row);
                for case in cases {
                    assert!(
                        known.contains(case),
                        "{}: there is no case `{case}`",
                        row.row
                    );
                }
            }
            (None, Some(reason)) => {
                assert!(reason.len() > 10, "{}: `{reason}` is no reason", row.row)
            }
            _ => panic!("{}: needs either `cases` or `absent`", row.row),
        }
    }
}

#[test]
fn every_case_is_named_by_a_row() {
    let named: BTreeSet<String> = rows()
        .into_iter()
        .filter_map(|row| row.cases)
        .flatten()
        .collect();
    for case in cases() {
        assert!(named.contains(&case.id), "no row names {}", case.id);
    }
}

#[test]
fn every_case_has_one_function_and_every_function_a_case() {
    let mut functions: BTreeMap<&str, usize> = BTreeMap::new();
    for check in checks() {
        *functions.entry(check.id).or_default() += 1;
    }
    let cases = cases();
    for case in &cases {
        assert_eq!(
            functions.get(case.id.as_str()),
            Some(&1),
            "functions for {}",
            case.id
        );
    }
    for id in functions.keys() {
        assert!(
            cases.iter().any(|case| case.id == *id),
            "the function of {id} has no row in the table"
        );
    }
}

#[test]
fn every_case_has_figures_that_can_be_compared() {
    for case in cases() {
        assert!(!case.figures.is_empty(), "{} has no figures", case.id);
        for figure in &case.figures {
            let place = format!("{} `{}`", case.id, figure.name);
            match figure.kind {
                Kind::Numbers => {
                    let literals = figure
                        .literals()
                        .unwrap_or_else(|error| panic!("{place}: {error}"));
                    let size: usize = figure.shape.iter().flatten().product();
                    assert_eq!(literals.len(), size, "{place}: numbers for its shape");
                    for literal in literals {
                        if figure.rule == Rule::Noise {
                            assert!(
                                literal.value.abs() < 1e-6,
                                "{place}: {} is no noise",
                                literal.value
                            );
                        }
                    }
                }
                Kind::Ids | Kind::Shape | Kind::Count => {
                    assert!(!figure.whole_numbers().unwrap().is_empty(), "{place}");
                }
                Kind::Text => assert!(!figure.text().unwrap().is_empty(), "{place}"),
                Kind::Strings => assert!(!figure.strings().unwrap().is_empty(), "{place}"),
                Kind::Identity => assert!(figure.printed.is_none(), "{place}"),
            }
        }
    }
}

#[test]
fn full_precision_is_claimed_only_where_all_digits_were_printed() {
    for case in cases() {
        for figure in case
            .figures
            .iter()
            .filter(|figure| figure.rule == Rule::FullPrecision)
        {
            for word in figure.text().unwrap().split_whitespace() {
                let digits = word
                    .trim_start_matches(['-', '0', '.'])
                    .chars()
                    .filter(char::is_ascii_digit)
                    .count();
                assert!(digits >= 9, "{} `{}`: {word}", case.id, figure.name);
            }
        }
    }
}

#[test]
fn no_row_of_the_list_of_figures_is_missing() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../shared/design/goldens.md"
    );
    let Ok(list) = std::fs::read_to_string(path) else {
        eprintln!("skipped: the list of figures is not at hand");
        return;
    };
    let listed = listed_rows(&list);
    assert!(
        listed.len() > 100,
        "only {} rows were found in the list",
        listed.len()
    );
    let here: BTreeSet<String> = rows().into_iter().map(|row| row.row).collect();
    for row in &listed {
        assert!(here.contains(row), "rows.toml lacks `{row}`");
    }
}

/// The rows of the list: table rows by their first cell (in section 2 by file and cell), the notebook cells
/// that section 1.3 names in prose, the bugs of 1.6 and the bold titles of section 3.
fn listed_rows(list: &str) -> Vec<String> {
    let (mut section, mut file, mut rows) = (String::new(), String::new(), Vec::new());
    let mut lines_of_table = 0;
    for line in list.lines() {
        if line.starts_with('#') {
            let title = line.trim_start_matches(['#', ' ']);
            if title.starts_with(|first: char| first.is_ascii_digit()) {
                section = title
                    .split(' ')
                    .next()
                    .unwrap_or_default()
                    .trim_end_matches('.')
                    .to_owned();
            }
            file.clear();
        }
        lines_of_table = if line.starts_with('|') {
            lines_of_table + 1
        } else {
            0
        };
        if section.is_empty() {
            continue;
        }
        let key = match section.as_str() {
            // The first two lines of a table are its head.
            _ if lines_of_table > 2 => {
                let mut cells = line.split('|').skip(1).map(clean);
                let first = cells.next().unwrap_or_default();
                if section == "2" {
                    if !first.is_empty() {
                        file = first;
                    }
                    Some(format!("{file} {}", cells.next().unwrap_or_default()))
                } else {
                    Some(first)
                }
            }
            "1.3" => {
                for item in line.split("· ").filter(|item| item.starts_with("In[")) {
                    let end = item.find(']').map_or(0, |end| end + 1);
                    rows.push(format!("1.3 / {}", &item[..end]));
                }
                None
            }
            "1.6" => line.strip_prefix("* ").map(|item| {
                let item = item.trim_start_matches('*');
                let words: Vec<&str> = item.split(' ').take(2).collect();
                if words[0] == "Ex" {
                    words.join(" ")
                } else {
                    words[0].to_owned()
                }
            }),
            "3" => {
                let bold = line.trim_start_matches("- ").strip_prefix("**");
                bold.and_then(|bold| bold.split_once("**"))
                    .map(|(title, _)| clean(title))
            }
            _ => None,
        };
        rows.extend(key.map(|key| format!("{section} / {}", key.trim())));
    }
    rows
}

fn clean(cell: &str) -> String {
    cell.replace(['`', '*'], "").trim().to_owned()
}
