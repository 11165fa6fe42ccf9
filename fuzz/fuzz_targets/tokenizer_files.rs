//! Loads a tokenizer whose files consist of arbitrary bytes. Loading must succeed or return an
//! error, and must not panic. If it succeeds, streaming must decode the tokens of a text like
//! decoding all of them at once. After the tokenizer has been saved and loaded again, it must
//! encode the text in the same way.
//!
//! The input consists of the length (2 bytes) and content of each of tokenizer.json, vocab.json,
//! merges.txt and tokenizer_config.json, and a text. A file of length 0 is omitted.

#![no_main]

use std::fs;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use model_tokenizer::tokenizer::StreamingDecoder;
use model_tokenizer::ModelTokenizer;
use tempfile::TempDir;

static FOLDER: LazyLock<TempDir> = LazyLock::new(|| tempfile::tempdir().expect("a folder"));

fuzz_target!(|bytes: &[u8]| {
    let folder = FOLDER.path();
    let mut rest = bytes;
    for name in [
        "tokenizer.json",
        "vocab.json",
        "merges.txt",
        "tokenizer_config.json",
    ] {
        let (file, after) = fuzz::take_block(rest);
        rest = after;
        match file.is_empty() {
            true => drop(fs::remove_file(folder.join(name))),
            false => fs::write(folder.join(name), file).expect("written"),
        }
    }
    let text = String::from_utf8_lossy(rest);
    let tokenizer = match ModelTokenizer::from_folder(folder) {
        Ok(Some(tokenizer)) => tokenizer,
        Ok(None) => return,
        Err(error) => {
            let message = error.to_string();
            assert!(
                !message.contains('\n') && message.len() < 100_000,
                "{message}"
            );
            return;
        }
    };
    let encoded = tokenizer.encode(&text).ok();
    if let Some(ids) = &encoded {
        let decoded = tokenizer.decode_lossy(ids).expect("its own ids");
        let mut stream = StreamingDecoder::new(&tokenizer);
        let mut streamed = String::new();
        for &id in ids {
            streamed += &stream.push(id).expect("its own ids");
        }
        assert_eq!(streamed + &stream.finish(), decoded);
    }
    tokenizer.save(folder).expect("a folder of ours");
    let again = ModelTokenizer::from_folder(folder).expect("its own files");
    assert_eq!(again.expect("its own files").encode(&text).ok(), encoded);
});
