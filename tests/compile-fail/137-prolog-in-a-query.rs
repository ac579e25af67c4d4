//! A query is about the plugin, not about a job.
use jobtap_core::prelude::*;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("plugin.query")]
    fn query(&self, cx: Cx<'_, PluginQuery>) -> QueryData {
        let _token = cx.prolog_start("query");
        QueryData::new()
    }
}

fn main() {}
