//! The peer `candle`: answers the line protocol of `../protocol.py` for forward passes, prompts and training steps.

mod model;

use std::error::Error;
use std::io::{BufRead, Write, stdin, stdout};
use std::time::Instant;

use candle_core::{DType, Device, Tensor};
use candle_nn::{AdamW, Optimizer, ParamsAdamW, VarBuilder, VarMap, loss};
use model::{Model, VOCAB};

/// What is timed.
type Step = Box<dyn FnMut() -> candle_core::Result<()>>;

fn main() -> Result<(), Box<dyn Error>> {
    answer("ready candle 0.11")?;
    let mut current = (String::new(), None::<Step>);
    for line in stdin().lock().lines() {
        let line = line?;
        match line.trim().split_once(' ').unwrap_or((line.trim(), "")) {
            ("run", work) => answer(&run(work, &mut current).unwrap_or_else(absent))?,
            ("drop", _) => {
                current = (String::new(), None);
                answer("ok")?;
            }
            ("peak", _) => answer(&peak().unwrap_or_else(absent))?,
            (other, _) => answer(&format!("absent unknown command {other}"))?,
        }
    }
    Ok(())
}

fn answer(line: &str) -> std::io::Result<()> {
    let mut out = stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}

fn absent(error: Box<dyn Error>) -> String {
    format!("absent {}", error.to_string().replace('\n', " "))
}

/// One timed run, after a warm-up the first time.
fn run(work: &str, current: &mut (String, Option<Step>)) -> Result<String, Box<dyn Error>> {
    if current.0 != work {
        *current = (String::new(), None);
        let mut step = prepare(work)?;
        step()?;
        *current = (work.to_owned(), Some(step));
    }
    let step = current.1.as_mut().ok_or("nothing is prepared")?;
    let start = Instant::now();
    step()?;
    Ok(format!("seconds {:.9}", start.elapsed().as_secs_f64()))
}

fn prepare(work: &str) -> Result<Step, Box<dyn Error>> {
    let (kind, sizes) = work.split_once(' ').unwrap_or((work, ""));
    if !["train", "forward", "prefill"].contains(&kind) {
        return Err(format!("candle does not do {work} here").into());
    }
    let (batch, tokens) = sizes.split_once('x').ok_or("no sizes")?;
    let (batch, tokens): (usize, usize) = (batch.parse()?, tokens.parse()?);
    let ids = |shift: usize| {
        let ids: Vec<u32> = (0..batch * tokens)
            .map(|i| ((i + shift) * 7 % VOCAB) as u32)
            .collect();
        Tensor::from_vec(ids, (batch, tokens), &Device::Cpu)
    };
    let (inputs, targets) = (ids(0)?, ids(1)?.flatten_all()?);
    let map = VarMap::new();
    let builder = VarBuilder::from_varmap(&map, DType::F32, &Device::Cpu);
    let model = Model::new(builder, kind == "train")?;
    if kind == "forward" || kind == "prefill" {
        // Tensors instead of variables, so that candle keeps no graph.
        let variables = map.data().lock().map_err(|_| "a thread panicked")?;
        let tensors = variables
            .iter()
            .map(|(name, variable)| (name.clone(), variable.as_detached_tensor()))
            .collect();
        let builder = VarBuilder::from_tensors(tensors, DType::F32, &Device::Cpu);
        let model = Model::new(builder, false)?;
        let last = kind == "prefill";
        return Ok(Box::new(move || {
            let logits = if last {
                model.last(&inputs)
            } else {
                model.forward(&inputs)
            };
            logits.map(drop)
        }));
    }
    let settings = ParamsAdamW {
        lr: 4e-4,
        weight_decay: 0.1,
        ..ParamsAdamW::default()
    };
    let mut optimizer = AdamW::new(map.all_vars(), settings)?;
    Ok(Box::new(move || {
        let logits = model.forward(&inputs)?.flatten(0, 1)?;
        optimizer.backward_step(&loss::cross_entropy(&logits, &targets)?)
    }))
}

/// The most bytes this process has held.
fn peak() -> Result<String, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .ok_or("the system doesn't tell the peak of a process")?;
    let kilobytes: u64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(format!("bytes {}", kilobytes * 1024))
}
