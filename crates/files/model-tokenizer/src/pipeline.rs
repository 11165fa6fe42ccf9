//! A text to ids, in the steps of tokenizer.json: added tokens and normalization, pieces, byte
//! pairs or characters.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::{Arc, LazyLock};

use rayon::prelude::*;
use tokenizer::bpe::{
    Bpe, Encoder, EncodingRules, Merge, bytes_of_letters, gpt2_parts, gpt2_piece,
};
use tokenizer::{ENDOFTEXT, ENDOFTEXT_ID};

use crate::added::{AddedToken, AddedTokens, Content};
use crate::error::{ModelTokenizerError, invalid};
use crate::gpt2;
use crate::normalization::Normalization;
use crate::spec::{Form, TokenizerSpec, with_ids};
use crate::split::Split;

/// A text is cut into parts of at least so many bytes, which are encoded on several threads.
pub(crate) const MIN_PART: usize = 1 << 16;

/// Parts for each thread: a slow part holds up little.
const PARTS_PER_THREAD: usize = 4;

/// The longest part of a text in an error message, in characters.
const MAX_SHOWN: usize = 40;

/// What makes ids of a text, and text of ids.
pub(crate) struct Pipeline {
    pub(crate) added: AddedTokens,
    model: Model,
    /// The texts of tokens whose bytes aren't those in the model.
    texts: HashMap<u32, Box<[u8]>>,
    pub(crate) vocab_size: usize,
}

/// The last step.
enum Model {
    BytePairs(Box<BytePairs>),
    Characters(Characters),
}

/// Divides a text into pieces and merges their bytes.
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

/// The last step with what a thread remembers.
enum PartEncoder<'p> {
    BytePairs(&'p BytePairs, Encoder<'p>),
    Characters(&'p Characters),
}

impl Pipeline {
    /// GPT-2's, which is made once in a process.
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

