//! Bytes to text: UTF-8, without the byte-order mark that some programs put before it.
//!
//! Other encodings are rejected with their name and a command that converts them to UTF-8. Text is
//! unchanged, including "\r\n".

use std::path::Path;

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
/// [`DataLoaderError::NotUtf8`] with the first wrong byte and the likely encoding.
pub fn text_of(bytes: Vec<u8>, path: &Path) -> Result<String, DataLoaderError> {
    let is_utf_16 = [b"\xff\xfe", b"\xfe\xff"]
        .iter()
        .any(|mark| bytes.starts_with(*mark));
    match String::from_utf8(bytes) {
        Ok(mut text) => {
            if text.starts_with(BYTE_ORDER_MARK) {
                text.drain(..BYTE_ORDER_MARK.len());
            }
            Ok(text)
        }
        Err(error) => Err(DataLoaderError::NotUtf8 {
            path: path.to_owned(),
            position: error.utf8_error().valid_up_to(),
            looks_like: match (is_utf_16, error.as_bytes().contains(&0)) {
                (true, _) => "; in UTF-16 it may be: iconv -f UTF-16 -t UTF-8 makes it UTF-8",
                (false, true) => "; it has NUL bytes, so it may be a binary file",
                (false, false) => {
                    "; in Latin-1 it may be: iconv -f WINDOWS-1252 -t UTF-8 makes it UTF-8"
                }
            },
        }),
    }
}
