//! The definition of GPT-2's tokenizer, from which the files of a model folder are created. The
//! resulting vocab.json and merges.txt are identical to the files that OpenAI published.

use std::collections::{BTreeMap, HashMap};

use tokenizer::bpe::{Bpe, letters_of};
use tokenizer::{ENDOFTEXT, ENDOFTEXT_ID, Gpt2Tokenizer};

use crate::added::AddedToken;
use crate::files::VOCABULARY;
use crate::normalization::Normalization;
use crate::spec::{Affixes, Form, TokenizerSpec};

/// Returns the definition of GPT-2's tokenizer.
pub(crate) fn spec() -> TokenizerSpec {
    TokenizerSpec {
        file: VOCABULARY.into(),
        vocabulary: vocabulary(),
        merges: merges(),
        added: BTreeMap::from([(ENDOFTEXT_ID, end_of_text())]),
        special: Vec::new(),
        named: [Some(ENDOFTEXT.to_owned()), Some(ENDOFTEXT.to_owned()), None],
        affixes: Affixes::default(),
        add_bos_eos: [false; 2],
        unknown: None,
        fuse_unknown: false,
        normalization: Normalization::None,
        form: Form::GPT2,
    }
}

/// Returns GPT-2's only special token.
pub(crate) fn end_of_text() -> AddedToken {
    AddedToken::new(ENDOFTEXT, true)
}

/// Returns true if `token` is GPT-2's special token, `<|endoftext|>`. The setting `normalized` of
/// the token is ignored, because it has no effect in a tokenizer that doesn't normalize text.
pub(crate) fn is_end_of_text(token: &AddedToken) -> bool {
    let normalized = false;
    let token = AddedToken {
        normalized,
        ..token.clone()
    };
    token == end_of_text()
}

/// Returns true if the vocabulary, the merges and the special token of `spec` are exactly GPT-2's.
pub(crate) fn is_gpt2(spec: &TokenizerSpec) -> bool {
    spec.form.is_gpt2()
        && spec.normalization == Normalization::None
        && spec.vocabulary.len() == Gpt2Tokenizer::new().vocab_size()
        && spec
            .added
            .iter()
            .all(|(&id, token)| id == ENDOFTEXT_ID && is_end_of_text(token))
        && spec.special.iter().all(is_end_of_text)
        && !(spec.added.is_empty() && spec.special.is_empty())
        && spec.named.iter().flatten().all(|token| token == ENDOFTEXT)
        && spec.vocabulary == vocabulary()
        && spec.merges == merges()
}

/// Returns GPT-2's tokens and their IDs. Each byte of a token is represented by a printable
/// character (see [`letters_of`]).
fn vocabulary() -> HashMap<String, u32> {
    let gpt2 = Gpt2Tokenizer::new();
    let written = |id| Some((letters_of(gpt2.piece(id)?), id));
    let mut tokens: HashMap<String, u32> = (0..ENDOFTEXT_ID).filter_map(written).collect();
    tokens.insert(ENDOFTEXT.to_owned(), ENDOFTEXT_ID);
    tokens
}

/// Returns GPT-2's BPE merges, each as a pair of tokens that are combined. Each byte of a token is
/// represented by a printable character (see [`letters_of`]).
fn merges() -> Vec<(String, String)> {
    let bpe = Bpe::gpt2();
    let token = |id: u32| letters_of(&bpe.tokens()[id as usize]);
    let merges = bpe.merges().iter();
    merges
        .map(|merge| (token(merge.left), token(merge.right)))
        .collect()
}

#[cfg(test)]
mod tests {
    use sha2::{Digest, Sha256};

    use super::*;
    use crate::files::MERGES;

    /// Tests that the files created for GPT-2's tokenizer are identical to those that OpenAI
    /// published. The files vocab.json and merges.txt must have the same SHA-256 hashes as OpenAI's
    /// encoder.json and vocab.bpe. Python's tiktoken checks the same hashes when it loads OpenAI's
    /// files.
    #[test]
    fn the_files_are_the_published_ones_byte_for_byte() {
        let files = spec().into_files().unwrap();
        let published = [
            (
                VOCABULARY,
                "196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783",
            ),
            (
                MERGES,
                "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5",
            ),
        ];
        for (name, hash) in published {
            let bytes = Sha256::digest(files[name].as_bytes());
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(hex, hash, "{name}");
        }
    }
}
