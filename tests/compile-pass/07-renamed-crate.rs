//! The SDK under another crate name, which each attribute accepts.
#![deny(unused_qualifications)]
#![allow(unreachable_pub, clippy::all, clippy::unwrap_used, clippy::indexing_slicing)]
use jobtap_core as jt;
use jt::prelude::*;

mod jobtap_core_is_not_named_below {
    use super::jt;
    use jt::prelude::*;

    #[jt::data(version = 1, crate = jt)]
    #[derive(Default, Serialize, Deserialize)]
    pub struct Usage(u64);

    #[jt::topic("site.share", answer = Option<f64>, crate = jt)]
    pub struct ShareOf;

    #[derive(Default)]
    pub struct Site;

    #[jt::jobtap_plugin(name = "site", data = Usage, crate = jt)]
    impl Site {
        #[jt::on("job.state.depend")]
        async fn hold(_job: JobInfo) -> Result<(), Reject> {
            Ok(())
        }

        #[jt::on(ShareOf)]
        fn share(&self) -> Option<f64> {
            None
        }

        #[jt::service]
        fn about(&self) -> &'static str {
            "a plugin"
        }
    }
}

struct Other;

#[jobtap_plugin(name = "other")]
#[jobtap(crate = crate::jt)]
impl Other {
    #[init]
    fn new(remote: Remote<Self>) -> Result<Self, ConfError> {
        remote.run(|_, cx| cx.log(Level::Info, "built"));
        Ok(Other)
    }

    #[on("job.update")]
    fn updated(&self, updates: Updates<'_>) {
        let _ = updates.iter().count();
    }
}

fn main() {}
