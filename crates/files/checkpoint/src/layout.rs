//! Describes the tensors in a weight file, and which parameters of the model each tensor contains.
//!
//! The same model can be stored in three layouts:
//!
//! - In the book's layout, each parameter is stored in a tensor that has the same name.
//! - In OpenAI's layout, which Hugging Face uses, tensors have different names. The weights of the
//!   linear layers in the blocks are stored in the shape (in, out), which is the transpose of
//!   `nn.Linear`. The weights for query, key and value are stored side by side in a single tensor,
//!   `c_attn`.
//! - In llama.cpp's layout, tensors have yet other names. As in OpenAI's layout, the weights for
//!   query, key and value are stored in a single tensor, but nothing is transposed.

use gpt::GptConfig;

/// The names and shapes of the tensors in a model folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// The layout of the book's `state_dict`.
    Book,
    /// The layout of `GPT2LMHeadModel` in transformers.
    HuggingFace,
}

/// The description of a tensor in a weight file, which contains one or more parameters of the
/// model.
#[derive(Clone, Debug)]
pub(crate) struct FileTensor {
    pub(crate) name: String,
    /// Shape of the tensor in the file. If the tensor contains several parameters, they are
    /// concatenated along the last axis if the tensor is transposed, and along the first axis
    /// otherwise.
    pub(crate) shape: Vec<usize>,
    /// Whether the file stores the tensor transposed, in the shape (in, out), although the
    /// corresponding parameters of the model have the shape (out, in).
    pub(crate) transposed: bool,
    /// Names of the parameters, in the order in which they are concatenated in the tensor. All of
    /// these parameters have the same shape.
    pub(crate) parameters: Vec<String>,
}

impl Layout {
    /// Returns the descriptions of all tensors in a model's weight file. The descriptions are
    /// created one at a time, because a malicious configuration may claim so many layers that a
    /// list of all descriptions wouldn't fit in memory.
    pub(crate) fn tensors(self, config: &GptConfig) -> Box<dyn Iterator<Item = FileTensor>> {
        match self {
            Self::Book => Box::new(book(*config)),
            Self::HuggingFace => Box::new(openai(*config)),
        }
    }

    /// Returns the names of two tensors in this layout: the token embedding and the output layer.
    pub(crate) fn embedding_and_head(self) -> (&'static str, &'static str) {
        match self {
            Self::Book => ("tok_emb.weight", "out_head.weight"),
            Self::HuggingFace => ("transformer.wte.weight", "lm_head.weight"),
        }
    }

    /// Returns true if the tensor `name` is a causal mask. Causal masks aren't weights, but PyTorch
    /// saves them with the weights because they are buffers of the model.
    pub(crate) fn is_buffer(self, name: &str) -> bool {
        let masks: &[&str] = match self {
            Self::Book => &[".att.mask"],
            Self::HuggingFace => &[".attn.bias", ".attn.masked_bias"],
        };
        masks.iter().any(|mask| name.ends_with(mask))
    }

    /// Converts the name of a tensor in an old file to the name that current files use. In old
    /// files with Hugging Face's layout, the names don't begin with `transformer.`, so this method
    /// adds the prefix to all names except `lm_head.weight`. Current names aren't changed.
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

/// Names of the model's modules. Each row contains the names of one module in the three layouts:
/// the book's, OpenAI's, and llama.cpp's.
///
/// For the book's query, key and value layers, this table has only one row, which begins with
/// `att.W_query`. The reason is that these three layers are a single module in OpenAI's and
/// llama.cpp's layouts.
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

/// Returns the descriptions of a model's tensors in OpenAI's layout. The matrices in the blocks are
/// transposed.
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

/// Returns the descriptions of a model's tensors in llama.cpp's layout.
pub(crate) fn llama_cpp(config: GptConfig) -> impl Iterator<Item = FileTensor> {
    gpt2(config, 2, "blk.")
}

/// Returns the descriptions of a model's tensors in OpenAI's or llama.cpp's layout, before any
/// matrices are transposed. The names are taken from the given column of [`MODULES`]: 1 for OpenAI
/// and 2 for llama.cpp. The names of tensors in blocks begin with `blocks`. In both layouts, query,
/// key and value always have biases.
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
