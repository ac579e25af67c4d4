//! `slurm install`: writes small programs with the names of Slurm's commands, which call this one. Only files that it
//! has written itself are overwritten.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::cli::common::message::{CliError, system_text};

/// The names of the commands.
const NAMES: [&str; 7] = ["sacct", "sbatch", "scancel", "scontrol", "sinfo", "squeue", "srun"];

/// The second line of the programs, by which they are recognized.
const MARK: &str = "# Made by jobtap slurm install.";

/// Arguments of `slurm install`.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct InstallArgs {
    /// Directory, made if it doesn't exist
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

/// A program that can't be written.
#[derive(Debug, Error)]
enum InstallError {
    #[error("{}: {}", .0.display(), system_text(.1))]
    File(PathBuf, io::Error),
    #[error("{}: exists and wasn't made by this command: nothing was written", .0.display())]
    Foreign(PathBuf),
    #[error("the path of this program isn't UTF-8: {}", .0.display())]
    Program(PathBuf),
}

/// Runs the command. Returns what it prints.
pub(in crate::cli) fn install(args: &InstallArgs) -> Result<String, CliError> {
    let program = path_now(std::env::current_exe()?);
    write_all(&args.directory, &program).map_err(CliError::failure)?;
    let names = NAMES.join(", ");
    Ok(format!("{}: {names}\n", args.directory.display()))
}

/// The path at which the program is now. Linux adds a word to that of one which was replaced, as by an upgrade.
fn path_now(program: PathBuf) -> PathBuf {
    let now = program.to_str().and_then(|text| text.strip_suffix(" (deleted)")).map(PathBuf::from);
    now.unwrap_or(program)
}

fn write_all(directory: &Path, program: &Path) -> Result<(), InstallError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |error| InstallError::File(path, error)
    };
    let program_text = program.to_str().ok_or_else(|| InstallError::Program(program.to_owned()))?;
    let quoted = program_text.replace('\'', r"'\''");
    fs::create_dir_all(directory).map_err(failed(directory))?;
    for path in NAMES.map(|name| directory.join(name)) {
        match fs::read_to_string(&path) {
            Ok(text) if text.lines().nth(1) == Some(MARK) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound && !path.is_symlink() => {}
            Ok(_) | Err(_) => return Err(InstallError::Foreign(path)),
        }
    }
    for name in NAMES {
        let path = directory.join(name);
        // Complete from the beginning: a prolog may be running the old one, and another may call it now.
        let new = directory.join(format!(".{name}.{}", std::process::id()));
        let text = format!("#!/bin/sh\n{MARK}\nexec '{quoted}' {name} \"$@\"\n");
        let mut file = create(&new).map_err(failed(&new))?;
        let written = file
            .write_all(text.as_bytes())
            // Whatever the umask is.
            .and_then(|()| file.set_permissions(fs::Permissions::from_mode(0o755)))
            .and_then(|()| fs::rename(&new, &path));
        if let Err(error) = written {
            let _ = fs::remove_file(&new);
            return Err(InstallError::File(path, error));
        }
    }
    Ok(())
}

/// Makes a file that doesn't exist yet: whoever else may write to the directory must not choose by a link what is
/// written to.
fn create(path: &Path) -> io::Result<fs::File> {
    fs::OpenOptions::new().write(true).create_new(true).mode(0o755).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_own_files_are_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let bin = dir.path().join("bin");
        write_all(&bin, Path::new("/opt/it's/jobtap")).unwrap();
        write_all(&bin, Path::new("/opt/jobtap")).unwrap();
        let text = fs::read_to_string(bin.join("squeue")).unwrap();
        assert!(text.ends_with("exec '/opt/jobtap' squeue \"$@\"\n"), "{text}");
        assert_eq!(fs::read_dir(&bin).unwrap().count(), NAMES.len());
        fs::write(bin.join("sinfo"), "#!/bin/sh\nslurm\n").unwrap();
        let refused = write_all(&bin, Path::new("/new/jobtap")).unwrap_err().to_string();
        assert!(refused.contains("sinfo: exists and wasn't made"), "{refused}");
        let text = fs::read_to_string(bin.join("sacct")).unwrap();
        assert!(text.contains("/opt/jobtap"), "nothing was written: {text}");
    }

    #[test]
    fn a_program_that_was_replaced_is_called_by_its_path() {
        assert_eq!(path_now("/bin/jobtap (deleted)".into()), Path::new("/bin/jobtap"));
        assert_eq!(path_now("/bin/jobtap".into()), Path::new("/bin/jobtap"));
    }

    #[test]
    fn a_link_in_the_place_of_a_new_file_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (target, link) = (dir.path().join("target"), dir.path().join("link"));
        std::os::unix::fs::symlink(&target, &link).unwrap();
        assert_eq!(create(&link).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert!(!target.exists());
    }
}
