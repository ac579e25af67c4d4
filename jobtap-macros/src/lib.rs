//! The attribute macros of jobtap: [`macro@jobtap_plugin`] with [`macro@on`], [`macro@init`] and
//! [`macro@service`] inside it, and [`macro@data`] and [`macro@topic`] beside it.
//!
//! Plugin crates use them through `jobtap_core`, whose version they share. The macros check what the
//! compiler could only report in its own words, and leave the rest to traits of `jobtap-core`, asserted
//! at the author's own tokens.
//!
//! A handler is a method of the impl block under `#[jobtap_plugin]`. The macro turns each into an entry
//! of the plugin's descriptor, which a manager finds when the crate is linked:
//!
//! ```
//! use jobtap_core::prelude::*;
//!
//! #[derive(Default)]
//! struct Nice;
//!
//! #[jobtap_plugin(name = "nice")]
//! impl Nice {
//!     #[on("job.state.priority", "job.priority.get")]
//!     fn priority(&self, job: &Job) -> Priority {
//!         Priority::new(u32::from(job.urgency().value()) * 100)
//!     }
//! }
//! ```

mod arguments;
mod data;
mod errors;
#[cfg(test)]
mod expansions;
mod no_topic;
mod plugin;
mod topic;
mod topics;

use proc_macro::TokenStream;
use quote::quote;

/// Makes a type a plugin, from its impl block.
///
/// Inside the block, [`#[on]`](macro@on) marks handlers, [`#[init]`](macro@init) the function that builds the
/// plugin, and [`#[service]`](macro@service) functions that handle requests from clients. Other items of the block
/// stay as they are, and the type may have further impl blocks. Linking the crate registers the plugin.
///
/// The type must be `'static` and without type parameters. Without an `#[init]` function it must be
/// `Default`.
///
/// # Arguments
///
/// - `name = "NAME"`, required: the name in the configuration, in commands and in messages. It has letters,
///   digits, `-` and `_`. A leading dot marks a builtin.
/// - `load = ".."`: when the manager loads the plugin, see below. The default is `"auto"`.
/// - `before = ["NAME", ..]`: plugins with the same `load` that are loaded, and so called, after this one.
///   Names that aren't linked are ignored. By default there are none.
/// - `after = ["NAME", ..]`: the same for plugins that are called before this one.
/// - `data = TYPE`: the plugin's data on each job, for parameters of type `Data<'_, TYPE>`. The type is
///   `Default`, `Serialize` and `Deserialize`; [`#[data]`](macro@data) on it says how it is stored.
/// - `instance_data = TYPE`: the same for data that belongs to no job: `InstanceData<'_, TYPE>`.
/// - `load_order = ".."`: the order in which active jobs are introduced when the plugin is loaded into a running
///   manager: `"none"`, the default, is by id, `"state"` from DEPEND to CLEANUP, `"-state"` from CLEANUP to
///   DEPEND.
/// - `crate = PATH`: where `jobtap-core` is, if `Cargo.toml` renames it or another crate re-exports it. The
///   default is `::jobtap_core`. In code that `macro_rules!` generates, write
///   `#[jobtap(crate = $crate::PATH)]` under this attribute instead.
///
/// `load` is one of:
///
/// | | the plugin is loaded |
/// |---|---|
/// | `"auto"` | at start |
/// | `"last"` | at start, after the plugins that the configuration names |
/// | `"configured"` | when the configuration has a table `[plugins.NAME]` or `[job-manager.NAME]` |
/// | `"by-name"` | when the configuration or an administrator names it |
///
/// # Examples
///
/// ```
/// use jobtap_core::prelude::*;
///
/// #[derive(Default, Serialize, Deserialize)]
/// struct Usage {
///     seconds: f64,
/// }
///
/// #[derive(Default)]
/// struct Fairshare;
///
/// /// Charges users for the time of their jobs, before the plugin `limits` looks at the account.
/// #[jobtap_plugin(name = "fairshare", before = ["limits"], instance_data = Usage)]
/// impl Fairshare {
///     #[on("job.state.inactive")]
///     fn charge(
///         &self,
///         job: &Job,
///         usage: InstanceData<'_, Usage>,
///         cx: Cx<'_, JobStateInactive>,
///     ) -> Result<(), HandlerError> {
///         usage.update(|usage| usage.seconds += cx.now() - job.t_submit())?;
///         Ok(())
///     }
/// }
/// ```
///
/// # Errors
///
/// Mistakes are compile errors at the author's own tokens, each with what to write instead. All of them
/// are reported at once, and the rest of the plugin is checked in the same run.
#[proc_macro_attribute]
pub fn jobtap_plugin(args: TokenStream, item: TokenStream) -> TokenStream {
    plugin::jobtap_plugin(args.into(), item.into()).into()
}

