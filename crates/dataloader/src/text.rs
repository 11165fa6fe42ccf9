//! Conversion of the bytes of a text file to a string.
//!
//! The bytes must be valid UTF-8. If they seem to have another encoding, the error message suggests
//! how to convert the file. If they have a known format other than text, the error message names
//! this format. A byte order mark at the beginning of the text is removed. The text isn't changed
//! in any other way, so line endings such as `"\r\n"` are preserved.

use std::path::Path;

use atomic_file::FileFormat;

use crate::error::DataLoaderError;

/// The byte order mark, which some programs write at the beginning of UTF-8 files.
const BYTE_ORDER_MARK: &str = "\u{feff}";

/// Converts the bytes of a text file to a string. The path of the file, `path`, is used only in
/// error messages.
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
///
/// Returns [`DataLoaderError::NotText`] if the bytes have a known format that isn't text, such as a
/// PDF document or a Git LFS pointer. Returns [`DataLoaderError::NotUtf8`] if the bytes aren't
/// valid UTF-8, or if they are probably UTF-16. This error contains the position of the first
/// invalid byte and a hint about the probable encoding.
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
            (true, _) if cfg!(windows) => "; it may be UTF-16; use an editor to save it as UTF-8",
            (true, _) => "; it may be UTF-16; to convert it, use iconv -f UTF-16 -t UTF-8",
            (false, true) => "; it contains NUL bytes, so it may be a binary file",
            (false, false) if cfg!(windows) => {
                "; it may be Latin-1; use an editor to save it as UTF-8"
            }
            (false, false) => {
                "; it may be Latin-1; to convert it, use iconv -f WINDOWS-1252 -t UTF-8"
            }
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

/// Returns true if the bytes are probably UTF-16, with or without a byte order mark.
///
/// If a text in Latin letters is encoded as UTF-16, every second byte is NUL. NUL bytes are also
/// valid in UTF-8, but text files in UTF-8 hardly ever contain them.
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
