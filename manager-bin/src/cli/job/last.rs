//! `job last`: the ids of the user's last jobs, the newest first.

use jobtap_core::job::JobId;
use serde_json::{Value, json};

use super::list::fetch;
use crate::cli::ids::show_id;
use crate::cli::message::CliError;
use crate::cli::session;
use crate::client::Client;

/// Arguments of `job last`.
#[derive(Debug, clap::Args)]
pub(super) struct LastArgs {
    /// How many, or a slice such as [1:3]
    #[arg(value_name = "N|SLICE", default_value = "1")]
    slice: String,
}

/// A slice of a list, as Python has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Slice {
    start: Option<i64>,
    stop: Option<i64>,
    step: i64,
}

/// Runs the command.
pub(super) async fn run(client: &Client, args: &LastArgs) -> Result<u8, CliError> {
    let slice = Slice::parse(&args.slice)
        .ok_or_else(|| CliError::failure(format!("invalid slice '{}'", args.slice)))?;
    let own = rustix::process::getuid().as_raw();
    let jobs = fetch(client, json!({ "userid": [own] }), 0, 0.0).await?;
    let id = |job: &Value| job.get("id").and_then(Value::as_u64).map(JobId::new);
    let mut ids: Vec<JobId> = jobs.iter().filter_map(id).collect();
    if ids.is_empty() {
        return Err(CliError::failure("job history is empty"));
    }
    ids.sort_unstable_by(|a, b| b.cmp(a));
    for id in slice.of(&ids) {
        session::print(&format!("{}\n", show_id(id)))?;
    }
    Ok(0)
}

impl Slice {
    /// Reads `N`, `[N]` or `[START:STOP:STEP]`, each part of which may be missing.
    fn parse(text: &str) -> Option<Self> {
        let Some(inner) = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) else {
            let count = text.parse::<i64>().ok()?;
            return Some(Self { start: None, stop: Some(count), step: 1 });
        };
        let part = |text: &str| match text.trim() {
            "" => Some(None),
            text => text.parse::<i64>().ok().map(Some),
        };
        let parts: Vec<Option<i64>> = inner.split(':').map(part).collect::<Option<_>>()?;
        match *parts.as_slice() {
            [Some(index)] => {
                let stop = if index == -1 { None } else { Some(index.checked_add(1)?) };
                Some(Self { start: Some(index), stop, step: 1 })
            }
            [start, stop] => Some(Self { start, stop, step: 1 }),
            [start, stop, step] => {
                let step = step.unwrap_or(1);
                (step != 0).then_some(Self { start, stop, step })
            }
            _ => None,
        }
    }

    fn of<T: Copy>(self, list: &[T]) -> Vec<T> {
        let length = i64::try_from(list.len()).unwrap_or(i64::MAX);
        let (low, high) = if self.step > 0 { (0, length) } else { (-1, length - 1) };
        let place = |index: i64| {
            if index < 0 { index.saturating_add(length) } else { index }.clamp(low, high)
        };
        let (first, last) = if self.step > 0 { (low, high) } else { (high, low) };
        let mut index = self.start.map_or(first, place);
        let stop = self.stop.map_or(last, place);
        let mut taken = Vec::new();
        while (self.step > 0 && index < stop) || (self.step < 0 && index > stop) {
            taken.extend(usize::try_from(index).ok().and_then(|index| list.get(index)).copied());
            index = index.saturating_add(self.step);
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]
    use proptest::prelude::*;

    use super::*;

    fn of(text: &str) -> Vec<u8> {
        Slice::parse(text).unwrap().of(&[0, 1, 2, 3, 4])
    }

    #[test]
    fn slices_are_those_of_python() {
        assert_eq!(of("2"), [0, 1]);
        assert_eq!(of("[1:3]"), [1, 2]);
        assert_eq!(of("[:2]"), [0, 1]);
        assert_eq!(of("[-2:]"), [3, 4]);
        assert_eq!(of("[::-1]"), [4, 3, 2, 1, 0]);
        assert_eq!(of("[-1]"), [4]);
        assert_eq!(of("[1]"), [1]);
        assert_eq!(of("[::2]"), [0, 2, 4]);
        assert!(of("[7:9]").is_empty());
        for bad in ["", "x", "[1:2:3:4]", "[::0]", "[a]", "1:2"] {
            assert_eq!(Slice::parse(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn no_slice_panics_or_leaves_the_list(start: Option<i64>, stop: Option<i64>, step in any::<i64>(), n in 0usize..5) {
            let slice = Slice { start, stop, step: if step == 0 { 1 } else { step } };
            let list: Vec<usize> = (0..n).collect();
            prop_assert!(slice.of(&list).len() <= n);
        }
    }
}
