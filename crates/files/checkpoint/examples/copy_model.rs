//! Loads a model from one folder, saves it to another folder in a given format, and prints how long
//! loading and saving take. Usage: `copy_model FROM [TO f32|f16|bf16|book]`.

use std::error::Error;
use std::process::ExitCode;
use std::time::Instant;

use checkpoint::{Dtype, SpecialTokens, load_model, save_book, save_hugging_face};
use ndarray::array;
use tensor_ops::Parameters;

const USAGE: &str = "usage: copy_model FROM [TO f32|f16|bf16|book]";

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            match error.source() {
                Some(cause) => eprintln!("{error}: {cause}"),
                None => eprintln!("{error}"),
            }
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (from, to) = match &arguments[..] {
        [from] => (from, None),
        [from, to, format] => (from, Some((to, format.as_str()))),
        _ => return Err(USAGE.into()),
    };
    let start = Instant::now();
    let model = load_model(from)?;
    eprintln!(
        "{} parameters loaded in {:.3} s",
        model.num_parameters(),
        start.elapsed().as_secs_f64()
    );
    let logits = model.forward(&array![[0]])?;
    eprintln!(
        "first logits after {:.3} s; logit 0 is {}",
        start.elapsed().as_secs_f64(),
        logits[[0, 0, 0]]
    );
    let start = Instant::now();
    match to {
        None => return Ok(()),
        Some((to, "book")) => save_book(&model, to)?,
        Some((to, precision)) => {
            let precision = match precision {
                "f32" => Dtype::Float32,
                "f16" => Dtype::Float16,
                "bf16" => Dtype::BFloat16,
                _ => return Err(USAGE.into()),
            };
            let tokens = SpecialTokens::of_folder(from, |_| None)?;
            save_hugging_face(&model, to, precision, &tokens)?;
        }
    }
    eprintln!("saved in {:.3} s", start.elapsed().as_secs_f64());
    Ok(())
}
