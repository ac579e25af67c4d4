//! `jobs --recursive`: lists the jobs of inner managers, which are managers that run as jobs. Their address
//! is the memo `uri` of the job (`user.uri`).

use std::pin::Pin;

use serde_json::Value;

use super::fetch::{JobSource, fetch, print_stats};
use super::instance::add_instances;
use super::options::{JobsArgs, Setting};
use super::row::JobRow;
use super::table::{sort, table_text};
use crate::cli::common::format::Template;
use crate::cli::common::message::{CliError, Streams};

/// The future of an asynchronous function that calls itself: boxed, since its size would be infinite otherwise.
type Recursive<'f, T> = Pin<Box<dyn Future<Output = Result<T, CliError>> + 'f>>;

/// The addresses of the managers on the path from the outermost one. Users can write any address into the
/// memo of a job, so that addresses can form a cycle: a manager that is on the path isn't visited again.
type Ancestors<'f> = &'f [&'f str];

/// How the jobs of inner managers are listed: with the options, setting and format of the outer list.
pub(super) struct Recursion<'a> {
    pub(super) args: &'a JobsArgs,
    pub(super) setting: &'a Setting,
    pub(super) template: &'a Template,
}

impl Recursion<'_> {
    /// Prints the jobs of each inner manager among `rows` under a line with the job ids that lead to it.
    pub(super) fn print_inner<'f, S: JobSource>(
        &'f self,
        source: &'f S,
        rows: &'f [JobRow<'_>],
        path: &'f str,
        ancestors: Ancestors<'f>,
        streams: &'f mut Streams<'_>,
    ) -> Recursive<'f, ()> {
        Box::pin(async move {
            for row in rows {
                let Some(inner) = self.manager_of(source, row, ancestors).await else { continue };
                let id = self.setting.display.ids.show(row.id);
                let path = if path.is_empty() { id } else { format!("{path}/{id}") };
                streams.print(&format!("\n{path}:\n"))?;
                let args = self.inner_args();
                if args.stats {
                    print_stats(&inner, args.queues().as_deref(), streams).await?;
                }
                let rows = self.rows_of(&args, &inner, streams).await?;
                streams.print(&table_text(&args, self.setting, self.template, &rows)?)?;
                let ancestors = with_manager(ancestors, row.inner_manager());
                self.print_inner(&inner, &rows, &path, &ancestors, streams).await?;
            }
            Ok(())
        })
    }

    /// The jobs as JSON. The jobs of an inner manager are the member `jobs` of its own object.
    pub(super) fn nested_json<'f, S: JobSource>(
        &'f self,
        source: &'f S,
        rows: &'f [JobRow<'_>],
        ancestors: Ancestors<'f>,
        streams: &'f mut Streams<'_>,
    ) -> Recursive<'f, Vec<Value>> {
        Box::pin(async move {
            let mut jobs = Vec::new();
            for row in rows {
                let mut job = row.to_json();
                if let Some(inner) = self.manager_of(source, row, ancestors).await {
                    let rows = self.rows_of(&self.inner_args(), &inner, streams).await?;
                    let ancestors = with_manager(ancestors, row.inner_manager());
                    let nested = self.nested_json(&inner, &rows, &ancestors, streams).await?;
                    if let Some(job) = job.as_object_mut() {
                        job.insert("jobs".to_owned(), Value::Array(nested));
                    }
                }
                jobs.push(job);
            }
            Ok(jobs)
        })
    }

    async fn rows_of(
        &self,
        args: &JobsArgs,
        source: &impl JobSource,
        streams: &mut Streams<'_>,
    ) -> Result<Vec<JobRow<'_>>, CliError> {
        let mut rows = fetch(args, self.setting, source, streams).await?.rows;
        if !args.json {
            add_instances(args, self.setting, self.template, source, &mut rows).await;
        }
        sort(args, self.template, &mut rows)?;
        Ok(rows)
    }

    /// Connects to the manager that runs as this job. Returns `None` if the options exclude it, if it doesn't
    /// respond, or if it is on the path already.
    async fn manager_of<S: JobSource>(
        &self,
        source: &S,
        row: &JobRow<'_>,
        ancestors: Ancestors<'_>,
    ) -> Option<S> {
        let level = i64::try_from(ancestors.len()).unwrap_or(i64::MAX);
        let wanted = self.args.recurses() && self.args.level.is_none_or(|deepest| level < deepest);
        // The socket of another user's manager usually refuses the caller.
        let own = self.args.recurse_all || row.userid() == Some(self.setting.uid);
        if !wanted || !own {
            return None;
        }
        let uri = row.inner_manager().filter(|uri| !ancestors.contains(uri))?;
        source.inner(uri, row.ranks()).await
    }

    /// The options for inner managers: without job ids, which belong to the outer manager, and without
    /// another header.
    fn inner_args(&self) -> JobsArgs {
        JobsArgs { jobids: Vec::new(), no_header: true, ..self.args.clone() }
    }
}

fn with_manager<'f>(ancestors: Ancestors<'f>, next: Option<&'f str>) -> Vec<&'f str> {
    ancestors.iter().copied().chain(next).collect()
}
