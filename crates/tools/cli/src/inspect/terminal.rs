//! An inspection in the terminal: a table of tokens, and heads as shaded blocks.

use std::fmt::Write;
use std::io::{self, IsTerminal};

use ndarray::{ArrayView2, Axis};

use super::Inspection;

/// From nothing to a row's largest weight.
const SHADES: [char; 5] = [' ', '░', '▒', '▓', '█'];
/// Wider maps are for a page.
const MOST_TOKENS: usize = 64;
/// More numbers a row don't fit.
const MOST_NUMBERS: usize = 12;
/// Backgrounds of the terminal's 256 colours, from an expected token to a surprising one.
const HEAT: [u8; 6] = [194, 229, 222, 215, 209, 203];

/// The table, and the attention of one layer: all heads, or one.
pub(super) fn text(inspection: &Inspection, layer: usize, head: Option<usize>) -> String {
    let colours = io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let width = usize::from(console::Term::stdout().size().1);
    table(inspection, colours) + &attention(inspection, layer, head, width)
}

fn table(inspection: &Inspection, colours: bool) -> String {
    let names = names(inspection);
    let widest = widest(&names).max("token".len());
    let mut table = format!("     {:<widest$}    loss  next\n", "token");
    for ((place, token), name) in inspection.tokens.iter().enumerate().zip(&names) {
        let blanks = " ".repeat(widest - name.chars().count());
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
        let next = token
            .next
            .iter()
            .map(|next| format!("{:?} {:.4}", next.text, next.probability));
        let next = next.collect::<Vec<_>>().join("  ");
        let line = format!("{place:>4} {name}{blanks}  {loss:>6}  {next}");
        let _ = writeln!(table, "{}", line.trim_end());
    }
    table
}

fn attention(inspection: &Inspection, layer: usize, head: Option<usize>, width: usize) -> String {
    let weights = &inspection.attention[layer];
    let (_, heads, tokens, _) = weights.dim();
    let mut text = format!(
        "\nattention of layer {layer} (of 0 to {}): rows are queries, columns keys, a row's largest weight is darkest\n",
        inspection.attention.len() - 1
    );
    if tokens > MOST_TOKENS {
        text += &format!("too wide for a terminal with {tokens} tokens: --html FILE shows it\n");
        return text;
    }
    let of_head = |head: usize| {
        weights
            .index_axis(Axis(0), 0)
            .index_axis_move(Axis(0), head)
    };
    if let Some(head) = head {
        text += &format!("head {head} (of 0 to {})\n", heads - 1);
        let names = names(inspection);
        let widest = widest(&names);
        for (row, name) in names.iter().enumerate() {
            text += &format!("{row:>4} {name:<widest$}  {}", shaded(of_head(head), row));
            if tokens <= MOST_NUMBERS {
                let numbers = of_head(head)
                    .row(row)
                    .iter()
                    .take(row + 1)
                    .map(|weight| format!(" {weight:.4}"))
                    .collect::<String>();
                text += &format!(" {numbers}");
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
fn names(inspection: &Inspection) -> Vec<String> {
    inspection
        .tokens
        .iter()
        .map(|token| format!("{:?}", token.text))
        .collect()
}

fn widest(names: &[String]) -> usize {
    let widths = names.iter().map(|name| name.chars().count());
    widths.max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use ndarray::array;

    use super::*;

    #[test]
    fn the_largest_weight_of_a_row_is_darkest_and_the_future_blank() {
        let weights = array![[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.1, 0.2, 0.4]];
        let rows: Vec<String> = (0..3).map(|row| shaded(weights.view(), row)).collect();
        assert_eq!(rows, ["██    ", "████  ", "░░▒▒██"]);
    }
}
