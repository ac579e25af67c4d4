//! Several plugins in one module, in a function, or of a type from another module, and alternative forms that
//! Rust has for the same signature.
#![deny(missing_docs, unused, elided_lifetimes_in_paths)]
#![allow(unreachable_pub, clippy::all, clippy::unwrap_used, clippy::indexing_slicing)]

use jobtap_core::plugin::Plugin;
use jobtap_core::prelude::*;

mod types {
    /// A plugin whose handlers are elsewhere.
    #[derive(Default)]
    pub struct Far {
        pub(super) jobs: u64,
    }

    pub mod deeper {
        use jobtap_core::prelude::*;

        #[jobtap_plugin(name = "nearer")]
        impl super::super::Nearer {
            #[on("job.new")]
            fn new_job(&mut self, job: &Job) {
                self.last = Some(job.id());
            }
        }
    }
}

/// A plugin whose handlers are in a module below.
#[derive(Default)]
struct Nearer {
    last: Option<JobId>,
}

#[jobtap_plugin(name = "far")]
impl types::Far {
    /// The highest number to which it counts.
    const LIMIT: u64 = 100;

    /// The job of a context.
    fn job<'a>(&self, job: &'a Job) -> &'a Job {
        job
    }

    /// Lifetimes may have names.
    #[on("job.new")]
    fn new_job<'a, 'b: 'a>(&'a mut self, job: &'b Job, cx: Cx<'b, JobNew>) {
        let _ = (self.job(job).id(), cx.now());
        self.jobs = (self.jobs + 1).min(Self::LIMIT);
    }

    #[on("job.state.run")]
    #[allow(unused_variables)]
    fn run(self: &Self, resources: &ResourceSet, data: JobData<'_>) {}

    #[on("job.state.cleanup")]
    fn r#match(self: &mut Self, r#type: &Job) {
        let _ = (&mut self.jobs, r#type.id());
    }
}

/// Another name for a parameter.
type JobData<'a> = Option<&'a EventEntry>;

/// A plugin of a generic type with given parameters.
#[derive(Default)]
struct Of<T, const N: usize>(Vec<[T; N]>);

#[jobtap_plugin(name = "of")]
impl Of<String, 3> {
    #[on("job.event.start")]
    fn start(&self, _entry: &EventEntry, remote: Remote<Self>) {
        remote.run(|of: &mut Self, _cx| of.0.push([const { String::new() }; 3]));
    }
}

fn plugin_of_a_function() -> &'static str {
    #[derive(Default)]
    struct Local;

    #[jobtap_plugin(name = "local")]
    impl Local {
        #[on("job.destroy")]
        fn destroy(_job: &Job) {}
    }

    Local::DESCRIPTOR.name
}

fn main() {
    let far = types::Far::DESCRIPTOR;
    let methods: Vec<_> = far.handlers.iter().map(|handler| handler.method).collect();
    assert_eq!(methods, ["new_job", "run", "match"]);
    assert_eq!(plugin_of_a_function(), "local");

    let linked = jobtap_core::host::Registry::linked().unwrap();
    let mut names: Vec<_> = linked.plugins().map(|plugin| plugin.name).collect();
    names.sort_unstable();
    assert_eq!(names, ["far", "local", "nearer", "of"]);
}
