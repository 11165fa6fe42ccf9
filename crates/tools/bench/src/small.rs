//! Training of models that a reader trains on a laptop, beside transformers' GPT2LMHeadModel, as it is and compiled: tied head, dropout 0.1.

use std::cell::RefCell;

use gpt::GptConfig;
use torch_rng::TorchRng;

use crate::floors::Floor;
use crate::ours::Training;
use crate::peer::Name::{self, TransformersCompiled, TransformersF32};
use crate::turns::{Bench, Ours};

const PEERS: &[Name] = &[TransformersF32, TransformersCompiled];

/// Names, sizes (vocabulary, context, features, heads, layers) and sequences a step.
const MODELS: [(&str, [usize; 5], usize); 4] = [
    ("nanoGPT for a CPU", [65, 64, 128, 4, 4], 12),
    ("nanoGPT on characters", [65, 256, 384, 6, 6], 16),
    ("story", [50257, 64, 128, 4, 4], 8),
    ("story, longer and wider", [50257, 256, 256, 4, 4], 4),
];

/// The rows of small models.
pub(crate) fn measure(bench: &mut Bench) -> anyhow::Result<()> {
    for (name, sizes, batch) in MODELS {
        let work = format!("train {name}");
        if !bench.wants(&work) {
            continue;
        }
        let [vocab_size, context_length, emb_dim, n_heads, n_layers] = sizes;
        let config = GptConfig {
            vocab_size,
            context_length,
            emb_dim,
            n_heads,
            n_layers,
            tied: true,
            qkv_bias: true,
            ..GptConfig::GPT2_124M
        };
        let training = RefCell::new(Training::new(config, batch, context_length)?);
        let mut rng = TorchRng::manual_seed(1);
        let operations = training.borrow().operations();
        // As many steps as make a turn long enough to be timed.
        let steps = (TURN / operations).ceil().max(3.0);
        let ours = Ours {
            work,
            precision: "f32",
            step: Box::new(|| {
                (0..steps as usize).for_each(|_| training.borrow_mut().step(&mut rng));
            }),
            floor: Some(Floor::Products(steps * operations)),
            peers: PEERS,
        };
        let sizes = sizes.map(|n| n.to_string()).join(",");
        bench.turns(
            &format!("train {batch}x{context_length} {sizes} {steps}"),
            (steps * (batch * context_length) as f64, "tokens/s"),
            vec![ours],
        );
    }
    Ok(())
}

/// Operations of a turn at least: most of a second.
const TURN: f64 = 1.6e11;