/// Marks a handler: a method that is called at one or more topics.
///
/// It works inside an impl block under [`#[jobtap_plugin]`](macro@jobtap_plugin).
///
/// # Arguments
///
/// - One or more topics. Name a topic of the manager by its string, such as `"job.validate"`, and a
///   family by a member, such as `"job.dependency.afterok"`, or by `*` for every member. Name a topic of
///   your own by the path of its type, `#[on(accounts::ShareOf)]`, see [`#[topic]`](macro@topic). The
///   error for a misspelt topic names the one that was probably meant.
/// - Settings, for `async` handlers only:
///   - `when = Self::wants`: which jobs concern the handler, by default all. It is a function of the plugin and
///     the job, `fn wants(&self, job: &Job) -> bool`, or a closure `|plugin, job| ..`. It is called in the
///     callback, and a job for which it returns `false` doesn't wait: no dependency, prolog or epilog is posted,
///     and its priority is left to other plugins. Not at `slurm.job_submit` and `slurm.job_modify`.
///   - `timeout = "5m"`: the work has failed if it takes longer. The value is a number with `ms`, `s`, `m`, `h`
///     or `d`; a bare number is in seconds. By default there is no limit.
///   - `on_restart = ".."`: what a restart of the manager or a reload of the plugin does to the work. With
///     `"fail"`, the default for prologs and epilogs, it has failed; with `"rerun"`, the default for other work,
///     it begins again. Not at `job.validate` and `job.state.priority`, where it would have no effect.
///   - `on_cancel = ".."`: what happens to a prolog when its job ends first. With `"stop"`, the default, it is
///     dropped at its next `.await`; with `"run-on"` it goes on. At `job.state.run` only.
///
/// # Signature
///
/// - `&self` or `&mut self`, or no receiver.
/// - Parameters that every topic of the handler has, in any order: `&Job`, `&Jobspec`,
///   `Option<&ResourceSet>`, `Cx<'_, T>` and others. `T` is the type of the topic, or the tuple of all of
///   them in the order of `#[on]`.
/// - A return type that every topic takes: nothing at most topics, `Result<(), Reject>` at gates,
///   `Priority` where a priority is asked for. An `Option` of it may be `None`, a `Result` may fail.
/// - `async` at topics that wait for an answer: `job.validate`, `job.dependency.SCHEME` and the states
///   `depend`, `priority`, `run` (a prolog) and `cleanup` (an epilog). The work outlives the callback, so
///   it takes owned parameters: `JobInfo` for `&Job`, `ResourceSet` for `&ResourceSet`, and
///   `Remote<Self>` for the plugin. It has one topic, or several members of one family.
///
/// A `#[cfg(..)]` on the method also decides whether it is registered. A plugin has one handler for each
/// topic; one that names a topic takes precedence over one for a wildcard.
///
/// The guide's table of topics lists what each topic has, takes, and allows to be called.
///
/// # Examples
///
/// A gate, and a priority with two topics:
///
/// ```
/// use jobtap_core::prelude::*;
///
/// #[derive(Default)]
/// struct Site;
///
/// #[jobtap_plugin(name = "site")]
/// impl Site {
///     #[on("job.validate")]
///     fn validate(&self, job: &Job) -> Result<(), Reject> {
///         Reject::when(job.jobspec().duration() == 0.0, "name a time limit: -t MINUTES")
///     }
///
///     #[on("job.state.priority", "job.priority.get")]
///     fn priority(&self, job: &Job, cx: Cx<'_, (JobStatePriority, JobPriorityGet)>) -> Priority {
///         let hours = (cx.now() - job.t_submit()) / 3600.0;
///         Priority::clamped(f64::from(job.urgency().value()) + hours)
///     }
/// }
/// ```
///
/// A prolog, as an `async` handler:
///
/// ```
/// use jobtap_core::prelude::*;
///
/// #[derive(Default)]
/// struct Scratch;
///
/// #[jobtap_plugin(name = "scratch")]
/// impl Scratch {
///     #[on("job.state.run", timeout = "5m", on_cancel = "run-on")]
///     async fn make(job: JobInfo, remote: Remote<Self>) -> Result<(), PrologFailed> {
///         let make = Process::new("make-scratch").env("JOB", job.id.to_string());
///         let done = remote.run_process(make).await?;
///         done.success().map_err(|how| PrologFailed::new(format!("make-scratch: {how}")))
///     }
/// }
/// ```
#[proc_macro_attribute]
pub fn on(_args: TokenStream, item: TokenStream) -> TokenStream {
    outside("on", item)
}

