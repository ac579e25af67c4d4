//! Tools for those who write plugins, choose them for a manager, or compare policies. They need no running manager. A
//! site can build its manager without them, by leaving out the feature `tools`: the manager then contains neither a
//! compiler's front end nor a load generator, and compiles faster.

mod bench;
mod build;
mod new;
mod policy;
mod replay;
mod simulate;

use std::process::ExitCode;

/// The commands. Their doc comments are the help texts.
#[derive(Debug, clap::Subcommand)]
pub(super) enum ToolCommand {
    /// Measure the memory and time that jobs take on this machine
    Bench(bench::BenchArgs),
    /// Replay a trace of jobs through a configuration, in virtual time
    Simulate(simulate::SimulateArgs),
    /// Compare two configurations on a trace
    Policy(policy::PolicyArgs),
    /// Give recorded jobs to a plugin, and compare what it answers with what was recorded
    Replay(replay::ReplayArgs),
    /// Build a manager with chosen plugins
    Build(build::BuildArgs),
    /// Create the crate of a plugin, or the manifest of a manager
    New(new::NewArgs),
}

/// Runs one of them.
pub(super) fn run(command: ToolCommand) -> ExitCode {
    match command {
        ToolCommand::Bench(args) => bench::run(args),
        ToolCommand::Simulate(args) => simulate::run(args),
        ToolCommand::Policy(args) => policy::run(args),
        ToolCommand::Replay(args) => replay::run(args),
        ToolCommand::Build(args) => build::run(args),
        ToolCommand::New(args) => new::run(args),
    }
}
