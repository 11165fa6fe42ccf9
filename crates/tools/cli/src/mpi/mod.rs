//! Training on several processes: their group, and MPI underneath it.

pub(crate) mod group;
#[cfg(feature = "mpi")]
mod mpi_group;
