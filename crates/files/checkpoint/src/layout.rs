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
    pub(crate) name: String,
    /// (in, the parameters' outs side by side) if transposed; otherwise the parameters' first
    /// dimensions one after another
    pub(crate) shape: Vec<usize>,
    /// True if the parameters are (out, in) and the tensor is (in, out).
    pub(crate) transposed: bool,
    /// In order; all have the same size.
    pub(crate) parameters: Vec<String>,
}

impl Layout {
    /// The tensors of a model, made one by one: a configuration may claim more layers than
    /// memory has bytes.
    pub(crate) fn tensors(self, config: &GptConfig) -> Box<dyn Iterator<Item = FileTensor>> {
        match self {
            Self::Book => Box::new(book(*config)),
            Self::HuggingFace => Box::new(openai(*config)),
        }
    }

    /// The names of the token embedding and of the output head.
    pub(crate) fn embedding_and_head(self) -> (&'static str, &'static str) {
        match self {
            Self::Book => ("tok_emb.weight", "out_head.weight"),
            Self::HuggingFace => ("transformer.wte.weight", "lm_head.weight"),
        }
    }

    /// True for a tensor that isn't a weight: the causal masks that PyTorch keeps as buffers.
    pub(crate) fn is_buffer(self, name: &str) -> bool {
        let masks: &[&str] = match self {
            Self::Book => &[".att.mask"],
            Self::HuggingFace => &[".attn.bias", ".attn.masked_bias"],
        };
        masks.iter().any(|mask| name.ends_with(mask))
    }

    /// The name with the prefix that transformers gives all but the head, and old files lack.
    pub(crate) fn in_file(self, name: &str) -> String {
        match self {
            Self::HuggingFace if !name.starts_with("transformer.") && name != "lm_head.weight" => {
                format!("transformer.{name}")
            }
            _ => name.to_owned(),
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

/// A module's name in the book's models, in OpenAI's GPT-2 and in llama.cpp's.
///
/// Where the book has query, key and value, the others have one module of all three.
const MODULES: [[&str; 3]; 10] = [
    ["tok_emb", "wte", "token_embd"],
    ["pos_emb", "wpe", "position_embd"],
    ["att.W_query", "attn.c_attn", "attn_qkv"],
    ["att.out_proj", "attn.c_proj", "attn_output"],
    ["ff.layers.0", "mlp.c_fc", "ffn_up"],
    ["ff.layers.2", "mlp.c_proj", "ffn_down"],
    ["norm1", "ln_1", "attn_norm"],
    ["norm2", "ln_2", "ffn_norm"],
    ["final_norm", "ln_f", "output_norm"],
    ["out_head", "lm_head", "output"],
];

/// OpenAI's tensors of a model: the matrices of a block are transposed.
fn openai(config: GptConfig) -> impl Iterator<Item = FileTensor> {
    gpt2(config, 1, "h.").map(|mut tensor| {
        tensor.transposed = tensor.name.starts_with("h.") && tensor.shape.len() == 2;
        if tensor.transposed {
            tensor.shape.reverse();
        }
        tensor.name = Layout::HuggingFace.in_file(&tensor.name);
        tensor
    })
}

/// llama.cpp's tensors of a model.
pub(crate) fn llama_cpp(config: GptConfig) -> impl Iterator<Item = FileTensor> {
    gpt2(config, 2, "blk.")
}

/// GPT-2's tensors, which always have biases, by the names in a column of [`MODULES`].
fn gpt2(
    config: GptConfig,
    column: usize,
    blocks: &'static str,
) -> impl Iterator<Item = FileTensor> {
    let biased = GptConfig {
        qkv_bias: true,
        ..config
    };
    biased.parameters().filter_map(move |(name, mut shape)| {
        let (module, kind) = name.rsplit_once('.')?;
        let of_block = module.strip_prefix("trf_blocks.");
        let (block, module) = match of_block.and_then(|rest| rest.split_once('.')) {
            Some((i, module)) => (format!("{blocks}{i}."), module),
            None => (String::new(), module),
        };
        let module = MODULES.iter().find(|names| names[0] == module)?[column];
        let kind = match kind {
            "scale" => "weight",
            "shift" => "bias",
            kind => kind,
        };
        let parameters = match name.contains("W_query") {
            true => ["W_query", "W_key", "W_value"]
                .map(|part| name.replace("W_query", part))
                .to_vec(),
            false => vec![name.clone()],
        };
        shape[0] *= parameters.len();
        Some(FileTensor {
            name: format!("{block}{module}.{kind}"),
            shape,
            transposed: false,
            parameters,
        })
    })
}
