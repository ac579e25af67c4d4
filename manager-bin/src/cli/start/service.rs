//! Notifies a service manager such as systemd that the manager is ready, reloads or stops, and that it still works (the
//! watchdog). A manager that no service manager has started sends nothing.

use std::future::pending;
use std::time::Duration;

use sd_notify::NotifyState;

use crate::daemon::Daemon;
use crate::stderr;

/// How many times the manager is checked in each period of the watchdog. With 3, one check may come late.
const CHECKS: u32 = 3;

/// The service manager that the environment names, if any.
pub(super) struct ServiceManager {
    /// The interval of the checks for the watchdog, if it is enabled.
    checks: Option<tokio::time::Interval>,
}

impl ServiceManager {
    pub(super) fn of_environment() -> Self {
        Self { checks: sd_notify::watchdog_enabled().map(checks) }
    }

    /// Reports that clients can connect.
    pub(super) fn ready(&self, daemon: &Daemon) {
        let status = format!("Listening at {}", daemon.uri());
        tell(&[NotifyState::Ready, NotifyState::Status(&status)]);
    }

    /// Reports that the configuration is being read again: `systemctl reload` waits for this.
    pub(super) fn reloads(&self) {
        match NotifyState::monotonic_usec_now() {
            Ok(now) => tell(&[NotifyState::Reloading, now]),
            Err(error) => stderr::line(&format!("the clock can't be read: {error}")),
        }
    }

    /// Reports that the manager begins to end.
    pub(super) fn stops(&self) {
        tell(&[NotifyState::Stopping, NotifyState::Status("Ending")]);
    }

    /// Reports to the watchdog for as long as the engine and the store respond. Never returns. A manager that hangs
    /// stops reporting, so that the service manager ends it and starts another one, which takes its jobs over.
    pub(super) async fn watch(&mut self, daemon: &Daemon) {
        let Some(checks) = &mut self.checks else {
            return pending().await;
        };
        loop {
            checks.tick().await;
            daemon.responds().await;
            tell(&[NotifyState::Watchdog]);
        }
    }
}

fn checks(period: Duration) -> tokio::time::Interval {
    let mut checks = tokio::time::interval((period / CHECKS).max(Duration::from_millis(1)));
    checks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    checks
}

fn tell(state: &[NotifyState<'_>]) {
    // Without a service manager this does nothing.
    if let Err(error) = sd_notify::notify(state) {
        stderr::line(&format!("the service manager can't be told: {error}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_watchdog_is_served_three_times_in_its_period() {
        let period = Duration::from_secs(30);
        assert!(checks(period).period() * 3 <= period);
        // An interval of no length would panic.
        assert_eq!(checks(Duration::from_nanos(1)).period(), Duration::from_millis(1));
    }
}
