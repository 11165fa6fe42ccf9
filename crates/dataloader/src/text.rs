//! Bytes to text: UTF-8, without the byte-order mark that some programs put before it.
//!
//! Other encodings are rejected with their name and a command that converts them to UTF-8, and
//! other formats with their name. Text is unchanged, including "\r\n".

use std::path::Path;

use atomic_file::FileFormat;

use crate::error::DataLoaderError;

/// The mark that some programs write before UTF-8.
const BYTE_ORDER_MARK: &str = "\u{feff}";

/// Returns the text that bytes are; `path` is where they come from, for the error.
///
/// ```
/// use std::path::Path;
/// let text = dataloader::text_of(b"\xef\xbb\xbfcaf\xc3\xa9".to_vec(), Path::new("a.txt"))?;
/// assert_eq!(text, "café");
/// let error = dataloader::text_of(b"caf\xe9".to_vec(), Path::new("a.txt")).unwrap_err();
/// assert!(error.to_string().contains("Latin-1"));
/// # Ok::<(), dataloader::DataLoaderError>(())
/// ```
///
/// # Errors
/// [`DataLoaderError::NotText`] if the bytes have another format, such as a PDF document or a Git
/// LFS pointer; [`DataLoaderError::NotUtf8`] with the first wrong byte and the likely encoding.
pub fn text_of(bytes: Vec<u8>, path: &Path) -> Result<String, DataLoaderError> {
    if let Some(format) = FileFormat::of(&bytes) {
        return Err(DataLoaderError::NotText {
            path: path.to_owned(),
            format,
        });
    }
    let is_utf_16 = is_utf_16(&bytes);
    let not_utf8 = |position, has_nul| DataLoaderError::NotUtf8 {
        path: path.to_owned(),
        position,
        looks_like: match (is_utf_16, has_nul) {
            (true, _) if cfg!(windows) => "; it may be UTF-16; an editor can save it as UTF-8",
            (true, _) => "; it may be UTF-16; iconv -f UTF-16 -t UTF-8 makes it UTF-8",
            (false, true) => "; it has NUL bytes, so it may be a binary file",
            (false, false) if cfg!(windows) => {
                "; it may be Latin-1; an editor can save it as UTF-8"
            }
            (false, false) => "; it may be Latin-1; iconv -f WINDOWS-1252 -t UTF-8 makes it UTF-8",
        },
    };
    let mut text = String::from_utf8(bytes).map_err(|error| {
        let position = error.utf8_error().valid_up_to();
        not_utf8(position, error.as_bytes().contains(&0))
    })?;
    if is_utf_16 {
        return Err(not_utf8(text.find('\0').unwrap_or(0), true));
    }
    if text.starts_with(BYTE_ORDER_MARK) {
        text.drain(..BYTE_ORDER_MARK.len());
    }
    Ok(text)
}

/// True for UTF-16, with its mark or without: then every second byte of a text in Latin letters is
/// NUL, which is valid in UTF-8 but not found in texts.
fn is_utf_16(bytes: &[u8]) -> bool {
    const PAIRS: usize = 2048;
    let (pairs, _) = bytes.as_chunks::<2>();
    let pairs = &pairs[..pairs.len().min(PAIRS)];
    let nuls = |side: usize| pairs.iter().filter(|pair| pair[side] == 0).count();
    let (even, odd) = (nuls(0), nuls(1));
    let has_mark = [b"\xff\xfe", b"\xfe\xff"]
        .iter()
        .any(|mark| bytes.starts_with(*mark));
    has_mark || (pairs.len() > 1 && even.min(odd) == 0 && 4 * even.max(odd) > 3 * pairs.len())
}
