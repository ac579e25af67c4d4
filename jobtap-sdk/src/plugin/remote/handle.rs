//! Access to a plugin from timers, futures and other threads.
//!
//! Plugins live on the manager's one thread. A [`Remote`] is the `Send` handle that runs a closure
//! there.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::panic::AssertUnwindSafe;
use std::pin::pin;

use futures_channel::oneshot;
use futures_util::FutureExt;
use futures_util::future::{Either, select};

use crate::host::careful::Careful;
use crate::host::errors::failure::Gone;
use crate::host::{Command, Level, PluginFuture, RemoteHandle, RemoteWork, panic_text};
use crate::job::JobId;
use crate::plugin::cx::arguments::IsSeconds;
use crate::plugin::cx::call::Call;
use crate::plugin::cx::context::Cx;
use crate::plugin::cx::jobs::AsJob;
use crate::plugin::data::{Data, InstanceData, PluginData, PluginInstanceData};
use crate::topic::Later;

/// A `Send` handle to plugin `P`: runs closures with the plugin on the manager's thread, now or at a
/// time, and starts futures and processes that end with the plugin.
///
/// Handlers and `#[init]` take it as a parameter, `remote: Remote<Self>`; clones are cheap. Once the
/// plugin is removed or the manager stops, closures are dropped without being run, and whatever waits
/// ends with [`Gone`].
///
/// ```
/// use jobtap_core::prelude::*;
/// # use jobtap_core::testing::{TestJob, TestManager};
///
/// #[derive(Default)]
/// struct Patience {
///     warned: u32,
/// }
///
/// #[jobtap_plugin(name = "patience")]
/// impl Patience {
///     #[on("job.state.sched")]
///     fn waits(&self, job: &Job, cx: Cx<'_, JobStateSched>, remote: Remote<Self>) {
///         let id = job.id();
///         remote.at(cx.now() + 3600.0, move |patience, cx| {
///             // An hour later the job may run, or be inactive.
///             if let Ok(job) = cx.active_job(id)
///                 && job.state() == State::Sched
///             {
///                 patience.warned += 1;
///                 let _ = cx.memo(job, "patience", "an hour in the queue");
///             }
///         });
///     }
///
///     #[service("warned")]
///     fn warned(&self) -> u32 {
///         self.warned
///     }
/// #
/// #     #[on("job.state.priority")]
/// #     fn priority(&self) -> Priority {
/// #         Priority::new(1)
/// #     }
/// }
/// # let mut m = TestManager::new().plugin::<Patience>().start();
/// # m.submit(TestJob::new().ntasks(4)).unwrap();
/// # m.submit(TestJob::new()).unwrap();
/// # m.advance(3601.0);
/// # assert_eq!(m.call_service("patience.warned", serde_json::json!({})).unwrap(), 1);
/// ```
pub struct Remote<P> {
    handle: RemoteHandle,
    plugin: PhantomData<fn(P)>,
}

impl<P> Clone for Remote<P> {
    fn clone(&self) -> Self {
        Self { handle: self.handle.clone(), plugin: PhantomData }
    }
}

impl<P> fmt::Debug for Remote<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.handle.fmt(f)
    }
}

/// Deferred work: a closure or future that owns everything it uses and can be sent to another thread.
#[diagnostic::on_unimplemented(
    message = "this work can't be kept for later",
    label = "uses something that is lent for this callback, or that can't be sent to another thread",
    note = "a job, a context and the plugin are lent: copy what it needs before, as in `let id = job.id();`, and write `move |plugin, cx| ..`, which gets the plugin and a context of its own",
    note = "an `Rc`, a borrow of a `RefCell` and a `MutexGuard` can't be sent: use `Arc` and `Mutex`, or a field of the plugin"
)]
pub trait OwnsWhatItUses: Send + 'static {}

// Without this attribute the error lists everything inside a context that isn't `Send`.
#[diagnostic::do_not_recommend]
impl<W: Send + 'static> OwnsWhatItUses for W {}

/// The plugin `P` itself: a handler of `P` takes no [`Remote`] to another plugin.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is another plugin, and this is `{P}`",
    label = "not a handle to this plugin",
    note = "take `Remote<Self>`; call another plugin by a topic of your own: `cx.call(&question)`"
)]
pub trait SamePlugin<P>: 'static {}

impl<P: 'static> SamePlugin<P> for P {}

