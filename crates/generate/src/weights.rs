//! The weights that decoders read: a model's own f32 numbers, or copies in a smaller format.
//!
//! [`WeightsRef`] is a borrowed view of either form. It gives the forward pass each block's layers
//! as references, so that a decoder can hold its model by reference, by [`Arc`], or by value.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use gpt::{GptConfig, GptError, GptModel, Parameters};
use ndarray::{ArrayRef2, ArrayViewMut1, ArrayViewMut2, Axis};

use crate::layers::{BlockRef, Matrix, Projection};
use crate::packed::PackedWeights;
use crate::{Dtype, GenerateError};

/// The weights of a decoder in one number format.
///
/// They are made once, and a clone shares them, so that any number of decoders and batches read the
/// same memory. In f32 they are a [`GptModel`], which can be moved in or shared at no cost. In the
/// other formats they are rounded copies of its matrices.
///
/// ```
/// use generate::gpt::{GptConfig, GptModel};
/// use generate::torch_rng::TorchRng;
/// use generate::{Decoder, DecoderWeights, Dtype};
///
/// let config = GptConfig {
///     vocab_size: 50, context_length: 8, emb_dim: 8,
///     n_heads: 2, n_layers: 1, ..GptConfig::GPT2_124M
/// };
/// let model = GptModel::new(config, &mut TorchRng::manual_seed(123))?;
/// let int8 = DecoderWeights::new(&model, Dtype::Int8)?;
/// let exact = DecoderWeights::from(model); // moves the model and copies nothing
///
/// let mut decoders: Vec<Decoder> = [int8.clone(), int8, exact].map(Decoder::new).into();
/// for decoder in &mut decoders {
///     decoder.start(&[1, 2, 3])?;
///     decoder.advance()?;
/// }
/// assert_eq!(decoders[0].logits(), decoders[1].logits());
/// # Ok::<(), generate::GenerateError>(())
/// ```
#[derive(Clone)]
pub struct DecoderWeights(Form);

#[derive(Clone)]
enum Form {
    Model(Arc<GptModel>),
    Packed(Arc<PackedWeights>),
}

impl DecoderWeights {
    /// Copies the weights of a model, rounded to `dtype`.
    ///
    /// In f32, `DecoderWeights::from` takes a [`GptModel`] or an `Arc<GptModel>` without a copy.
    ///
    /// # Errors
    /// If a public field of the model doesn't fit the others ([`GptModel::check`]).
    pub fn new(model: &GptModel, dtype: Dtype) -> Result<Self, GptError> {
        model.check()?;
        if dtype == Dtype::Float32 {
            return Ok(model.clone().into());
        }
        let packed = PackedWeights::new(model, dtype);
        Ok(Self(Form::Packed(Arc::new(packed))))
    }

    /// Reads the weights of a model with the configuration `config`.
    ///
    /// `read(name, rows, out)` must write the given rows of a parameter to `out`, row after row.
    /// The names are those of [`GptConfig::parameters`]. In formats other than f32, the weights are
    /// rounded as they are read, a megabyte at a time.
    ///
    /// ```
    /// use generate::gpt::GptConfig;
    /// use generate::{AsWeights, DecoderWeights, GenerateError, Dtype};
    ///
    /// let config = GptConfig {
    ///     vocab_size: 50, context_length: 8, emb_dim: 8,
    ///     n_heads: 2, n_layers: 1, ..GptConfig::GPT2_124M
    /// };
    /// // checkpoint::ModelFolder::read_rows reads them from files in the same way.
    /// let weights = DecoderWeights::read(&config, Dtype::Int8, |name, rows, out| {
    ///     assert!(rows.end <= 50 && out.len() % rows.len() == 0, "{name}");
    ///     out.fill(0.5);
    ///     Ok::<(), GenerateError>(())
    /// })?;
    /// assert_eq!(weights.as_weights().config(), config);
    /// # Ok::<(), GenerateError>(())
    /// ```
    ///
    /// # Errors
    /// The first error of `read`, or an error if the configuration is not valid.
    pub fn read<E: From<GenerateError>>(
        config: &GptConfig,
        dtype: Dtype,
        mut read: impl FnMut(&str, Range<usize>, &mut [f32]) -> Result<(), E>,
    ) -> Result<Self, E> {
        config.validate().map_err(GenerateError::from)?;
        if dtype != Dtype::Float32 {
            let packed = PackedWeights::read(*config, dtype, read)?;
            return Ok(Self(Form::Packed(Arc::new(packed))));
        }
        let mut model = GptModel::zeros(*config).map_err(GenerateError::from)?;
        for (name, mut parameter) in model.named_parameters_mut() {
            let rows = 0..parameter.len_of(Axis(0));
            let numbers = parameter.as_slice_mut();
            read(&name, rows, numbers.expect("new arrays are row-major"))?;
        }
        Ok(model.into())
    }