/// Marks the function that builds the plugin.
///
/// It works inside an impl block under [`#[jobtap_plugin]`](macro@jobtap_plugin), once, and takes no
/// arguments. The function is called when the plugin is loaded or reloaded, before any of its handlers.
/// Without it the plugin is built by `Default`.
///
/// # Signature
///
/// - No receiver; not `async`, not generic, not under `#[cfg(..)]`.
/// - Any of these parameters: `Conf<C>`, the plugin's own configuration, once; `InstanceConf<C>`, named
///   keys of the whole instance's configuration; `ConfDirectory`, the directory of its files;
///   `Remote<Self>`, through which timers and other threads reach the plugin. `C` is `Deserialize`; if it
///   is also `JsonSchema`, `jobtap plugin schema` shows its settings.
/// - It returns `Self`, or `Result<Self, ConfError>`. An error makes the load fail, and its text is the
///   message of that command; at a reload the old plugin stays.
///
/// # Examples
///
/// ```
/// use jobtap_core::prelude::*;
///
/// #[derive(Deserialize)]
/// struct Settings {
///     half_life: Fsd,
/// }
///
/// struct Fairshare {
///     half_life: f64,
/// }
///
/// #[jobtap_plugin(name = "fairshare")]
/// impl Fairshare {
///     #[init]
///     fn new(settings: Conf<Settings>) -> Result<Self, ConfError> {
///         let half_life = settings.half_life.as_secs();
///         if half_life == 0.0 {
///             return Err(ConfError::new("[plugins.fairshare]: half_life can't be 0"));
///         }
///         Ok(Self { half_life })
///     }
///
///     #[on("job.state.priority")]
///     fn priority(&self, job: &Job, cx: Cx<'_, JobStatePriority>) -> Priority {
///         let age = cx.now() - job.t_submit();
///         Priority::clamped(1000.0 * (1.0 - 0.5_f64.powf(age / self.half_life)))
///     }
/// }
/// ```
#[proc_macro_attribute]
pub fn init(_args: TokenStream, item: TokenStream) -> TokenStream {
    outside("init", item)
}

