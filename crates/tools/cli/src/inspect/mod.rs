//! Implements `gpt inspect`, which shows the tokens that a model considers most likely to follow a
//! text. With `--html`, it writes a web page that also shows the loss of each token, the attention
//! weights of each head, and the prediction after each transformer block.

mod page;

use std::path::PathBuf;

use anyhow::Result;
use atomic_file::write_output;
use clap::Args;
use generate::{Inspection, Token};
use serde::Serialize;

use crate::model::ModelArgs;
use crate::model::ids::TextArgs;
use crate::terminal::failure::misused;
use crate::terminal::memory::check;
use crate::terminal::numbers::AtLeast1;
use crate::terminal::output::{check_new, note, print, print_json};
use crate::terminal::threads::ThreadArgs;

#[derive(Args, Debug)]
pub(crate) struct InspectArgs {
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    text: TextArgs,
    /// The number of candidates to show for each prediction
    #[arg(long, value_name = "N", default_value_t = AtLeast1(Inspection::TOP))]
    top: AtLeast1,
    /// Write a web page that shows each token's loss and candidates, the attention weights of
    /// all heads, and the prediction after each layer
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Print a JSON object that contains the loss and the candidates of each token
    #[arg(long, conflicts_with = "html")]
    json: bool,
    #[command(flatten)]
    threads: ThreadArgs,
}

/// Number of candidate tokens that the web page shows for the prediction after each block.
const CANDIDATES_PER_BLOCK: usize = 3;

/// The object that `--json` prints. Each number is printed with enough digits to recover exactly
/// the same `f32`.
#[derive(Serialize)]
struct Report<'i> {
    tokens: &'i [Token],
}

pub(crate) fn run(args: &InspectArgs) -> Result<()> {
    args.threads.apply()?;
    args.html.as_deref().map_or(Ok(()), check_new)?;
    let input = args.text.required_prompt()?;
    let found = args.model.find()?;
    let ids = found.prompt(input, found.config().context_length, "use a shorter text")?;
    if ids.is_empty() {
        return misused("the text is empty; specify a text with at least one token");
    }
    let model = found.load()?;
    let config = model.config();
    check(&config.inspection_memory(ids.len(), Inspection::ROWS, args.top.0)?)?;
    let name_of = |id| found.vocabulary.text_of(&[id]);
    let mut scales = live::LogSumExps::default();
    let add = |logits: &_| scales.add(logits);
    let inspection = Inspection::of(&model, &name_of, &ids, args.top.0, add)?;
    if args.json {
        return print_json(&Report {
            tokens: &inspection.tokens,
        });
    }
    found.note();
    let Some(path) = &args.html else {
        return Ok(print(expected(&inspection))?);
    };
    let blocks = inspection.blocks(0, CANDIDATES_PER_BLOCK)?;
    let data = live::tokens(&model, &inspection, &scales);
    let name = found.folder.display().to_string();
    write_output(path, |out| page::write(out, &name, data, blocks))?;
    // The message that the page was written goes to standard error. If the user has chosen
    // `/dev/stdout` as the path of the page, a message on standard output would become part of the
    // page.
    note(&format!(
        "the web page that shows the attention of {} tokens in {} layers with {} heads each was written to {}",
        ids.len(),
        config.n_layers,
        config.n_heads,
        path.display()
    ));
    Ok(())
}

/// Returns a table of the tokens that are most likely to follow the text, with the ID, logit and
/// probability of each token.
fn expected(inspection: &Inspection<'_>) -> String {
    let mut table = String::from("    id     logit  probability  token\n");
    let next = inspection.tokens.last().map_or(&[][..], |last| &last.next);
    for next in next {
        let (id, logit, probability) = (next.id, next.logit, next.probability);
        table += &format!(
            "{id:>6}  {logit:>8.4}  {probability:>11.5}  {:?}\n",
            next.text
        );
    }
    table
}