impl<P: 'static> Remote<P> {
    pub(crate) fn new(handle: RemoteHandle) -> Self {
        Self { handle, plugin: PhantomData }
    }

    pub(super) fn handle(&self) -> &RemoteHandle {
        &self.handle
    }

    /// Runs `work` with the plugin on the manager's thread, soon. Returns at once.
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// # #[derive(Default)]
    /// # struct Site { seen: u32 }
    /// fn from_a_thread(remote: Remote<Site>) {
    ///     std::thread::spawn(move || {
    ///         let found = 3; // Something that takes a while.
    ///         remote.run(move |site, cx| {
    ///             site.seen += found;
    ///             cx.log(Level::Info, format!("{} seen", site.seen));
    ///         });
    ///     });
    /// }
    /// ```
    pub fn run(&self, work: impl FnOnce(&mut P, Cx<'_, Later<P>>) + OwnsWhatItUses) {
        self.handle.work(call(work));
    }

    /// Runs `work` with the plugin on the manager's thread and waits for its return value.
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// # #[derive(Default)]
    /// # struct Site { weight: f64 }
    /// # #[jobtap_plugin(name = "site")]
    /// # impl Site {
    /// #[on("job.state.priority")]
    /// async fn priority(job: JobInfo, remote: Remote<Self>) -> Result<Priority, HandlerError> {
    ///     let weight = remote.call(|site, _cx| site.weight).await?;
    ///     Ok(Priority::clamped(weight * f64::from(job.urgency.value())))
    /// }
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Gone`] when the plugin was removed or the manager stopped.
    pub async fn call<R: Send + 'static>(
        &self,
        work: impl FnOnce(&mut P, Cx<'_, Later<P>>) -> R + OwnsWhatItUses,
    ) -> Result<R, Gone> {
        let (sender, receiver) = oneshot::channel();
        self.run(move |plugin, cx| {
            let _ = sender.send(work(plugin, cx));
        });
        self.handle.wait(receiver).await.map_err(|_| Gone)
    }

    /// Writes a line to the manager's log where there is no `Cx`: in `#[init]`, on a thread, in a future. In a handler,
    /// use [`Cx::log`](crate::plugin::Cx::log); in `unload` nothing else is written any more.
    ///
    /// ```
    /// use jobtap_core::prelude::*;
    /// # use jobtap_core::testing::TestManager;
    ///
    /// struct Epilogs;
    ///
    /// #[derive(Default, Deserialize, JsonSchema)]
    /// #[serde(default)]
    /// struct Settings {
    ///     timeout: f64,
    /// }
    ///
    /// #[jobtap_plugin(name = "epilogs")]
    /// impl Epilogs {
    ///     #[init]
    ///     fn new(settings: Conf<Settings>, remote: Remote<Self>) -> Self {
    ///         remote.log(Level::Info, format!("timeout = {:.3}s", settings.timeout));
    ///         Self
    ///     }
    /// #
    /// #     #[on("job.state.priority")]
    /// #     fn priority(&self) -> Priority {
    /// #         Priority::new(1)
    /// #     }
    /// }
    /// # let m = TestManager::new().plugin::<Epilogs>().start();
    /// # m.assert_logged("epilogs: timeout = 0.000s");
    /// ```
    pub fn log(&self, level: Level, text: impl Into<String>) {
        self.handle.commands(vec![Command::Log { level, text: text.into() }]);
    }

    /// Starts a future off the manager's thread, after the changes of the current callback are durable. It brings
    /// its results back with [`run`](Remote::run). No job waits for it: a job waits for an asynchronous handler, or
    /// for a [`Token`](crate::plugin::Token).
    ///
    /// The future must wait through the SDK only: there is no other async runtime. When the plugin is
    /// removed, these waits end with [`Gone`]. A panic in the future is logged.
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// struct Weather { wind: Option<String> }
    ///
    /// fn look(remote: Remote<Weather>) {
    ///     remote.clone().spawn(async move {
    ///         if let Ok(end) = remote.run_process(Process::new("wind-speed")).await {
    ///             let wind = String::from_utf8_lossy(&end.stdout).into_owned();
    ///             remote.run(move |weather, _| weather.wind = Some(wind));
    ///         }
    ///     });
    /// }
    /// ```
    pub fn spawn(&self, work: impl Future<Output = ()> + OwnsWhatItUses) {
        let work = AssertUnwindSafe(work).catch_unwind();
        let remote = self.handle().clone();
        let future = PluginFuture::new(self.handle(), "spawn", None, async move {
            if let Err(panic) = work.await {
                let text = format!("a future panicked: {}", panic_text(&*panic));
                let level = Level::Error;
                remote.commands(vec![Command::Log { level, text }]);
            }
        });
        self.handle().commands(vec![Command::Spawn(future)]);
    }

    /// Waits for some seconds of the host's time, which is virtual in tests.
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// # #[derive(Default)]
    /// # struct Site;
    /// # #[jobtap_plugin(name = "site")]
    /// # impl Site {
    /// #[on("job.state.run")]
    /// async fn settle(remote: Remote<Self>) -> Result<(), PrologFailed> {
    ///     Ok(remote.sleep(5.0).await?)
    /// }
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Gone`] when the plugin was removed or the manager stopped.
    pub async fn sleep(&self, seconds: impl IsSeconds) -> Result<(), Gone> {
        let seconds = seconds.into_secs();
        let (sender, receiver) = oneshot::channel();
        self.after(seconds, move |_, _| {
            let _ = sender.send(());
        });
        self.handle.wait(receiver).await.map_err(|_| Gone)
    }

    /// Waits for `work`, but no longer than this many seconds of the host's time.
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// # #[derive(Default)]
    /// # struct Site;
    /// # #[jobtap_plugin(name = "site")]
    /// # impl Site {
    /// #[on("job.state.run")]
    /// async fn check(remote: Remote<Self>) -> Result<(), PrologFailed> {
    ///     let check = remote.run_process(Process::new("check-node"));
    ///     match remote.timeout(30.0, check).await {
    ///         Ok(done) => done?.success().map_err(|how| PrologFailed::new(how.to_string())),
    ///         Err(_slow) => Ok(()), // An unchecked node is better than a job that never starts.
    ///     }
    /// }
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`TimedOut`] after that time; `work` is dropped.
    pub async fn timeout<F: Future>(
        &self,
        seconds: impl IsSeconds,
        work: F,
    ) -> Result<F::Output, TimedOut> {
        let seconds = seconds.into_secs();
        match select(pin!(work), pin!(self.sleep(seconds))).await {
            Either::Left((output, _)) => Ok(output),
            Either::Right(_) => Err(TimedOut { seconds }),
        }
    }

    /// Waits until the job has a fatal exception or is inactive; returns at once if that is so already.
    ///
    /// **Hosts**: jobtap's manager, Flux.
    ///
    /// # Errors
    /// [`Gone`] when the plugin was removed or the manager stopped.
    pub async fn ended(&self, job: JobId) -> Result<(), Gone> {
        let (sender, receiver) = oneshot::channel();
        let work = call(move |_: &mut P, _| {
            let _ = sender.send(());
        });
        self.handle.commands(vec![Command::NotifyAtJobEnd { job, work }]);
        self.handle.wait(receiver).await.map_err(|_| Gone)
    }

    /// Waits for `work`, but only until the job has a fatal exception or is inactive.
    ///
    /// **Hosts**: jobtap's manager, Flux.
    ///
    /// # Errors
    /// [`Ended`] when that happens first; `work` is dropped.
    pub async fn until_ended<F: Future>(&self, job: JobId, work: F) -> Result<F::Output, Ended> {
        match select(pin!(work), pin!(self.ended(job))).await {
            Either::Left((output, _)) => Ok(output),
            Either::Right(_) => Err(Ended { job }),
        }
    }
}

/// The work of [`Remote::timeout`] was not done in time.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("no end after {seconds} s")]
pub struct TimedOut {
    /// The time limit in seconds.
    pub seconds: f64,
}

/// The job had a fatal exception, or became inactive, before the work of [`Remote::until_ended`] was
/// done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("job {job} ended first")]
pub struct Ended {
    /// The job.
    pub job: JobId,
}

/// In a closure of [`Remote`] the plugin's type is known, and with it the types of its data.
impl<'a, P: 'static> Cx<'a, Later<P>> {
    /// The plugin's data on a job.
    ///
    /// **Hosts**: jobtap's manager, Flux, Slurm's job_submit (with a difference), Slurm's PrEp (with a difference).
    pub fn data<D>(&self, job: impl AsJob) -> Data<'a, D>
    where
        P: PluginData<D>,
    {
        Data::new(self.host(), job.job_id(), P::form())
    }

    /// The plugin's data on the instance.
    ///
    /// **Hosts**: jobtap's manager, Flux, Slurm's job_submit (with a difference), Slurm's PrEp (with a difference).
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// #[derive(Default, Serialize, Deserialize)]
    /// struct Rounds(u64);
    ///
    /// #[derive(Default)]
    /// struct Clock;
    ///
    /// #[jobtap_plugin(name = "clock", instance_data = Rounds)]
    /// impl Clock {
    ///     #[on("job.new")]
    ///     fn new_job(&self, remote: Remote<Self>, cx: Cx<'_, JobNew>) {
    ///         remote.at(cx.now() + 60.0, |_, cx| {
    ///             if let Err(error) = cx.instance_data().update(|rounds: &mut Rounds| rounds.0 += 1) {
    ///                 cx.log(Level::Error, error.to_string());
    ///             }
    ///         });
    ///     }
    /// }
    /// ```
    pub fn instance_data<D>(&self) -> InstanceData<'a, D>
    where
        P: PluginInstanceData<D>,
    {
        InstanceData::new(self.host(), P::form())
    }
}

pub(super) fn call<P: 'static>(
    work: impl FnOnce(&mut P, Cx<'_, Later<P>>) + Send + 'static,
) -> RemoteWork {
    let work = Careful::new(work);
    RemoteWork::Call(Box::new(move |plugin, args| {
        // It is a `P`, since the host drops work for a plugin that was removed or loaded again.
        if let Some(plugin) = plugin.downcast_mut::<P>()
            && let Some(work) = work.take()
        {
            work(plugin, Cx::new(Call::new(args)));
        }
    }))
}
