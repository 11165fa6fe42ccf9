//! Detects launchers of parallel jobs, such as `mpirun`. A launcher sets environment variables that
//! tell each process its rank and, in most cases, the total number of processes.

/// A launcher, described by its name, the environment variable that contains a process's rank, and
/// a list of environment variables that may contain the number of processes. The first variable in
/// the list that is set is used. Some launchers don't set any.
type Launcher = (&'static str, &'static str, &'static [&'static str]);

/// All known launchers. Inside a process of one launcher, users can start another launcher. For
/// example, `srun` can start Open MPI's `mpirun`. The variables of both launchers are set in this
/// case, so the inner launcher must come first in this list.
const LAUNCHERS: [Launcher; 12] = [
    (
        "Open MPI's mpirun",
        "OMPI_COMM_WORLD_RANK",
        &["OMPI_COMM_WORLD_SIZE"],
    ),
    (
        "MVAPICH2's launcher",
        "MV2_COMM_WORLD_RANK",
        &["MV2_COMM_WORLD_SIZE"],
    ),
    (
        "MVAPICH's launcher",
        "MVP_COMM_WORLD_RANK",
        &["MVP_COMM_WORLD_SIZE"],
    ),
    // MPICH, Intel MPI and Microsoft MPI all set the variables `PMI_RANK` and `PMI_SIZE`.
    ("mpiexec", "PMI_RANK", &["PMI_SIZE"]),
    ("Platform MPI's mpirun", "MPI_RANKID", &["MPI_NRANKS"]),
    ("jsrun", "JSM_NAMESPACE_RANK", &["JSM_NAMESPACE_SIZE"]),
    ("flux run", "FLUX_TASK_RANK", &["FLUX_JOB_SIZE"]),
    (
        SRUN,
        "SLURM_PROCID",
        &["SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"],
    ),
    ("aprun", "ALPS_APP_PE", &[]),
    ("PALS", "PALS_RANKID", &["PALS_SIZE"]),
    ("a PMIx launcher", "PMIX_RANK", &[]),
    (
        "Intel MPI's mpirun",
        "MPI_LOCALRANKID",
        &["MPI_LOCALNRANKS"],
    ),
];

const SRUN: &str = "srun";

/// Lowest ID of Slurm's special job steps, such as the batch script of `sbatch` and the shell of
/// `salloc`. A special step consists of a single process, although its environment variables
/// describe the whole job.
const FIRST_SPECIAL_STEP: u32 = 0xffff_fff0;

/// Information about this process that the launcher has provided.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Launched {
    /// Name of the launcher.
    pub(crate) by: &'static str,
    /// Environment variable that contains the rank.
    pub(crate) variable: &'static str,
    pub(crate) rank: usize,
    /// Number of processes in the job, or `None` if the launcher doesn't provide it.
    pub(crate) size: Option<usize>,
}

/// Returns the rank of this process, its launcher and the number of processes, or `None` if the
/// process wasn't started by a known launcher.
pub(crate) fn launched() -> Option<Launched> {
    launched_in(&|name| std::env::var(name).ok())
}

fn launched_in(environment: &dyn Fn(&str) -> Option<String>) -> Option<Launched> {
    let number = |name: &&str| environment(name)?.parse().ok();
    let step = environment("SLURM_STEP_ID").and_then(|step| step.parse().ok());
    let in_step = step.is_some_and(|step: u32| step < FIRST_SPECIAL_STEP);
    let mut launchers = LAUNCHERS
        .iter()
        .filter(|(name, ..)| *name != SRUN || in_step);
    launchers.find_map(|&(by, variable, sizes)| {
        Some(Launched {
            by,
            variable,
            rank: number(&variable)?,
            size: sizes.iter().find_map(number),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launched_with(variables: &[(&str, &str)]) -> Option<Launched> {
        launched_in(&|name| {
            let found = variables.iter().find(|(other, _)| *other == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn every_launcher_is_known_by_its_variables() {
        for (by, variable, sizes) in LAUNCHERS {
            let mut variables = vec![("SLURM_STEP_ID", "0"), (variable, "3")];
            let launched = |size| {
                Some(Launched {
                    by,
                    variable,
                    rank: 3,
                    size,
                })
            };
            assert_eq!(launched_with(&variables), launched(None), "{by}");
            variables.extend(sizes.iter().map(|name| (*name, "4")));
            let size = (!sizes.is_empty()).then_some(4);
            assert_eq!(launched_with(&variables), launched(size), "{by}");
        }
    }

    #[test]
    fn one_process_of_a_job_is_not_launched() {
        let job = [("SLURM_PROCID", "0"), ("SLURM_NTASKS", "4")];
        assert_eq!(launched_with(&job), None, "sbatch's script");
        for special in ["4294967290", "4294967291"] {
            let step = [&job[..], &[("SLURM_STEP_ID", special)]].concat();
            assert_eq!(launched_with(&step), None, "{special}");
        }
        assert_eq!(launched_with(&[("OMPI_COMM_WORLD_SIZE", "4")]), None);
        let nested = [
            ("OMPI_COMM_WORLD_RANK", "1"),
            ("OMPI_COMM_WORLD_SIZE", "2"),
            ("SLURM_PROCID", "0"),
            ("SLURM_STEP_ID", "1"),
            ("SLURM_STEP_NUM_TASKS", "1"),
        ];
        assert_eq!(
            launched_with(&nested).unwrap().size,
            Some(2),
            "mpirun in a step"
        );
    }
}
