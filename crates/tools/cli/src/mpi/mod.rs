//! Training on several processes: the launchers that start them, the group that they form, and the
//! communication through MPI.

pub(crate) mod group;
mod launcher;
#[cfg(feature = "mpi")]
mod mpi_group;
