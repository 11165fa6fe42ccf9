//! Detection of files in an unexpected format.
//!
//! Users sometimes pass an archive, a document or another program's weights to a function that
//! expects a text or a model. Also, a repository may contain a small pointer file in place of a
//! large file that hasn't been downloaded yet. This module recognizes such files by their first
//! bytes, so an error message can name the format and suggest what to do.
//!
//! [`open_file`](crate::open_file) rejects pointer files, so no caller can mistake a pointer file
//! for the file it represents. Callers look for the other formats with [`FileFormat::of`].

use std::fmt;

/// The format of a file, and advice for a user who has passed a file in this format by mistake. The
/// `Display` implementation prints `name; advice`.
///
/// ```
/// use atomic_file::FileFormat;
/// let format = FileFormat::of(b"%PDF-1.7\n").expect("a known format");
/// assert_eq!(format.to_string(), "a PDF document; use pdftotext to extract its text");
/// assert_eq!(FileFormat::of(b"Once upon a time"), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileFormat {
    /// Name of the format with an article, such as "a PDF document".
    pub name: &'static str,
    /// Advice on how to obtain a file that the program can use, such as "use gunzip to unpack it".
    pub advice: &'static str,
}

/// Maximum length of a pointer file in bytes. The specification of Git LFS guarantees this limit
/// for its pointer files.
pub(crate) const MAX_POINTER_BYTES: u64 = 1024;

/// An entry in a table of file formats: a magic number (the first bytes of a file), the name of the
/// format, and advice for a user who has passed such a file by mistake.
type Magic = (&'static [u8], &'static str, &'static str);

/// Binary formats that can be recognized by their magic numbers. Text files practically never start
/// with one of these magic numbers. For a file of random token IDs, the probability is less than
/// one in ten million.
const FORMATS: [Magic; 18] = [
    (
        b"%PDF-",
        "a PDF document",
        "use pdftotext to extract its text",
    ),
    (
        b"PK\x03\x04",
        "a zip archive, the format of .docx, .epub, .npz and torch.save",
        "unzip it, or save the document as plain text",
    ),
    (
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
        "an Office document (.doc, .xls, .ppt)",
        "save it as plain text",
    ),
    (b"\x1f\x8b\x08", "a gzip archive", "use gunzip to unpack it"),
    (b"BZh91AY&SY", "a bzip2 archive", "use bunzip2 to unpack it"),
    (b"\xfd7zXZ\0", "an xz archive", "use unxz to unpack it"),
    (
        b"\x28\xb5\x2f\xfd",
        "a Zstandard archive",
        "use unzstd to unpack it",
    ),
    (
        b"7z\xbc\xaf\x27\x1c",
        "a 7-Zip archive",
        "use 7z x to unpack it",
    ),
    (b"Rar!\x1a\x07", "a RAR archive", "use unrar x to unpack it"),
    (
        b"PAR1\x15",
        "a Parquet file",
        "read its columns with pandas.read_parquet, and save them as plain text",
    ),
    (
        b"ARROW1\0\0",
        "an Arrow file",
        "read its columns with pyarrow, and save them as plain text",
    ),
    (
        b"SQLite format 3\0",
        "an SQLite database",
        "use sqlite3 to export its text",
    ),
    (
        b"\x89HDF\r\n\x1a\n",
        "an HDF5 file",
        "use h5py in Python to read it",
    ),
    (
        b"\x89PNG\r\n\x1a\n",
        "a PNG image",
        "only text files and files of token IDs are supported",
    ),
    (
        b"\xff\xd8\xff\xe0",
        "a JPEG image",
        "only text files and files of token IDs are supported",
    ),
    (
        b"GGUF\x03\0\0\0",
        "a GGUF file (llama.cpp)",
        "use the model folder from which it was converted",
    ),
    (
        b"\x93NUMPY",
        "a NumPy array",
        "if it contains token IDs, its file name must end in .npy",
    ),
    (
        b"LITPKDS",
        "lit-gpt's packed data (LITPKDS)",
        "use lit-gpt to convert it to text or to 16-bit token IDs",
    ),
];

/// Formats of pointer files, which stand in for large files in a repository. Files that contain
/// "hawser" come from Git LFS, whose former name was Hawser.
const POINTERS: [Magic; 5] = [
    GIT_LFS,
    (
        b"version https://hawser.github.com/spec/",
        GIT_LFS.1,
        GIT_LFS.2,
    ),
    GIT_ANNEX,
    (b"outs:\n- md5: ", DVC.1, DVC.2),
    (b"outs:\n- etag: ", DVC.1, DVC.2),
];
const GIT_LFS: Magic = (
    b"version https://git-lfs.github.com/spec/",
    "a Git LFS pointer instead of the file itself",
    "run git lfs pull to download the file",
);
const GIT_ANNEX: Magic = (
    b"/annex/objects/",
    "a git-annex pointer instead of the file itself",
    "run git annex get to download the file",
);
const DVC: Magic = (
    b"",
    "a DVC pointer instead of the file itself",
    "run dvc pull to download the file",
);

impl FileFormat {
    /// Detects the format of a file from its first bytes. A `head` of a few kilobytes is enough.
    ///
    /// Returns `None` if the first bytes aren't those of a known format. This is the case for plain
    /// text, for example.
    pub fn of(head: &[u8]) -> Option<Self> {
        Self::of_pointer(head)
            .or_else(|| find(&FORMATS, head))
            .or_else(|| {
                let found = match (head.get(4..10), head.get(257..262)) {
                    (Some(b"\0\0\0\0{\""), _) => (
                        "a safetensors file",
                        "to use it as a model, specify its folder",
                    ),
                    (_, Some(b"ustar")) => ("a tar archive", "use tar -xf to unpack it"),
                    _ => return None,
                };
                Some(Self::new(found))
            })
    }

    /// Detects a pointer file of Git LFS, git-annex or DVC from its contents.
    ///
    /// These tools keep a pointer file in the repository in place of a large file until the user
    /// downloads the large file.
    pub(crate) fn of_pointer(contents: &[u8]) -> Option<Self> {
        // git-annex represents a large file by a symbolic link. On a system without symbolic links,
        // Git checks out this link as a text file that contains the path to the link's target.
        let line = contents.split(|byte| byte.is_ascii_whitespace()).next()?;
        let is_annex_link = line.starts_with(b"../") || line.starts_with(b".git/");
        let objects = b".git/annex/objects/";
        if is_annex_link && line.windows(objects.len()).any(|part| part == objects) {
            return Some(Self::new((GIT_ANNEX.1, GIT_ANNEX.2)));
        }
        find(&POINTERS, contents)
    }

    fn new((name, advice): (&'static str, &'static str)) -> Self {
        Self { name, advice }
    }
}

fn find(table: &[Magic], head: &[u8]) -> Option<FileFormat> {
    let mut rows = table.iter();
    let (_, name, advice) = rows.find(|(magic, ..)| head.starts_with(magic))?;
    Some(FileFormat { name, advice })
}

impl fmt::Display for FileFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.name, self.advice)
    }
}
