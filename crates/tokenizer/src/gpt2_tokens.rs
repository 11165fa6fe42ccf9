//! GPT-2's tokens, from tiktoken-rs, which has the vocabulary inside: nothing is downloaded.

/// GPT-2's one special token: the end of a document.
pub const ENDOFTEXT: &str = "<|endoftext|>";

/// The id of [`ENDOFTEXT`].
pub const ENDOFTEXT_ID: u32 = 50_256;

/// The number of GPT-2's tokens: 256 bytes, 50,000 merges and `<|endoftext|>`.
pub(crate) const VOCAB_SIZE: usize = 50_257;

/// The bytes of all tokens, in the order of their ids.
pub(crate) fn gpt2_tokens() -> Vec<Vec<u8>> {
    let vocabulary = tiktoken_rs::r50k_base().expect("tiktoken-rs holds GPT-2's vocabulary");
    let piece = |id| vocabulary.decode_bytes(&[id]);
    let pieces = (0..VOCAB_SIZE as u32).map(piece);
    let pieces = pieces.collect::<Result<_, _>>();
    pieces.expect("GPT-2's vocabulary has every id below 50,257")
}
