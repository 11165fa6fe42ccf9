//! Encodes text in the steps that tokenizer.json defines.
//!
//! A text is encoded in several steps. First, the added tokens, such as `<|endoftext|>`, are
//! separated from the rest of the text. The rest is normalized and divided into pieces, which are
//! roughly words. Finally, each piece is converted to token IDs, either by a byte pair encoding or
//! character by character. Long text is cut into parts, which several threads encode in parallel.

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

/// Minimum size in bytes of the parts into which a long text is cut, so that several threads can
/// process the parts in parallel.
pub(crate) const MIN_PART: usize = 1 << 16;

/// Number of parts per thread into which a long text is cut, so that the threads can encode the
/// parts in parallel. With more than one part per thread, a thread that finishes its parts early
/// can take over parts of a slower thread.
const PARTS_PER_THREAD: usize = 4;

/// Maximum number of characters that an error message quotes from the input text.
const MAX_SHOWN: usize = 40;

/// The tables and settings with which a tokenizer encodes and decodes text.
pub(crate) struct Pipeline {
    pub(crate) added: AddedTokens,
    model: Model,
    /// Bytes of the tokens whose bytes aren't stored in the field `model`, by token ID. These are
    /// all added tokens, all tokens of a tokenizer that encodes text character by character, and
    /// those tokens of a byte pair encoding that contain a character which doesn't represent a
    /// byte.
    texts: HashMap<u32, Box<[u8]>>,
    pub(crate) vocab_size: usize,
}

/// The last step of a tokenizer, which converts each piece of the text (roughly a word) to token
/// IDs.
enum Model {
    BytePairs(Box<BytePairs>),
    Characters(Characters),
}

/// A byte pair encoding, together with the settings that determine how text is divided into pieces.
/// Each piece is encoded separately.
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

/// A part of a text that is being encoded.
enum Part<'t> {
    /// The ID of an added token.
    Token(u32),
    /// Text between added tokens, which still has to be encoded.
    Text(Cow<'t, str>),
}

/// The last step of a tokenizer, as used by a single thread: it converts pieces of a text to token
/// IDs. Each thread needs its own `PartEncoder`, because the encoder of a byte pair encoding
/// contains a cache that can't be shared.
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
        // Each added token stands for its own text, so its bytes are those of this text in UTF-8.
        // By contrast, each character of an ordinary token of a byte pair encoding represents a
        // single byte (for example, `Ġ` represents a space).
        let contents = added.iter();
        texts.extend(contents.map(|(&id, token)| (id, token.content.as_bytes().into())));
        let added = AddedTokens::new(added, spec.normalization).map_err(|error| {
            invalid(
                &spec.file,
                format!("can't build the matcher for added tokens: {error}"),
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

    /// Returns true if the vocabulary contains a token for each of the 256 bytes.
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
        // Long text is cut into parts only at positions at which GPT-2's pattern divides it anyway,
        // so cutting the text doesn't change its IDs.
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
        // Make sure that the returned error doesn't depend on the timing of the threads. If several
        // parts of the text can't be encoded, any of their errors may be reported here. Therefore,
        // encode the whole text again on one thread, which returns the error of the first of these
        // parts.
        let first_error = |error| self.encode_with_offsets(text).err().unwrap_or(error);
        let ids: Vec<Vec<u32>> = ids.map_err(first_error)?;
        let mut all = Vec::with_capacity(ids.iter().map(Vec::len).sum());
        for part in ids {
            all.extend(part); // The part is freed before the next one is copied.
        }
        Ok(all)
    }

    /// Encodes text and returns each token ID with the range of bytes in the text that the token
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

    /// Returns the ID of the token that consists of the given bytes, or `None` if there is no such
    /// token.
    pub(crate) fn id_of(&self, token: &[u8]) -> Option<u32> {
        let mut texts = self.texts.iter();
        let in_texts = texts.find(|(_, text)| ***text == *token).map(|(&id, _)| id);
        in_texts.or_else(|| match &self.model {
            Model::BytePairs(pairs) => pairs.bpe.id_of(token),
            Model::Characters(_) => None, // All tokens are in `texts`.
        })
    }

    /// Returns the byte pair encoding of this pipeline. Returns `None` if the byte pair encoding
    /// alone would encode or decode some texts differently from the pipeline.
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

    /// Returns true if a text can be cut into parts that are encoded separately without changing
    /// the IDs.
    fn can_cut(&self) -> bool {
        match &self.model {
            Model::BytePairs(pairs) => pairs.splits.is_empty() && pairs.use_regex,
            Model::Characters(_) => true,
        }
    }

    /// Returns the text with a space before it if the tokenizer adds this space to the whole text,
    /// before the text is divided into pieces. Otherwise, returns the text unchanged.
    fn with_space<'t>(&self, text: &'t str) -> Cow<'t, str> {
        match &self.model {
            Model::BytePairs(pairs) if pairs.splits.is_empty() => pairs.with_space(text),
            _ => text.into(),
        }
    }

    /// Creates an encoder that a single thread uses to encode a part of a text. `bytes` is the
    /// length of the whole text in bytes, which all threads together encode.
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

    /// Encodes the given range of `text`, which must not contain added tokens. Appends each token
    /// ID to `tokens`, together with the range of bytes in `text` that the token represents. If the
    /// tokenizer adds a space before the text, the range of this space is empty.
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

/// Divides text into pieces by several patterns, one after another: each pattern divides the pieces
/// that the previous pattern produced. Calls `each` for each of the final pieces.
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
    /// Returns the text with a space before it if the setting `add_prefix_space` is true and the
    /// text doesn't already begin with a space. Otherwise, returns the text unchanged.
    fn with_space<'t>(&self, text: &'t str) -> Cow<'t, str> {
        match self.add_prefix_space && !text.starts_with(' ') {
            true => format!(" {text}").into(),
            false => text.into(),
        }
    }

    /// Encodes text and appends its IDs to `ids`. If `use_regex` is true, the text is divided by
    /// GPT-2's pattern. Otherwise, it is encoded as a single piece.
    fn encode_piece(&self, encoder: &mut Encoder, text: &str, ids: &mut Vec<u32>) {
        match self.use_regex {
            true => encoder.encode_ordinary(text, ids),
            false => encoder.encode_piece(text, ids),
        }
    }

    /// Checks that no byte of `text` was omitted when the text was encoded as `ids`. Returns an
    /// error if the text contains a byte for which the vocabulary has no token.
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
