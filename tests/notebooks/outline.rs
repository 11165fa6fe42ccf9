//! The sections and cells of a notebook, read from its own source: their names, their lines, and the code of each.
//!
//! It knows the calls `book.…(` that begin a line, as rustfmt writes them, and nothing else of Rust.

use anyhow::{Context, Result, bail, ensure};

/// A notebook's calls, in order.
#[derive(Debug, Default)]
pub struct Outline {
    /// In the order of the source.
    pub items: Vec<Item>,
}

/// One call.
#[derive(Debug)]
pub enum Item {
    /// A heading.
    Section {
        /// As the book has it, `3.6.2`.
        number: String,
        /// The document's own.
        title: String,
    },
    /// An item of a crate is printed in full: of which file, from which line.
    Listing {
        /// Its path in the repository.
        path: String,
        /// How its first line begins.
        start: String,
    },
    /// A picture of what was computed.
    Picture {
        /// What it is of.
        name: String,
        /// The line of its call.
        line: u32,
        /// How it is computed and drawn.
        code: String,
    },
    /// Something is compared or shown.
    Cell(Cell),
}

/// A cell's check.
#[derive(Clone, Debug)]
pub struct Cell {
    /// The number of its section.
    pub section: String,
    /// The title of its section.
    pub title: String,
    /// The cell, `In [36]`.
    pub cell: String,
    /// Its own name: the second check of a cell ends with ` (2)`.
    pub name: String,
    /// The line of its call.
    pub line: u32,
    /// The lines of code since the call before, and the value that is shown.
    pub code: String,
    /// Whether it stands where the book's text is at hand.
    pub needs_text: bool,
}

impl Outline {
    /// The cells.
    pub fn cells(&self) -> impl Iterator<Item = &Cell> {
        self.items.iter().filter_map(|item| match item {
            Item::Cell(cell) => Some(cell),
            _ => None,
        })
    }

    /// Reads the source of a notebook.
    ///
    /// # Errors
    /// A call's first argument is no literal, a cell stands before the first section, or two cells share a name.
    pub fn read(source: &str) -> Result<Self> {
        let lines: Vec<&str> = source.lines().collect();
        let mut outline = Self::default();
        let (mut number, mut title) = (String::new(), String::new());
        let mut code_from = 0;
        let mut text_ends_at = 0;
        let mut index = 0;
        while index < lines.len() {
            let line = lines[index];
            index += 1;
            if line.contains("book: &mut Notebook") {
                code_from = index;
            }
            if line.trim_start().starts_with("if let Some(") && line.contains("book.the_verdict()")
            {
                let end = format!("{}}}", &line[..line.len() - line.trim_start().len()]);
                text_ends_at = index
                    + lines[index..]
                        .iter()
                        .position(|line| line.starts_with(&end))
                        .context("a block ends")?;
            }
            let Some(call) = line.trim_start().strip_prefix("book.") else {
                continue;
            };
            let (method, _) = call
                .split_once('(')
                .with_context(|| format!("line {index}: no call"))?;
            let from = index - 1;
            let rest = lines[from..].join("\n");
            let open = rest.find('(').context("a call has a bracket")? + 1;
            let (arguments, length) =
                arguments(&rest[open..]).with_context(|| format!("line {index}"))?;
            let next = index + rest[open..open + length].matches('\n').count();
            let literal = |place: usize| {
                let text = arguments
                    .get(place)
                    .and_then(|text| text.strip_prefix('"')?.strip_suffix('"'));
                text.map(|text| text.replace("\\\"", "\""))
                    .with_context(|| format!("line {index}: book.{method} needs a literal"))
            };
            match method {
                "section" => {
                    (number, title) = (literal(0)?, literal(1)?);
                    outline.items.push(Item::Section {
                        number: number.clone(),
                        title: title.clone(),
                    });
                }
                "listing" => outline.items.push(Item::Listing {
                    path: literal(0)?,
                    start: literal(1)?,
                }),
                "draws" => {
                    let lost = lines[code_from.min(from)..from]
                        .iter()
                        .map(|line| line.trim())
                        .find(|line| !line.is_empty() && *line != "}" && !line.starts_with("//"));
                    if let Some(lost) = lost {
                        bail!(
                            "line {index}: a picture computes what it needs inside, but `{lost}` stands before it"
                        );
                    }
                    let closure = shown(&arguments, 1);
                    let body = closure.trim_start_matches("||").trim();
                    let body = body
                        .strip_prefix('{')
                        .and_then(|body| body.strip_suffix('}'));
                    let lines: Vec<&str> = body.unwrap_or(&closure).lines().collect();
                    outline.items.push(Item::Picture {
                        name: literal(0)?,
                        line: u32::try_from(from + 1)?,
                        code: code(&lines, ""),
                    });
                }
                "prints" | "prints_within" | "shows" | "shape" | "again" | "known" | "agrees"
                | "refuses" | "erratum" => {
                    ensure!(
                        !number.is_empty(),
                        "line {index}: a cell before the first section"
                    );
                    let cell = literal(0)?;
                    let before = outline
                        .cells()
                        .filter(|other| other.section == number && other.cell == cell)
                        .count();
                    let name = if before == 0 {
                        cell.clone()
                    } else {
                        format!("{cell} ({})", before + 1)
                    };
                    ensure!(
                        outline
                            .cells()
                            .all(|other| (&other.section, &other.name) != (&number, &name)),
                        "line {index}: two cells `{name}`"
                    );
                    let value = match method {
                        "shape" => format!("{}.shape()", shown(&arguments, 1)),
                        "agrees" => format!("{} == {}", shown(&arguments, 1), shown(&arguments, 2)),
                        "erratum" => format!("{}\n{}", shown(&arguments, 2), shown(&arguments, 4)),
                        _ => shown(&arguments, 1),
                    };
                    outline.items.push(Item::Cell(Cell {
                        section: number.clone(),
                        title: title.clone(),
                        cell,
                        name,
                        line: u32::try_from(from + 1)?,
                        code: code(&lines[code_from.min(from)..from], &value),
                        needs_text: from < text_ends_at,
                    }));
                }
                "leaves_out" | "ends" => {}
                other => bail!("line {index}: a notebook has no `{other}`"),
            }
            index = next;
            code_from = next;
        }
        Ok(outline)
    }
}

