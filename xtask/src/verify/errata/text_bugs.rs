//! Bugs of the tokenizer chapter and of a file's encoding: B12, B13, B14, B20.

use anyhow::{Context, Result};
use tokenizer::{
    AllowedSpecial, ENDOFTEXT, Separators, SimpleTokenizerV1, SimpleTokenizerV2, UNK, Vocabulary,
    split_keeping, strip_without_blanks,
};

use super::{Erratum, Finding, mojibake};
use crate::verify::lab::Lab;

pub(super) const ERRATA: &[Erratum] = &[
    Erratum {
        id: "errata.b12",
        source: "document 003, line 154",
        what: "V1 splits without : and ; although its vocabulary was built with them.",
        show: b12,
    },
    Erratum {
        id: "errata.b13",
        source: "document 003, lines 218-226",
        what: "A comment calls the token <unk>; the code, and every id, needs <|unk|>.",
        show: b13,
    },
    Erratum {
        id: "errata.b14",
        source: "document 003, lines 265-268",
        what: "Two string literals join without a space, so the text says terracesof.",
        show: b14,
    },
    Erratum {
        id: "errata.b20",
        source: "document 003, whole file",
        what: "The file is UTF-8 that was read as cp1252 and saved again.",
        show: b20,
    },
];

fn b12(_: &Lab) -> Result<Vec<Finding>> {
    let text = "one word; and: more";
    let vocabulary = Vocabulary::from_text(text);
    let pieces = split_keeping(text, Separators::WithoutColons);
    let unknown = strip_without_blanks(&pieces)
        .into_iter()
        .find(|word| vocabulary.id(word).is_none());
    let wrong = format!(
        "KeyError {:?}",
        unknown.context("a word that the vocabulary lacks")?
    );
    let right = SimpleTokenizerV1::new(vocabulary).encode(text)?;
    Ok(vec![Finding::new(
        "ids of \"one word; and: more\"",
        wrong,
        format!("{right:?}"),
    )])
}

fn b13(_: &Lab) -> Result<Vec<Finding>> {
    let tokenizer = |unknown| {
        let mut vocabulary = Vocabulary::from_text("the cat");
        vocabulary.extend([ENDOFTEXT, unknown]);
        SimpleTokenizerV2::new(vocabulary)
    };
    let wrong = tokenizer("<unk>")
        .err()
        .context("a vocabulary without <|unk|> is refused")?;
    let right = tokenizer(UNK)?.encode("the dog");
    Ok(vec![Finding::new(
        "ids of \"the dog\" for the vocabulary of \"the cat\"",
        format!("error: {wrong}"),
        format!("{right:?}"),
    )])
}

fn b14(lab: &Lab) -> Result<Vec<Finding>> {
    let ids = |text| lab.tokenizer().encode(text, AllowedSpecial::None);
    Ok(vec![Finding::new(
        "ids of the joined words and of the words meant (the joined ones are the golden figure)",
        format!("{:?}", ids(" terracesof")?),
        format!("{:?}", ids(" terraces of")?),
    )])
}

fn b20(_: &Lab) -> Result<Vec<Finding>> {
    let damaged = "arenâ€™t"; // as in the file
    let mended = mojibake::mend(damaged).context("this part of the file can be mended")?;
    Ok(vec![Finding::new("a word of section 2.5", damaged, mended)])
}
