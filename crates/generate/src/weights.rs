//! A model's weights as a decoder reads them, at the precision they are kept in.
//!
//! In f32 they may be borrowed from a model. In fewer bits they are rounded some rows at a time, so
//! that no more than that is in memory in f32.
//! Position embeddings, norms and biases are f32 at every precision, and so are activations and the
//! cache.

use std::collections::HashMap;
use std::convert::Infallible;
use std::ops::Range;

use gpt::{Activation, GptConfig, GptModel, Parameters};
use kernels::{Bf16Matrix, F16Matrix, Int4Matrix, Int8Matrix};
use ndarray::{
    Array1, Array2, ArrayRef2, ArrayViewMut1, ArrayViewMut2, Axis, CowArray, Dimension, Ix1, Ix2,
    IxDyn,
};
use tensor_ops::{LayerNorm, matmul_into};

use crate::Precision;

/// Rows of a parameter, borrowed or read.
pub(crate) type Rows<'m> = CowArray<'m, f32, IxDyn>;

/// A matrix (rows, columns) in one of the precisions.
#[derive(Clone, Debug)]
pub(crate) enum Weight<'m> {
    F32(CowArray<'m, f32, Ix2>),
    F16(F16Matrix),
    Bf16(Bf16Matrix),
    Int8(Int8Matrix),
    Int4(Int4Matrix),
}

impl<'m> Weight<'m> {
    /// A matrix whose rows `read` gives, some at a time if they are rounded.
    fn read<E>(
        shape: (usize, usize),
        precision: Precision,
        mut read: impl FnMut(Range<usize>) -> Result<CowArray<'m, f32, Ix2>, E>,
    ) -> Result<Self, E> {
        Ok(match precision {
            Precision::F32 => Self::F32(read(0..shape.0)?),
            Precision::F16 => Self::F16(F16Matrix::from_rows(shape, read)?),
            Precision::Bf16 => Self::Bf16(Bf16Matrix::from_rows(shape, read)?),
            Precision::Int8 => Self::Int8(Int8Matrix::from_rows(shape, read)?),
            Precision::Int4 => Self::Int4(Int4Matrix::from_rows(shape, read)?),
        })
    }

    /// Writes a row's values.
    pub(crate) fn read_row(&self, row: usize, mut out: ArrayViewMut1<f32>) {
        let slice = out.as_slice_mut().expect("a row of a row-major array");
        match self {
            Self::F32(weight) => out.assign(&weight.row(row)),
            Self::F16(weight) => weight.read_row(row, slice),
            Self::Bf16(weight) => weight.read_row(row, slice),
            Self::Int8(weight) => weight.read_row(row, slice),
            Self::Int4(weight) => weight.read_row(row, slice),
        }
    }

    /// Writes `x W^T + b` (rows, outputs) of `x` (rows, inputs) to `out`.
    fn forward(&self, bias: Option<&Array1<f32>>, x: &ArrayRef2<f32>, mut out: ArrayViewMut2<f32>) {
        match (self, bias) {
            (Self::F32(weight), None) => return matmul_into(x, &weight.t(), 0.0, out),
            (Self::F32(weight), Some(bias)) => {
                // As `Linear` does it, to the bit.
                out.assign(bias);
                return matmul_into(x, &weight.t(), 1.0, out);
            }
            (Self::F16(weight), _) => weight.matmul_rows(x, out.view_mut()),
            (Self::Bf16(weight), _) => weight.matmul_rows(x, out.view_mut()),
            (Self::Int8(weight), _) => weight.matmul_rows(x, out.view_mut()),
            (Self::Int4(weight), _) => weight.matmul_rows(x, out.view_mut()),
        }
        if let Some(bias) = bias {
            out += bias;
        }
    }
}

/// A linear layer.
#[derive(Clone, Debug)]
pub(crate) struct Projection<'m> {
    weight: Weight<'m>,
    /// (outputs)
    bias: Option<Array1<f32>>,
}

impl Projection<'_> {
    /// Writes `x W^T + b` (rows, outputs) of `x` (rows, inputs) to `out`.
    pub(crate) fn forward(&self, x: &ArrayRef2<f32>, out: ArrayViewMut2<f32>) {
        self.weight.forward(self.bias.as_ref(), x, out);
    }
}

