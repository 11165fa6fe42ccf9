//! Names and shapes of a model's parameters. They are derived from the model's configuration, so
//! the model doesn't have to be created.

use ndarray::{ArrayBase, IxDyn, RawData};

use crate::GptConfig;

impl GptConfig {
    /// Returns an iterator over the name and the shape of each parameter. The names and their order
    /// are the same as those that the model's method `Parameters::named_parameters` returns.
    ///
    /// The iterator creates one name at a time. A configuration from an untrusted file may contain
    /// an arbitrarily large number of layers, so a list of all names might not fit in memory.
    ///
    /// ```
    /// let (name, shape) = gpt::GptConfig::GPT2_124M.parameters().next().unwrap();
    /// assert_eq!((name.as_str(), shape), ("tok_emb.weight", vec![50257, 768]));
    /// ```
    pub fn parameters(self) -> impl Iterator<Item = (String, Vec<usize>)> {
        let (emb, hidden) = (self.emb_dim, self.feed_forward_dim());
        let named = |(name, shape): (&str, Vec<usize>)| (name.to_owned(), shape);
        let embeddings = [
            ("tok_emb.weight", vec![self.vocab_size, emb]),
            ("pos_emb.weight", vec![self.context_length, emb]),
        ];
        let block = move |i: usize| {
            [
                ("att.W_query.weight", vec![emb, emb]),
                ("att.W_query.bias", vec![emb]),
                ("att.W_key.weight", vec![emb, emb]),
                ("att.W_key.bias", vec![emb]),
                ("att.W_value.weight", vec![emb, emb]),
                ("att.W_value.bias", vec![emb]),
                ("att.out_proj.weight", vec![emb, emb]),
                ("att.out_proj.bias", vec![emb]),
                ("ff.layers.0.weight", vec![hidden, emb]),
                ("ff.layers.0.bias", vec![hidden]),
                ("ff.layers.2.weight", vec![emb, hidden]),
                ("ff.layers.2.bias", vec![emb]),
                ("norm1.scale", vec![emb]),
                ("norm1.shift", vec![emb]),
                ("norm2.scale", vec![emb]),
                ("norm2.shift", vec![emb]),
            ]
            .into_iter()
            .filter(move |(name, _)| {
                self.qkv_bias || !(name.starts_with("att.W_") && name.ends_with("bias"))
            })
            .map(move |(name, shape)| (format!("trf_blocks.{i}.{name}"), shape))
        };
        let last = [
            ("final_norm.scale", vec![emb]),
            ("final_norm.shift", vec![emb]),
        ];
        let head = (!self.tied).then(|| ("out_head.weight", vec![self.vocab_size, emb]));
        (embeddings.into_iter().map(named))
            .chain((0..self.n_layers).flat_map(block))
            .chain(last.into_iter().chain(head).map(named))
    }
}

/// Checks that two lists of parameters have the same names and shapes in the same order.
///
/// # Panics
///
/// Panics if the lists differ. The panic message describes the first difference. It starts with
/// `op`, which is the name of the function that was called with these parameters.
pub(crate) fn check_same<S: RawData, T: RawData>(
    op: &str,
    ours: &[(String, ArrayBase<S, IxDyn>)],
    theirs: &[(String, ArrayBase<T, IxDyn>)],
) {
    for i in 0..ours.len().max(theirs.len()) {
        let ours = ours.get(i).map(|(name, view)| (name, view.shape()));
        let theirs = theirs.get(i).map(|(name, view)| (name, view.shape()));
        assert!(
            ours == theirs,
            "{op}: parameter {i} is {ours:?} in one of the two models, but {theirs:?} in the other; create both models with the same configuration"
        );
    }
}
