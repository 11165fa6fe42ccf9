//! Encodes and decodes arbitrary texts, vocabularies and token IDs. Decoding the tokens of a text
//! must give the text, and unknown IDs must be rejected without a panic.
//!
//! The input consists of the length of a text (2 bytes), the text, from which a vocabulary is made,
//! and the rest. The rest is used both as a text and as token IDs (4 bytes each).

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use tokenizer::{
    AllowedSpecial, Gpt2Tokenizer, SimpleTokenizerV1, SimpleTokenizerV2, StreamingDecoder,
    Vocabulary, preprocess,
};

static GPT2: LazyLock<Gpt2Tokenizer> = LazyLock::new(Gpt2Tokenizer::new);

fuzz_target!(|bytes: &[u8]| {
    let (first, rest) = fuzz::take_block(bytes);
    let (first, text) = (
        String::from_utf8_lossy(first),
        String::from_utf8_lossy(rest),
    );
    let ids = rest.as_chunks::<4>().0.iter();
    let ids: Vec<u32> = ids.map(|&bytes| u32::from_le_bytes(bytes)).collect();

    let v1 = SimpleTokenizerV1::new(Vocabulary::from_text(&first));
    let words = preprocess(&first);
    let encoded = v1.encode(&first).expect("the words of this text");
    assert_eq!(encoded.len(), words.len());
    v1.decode(&encoded).expect("its own ids");
    let _ = (v1.encode(&text), v1.decode(&ids));
    let mut vocabulary = Vocabulary::from_text(&first);
    vocabulary.extend(["<|endoftext|>", "<|unk|>"]);
    if let Ok(v2) = SimpleTokenizerV2::new(vocabulary) {
        v2.decode(&v2.encode(&text).expect("no error")).expect("its own ids");
        let _ = v2.decode(&ids);
    }

    let encoded = GPT2.encode_ordinary(&text);
    assert_eq!(GPT2.decode(&encoded).expect("ids of a text"), text);
    let mut stream = StreamingDecoder::new(&*GPT2);
    let mut streamed = String::new();
    for &id in &encoded {
        streamed += &stream.push(id).expect("ids of a text");
    }
    assert_eq!(streamed + &stream.finish(), text);
    for allowed in [AllowedSpecial::All, AllowedSpecial::None] {
        if let Ok(encoded) = GPT2.encode_allowing(&text, allowed) {
            assert_eq!(GPT2.decode(&encoded).expect("ids of a text"), text);
        }
    }
    if let (Ok(bytes), Ok(lossy)) = (GPT2.decode_bytes(&ids), GPT2.decode_lossy(&ids)) {
        assert_eq!(String::from_utf8_lossy(&bytes), lossy);
    }
});
