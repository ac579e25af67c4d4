//! Snapshots of what the macros generate, which show how a change of a macro changes its output.
//! `INSTA_UPDATE=always cargo test -p jobtap-macros` updates them.

use proc_macro2::TokenStream;
use quote::quote;

use crate::{data, plugin, topic};

/// Returns the expansion, formatted.
fn pretty(expanded: TokenStream) -> String {
    match syn::parse2(expanded.clone()) {
        Ok(file) => prettyplease::unparse(&file),
        // An author's block may be incomplete.
        Err(_) => expanded.to_string(),
    }
}

fn expanded(args: TokenStream, item: TokenStream) -> String {
    pretty(plugin::jobtap_plugin(args, item))
}

#[test]
fn handlers_of_one_topic_and_of_two() {
    insta::assert_snapshot!(expanded(
        quote!(name = "fairshare", before = ["limits"], after = ["accounts"]),
        quote! {
            impl Fairshare {
                /// Kept, as every attribute of the author's.
                #[allow(unused)]
                #[on("job.state.priority", "job.priority.get")]
                fn priority<'a>(
                    &self,
                    job: &'a Job,
                    cx: Cx<'a, (JobStatePriority, JobPriorityGet)>,
                ) -> Priority {
                    Priority::clamped(self.score(job, cx.now()))
                }

                #[cfg(feature = "limits")]
                #[on("job.dependency.afterok", "job.dependency.afterany")]
                fn dependency(&mut self, dependency: &Dependency) -> Result<(), Reject> {
                    Ok(())
                }

                fn score(&self, job: &Job, now: Timestamp) -> f64 {
                    0.0
                }
            }
        },
    ));
}

#[test]
fn a_function_that_builds_the_plugin() {
    insta::assert_snapshot!(expanded(
        quote!(name = "site", load = "by-name", load_order = "state", crate = jt),
        quote! {
            impl Site {
                #[init]
                fn new(conf: Conf<Settings>, remote: Remote<Self>) -> Result<Self, ConfError> {
                    Ok(Self { settings: conf.into_inner(), remote })
                }

                #[on("job.new")]
                fn new_job() {}
            }
        },
    ));
}

#[test]
fn async_handlers_services_and_own_topics() {
    insta::assert_snapshot!(expanded(
        quote!(name = "site", data = Usage, instance_data = Totals),
        quote! {
            impl Site {
                #[on("job.state.run", on_restart = "rerun", timeout = "5m")]
                async fn scratch(job: JobInfo, remote: Remote<Self>) -> Result<(), PrologFailed> {
                    Ok(())
                }

                #[on(accounts::ShareOf)]
                fn share(&self, question: &accounts::ShareOf) -> f64 {
                    1.0
                }

                #[service("set", role = "guest")]
                fn set(&mut self, request: Request<Limit>) -> Result<u32, ServiceError> {
                    Ok(1)
                }

                #[service]
                async fn about(caller: Caller) -> Vec<String> {
                    Vec::new()
                }
            }
        },
    ));
}

#[test]
fn a_plugin_with_mistakes_keeps_what_could_be_read() {
    insta::assert_snapshot!(expanded(
        quote!(before = "limits"),
        quote! {
            impl Site {
                #[init]
                async fn new() -> Self {
                    Site
                }

                #[on("job.newt")]
                fn new_job(&self, job: &Job) {}

                #[on("job.validate")]
                fn validate(&self, job: &Job, cx: Cx<'_>) -> Result<(), Reject> {
                    Ok(())
                }

                #[on("job.state.run")]
                fn run(&self, job: &Job) {}
            }
        },
    ));
}

#[test]
fn a_body_in_the_making_is_left_to_the_compiler() {
    insta::assert_snapshot!(expanded(
        quote!(name = "site"),
        quote! {
            impl Site {
                #[on("job.new")]
                fn new_job(&self, job: &Job) {
                    let id = job.
                }
            }
        },
    ));
}

#[test]
fn a_type_as_a_topic() {
    insta::assert_snapshot!(pretty(topic::topic(
        quote!("accounts.share", job, answer = f64),
        quote! {
            pub struct ShareOf {
                pub user: Uid,
            }
        },
    )));
}

#[test]
fn a_type_as_data() {
    insta::assert_snapshot!(pretty(data::data(
        quote!(version = 2, upgrade = Usage::from_minutes),
        quote! {
            struct Usage<T: Unit> {
                used: T,
            }
        },
    )));
}
