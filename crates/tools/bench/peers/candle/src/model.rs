//! GPT-2 124M in the book's architecture, as candle users would write it: untied head, no bias in queries, keys and values, dropout 0.1.

use candle_core::{D, Device, IndexOp, Result, Tensor};
use candle_nn::{
    Dropout, Embedding, Linear, Module, VarBuilder, embedding, linear, linear_no_bias, ops,
};

pub const VOCAB: usize = 50257;
const CONTEXT: usize = 1024;
const EMB: usize = 768;
const HEADS: usize = 12;
const LAYERS: usize = 12;
const DROP: f32 = 0.1;

/// candle's own fused norm has no gradient.
struct Norm {
    scale: Tensor,
    shift: Tensor,
    train: bool,
}

impl Norm {
    fn new(builder: VarBuilder, train: bool) -> Result<Self> {
        Ok(Self {
            scale: builder.get_with_hints(EMB, "weight", candle_nn::Init::Const(1.0))?,
            shift: builder.get_with_hints(EMB, "bias", candle_nn::Init::Const(0.0))?,
            train,
        })
    }

    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        if self.train {
            ops::layer_norm_slow(x, &self.scale, &self.shift, 1e-5)
        } else {
            ops::layer_norm(x, &self.scale, &self.shift, 1e-5)
        }
    }
}

struct Block {
    norm1: Norm,
    norm2: Norm,
    query: Linear,
    key: Linear,
    value: Linear,
    out: Linear,
    expand: Linear,
    contract: Linear,
}

impl Block {
    fn new(builder: VarBuilder, train: bool) -> Result<Self> {
        Ok(Self {
            norm1: Norm::new(builder.pp("norm1"), train)?,
            norm2: Norm::new(builder.pp("norm2"), train)?,
            query: linear_no_bias(EMB, EMB, builder.pp("query"))?,
            key: linear_no_bias(EMB, EMB, builder.pp("key"))?,
            value: linear_no_bias(EMB, EMB, builder.pp("value"))?,
            out: linear(EMB, EMB, builder.pp("out"))?,
            expand: linear(EMB, 4 * EMB, builder.pp("expand"))?,
            contract: linear(4 * EMB, EMB, builder.pp("contract"))?,
        })
    }

    fn attend(&self, x: &Tensor, future: &Tensor, drop: &Dropout, train: bool) -> Result<Tensor> {
        let (batch, tokens, _) = x.dims3()?;
        let heads = |layer: &Linear| {
            layer
                .forward(x)?
                .reshape((batch, tokens, HEADS, EMB / HEADS))?
                .transpose(1, 2)?
                .contiguous()
        };
        let (q, k, v) = (heads(&self.query)?, heads(&self.key)?, heads(&self.value)?);
        let scores = (q.matmul(&k.transpose(2, 3)?)? / ((EMB / HEADS) as f64).sqrt())?;
        let scores = scores.broadcast_add(future)?;
        let weights = if train {
            drop.forward(&ops::softmax(&scores, D::Minus1)?, true)?
        } else {
            ops::softmax_last_dim(&scores)?
        };
        let context = weights.matmul(&v)?.transpose(1, 2)?;
        self.out.forward(&context.reshape((batch, tokens, EMB))?)
    }

    fn forward(&self, x: &Tensor, future: &Tensor, drop: &Dropout, train: bool) -> Result<Tensor> {
        let attended = self.attend(&self.norm1.forward(x)?, future, drop, train)?;
        let x = (x + drop.forward(&attended, train)?)?;
        let hidden = self.expand.forward(&self.norm2.forward(&x)?)?.gelu()?;
        x + drop.forward(&self.contract.forward(&hidden)?, train)?
    }
}

pub struct Model {
    tokens: Embedding,
    positions: Embedding,
    blocks: Vec<Block>,
    norm: Norm,
    head: Linear,
    drop: Dropout,
    train: bool,
}

impl Model {
    pub fn new(builder: VarBuilder, train: bool) -> Result<Self> {
        Ok(Self {
            tokens: embedding(VOCAB, EMB, builder.pp("tokens"))?,
            positions: embedding(CONTEXT, EMB, builder.pp("positions"))?,
            blocks: (0..LAYERS)
                .map(|i| Block::new(builder.pp(format!("block{i}")), train))
                .collect::<Result<_>>()?,
            norm: Norm::new(builder.pp("norm"), train)?,
            head: linear_no_bias(EMB, VOCAB, builder.pp("head"))?,
            drop: Dropout::new(DROP),
            train,
        })
    }

    /// Ids (batch, tokens) -> (batch, tokens, EMB)
    fn hidden(&self, ids: &Tensor) -> Result<Tensor> {
        let (_, tokens) = ids.dims2()?;
        let positions = Tensor::arange(0, tokens as u32, &Device::Cpu)?;
        let positions = self.positions.forward(&positions)?;
        let x = self.tokens.forward(ids)?.broadcast_add(&positions)?;
        let mut x = self.drop.forward(&x, self.train)?;
        let future = future(tokens)?;
        for block in &self.blocks {
            x = block.forward(&x, &future, &self.drop, self.train)?;
        }
        self.norm.forward(&x)
    }

    /// Ids (batch, tokens) -> logits (batch, tokens, VOCAB)
    pub fn forward(&self, ids: &Tensor) -> Result<Tensor> {
        self.head.forward(&self.hidden(ids)?)
    }

    /// Ids (batch, tokens) -> the last position's logits (batch, VOCAB)
    pub fn last(&self, ids: &Tensor) -> Result<Tensor> {
        let hidden = self.hidden(ids)?;
        let last = hidden.i((.., hidden.dim(1)? - 1, ..))?.contiguous()?;
        self.head.forward(&last)
    }
}

/// (tokens, tokens): minus infinity above the diagonal
fn future(tokens: usize) -> Result<Tensor> {
    let mask: Vec<f32> = (0..tokens * tokens)
        .map(|at| match at % tokens > at / tokens {
            true => f32::NEG_INFINITY,
            false => 0.0,
        })
        .collect();
    Tensor::from_vec(mask, (tokens, tokens), &Device::Cpu)
}
