//! An inspection in the terminal: a table of tokens, what each block would say after the last, and
//! heads as shaded blocks.

use std::fmt::Write;
use std::io::{self, IsTerminal};

use anyhow::Result;
use generate::{BlockView, Candidate, GenerateError, Inspection};
use ndarray::{Array3, ArrayView2, Axis};

use crate::output::{columns, folded};

/// From nothing to a row's largest weight.
const SHADES: [char; 5] = [' ', '░', '▒', '▓', '█'];
/// Wider maps are for a page.
const MOST_TOKENS: usize = 64;
/// More numbers a row don't fit.
const MOST_NUMBERS: usize = 12;
/// Backgrounds of the terminal's 256 colours, from an expected token to a surprising one.
const HEAT: [u8; 6] = [194, 229, 222, 215, 209, 203];

/// The table, what blocks would say, and the attention of one layer: all heads, or one.
///
/// Of the candidates a line has those that `fits`, or all.
pub(super) fn text(
    inspection: &Inspection<'_>,
    blocks: impl Iterator<Item = Result<BlockView, GenerateError>>,
    layer: usize,
    head: Option<usize>,
    fits: bool,
) -> Result<String> {
    let colours = io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let width = usize::from(console::Term::stdout().size().1);
    let mut text = table(inspection, colours, fits.then_some(width));
    text += "\nwhat it would say next if it ended with a block\n";
    let mut shown = String::new();
    for (at, block) in blocks.enumerate() {
        let block = block?;
        let line = format!("{at:>4}  ");
        let next = block.says.last().map_or(&[][..], |next| next);
        text += &with_candidates(line, next, Some(width));
        if at == layer {
            shown = attention(inspection, &block.attention, layer, head, width);
        }
    }
    Ok(text + &shown)
}

fn table(inspection: &Inspection<'_>, colours: bool, width: Option<usize>) -> String {
    let names = names(inspection);
    let widest = widest(&names).max("token".len());
    let mut table = format!("     {:<widest$}    loss  next\n", "token");
    for ((place, token), name) in inspection.tokens.iter().enumerate().zip(&names) {
        let blanks = " ".repeat(widest - console::measure_text_width(name));
        let loss = token
            .loss
            .map_or("-".to_owned(), |loss| format!("{loss:.4}"));
        let name = match token.loss {
            Some(loss) if colours => {
                let step = (loss / 2.0).clamp(0.0, (HEAT.len() - 1) as f32) as usize;
                format!("\u{1b}[30;48;5;{}m{name}\u{1b}[0m", HEAT[step])
            }
            _ => name.clone(),
        };
        let line = format!("{place:>4} {name}{blanks}  {loss:>6}  ");
        table += &with_candidates(line, &token.next, width);
    }
    table
}

/// A line, and behind it the candidates that the width has room for, at least one.
fn with_candidates(mut line: String, next: &[Candidate], width: Option<usize>) -> String {
    for (i, next) in next.iter().enumerate() {
        let shown = format!("{:?} {:.4}  ", next.text, next.probability);
        let columns = console::measure_text_width(&line) + console::measure_text_width(&shown);
        if i > 0 && width.is_some_and(|width| columns > width + 2) {
            break;
        }
        line += &shown;
    }
    line.truncate(line.trim_end().len());
    line + "\n"
}

fn attention(
    inspection: &Inspection<'_>,
    weights: &Array3<f32>,
    layer: usize,
    head: Option<usize>,
    width: usize,
) -> String {
    let (heads, tokens, _) = weights.dim();
    let about = format!(
        "attention of layer {layer}: rows are queries, columns keys; a row's largest weight is fullest"
    );
    let mut text = format!("\n{}\n", folded(&about, columns(), 0));
    if tokens > MOST_TOKENS {
        text += &format!("too wide for a terminal with {tokens} tokens: --html FILE shows it\n");
        return text;
    }
    let of_head = |head: usize| weights.index_axis(Axis(0), head);
    if let Some(head) = head {
        text += &format!("head {head} (of 0 to {})\n", heads - 1);
        let names = names(inspection);
        let widest = widest(&names);
        for (row, name) in names.iter().enumerate() {
            let blanks = " ".repeat(widest - console::measure_text_width(name));
            let _ = write!(
                text,
                "{row:>4} {name}{blanks}  {}",
                shaded(of_head(head), row)
            );
            if tokens <= MOST_NUMBERS {
                for weight in of_head(head).row(row).iter().take(row + 1) {
                    let _ = write!(text, " {weight:.4}");
                }
            }
            text += "\n";
        }
        return text;
    }
    let each = (2 * tokens).max("head 10".len()) + 2;
    let beside = (width / each).max(1);
    for first in (0..heads).step_by(beside) {
        let group = first..(first + beside).min(heads);
        let line = |cell: &dyn Fn(usize) -> String| {
            let cells = group.clone().map(|head| format!("{:<each$}", cell(head)));
            cells.collect::<String>().trim_end().to_owned() + "\n"
        };
        text += &line(&|head| format!("head {head}"));
        for row in 0..tokens {
            text += &line(&|head| shaded(of_head(head), row));
        }
    }
    text
}

/// A row of a map, two characters a key.
fn shaded(weights: ArrayView2<f32>, row: usize) -> String {
    let weights = weights.row(row);
    let largest = weights.iter().copied().fold(f32::MIN_POSITIVE, f32::max);
    let shade = |weight: &f32| {
        let step = (weight / largest * (SHADES.len() - 1) as f32).round() as usize;
        let shade = SHADES[step.min(SHADES.len() - 1)];
        [shade, shade]
    };
    weights.iter().flat_map(shade).collect()
}

/// The tokens, quoted.
fn names(inspection: &Inspection<'_>) -> Vec<String> {
    let tokens = inspection.tokens.iter();
    tokens.map(|token| format!("{:?}", token.text)).collect()
}

fn widest(names: &[String]) -> usize {
    let widths = names.iter().map(|name| console::measure_text_width(name));
    widths.max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use ndarray::array;

    use super::*;

    #[test]
    fn the_largest_weight_of_a_row_is_fullest_and_the_future_blank() {
        let weights = array![[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.1, 0.2, 0.4]];
        let rows: Vec<String> = (0..3).map(|row| shaded(weights.view(), row)).collect();
        assert_eq!(rows, ["██    ", "████  ", "░░▒▒██"]);
    }
}
