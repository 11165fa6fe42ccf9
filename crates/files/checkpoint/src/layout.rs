//! Describes which tensors a model file contains, and which parameters of the model each tensor
//! holds.
//!
//! The same model is stored in different ways:
//!
//! - The book's layout has one tensor per parameter, with the parameter's own name.
//! - OpenAI's layout, which Hugging Face uses, has other names. The weights of linear layers are
//!   stored as (in, out), which is the transpose of `nn.Linear`. Query, key and value are in a
//!   single tensor `c_attn`, side by side.
//! - llama.cpp's layout also has its own names and a single tensor for query, key and value, but
//!   isn't transposed.

use gpt::GptConfig;

/// The names and shapes of the tensors in a model folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// The layout of the book's `state_dict`.
    Book,
    /// The layout of `GPT2LMHeadModel` in transformers.
    HuggingFace,
}

/// A tensor in a file, and the parameters of the model that it contains.
#[derive(Clone, Debug)]
pub(crate) struct FileTensor {
    pub(crate) name: String,
    /// Shape of the tensor. If it is transposed, the shape is (in, out), where out is the sum of
    /// the output sizes of all parameters. Otherwise, the first dimension is the sum of the
    /// parameters' first dimensions.
    pub(crate) shape: Vec<usize>,
    /// Whether the parameters have the shape (out, in) and the tensor has the shape (in, out).
    pub(crate) transposed: bool,
    /// Names of the parameters in the order in which the tensor contains them. All of them have the
    /// same shape.
    pub(crate) parameters: Vec<String>,
}

impl Layout {
    /// Returns the tensors of a model. They are created one at a time because a malicious
    /// configuration may claim so many layers that a list of all tensors wouldn't fit in memory.
    pub(crate) fn tensors(self, config: &GptConfig) -> Box<dyn Iterator<Item = FileTensor>> {
        match self {
            Self::Book => Box::new(book(*config)),
            Self::HuggingFace => Box::new(openai(*config)),
        }
    }

    /// Returns the names of the token embedding and of the output layer.
    pub(crate) fn embedding_and_head(self) -> (&'static str, &'static str) {
        match self {
            Self::Book => ("tok_emb.weight", "out_head.weight"),
            Self::HuggingFace => ("transformer.wte.weight", "lm_head.weight"),
        }
    }

    /// Returns true if the tensor is a causal mask. Masks aren't weights, but PyTorch saves them
    /// because they are buffers of the model.
    pub(crate) fn is_buffer(self, name: &str) -> bool {
        let masks: &[&str] = match self {
            Self::Book => &[".att.mask"],
            Self::HuggingFace => &[".attn.bias", ".attn.masked_bias"],
        };
        masks.iter().any(|mask| name.ends_with(mask))
    }

    /// Returns the name that a tensor has in current files. In Hugging Face's layout, this function
    /// adds the prefix `transformer.` to all names except that of the output layer, because names
    /// in old files don't have this prefix.
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

/// Names of the modules. Each row contains the name of a module in the book, in OpenAI's GPT-2, and
/// in llama.cpp.
///
/// The row with `att.W_query` stands for query, key and value, which are a single module in
/// OpenAI's GPT-2 and in llama.cpp.
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

/// Returns the tensors of a model in OpenAI's layout. The matrices in blocks are transposed.
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

/// Returns the tensors of a model in llama.cpp's layout.
pub(crate) fn llama_cpp(config: GptConfig) -> impl Iterator<Item = FileTensor> {
    gpt2(config, 2, "blk.")
}

/// Returns the tensors of a model, with the names in a column of [`MODULES`]. In these layouts,
/// query, key and value always have a bias.
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
