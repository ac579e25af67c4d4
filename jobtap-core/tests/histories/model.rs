//! A second, small and strict model of RFC 21, from the eventlog alone: what a job's log must look like, and in which
//! state it leaves the job. It shares no code with the engine.

use jobtap_core::prelude::*;
use serde_json::Value;

/// A job as its log describes it.
#[derive(Debug, Default)]
pub(crate) struct Model {
    pub(crate) state: Option<State>,
    pub(crate) priority: Option<u32>,
    pub(crate) urgency: u64,
    /// Every description that was ever added, and whether it still holds the job.
    pub(crate) dependencies: Vec<(String, bool)>,
    pub(crate) prologs: Vec<String>,
    pub(crate) epilogs: Vec<String>,
    pub(crate) holds: bool,
    /// Whether a plugin gave the job its resources.
    pub(crate) bypass: bool,
    /// The ranks that were released before the rest.
    pub(crate) given_back: Idset,
    /// Whether the last `release` is in the log: nothing of the job executes any more.
    pub(crate) released: bool,
    seen: Vec<String>,
    fatal: bool,
    /// Whether the executor is reattaching to the job after a restart.
    reattaching: bool,
}

type Verdict = Result<(), String>;

fn need(holds: bool, rule: &str) -> Verdict {
    if holds { Ok(()) } else { Err(rule.to_owned()) }
}

fn close(open: &mut Vec<String>, description: String) -> Verdict {
    let index = open.iter().position(|o| *o == description);
    let index = index.ok_or("the end of something that isn't open")?;
    open.remove(index);
    Ok(())
}

impl Model {
    /// Applies a whole log; the error names the first event that breaks a rule.
    pub(crate) fn from_log(log: &[EventEntry]) -> Result<Self, String> {
        let mut model = Self::default();
        for (index, entry) in log.iter().enumerate() {
            model.event(entry).map_err(|rule| format!("event {index}, {}: {rule}", entry.name))?;
            model.seen.push(entry.name.to_string());
        }
        Ok(model)
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.seen.iter().any(|seen| seen == name)
    }

    fn once(&self, name: &str) -> Verdict {
        need(!self.has(name), "twice")
    }

    fn within(&self, states: &[State]) -> Verdict {
        need(
            self.state.is_some_and(|state| states.contains(&state)),
            &format!("not in {:?}", self.state),
        )
    }

    fn event(&mut self, entry: &EventEntry) -> Verdict {
        let field = |key: &str| entry.context.as_ref().and_then(|c| c.get(key));
        let text = |key: &str| field(key).and_then(Value::as_str).unwrap_or("").to_owned();
        let number = |key: &str| field(key).and_then(Value::as_u64);
        use State::*;
        need(self.state != Some(Inactive), "after the end of the job's life")?;
        match &*entry.name {
            "submit" => {
                need(self.state.is_none(), "not the first")?;
                self.urgency = number("urgency").ok_or("no urgency")?;
                self.state = Some(New);
            }
            _ if self.state.is_none() => return Err("before submit".into()),
            "validate" => {
                self.within(&[New])?;
                self.state = Some(Depend);
            }
            "dependency-add" | "dependency-remove" => {
                self.within(&[New, Depend])?;
                self.dependency(&entry.name, text("description"))?;
            }
            "depend" => {
                self.within(&[Depend])?;
                need(self.dependencies.iter().all(|(_, open)| !open), "held")?;
                self.state = Some(Priority);
            }
            "priority" => {
                self.within(&[Priority, Sched])?;
                self.priority(number("priority").ok_or("no priority")?)?;
            }
            "urgency" => {
                self.within(&[Depend, Priority, Sched])?;
                self.urgency = number("urgency").ok_or("no urgency")?;
                self.back_to_priority();
            }
            "set-flags" => {
                let flags = field("flags").map(ToString::to_string).unwrap_or_default();
                self.bypass |= flags.contains("alloc-bypass");
            }
            "requeue" => self.within(&[Run, Cleanup])?,
            "newer.seen" | "debug.alloc-request" | "debug.start-request" => {}
            // Also for a job in CLEANUP: the executor reattaches to what is left of it.
            "debug.exec-reattach-start" => {
                self.within(&[Run, Cleanup])?;
                self.reattaching = true;
            }
            "debug.exec-reattach-finish" => {
                self.within(&[Run, Cleanup])?;
                need(std::mem::take(&mut self.reattaching), "nothing began")?;
            }
            "memo" => self.within(&[Depend, Priority, Sched, Run, Cleanup])?,
            "resource-update" => self.within(&[Run, Cleanup])?,
            // A user may ask for more time while the job runs and, as in Flux, while its epilog runs.
            "jobspec-update" => {
                self.within(&[New, Depend, Priority, Sched, Run, Cleanup])?;
                self.back_to_priority();
            }
            "flux-restart" => {
                self.within(&[Sched])?;
                self.priority = None;
                self.state = Some(Priority);
            }
            "exception" => self.exception(number("severity").ok_or("no severity")?)?,
            "release" => {
                need(!self.released, "after the last one")?;
                need(self.holds, "without resources")?;
                self.release(&text("ranks"), field("final") == Some(&Value::Bool(true)))?;
            }
            _ => self.second_half(entry, &text("description"))?,
        }
        Ok(())
    }

