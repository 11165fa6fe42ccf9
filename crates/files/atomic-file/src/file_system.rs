//! Locks files, and recognizes the errors that operating systems report if a file system doesn't
//! support an operation. For example, many network file systems don't support locks.

use std::fs::{File, TryLockError};
use std::io;

/// The result of trying to lock a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lock {
    /// This process now holds the lock on the file. The lock is released when the file is closed.
    Held,
    /// The file couldn't be locked because another process holds the lock, or because this process
    /// already holds it through another file handle.
    HeldByAnother,
    /// The file system doesn't support locks.
    Unsupported,
}

impl Lock {
    /// Tries to lock a file for exclusive use. If another process holds the lock, the function
    /// doesn't wait for it and returns [`HeldByAnother`](Self::HeldByAnother).
    ///
    /// # Errors
    ///
    /// Returns an error if locking fails, unless the lock is already held or the file system
    /// doesn't support locks. In these two cases, the function returns
    /// [`HeldByAnother`](Self::HeldByAnother) and [`Unsupported`](Self::Unsupported), respectively.
    pub fn take(file: &File) -> io::Result<Self> {
        match file.try_lock() {
            Ok(()) => Ok(Self::Held),
            Err(TryLockError::WouldBlock) => Ok(Self::HeldByAnother),
            Err(TryLockError::Error(error)) if is_unsupported(&error) => Ok(Self::Unsupported),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

/// Returns true if `error` means that the file system doesn't support the operation.
///
/// For example, `flock` isn't supported on some Lustre and NFS file systems, and `fsync` isn't
/// supported for folders on CIFS, vboxsf and 9p.
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
    // The Windows error codes are `ERROR_INVALID_FUNCTION` (1) and `ERROR_NOT_SUPPORTED` (50).
    let of_windows = cfg!(windows) && [Some(1), Some(50)].contains(&error.raw_os_error());
    of_windows || error.kind() == io::ErrorKind::Unsupported
}
