//! The whole state of a training loop of your own, in one file.
//!
//! The file is safetensors: the weights under `model.`, the moments under `optimizers.0.` and so
//! on, and the rest as JSON in the file's metadata. It is replaced atomically, so after a crash it
//! is the state of an earlier save.

use std::path::Path;

use checkpoint::{LazyTensor, load_tensors_into, read_metadata, save_tensors_with_metadata};
use dataloader::BatchSource;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tensor_ops::Parameters;
use torch_rng::TorchRng;

use crate::{AdamW, AdamWConfig, TrainError};

/// The key of the JSON in the file's metadata.
const KEY: &str = "loop_state";

/// Everything that a training loop of your own changes.
///
/// [`save`](Self::save) writes all of it to one file, and a loop that [`load`](Self::load)s the
/// file continues with the bits of an uninterrupted one, dropout included. A part can't be
/// forgotten, because the loop takes its generator, data, model and optimizers from this value.
///
/// [`Trainer`](crate::Trainer) has a state of its own, because it also keeps settings, evaluations
/// and a run's other checkpoints.
///
/// ```
/// use train::dataloader::{Batches, Corpus, DataLoader, DataLoaderConfig};
/// use train::gpt::{GptConfig, GptModel};
/// use train::torch_rng::TorchRng;
/// use train::{AdamW, AdamWConfig, LoopState};
///
/// let config = GptConfig {
///     vocab_size: 10, context_length: 8, emb_dim: 8,
///     n_heads: 2, n_layers: 1, ..GptConfig::GPT2_124M
/// };
/// let corpus = Corpus::from_ids((0..200).map(|i| i % 10).collect::<Vec<u32>>());
/// let windows = DataLoaderConfig { max_length: 8, stride: 8, ..DataLoaderConfig::default() };
/// let begin = || -> Result<_, Box<dyn std::error::Error>> {
///     let mut rng = TorchRng::manual_seed(123);
///     let model = GptModel::new(config, &mut rng)?;
///     Ok(LoopState {
///         step: 0,
///         batches: Batches::new(DataLoader::new(&corpus, windows)?),
///         optimizers: vec![AdamW::new(AdamWConfig::default(), &model)?],
///         model,
///         rng,
///     })
/// };
/// let mut grads = GptModel::zeros(config)?;
/// let mut train = |state: &mut LoopState<GptModel, Batches>, steps| {
///     while state.step < steps {
///         let LoopState { rng, batches, model, optimizers, .. } = &mut *state;
///         let batch = batches.next_batch(rng)?;
///         model.loss_and_grads(&batch.input_ids, &batch.target_ids, 1.0, rng, &mut grads)?;
///         optimizers[0].step(model, &mut grads);
///         state.step += 1;
///     }
///     Ok::<(), Box<dyn std::error::Error>>(())
/// };
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("state.safetensors");
/// let mut state = begin()?;
/// train(&mut state, 10)?;
/// state.save(&path)?;
/// train(&mut state, 20)?;
///
/// let mut resumed = begin()?;
/// resumed.load(&path)?;
/// train(&mut resumed, 20)?;
/// assert_eq!(resumed.model, state.model);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct LoopState<M, B> {
    /// Number of steps so far.
    pub step: u64,
    /// The generator of dropout and of the data's order.
    pub rng: TorchRng,
    /// The data: [`Batches`](dataloader::Batches), [`Mix`](dataloader::Mix), or a source of your
    /// own.
    pub batches: B,
    /// The model: anything that lists its weights.
    pub model: M,
    /// One optimizer for each parameter group.
    pub optimizers: Vec<AdamW>,
}

/// The part that isn't tensors.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rest<P> {
    step: u64,
    rng: TorchRng,
    position: P,
    /// Each optimizer's settings and steps.
    optimizers: Vec<(AdamWConfig, u64)>,
}

impl<M, B> LoopState<M, B>
where
    M: Parameters,
    B: BatchSource<Position: Serialize + DeserializeOwned>,
{
    /// Writes the state to a file, which replaces an earlier one atomically.
    ///
    /// # Errors
    /// If the file can't be written, or a weight or moment is not finite. Then an earlier file
    /// stays.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), TrainError> {
        let path = path.as_ref();
        let rest = Rest {
            step: self.step,
            rng: self.rng.clone(),
            position: self.batches.position(),
            optimizers: self
                .optimizers
                .iter()
                .map(|of| (of.config, of.steps))
                .collect(),
        };
        let rest = serde_json::to_string(&rest).map_err(TrainError::json(path))?;
        let mut tensors: Vec<LazyTensor<'_>> = Vec::new();
        self.model.visit("model.", &mut |name, view| {
            tensors.push((name, view).into())
        });
        for (i, optimizer) in self.optimizers.iter().enumerate() {
            let prefix = prefix_of(i);
            optimizer.visit(&prefix, &mut |name, view| tensors.push((name, view).into()));
        }
        Ok(save_tensors_with_metadata(path, tensors, &[(KEY, &rest)])?)
    }

    /// Replaces this state by that of a file. Beforehand this one must have the same weights,
    /// optimizers and data, as at the beginning of the loop.
    ///
    /// # Errors
    /// If the file can't be read or isn't such a state; if it has another number of optimizers, or
    /// a tensor that is missing, unexpected or of another shape; or if its position is beyond the
    /// data. Then some weights may have changed.
    pub fn load(&mut self, path: impl AsRef<Path>) -> Result<(), TrainError> {
        let path = path.as_ref();
        let metadata = read_metadata(path)?;
        let Some(rest) = metadata.get(KEY) else {
            let problem = "these tensors are not the state of a training loop";
            return Err(TrainError::damaged(path, problem));
        };
        let rest: Rest<B::Position> = serde_json::from_str(rest).map_err(TrainError::json(path))?;
        let (saved, now) = (rest.optimizers.len(), self.optimizers.len());
        if saved != now {
            let problem = format!("the state has {saved} optimizers, but the loop has {now}");
            return Err(TrainError::damaged(path, problem));
        }
        load_tensors_into(path, &mut self.model, "model.")?;
        let optimizers = self.optimizers.iter_mut().zip(rest.optimizers);
        for (i, (optimizer, (config, steps))) in optimizers.enumerate() {
            load_tensors_into(path, optimizer, &prefix_of(i))?;
            (optimizer.config, optimizer.steps) = (config, steps);
        }
        self.batches.seek(rest.position)?;
        (self.step, self.rng) = (rest.step, rest.rng);
        Ok(())
    }
}

fn prefix_of(optimizer: usize) -> String {
    format!("optimizers.{optimizer}.")
}