/// An argument as a reader would print it.
fn shown(arguments: &[String], place: usize) -> String {
    let text = arguments.get(place).map_or("", String::as_str);
    text.trim_start_matches('&').to_owned()
}

/// The arguments of a call, and how long they are with the closing bracket.
fn arguments(text: &str) -> Result<(Vec<String>, usize)> {
    let mut arguments = Vec::new();
    let (mut depth, mut start) = (0, 0);
    let mut characters = text.char_indices();
    while let Some((place, character)) = characters.next() {
        match character {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' if depth > 0 => depth -= 1,
            ')' | ',' if depth == 0 => {
                let argument = text[start..place].trim();
                if !argument.is_empty() {
                    arguments.push(argument.to_owned());
                }
                if character == ')' {
                    return Ok((arguments, place + 1));
                }
                start = place + 1;
            }
            '"' => {
                let raw = text[..place].ends_with('r') || text[..place].ends_with("r#");
                let end = if text[..place].ends_with("r#") {
                    "\"#"
                } else {
                    "\""
                };
                loop {
                    let (at, character) = characters.next().context("a text has no end")?;
                    if character == '\\' && !raw {
                        characters.next();
                    } else if text[at..].starts_with(end) {
                        break;
                    }
                }
            }
            _ => {}
        }
    }
    bail!("a call has no end")
}

/// The lines of a cell without their common indentation, and the value that ends it.
fn code(lines: &[&str], value: &str) -> String {
    let own: Vec<&str> = lines
        .iter()
        .copied()
        .filter(|line| !line.contains("book."))
        .collect();
    let blank = |line: &&&str| line.trim().is_empty() || line.trim() == "}";
    let start = own.iter().take_while(blank).count();
    let end = own
        .iter()
        .rev()
        .take_while(|line| line.trim().is_empty())
        .count();
    let own = &own[start.min(own.len() - end)..own.len() - end];
    let mut code = undented(own);
    code.extend(value.lines());
    code.join("\n")
}

/// The lines without their common indentation.
fn undented<'a>(lines: &[&'a str]) -> Vec<&'a str> {
    let written = lines.iter().filter(|line| !line.trim().is_empty());
    let indentation = written.map(|line| line.len() - line.trim_start().len());
    let indentation = indentation.min().unwrap_or(0);
    let rest = lines
        .iter()
        .map(|line| line.get(indentation..).unwrap_or(""));
    rest.collect()
}

/// The lines of an item, from the first that begins with `start` to its closing brace, without their common indentation.
///
/// # Errors
/// There is no such item.
pub fn item<'a>(source: &'a str, start: &str) -> Result<String> {
    let mut lines = source
        .lines()
        .skip_while(|line| !line.trim_start().starts_with(start))
        .peekable();
    let first: &&'a str = lines
        .peek()
        .with_context(|| format!("no item begins with `{start}`"))?;
    let end = format!("{}}}", &first[..first.len() - first.trim_start().len()]);
    let length = lines
        .clone()
        .position(|line| line == end)
        .with_context(|| format!("`{start}` has no end"))?;
    let lines: Vec<&str> = lines.take(length + 1).collect();
    Ok(undented(&lines).join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = r#"
pub(crate) fn run(book: &mut Notebook) -> Result<()> {
    book.section("3.1", "A \"title\"");
    let x = array![1.0, 2.0];

    book.prints("In [3]", &x, "tensor([1., 2.])");
    book.prints(
        "In [3]",
        &x.map(|x| (x, ")")),
        r"a \",
    );
    if let Some(text) = book.the_verdict() {
        let n = text.len();
        book.prints("In [4]", &n, "3");
    }
    book.draws("a picture", || {
        let y = x + 2;
        draw(&y)
    });
    let y = x + 1;
    book.shape("In [5]", &y, &[2]);
    Ok(())
}
"#;

    #[test]
    fn cells_have_names_lines_and_their_code() {
        let outline = Outline::read(SOURCE).unwrap();
        let cells: Vec<_> = outline
            .cells()
            .map(|cell| {
                (
                    cell.name.as_str(),
                    cell.line,
                    cell.code.as_str(),
                    cell.needs_text,
                )
            })
            .collect();
        assert_eq!(
            cells,
            [
                ("In [3]", 6, "let x = array![1.0, 2.0];\nx", false),
                ("In [3] (2)", 7, "x.map(|x| (x, \")\"))", false),
                ("In [4]", 14, "let n = text.len();\nn", true),
                ("In [5]", 21, "let y = x + 1;\ny.shape()", false),
            ]
        );
        assert!(outline.items.iter().any(|item| matches!(item,
            Item::Picture { name, line: 16, code } if name == "a picture" && code == "let y = x + 2;\ndraw(&y)"
        )));
        assert!(matches!(&outline.items[0], Item::Section { title, .. } if title == "A \"title\""));
    }

    #[test]
    fn a_cell_without_a_name_or_a_section_is_refused() {
        assert!(Outline::read("book.prints(name, &x, \"\");").is_err());
        assert!(Outline::read("book.prints(\"In [1]\", &x, \"\");").is_err());
        assert!(Outline::read("let x = 1;\nbook.draws(\"x\", || x);").is_err());
    }
}
