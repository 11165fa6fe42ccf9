//! What cases share: the documents' inputs, the tokenizer, the book's text, and one large model at a time.
//!
//! A model is built from its seed when a case first asks for it and dropped before the next one is built,
//! so no two of them are in memory together.

use anyhow::{Context, Result};
use gpt::{BadLm, DummyGptModel, GptConfig, GptModel};
use ndarray::{Array2, Array4};
use serde::Deserialize;
use tokenizer::Gpt2Tokenizer;
use torch_rng::TorchRng;

use super::registry::Model;
use super::train::{Trained, TrainingRun};

/// The seed of all the large models.
const SEED: u64 = 123;

/// See the module's documentation.
pub(crate) struct Lab {
    inputs: Array2<f32>,
    four_dimensional: Array4<f32>,
    tokenizer: Gpt2Tokenizer,
    book_text: Option<String>,
    built: Option<Built>,
    training: TrainingRun,
    trained: Option<Trained>,
}

/// A model and the generator as its constructor left it.
enum Built {
    BadLm(BadLm),
    Dummy(DummyGptModel, TorchRng),
    Gpt(GptModel, TorchRng),
}

/// Arrays that several cells use.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Inputs {
    inputs: Literals,
    a: Literals,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Literals {
    shape: Vec<usize>,
    values: String,
}

impl Literals {
    fn read(&self) -> Result<ndarray::ArrayD<f32>> {
        let values: Result<Vec<f32>, _> = self.values.split_whitespace().map(str::parse).collect();
        Ok(ndarray::ArrayD::from_shape_vec(
            self.shape.clone(),
            values?,
        )?)
    }
}

impl Lab {
    /// A lab without models.
    ///
    /// # Errors
    /// `goldens/inputs.toml` is faulty.
    pub(crate) fn new(book_text: Option<String>) -> Result<Self> {
        let inputs: Inputs = toml::from_str(include_str!("../../goldens/inputs.toml"))
            .context("goldens/inputs.toml")?;
        Ok(Self {
            inputs: inputs.inputs.read()?.into_dimensionality()?,
            four_dimensional: inputs.a.read()?.into_dimensionality()?,
            tokenizer: Gpt2Tokenizer::new(),
            book_text,
            built: None,
            training: TrainingRun::default(),
            trained: None,
        })
    }

    /// "Your journey starts with one step": (6, 3).
    pub(crate) fn inputs(&self) -> &Array2<f32> {
        &self.inputs
    }

    /// The array of document 001, In \[37\]: (1, 2, 3, 4).
    pub(crate) fn four_dimensional(&self) -> &Array4<f32> {
        &self.four_dimensional
    }

    /// GPT-2's byte pair encoding.
    pub(crate) fn tokenizer(&self) -> &Gpt2Tokenizer {
        &self.tokenizer
    }

    /// Whether the book's text was given.
    pub(crate) fn has_book_text(&self) -> bool {
        self.book_text.is_some()
    }

    /// The book's text.
    ///
    /// # Errors
    /// It was not given.
    pub(crate) fn book_text(&self) -> Result<&str> {
        self.book_text.as_deref().context("needs --book-text")
    }

    /// A lab whose training run is another than the book's.
    pub(crate) fn with_training(self, training: TrainingRun) -> Self {
        Self { training, ..self }
    }

    /// Chapter 5's training, done when a case first asks for it.
    ///
    /// # Errors
    /// The book's text was not given, or the run failed.
    pub(crate) fn trained(&mut self) -> Result<&Trained> {
        self.keep_only(Model::None);
        if self.trained.is_none() {
            let trained = self.training.run(self.book_text()?, &self.tokenizer)?;
            self.trained = Some(trained);
        }
        self.trained.as_ref().context("it was just trained")
    }

    /// Drops the model that is held, unless it is `model`.
    pub(crate) fn keep_only(&mut self, model: Model) {
        let held = match &self.built {
            None => return,
            Some(Built::BadLm(_)) => Model::BadLm,
            Some(Built::Dummy(..)) => Model::Dummy,
            Some(Built::Gpt(gpt, _)) if gpt.config().context_length == 256 => Model::Gpt256,
            Some(Built::Gpt(..)) => Model::Gpt1024,
        };
        if held != model {
            self.built = None;
        }
    }

    /// The worksheet's model for 4 tokens, GPT-2's vocabulary, embeddings of 768, attention of 1024.
    pub(crate) fn bad_lm(&mut self) -> Result<&BadLm> {
        self.keep_only(Model::BadLm);
        if self.built.is_none() {
            let model = BadLm::new(4, 50257, 768, 1024, &mut TorchRng::manual_seed(SEED))?;
            self.built = Some(Built::BadLm(model));
        }
        match &self.built {
            Some(Built::BadLm(model)) => Ok(model),
            _ => unreachable!("it was just built"),
        }
    }

    /// The placeholder model, and the generator after its construction.
    pub(crate) fn dummy(&mut self) -> Result<(&DummyGptModel, TorchRng)> {
        self.keep_only(Model::Dummy);
        if self.built.is_none() {
            let mut rng = TorchRng::manual_seed(SEED);
            self.built = Some(Built::Dummy(
                DummyGptModel::new(GptConfig::GPT2_124M, &mut rng)?,
                rng,
            ));
        }
        match &self.built {
            Some(Built::Dummy(model, rng)) => Ok((model, rng.clone())),
            _ => unreachable!("it was just built"),
        }
    }

    /// GPT-2 small for 1024 or 256 tokens, and the generator after its construction.
    pub(crate) fn gpt(&mut self, context_length: usize) -> Result<(&GptModel, TorchRng)> {
        self.keep_only(if context_length == 256 {
            Model::Gpt256
        } else {
            Model::Gpt1024
        });
        if self.built.is_none() {
            let mut rng = TorchRng::manual_seed(SEED);
            let config = GptConfig {
                context_length,
                ..GptConfig::GPT2_124M
            };
            self.built = Some(Built::Gpt(GptModel::new(config, &mut rng)?, rng));
        }
        match &self.built {
            Some(Built::Gpt(model, rng)) => Ok((model, rng.clone())),
            _ => unreachable!("it was just built"),
        }
    }
}
