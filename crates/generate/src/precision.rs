//! The weights a decoder multiplies by, `y = x W^T + b`, at the precision they are kept in.
//!
//! In f32 they are the model's own, borrowed; other precisions are rounded copies.
//! Activations, biases, norms, embeddings and the cache are f32 at every precision.

use std::fmt;
use std::str::FromStr;

use attention::MultiHeadAttention;
use gpt::{GptConfig, GptModel, TransformerBlock};
use kernels::{Bf16Matrix, F16Matrix, Int4Matrix, Int8Matrix};
use ndarray::{ArrayRef2, ArrayView1, ArrayView2, ArrayViewMut2, Axis, CowArray, Ix1, concatenate};
use tensor_ops::{Linear, matmul_into};

use crate::GenerateError;

/// How exactly a [`Decoder`](crate::Decoder) keeps its weights in memory.
///
/// Those of files are another type, `checkpoint::Precision`: transformers reads no int8 or int4
/// there, a model read from f16 can be decoded in any of these, and this crate opens no files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Precision {
    /// The model's own numbers.
    #[default]
    F32,
    /// IEEE's half precision, 11 bits of mantissa: half the memory.
    F16,
    /// The upper half of each number's bits: half the memory.
    Bf16,
    /// Whole numbers from -127 to 127 with a scale a row: a quarter of the memory.
    Int8,
    /// Whole numbers from -8 to 7 with a scale for 32 of them: a seventh of the memory.
    Int4,
}

impl Precision {
    /// Every precision, most exact first.
    pub const ALL: [Self; 5] = [Self::F32, Self::F16, Self::Bf16, Self::Int8, Self::Int4];

    /// Bytes that a decoder's copy of the matrices takes, rounded to this precision; none in f32.
    ///
    /// ```
    /// use generate::Precision;
    /// let bytes = Precision::Bf16.copied_bytes(&gpt::GptConfig::GPT2_124M);
    /// assert_eq!(bytes, 2 * (12 * 12 * 768 * 768 + 50_257 * 768));
    /// ```
    pub fn copied_bytes(self, config: &GptConfig) -> usize {
        let bytes_of = match self {
            Self::F32 => return 0,
            Self::F16 => F16Matrix::bytes_of,
            Self::Bf16 => Bf16Matrix::bytes_of,
            Self::Int8 => Int8Matrix::bytes_of,
            Self::Int4 => Int4Matrix::bytes_of,
        };
        let (features, hidden) = (config.emb_dim, config.feed_forward_dim());
        let block = [
            (features.saturating_mul(3), features),
            (features, features),
            (hidden, features),
            (features, hidden),
        ];
        let block = block.map(bytes_of).into_iter();
        block
            .fold(0, usize::saturating_add)
            .saturating_mul(config.n_layers)
            .saturating_add(bytes_of((config.vocab_size, features)))
    }

    /// As it is displayed and read.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::Int8 => "int8",
            Self::Int4 => "int4",
        }
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Precision {
    type Err = GenerateError;

    fn from_str(name: &str) -> Result<Self, GenerateError> {
        Self::ALL
            .into_iter()
            .find(|precision| precision.name() == name)
            .ok_or_else(|| GenerateError::UnknownPrecision { name: name.into() })
    }
}

/// One matrix of a model, and its bias.
#[derive(Clone, Debug)]
pub(crate) struct Projection<'m> {
    weight: Weight<'m>,
    /// (out_features)
    bias: Option<CowArray<'m, f32, Ix1>>,
}

/// (out_features, in_features)
#[derive(Clone, Debug)]
enum Weight<'m> {
    /// The model's own.
    F32(ArrayView2<'m, f32>),
    F16(F16Matrix),
    Bf16(Bf16Matrix),
    Int8(Int8Matrix),
    Int4(Int4Matrix),
}

impl Weight<'_> {
    /// A copy in fewer bits; `None` in f32.
    fn rounded(weight: &ArrayRef2<f32>, precision: Precision) -> Option<Self> {
        Some(match precision {
            Precision::F32 => return None,
            Precision::F16 => Self::F16(F16Matrix::from_f32(weight)),
            Precision::Bf16 => Self::Bf16(Bf16Matrix::from_f32(weight)),
            Precision::Int8 => Self::Int8(Int8Matrix::from_f32(weight)),
            Precision::Int4 => Self::Int4(Int4Matrix::from_f32(weight)),
        })
    }
}

impl<'m> Projection<'m> {
    fn new(
        weight: ArrayView2<'m, f32>,
        bias: Option<ArrayView1<'m, f32>>,
        precision: Precision,
    ) -> Self {
        let weight = Weight::rounded(&weight, precision).unwrap_or(Weight::F32(weight));
        let bias = bias.map(CowArray::from);
        Self { weight, bias }
    }

    fn of(layer: &'m Linear, precision: Precision) -> Self {
        let bias = layer.bias.as_ref().map(|bias| bias.view());
        Self::new(layer.weight.view(), bias, precision)
    }

    /// Layers with one input, one below the other: one product instead of three. `None` in f32,
    /// where it would take a copy.
    fn stacked(layers: [&Linear; 3], precision: Precision) -> Option<Self> {
        let weights = layers.map(|layer| layer.weight.view());
        if precision == Precision::F32 {
            return None;
        }
        let weights = concatenate(Axis(0), &weights).expect("query, key and value have one shape");
        let weight = Weight::rounded(&weights, precision)?;
        let biases = layers.map(|layer| Some(layer.bias.as_ref()?.view()));
        let bias = match biases {
            [Some(query), Some(key), Some(value)] => {
                let biases = concatenate(Axis(0), &[query, key, value]);
                Some(biases.expect("vectors").into())
            }
            _ => None,
        };
        Some(Self { weight, bias })
    }

