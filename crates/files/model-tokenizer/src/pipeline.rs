//! Encoding text in the steps that tokenizer.json defines.
//!
//! Added tokens are separated from the rest of the text, which is then normalized and divided into
//! pieces. Each piece is encoded as byte pairs or as characters. Long text is cut into parts that
//! several threads encode at the same time.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::{Arc, LazyLock};

use rayon::prelude::*;
use tokenizer::bpe::{
    Bpe, Encoder, EncodingRules, Merge, bytes_of_letters, gpt2_parts, gpt2_piece,
};
use tokenizer::{ENDOFTEXT, ENDOFTEXT_ID};

use crate::added::AddedTokens;
use crate::error::{ModelTokenizerError, invalid};
use crate::gpt2;
use crate::normalization::Normalization;
use crate::spec::{Form, TokenizerSpec, with_ids};
use crate::split::Split;

/// Smallest size in bytes of the parts into which a long text is cut.
pub(crate) const MIN_PART: usize = 1 << 16;

/// Number of parts per thread. Because there are several, a thread that finishes early can take
/// over parts from a slower thread.
const PARTS_PER_THREAD: usize = 4;

/// Largest number of characters of the input text that an error message shows.
const MAX_SHOWN: usize = 40;

/// The tables and settings that a tokenizer needs for encoding and decoding text.
pub(crate) struct Pipeline {
    pub(crate) added: AddedTokens,
    model: Model,
    /// Bytes of the tokens that `model` doesn't store: added tokens, vocabulary entries with
    /// characters that don't represent a byte, and all tokens of a vocabulary of characters.
    texts: HashMap<u32, Box<[u8]>>,
    pub(crate) vocab_size: usize,
}

/// The model, which encodes each piece in the last step.
enum Model {
    BytePairs(Box<BytePairs>),
    Characters(Characters),
}

/// A model that divides text into pieces and encodes each piece as byte pairs.
struct BytePairs {
    bpe: Cow<'static, Bpe>,
    splits: Vec<Split>,
    add_prefix_space: bool,
    use_regex: bool,
}

struct Characters {
    ids: HashMap<char, u32>,
    unknown: u32,
}

/// A part of a text.
enum Part<'t> {
    /// The ID of an added token.
    Token(u32),
    /// Text that remains to be encoded.
    Text(Cow<'t, str>),
}

/// The model together with the cache of one thread.
enum PartEncoder<'p> {
    BytePairs(&'p BytePairs, Encoder<'p>),
    Characters(&'p Characters),
}

impl Pipeline {
    /// Returns GPT-2's pipeline, which is created once per process.
    pub(crate) fn gpt2() -> Arc<Self> {
        static GPT2: LazyLock<Arc<Pipeline>> = LazyLock::new(|| {
            let tokens = BTreeMap::from([(ENDOFTEXT_ID, gpt2::end_of_text())]);
            let added = AddedTokens::new(tokens, Normalization::None);
            Arc::new(Pipeline {
                added: added.expect("a search for one token"),
                vocab_size: Bpe::gpt2().vocab_size(),
                model: Model::BytePairs(Box::new(BytePairs {
                    bpe: Cow::Borrowed(Bpe::gpt2()),
                    splits: Vec::new(),
                    add_prefix_space: false,
                    use_regex: true,
                })),
                texts: HashMap::new(),
            })
        });
        GPT2.clone()
    }

