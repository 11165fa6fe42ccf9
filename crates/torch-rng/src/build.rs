//! The builds of PyTorch that this crate can reproduce.
//!
//! The builds differ only in dropout and multinomial sampling. With the same seed, all other
//! operations produce the same numbers in every PyTorch build.

use std::fmt;
use std::str::FromStr;

use crate::UnknownBuild;

/// The PyTorch build whose random numbers a [`TorchRng`](crate::TorchRng) reproduces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Build {
    /// A build that doesn't use the generators of Intel's Math Kernel Library (MKL). These are the
    /// builds for macOS and ARM, and newer builds for x86 such as 2.15. The outputs printed in the
    /// book *Build a Large Language Model (From Scratch)* come from such a build.
    #[default]
    Portable,
    /// A build that draws dropout masks and multinomial samples from MKL's MCG31m1 generator. These
    /// are the x86 wheels of PyTorch 2.4 for Linux and Windows.
    Mkl,
}

impl fmt::Display for Build {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Build::Portable => "portable",
            Build::Mkl => "mkl",
        })
    }
}

impl FromStr for Build {
    type Err = UnknownBuild;

    /// Parses the name that [`Display`](fmt::Display) writes, which is `portable` or `mkl`.
    ///
    /// # Errors
    ///
    /// Returns [`UnknownBuild`] if `name` isn't the name of a build, which must be `portable` or
    /// `mkl`.
    fn from_str(name: &str) -> Result<Self, UnknownBuild> {
        match name {
            "portable" => Ok(Build::Portable),
            "mkl" => Ok(Build::Mkl),
            _ => Err(UnknownBuild {
                name: name.to_owned(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_is_read_back_from_its_name() {
        for build in [Build::Portable, Build::Mkl] {
            assert_eq!(build.to_string().parse(), Ok(build));
        }
        assert_eq!(Build::default(), Build::Portable);
        let error = "cuda".parse::<Build>().expect_err("no such build");
        assert_eq!(
            error.to_string(),
            "\"cuda\" isn't a PyTorch build that the random number generator can reproduce; use portable or mkl"
        );
    }
}