    /// Writes `x W^T + b` (rows, out_features) of `x` (rows, in_features) to `out`.
    pub(crate) fn forward(&self, x: &ArrayRef2<f32>, mut out: ArrayViewMut2<f32>) {
        match (&self.weight, &self.bias) {
            (Weight::F32(weight), None) => return matmul_into(x, &weight.t(), 0.0, out),
            (Weight::F32(weight), Some(bias)) => {
                // As `Linear` does it, to the bit.
                out.assign(bias);
                return matmul_into(x, &weight.t(), 1.0, out);
            }
            (Weight::F16(weight), _) => weight.matmul_rows(x, out.view_mut()),
            (Weight::Bf16(weight), _) => weight.matmul_rows(x, out.view_mut()),
            (Weight::Int8(weight), _) => weight.matmul_rows(x, out.view_mut()),
            (Weight::Int4(weight), _) => weight.matmul_rows(x, out.view_mut()),
        }
        if let Some(bias) = &self.bias {
            out += bias;
        }
    }

    /// Bytes read to use it once.
    fn bytes(&self) -> usize {
        let weight = match &self.weight {
            Weight::F32(weight) => 4 * weight.len(),
            Weight::F16(weight) => weight.bytes(),
            Weight::Bf16(weight) => weight.bytes(),
            Weight::Int8(weight) => weight.bytes(),
            Weight::Int4(weight) => weight.bytes(),
        };
        weight + 4 * self.bias.as_ref().map_or(0, |bias| bias.len())
    }
}

/// The matrices of one transformer block.
#[derive(Clone, Debug)]
pub(crate) struct BlockWeights<'m> {
    pub(crate) qkv: Qkv<'m>,
    pub(crate) out_proj: Projection<'m>,
    pub(crate) expand: Projection<'m>,
    pub(crate) contract: Projection<'m>,
}

/// The projections to queries, keys and values: three, or one of all.
#[derive(Clone, Debug)]
pub(crate) struct Qkv<'m>(Vec<Projection<'m>>);

impl<'m> Qkv<'m> {
    fn of(att: &'m MultiHeadAttention, precision: Precision) -> Self {
        let layers = [&att.w_query, &att.w_key, &att.w_value];
        Self(match Projection::stacked(layers, precision) {
            Some(stacked) => vec![stacked],
            None => Vec::from(layers.map(|layer| Projection::of(layer, precision))),
        })
    }

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

/// All matrices of a model that a step multiplies by.
#[derive(Clone, Debug)]
pub(crate) struct DecoderWeights<'m> {
    pub(crate) blocks: Vec<BlockWeights<'m>>,
    /// emb_dim -> vocab_size; the token embedding if the model is tied
    pub(crate) head: Projection<'m>,
}

impl<'m> DecoderWeights<'m> {
    pub(crate) fn new(model: &'m GptModel, precision: Precision) -> Self {
        let block = |block: &'m TransformerBlock| BlockWeights {
            qkv: Qkv::of(&block.att, precision),
            out_proj: Projection::of(&block.att.out_proj, precision),
            expand: Projection::of(&block.ff.expand, precision),
            contract: Projection::of(&block.ff.contract, precision),
        };
        Self {
            blocks: model.trf_blocks.iter().map(block).collect(),
            head: match &model.out_head {
                Some(out_head) => Projection::of(out_head, precision),
                None => Projection::new(model.tok_emb.weight.view(), None, precision),
            },
        }
    }

    /// Bytes that one step of one sequence reads: the floor of its time is this over the bandwidth
    /// of memory.
    pub(crate) fn bytes(&self) -> usize {
        let blocks = self.blocks.iter().flat_map(|block| {
            let others = [&block.out_proj, &block.expand, &block.contract];
            block.qkv.0.iter().chain(others)
        });
        blocks.chain([&self.head]).map(Projection::bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use torch_rng::TorchRng;

    #[test]
    fn the_bytes_of_copies_are_those_that_a_decoder_has() {
        // Rows that fill no block of weights, and heads that do.
        for (emb_dim, hidden_dim, vocab_size) in [(8, 37, 61), (64, 256, 128)] {
            let config = GptConfig {
                vocab_size,
                context_length: 4,
                emb_dim,
                n_heads: 2,
                n_layers: 2,
                hidden_dim: Some(hidden_dim),
                ..GptConfig::GPT2_124M
            };
            let model =
                GptModel::new(config, &mut TorchRng::manual_seed(1)).expect("a valid model");
            // Biases are no copies; in f32 the matrices take twice the bytes of f16.
            let all = DecoderWeights::new(&model, Precision::F32).bytes();
            let biases = all - 2 * Precision::F16.copied_bytes(&config);
            for precision in [
                Precision::F16,
                Precision::Bf16,
                Precision::Int8,
                Precision::Int4,
            ] {
                let weights = DecoderWeights::new(&model, precision);
                assert_eq!(
                    precision.copied_bytes(&config),
                    weights.bytes() - biases,
                    "{precision}"
                );
            }
        }
        assert_eq!(Precision::F32.copied_bytes(&GptConfig::GPT2_124M), 0);
    }

    #[test]
    fn a_precision_is_read_back_from_its_name() {
        for precision in Precision::ALL {
            assert_eq!(precision.to_string().parse(), Ok(precision));
        }
        let error = "f64".parse::<Precision>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "unknown precision \"f64\" (known: f32, f16, bf16, int8, int4)"
        );
    }
}