/// The weights of one transformer block.
#[derive(Clone, Debug)]
pub(crate) struct BlockWeights<'m> {
    pub(crate) norm1: LayerNorm,
    pub(crate) qkv: Qkv<'m>,
    pub(crate) out_proj: Projection<'m>,
    pub(crate) norm2: LayerNorm,
    pub(crate) expand: Projection<'m>,
    pub(crate) activation: Activation,
    pub(crate) contract: Projection<'m>,
}

/// The projections to queries, keys and values: three, or one of all.
#[derive(Clone, Debug)]
pub(crate) struct Qkv<'m>(Vec<Projection<'m>>);

impl Qkv<'_> {
    /// Writes queries, keys and values of `x` (rows, emb_dim) side by side to `out`
    /// (rows, 3 emb_dim).
    pub(crate) fn forward(&self, x: &ArrayRef2<f32>, mut out: ArrayViewMut2<f32>) {
        let width = out.ncols() / self.0.len();
        let parts = out.axis_chunks_iter_mut(Axis(1), width);
        for (projection, out) in self.0.iter().zip(parts) {
            projection.forward(x, out);
        }
    }
}

/// All weights of a model.
#[derive(Clone, Debug)]
pub(crate) struct DecoderWeights<'m> {
    pub(crate) config: GptConfig,
    pub(crate) tok_emb: Weight<'m>,
    pub(crate) pos_emb: CowArray<'m, f32, Ix2>,
    pub(crate) blocks: Vec<BlockWeights<'m>>,
    pub(crate) final_norm: LayerNorm,
    /// `None` if it is `tok_emb`.
    head: Option<Weight<'m>>,
}

impl<'m> DecoderWeights<'m> {
    /// The model's weights in f32, or rounded copies.
    ///
    /// # Panics
    /// If a layer was replaced by one of another shape than the configuration's.
    pub(crate) fn of_model(model: &'m GptModel, precision: Precision) -> Self {
        let mut config = *model.config();
        config.tied = model.out_head.is_none();
        let parameters: HashMap<_, _> = model.named_parameters().into_iter().collect();
        for (name, shape) in config.parameters() {
            let found = parameters.get(&name).map(|found| found.shape());
            assert!(
                found == Some(&shape[..]),
                "Decoder: {name} has shape {found:?}, but the configuration's is {shape:?}"
            );
        }
        let rows = |name: &str, first: usize, shape: IxDyn| {
            let mut parameter = parameters[name].clone();
            parameter.slice_axis_inplace(Axis(0), (first..first + shape[0]).into());
            Ok::<_, Infallible>(parameter.into())
        };
        let Ok(mut weights) = Self::read(config, precision, rows);
        for (weights, block) in weights.blocks.iter_mut().zip(&model.trf_blocks) {
            weights.activation = block.ff.activation;
            weights.norm1.eps = block.norm1.eps;
            weights.norm2.eps = block.norm2.eps;
        }
        weights.final_norm.eps = model.final_norm.eps;
        weights
    }

    /// The weights of which `rows` gives some rows of a parameter, from the requested row on and
    /// in the requested shape, by the names of [`GptConfig::parameters`].
    pub(crate) fn read<E>(
        config: GptConfig,
        precision: Precision,
        rows: impl FnMut(&str, usize, IxDyn) -> Result<Rows<'m>, E>,
    ) -> Result<Self, E> {
        let mut source = Source(rows);
        let vocabulary = (config.vocab_size, config.emb_dim);
        // The largest come first, while memory is nearly empty.
        let of_embeddings = precision.of_embeddings();
        let mut table = |name, precision| {
            Weight::read(vocabulary, precision, |rows| {
                source.rows(name, rows.start, Ix2(rows.len(), config.emb_dim))
            })
        };
        let tok_emb = table("tok_emb.weight", of_embeddings)?;
        let head = match config.tied {
            false => Some(table("out_head.weight", precision)?),
            true if precision == of_embeddings => None,
            true => Some(table("tok_emb.weight", precision)?),
        };
        Ok(Self {
            config,
            tok_emb,
            head,
            pos_emb: source.rows(
                "pos_emb.weight",
                0,
                Ix2(config.context_length, config.emb_dim),
            )?,
            blocks: (0..config.n_layers)
                .map(|i| source.block(&format!("trf_blocks.{i}"), &config, precision))
                .collect::<Result<_, E>>()?,
            final_norm: source.norm("final_norm", &config)?,
        })
    }

