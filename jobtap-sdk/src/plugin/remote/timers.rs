//! Timers of plugins: work at a given time, after some seconds, or periodically.

use std::any::Any;

use super::handle::{OwnsWhatItUses, Remote, call};
use crate::host::{Args, Command, RemoteHandle, RemoteWork, TimerDue, TimerKey};
use crate::job::Timestamp;
use crate::plugin::cx::arguments::IsSeconds;
use crate::plugin::cx::call::Call;
use crate::plugin::cx::context::Cx;
use crate::topic::Later;

impl<P: 'static> Remote<P> {
    /// Runs `work` with the plugin at a given time; at once if that time has passed.
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// # #[derive(Default)]
    /// # struct Site { open: bool }
    /// fn open_later(cx: &Cx<'_, JobNew>, remote: Remote<Site>) {
    ///     remote.at(cx.now() + 3600.0, |site, cx| {
    ///         site.open = true;
    ///         cx.reprioritize_all();
    ///     });
    /// }
    /// ```
    pub fn at(
        &self,
        when: Timestamp,
        work: impl FnOnce(&mut P, Cx<'_, Later<P>>) + OwnsWhatItUses,
    ) -> Timer {
        self.start_timer(TimerDue::At(when), work)
    }

    /// Runs `work` with the plugin after some seconds of the host's time, which is virtual in tests: a number, a
    /// `Duration`, or an [`Fsd`](crate::job::Fsd) of the settings.
    ///
    /// These seconds have to pass: a clock that is set does not shorten them, while [`at`](Self::at) follows the clock.
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// # #[derive(Default)]
    /// # struct Site { open: bool }
    /// fn close_for_a_minute(site: &mut Site, remote: Remote<Site>) {
    ///     site.open = false;
    ///     remote.after(60.0, |site, cx| {
    ///         site.open = true;
    ///         cx.reprioritize_all();
    ///     });
    /// }
    /// ```
    pub fn after(
        &self,
        seconds: impl IsSeconds,
        work: impl FnOnce(&mut P, Cx<'_, Later<P>>) + OwnsWhatItUses,
    ) -> Timer {
        self.start_timer(TimerDue::After(seconds.into_secs()), work)
    }

    fn start_timer(
        &self,
        due: TimerDue,
        work: impl FnOnce(&mut P, Cx<'_, Later<P>>) + OwnsWhatItUses,
    ) -> Timer {
        let key = TimerKey::next();
        self.handle().commands(vec![Command::StartTimer { key, due, work: call(work) }]);
        Timer::new(key, self.handle().clone())
    }

    /// Runs `work` with the plugin periodically, with a period of `seconds` in the host's time; for the first
    /// time after one period. Missed periods are skipped, and a period below a millisecond counts as a
    /// millisecond.
    ///
    /// The timer ends at [`Timer::cancel`], with the removal of the plugin, or with a panic in `work`.
    ///
    /// ```
    /// # use jobtap_core::prelude::*;
    /// # #[derive(Default)]
    /// struct Usage { seconds: u64 }
    ///
    /// #[jobtap_plugin(name = "usage")]
    /// impl Usage {
    ///     #[init]
    ///     fn init(remote: Remote<Self>) -> Self {
    ///         remote.every(10.0, |usage, _| usage.seconds += 10);
    ///         Usage { seconds: 0 }
    ///     }
    /// }
    /// ```
    pub fn every(
        &self,
        seconds: impl IsSeconds,
        work: impl FnMut(&mut P, Cx<'_, Later<P>>) + OwnsWhatItUses,
    ) -> Timer {
        let seconds = seconds.into_secs().max(0.001);
        let ticker = Ticker { key: TimerKey::next(), period: seconds, work: Box::new(work) };
        let timer = Timer::new(ticker.key, self.handle().clone());
        self.handle().work(RemoteWork::Call(Box::new(move |_, args| {
            ticker.arm(args, args.host.now() + seconds);
        })));
        timer
    }
}

/// The work of a periodic timer.
type Repeated<P> = dyn FnMut(&mut P, Cx<'_, Later<P>>) + Send;

/// A periodic timer.
struct Ticker<P: 'static> {
    key: TimerKey,
    period: f64,
    work: Box<Repeated<P>>,
}

impl<P: 'static> Ticker<P> {
    fn arm(self, args: &Args<'_>, at: Timestamp) {
        let key = self.key;
        let work = RemoteWork::Call(Box::new(move |plugin, args| self.tick(at, plugin, args)));
        args.host.push(Command::StartTimer { key, due: TimerDue::At(at), work });
    }

    /// Runs the work that was due at `due`, and arms the timer again.
    fn tick(mut self, due: Timestamp, plugin: &mut dyn Any, args: &Args<'_>) {
        // It is a `P`, since the host drops work for a plugin that was removed or loaded again.
        if let Some(plugin) = plugin.downcast_mut::<P>() {
            (self.work)(plugin, Cx::new(Call::new(args)));
        }
        // Counted from the time at which the work was due, so that delays don't add up.
        let late = (args.host.now().as_secs() - due.as_secs()).max(0.0);
        let next = due + ((late / self.period).floor() + 1.0) * self.period;
        self.arm(args, next);
    }
}

/// A timer of a plugin, returned by [`Remote::at`], [`Remote::after`] and [`Remote::every`]. Dropping the
/// handle does not stop the timer; removing the plugin does.
///
/// ```
/// # use jobtap_core::prelude::*;
/// #[derive(Default)]
/// struct Reminder {
///     timers: std::collections::HashMap<JobId, Timer>,
/// }
///
/// #[jobtap_plugin(name = "reminder")]
/// impl Reminder {
///     #[on("job.state.run")]
///     fn run(&mut self, job: &Job, cx: Cx<'_, JobStateRun>, remote: Remote<Self>) {
///         let timer = remote.at(cx.now() + 60.0, |_, cx| cx.log(Level::Info, "a minute in RUN"));
///         self.timers.insert(job.id(), timer);
///     }
///
///     #[on("job.state.cleanup")]
///     fn ends(&mut self, job: &Job) {
///         if let Some(timer) = self.timers.remove(&job.id()) {
///             timer.cancel();
///         }
///     }
/// }
/// ```
#[derive(Debug, Clone)]
pub struct Timer {
    key: TimerKey,
    handle: RemoteHandle,
}

impl Timer {
    pub(super) fn new(key: TimerKey, handle: RemoteHandle) -> Self {
        Self { key, handle }
    }

    /// Stops the timer; no effect once it has fired, unless [`Remote::every`] returned it.
    pub fn cancel(self) {
        self.handle.commands(vec![Command::CancelTimer { key: self.key }]);
    }
}
