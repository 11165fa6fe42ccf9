//! An inspection as one page: tokens coloured by loss, candidates, what each block would say, and
//! maps of all layers and heads; it needs no network.
//!
//! It is written block by block. Weights are kept to four digits, as they are shown.

use std::fmt::Write as _;
use std::io::{self, Write};

use anyhow::Result;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ndarray::ArrayView2;
use pictures::html::{escape, page as frame};
use serde_json::{Value, json};

use super::inspection::{Block, Candidate, Inspection, TEMPERATURES};

/// A weight of 1, as it is kept.
const ONE: f32 = 10_000.0;
/// A loss whose colour is as strong as it gets.
const STRONGEST: f32 = 10.0;
/// Where the body stands in the frame.
const BODY: &str = "<!-- body -->";

/// The whole page.
pub(super) fn write(
    out: &mut dyn Write,
    name: &str,
    inspection: &Inspection<'_>,
    blocks: impl Iterator<Item = Result<Block>>,
) -> io::Result<()> {
    let frame = frame("What the model does with the text", STYLE, BODY);
    let (before, after) = frame.split_once(BODY).unwrap_or((&frame, ""));
    out.write_all(before.as_bytes())?;
    out.write_all(body(name, inspection).as_bytes())?;
    for block in blocks {
        // A script is read whatever stands in it, but for its end.
        let block = data(&block.map_err(io::Error::other)?);
        let block = block.to_string().replace('<', "\\u003c");
        writeln!(
            out,
            "<script type=\"application/json\" class=\"block\">{block}</script>"
        )?;
    }
    writeln!(out, "<script>{}</script>", include_str!("page.js"))?;
    out.write_all(after.as_bytes())
}

/// All that doesn't depend on a block.
fn body(name: &str, inspection: &Inspection<'_>) -> String {
    let tokens = &inspection.tokens;
    let mut body = format!(
        "<h1>What the model does with the text</h1>\n<p>Model {}, {} tokens.</p>\n\
         <p class=\"dim\">The stronger a token's colour, the larger its loss (cross-entropy, in nats): the less the model expected it. \
         Point at a token, or go to it with the tab key, for what was expected after it, and what each block would have said there.</p>\n<p class=\"tokens\">",
        escape(name),
        tokens.len()
    );
    for (place, token) in tokens.iter().enumerate() {
        let loss = token.loss.unwrap_or(0.0);
        let share = (loss / STRONGEST).clamp(0.0, 1.0);
        let title = token
            .loss
            .map_or("the first".to_owned(), |loss| format!("loss {loss:.4}"));
        let text = escape(&visible(&token.text));
        let _ = write!(
            body,
            "<button type=\"button\" data-place=\"{place}\" style=\"background:rgba(209,87,27,{share:.2})\" title=\"{title}\">{text}</button>"
        );
    }
    body += "</p>\n<label>temperature <select id=\"temperature\">";
    for temperature in TEMPERATURES {
        let chosen = if temperature == 1.0 { " selected" } else { "" };
        let _ = write!(body, "<option{chosen}>{temperature}</option>");
    }
    body += "</select></label>\n<div id=\"next\" aria-live=\"polite\"></div>\n<h2 id=\"attention\">Attention</h2>\n\
             <p class=\"dim\">All heads at a glance, a row a layer; one of them is below.</p>\n<div id=\"heads\" class=\"map\"></div>\n\
             <label>layer <select id=\"layer\"></select></label>\n<label>head <select id=\"head\"></select></label>\n\
             <p id=\"weight\" role=\"status\"></p>\n\
             <div class=\"map\"><canvas id=\"map\" tabindex=\"0\" role=\"img\" aria-label=\"Attention weights: rows are queries, columns keys; the arrow keys go from cell to cell\"></canvas></div>\n\
             <p class=\"dim\">Rows are queries, columns keys; a row's largest weight has the strongest colour. Each row sums to 1.</p>\n\
             <noscript><p>Maps and blocks need JavaScript; the table below does not.</p></noscript>\n\
             <h2 id=\"tokens\">All tokens</h2>\n<div class=\"map\"><table>\n\
             <tr><th scope=\"col\">place</th><th scope=\"col\">token</th><th scope=\"col\">id</th><th scope=\"col\">loss</th><th scope=\"col\">next, with its probability</th></tr>\n";
    for (place, token) in tokens.iter().enumerate() {
        let loss = token
            .loss
            .map_or(String::new(), |loss| format!("{loss:.4}"));
        let next = token.next.iter();
        let next = next.map(|next| format!("{} {:.4}", visible(&next.text), next.probability));
        let _ = writeln!(
            body,
            "<tr><td>{place}</td><th scope=\"row\">{}</th><td>{}</td><td>{loss}</td><td>{}</td></tr>",
            escape(&visible(&token.text)),
            token.id,
            escape(&next.collect::<Vec<_>>().join(" · "))
        );
    }
    let names: Vec<String> = tokens.iter().map(|token| visible(&token.text)).collect();
    let of_token = |logits: &Candidate| json!([visible(&logits.text), logits.logit]);
    let next: Vec<Vec<Value>> = tokens
        .iter()
        .map(|token| token.next.iter().map(of_token).collect())
        .collect();
    let scales: Vec<&[f32]> = tokens.iter().map(|token| &token.scales[..]).collect();
    let data = json!({ "names": names, "next": next, "scales": scales });
    let data = data.to_string().replace('<', "\\u003c");
    body + "</table></div>\n<script type=\"application/json\" id=\"data\">" + &data + "</script>\n"
}

/// A block's weights and what it would say, for the script.
fn data(block: &Block) -> Value {
    let heads: Vec<String> = block.attention.outer_iter().map(kept).collect();
    let one = |next: &Candidate| format!("{} {:.4}", visible(&next.text), next.probability);
    let says: Vec<String> = block
        .says
        .iter()
        .map(|next| next.iter().map(one).collect::<Vec<_>>().join(" · "))
        .collect();
    json!({ "heads": heads, "says": says })
}

/// The weights up to the diagonal, row after row, as little-endian u16 of ten thousandths, in
/// Base64.
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
.tokens button[aria-pressed=true],#heads button[aria-pressed=true]{outline:2px solid var(--link)}\
#next{min-height:6rem}caption{white-space:nowrap;text-align:left;font-weight:600}#next td{padding-right:1rem;font-variant-numeric:tabular-nums}.bar{background:var(--link);height:.7rem;display:inline-block}\
label{margin-right:1rem}select{font:inherit}.map{overflow-x:auto}#weight{font-variant-numeric:tabular-nums}\
#heads div{white-space:nowrap}#heads button{padding:0;margin:2px;border:0;background:none;cursor:pointer;line-height:0}\
canvas{border:1px solid var(--line);background:#fff;image-rendering:pixelated}#map{max-width:100%;height:auto}";

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
