//! The weights that a decoder reads. These are either the fields of a [`GptModel`], or packed
//! matrices, which are stored in one of the number formats and in the order in which a decoder
//! reads them.
//!
//! The forward pass reads both kinds of weights through [`WeightsRef`], a borrowed view. A decoder
//! can therefore store its model by reference, in an [`Arc`], or by value.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use gpt::{GptConfig, GptError, GptModel};
use ndarray::{ArrayRef2, ArrayViewMut1, ArrayViewMut2};

use crate::layers::{BlockRef, Matrix, Projection};
use crate::packed::PackedWeights;
use crate::{Dtype, GenerateError};

/// The weights that a decoder uses, in one of the number formats.
///
/// Clones share the same memory, so any number of decoders and batches can use the same weights.
///
/// A decoder is fastest if the weights of each matrix are stored in a special order, in which the
/// weights of 16 outputs are interleaved. Conversion from a [`GptModel`] rearranges the f32 weights
/// in place. [`DecoderWeights::new`] and [`DecoderWeights::read`] create copies of the weights in
/// this order, in any number format. Conversion from an `Arc<GptModel>` keeps the original order,
/// because the model is shared. Decoding is then slower, but the results are bitwise identical.
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
/// let exact = DecoderWeights::from(model); // needs no additional memory
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
    /// Copies the weights of a model and rounds them to `dtype`.
    ///
    /// To use a model in f32 without copying its weights, pass the [`GptModel`] or an
    /// `Arc<GptModel>` to `DecoderWeights::from`.
    ///
    /// # Errors
    ///
    /// Returns an error if a public field of the model was replaced by one that doesn't match the
    /// model's configuration, such as a layer of a different size ([`GptModel::check`]).
    pub fn new(model: &GptModel, dtype: Dtype) -> Result<Self, GptError> {
        model.check()?;
        let packed = PackedWeights::new(model, dtype);
        Ok(Self(Form::Packed(Arc::new(packed))))
    }

    /// Reads the weights of a model with the configuration `config`.
    ///
    /// To get the weights, this function calls `read(name, rows, out)`, which must write the given
    /// rows of the parameter `name` to `out`, in row-major order. The parameters have the names
    /// that [`GptConfig::parameters`] returns. The weights are read and rounded in blocks of at
    /// most 16 MiB (or 16 rows, if these are larger), so memory never contains two copies of the
    /// model.
    ///
    /// ```
    /// use generate::gpt::GptConfig;
    /// use generate::{AsWeights, DecoderWeights, GenerateError, Dtype};
    ///
    /// let config = GptConfig {
    ///     vocab_size: 50, context_length: 8, emb_dim: 8,
    ///     n_heads: 2, n_layers: 1, ..GptConfig::GPT2_124M
    /// };
    /// // To read the weights from files, call checkpoint::ModelFolder::read_rows here.
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
    ///
    /// Returns an error if the configuration isn't valid, or if `read` returns an error.
    pub fn read<E: From<GenerateError>>(
        config: &GptConfig,
        dtype: Dtype,
        read: impl FnMut(&str, Range<usize>, &mut [f32]) -> Result<(), E>,
    ) -> Result<Self, E> {
        config.validate().map_err(GenerateError::from)?;
        let packed = PackedWeights::read(*config, dtype, read)?;
        Ok(Self(Form::Packed(Arc::new(packed))))
    }

    /// Returns the number format of the weights.
    pub fn dtype(&self) -> Dtype {
        match &self.0 {
            Form::Model(_) => Dtype::Float32,
            Form::Packed(packed) => packed.dtype,
        }
    }
}

/// Uses the f32 weights of a model, whose matrices are rearranged in place. If a field of the model
/// doesn't match the model's configuration, the conversion leaves the model unchanged, and decoders
/// that use it return an error that contains the name of the field.
impl From<GptModel> for DecoderWeights {
    fn from(model: GptModel) -> Self {
        match model.check() {
            Ok(()) => Self(Form::Packed(Arc::new(PackedWeights::from_model(model)))),
            Err(_) => Arc::new(model).into(),
        }
    }
}

/// Uses the f32 weights of a model that is shared through an [`Arc`]. The model isn't copied.
impl From<Arc<GptModel>> for DecoderWeights {
    fn from(model: Arc<GptModel>) -> Self {
        Self(Form::Model(model))
    }
}

/// The debug output contains the number format and the configuration, but no weights.
impl fmt::Debug for DecoderWeights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DecoderWeights")
            .field("dtype", &self.dtype())
            .field("config", &self.as_weights().config())
            .finish_non_exhaustive()
    }
}

/// A type that provides the weights for a [`Decoder`](crate::Decoder) or a [`Batch`](crate::Batch).
/// This trait is implemented for [`GptModel`] and [`DecoderWeights`], and for references to them
/// and [`Arc`]s of them.
pub trait AsWeights: Send + Sync {
    /// Returns a borrowed view of the weights.
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

/// A borrowed view of the weights of a model, in any number format.
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

    /// Checks that the fields of a [`GptModel`] match the model's configuration, because any code
    /// can change these public fields. Packed weights need no check, because their fields are
    /// private.
    ///
    /// # Errors
    ///
    /// Returns an error that contains the name of the first field of the model that doesn't match
    /// the model's configuration, such as a layer of a different size.
    pub(crate) fn check(self) -> Result<(), GptError> {
        match self.0 {
            FormRef::Model(model) => model.check(),
            FormRef::Packed(_) => Ok(()),
        }
    }

    /// Looks up the token embedding of `id` and the position embedding of `position`, and writes
    /// their sum to `out`, of shape (emb_dim).
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

    /// Returns the layers of the block with index `i`.
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

    /// Applies the final layer normalization and the output head to `x`, which is the output of the
    /// last block and has the shape (rows, emb_dim). Writes the logits to `out`, of shape (rows,
    /// vocab_size).
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
