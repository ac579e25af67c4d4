//! `jobs --recursive`: the jobs of managers that run as jobs, which are found by the address in the memo of
//! the job (`user.uri`).

use std::pin::Pin;

use serde_json::Value;

use super::fetch::{JobSource, fetch, print_stats};
use super::row::JobRow;
use super::{JobsArgs, Setting, sort, table_text};
use crate::cli::format::Template;
use crate::cli::message::{CliError, Streams};

/// A future that recurses into managers of unknown depth, and so must be boxed.
type Deep<'f, T> = Pin<Box<dyn Future<Output = Result<T, CliError>> + 'f>>;

/// The addresses of the managers on the way to one, to stop at cycles: a user can write any address into
/// the memo of a job.
type Way<'f> = &'f [&'f str];

/// What is listed of each manager.
pub(in crate::cli) struct Look<'a> {
    pub(in crate::cli) args: &'a JobsArgs,
    pub(in crate::cli) setting: &'a Setting,
    pub(in crate::cli) template: &'a Template,
}

impl Look<'_> {
    /// Prints the jobs of the managers among `rows`, each under the path of job ids that leads there.
    pub(in crate::cli) fn print_inner<'f, S: JobSource>(
        &'f self,
        source: &'f S,
        rows: &'f [JobRow<'_>],
        path: &'f str,
        way: Way<'f>,
        streams: &'f mut Streams<'_>,
    ) -> Deep<'f, ()> {
        Box::pin(async move {
            for row in rows {
                let Some(inner) = self.manager_of(source, row, way).await else { continue };
                let id = self.setting.view.ids.show(row.id);
                let path = if path.is_empty() { id } else { format!("{path}/{id}") };
                streams.print(&format!("\n{path}:\n"))?;
                let args = self.inner_args();
                if args.stats {
                    print_stats(&inner, args.queues().as_deref(), streams).await?;
                }
                let rows = self.rows_of(&args, &inner, streams).await?;
                streams.print(&table_text(&args, self.setting, self.template, &rows)?)?;
                let way = farther(way, row.inner_manager());
                self.print_inner(&inner, &rows, &path, &way, streams).await?;
            }
            Ok(())
        })
    }

    /// The jobs as JSON, those that are managers with their own ones as member `jobs`.
    pub(in crate::cli) fn whole_json<'f, S: JobSource>(
        &'f self,
        source: &'f S,
        rows: &'f [JobRow<'_>],
        way: Way<'f>,
        streams: &'f mut Streams<'_>,
    ) -> Deep<'f, Vec<Value>> {
        Box::pin(async move {
            let mut jobs = Vec::new();
            for row in rows {
                let mut job = row.to_json();
                if let Some(inner) = self.manager_of(source, row, way).await {
                    let rows = self.rows_of(&self.inner_args(), &inner, streams).await?;
                    let way = farther(way, row.inner_manager());
                    let within = self.whole_json(&inner, &rows, &way, streams).await?;
                    if let Some(job) = job.as_object_mut() {
                        job.insert("jobs".to_owned(), Value::Array(within));
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
        sort(args, self.template, &mut rows)?;
        Ok(rows)
    }

    /// Connects to the manager that runs as this job, if its jobs are wanted and it responds.
    async fn manager_of<S: JobSource>(
        &self,
        source: &S,
        row: &JobRow<'_>,
        way: Way<'_>,
    ) -> Option<S> {
        let level = way.len();
        let wanted = self.args.recurses() && self.args.level.is_none_or(|deepest| level < deepest);
        let own = self.args.recurse_all || row.userid() == Some(self.setting.uid);
        if !wanted || !own {
            return None;
        }
        let uri = row.inner_manager().filter(|uri| !way.contains(uri))?;
        source.inner(uri).await
    }

    /// The options for inner managers: without job ids, which belong to the outer manager, and without a
    /// second header.
    fn inner_args(&self) -> JobsArgs {
        JobsArgs { jobids: Vec::new(), no_header: true, ..self.args.clone() }
    }
}

fn farther<'f>(way: Way<'f>, next: Option<&'f str>) -> Vec<&'f str> {
    way.iter().copied().chain(next).collect()
}