    /// Creates the pipeline of a tokenizer.
    ///
    /// # Errors
    /// Returns [`ModelTokenizerError::Invalid`] if the parts of the tokenizer contradict each
    /// other.
    pub(crate) fn new(spec: &TokenizerSpec) -> Result<Arc<Self>, ModelTokenizerError> {
        if gpt2::is_gpt2(spec) {
            return Ok(Self::gpt2());
        }
        spec.check()?;
        let added = with_ids(spec);
        let ids = spec.vocabulary.values().chain(added.keys());
        let vocab_size = ids.max().map_or(0, |&id| id as usize + 1);
        let mut texts = HashMap::new();
        let model = match &spec.form {
            Form::ByteLevel {
                splits,
                add_prefix_space,
                use_regex,
                ignore_merges,
            } => {
                let mut tokens = vec![Vec::new(); vocab_size];
                for (token, &id) in &spec.vocabulary {
                    match bytes_of_letters(token).filter(|bytes| !bytes.is_empty()) {
                        Some(bytes) => tokens[id as usize] = bytes,
                        None => drop(texts.insert(id, token.as_bytes().into())),
                    }
                }
                let id = |token: &str| spec.vocabulary[token]; // `check` has found all tokens.
                let merges = spec.merges.iter().map(|(left, right)| Merge {
                    left: id(left),
                    right: id(right),
                    id: id(&format!("{left}{right}")),
                });
                let rules = EncodingRules {
                    ignore_merges: *ignore_merges,
                    unknown: spec.unknown.as_deref().map(id),
                    fuse_unknown: spec.fuse_unknown,
                };
                let bpe = Bpe::with_rules(tokens, merges.collect(), gpt2_piece, rules);
                Model::BytePairs(Box::new(BytePairs {
                    bpe: Cow::Owned(bpe.expect("each id of a merge is in the vocabulary")),
                    splits: splits.clone(),
                    add_prefix_space: *add_prefix_space,
                    use_regex: *use_regex,
                }))
            }
            Form::Characters => {
                let tokens = spec.vocabulary.iter();
                texts.extend(tokens.map(|(token, &id)| (id, token.as_bytes().into())));
                let tokens = spec.vocabulary.iter().filter_map(|(token, &id)| {
                    let mut characters = token.chars();
                    let first = characters.next()?;
                    characters.next().is_none().then_some((first, id))
                });
                let unknown = spec.unknown.as_ref().map(|token| spec.vocabulary[token]);
                Model::Characters(Characters {
                    ids: tokens.collect(),
                    unknown: unknown.expect("characters are read with an unknown token alone"),
                })
            }
        };
        // Added tokens are looked up in the text itself. Unlike those of other tokens, the
        // characters of an added token therefore represent themselves and not bytes.
        let contents = added.iter();
        texts.extend(contents.map(|(&id, token)| (id, token.content.as_bytes().into())));
        let added = AddedTokens::new(added, spec.normalization).map_err(|error| {
            invalid(
                &spec.file,
                format!("can't build the matcher that finds added tokens in a text: {error}"),
            )
        })?;
        Ok(Arc::new(Self {
            added,
            model,
            texts,
            vocab_size,
        }))
    }

    /// Returns the bytes of the token `id`, or `None` if no token has this ID.
    pub(crate) fn piece(&self, id: u32) -> Option<&[u8]> {
        let text = self.texts.get(&id).map(AsRef::as_ref);
        text.or_else(|| match &self.model {
            Model::BytePairs(pairs) => {
                let piece = pairs.bpe.tokens().get(id as usize).map(Vec::as_slice);
                piece.filter(|piece| !piece.is_empty()) // An empty token isn't used.
            }
            Model::Characters(_) => None,
        })
    }

    /// Returns true if each byte has a token.
    pub(crate) fn has_all_bytes(&self) -> bool {
        match &self.model {
            Model::BytePairs(pairs) => !(0..=255).any(|byte| pairs.bpe.lacks(byte)),
            Model::Characters(_) => false,
        }
    }

    /// Encodes text and returns its token IDs.
    ///
    /// # Errors
    /// Returns [`ModelTokenizerError::UnknownByte`] or [`ModelTokenizerError::LeftOut`] if a part
    /// of the text can't be encoded.
    pub(crate) fn encode(&self, text: &str) -> Result<Vec<u32>, ModelTokenizerError> {
        let segments = self.added.segments(text);
        let parts = segments.iter().flat_map(|segment| {
            segment.parts.iter().map(|(id, range)| match id {
                Some(id) => Part::Token(*id),
                None => Part::Text(self.with_space(&segment.text[range.clone()])),
            })
        });
        let parts: Vec<Part> = parts.collect();
        // A long part is cut only at positions at which GPT-2's pattern divides it anyway.
        let least = MIN_PART.max(text.len() / (PARTS_PER_THREAD * rayon::current_num_threads()));
        let mut cut = Vec::with_capacity(parts.len());
        for part in &parts {
            match part {
                Part::Text(text) if self.can_cut() => {
                    let texts = gpt2_parts(text, least).into_iter();
                    cut.extend(texts.map(|text| Part::Text(text.into())));
                }
                Part::Text(text) => cut.push(Part::Text((&**text).into())),
                Part::Token(id) => cut.push(Part::Token(*id)),
            }
        }
        let ids = cut.par_iter().try_fold(
            || (self.encoder(text.len()), Vec::new()),
            |(mut encoder, mut ids), part| {
                match part {
                    Part::Token(id) => ids.push(*id),
                    Part::Text(text) => encoder.encode(text, &mut ids)?,
                }
                Ok((encoder, ids))
            },
        );
        let ids = ids.map(|part| part.map(|(_, ids)| ids));
        let ids = ids.collect::<Result<Vec<_>, ModelTokenizerError>>();
        // If several parts can't be encoded, the threads return the error of any of them. Encoding
        // the text again on one thread finds the first error.
        let first_error = |error| self.encode_with_offsets(text).err().unwrap_or(error);
        let ids: Vec<Vec<u32>> = ids.map_err(first_error)?;
        let mut all = Vec::with_capacity(ids.iter().map(Vec::len).sum());
        for part in ids {
            all.extend(part); // The part is freed before the next one is copied.
        }
        Ok(all)
    }

