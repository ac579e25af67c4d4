//! Refuses plugins that need what a host doesn't serve. Their source shows it, before minutes of compiling.

use std::path::{Path, PathBuf};

use jobtap_core::host::{HostKind, SERVICE_OFFERS, topic_named};
use jobtap_daemon::composition::Host;

use crate::error::{Gap, HostError, Unserved, Whose};
use crate::lineup::Member;
use crate::needs::{Need, What};

/// Refuses plugins that need what the host doesn't offer.
///
/// # Errors
/// Names each plugin, the place of each topic, service and call, and what to do.
pub(crate) fn check(host: Host, members: &[Member]) -> Result<(), HostError> {
    let host = host.kind();
    let plugins = || members.iter().flat_map(|member| &member.plugins);
    if plugins().next().is_none() {
        return Err(HostError::NoPlugin(host));
    }
    let mut refusals: Vec<Unserved> = Vec::new();
    for plugin in plugins() {
        refusals.extend(unserved(host, Whose::Plugin(plugin.name.clone()), &plugin.needs));
    }
    for member in members {
        refusals.extend(unserved(host, Whose::Functions(member.name.clone()), &member.shared));
    }
    if refusals.is_empty() { Ok(()) } else { Err(HostError::Unserved(refusals)) }
}

fn unserved(host: HostKind, whose: Whose, needs: &[Need]) -> Option<Unserved> {
    // First what a plugin is called for, then what it calls.
    let is_call = |need: &&Need| matches!(need.what, What::Call(_));
    let (calls, topics): (Vec<&Need>, Vec<&Need>) = needs.iter().partition(is_call);
    let gaps: Vec<Gap> =
        topics.into_iter().chain(calls).filter_map(|need| gap(host, need)).collect();
    (!gaps.is_empty()).then_some(Unserved { whose, host, gaps })
}

/// Why the host doesn't serve something, and where it is in the source. `None` if the host serves it.
fn gap(host: HostKind, need: &Need) -> Option<Gap> {
    let Need { what, file, line, function } = need;
    let (what, why) = match what {
        What::Handler { topic, is_async } => {
            let id = topic_named(topic)?;
            let offer = if *is_async { host.async_topic(id) } else { host.topic(id) };
            let is_too_much = *is_async && host.topic(id).is_served();
            let handler = if is_too_much { "async handler" } else { "handler" };
            (format!("{handler} {function} of {topic}"), offer.gap()?)
        }
        What::Partitions => return None,
        What::Service(name) => {
            let name = if name.is_empty() { String::new() } else { format!(" {name:?}") };
            (format!("service{name}, handler {function}"), SERVICE_OFFERS.for_host(host).gap()?)
        }
        What::Call(call) => {
            let (receiver, method) = (&call.receiver, &call.method);
            (format!("{receiver}.{method}() in {function}"), host.call_named(method).gap()?)
        }
    };
    Some(Gap { file: shown(file), line: *line, what, why })
}

/// The path of a source file as its author knows it, not through the links of the generated crate; relative
/// to the current directory if the file is below that.
fn shown(file: &Path) -> PathBuf {
    let file = file.canonicalize().unwrap_or_else(|_| file.to_path_buf());
    let here = std::env::current_dir().and_then(|here| here.canonicalize()).ok();
    let below = here.as_deref().and_then(|here| file.strip_prefix(here).ok());
    below.map(Path::to_path_buf).unwrap_or(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::needs::Call;
    use crate::scan::Declared;

    fn need(line: usize, function: &str, what: What) -> Need {
        Need { what, file: "/site/src/lib.rs".into(), line, function: function.into() }
    }

    fn member(needs: Vec<Need>) -> Member {
        let plugin = Declared { name: "fairshare".into(), needs, ..Declared::default() };
        let (plugins, schedulers, shared) = (vec![plugin], Vec::new(), Vec::new());
        Member { name: "fairshare".into(), plugins, schedulers, shared }
    }

    fn handler(line: usize, topic: &str, is_async: bool) -> Need {
        need(line, "handle", What::Handler { topic: topic.into(), is_async })
    }

    fn call(line: usize, method: &str) -> Need {
        let call = Call { receiver: "cx".into(), method: method.into() };
        need(line, "handle", What::Call(call))
    }

    #[test]
    fn a_plugin_that_needs_more_is_refused_place_by_place() {
        let needs = || {
            vec![
                call(3, "retain_resources"),
                handler(1, "job.validate", false),
                handler(2, "job.dependency.quota", false),
                handler(4, "job.event.start", true),
                need(5, "set", What::Service("set-limit".into())),
                call(6, "fail_job"),
            ]
        };
        let text = check(Host::SlurmJobSubmit, &[member(needs())]).unwrap_err().to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 6, "{text}");
        assert_eq!(lines[0], "plugin \"fairshare\" can't run in Slurm's job_submit:");
        let begins = [
            "  /site/src/lib.rs:2: handler handle of job.dependency.quota: Slurm tells",
            "  /site/src/lib.rs:4: handler handle of job.event.start: Slurm tells",
            "  /site/src/lib.rs:5: service \"set-limit\", handler set: Slurm passes no requests",
            "  /site/src/lib.rs:3: cx.retain_resources() in handle: Slurm lets",
            "  /site/src/lib.rs:6: cx.fail_job() in handle: Slurm lets",
        ];
        for (line, begin) in lines[1..].iter().zip(begins) {
            assert!(line.starts_with(begin), "{text}");
        }
        let text = check(Host::Flux, &[member(needs())]).unwrap_err().to_string();
        assert_eq!(text.lines().count(), 2, "{text}");
        // All plugins are named at once.
        let fine = member(vec![handler(1, "job.validate", false)]);
        let both = [member(needs()), fine, member(needs())];
        let text = check(Host::Flux, &both).unwrap_err().to_string();
        assert_eq!(text.matches("can't run in Flux").count(), 2, "{text}");
    }

    #[test]
    fn a_function_beside_the_plugins_is_refused_too() {
        let mut with_helper = member(vec![handler(1, "job.validate", false)]);
        with_helper.shared.push(call(9, "guest_put"));
        let text = check(Host::Flux, &[with_helper]).unwrap_err().to_string();
        let begin =
            "the functions of crate \"fairshare\" can't run in Flux:\n  /site/src/lib.rs:9: cx.";
        assert!(text.starts_with(begin), "{text}");
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
        assert!(check(Host::Flux, &[member(vec![handler(1, "job.validate", false)])]).is_ok());
        let text = check(Host::Flux, &[member(vec![handler(1, "job.validate", true)])]);
        let text = text.unwrap_err().to_string();
        let place =
            "\n  /site/src/lib.rs:1: async handler handle of job.validate: Flux's job manager";
        assert!(text.contains(place), "{text}");
    }
}
