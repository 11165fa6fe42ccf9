//! An inspection as one page: tokens coloured by loss, candidates, and a map of any layer and head; it needs no network.
//!
//! Weights are kept to four digits, as they are shown.

use std::fmt::Write;

use anyhow::Result;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ndarray::ArrayView2;
use pictures::html::{escape, page as frame};

use super::Inspection;

/// A weight of 1, as it is kept.
const ONE: f32 = 10_000.0;
/// A loss that is as dark as it gets.
const DARKEST: f32 = 10.0;

/// The whole page.
pub(super) fn page(inspection: &Inspection) -> Result<String> {
    let tokens = &inspection.tokens;
    let mut body = String::from(
        "<h1>What the model does with the text</h1>\n\
         <p class=\"dim\">The darker a token, the larger its loss (cross-entropy, in nats): the less the model expected it. \
         Point at a token, or go to it with the tab key, for what was expected behind it.</p>\n<p class=\"tokens\">",
    );
    for (place, token) in tokens.iter().enumerate() {
        let share = token
            .loss
            .map_or(0.0, |loss| (loss / DARKEST).clamp(0.0, 1.0));
        let loss = token
            .loss
            .map_or("the first".to_owned(), |loss| format!("loss {loss:.4}"));
        write!(
            body,
            "<button type=\"button\" data-place=\"{place}\" style=\"background:rgba(209,87,27,{share:.2})\" title=\"{loss}\">{}</button>",
            escape(&visible(&token.text))
        )?;
    }
    body +=
        "</p>\n<div id=\"next\" aria-live=\"polite\"></div>\n<h2 id=\"attention\">Attention</h2>\n";
    let (_, heads, _, _) = inspection.attention[0].dim();
    for (name, count) in [("layer", inspection.attention.len()), ("head", heads)] {
        write!(body, "<label>{name} <select id=\"{name}\">")?;
        for option in 0..count {
            write!(body, "<option>{option}</option>")?;
        }
        body += "</select></label>\n";
    }
    body += "<p id=\"weight\" role=\"status\"></p>\n\
             <div class=\"map\"><canvas id=\"map\" tabindex=\"0\" role=\"img\" aria-label=\"Attention weights: rows are queries, columns keys; the arrow keys go from cell to cell\"></canvas></div>\n\
             <p class=\"dim\">Rows are queries, columns keys; a row's largest weight is darkest. Each row sums to 1.</p>\n\
             <noscript><p>The map of layers and heads needs JavaScript; the table below does not.</p></noscript>\n\
             <h2 id=\"tokens\">All tokens</h2>\n<div class=\"map\"><table>\n\
             <tr><th scope=\"col\">place</th><th scope=\"col\">token</th><th scope=\"col\">id</th><th scope=\"col\">loss</th><th scope=\"col\">next, with its probability</th></tr>\n";
    for (place, token) in tokens.iter().enumerate() {
        let next = token
            .next
            .iter()
            .map(|next| format!("{} {:.4}", escape(&visible(&next.text)), next.probability));
        writeln!(
            body,
            "<tr><td>{place}</td><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td>{}</td></tr>",
            escape(&visible(&token.text)),
            token.id,
            token
                .loss
                .map_or(String::new(), |loss| format!("{loss:.4}")),
            next.collect::<Vec<_>>().join(" · ")
        )?;
    }
    let attention: Vec<Vec<String>> = inspection
        .attention
        .iter()
        .map(|layer| {
            layer
                .index_axis(ndarray::Axis(0), 0)
                .outer_iter()
                .map(kept)
                .collect()
        })
        .collect();
    let names: Vec<String> = tokens.iter().map(|token| visible(&token.text)).collect();
    let next: Vec<Vec<(String, f32)>> = tokens
        .iter()
        .map(|token| {
            token
                .next
                .iter()
                .map(|next| (visible(&next.text), next.probability))
                .collect()
        })
        .collect();
    let data = serde_json::json!({ "names": names, "next": next, "attention": attention });
    // No text can end the script.
    let data = data.to_string().replace('<', "\\u003c");
    write!(
        body,
        "</table></div>\n<script type=\"application/json\" id=\"data\">{data}</script>\n<script>{}</script>\n",
        include_str!("page.js")
    )?;
    Ok(frame("What the model does with the text", STYLE, &body))
}

/// The weights up to the diagonal, row after row, as little-endian u16 of ten thousandths, in Base64.
fn kept(weights: ArrayView2<f32>) -> String {
    let mut bytes = Vec::with_capacity(weights.nrows() * (weights.nrows() + 1));
    for (query, row) in weights.outer_iter().enumerate() {
        for weight in row.iter().take(query + 1) {
            bytes.extend(((weight * ONE).round() as u16).to_le_bytes());
        }
    }
    STANDARD.encode(bytes)
}

/// Blanks at the ends and line ends, made visible.
fn visible(text: &str) -> String {
    let inner = text.trim_matches(' ');
    if inner.is_empty() {
        return "␣".repeat(text.len());
    }
    let before = text.len() - text.trim_start_matches(' ').len();
    let after = text.len() - text.trim_end_matches(' ').len();
    let inner = inner.replace('\n', "⏎").replace('\t', "⇥");
    format!("{}{inner}{}", "␣".repeat(before), "␣".repeat(after))
}

const STYLE: &str = ".tokens{line-height:2.1}\
.tokens button{font:15px ui-monospace,monospace;color:inherit;border:1px solid var(--line);border-radius:4px;margin:0 2px;padding:.1rem .3rem;cursor:pointer;white-space:pre}\
.tokens button[aria-pressed=true]{outline:2px solid var(--link)}\
#next{min-height:6rem}caption{white-space:nowrap;text-align:left;font-weight:600}#next td{padding-right:1rem;font-variant-numeric:tabular-nums}.bar{background:var(--link);height:.7rem;display:inline-block}\
label{margin-right:1rem}select{font:inherit}.map{overflow-x:auto}#weight{font-variant-numeric:tabular-nums}\
canvas{border:1px solid var(--line);background:#fff;image-rendering:pixelated}";

#[cfg(test)]
mod tests {
    use ndarray::array;

    use super::*;

    #[test]
    fn weights_are_kept_to_the_printed_digits() {
        let weights = array![[1.0, 0.0], [0.551_74, 0.448_26]];
        let bytes = STANDARD.decode(kept(weights.view())).unwrap();
        let numbers: Vec<u16> = bytes
            .chunks(2)
            .map(|pair| u16::from_le_bytes([pair[0], pair[1]]))
            .collect();
        assert_eq!(numbers, [10_000, 5517, 4483]);
    }

    #[test]
    fn blanks_can_be_seen() {
        assert_eq!(
            ["  ", " a b", "a\n", "a "].map(visible),
            ["␣␣", "␣a b", "a⏎", "a␣"]
        );
    }
}
