//! Figures of chapter 2 that need the book's text: its path is `$BOOK_TEXT`'s, else that of a copy
//! beside the repository; when there is none, the test says that it did not run.

use std::path::Path;
use std::{env, fs};

use tokenizer::{
    AllowedSpecial, ENDOFTEXT, Gpt2Tokenizer, SimpleTokenizerV1, SimpleTokenizerV2, TokenizerError,
    UNK, Vocabulary, preprocess,
};

#[test]
fn the_words_and_ids_of_chapter_2() {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/the-verdict.txt");
    let path = env::var_os("BOOK_TEXT").map_or(beside, Into::into);
    let Ok(text) = fs::read_to_string(&path) else {
        println!("NOT RUN: needs the book's text, $BOOK_TEXT names no readable file");
        return;
    };
    assert_eq!(text.chars().count(), 20_479);
    assert_eq!(preprocess(&text).len(), 4_690);
    let mut vocabulary = Vocabulary::from_text(&text);
    assert_eq!(vocabulary.len(), 1_130);
    for (token, id) in [("!", 0), ("\"", 1), ("'", 2), ("Her", 49), ("Hermia", 50)] {
        assert_eq!(vocabulary.id(token), Some(id), "{token}");
    }

    let v1 = SimpleTokenizerV1::new(vocabulary.clone());
    let sentence = "\"It's the last he painted, you know,\"\n           Mrs. Gisburn said with pardonable pride.";
    let printed = [
        1, 56, 2, 850, 988, 602, 533, 746, 5, 1126, 596, 5, 1, 67, 7, 38, 851, 1108, 754, 793, 7,
    ];
    let ids = v1.encode(sentence).unwrap();
    assert_eq!(ids, printed);
    let printed =
        "\" It' s the last he painted, you know,\" Mrs. Gisburn said with pardonable pride.";
    assert_eq!(v1.decode(&ids).unwrap(), printed);
    let error = v1
        .encode("Hello, do you like tea. Is this-- a test?")
        .unwrap_err();
    assert!(
        matches!(error, TokenizerError::UnknownToken { token, position: 0 } if token == "Hello")
    );

    vocabulary.extend([ENDOFTEXT, UNK]);
    assert_eq!(vocabulary.len(), 1_132);
    assert_eq!(
        vocabulary.tokens()[1_127..],
        ["younger", "your", "yourself", ENDOFTEXT, UNK]
    );
    let v2 = SimpleTokenizerV2::new(vocabulary).unwrap();
    let text_2 = "Hello, do you like tea? <|endoftext|> In the sunlit terraces of the palace.";
    let printed = [
        1131, 5, 355, 1126, 628, 975, 10, 1130, 55, 988, 956, 984, 722, 988, 1131, 7,
    ];
    let ids = v2.encode(text_2);
    assert_eq!(ids, printed);
    let printed = "<|unk|>, do you like tea? <|endoftext|> In the sunlit terraces of the <|unk|>.";
    assert_eq!(v2.decode(&ids).unwrap(), printed);

    let ids = Gpt2Tokenizer::new()
        .encode(&text, AllowedSpecial::None)
        .unwrap();
    assert_eq!(ids.len(), 5_145);
    assert_eq!(ids[50..55], [290, 4920, 2241, 287, 257]);
}
