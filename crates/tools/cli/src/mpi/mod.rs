//! Training on several processes: their launcher, their group, and MPI underneath it.

pub(crate) mod group;
mod launcher;
#[cfg(feature = "mpi")]
mod mpi_group;
