//! Saving and loading the complete state of a custom training loop as a single file.
//!
//! The file is in the safetensors format. The names of the weights have the prefix `model.`, and
//! the names of the optimizers' moments have the prefixes `optimizers.0.`, `optimizers.1.` and so
//! on. All other values are stored as JSON in the metadata. Because the file is replaced
//! atomically, it always contains a complete state, even if the process crashes during a save.

use std::path::Path;

use checkpoint::{LazyTensor, load_tensors_into, read_metadata, save_tensors_with_metadata};
use dataloader::BatchSource;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tensor_ops::Parameters;
use torch_rng::TorchRng;

use crate::{AdamW, AdamWConfig, TrainError};

/// Key of the JSON in the metadata of the file.
const KEY: &str = "loop_state";

/// All values that a custom training loop changes.
///
/// [`save`](Self::save) writes all of these values to one file. A loop that [`load`](Self::load)s
/// this file produces bit for bit the same results as a loop that wasn't interrupted. In
/// particular, it draws the same dropout masks. Because a loop uses the random number generator,
/// the data, the model and the optimizers in this struct, it can't forget to save one of them.
///
/// [`Trainer`](crate::Trainer) also keeps its model, optimizer, random number generator and data in
/// a `LoopState`. However, it doesn't save them with this struct, but in a model folder that other
/// programs can load.
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
    /// Number of steps taken so far.
    pub step: u64,
    /// Random number generator from which the order of the data and the dropout masks are drawn.
    pub rng: TorchRng,
    /// Source of the batches, such as [`Batches`](dataloader::Batches), [`Mix`](dataloader::Mix) or
    /// a custom type.
    pub batches: B,
    /// The model, which can be of any type that implements [`Parameters`].
    pub model: M,
    /// Optimizers, one for each group of parameters.
    pub optimizers: Vec<AdamW>,
}

/// The values of a [`LoopState`] that aren't tensors.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rest<P> {
    step: u64,
    rng: TorchRng,
    position: P,
    /// Settings and number of steps of each optimizer.
    optimizers: Vec<(AdamWConfig, u64)>,
}

impl<M, B> LoopState<M, B>
where
    M: Parameters,
    B: BatchSource<Position: Serialize + DeserializeOwned>,
{
    /// Writes the state to a file. If the file already exists, it is replaced atomically.
    ///
    /// # Errors
    ///
    /// Returns an error if the file can't be written, or if a weight or a moment isn't finite. In
    /// both cases, an existing file remains unchanged.
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

    /// Replaces this state with the state in a file. Before the call, this state must contain the
    /// same data and the same number of optimizers as the saved state, and the names and shapes of
    /// its weights must also be the same. The values of the weights may differ. A typical program
    /// therefore creates the state in the same way as for a new run, and then calls this method.
    ///
    /// The settings of the optimizers ([`AdamW::config`]) are also replaced. If you have changed a
    /// setting in the program, such as the weight decay, the change has no effect on a resumed run
    /// unless you assign the new value again after calling this method:
    /// `state.optimizers[0].config.weight_decay = 0.05`.
    ///
    /// This method can't detect all differences, so make sure that the following are the same as in
    /// the interrupted run. Otherwise, this method usually succeeds, but the resumed loop produces
    /// other results.
    /// - The data, the settings of the data loaders, and the weights of the sources of a
    ///   [`Mix`](dataloader::Mix). The file contains only the position in the data.
    /// - The settings of the model that don't affect the shapes of its weights, such as the dropout
    ///   rates, the number of heads and the number format ([`GptModel::set_dtype`]). The file
    ///   contains only the weights.
    ///
    /// [`GptModel::set_dtype`]: gpt::GptModel::set_dtype
    ///
    /// # Errors
    ///
    /// Returns an error if the file can't be read or doesn't contain the state of a training loop,
    /// or if the saved state doesn't match this state. For example, the number of optimizers may
    /// differ, a tensor may be missing, unexpected or of another shape, or the saved position in
    /// the data may not exist. After an error, this state must not be used, because some of its
    /// weights may already have been replaced.
    pub fn load(&mut self, path: impl AsRef<Path>) -> Result<(), TrainError> {
        let path = path.as_ref();
        let metadata = read_metadata(path)?;
        let Some(rest) = metadata.get(KEY) else {
            let problem = "the file doesn't contain the state of a training loop; use a file that \
                LoopState::save wrote";
            return Err(TrainError::damaged(path, problem));
        };
        let rest: Rest<B::Position> = serde_json::from_str(rest).map_err(TrainError::json(path))?;
        let (saved, now) = (rest.optimizers.len(), self.optimizers.len());
        if saved != now {
            let problem = format!(
                "the file contains {saved} optimizers, but the training loop has {now}; create the same \
                optimizers before you load the file"
            );
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