    /// Encodes text and returns each ID with the range of bytes in the text that the token
    /// represents.
    ///
    /// # Errors
    /// Returns the same errors as [`encode`](Self::encode).
    pub(crate) fn encode_with_offsets(
        &self,
        text: &str,
    ) -> Result<Vec<(u32, Range<usize>)>, ModelTokenizerError> {
        let (mut encoder, mut all) = (self.encoder(text.len()), Vec::new());
        for segment in self.added.segments(text) {
            let mut tokens = Vec::new();
            for (id, range) in segment.parts {
                match id {
                    Some(id) => tokens.push((id, range)),
                    None => encoder.encode_with_offsets(&segment.text, range, &mut tokens)?,
                }
            }
            if let Cow::Owned(_) = segment.text {
                let text = &text[segment.range.clone()];
                let origins = self.added.normalization().origins(text);
                let origin = |position: usize| match origins.get(position) {
                    Some(origin) => origin.clone(),
                    None => text.len()..text.len(),
                };
                for (_, range) in &mut tokens {
                    let start = origin(range.start).start;
                    *range = match range.len() {
                        0 => start..start,
                        _ => start..origin(range.end - 1).end,
                    };
                }
            }
            let start = segment.range.start;
            let placed =
                |(id, range): (u32, Range<usize>)| (id, start + range.start..start + range.end);
            all.extend(tokens.into_iter().map(placed));
        }
        Ok(all)
    }

    /// Returns the ID of the token that consists of the given bytes, or `None` if there is none.
    pub(crate) fn id_of(&self, token: &[u8]) -> Option<u32> {
        let mut texts = self.texts.iter();
        let in_texts = texts.find(|(_, text)| ***text == *token).map(|(&id, _)| id);
        in_texts.or_else(|| match &self.model {
            Model::BytePairs(pairs) => pairs.bpe.id_of(token),
            Model::Characters(_) => None, // All tokens are in `texts`.
        })
    }

    /// Returns the byte pair encoding, or `None` if it would encode or decode some text in a
    /// different way than this pipeline.
    pub(crate) fn bpe(&self) -> Option<&Bpe> {
        let Model::BytePairs(pairs) = &self.model else {
            return None;
        };
        let mut added = self.added.tokens().iter();
        let has_end_only = added.all(|(&id, token)| {
            gpt2::is_end_of_text(token) && pairs.bpe.id_of(ENDOFTEXT.as_bytes()) == Some(id)
        });
        let is_gpt2_form = pairs.splits.is_empty()
            && pairs.use_regex
            && !pairs.add_prefix_space
            && self.added.normalization() == Normalization::None;
        let has_other_texts = self
            .texts
            .keys()
            .any(|id| !self.added.tokens().contains_key(id));
        let is_complete =
            !self.added.tokens().is_empty() && self.has_all_bytes() && !has_other_texts;
        (has_end_only && is_gpt2_form && is_complete).then_some(&pairs.bpe)
    }

    /// Returns true if text can be cut into parts that are encoded separately.
    fn can_cut(&self) -> bool {
        match &self.model {
            Model::BytePairs(pairs) => pairs.splits.is_empty() && pairs.use_regex,
            Model::Characters(_) => true,
        }
    }

    /// Returns the text with a space before it if the tokenizer adds a space before it divides the
    /// text into pieces. Otherwise, returns the text unchanged.
    fn with_space<'t>(&self, text: &'t str) -> Cow<'t, str> {
        match &self.model {
            Model::BytePairs(pairs) if pairs.splits.is_empty() => pairs.with_space(text),
            _ => text.into(),
        }
    }

    /// Returns an encoder for text with `bytes` bytes in total. Each thread needs its own encoder.
    fn encoder(&self, bytes: usize) -> PartEncoder<'_> {
        match &self.model {
            Model::BytePairs(pairs) => PartEncoder::BytePairs(pairs, pairs.bpe.encoder(bytes)),
            Model::Characters(characters) => PartEncoder::Characters(characters),
        }
    }
}

