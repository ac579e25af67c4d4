//! The code that the macros write refers to the right items, whatever names the author uses.
#![allow(dead_code, non_camel_case_types, non_snake_case, non_upper_case_globals, unused_macros)]
#![allow(clippy::all, clippy::unwrap_used, clippy::indexing_slicing)]

use ::jobtap_core::prelude::*;

mod core {}
mod std {}
mod jobtap_core {}
mod topic_types {}
mod __private {}

struct Result;
struct Option;
struct Box;
struct Vec;
struct String;
struct Topic;
struct Plugin;
struct HandlerEntry;
struct str;
struct u64;
trait Default {}
trait Fn {}
trait From {}
trait Into {}
trait Send {}
trait Sized {}
fn Ok() {}
fn Err() {}
fn Some() {}
const None: () = ();
const args: () = ();
const argument_0: () = ();
const call: () = ();
const plugin: () = ();
const upgrade: () = ();
macro_rules! vec {
    ($($t:tt)*) => {
        compile_error!("not this one")
    };
}
macro_rules! env {
    ($($t:tt)*) => {
        compile_error!("not this one")
    };
}
macro_rules! panic {
    ($($t:tt)*) => {
        compile_error!("not this one")
    };
}
macro_rules! assert {
    ($($t:tt)*) => {
        compile_error!("not this one")
    };
}

#[data(volatile)]
#[derive(::core::default::Default, Serialize, Deserialize)]
struct Usage(i32);

/// Named like a type parameter that a macro might use.
#[topic("site.share", answer = f64)]
struct P;

#[topic("site.owner", job, answer = i32)]
struct T;

#[derive(::core::default::Default)]
struct Site;

#[jobtap_plugin(name = "site", before = ["other"], data = Usage)]
impl Site {
    #[on("job.validate")]
    fn validate(&self, job: &Job) -> ::core::result::Result<(), Reject> {
        let _ = job.id();
        ::core::result::Result::Ok(())
    }

    #[on("job.state.run", on_restart = "rerun", timeout = "5m", on_cancel = "run-on")]
    async fn scratch(_job: JobInfo, _r: ResourceSet) -> ::core::result::Result<(), PrologFailed> {
        ::core::result::Result::Ok(())
    }

    #[on(P)]
    fn share(&mut self, _question: &P) -> f64 {
        1.0
    }

    #[on(T)]
    fn owner(&self, _question: &T, _job: &Job, cx: Cx<'_, T>) -> i32 {
        let _ = cx.now();
        1
    }

    #[service("limit", role = "guest")]
    async fn limit(_caller: Caller) -> ::core::result::Result<i32, ServiceError> {
        ::core::result::Result::Ok(1)
    }
}

struct Built;

#[jobtap_plugin(name = "built")]
impl Built {
    #[init]
    fn new(_conf: Conf<::serde_json::Value>, _remote: Remote<Self>) -> Self {
        Built
    }

    #[on("job.new")]
    fn new_job() {}
}

fn main() {}
