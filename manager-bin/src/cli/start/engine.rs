//! `--nodes`: in a script that an engine runs on the first node of an allocation, the engine starts this program on all
//! nodes of it.
//!
//! This process becomes the engine's launcher. So signals, input and exit code pass as the engine passes them, and there
//! is no process in between that could be left over.

use std::convert::Infallible;
use std::ffi::OsString;
use std::io::IsTerminal;
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::cli::common::message::{CliError, system_text};

/// Who starts the processes on the nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Engine {
    /// `srun`, in a job of Slurm
    Slurm,
    /// `flux run`, in an instance of Flux
    Flux,
    /// The innermost of the two that is there
    Auto,
}

/// Variables that describe the tasks of the script and not those of the instance: `srun` takes them as its options.
const OF_THE_SCRIPT: [&str; 8] = [
    "SLURM_NTASKS",
    "SLURM_NPROCS",
    "SLURM_NTASKS_PER_NODE",
    "SLURM_TASKS_PER_NODE",
    "SLURM_CPUS_PER_TASK",
    "SLURM_NTASKS_PER_CORE",
    "SLURM_DISTRIBUTION",
    "SLURM_CPU_BIND",
];

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|text| !text.is_empty())
}

/// The first of the numbers that Slurm gives to steps of its own: the batch script, and the shell of `salloc` on clusters
/// that run it on a node.
const FIRST_SPECIAL_STEP: u32 = 0xffff_fff0;

/// Whether this process is one of those that a launcher has started.
fn is_launched(variable: impl Fn(&str) -> Option<String>) -> bool {
    let step = variable("SLURM_STEP_ID").and_then(|step| step.parse::<u32>().ok());
    // A script of Flux has FLUX_ENCLOSING_ID in place of FLUX_JOB_ID.
    step.is_some_and(|step| step < FIRST_SPECIAL_STEP) || variable("FLUX_JOB_ID").is_some()
}

/// Starts this program with the same arguments on all nodes. Returns if it is what was started so.
///
/// # Errors
/// There is no allocation, or its launcher can't be started.
pub(super) fn start_on_all(
    engine: Engine,
    has_pmi: bool,
    is_interactive: bool,
) -> Result<(), CliError> {
    if has_pmi || is_launched(variable) {
        return Ok(());
    }
    let terminal = is_interactive && std::io::stdin().is_terminal();
    let launcher = launcher(engine, terminal, variable)?;
    let never: Infallible = become_launcher(launcher)?;
    match never {}
}