    /// The steps of a specification.
    ///
    /// # Errors
    /// [`ModelTokenizerError::Invalid`] if its parts don't fit together.
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
                let id = |token: &str| spec.vocabulary[token]; // checked
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
        // An added token is found in the text itself, before that is written in letters.
        let contents = added.iter();
        texts.extend(contents.map(|(&id, token)| (id, token.content.as_bytes().into())));
        let added = AddedTokens::new(added, spec.normalization)
            .map_err(|error| invalid(&spec.file, format!("the added tokens: {error}")))?;
        Ok(Arc::new(Self {
            added,
            model,
            texts,
            vocab_size,
        }))
    }

    /// The bytes of a token; `None` if no token has this id.
    pub(crate) fn piece(&self, id: u32) -> Option<&[u8]> {
        let text = self.texts.get(&id).map(AsRef::as_ref);
        text.or_else(|| match &self.model {
            Model::BytePairs(pairs) => {
                let piece = pairs.bpe.tokens().get(id as usize).map(Vec::as_slice);
                piece.filter(|piece| !piece.is_empty()) // an id without a token
            }
            Model::Characters(_) => None,
        })
    }

    /// True if every byte has a token.
    pub(crate) fn has_all_bytes(&self) -> bool {
        match &self.model {
            Model::BytePairs(pairs) => !(0..=255).any(|byte| pairs.bpe.lacks(byte)),
            Model::Characters(_) => false,
        }
    }

    /// Returns the ids of a text.
    ///
    /// # Errors
    /// [`ModelTokenizerError::UnknownByte`] and [`ModelTokenizerError::LeftOut`].
    pub(crate) fn encode(&self, text: &str) -> Result<Vec<u32>, ModelTokenizerError> {
        let parts = self.added.parts(text).into_iter();
        let mut parts: Vec<Content> = parts.map(|part| part.content).collect();
        parts.iter_mut().for_each(|part| self.add_space(part));
        // Parts are divided further where the pattern divides them anyway.
        let least = MIN_PART.max(text.len() / (PARTS_PER_THREAD * rayon::current_num_threads()));
        let mut cut = Vec::with_capacity(parts.len());
        for part in &parts {
            match part {
                Content::Text(text) if self.can_cut() => {
                    let texts = gpt2_parts(text, least, |_| false).into_iter();
                    cut.extend(texts.map(|text| Content::Text(text.into())));
                }
                Content::Text(text) => cut.push(Content::Text((&**text).into())),
                Content::Token(id) => cut.push(Content::Token(*id)),
            }
        }
        let ids = cut.par_iter().try_fold(
            || (self.encoder(text.len()), Vec::new()),
            |(mut encoder, mut ids), part| {
                match part {
                    Content::Token(id) => ids.push(*id),
                    Content::Text(text) => encoder.encode(text, &mut ids)?,
                }
                Ok((encoder, ids))
            },
        );
        let ids = ids.map(|part| part.map(|(_, ids)| ids));
        let ids: Vec<Vec<u32>> = ids.collect::<Result<_, ModelTokenizerError>>()?;
        let mut all = Vec::with_capacity(ids.iter().map(Vec::len).sum());
        for part in ids {
            all.extend(part); // whose memory is given back before the next
        }
        Ok(all)
    }

    /// Returns the ids of a text, each with the bytes of the text that it stands for.
    ///
    /// # Errors
    /// Those of [`encode`](Self::encode).
    pub(crate) fn encode_with_offsets(
        &self,
        text: &str,
    ) -> Result<Vec<(u32, Range<usize>)>, ModelTokenizerError> {
        let mut encoder = self.encoder(text.len());
        let mut all = Vec::new();
        let (mut origins, mut origins_of) = (Vec::new(), None);
        for mut part in self.added.parts(text) {
            let segment = part.segment.clone();
            if part.is_changed && origins_of != Some(segment.start) {
                origins = self.added.normalization().origins(&text[segment.clone()]);
                origins_of = Some(segment.start);
            }
            let ids = match &part.content {
                Content::Token(id) => vec![(*id, 0..part.range.len())],
                Content::Text(text) => {
                    let (text, mut ids) = (text.clone(), Vec::new());
                    self.add_space(&mut part.content);
                    if let Content::Text(spaced) = &part.content {
                        encoder.encode(spaced, &mut ids)?;
                    }
                    self.offsets(&text, ids)
                }
            };
            for (id, range) in ids {
                let (mut start, mut end) =
                    (part.range.start + range.start, part.range.start + range.end);
                if part.is_changed {
                    let origin = |at: usize| {
                        origins
                            .get(at)
                            .cloned()
                            .unwrap_or(segment.len()..segment.len())
                    };
                    (start, end) = match start < end {
                        true => (origin(start).start, origin(end - 1).end),
                        false => (origin(start).start, origin(start).start),
                    };
                }
                all.push((id, segment.start + start..segment.start + end));
            }
        }
        Ok(all)
    }

    /// Returns the ids of a text with the bytes that each stands for.
    fn offsets(&self, text: &str, ids: Vec<u32>) -> Vec<(u32, Range<usize>)> {
        match &self.model {
            Model::BytePairs(pairs) => pairs.bpe.offsets(text.as_bytes(), ids),
            Model::Characters(_) => {
                let ranges = text.char_indices().map(|(at, c)| at..at + c.len_utf8());
                ids.into_iter().zip(ranges).collect()
            }
        }
    }

    /// Returns the id of the token with these bytes.
    pub(crate) fn id_of(&self, token: &[u8]) -> Option<u32> {
        let mut texts = self.texts.iter();
        let in_texts = texts.find(|(_, text)| ***text == *token).map(|(&id, _)| id);
        in_texts.or_else(|| match &self.model {
            Model::BytePairs(pairs) => pairs.bpe.id_of(token),
            Model::Characters(_) => None, // all in the texts
        })
    }

    /// The byte pairs, if they alone give the ids of any text.
    pub(crate) fn bpe(&self) -> Option<&Bpe> {
        let mut added = self.added.tokens().values();
        let is_plain = added.all(|token| {
            let normalized = false;
            gpt2::end_of_text()
                == AddedToken {
                    normalized,
                    ..token.clone()
                }
        });
        match &self.model {
            Model::BytePairs(pairs) => {
                let is_gpt2 = pairs.splits.is_empty() && pairs.use_regex && !pairs.add_prefix_space;
                let is_whole =
                    self.has_all_bytes() && pairs.bpe.id_of(ENDOFTEXT.as_bytes()).is_some();
                let is_normalized = self.added.normalization() != Normalization::None;
                (is_plain && is_gpt2 && is_whole && !is_normalized).then_some(&pairs.bpe)
            }
            Model::Characters(_) => None,
        }
    }

    /// True if a text may be cut into parts that are encoded by themselves.
    fn can_cut(&self) -> bool {
        match &self.model {
            Model::BytePairs(pairs) => pairs.splits.is_empty() && pairs.use_regex,
            Model::Characters(_) => true,
        }
    }

    /// Puts a space before a text that has none, if the tokenizer does so before it divides it.
    fn add_space(&self, part: &mut Content) {
        if let (Model::BytePairs(pairs), Content::Text(text)) = (&self.model, part)
            && pairs.splits.is_empty()
        {
            pairs.add_space(text);
        }
    }

    /// Returns an encoder for texts of so many bytes together; a thread has its own.
    fn encoder(&self, bytes: usize) -> PartEncoder<'_> {
        match &self.model {
            Model::BytePairs(pairs) => PartEncoder::BytePairs(pairs, pairs.bpe.encoder(bytes)),
            Model::Characters(characters) => PartEncoder::Characters(characters),
        }
    }
}

