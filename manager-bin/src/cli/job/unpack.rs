//! `job unpack`: prints the output in an output pack, without a manager.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use jobtap_core::job::JobId;
use jobtap_core::resource::Idset;

use super::output::Pieces;
use crate::cli::common::arrays::Named;
use crate::cli::common::ids::show_id;
use crate::cli::common::message::CliError;
use crate::cli::common::session;
use crate::output_pack::{self, Of, PackReader};

/// How many bytes of output there are, by the array, the index and the job.
type Sizes = BTreeMap<(Option<JobId>, Option<u32>, JobId), u64>;

/// Options and arguments of `job unpack`.
#[derive(Debug, clap::Args)]
pub(super) struct UnpackArgs {
    /// List whose output there is, and how many bytes of it
    #[arg(short = 'L', long)]
    list: bool,
    /// Begin each line with the job, or the array and the index
    #[arg(short = 'l', long)]
    label_io: bool,
    /// The file, with those that other nodes have written: FILE.RANK
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Only of these jobs: ID, or ID[3], ID[1-4,7] of an array
    #[arg(value_name = "JOBID")]
    ids: Vec<Named>,
}

/// Runs the command.
pub(super) fn run(args: &UnpackArgs) -> Result<u8, CliError> {
    let mut sizes = Sizes::new();
    for file in output_pack::files(&args.file) {
        print(args, &file, &mut sizes)?;
    }
    if args.list {
        let line = |(key, size): (&(Option<JobId>, Option<u32>, JobId), &u64)| {
            let (array, index, job) = *key;
            format!("{:<24} {size}\n", shown(&Of { job, array, index }))
        };
        session::print(&sizes.iter().map(line).collect::<String>())?;
    }
    Ok(0)
}

/// Prints one of the files, or only adds to the sizes if these are to be listed.
fn print(args: &UnpackArgs, file: &Path, sizes: &mut Sizes) -> Result<(), CliError> {
    let file_name = file.display();
    let failed = |error| CliError::failure(format!("{file_name}: {error}"));
    let mut pack = PackReader::open(file).map_err(failed)?;
    let wanted = |of: &Of| args.ids.is_empty() || args.ids.iter().any(|named| is_of(named, of));
    while let Some(block) = pack.next(wanted).map_err(failed)? {
        let of = block.of;
        *sizes.entry((of.array, of.index, of.job)).or_default() += block.data.len() as u64;
        if args.list {
            continue;
        }
        let mut pieces = Pieces::default();
        for (piece, data) in block.each() {
            let text = pieces.buffer(piece.stream == "stderr");
            for line in data.split_inclusive(|byte| *byte == b'\n') {
                if args.label_io {
                    text.extend_from_slice(format!("{}: ", shown(&of)).as_bytes());
                }
                text.extend_from_slice(line);
            }
        }
        pieces.write()?;
    }
    if pack.passed_over() > 0 {
        let bytes = pack.passed_over();
        let text = format!(
            "jobtap-job: {file_name}: {bytes} bytes are in no whole block, and are left out"
        );
        session::print_message(&text);
    }
    Ok(())
}

fn is_of(named: &Named, of: &Of) -> bool {
    let is_element = || {
        let is_in = |indexes: &Idset| of.index.is_some_and(|index| indexes.contains(index));
        of.array == Some(named.id) && named.indexes().is_none_or(is_in)
    };
    (of.job == named.id && named.indexes().is_none()) || is_element()
}

fn shown(of: &Of) -> String {
    match (of.array, of.index) {
        (Some(array), Some(index)) => format!("{}[{index}]", show_id(array)),
        _ => show_id(of.job),
    }
}
