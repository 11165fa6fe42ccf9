//! Calls that a file system may lack, and locks, which many network file systems lack.

use std::fs::{File, TryLockError};
use std::io;

/// The answer to an attempt to lock a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lock {
    /// This process holds the lock until the file is closed.
    Held,
    /// Another process, or another handle of this one, holds it.
    HeldByAnother,
    /// The file system has no locks.
    Unsupported,
}

impl Lock {
    /// Tries to lock a file.
    ///
    /// # Errors
    /// If the operating system refuses for another reason than the two that [`Lock`] names.
    pub fn take(file: &File) -> io::Result<Self> {
        match file.try_lock() {
            Ok(()) => Ok(Self::Held),
            Err(TryLockError::WouldBlock) => Ok(Self::HeldByAnother),
            Err(TryLockError::Error(error)) if is_unsupported(&error) => Ok(Self::Unsupported),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

/// True for the errors by which file systems report that they lack a call: Lustre and NFS for
/// `flock`; CIFS, vboxsf and 9p for `fsync` of a folder.
pub(crate) fn is_unsupported(error: &io::Error) -> bool {
    #[cfg(unix)]
    {
        use rustix::io::Errno;
        let errors = [
            Errno::NOSYS,
            Errno::OPNOTSUPP,
            Errno::NOTSUP,
            Errno::INVAL,
            Errno::NOLCK,
            Errno::BADF,
        ];
        if Errno::from_io_error(error).is_some_and(|error| errors.contains(&error)) {
            return true;
        }
    }
    // ERROR_INVALID_FUNCTION and ERROR_NOT_SUPPORTED.
    let of_windows = cfg!(windows) && [Some(1), Some(50)].contains(&error.raw_os_error());
    of_windows || error.kind() == io::ErrorKind::Unsupported
}