/// Marks a function that handles requests from clients.
///
/// It works inside an impl block under [`#[jobtap_plugin]`](macro@jobtap_plugin). Clients send requests to
/// `job-manager.PLUGIN.NAME`, from a shell with `jobtap plugin call PLUGIN.NAME`. A builtin's leading dot is left
/// out.
///
/// # Arguments
///
/// | argument | meaning | default |
/// |---|---|---|
/// | `"NAME"` | The service's name: letters, digits, `-` and `_`. | none: it handles `job-manager.PLUGIN` itself |
/// | `role = ".."` | Who may send requests: `"owner"` is the instance's owner, `"guest"` every user. | `"owner"` |
///
/// # Signature
///
/// - `&self` or `&mut self`, or no receiver.
/// - Any of these parameters: `Request<Q>`, the payload as any `Deserialize`; `Caller`, the user who sent it;
///   `Responder<R>`, to respond later or more than once; `Cx<'_, Service>`; the plugin's data, as
///   `InstanceData<'_, D>` and `JobsData<'_, D>`; `Remote<Self>`.
/// - It returns the response, any `Serialize`, or a `Result` of it with `ServiceError`. With a `Responder` it
///   returns nothing, or `Result<(), ServiceError>`.
/// - `async` like a [handler](macro@on): then it takes owned parameters and no receiver.
///
/// # Examples
///
/// ```
/// use std::collections::HashMap;
///
/// use jobtap_core::prelude::*;
/// # use jobtap_core::testing::TestManager;
///
/// #[derive(Deserialize)]
/// struct SetLimit {
///     user: Uid,
///     jobs: u32,
/// }
///
/// #[derive(Default)]
/// struct Limits {
///     limits: HashMap<Uid, u32>,
/// }
///
/// #[jobtap_plugin(name = "limits")]
/// impl Limits {
///     #[service("set")]
///     fn set(&mut self, request: Request<SetLimit>) -> Result<usize, ServiceError> {
///         if request.jobs == 0 {
///             return Err(ServiceError::invalid("a user without jobs needs no limit"));
///         }
///         self.limits.insert(request.user, request.jobs);
///         Ok(self.limits.len())
///     }
///
///     #[service("mine", role = "guest")]
///     fn mine(&self, caller: Caller) -> Option<u32> {
///         self.limits.get(&caller.userid).copied()
///     }
/// }
/// #
/// # let mut m = TestManager::new().plugin::<Limits>().start();
/// # let payload = serde_json::json!({"user": 7, "jobs": 3});
/// # assert_eq!(m.call_service("limits.set", payload).unwrap(), serde_json::json!(1));
/// ```
#[proc_macro_attribute]
pub fn service(_args: TokenStream, item: TokenStream) -> TokenStream {
    outside("service", item)
}

/// Says how a plugin's data of this type is stored.
///
/// It goes on the struct or enum that `data` or `instance_data` of
/// [`#[jobtap_plugin]`](macro@jobtap_plugin) names. Data of a type without the attribute is stored, as
/// version 1.
///
/// # Arguments
///
/// - `version = N`: the version of the type's stored form, from 1, which is the default. Raise it when an older
///   form can't be read any more.
/// - `upgrade = FUNCTION`: makes a value from what an older version stored:
///   `fn(u32, serde_json::Value) -> Result<Self, UpgradeError>`, called with that version and the stored JSON.
///   It needs a version of at least 2. Without it, reading older data fails with a `DataError`.
/// - `volatile`: the data is kept in memory only, and lost at a restart. It can't be combined with a version.
/// - `crate = PATH`: where `jobtap-core` is, by default `::jobtap_core`.
///
/// # Examples
///
/// ```
/// use jobtap_core::prelude::*;
///
/// #[data(version = 2, upgrade = from_minutes)]
/// #[derive(Debug, Default, Serialize, Deserialize)]
/// struct Used {
///     seconds: f64,
/// }
///
/// /// Version 1 counted minutes.
/// fn from_minutes(_version: u32, old: serde_json::Value) -> Result<Used, UpgradeError> {
///     #[derive(Deserialize)]
///     struct Old {
///         minutes: f64,
///     }
///     let old: Old = serde_json::from_value(old)?;
///     Ok(Used { seconds: old.minutes * 60.0 })
/// }
///
/// /// Rebuilt from the jobs after each restart.
/// #[data(volatile)]
/// #[derive(Default, Serialize, Deserialize)]
/// struct Cache {
///     score: f64,
/// }
///
/// #[derive(Default)]
/// struct Site;
///
/// #[jobtap_plugin(name = "site", data = Cache, instance_data = Used)]
/// impl Site {}
/// ```
#[proc_macro_attribute]
pub fn data(args: TokenStream, item: TokenStream) -> TokenStream {
    data::data(args.into(), item.into()).into()
}