/// The launcher and its options.
fn launcher(
    engine: Engine,
    terminal: bool,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Vec<String>, CliError> {
    let slurm = variable("SLURM_JOB_ID");
    let flux = variable("FLUX_URI");
    let engine = match (engine, &flux, &slurm) {
        // Flux in a job of Slurm is the inner one.
        (Engine::Flux | Engine::Auto, Some(_), _) => Engine::Flux,
        (Engine::Slurm | Engine::Auto, _, Some(_)) => Engine::Slurm,
        _ => return Err(CliError::failure(no_allocation(engine))),
    };
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    if engine == Engine::Flux {
        let mut line = words(&["flux", "run", "--exclusive", "--tasks-per-node=1", "--unbuffered"]);
        line.push(format!("--nodes={}", nodes_of_flux()?));
        if terminal {
            line.push("-opty.interactive".to_owned());
        }
        return Ok(line);
    }
    let nodes = ["SLURM_JOB_NUM_NODES", "SLURM_NNODES"].into_iter().find_map(&variable);
    let nodes = nodes.unwrap_or_else(|| "1".to_owned());
    let mut line = words(&["srun", "--overlap", "--mpi=pmi2", "--unbuffered"]);
    line.extend([format!("--nodes={nodes}"), format!("--ntasks={nodes}")]);
    line.push("--ntasks-per-node=1".to_owned());
    // All processors of a node, and not the one that Slurm gives a task by default.
    match variable("SLURM_JOB_CPUS_PER_NODE").as_deref().and_then(same_on_all) {
        Some(cpus) => line.push(format!("--cpus-per-task={cpus}")),
        None => line.extend(words(&["--whole", "--cpu-bind=none"])),
    }
    line.push(if terminal { "--pty" } else { "--input=0" }.to_owned());
    Ok(line)
}

/// The number of processors, if all nodes have as many: `16(x4)`.
fn same_on_all(cpus: &str) -> Option<u32> {
    if cpus.contains(',') {
        return None;
    }
    cpus.split_once("(x").map_or(cpus, |(each, _)| each).parse().ok()
}

fn no_allocation(engine: Engine) -> String {
    let (name, missing) = match engine {
        Engine::Slurm => ("slurm", "SLURM_JOB_ID is not set"),
        Engine::Flux => ("flux", "FLUX_URI is not set"),
        Engine::Auto => ("auto", "neither FLUX_URI nor SLURM_JOB_ID is set"),
    };
    format!(
        "--nodes={name}: this is no script in an allocation, since {missing}: submit one that runs this command, or start \
         without --nodes on this host alone"
    )
}

/// Asks Flux how many nodes the instance has that runs this script.
fn nodes_of_flux() -> Result<u32, CliError> {
    let asked = Command::new("flux").args(["getattr", "size"]).output();
    let output = asked.map_err(|error| {
        CliError::failure(format!("flux getattr size: {}", system_text(&error)))
    })?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.trim().parse().map_err(|_| {
        let said = String::from_utf8_lossy(&output.stderr);
        CliError::failure(format!(
            "flux getattr size doesn't say how many nodes there are: {}",
            said.trim()
        ))
    })
}

/// Becomes the launcher of this program with the arguments of this process.
fn become_launcher(line: Vec<String>) -> Result<Infallible, CliError> {
    let own = std::env::current_exe()
        .map_err(|error| CliError::failure(format!("this program: {}", system_text(&error))))?;
    let arguments = std::env::args_os().skip(1).collect::<Vec<OsString>>();
    let mut words = line.into_iter();
    let program = words.next().unwrap_or_default();
    let mut command = Command::new(&program);
    command.args(words).arg(own).args(arguments);
    for name in OF_THE_SCRIPT {
        command.env_remove(name);
    }
    let error = command.exec();
    Err(CliError::failure(format!("{program}: {}", system_text(&error))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build_line(engine: Engine, set: &[(&str, &str)]) -> Result<String, CliError> {
        let variable = |name: &str| {
            let found = set.iter().find(|(set, _)| *set == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        launcher(engine, false, variable).map(|line| line.join(" "))
    }

    #[test]
    fn a_script_of_slurm_starts_one_process_on_each_node() {
        let begin =
            "srun --overlap --mpi=pmi2 --unbuffered --nodes=4 --ntasks=4 --ntasks-per-node=1";
        for (cpus, options) in [
            ("16(x4)", "--cpus-per-task=16"),
            ("8", "--cpus-per-task=8"),
            ("16(x2),8(x2)", "--whole --cpu-bind=none"),
        ] {
            let set = [
                ("SLURM_JOB_ID", "7"),
                ("SLURM_JOB_NUM_NODES", "4"),
                ("SLURM_JOB_CPUS_PER_NODE", cpus),
            ];
            for engine in [Engine::Slurm, Engine::Auto] {
                let expected = format!("{begin} {options} --input=0");
                assert_eq!(build_line(engine, &set).unwrap(), expected);
            }
        }
    }

    #[test]
    fn a_place_without_an_allocation_is_refused_by_what_is_missing() {
        for (engine, set, missing) in [
            (Engine::Auto, &[][..], "neither FLUX_URI nor SLURM_JOB_ID is set"),
            (Engine::Slurm, &[("FLUX_URI", "local:///f")][..], "SLURM_JOB_ID is not set"),
            (Engine::Flux, &[("SLURM_JOB_ID", "7")][..], "FLUX_URI is not set"),
        ] {
            let refused = build_line(engine, set).unwrap_err().text;
            assert!(refused.contains(missing), "{refused}");
        }
    }

    #[test]
    fn what_a_launcher_has_started_starts_nothing() {
        let has = |name: &'static str| move |asked: &str| (asked == name).then(|| "1".to_owned());
        assert!(is_launched(has("SLURM_STEP_ID")) && is_launched(has("FLUX_JOB_ID")));
        let shell_of_salloc = |asked: &str| (asked == "SLURM_STEP_ID").then(|| "4294967290".into());
        assert!(!is_launched(shell_of_salloc));
        assert!(!is_launched(has("SLURM_JOB_ID")) && !is_launched(has("FLUX_ENCLOSING_ID")));
    }
}
