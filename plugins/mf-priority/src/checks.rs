//! Why a job is refused, in the words of flux-accounting.

use jobtap_core::prelude::*;

use crate::accounting::Accounting;
use crate::association::Association;
use crate::size::{NotCountable, Size};
use crate::updates::Terms;

impl Accounting {
    pub(crate) fn check_queue(
        &self,
        association: &Association,
        queue: Option<&str>,
    ) -> Result<(), Reject> {
        let Some(name) = queue else { return Ok(()) };
        let is_known = self.queues.contains_key(name);
        if self.denies_unknown_queues && !is_known {
            return Err(Reject::new(format!(
                "queue \"{name}\" is unknown to flux-accounting and deny-unknown-queues is enabled"
            )));
        }
        let valid = association.terms.queues.join(",");
        let text =
            || format!("queue \"{name}\" not valid for user; valid queues for user: {valid}");
        let factor = self.queue_factor(&association.terms, queue);
        factor.map(drop).ok_or_else(|| Reject::new(text()))
    }

    pub(crate) fn check_project(
        &self,
        association: &Association,
        project: Option<&str>,
    ) -> Result<(), Reject> {
        let Some(name) = project else { return Ok(()) };
        let is_in = |names: &[String]| names.iter().any(|known| known == name);
        match is_in(&self.projects) && is_in(&association.terms.projects) {
            true => Ok(()),
            false => Err(Reject::new(format!(
                "project \"{name}\" not valid for user; valid projects for user: {}",
                association.terms.projects.join(",")
            ))),
        }
    }

    pub(crate) fn check_size(
        &self,
        association: &Association,
        job: &Job,
        queue: Option<&str>,
    ) -> Result<(), Reject> {
        let Size { nodes, cores } = Size::of_jobspec(job.jobspec().value())
            .map_err(|NotCountable| Reject::new("unable to count resources for job"))?;
        let of_queue = queue.and_then(|name| self.queues.get(name));
        if let Some(queue) = of_queue.filter(|queue| nodes > queue.max_nodes_per_assoc) {
            return Err(Reject::new(format!(
                "job size ({nodes} node(s)) is greater than max resources limit configured for queue ({} node(s))",
                queue.max_nodes_per_assoc
            )));
        }
        let Terms { max_nodes, max_cores, .. } = &association.terms;
        match nodes > *max_nodes || cores > *max_cores {
            false => Ok(()),
            true => Err(Reject::new(format!(
                "job size ({nodes} node(s), {cores} core(s)) is greater than max resources limits configured for \
                 association ({max_nodes} node(s), {max_cores} core(s))"
            ))),
        }
    }
}