    /// Returns the number format of the weights.
    pub fn dtype(&self) -> Dtype {
        match &self.0 {
            Form::Model(_) => Dtype::Float32,
            Form::Packed(packed) => packed.dtype,
        }
    }
}

/// Moves the model's arrays and copies nothing.
impl From<GptModel> for DecoderWeights {
    fn from(model: GptModel) -> Self {
        Arc::new(model).into()
    }
}

/// Shares the model and copies nothing.
impl From<Arc<GptModel>> for DecoderWeights {
    fn from(model: Arc<GptModel>) -> Self {
        Self(Form::Model(model))
    }
}

/// Shows the format and the configuration but no weights.
impl fmt::Debug for DecoderWeights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DecoderWeights")
            .field("dtype", &self.dtype())
            .field("config", &self.as_weights().config())
            .finish_non_exhaustive()
    }
}

/// A model that a [`Decoder`](crate::Decoder) or a [`Batch`](crate::Batch) can read: a [`GptModel`]
/// or [`DecoderWeights`], by value, by reference, or in an [`Arc`].
pub trait AsWeights: Send + Sync {
    /// Borrows the weights.
    fn as_weights(&self) -> WeightsRef<'_>;
}

impl AsWeights for GptModel {
    fn as_weights(&self) -> WeightsRef<'_> {
        WeightsRef(FormRef::Model(self))
    }
}

impl AsWeights for DecoderWeights {
    fn as_weights(&self) -> WeightsRef<'_> {
        match &self.0 {
            Form::Model(model) => model.as_weights(),
            Form::Packed(packed) => WeightsRef(FormRef::Packed(packed)),
        }
    }
}

impl<W: AsWeights + ?Sized> AsWeights for &W {
    fn as_weights(&self) -> WeightsRef<'_> {
        (**self).as_weights()
    }
}

impl<W: AsWeights + ?Sized> AsWeights for Arc<W> {
    fn as_weights(&self) -> WeightsRef<'_> {
        (**self).as_weights()
    }
}

/// A borrowed view of a model's weights, in any of the formats.
#[derive(Clone, Copy)]
pub struct WeightsRef<'w>(FormRef<'w>);

#[derive(Clone, Copy)]
enum FormRef<'w> {
    Model(&'w GptModel),
    Packed(&'w PackedWeights),
}

impl<'w> WeightsRef<'w> {
    /// Returns the configuration of the model.
    pub fn config(self) -> GptConfig {
        match self.0 {
            FormRef::Model(model) => model.config(),
            FormRef::Packed(packed) => packed.config,
        }
    }

    /// Checks that the public fields of a model fit together; rounded copies always do.
    pub(crate) fn check(self) -> Result<(), GptError> {
        match self.0 {
            FormRef::Model(model) => model.check(),
            FormRef::Packed(_) => Ok(()),
        }
    }

    /// Writes the sum of a token's and a position's embedding.
    pub(crate) fn embed(self, id: u32, position: usize, mut out: ArrayViewMut1<f32>) {
        let (table, positions) = match self.0 {
            FormRef::Model(model) => (Matrix::F32(&model.tok_emb.weight), &model.pos_emb.weight),
            FormRef::Packed(packed) => (Matrix::Packed(&packed.tok_emb), &packed.pos_emb),
        };
        match table {
            Matrix::F32(table) => out.assign(&table.row(id as usize)),
            Matrix::Packed(table) => table.read_row(
                id as usize,
                out.as_slice_mut().expect("a row of a row-major array"),
            ),
        }
        out += &positions.row(position);
    }

    /// Returns the layers of block `i`.
    pub(crate) fn block(self, i: usize) -> BlockRef<'w> {
        match self.0 {
            FormRef::Model(model) => {
                let block = &model.trf_blocks[i];
                let (att, ff) = (&block.att, &block.ff);
                let qkv = [&att.w_query, &att.w_key, &att.w_value];
                BlockRef {
                    norm1: &block.norm1,
                    qkv: qkv.map(Projection::from).to_vec(),
                    out_proj: (&att.out_proj).into(),
                    norm2: &block.norm2,
                    expand: (&ff.expand).into(),
                    activation: ff.activation,
                    contract: (&ff.contract).into(),
                }
            }
            FormRef::Packed(packed) => packed.blocks[i].as_ref(),
        }
    }

    /// Writes the logits (rows, vocab_size) of `x` (rows, emb_dim).
    pub(crate) fn logits(self, x: &ArrayRef2<f32>, out: ArrayViewMut2<f32>) {
        let (norm, head) = match self.0 {
            FormRef::Model(model) => (&model.final_norm, Matrix::F32(model.head_weight())),
            FormRef::Packed(packed) => {
                let head = packed.head.as_ref().unwrap_or(&packed.tok_emb);
                (&packed.final_norm, Matrix::Packed(head))
            }
        };
        let head = Projection {
            weight: head,
            bias: None,
        };
        head.forward(&norm.forward(x), out);
    }
}
