//! The weights a decoder multiplies by, `y = x W^T + b`, at the precision they are kept in.
//!
//! In f32 they are the model's own, borrowed; other precisions are rounded copies.
//! Activations, biases, norms, embeddings and the cache are f32 at every precision.

use std::fmt;
use std::str::FromStr;

use gpt::{GptModel, TransformerBlock};
use kernels::{Bf16Matrix, Int8Matrix};
use ndarray::{ArrayRef2, ArrayView1, ArrayView2, ArrayViewMut2};
use tensor_ops::{Linear, matmul_into};

use crate::GenerateError;

/// How exactly a [`Decoder`](crate::Decoder) keeps its weights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// The model's own numbers.
    #[default]
    F32,
    /// The upper half of each number's bits: half the memory.
    Bf16,
    /// Whole numbers from -127 to 127 with a scale a row: a quarter of the memory.
    Int8,
}

impl Precision {
    /// Every precision, most exact first.
    pub const ALL: [Self; 3] = [Self::F32, Self::Bf16, Self::Int8];
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
            Self::Int8 => "int8",
        })
    }
}

impl FromStr for Precision {
    type Err = GenerateError;

    fn from_str(name: &str) -> Result<Self, GenerateError> {
        Self::ALL
            .into_iter()
            .find(|precision| precision.to_string() == name)
            .ok_or_else(|| GenerateError::UnknownPrecision { name: name.into() })
    }
}

/// One matrix of a model, and its bias.
#[derive(Clone, Debug)]
pub(crate) struct Projection<'m> {
    weight: Weight<'m>,
    /// (out_features)
    bias: Option<ArrayView1<'m, f32>>,
}

/// (out_features, in_features)
#[derive(Clone, Debug)]
enum Weight<'m> {
    /// The model's own.
    F32(ArrayView2<'m, f32>),
    Bf16(Bf16Matrix),
    Int8(Int8Matrix),
}

impl<'m> Projection<'m> {
    fn new(
        weight: ArrayView2<'m, f32>,
        bias: Option<ArrayView1<'m, f32>>,
        precision: Precision,
    ) -> Self {
        let weight = match precision {
            Precision::F32 => Weight::F32(weight),
            Precision::Bf16 => Weight::Bf16(Bf16Matrix::from_f32(&weight)),
            Precision::Int8 => Weight::Int8(Int8Matrix::from_f32(&weight)),
        };
        Self { weight, bias }
    }

    fn of(layer: &'m Linear, precision: Precision) -> Self {
        let bias = layer.bias.as_ref().map(|bias| bias.view());
        Self::new(layer.weight.view(), bias, precision)
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
            (Weight::Bf16(weight), _) => weight.matmul_rows(x, out.view_mut()),
            (Weight::Int8(weight), _) => weight.matmul_rows(x, out.view_mut()),
        }
        if let Some(bias) = &self.bias {
            out += bias;
        }
    }

    /// The width of `forward`'s output.
    pub(crate) fn out_features(&self) -> usize {
        match &self.weight {
            Weight::F32(weight) => weight.nrows(),
            Weight::Bf16(weight) => weight.dim().0,
            Weight::Int8(weight) => weight.dim().0,
        }
    }

    /// Bytes read to use it once.
    fn bytes(&self) -> usize {
        let weight = match &self.weight {
            Weight::F32(weight) => 4 * weight.len(),
            Weight::Bf16(weight) => weight.bytes(),
            Weight::Int8(weight) => weight.bytes(),
        };
        weight + 4 * self.bias.map_or(0, |bias| bias.len())
    }
}

/// The matrices of one transformer block.
#[derive(Clone, Debug)]
pub(crate) struct BlockWeights<'m> {
    pub(crate) w_query: Projection<'m>,
    pub(crate) w_key: Projection<'m>,
    pub(crate) w_value: Projection<'m>,
    pub(crate) out_proj: Projection<'m>,
    pub(crate) expand: Projection<'m>,
    pub(crate) contract: Projection<'m>,
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
            w_query: Projection::of(&block.att.w_query, precision),
            w_key: Projection::of(&block.att.w_key, precision),
            w_value: Projection::of(&block.att.w_value, precision),
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

    /// Bytes that one step of one sequence reads: the floor of its time is this over the bandwidth of memory.
    pub(crate) fn bytes(&self) -> usize {
        let blocks = self.blocks.iter().flat_map(|block| {
            let BlockWeights {
                w_query,
                w_key,
                w_value,
                out_proj,
                expand,
                contract,
            } = block;
            [w_query, w_key, w_value, out_proj, expand, contract]
        });
        blocks.chain([&self.head]).map(Projection::bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_precision_is_read_back_from_its_name() {
        for precision in Precision::ALL {
            assert_eq!(precision.to_string().parse(), Ok(precision));
        }
        let error = "f16".parse::<Precision>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "unknown precision \"f16\" (known: f32, bf16, int8)"
        );
    }
}
