//! Refuses plugins that need what a host doesn't serve, by their source: before minutes of compiling.

use jobtap_core::host::{SERVICE_OFFERS, topic_named};

use super::error::BuildError;
use super::lineup::Member;
use super::scan::{Declared, Need};
use crate::composition::Host;

/// Refuses plugins that need what the host doesn't offer.
///
/// # Errors
/// Names each plugin, each topic and call, and what to do.
pub(super) fn check(host: Host, members: &[Member]) -> Result<(), BuildError> {
    let plugins = || members.iter().flat_map(|member| &member.plugins);
    if plugins().next().is_none() {
        return Err(BuildError::refused(format!(
            "{}: there is no plugin to build: name a crate with --with NAME=PATH or in the manifest",
            host.kind()
        )));
    }
    let refusals: Vec<String> = plugins().filter_map(|found| refusal(host, found)).collect();
    if refusals.is_empty() {
        return Ok(());
    }
    Err(BuildError::refused(refusals.join("\n")))
}

fn refusal(host: Host, plugin: &Declared) -> Option<String> {
    let mut gaps: Vec<String> = Vec::new();
    // First what the plugin is called for, then what it calls.
    let is_call = |need: &&Need| matches!(need, Need::Call(_));
    let (calls, topics): (Vec<&Need>, Vec<&Need>) = plugin.needs.iter().partition(is_call);
    for need in topics.into_iter().chain(calls) {
        let gap = gap(host, need);
        gaps.extend(gap.filter(|gap| !gaps.contains(gap)));
    }
    if gaps.is_empty() {
        return None;
    }
    let (name, host) = (&plugin.name, host.kind());
    Some(format!("plugin {name:?} can't run in {host}:\n{}", gaps.join("\n")))
}

/// Why the host doesn't serve something, as a line of a message.
fn gap(host: Host, need: &Need) -> Option<String> {
    let kind = host.kind();
    match need {
        Need::Handler { topic, is_async } => {
            let id = topic_named(topic)?;
            let served = kind.topic(id).is_served();
            let offer = if *is_async { kind.async_topic(id) } else { kind.topic(id) };
            let what = if served { "an async handler of " } else { "" };
            offer.gap().map(|why| format!("  {what}{topic}: {why}"))
        }
        Need::Service => SERVICE_OFFERS.of(kind).gap().map(|why| format!("  a service: {why}")),
        Need::Call(name) => kind.call_named(name).gap().map(|why| format!("  cx.{name}(): {why}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(needs: Vec<Need>) -> Member {
        let plugin = Declared { name: "fairshare".into(), needs, ..Declared::default() };
        Member { name: "fairshare".into(), plugins: vec![plugin], schedulers: Vec::new() }
    }

    fn handler(topic: &str, is_async: bool) -> Need {
        Need::Handler { topic: topic.into(), is_async }
    }

    #[test]
    fn a_plugin_that_needs_more_is_refused_topic_by_topic() {
        let needs = || {
            vec![
                Need::Call("retain_resources".into()),
                handler("job.validate", false),
                handler("job.dependency.quota", false),
                handler("job.event.start", true),
                // Of another method.
                handler("job.event.start", true),
                Need::Service,
            ]
        };
        let text = check(Host::SlurmJobSubmit, &[member(needs())]).unwrap_err().to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 5, "{text}");
        assert_eq!(lines[0], "plugin \"fairshare\" can't run in Slurm's job_submit:");
        assert!(lines[1].starts_with("  job.dependency.quota: Slurm tells"), "{text}");
        assert!(lines[2].starts_with("  job.event.start: "), "{text}");
        assert!(lines[3].starts_with("  a service: Slurm passes no requests"), "{text}");
        assert!(lines[4].starts_with("  cx.retain_resources(): "), "{text}");
        let text = check(Host::Flux, &[member(needs())]).unwrap_err().to_string();
        assert_eq!(text.lines().count(), 2, "{text}");
        // All plugins are named at once.
        let both = [member(needs()), member(vec![handler("job.validate", false)]), member(needs())];
        let text = check(Host::Flux, &both).unwrap_err().to_string();
        assert_eq!(text.matches("can't run in Flux").count(), 2, "{text}");
    }

    #[test]
    fn a_file_without_a_plugin_is_refused() {
        let empty = Member { plugins: Vec::new(), ..member(Vec::new()) };
        for members in [vec![], vec![empty]] {
            let text = check(Host::SlurmPrep, &members).unwrap_err().to_string();
            assert!(text.starts_with("Slurm's PrEp: there is no plugin to build"), "{text}");
        }
    }

    #[test]
    fn only_an_async_handler_of_validate_is_too_much_for_flux() {
        assert!(check(Host::Flux, &[member(vec![handler("job.validate", false)])]).is_ok());
        let text = check(Host::Flux, &[member(vec![handler("job.validate", true)])]);
        let text = text.unwrap_err().to_string();
        assert!(
            text.contains("\n  an async handler of job.validate: Flux's job manager"),
            "{text}"
        );
    }
}
