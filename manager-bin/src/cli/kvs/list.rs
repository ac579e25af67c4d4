//! `kvs ls` and `kvs dir`: list the directories of the tree of keys.

use super::get;
use super::messages::key_error;
use super::namespace::{Namespace, NamespaceArgs};
use crate::cli::common::message::CliError;
use crate::cli::common::session;
use crate::client::{Client, RpcError};
use crate::rpc::errno::{ENOENT, ENOTDIR};
use crate::rpc::services::kvs::List;

/// The maximum length of a line of `kvs dir` without a terminal, in characters.
const WIDTH: usize = 80;

/// Options and arguments of `kvs ls`.
#[derive(Debug, clap::Args)]
pub(super) struct LsArgs {
    #[command(flatten)]
    namespace: NamespaceArgs,
    /// List the directories below as well
    #[arg(short = 'R', long)]
    recursive: bool,
    /// List the directory itself instead of its contents
    #[arg(short = 'd', long)]
    directory: bool,
    /// Append a dot to the names of directories
    #[arg(short = 'F', long)]
    classify: bool,
    /// Print one name per line; accepted, as this is always done
    #[arg(short = '1', long)]
    one_column: bool,
    /// Directories or keys [default: the root]
    #[arg(value_name = "KEY")]
    keys: Vec<String>,
}

/// Options and arguments of `kvs dir`.
#[derive(Debug, clap::Args)]
pub(super) struct DirArgs {
    #[command(flatten)]
    namespace: NamespaceArgs,
    /// List the directories below as well
    #[arg(short = 'R', long)]
    recursive: bool,
    /// Print keys without their values
    #[arg(short = 'd', long)]
    directory: bool,
    /// Truncate lines to this width; 0 for no limit [default: that of the terminal]
    #[arg(short = 'w', long, value_name = "N")]
    width: Option<usize>,
    /// Directory to list; "." is the root
    #[arg(value_name = "KEY", default_value = ".")]
    key: String,
}

/// Runs `kvs ls`. Like ls(1) it lists the keys first, then the directories, and continues after a missing one.
pub(super) async fn ls(client: &Client, args: &LsArgs) -> Result<u8, CliError> {
    let root = [".".to_owned()];
    let wanted = if args.keys.is_empty() { root.as_slice() } else { &args.keys };
    let namespace = args.namespace.namespace()?;
    let found = find(client, &namespace, args, wanted).await?;
    let Found { mut names, mut directories, missing } = found;
    names.sort_unstable();
    directories.sort_unstable();
    let mut lister = Lister { args, titled: args.recursive, began: false };
    lister.titled |= directories.len() > 1 || !names.is_empty();
    if !names.is_empty() {
        lister.began = true;
        session::print(&names.iter().map(|name| format!("{name}\n")).collect::<String>())?;
    }
    for (key, content) in directories {
        let mut remaining = lister.list(&key, content)?;
        while args.recursive
            && let Some(key) = remaining.pop()
        {
            let content = entries(client, &namespace, &key, false).await;
            let content = content.map_err(|error| key_error(&key, error))?;
            remaining.extend(lister.list(&key, content)?);
        }
    }
    Ok(u8::from(missing))
}

/// What the arguments of `kvs ls` name.
#[derive(Default)]
struct Found {
    /// Keys, and with `--directory` directories, as they are printed.
    names: Vec<String>,
    /// Directories and their entries.
    directories: Vec<(String, Vec<String>)>,
    /// Whether some arguments are neither. They have been reported on standard error.
    missing: bool,
}

async fn find(
    client: &Client,
    namespace: &Namespace,
    args: &LsArgs,
    wanted: &[String],
) -> Result<Found, CliError> {
    let mut found = Found::default();
    for key in wanted {
        let failed = match (args.directory, entries(client, namespace, key, false).await) {
            (true, Ok(_)) => {
                found.names.push(format!("{key}{}", if args.classify { "." } else { "" }));
                continue;
            }
            (false, Ok(entries)) => {
                found.directories.push((key.clone(), entries));
                continue;
            }
            (_, Err(error)) => error,
        };
        match failed.errno {
            ENOTDIR => found.names.push(key.clone()),
            ENOENT => {
                // As in Flux, without the name of the program.
                session::print_message(&format!("{key}: {failed}"));
                found.missing = true;
            }
            _ => return Err(key_error(key, failed)),
        }
    }
    Ok(found)
}

/// Prints directories one below the other.
struct Lister<'a> {
    args: &'a LsArgs,
    /// Whether the name of each directory is printed above it.
    titled: bool,
    /// Whether something has been printed, so that an empty line must precede the next directory.
    began: bool,
}

impl Lister<'_> {
    /// Prints a directory, and returns its subdirectories.
    fn list(&mut self, key: &str, entries: Vec<String>) -> Result<Vec<String>, CliError> {
        if std::mem::replace(&mut self.began, true) {
            session::print("\n")?;
        }
        if self.titled {
            session::print(&format!("{key}:\n"))?;
        }
        print_names(self.args, &entries)?;
        Ok(directories(entries))
    }
}

/// The directories among the entries in reverse order, so that the first is popped first.
fn directories(entries: Vec<String>) -> Vec<String> {
    let directories = entries.iter().rev().filter_map(|key| key.strip_suffix('.'));
    directories.map(str::to_owned).collect()
}

fn print_names(args: &LsArgs, entries: &[String]) -> Result<(), CliError> {
    let mut text = String::new();
    for key in entries {
        let (whole, mark) = match key.strip_suffix('.') {
            Some(whole) => (whole, if args.classify { "." } else { "" }),
            None => (key.as_str(), ""),
        };
        let name = whole.rsplit('.').next().unwrap_or(whole);
        text.push_str(&format!("{name}{mark}\n"));
    }
    session::print(&text)
}

/// Runs `kvs dir`.
pub(super) async fn dir(client: &Client, args: &DirArgs) -> Result<u8, CliError> {
    let namespace = args.namespace.namespace()?;
    let entries = entries(client, &namespace, &args.key, args.recursive).await;
    let width = args.width.or_else(session::columns).unwrap_or(WIDTH);
    for key in entries.map_err(|error| key_error(&args.key, error))? {
        let line = if args.directory || key.ends_with('.') {
            key
        } else {
            let value = get::value(client, &namespace, &key).await;
            let value = value.map_err(|error| key_error(&key, error))?;
            let value = String::from_utf8_lossy(&value).trim_end().replace('\n', "\\n");
            truncate(format!("{key} = {value}"), width)
        };
        session::print(&format!("{line}\n"))?;
    }
    Ok(0)
}

fn truncate(line: String, width: usize) -> String {
    if width == 0 || line.chars().count() <= width {
        return line;
    }
    let start: String = line.chars().take(width.saturating_sub(3)).collect();
    start + "..."
}

/// The keys in a directory. Keys of directories end in a dot.
async fn entries(
    client: &Client,
    namespace: &Namespace,
    key: &str,
    recursive: bool,
) -> Result<Vec<String>, RpcError> {
    let keys = client.call(List { key: namespace.whole(key), recursive }).await?.keys;
    Ok(keys.into_iter().map(|key| namespace.own(key)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_truncated_between_characters() {
        assert_eq!(truncate("kƒƒƒ = 1234".into(), 9), "kƒƒƒ =...");
        assert_eq!(truncate("k = 1".into(), 5), "k = 1");
        assert_eq!(truncate("k = 1234567".into(), 0), "k = 1234567");
    }
}
