//! The code that the macros write needs no name in scope.
#![no_implicit_prelude]
#![allow(clippy::all, clippy::unwrap_used, clippy::indexing_slicing)]

use ::core::prelude::v1::derive;
use ::jobtap_core::prelude::*;

#[data(version = 2, upgrade = upgrade)]
#[derive(::core::default::Default, Serialize, Deserialize)]
struct Usage(u64);

fn upgrade(
    _version: u32,
    _old: ::serde_json::Value,
) -> ::core::result::Result<Usage, UpgradeError> {
    ::core::result::Result::Ok(Usage(0))
}

#[topic("site.share", answer = f64)]
struct ShareOf;

#[derive(::core::default::Default)]
struct Site;

#[jobtap_plugin(name = "site", data = Usage, instance_data = Usage)]
impl Site {
    #[on("job.new", "job.state.run")]
    fn new_job(&self, job: &Job, cx: Cx<'_, (JobNew, JobStateRun)>, usage: Data<'_, Usage>) {
        let _ = (job.id(), cx.now(), usage.get());
    }

    #[on("job.state.cleanup", timeout = "5m")]
    async fn scrub(_job: JobInfo) -> ::core::result::Result<(), EpilogFailed> {
        ::core::result::Result::Ok(())
    }

    #[on(ShareOf)]
    fn share(&self, _question: &ShareOf) -> f64 {
        1.0
    }

    #[service("limit")]
    fn limit(&self) -> ::core::result::Result<u32, ServiceError> {
        ::core::result::Result::Ok(1)
    }

    #[service("later")]
    async fn later(request: Request<u32>) -> ::core::result::Result<u32, ServiceError> {
        ::core::result::Result::Ok(request.into_inner())
    }
}

struct Built;

#[jobtap_plugin(name = "built")]
impl Built {
    #[init]
    fn new(_conf: Conf<::serde_json::Value>) -> ::core::result::Result<Self, ConfError> {
        ::core::result::Result::Ok(Built)
    }

    #[on("unload")]
    fn unload(&mut self) {}
}

fn main() {}
