//! Supports training with several processes. The submodules detect the launcher that started the
//! processes, manage the processes as a group, and exchange data between them through MPI.

pub(crate) mod group;
mod launcher;
#[cfg(feature = "mpi")]
mod mpi_group;
