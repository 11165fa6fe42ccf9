//! The weights of a model, with matrices that are stored in one of the number formats.
//!
//! The matrices are rounded one at a time, so no complete copy in f32 is needed. In every
//! number format, the position embeddings, the layer normalizations and the biases stay in f32. The
//! activations and the KV caches are in f32 as well.

use std::collections::HashMap;
use std::convert::Infallible;
use std::ops::Range;

use gpt::{Activation, GptConfig, GptModel, Parameters, TransformerBlock};
use ndarray::{Array1, Array2, Axis};
use tensor_ops::{LayerNorm, Linear};

use crate::Dtype;
use crate::layers::{BlockRef, Matrix, Packed, Projection};
use crate::weight_bytes::of_embeddings;

/// A linear layer with a weight matrix in one of the number formats.
struct PackedLinear {
    weight: Packed,
    /// Bias of shape (outputs), in f32.
    bias: Option<Array1<f32>>,
}

impl PackedLinear {
    fn as_ref(&self) -> Projection<'_> {
        Projection {
            weight: Matrix::Packed(&self.weight),
            bias: self.bias.as_ref(),
        }
    }
}

/// The layers of a transformer block, with weight matrices in one of the number formats.
pub(crate) struct PackedBlock {
    norm1: LayerNorm,
    /// Layers that compute the queries, keys and values, in this order. There are either three
    /// layers, or a single layer whose outputs are the concatenated outputs of all three.
    qkv: Vec<PackedLinear>,
    out_proj: PackedLinear,
    norm2: LayerNorm,
    expand: PackedLinear,
    activation: Activation,
    contract: PackedLinear,
}

impl PackedBlock {
    pub(crate) fn as_ref(&self) -> BlockRef<'_> {
        BlockRef {
            norm1: &self.norm1,
            qkv: self.qkv.iter().map(PackedLinear::as_ref).collect(),
            out_proj: self.out_proj.as_ref(),
            norm2: &self.norm2,
            expand: self.expand.as_ref(),
            activation: self.activation,
            contract: self.contract.as_ref(),
        }
    }
}

/// The weights of a model, with matrices in the number format `dtype`.
pub(crate) struct PackedWeights {
    pub(crate) config: GptConfig,
    pub(crate) dtype: Dtype,
    pub(crate) tok_emb: Packed,
    /// Position embeddings, of shape (context_length, emb_dim).
    pub(crate) pos_emb: Array2<f32>,
    pub(crate) blocks: Vec<PackedBlock>,
    pub(crate) final_norm: LayerNorm,
    /// Weight matrix of the output head, or `None` if the output head uses `tok_emb` instead.
    pub(crate) head: Option<Packed>,
}

impl PackedWeights {
    /// Copies the weights of a model and rounds the matrices to `dtype`. The caller must first
    /// check the shapes of the model's fields with [`GptModel::check`].
    pub(crate) fn new(model: &GptModel, dtype: Dtype) -> Self {
        let parameters: HashMap<_, _> = model.named_parameters().into_iter().collect();
        let Ok(weights) = Self::read(model.config(), dtype, |name, rows, out| {
            let rows = parameters[name].slice_axis(Axis(0), rows.into());
            out.iter_mut().zip(rows).for_each(|(out, x)| *out = *x);
            Ok::<_, Infallible>(())
        });
        weights
    }

    /// Takes over the f32 weights of a model and rearranges its matrices in place, without
    /// allocating memory for a copy. The caller must first check the shapes of the model's fields
    /// with [`GptModel::check`].
    pub(crate) fn from_model(model: GptModel) -> Self {
        let config = model.config();
        let matrix = |weight: Array2<f32>| Packed::F32(weight.into());
        let linear = |Linear { weight, bias, .. }| PackedLinear {
            weight: matrix(weight),
            bias,
        };
        let block = |TransformerBlock {
                         att,
                         ff,
                         norm1,
                         norm2,
                         ..
                     }| PackedBlock {
            norm1,
            qkv: [att.w_query, att.w_key, att.w_value].map(linear).into(),
            out_proj: linear(att.out_proj),
            norm2,
            expand: linear(ff.expand),
            activation: ff.activation,
            contract: linear(ff.contract),
        };
        Self {
            config,
            dtype: Dtype::Float32,
            tok_emb: matrix(model.tok_emb.weight),
            pos_emb: model.pos_emb.weight,
            blocks: model.trf_blocks.into_iter().map(block).collect(),
            final_norm: model.final_norm,
            head: model.out_head.map(|head| matrix(head.weight)),
        }
    }