impl PartEncoder<'_> {
    /// Encodes text that contains no added tokens, and appends its IDs to `ids`.
    fn encode(&mut self, text: &str, ids: &mut Vec<u32>) -> Result<(), ModelTokenizerError> {
        match self {
            Self::BytePairs(pairs, encoder) => {
                let start = ids.len();
                match &pairs.splits[..] {
                    [] => pairs.encode_piece(encoder, text, ids),
                    splits => divide(splits, text, &mut |part| {
                        pairs.encode_piece(encoder, &pairs.with_space(part), ids);
                    })?,
                }
                pairs.check(text, &ids[start..])
            }
            Self::Characters(characters) => {
                ids.extend(text.chars().map(|c| characters.id_of(c)));
                Ok(())
            }
        }
    }

    /// Encodes the given range of `text`, which must not contain added tokens, and appends each ID
    /// to `tokens` with the range of bytes in `text` that the token represents. A space that the
    /// tokenizer adds before the text has an empty range.
    fn encode_with_offsets(
        &mut self,
        text: &str,
        range: Range<usize>,
        tokens: &mut Vec<(u32, Range<usize>)>,
    ) -> Result<(), ModelTokenizerError> {
        let mut at = range.start;
        let text = &text[range];
        let (pairs, encoder) = match self {
            Self::BytePairs(pairs, encoder) => (*pairs, encoder),
            Self::Characters(characters) => {
                tokens.extend(text.chars().map(|c| {
                    let start = at;
                    at += c.len_utf8();
                    (characters.id_of(c), start..at)
                }));
                return Ok(());
            }
        };
        let first = tokens.len();
        divide(&pairs.splits, text, &mut |part| {
            let (spaced, first) = (pairs.with_space(part), tokens.len());
            match pairs.use_regex {
                true => encoder.encode_ordinary_with_offsets(&spaced, at, tokens),
                false => encoder.encode_piece_with_offsets(&spaced, at, tokens),
            }
            let space = spaced.len() - part.len();
            let moved = |place: usize| place.saturating_sub(space).max(at);
            for (_, range) in &mut tokens[first..] {
                *range = moved(range.start)..moved(range.end);
            }
            at += part.len();
        })?;
        let ids: Vec<u32> = tokens[first..].iter().map(|(id, _)| *id).collect();
        pairs.check(text, &ids)
    }
}

/// Divides text by several patterns, each of which divides the pieces of the pattern before it, and
/// calls `each` for the resulting pieces.
///
/// # Errors
/// Returns [`ModelTokenizerError::LeftOut`] if a pattern must match the whole text but doesn't.
fn divide(
    splits: &[Split],
    text: &str,
    each: &mut impl FnMut(&str),
) -> Result<(), ModelTokenizerError> {
    let Some((split, rest)) = splits.split_first() else {
        each(text);
        return Ok(());
    };
    for (piece, is_match) in split.pieces(text) {
        if split.must_match_all && !is_match {
            let text = piece.chars().take(MAX_SHOWN).collect();
            return Err(ModelTokenizerError::LeftOut { text });
        }
        divide(rest, piece, each)?;
    }
    Ok(())
}

impl BytePairs {
    /// Returns the text with a space before it if the tokenizer adds a space. Otherwise, returns
    /// the text unchanged.
    fn with_space<'t>(&self, text: &'t str) -> Cow<'t, str> {
        match self.add_prefix_space && !text.starts_with(' ') {
            true => format!(" {text}").into(),
            false => text.into(),
        }
    }

    /// Encodes text and appends its IDs to `ids`. The text is divided by GPT-2's pattern if
    /// `use_regex` is true. Otherwise, it is a single piece.
    fn encode_piece(&self, encoder: &mut Encoder, text: &str, ids: &mut Vec<u32>) {
        match self.use_regex {
            true => encoder.encode_ordinary(text, ids),
            false => encoder.encode_piece(text, ids),
        }
    }

    /// Returns an error if `ids`, the IDs of `text`, show that a byte of the text has no token.
    fn check(&self, text: &str, ids: &[u32]) -> Result<(), ModelTokenizerError> {
        match self.bpe.missing_byte(text, ids) {
            Some(byte) => Err(ModelTokenizerError::UnknownByte { byte }),
            None => Ok(()),
        }
    }
}

impl Characters {
    fn id_of(&self, c: char) -> u32 {
        self.ids.get(&c).copied().unwrap_or(self.unknown)
    }
}