impl PartEncoder<'_> {
    /// Appends the ids of a text without added tokens.
    fn encode(&mut self, text: &str, ids: &mut Vec<u32>) -> Result<(), ModelTokenizerError> {
        match self {
            Self::BytePairs(pairs, encoder) => {
                let start = ids.len();
                match &pairs.splits[..] {
                    [] => pairs.encode_piece(encoder, text, ids),
                    splits => pairs.encode_by(splits, encoder, text, ids)?,
                }
                match pairs.bpe.missing_byte(text, &ids[start..]) {
                    Some(byte) => Err(ModelTokenizerError::UnknownByte { byte }),
                    None => Ok(()),
                }
            }
            Self::Characters(Characters { ids: all, unknown }) => {
                ids.extend(text.chars().map(|c| all.get(&c).unwrap_or(unknown)));
                Ok(())
            }
        }
    }
}

impl BytePairs {
    fn add_space(&self, text: &mut Cow<str>) {
        if self.add_prefix_space && !text.starts_with(' ') {
            text.to_mut().insert(0, ' ');
        }
    }

    /// Appends the ids of a text that is divided by some patterns, one after the other.
    fn encode_by(
        &self,
        splits: &[Split],
        encoder: &mut Encoder,
        text: &str,
        ids: &mut Vec<u32>,
    ) -> Result<(), ModelTokenizerError> {
        let Some((split, rest)) = splits.split_first() else {
            let mut text = text.into();
            self.add_space(&mut text);
            self.encode_piece(encoder, &text, ids);
            return Ok(());
        };
        for (piece, is_match) in split.pieces(text) {
            if split.is_whole && !is_match {
                let text = piece.chars().take(MAX_SHOWN).collect();
                return Err(ModelTokenizerError::LeftOut { text });
            }
            self.encode_by(rest, encoder, piece, ids)?;
        }
        Ok(())
    }

    /// Appends the ids of a text that only GPT-2's pattern divides, if any does.
    fn encode_piece(&self, encoder: &mut Encoder, text: &str, ids: &mut Vec<u32>) {
        match self.use_regex {
            true => encoder.encode_ordinary(text, ids),
            false => encoder.encode_piece(text, ids),
        }
    }
}