/// Makes a struct a topic of your own: a question that one plugin asks and others answer.
///
/// The struct is the topic and its payload in one. Handlers name it by its path, `#[on(ShareOf)]`, and
/// take it by reference; the plugin that asks calls `cx.call(&ShareOf { .. })`, or
/// `cx.call_for(job, &..)` for a topic about a job, and gets the answers of all handlers. Put it into a
/// crate that the plugins share.
///
/// # Arguments
///
/// - `"NAME"`, required: the topic's name in messages and statistics, of letters, digits, `-`, `_` and `.`. Begin
///   with your plugin's name; names that begin with `job`, `conf`, `plugin`, `unload` or `service` are the
///   manager's.
/// - `answer = TYPE`: what a handler returns, by default `()`: an owned type, since it is handed to the plugin
///   that asked.
/// - `job`: the topic is about a job, so that its handlers can take `&Job`.
/// - `crate = PATH`: where `jobtap-core` is, by default `::jobtap_core`.
///
/// # Examples
///
/// ```
/// use jobtap_core::prelude::*;
///
/// /// What part of the machine is a user's?
/// #[topic("accounts.share", answer = f64)]
/// pub struct ShareOf {
///     pub user: Uid,
/// }
///
/// /// May this job use the large nodes?
/// #[topic("accounts.large", job, answer = bool)]
/// pub struct MayUseLarge;
///
/// #[derive(Default)]
/// struct Accounts;
///
/// #[jobtap_plugin(name = "accounts")]
/// impl Accounts {
///     #[on(ShareOf)]
///     fn share(&self, question: &ShareOf) -> f64 {
///         if question.user == Uid::new(1000) { 0.75 } else { 0.25 }
///     }
///
///     #[on(MayUseLarge)]
///     fn large(&self, job: &Job) -> bool {
///         job.userid() == Uid::new(1000)
///     }
/// }
///
/// #[derive(Default)]
/// struct Fair;
///
/// #[jobtap_plugin(name = "fair", after = ["accounts"])]
/// impl Fair {
///     #[on("job.state.priority")]
///     fn priority(&self, job: &Job, cx: Cx<'_, JobStatePriority>) -> Result<Priority, HandlerError> {
///         let shares = cx.call(&ShareOf { user: job.userid() })?;
///         let large = cx.call_for(job, &MayUseLarge)?.contains(&true);
///         Ok(Priority::clamped(1e6 * shares.iter().sum::<f64>() + f64::from(u8::from(large))))
///     }
/// }
/// ```
#[proc_macro_attribute]
pub fn topic(args: TokenStream, item: TokenStream) -> TokenStream {
    topic::topic(args.into(), item.into()).into()
}

/// Expands a mark outside of an impl block under `#[jobtap_plugin]` to an error that says so. Inside the block, that
/// macro removes the marks.
fn outside(attribute: &str, item: TokenStream) -> TokenStream {
    let message = format!(
        "`#[{attribute}]` works inside an impl block under `#[jobtap_plugin]`\n\
         note: put `#[jobtap_plugin(name = \"..\")]` on the impl block"
    );
    let error = syn::Error::new(proc_macro2::Span::call_site(), message).to_compile_error();
    let item = proc_macro2::TokenStream::from(item);
    quote!(#error #item).into()
}
