//! `kvs ls` and `kvs dir`: list the directories of the tree of keys.

use super::{get, key_error};
use crate::cli::common::message::CliError;
use crate::cli::common::session;
use crate::client::{Client, RpcError};
use crate::rpc::errno::{EISDIR, ENOTDIR};
use crate::rpc::services::kvs::List;

/// The default of the longest line of `kvs dir`, in characters.
const WIDTH: usize = 79;

/// Options and arguments of `kvs ls`.
#[derive(Debug, clap::Args)]
pub(super) struct LsArgs {
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
    /// List the directories below as well
    #[arg(short = 'R', long)]
    recursive: bool,
    /// Print keys without their values
    #[arg(short = 'd', long)]
    directory: bool,
    /// Truncate lines to this width; 0 for no limit
    #[arg(short = 'w', long, value_name = "N", default_value_t = WIDTH)]
    width: usize,
    /// Directory to list; "." is the root
    #[arg(value_name = "KEY", default_value = ".")]
    key: String,
}

/// Runs `kvs ls`.
pub(super) async fn ls(client: &Client, args: &LsArgs) -> Result<u8, CliError> {
    let root = [".".to_owned()];
    let wanted = if args.keys.is_empty() { root.as_slice() } else { &args.keys };
    for (number, key) in wanted.iter().enumerate() {
        if args.directory {
            exists(client, key).await.map_err(|error| key_error(key, error))?;
            session::print(&format!("{key}\n"))?;
            continue;
        }
        let entries = match entries(client, key, false).await {
            // A key that isn't a directory is listed itself.
            Err(error) if error.errno == ENOTDIR => {
                session::print(&format!("{key}\n"))?;
                continue;
            }
            other => other.map_err(|error| key_error(key, error))?,
        };
        if wanted.len() > 1 || args.recursive {
            let gap = if number > 0 { "\n" } else { "" };
            session::print(&format!("{gap}{key}:\n"))?;
        }
        show(client, args, entries).await?;
    }
    Ok(0)
}

async fn show(client: &Client, args: &LsArgs, entries: Vec<String>) -> Result<(), CliError> {
    print_names(args, &entries)?;
    if !args.recursive {
        return Ok(());
    }
    let mut remaining: Vec<String> = directories(entries);
    while let Some(key) = remaining.pop() {
        let entries = self::entries(client, &key, false).await.map_err(|e| key_error(&key, e))?;
        session::print(&format!("\n{key}:\n"))?;
        print_names(args, &entries)?;
        remaining.extend(directories(entries));
    }
    Ok(())
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
    let entries = entries(client, &args.key, args.recursive).await;
    for key in entries.map_err(|error| key_error(&args.key, error))? {
        let line = if args.directory || key.ends_with('.') {
            key
        } else {
            let value = get::value(client, &key).await.map_err(|error| key_error(&key, error))?;
            let value = String::from_utf8_lossy(&value).trim_end().replace('\n', "\\n");
            truncate(format!("{key} = {value}"), args.width)
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
async fn entries(client: &Client, key: &str, recursive: bool) -> Result<Vec<String>, RpcError> {
    Ok(client.call(List { key: key.to_owned(), recursive }).await?.keys)
}

async fn exists(client: &Client, key: &str) -> Result<(), RpcError> {
    match get::value(client, key).await {
        Err(error) if error.errno != EISDIR => Err(error),
        _ => Ok(()),
    }
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
