//! Human-readable output of configurations and models. Each line consists of a name and a value.

use std::fmt;

use tensor_ops::Parameters;

use crate::{Activation, DropRates, GptConfig, GptModel, ModelSize};

/// Writes the sizes and settings of the configuration. Also writes the number of parameters, unless
/// the weights are too large for the address space.
impl fmt::Display for GptConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head_dim = self.emb_dim.checked_div(self.n_heads).unwrap_or(0);
        let hidden_dim = self.feed_forward_dim();
        writeln!(f, "layers          {}", self.n_layers)?;
        writeln!(
            f,
            "heads           {} per layer, with {head_dim} features each",
            self.n_heads
        )?;
        writeln!(
            f,
            "features        {} per token, {hidden_dim} inside the feed-forward network",
            self.emb_dim
        )?;
        writeln!(f, "context         {} tokens", self.context_length)?;
        writeln!(f, "vocabulary      {} tokens", self.vocab_size)?;
        writeln!(f, "dropout         {}", self.drop_rates)?;
        let biases = if self.qkv_bias { "have" } else { "don't have" };
        writeln!(
            f,
            "biases          the query, key and value layers {biases} biases"
        )?;
        match self.activation {
            Activation::GeluTanh => {}
            Activation::Gelu => writeln!(
                f,
                "activation      exact GELU instead of the tanh approximation"
            )?,
            Activation::Relu => writeln!(f, "activation      ReLU")?,
        }
        let head = match self.tied {
            true => "has the weights of the token embedding",
            false => "has its own weights",
        };
        write!(f, "output head     {head}")?;
        match self.size() {
            Ok(size) => write!(f, "\n{size}"),
            Err(_) => Ok(()),
        }
    }
}

/// Writes the dropout rates of a model. If all three rates are equal, this is a single number, such
/// as `0.1`. Otherwise, it is a list such as `0.1 on embeddings, 0 on attention weights, 0.2 on
/// shortcuts`.
impl fmt::Display for DropRates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.common() {
            Some(rate) => write!(f, "{rate}"),
            None => write!(
                f,
                "{} on embeddings, {} on attention weights, {} on shortcuts",
                self.emb, self.attention, self.shortcut
            ),
        }
    }
}

/// Writes the number of parameters of a model in two lines. The first line contains the number of
/// all parameters, and the second line contains the number without the output head.
impl fmt::Display for ModelSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (total, without) = (self.total(), self.without_out_head());
        writeln!(f, "parameters      {}", thousands(total))?;
        write!(f, "  without head  {}", thousands(without))
    }
}

/// Writes the model's configuration, and then one line for each parameter array with its name, its
/// shape and its number of elements.
impl fmt::Display for GptModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.config())?;
        for (name, tensor) in self.named_parameters() {
            let shape = format!("{:?}", tensor.shape());
            write!(
                f,
                "\n  {name:<34} {shape:<16} {:>13}",
                thousands(tensor.len())
            )?;
        }
        Ok(())
    }
}

/// Formats a number with thousands separators, such as `124,412,160`.
fn thousands(n: usize) -> String {
    let digits = n.to_string();
    let mut shown = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_shows_its_shapes_and_every_tensor() {
        let config = GptConfig {
            vocab_size: 1000,
            context_length: 8,
            emb_dim: 12,
            n_heads: 3,
            n_layers: 2,
            activation: Activation::Relu,
            ..GptConfig::GPT2_124M
        };
        let shown = GptModel::zeros(config).unwrap().to_string();
        for line in [
            "heads           3 per layer, with 4 features each",
            "activation      ReLU",
            "output head     has its own weights",
            "parameters      27,816",
            "  without head  15,816",
            "  tok_emb.weight                     [1000, 12]              12,000",
            "  trf_blocks.1.att.W_query.weight    [12, 12]                   144",
        ] {
            assert!(
                shown.lines().any(|shown| shown == line),
                "{line:?} in\n{shown}"
            );
        }
    }
}