    /// Applies an event that can only come with or after an allocation.
    fn second_half(&mut self, entry: &EventEntry, description: &str) -> Verdict {
        use State::*;
        let nothing_open = self.prologs.is_empty() && self.epilogs.is_empty();
        match &*entry.name {
            "alloc" => {
                self.within(&[Sched])?;
                need(self.priority.is_some_and(|p| p > 0), "held by priority 0")?;
                self.holds = true;
                self.state = Some(Run);
            }
            "prolog-start" => {
                self.once("start")?;
                self.prologs.push(description.to_owned());
            }
            "prolog-finish" => close(&mut self.prologs, description.to_owned())?,
            "start" => {
                self.within(&[Run, Cleanup])?;
                self.once("start")?;
                self.once("finish")?;
                need(self.holds && self.prologs.is_empty(), "in its prolog")?;
            }
            "finish" => {
                self.within(&[Run, Cleanup])?;
                self.once("finish")?;
                need(self.holds, "without resources")?;
                self.state = Some(Cleanup);
            }
            "epilog-start" => {
                self.within(&[Cleanup])?;
                self.epilogs.push(description.to_owned());
            }
            "epilog-finish" => close(&mut self.epilogs, description.to_owned())?,
            "free" => {
                self.within(&[Cleanup])?;
                need(self.holds, "without resources")?;
                need(nothing_open, "before its epilogs")?;
                let executed = self.has("start") || self.has("finish");
                need(!executed || self.released, "while it executes")?;
                self.holds = false;
            }
            "clean" => {
                self.within(&[Cleanup])?;
                need(!self.holds && nothing_open, "with something outstanding")?;
                self.state = Some(Inactive);
            }
            _ => return Err("unknown".into()),
        }
        Ok(())
    }

    /// Releases some ranks, each at most once, or all that remain.
    fn release(&mut self, ranks: &str, is_last: bool) -> Verdict {
        self.released = is_last;
        if is_last {
            return Ok(());
        }
        let ranks: Idset = ranks.parse().map_err(|_| "no ranks")?;
        need(!ranks.is_empty() && !ranks.intersects(&self.given_back), "given back twice")?;
        self.given_back = self.given_back.union(&ranks);
        Ok(())
    }

    fn dependency(&mut self, name: &str, description: String) -> Verdict {
        let known = self.dependencies.iter_mut().find(|(d, _)| *d == description);
        match (known, name == "dependency-add") {
            (Some(_), true) => {}
            (None, true) => self.dependencies.push((description, true)),
            (Some((_, open)), false) if *open => *open = false,
            _ => return Err("not held".into()),
        }
        Ok(())
    }

    fn priority(&mut self, priority: u64) -> Verdict {
        match self.urgency {
            0 => need(priority == 0, "not held")?,
            31 => need(priority == u64::from(u32::MAX), "not expedited")?,
            _ => {}
        }
        self.priority = u32::try_from(priority).ok();
        self.state = Some(State::Sched);
        Ok(())
    }

    fn back_to_priority(&mut self) {
        if self.state == Some(State::Sched) {
            self.state = Some(State::Priority);
        }
    }

    fn exception(&mut self, severity: u64) -> Verdict {
        if severity == 0 {
            need(self.state != Some(State::New), "fatal before acceptance")?;
            self.fatal = true;
            self.state = Some(State::Cleanup);
        }
        Ok(())
    }
}
