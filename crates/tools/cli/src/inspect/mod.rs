//! `gpt inspect`: what a model does with a text: each token's loss, what it expected next, where
//! each head looked, and what each block would say.

mod page;
mod terminal;

use std::path::{Path, PathBuf};

use anyhow::Result;
use atomic_file::write_output;
use clap::Args;
use generate::{Inspection, Look};

use crate::failure::misused;
use crate::ids::TextArgs;
use crate::memory::check;
use crate::model::ModelArgs;
use crate::output::{print, print_coloured, print_text};
use crate::target::check_output;
use crate::threads::ThreadArgs;

#[derive(Args, Debug)]
pub(crate) struct InspectArgs {
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    text: TextArgs,
    /// The number of candidates to show for each token [default: 10, in the terminal as many of
    /// them as there is room for]
    #[arg(long, value_name = "N")]
    top: Option<usize>,
    /// The divisor of the logits for the candidates' probabilities
    #[arg(long, value_name = "X", visible_alias = "temp", default_value_t = 1.0)]
    temperature: f32,
    /// The layer whose attention is shown in the terminal, counted from 0 as in the files [default:
    /// the last]
    #[arg(long, value_name = "N")]
    layer: Option<usize>,
    /// One head of it, counted from 0, with its weights as numbers [default: all]
    #[arg(long, value_name = "N")]
    head: Option<usize>,
    /// Write one page with all layers and heads instead
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Print one JSON object with all layers and heads instead
    #[arg(long, conflicts_with = "html")]
    json: bool,
    #[command(flatten)]
    threads: ThreadArgs,
}

/// Candidates that a page and JSON have where nothing is said, and a block's in the terminal.
const TOP: usize = 10;
const TOP_OF_BLOCK: usize = 3;

pub(crate) fn run(args: &InspectArgs) -> Result<()> {
    args.threads.apply()?;
    if !(args.temperature.is_finite() && args.temperature > 0.0) {
        return misused(format!(
            "--temperature {}: expected a number above 0",
            args.temperature
        ));
    }
    let given = args.text.given()?;
    let found = args.model.find()?;
    if let Some(path) = &args.html {
        let read = args.text.source().into_iter().chain([&*found.folder]);
        check_output("--html", path, &read.collect::<Vec<&Path>>())?;
    }
    let ids = found.prompt(given, found.config().context_length, "")?;
    let model = found.load()?;
    let (layers, heads) = (model.config().n_layers, model.config().n_heads);
    for (flag, value, count) in [("layer", args.layer, layers), ("head", args.head, heads)] {
        if let Some(value) = value
            && value >= count
        {
            return misused(format!("--{flag} {value}: expected 0 to {}", count - 1));
        }
    }
    let look = Look {
        top: args.top.unwrap_or(TOP),
        temperature: args.temperature,
    };
    let config = model.config();
    check(&config.inspection_memory(ids.len(), Inspection::ROWS, look.top)?)?;
    let name_of = |id| found.vocabulary.text_of(&[id]);
    let mut scales = live::Scales::new(args.temperature);
    let add = |logits: &_| scales.add(logits);
    let inspection = Inspection::with_logits(&model, &name_of, &ids, look, add)?;
    let name = found.folder.display().to_string();
    if args.json {
        return json(&name, &inspection);
    }
    found.name.tell();
    if let Some(path) = &args.html {
        let blocks = inspection.blocks(0, TOP_OF_BLOCK)?;
        let data = live::tokens(&model, &inspection, &scales);
        write_output(path, |out| {
            page::write(out, &name, data, args.temperature, blocks)
        })?;
        let path = path.display();
        return Ok(print(format!(
            "{} tokens, {layers} layers of {heads} heads: {path}\n",
            ids.len()
        ))?);
    }
    let layer = args.layer.unwrap_or(layers - 1);
    let blocks = inspection.blocks(ids.len() - 1, TOP_OF_BLOCK)?;
    let fits = args.top.is_none();
    Ok(print_coloured(&terminal::text(
        &inspection,
        blocks,
        layer,
        args.head,
        fits,
    )?)?)
}

/// Prints `{"model","tokens","attention","blocks"}`, the weights by layer, head, query and key: an
/// f32 read back is the same f32.
fn json(name: &str, inspection: &Inspection) -> Result<()> {
    let tokens = serde_json::to_string(&inspection.tokens)?;
    let name = serde_json::to_string(name)?;
    print_text(&format!(
        "{{\"model\":{name},\"tokens\":{tokens},\"attention\":["
    ))?;
    let mut says = Vec::new();
    for block in inspection.blocks(0, TOP_OF_BLOCK)? {
        let block = block?;
        for (head, weights) in block.attention.outer_iter().enumerate() {
            let mut before = match (head, says.len()) {
                (0, 0) => "[[",
                (0, _) => ",[[",
                _ => ",[",
            };
            for row in weights.outer_iter() {
                print_text(&(before.to_owned() + &serde_json::to_string(&row.to_vec())?))?;
                before = ",";
            }
            print_text("]")?;
        }
        print_text("]")?;
        says.push(block.says);
    }
    let says = serde_json::to_string(&says)?;
    Ok(print_text(&format!("],\"blocks\":{says}}}\n"))?)
}