    /// Writes the logits (rows, vocab_size) of normed rows (rows, emb_dim).
    pub(crate) fn logits(&self, normed: &ArrayRef2<f32>, out: ArrayViewMut2<f32>) {
        let head = self.head.as_ref().unwrap_or(&self.tok_emb);
        head.forward(None, normed, out);
    }
}

/// The source of parameters' rows.
struct Source<F>(F);

impl<'m, E, F: FnMut(&str, usize, IxDyn) -> Result<Rows<'m>, E>> Source<F> {
    /// Some rows of a parameter.
    fn rows<D: Dimension>(
        &mut self,
        name: &str,
        first: usize,
        shape: D,
    ) -> Result<CowArray<'m, f32, D>, E> {
        let rows = (self.0)(name, first, shape.into_dyn())?.into_dimensionality();
        Ok(rows.expect("the dimensions that were asked for"))
    }

    fn norm(&mut self, name: &str, config: &GptConfig) -> Result<LayerNorm, E> {
        let mut vector = |part: &str| self.rows(&format!("{name}.{part}"), 0, Ix1(config.emb_dim));
        Ok(LayerNorm {
            scale: vector("scale")?.into_owned(),
            shift: vector("shift")?.into_owned(),
            eps: config.norm_eps,
        })
    }

    /// Layers with the same input, stacked: one product instead of several.
    fn projection(
        &mut self,
        layers: &[&str],
        (outputs, inputs): (usize, usize),
        has_bias: bool,
        precision: Precision,
    ) -> Result<Projection<'m>, E> {
        let mut bias = Vec::new();
        for layer in layers.iter().filter(|_| has_bias) {
            bias.extend(self.rows(&format!("{layer}.bias"), 0, Ix1(outputs))?);
        }
        let mut weight = |layer: &str, first, rows| {
            self.rows(&format!("{layer}.weight"), first, Ix2(rows, inputs))
        };
        let weight = match (precision, layers) {
            (Precision::F32, [layer]) => Weight::F32(weight(layer, 0, outputs)?),
            _ => Weight::read((layers.len() * outputs, inputs), precision, |rows| {
                let mut taken = Vec::with_capacity(rows.len() * inputs);
                let mut first = rows.start;
                while first < rows.end {
                    let (layer, row) = (first / outputs, first % outputs);
                    let count = (outputs - row).min(rows.end - first);
                    taken.extend(&weight(layers[layer], row, count)?);
                    first += count;
                }
                let taken = Array2::from_shape_vec((rows.len(), inputs), taken);
                Ok(taken.expect("as many numbers").into())
            })?,
        };
        let bias = has_bias.then(|| bias.into());
        Ok(Projection { weight, bias })
    }

    fn block(
        &mut self,
        name: &str,
        config: &GptConfig,
        precision: Precision,
    ) -> Result<BlockWeights<'m>, E> {
        let (features, hidden) = (config.emb_dim, config.feed_forward_dim());
        let [query, key, value, out_proj, expand, contract, norm1, norm2] = [
            "att.W_query",
            "att.W_key",
            "att.W_value",
            "att.out_proj",
            "ff.layers.0",
            "ff.layers.2",
            "norm1",
            "norm2",
        ]
        .map(|part| format!("{name}.{part}"));
        let qkv = [&query[..], &key, &value];
        // Together they would be a copy in f32.
        let together = if precision == Precision::F32 { 1 } else { 3 };
        let qkv = qkv.chunks(together).map(|layers| {
            self.projection(layers, (features, features), config.qkv_bias, precision)
        });
        let qkv = Qkv(qkv.collect::<Result<_, E>>()?);
        let mut layer = |name: &str, shape| self.projection(&[name], shape, true, precision);
        Ok(BlockWeights {
            qkv,
            out_proj: layer(&out_proj, (features, features))?,
            expand: layer(&expand, (hidden, features))?,
            contract: layer(&contract, (features, hidden))?,
            activation: config.activation,
            norm1: self.norm(&norm1, config)?,
            norm2: self.norm(&norm2, config)?,
        })
    }
}
