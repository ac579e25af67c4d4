//! A plugin that a `macro_rules!` macro makes, with every part given by its caller.
#![allow(clippy::all, clippy::unwrap_used, clippy::indexing_slicing)]
use jobtap_core::plugin::Plugin;
use jobtap_core::prelude::*;

#[topic("site.share", answer = f64)]
struct ShareOf;

macro_rules! plugin {
    (
        $plugin:ty, $name:literal, $title:expr, $own:path, $data:ty;
        $($topic:literal, $method:ident($($arg:ident: $param:ty),*) -> $output:ty $body:block)*
    ) => {
        #[jobtap_plugin(name = $name, after = [$title], data = $data)]
        impl $plugin {
            $(
                #[on($topic)]
                fn $method(&self, $($arg: $param),*) -> $output $body
            )*

            #[on($own)]
            fn share(&self, _question: &$own, job_free: Cx<'_, $own>) -> f64 {
                job_free.now().as_secs()
            }

            #[service($name)]
            fn ask(&mut self) -> $data {
                Default::default()
            }
        }
    };
}

#[derive(Default)]
struct Site;

plugin! {
    Site, "site", "other", ShareOf, u64;

    "job.new", new_job(job: &Job, cx: Cx<'_, JobNew>) -> Result<(), HandlerError> {
        Ok(cx.subscribe(job)?)
    }

    "job.priority.get", priority(_job: &Job) -> Priority { Priority::UNCHANGED }
}

/// Takes the crate's name as another macro writes it.
macro_rules! with_crate {
    ($plugin:ident, $($krate:tt)*) => {
        #[derive(Default)]
        struct $plugin;

        #[jobtap_plugin(name = "with-crate", crate = $($krate)*)]
        impl $plugin {
            #[on("job.new")]
            fn new_job(&self, _job: &Job) {}

            #[on(crate::ShareOf)]
            fn share(&self) -> f64 {
                0.0
            }
        }
    };
}

pub use jobtap_core as sdk;

macro_rules! from_here {
    ($plugin:ident) => {
        with_crate!($plugin, $crate::sdk);
    };
}

from_here!(Made);

fn main() {
    assert_eq!(Site::DESCRIPTOR.name, "site");
    assert_eq!(Site::DESCRIPTOR.handlers.len(), 4);
    assert_eq!(Made::DESCRIPTOR.handlers.len(), 2);
}
