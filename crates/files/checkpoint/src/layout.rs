//! Which tensors a model's files have, by layout, and which parameters each holds.
//!
//! Book: one tensor a parameter, by the parameter's own name.
//! GPT-2: OpenAI's names; weights are (in, out), the transpose of `nn.Linear`'s; query, key and
//! value are the thirds of one `c_attn`.

use gpt::GptConfig;

/// Whose names and shapes a folder's tensors have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// The book's `state_dict`.
    Book,
    /// transformers' `GPT2LMHeadModel`.
    HuggingFace,
}

/// One tensor of a file, and the parameters of the model it holds.
#[derive(Clone, Debug)]
pub(crate) struct FileTensor {
    /// Without `transformer.`
    pub(crate) name: String,
    /// (in, the parameters' outs side by side) if transposed; else the parameters' first dimensions
    /// one after another
    pub(crate) shape: Vec<usize>,
    /// Whether the parameters are (out, in) and the tensor is (in, out).
    pub(crate) transposed: bool,
    /// In order; all have the same size.
    pub(crate) parameters: Vec<String>,
}

impl Layout {
    /// The tensors of a model, made as they are asked for: a configuration may claim more layers
    /// than memory has bytes.
    pub(crate) fn tensors(self, config: &GptConfig) -> Box<dyn Iterator<Item = FileTensor>> {
        match self {
            Self::Book => Box::new(book(*config)),
            Self::HuggingFace => Box::new(gpt2(*config)),
        }
    }

    /// The names of the token embedding and of the output head.
    pub(crate) fn embedding_and_head(self) -> (&'static str, &'static str) {
        match self {
            Self::Book => ("tok_emb.weight", "out_head.weight"),
            Self::HuggingFace => ("wte.weight", "lm_head.weight"),
        }
    }

    /// Whether a tensor is no weight: the causal masks that PyTorch keeps as buffers.
    pub(crate) fn is_buffer(self, name: &str) -> bool {
        let (block, masks): (_, &[&str]) = match self {
            Self::Book => ("trf_blocks.", &[".att.mask"]),
            Self::HuggingFace => ("h.", &[".attn.bias", ".attn.masked_bias"]),
        };
        name.strip_prefix(block)
            .and_then(|rest| masks.iter().find_map(|mask| rest.strip_suffix(mask)))
            .is_some_and(|layer| layer.parse::<usize>().is_ok())
    }

    /// The name with the prefix that transformers gives all but the head.
    pub(crate) fn in_file(self, name: &str) -> String {
        match self {
            Self::HuggingFace if name != self.embedding_and_head().1 => {
                format!("transformer.{name}")
            }
            _ => name.to_owned(),
        }
    }

    /// The name without that prefix.
    pub(crate) fn strip_prefix(self, name: &str) -> &str {
        match self {
            Self::Book => name,
            Self::HuggingFace => name.strip_prefix("transformer.").unwrap_or(name),
        }
    }
}

fn book(config: GptConfig) -> impl Iterator<Item = FileTensor> {
    config.parameters().map(|(name, shape)| FileTensor {
        parameters: vec![name.clone()],
        name,
        shape,
        transposed: false,
    })
}

fn gpt2(config: GptConfig) -> impl Iterator<Item = FileTensor> {
    let emb = config.emb_dim;
    let same = |name: &str, shape: &[usize], parameter: &str| FileTensor {
        name: name.into(),
        shape: shape.to_vec(),
        transposed: false,
        parameters: vec![parameter.into()],
    };
    let embeddings = [
        same("wte.weight", &[config.vocab_size, emb], "tok_emb.weight"),
        same(
            "wpe.weight",
            &[config.context_length, emb],
            "pos_emb.weight",
        ),
    ];
    let block = move |i: usize| {
        let tensor = |name: &str, shape: &[usize], parameters: &[&str]| FileTensor {
            name: format!("h.{i}.{name}"),
            shape: shape.to_vec(),
            transposed: shape.len() == 2,
            parameters: parameters
                .iter()
                .map(|parameter| format!("trf_blocks.{i}.{parameter}"))
                .collect(),
        };
        let hidden = config.feed_forward_dim();
        [
            tensor("ln_1.weight", &[emb], &["norm1.scale"]),
            tensor("ln_1.bias", &[emb], &["norm1.shift"]),
            tensor(
                "attn.c_attn.weight",
                &[emb, 3 * emb],
                &[
                    "att.W_query.weight",
                    "att.W_key.weight",
                    "att.W_value.weight",
                ],
            ),
            tensor(
                "attn.c_attn.bias",
                &[3 * emb],
                &["att.W_query.bias", "att.W_key.bias", "att.W_value.bias"],
            ),
            tensor("attn.c_proj.weight", &[emb, emb], &["att.out_proj.weight"]),
            tensor("attn.c_proj.bias", &[emb], &["att.out_proj.bias"]),
            tensor("ln_2.weight", &[emb], &["norm2.scale"]),
            tensor("ln_2.bias", &[emb], &["norm2.shift"]),
            tensor("mlp.c_fc.weight", &[emb, hidden], &["ff.layers.0.weight"]),
            tensor("mlp.c_fc.bias", &[hidden], &["ff.layers.0.bias"]),
            tensor("mlp.c_proj.weight", &[hidden, emb], &["ff.layers.2.weight"]),
            tensor("mlp.c_proj.bias", &[emb], &["ff.layers.2.bias"]),
        ]
    };
    let last = [
        same("ln_f.weight", &[emb], "final_norm.scale"),
        same("ln_f.bias", &[emb], "final_norm.shift"),
    ];
    let head = (!config.tied).then(|| {
        same(
            "lm_head.weight",
            &[config.vocab_size, emb],
            "out_head.weight",
        )
    });
    embeddings
        .into_iter()
        .chain((0..config.n_layers).flat_map(block))
        .chain(last)
        .chain(head)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpt2s_layout_holds_every_parameter_once_and_nothing_else() {
        for (tied, qkv_bias, hidden_dim) in [(true, true, None), (false, false, Some(5))] {
            let config = GptConfig {
                vocab_size: 7,
                context_length: 3,
                emb_dim: 4,
                n_heads: 2,
                n_layers: 2,
                tied,
                qkv_bias,
                hidden_dim,
                ..GptConfig::GPT2_124M
            };
            let parameters = config.parameters();
            let mut expected: Vec<_> = parameters
                .map(|(name, shape)| (name, shape.iter().product::<usize>()))
                .collect();
            let mut gpt2: Vec<_> = Layout::HuggingFace
                .tensors(&config)
                .flat_map(|tensor| {
                    let len = tensor.shape.iter().product::<usize>() / tensor.parameters.len();
                    tensor.parameters.into_iter().map(move |name| (name, len))
                })
                .filter(|(name, _)| qkv_bias || !(name.contains(".W_") && name.ends_with("bias")))
                .collect();
            gpt2.sort();
            expected.sort();
            assert_eq!(gpt2, expected);
        }
    }
}
