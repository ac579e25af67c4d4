//! The message about an unknown name of a plugin, which suggests a similar name.

use jobtap_core::suggest::nearest;

use crate::cli::common::message::CliError;
use crate::client::{Client, RpcError};
use crate::rpc::errno::ENOENT;
use crate::rpc::services::plugin::{Jobtap, Plugins};

/// The names among which a similar one is searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli) enum Among {
    /// The names of the loaded plugins.
    Loaded,
    /// The names of all plugins that are linked into the manager.
    Linked,
}

/// The message for an error of the manager. For an unknown name it is Flux's, followed by a suggestion.
pub(in crate::cli) async fn explain(
    client: &Client,
    error: RpcError,
    name: &str,
    among: Among,
) -> CliError {
    if error.errno != ENOENT {
        return error.into();
    }
    // If this request fails, the message has no suggestion.
    let plugins = client.call(Jobtap::default()).await.unwrap_or_default();
    CliError::failure(unknown(name, among, &plugins))
}

fn unknown(name: &str, among: Among, plugins: &Plugins) -> String {
    let wanted = name.strip_suffix(".so").unwrap_or(name);
    let known = match among {
        Among::Loaded => &plugins.plugins,
        Among::Linked => &plugins.linked,
    };
    if among == Among::Loaded && plugins.shadows.iter().any(|shadow| shadow.name == wanted) {
        return format!(
            "{name} not found; it is a shadow: add --shadow to remove it, or promote it"
        );
    }
    match nearest(wanted, known.iter().map(String::as_str)) {
        // With `load --remove=OTHER`, it is OTHER that is unknown.
        Some(meant) if meant == wanted => format!("{name} not found"),
        Some(meant) => format!("{name} not found; did you mean {meant:?}?"),
        None => format!("{name} not found"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_name_gets_the_nearest_as_suggestion() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let plugins = Plugins {
            plugins: names(&["deadline"]),
            linked: names(&["deadline", "probe"]),
            ..Plugins::default()
        };
        assert_eq!(
            unknown("deadlin.so", Among::Linked, &plugins),
            "deadlin.so not found; did you mean \"deadline\"?"
        );
        assert_eq!(unknown("probe.so", Among::Linked, &plugins), "probe.so not found");
        assert_eq!(unknown("prob", Among::Loaded, &plugins), "prob not found");
        assert_eq!(unknown("probe", Among::Loaded, &plugins), "probe not found");
        assert_eq!(unknown("x", Among::Linked, &Plugins::default()), "x not found");
    }
}