    /// Reads the weights of a model and rounds the matrices to `dtype`. To get the weights, this
    /// function calls `read(name, rows, out)`, which must write the given rows of the parameter
    /// `name` to `out`. The parameters have the names that [`GptConfig::parameters`] returns.
    pub(crate) fn read<E>(
        config: GptConfig,
        dtype: Dtype,
        read: impl FnMut(&str, Range<usize>, &mut [f32]) -> Result<(), E>,
    ) -> Result<Self, E> {
        let mut source = Source {
            read,
            config: &config,
            dtype,
            buffer: Vec::new(),
        };
        let vocabulary = (config.vocab_size, config.emb_dim);
        // Read the token embedding and the output head first. They are the largest matrices, so
        // they should be read while most of the memory is still free.
        let of_embeddings = of_embeddings(dtype);
        let mut table = |name, dtype| {
            Packed::read(vocabulary, dtype, &mut source.buffer, |rows, out| {
                (source.read)(name, rows, out)
            })
        };
        let tok_emb = table("tok_emb.weight", of_embeddings)?;
        let head = match config.tied {
            false => Some(table("out_head.weight", dtype)?),
            true if dtype == of_embeddings => None,
            true => Some(table("tok_emb.weight", dtype)?),
        };
        let mut pos_emb = Array2::zeros((config.context_length, config.emb_dim));
        let positions = pos_emb.as_slice_mut().expect("new arrays are row-major");
        (source.read)("pos_emb.weight", 0..config.context_length, positions)?;
        let blocks = (0..config.n_layers).map(|i| source.block(&format!("trf_blocks.{i}")));
        Ok(Self {
            tok_emb,
            head,
            pos_emb,
            blocks: blocks.collect::<Result<_, E>>()?,
            final_norm: source.norm("final_norm")?,
            dtype,
            config,
        })
    }
}

/// A source of a model's parameters. It consists of the function that reads them, the configuration
/// that determines their shapes, and the number format to which the matrices are rounded.
struct Source<'c, F> {
    read: F,
    config: &'c GptConfig,
    dtype: Dtype,
    /// Memory for the rows of a matrix in f32, which is reused for each matrix.
    buffer: Vec<f32>,
}

impl<E, F: FnMut(&str, Range<usize>, &mut [f32]) -> Result<(), E>> Source<'_, F> {
    fn vector(&mut self, name: &str, len: usize) -> Result<Array1<f32>, E> {
        let mut numbers = vec![0.0; len];
        (self.read)(name, 0..len, &mut numbers)?;
        Ok(numbers.into())
    }

    fn norm(&mut self, name: &str) -> Result<LayerNorm, E> {
        let features = self.config.emb_dim;
        Ok(LayerNorm {
            scale: self.vector(&format!("{name}.scale"), features)?,
            shift: self.vector(&format!("{name}.shift"), features)?,
            eps: self.config.norm_eps,
        })
    }

    /// Reads several linear layers that have the same input and combines them into a single layer.
    /// The outputs of the combined layer are the concatenated outputs of the original layers.
    fn linear(
        &mut self,
        layers: &[String],
        (outputs, inputs): (usize, usize),
        has_bias: bool,
    ) -> Result<PackedLinear, E> {
        let mut bias = Vec::new();
        for layer in layers.iter().filter(|_| has_bias) {
            bias.extend(self.vector(&format!("{layer}.bias"), outputs)?);
        }
        let shape = (layers.len() * outputs, inputs);
        let weight = Packed::read(shape, self.dtype, &mut self.buffer, |rows, mut out| {
            let mut first = rows.start;
            while first < rows.end {
                let (layer, row) = (first / outputs, first % outputs);
                let count = (outputs - row).min(rows.end - first);
                let (part, rest) = out.split_at_mut(count * inputs);
                let name = format!("{}.weight", layers[layer]);
                (self.read)(&name, row..row + count, part)?;
                (out, first) = (rest, first + count);
            }
            Ok(())
        })?;
        let bias = has_bias.then(|| bias.into());
        Ok(PackedLinear { weight, bias })
    }

    fn block(&mut self, name: &str) -> Result<PackedBlock, E> {
        let config = self.config;
        let (features, hidden) = (config.emb_dim, config.feed_forward_dim());
        let full = |part: &str| format!("{name}.{part}");
        let qkv = ["att.W_query", "att.W_key", "att.W_value"].map(full);
        let mut layer = |part, shape| self.linear(&[full(part)], shape, true);
        let out_proj = layer("att.out_proj", (features, features))?;
        let expand = layer("ff.layers.0", (hidden, features))?;
        let contract = layer("ff.layers.2", (features, hidden))?;
        Ok(PackedBlock {
            qkv: vec![self.linear(&qkv, (features, features), config.qkv_bias)?],
            out_proj,
            expand,
            activation: config.activation,
            contract,
            norm1: self.norm(&full("norm1"))?,
            norm2: self.norm(&full("norm2"))?,
        })
    }
}
