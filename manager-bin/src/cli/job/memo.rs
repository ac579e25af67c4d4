//! `job memo`: sets memos of a job, which listings show among the job's annotations.

use serde_json::{Map, Value};

use crate::cli::common::arrays;
use crate::cli::common::message::CliError;
use crate::client::Client;
use crate::daemon::config::{merge, nest};
use crate::files::input;
use crate::rpc::services::job_manager::Memo;

/// Options and arguments of `job memo`.
#[derive(Debug, clap::Args)]
pub(super) struct MemoArgs {
    /// Don't record the memo in the eventlog; it is lost when the manager restarts
    #[arg(long)]
    volatile: bool,
    /// Job id
    #[arg(value_name = "JOBID")]
    id: String,
    /// Memos. A dotted KEY nests, VAL is JSON or a string, "-" reads stdin, null removes the key
    #[arg(value_name = "KEY=VAL", required = true)]
    memos: Vec<String>,
}

/// Runs the command.
pub(super) async fn run(client: &Client, args: &MemoArgs) -> Result<u8, CliError> {
    let target = arrays::target(&args.id, client).await?;
    let memo = memo(&args.memos, || Ok(input::stdin_text()?))?;
    let response = client.call(Memo { id: target.id, volatile: args.volatile, memo }).await;
    response.map_err(|error| CliError::failure(format!("memo: {error}")))?;
    Ok(0)
}

/// The object of all memos on the command line.
fn memo(
    words: &[String],
    stdin: impl Fn() -> Result<String, CliError>,
) -> Result<Map<String, Value>, CliError> {
    let mut object = Value::Object(Map::new());
    for word in words {
        let missing = |key| CliError::failure(format!("memo: no value for key={key}"));
        let (key, text) = word.split_once('=').ok_or_else(|| missing(word))?;
        let text = if text == "-" { stdin()? } else { text.to_owned() };
        let value = serde_json::from_str(&text).unwrap_or(Value::String(text));
        let nested = nest(key, value)
            .ok_or_else(|| CliError::failure(format!("memo: a part of key {key:?} is empty")))?;
        merge(&mut object, nested);
    }
    match object {
        Value::Object(object) => Ok(object),
        _ => Ok(Map::new()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn memo_of(words: &[&str]) -> Result<Value, CliError> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let memo = memo(&words, || Ok("[1, 2]\n".to_owned()));
        memo.map(Value::Object)
    }

    #[test]
    fn dotted_keys_nest_and_values_are_json_or_strings() {
        let memo = memo_of(&["a.b=1", "a.c=two words", "d=null", "e=x=y", "f="]).unwrap();
        let wanted = json!({"a": {"b": 1, "c": "two words"}, "d": null, "e": "x=y", "f": ""});
        assert_eq!(memo, wanted);
        assert_eq!(memo_of(&["list=-"]).unwrap(), json!({"list": [1, 2]}));
    }

    #[test]
    fn a_memo_needs_a_key_and_a_value() {
        assert_eq!(memo_of(&["a"]).unwrap_err().text, "memo: no value for key=a");
        assert_eq!(memo_of(&["a..b=1"]).unwrap_err().text, "memo: a part of key \"a..b\" is empty");
    }
}
