//! Erratum B20: undoes a UTF-8 text's reading as Windows-1252, `s.encode("cp1252").decode("utf-8")`.
//!
//! It gives up where bytes were lost: five bytes have no character in Windows-1252.

/// What Windows-1252 has at 0x80 to 0x9f; `\0` where it has nothing.
const UPPER_CONTROLS: [char; 32] = [
    '€', '\0', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\0', 'Ž', '\0', //
    '\0', '‘', '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', '\0', 'ž', 'Ÿ',
];

/// The text as it was, or `None` if it can't be recovered.
pub(super) fn mend(text: &str) -> Option<String> {
    let bytes: Option<Vec<u8>> = text.chars().map(byte).collect();
    String::from_utf8(bytes?).ok()
}

fn byte(character: char) -> Option<u8> {
    match u8::try_from(u32::from(character)) {
        Ok(0x80..=0x9f) => None,
        Ok(byte) => Some(byte),
        Err(_) => {
            let index = UPPER_CONTROLS
                .iter()
                .position(|&upper| upper == character)?;
            Some(0x80 + u8::try_from(index).ok()?)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::mend;

    #[test]
    fn a_text_read_as_cp1252_comes_back_and_a_lossy_one_does_not() {
        assert_eq!(mend("arenâ€™t").as_deref(), Some("aren’t"));
        assert_eq!(mend("plain").as_deref(), Some("plain"));
        assert_eq!(mend("å¤§"), None.or(Some("大".to_owned())));
        assert_eq!(mend("ç"), None);
    }
}
