//! Writes the web page of `gpt inspect --html`. The page is self-contained, so a browser can show
//! it without a network connection. The crate `pictures` provides the style sheet and the scripts.
//! This module adds the data of the tokens and of each transformer block as JSON.

use std::io::{self, Write};

use generate::{BlockView, GenerateError};
use pictures::html::{self, page as frame};
use serde_json::Value;

/// Placeholder for the body of the page. The HTML template is split at this placeholder, so that
/// the body can be written in between.
const BODY: &str = "<!-- body -->";

/// Writes the page to `out`. `data` contains the tokens with their losses and candidates. Each item
/// of `blocks` is computed and written before the next, so the data of only one transformer block
/// is in memory at a time.
pub(super) fn write(
    out: &mut dyn Write,
    name: &str,
    mut data: Value,
    blocks: impl Iterator<Item = Result<BlockView, GenerateError>>,
) -> io::Result<()> {
    let title = "A model and a text";
    let frame = frame(title, html::VIEW_STYLE, BODY);
    let (before, after) = frame.split_once(BODY).unwrap_or((&frame, ""));
    writeln!(
        out,
        "{before}<h1>{title}</h1>\n<div id=\"model\"></div>\n\
         <noscript><p>This page needs JavaScript. To see the losses and \
         candidates without it, use gpt inspect --json.</p></noscript>"
    )?;
    data["name"] = name.into();
    data["temperature"] = "1".into();
    writeln!(out, "{}", script("data", &data))?;
    for block in blocks {
        let block = live::block(&block.map_err(io::Error::other)?);
        writeln!(out, "{}", script("block", &block))?;
    }
    writeln!(
        out,
        "<script>{}(() => {{\n\
         const read = (kind, place) => JSON.parse(document.querySelectorAll('script.' + kind)[place].textContent);\n\
         showModel(document.getElementById('model'),\n\
         {{ look: () => read('data', 0), block: (layer) => read('block', layer) }});\n\
         }})();</script>",
        html::VIEW_SCRIPT
    )?;
    out.write_all(after.as_bytes())
}

/// Returns a `<script>` element that contains `data` as JSON. The character `<` is escaped, because
/// the browser would treat a string such as `</script>` as the end of the element. No other
/// character needs to be escaped.
fn script(kind: &str, data: &Value) -> String {
    let data = data.to_string().replace('<', "\\u003c");
    format!("<script type=\"application/json\" class=\"{kind}\">{data}</script>")
}
