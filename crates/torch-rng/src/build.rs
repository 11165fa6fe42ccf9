//! The build of PyTorch that is imitated: the one place where the same seed gives other numbers.
//!
//! Only dropout and multinomial differ; everything else is the same in both.

use std::fmt;
use std::str::FromStr;

use crate::UnknownBuild;

/// A build of PyTorch, as far as its random numbers go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Build {
    /// PyTorch without Intel's MKL generators (macOS, ARM, later x86 releases): the build of the
    /// book's printed outputs.
    #[default]
    Portable,
    /// The x86 Linux and Windows wheels of PyTorch 2.4, whose dropout and multinomial draw from
    /// MKL's MCG31m1.
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

    /// Reads what [`Display`](fmt::Display) writes: `portable` or `mkl`.
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
            "unknown build \"cuda\" (known: portable, mkl)"
        );
    }
}
