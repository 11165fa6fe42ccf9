//! Supports training with several processes. The submodules detect the launcher that has started
//! the processes, manage the group that the processes form, and exchange data through MPI.

pub(crate) mod group;
mod launcher;
#[cfg(feature = "mpi")]
mod mpi_group;
