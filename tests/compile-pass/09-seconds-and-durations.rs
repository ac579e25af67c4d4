//! A time to wait is a number of seconds, or a duration of the standard library or of Flux; a score is any number.
use std::time::Duration;

use jobtap_core::plugin::Bulk;
use jobtap_core::prelude::*;

struct Site {
    settings: Settings,
}

#[derive(Deserialize)]
struct Settings {
    grace: Duration,
    period: Fsd,
}

#[jobtap_plugin(name = "site")]
impl Site {
    #[init]
    fn new(settings: Conf<Settings>, remote: Remote<Self>) -> Self {
        let settings = settings.into_inner();
        remote.every(settings.period, |_, cx| cx.reprioritize_all());
        remote.after(settings.grace, |_, cx| cx.reprioritize_all());
        Self { settings }
    }

    #[on("job.state.priority", "job.priority.get")]
    fn priority(&self, job: &Job, cx: Cx<'_, (JobStatePriority, JobPriorityGet)>) -> Priority {
        let later = cx.now() + self.settings.grace + self.settings.period + 5.0;
        let nice: i64 = 3;
        match later > job.t_submit() {
            true => Priority::clamped(1000 - nice),
            false => Priority::clamped(1.5e3),
        }
    }

    #[on("job.state.run", timeout = "5m")]
    async fn run(r: ResourceSet, remote: Remote<Self>) -> Result<(), PrologFailed> {
        let grace = remote.call(|site, _| site.settings.grace).await?;
        remote.sleep(grace).await?;
        remote.sleep(1).await?;
        let check = Bulk::new(&r.ranks(), Process::new("check")).timeout(grace).kill_timeout(5);
        let mut check = remote.start_bulk(check, |_, _| ());
        let _ = remote.timeout(Duration::from_millis(100), check.wait()).await;
        Ok(())
    }
}

fn main() {}
