//! The doubles of Slurm as hosts of [`jobtap_core::testing::TestHosts`].

use std::collections::BTreeMap;

use jobtap_core::host::{HostKind, JobParts, PluginDescriptor, Registry};
use jobtap_core::job::{JobId, State, Timestamp, Uid};
use jobtap_core::jobspec::{Jobspec, path};
use jobtap_core::plugin::{Process, ProcessEnd};
use jobtap_core::slurm::{JobDescriptor, JobRecord, NO_VAL, SlurmError};
use jobtap_core::testing::{HostSetup, TestHost, TestJob};
use serde_json::{Map, Value};

use super::{TestSlurm, TestSlurmBuilder, lock};
use crate::daemon::{Part, PrepEnd};
use crate::job;
use crate::prep::{self, NodeJob};

/// The plugins in the order in which they are called.
fn in_order(setup: &HostSetup) -> Result<Vec<&'static PluginDescriptor>, String> {
    let names = setup.plugins.iter().map(|plugin| plugin.name);
    let registry = Registry::builder().plugins(setup.plugins.iter().copied()).sequence(names);
    let registry = registry.build().map_err(|error| error.to_string())?;
    Ok(registry.plugins().collect())
}

fn start(builder: TestSlurmBuilder, setup: &HostSetup) -> Result<TestSlurm, String> {
    let builder = TestSlurmBuilder { plugins: in_order(setup)?, ..builder };
    let config = toml::to_string(&setup.config).map_err(|error| error.to_string())?;
    builder.config(config).simulated_processes().start().map_err(|error| error.to_string())
}

/// The request for a job in Slurm's terms, and its user.
#[track_caller]
fn request(job: TestJob) -> Result<(u32, JobDescriptor), String> {
    let (cred, submission) = job.submission()?;
    let asked = submission.jobspec.value();
    let mut desc = JobDescriptor::from_jobspec(asked);
    if let Ok(urgency) = jobtap_core::job::Urgency::new(submission.urgency)
        && urgency != jobtap_core::job::Urgency::DEFAULT
    {
        desc.set_urgency(urgency);
    }
    desc.user_id = cred.userid.as_u32();
    let kept = desc.to_jobspec().map_err(|error| error.to_string())?;
    let attributes = |of: &Value| {
        let system = path::get(of, "attributes.system").and_then(Value::as_object);
        system.cloned().unwrap_or_default()
    };
    let (asked, kept): (Map<String, Value>, Map<String, Value>) =
        (attributes(asked), attributes(&kept));
    if let Some(key) = asked.keys().find(|key| !kept.contains_key(*key)) {
        panic!("a request of Slurm's has no attribute {key:?}: test this for the other hosts only");
    }
    Ok((desc.user_id, desc))
}

fn jobspec(desc: &JobDescriptor) -> Value {
    desc.to_jobspec().unwrap_or_default()
}

#[track_caller]
fn of(jobs: &BTreeMap<JobId, JobDescriptor>, id: JobId) -> &JobDescriptor {
    match jobs.get(&id) {
        Some(job) => job,
        None => panic!("there is no job {id}"),
    }
}

impl TestSlurm {
    /// Keeps a job that was accepted.
    fn keep(&mut self, descriptor: JobDescriptor) -> JobId {
        let id = JobId::new(self.jobs.len() as u64 + 1);
        self.jobs.insert(id, descriptor);
        id
    }
}

impl TestHost for TestSlurm {
    fn start(setup: &HostSetup) -> Result<Self, String> {
        start(TestSlurm::new(), setup)
    }

    fn kind(&self) -> HostKind {
        HostKind::SlurmSubmit
    }

    fn now(&self) -> Timestamp {
        crate::worker::now()
    }

    #[track_caller]
    fn submit(&mut self, job: TestJob) -> Result<JobId, String> {
        let (user, descriptor) = request(job)?;
        let submitted = self.submit_as(user, descriptor);
        let message = submitted.decision.message;
        if submitted.decision.code != 0 {
            let error = SlurmError::from_code(submitted.decision.code);
            let text = || error.map_or_else(String::new, |error| error.text().to_owned());
            return Err(message.unwrap_or_else(text));
        }
        self.messages.extend(message.iter().flat_map(|text| text.lines()).map(str::to_owned));
        Ok(self.keep(submitted.descriptor))
    }

    fn messages(&mut self) -> Vec<String> {
        std::mem::take(&mut self.messages)
    }

    #[track_caller]
    fn priority(&self, id: JobId) -> Option<u32> {
        of(&self.jobs, id).priority.filter(|priority| *priority < NO_VAL)
    }

    #[track_caller]
    fn jobspec(&self, id: JobId) -> Value {
        jobspec(of(&self.jobs, id))
    }

    fn events(&self, _: JobId) -> Vec<String> {
        Vec::new()
    }

    fn annotations(&self, _: JobId) -> Value {
        Value::Object(Map::new())
    }

    fn unserved(&mut self) -> Vec<String> {
        let mut unserved: Vec<String> = std::mem::take(&mut lock(&self.recorder.unserved));
        unserved.sort_unstable();
        unserved.dedup();
        unserved
    }

    fn run(&mut self, _: JobId) -> Result<(), String> {
        Ok(())
    }

    fn end(&mut self, _: JobId, _: u8) -> Result<(), String> {
        Ok(())
    }

    fn end_processes_with(&mut self, end: ProcessEnd) {
        if let Some(processes) = &self.recorder.processes {
            lock(processes).end_with(end);
        }
    }

    fn started_processes(&self) -> Vec<Process> {
        let processes = self.recorder.processes.as_ref();
        processes.map(|processes| lock(processes).started().to_vec()).unwrap_or_default()
    }
}

/// A Slurm without Slurm whose plugins are in a PrEp plugin: each job runs the prologs and epilogs of the
/// controller, and those of its one node. All requests are accepted, since no plugin sees them.
#[derive(Debug)]
pub struct TestSlurmPrep {
    /// It keeps the jobs, too.
    slurm: TestSlurm,
    /// How many prologs and epilogs of the controller have begun.
    begun: usize,
}

impl TestSlurmPrep {
    /// The double itself, which offers more.
    pub fn slurm(&self) -> &TestSlurm {
        &self.slurm
    }

    #[track_caller]
    fn call(&mut self, id: JobId, part: Part, state: State) -> Result<(), String> {
        let desc = of(&self.slurm.jobs, id);
        let number = u32::try_from(id.as_u64()).map_err(|error| error.to_string())?;
        let user = Uid(desc.user_id);
        let mut parts = JobParts::new(id, user, Jobspec::unvalidated(jobspec(desc)));
        parts.state = state;
        parts.resources = Some(job::resources(NODE)).into();
        let record = JobRecord::from_job(&parts.into_job());
        let node = NodeJob {
            id: number,
            user: user.as_u32(),
            group: desc.group_id,
            user_name: desc.user_name.clone(),
            nodes: Some(NODE.to_owned()),
            partition: desc.partition.clone(),
            work_dir: desc.work_dir.clone(),
            spank_job_env: desc.spank_job_env.clone(),
            node: Some(NODE.to_owned()),
        };
        let mut ends = Vec::new();
        if self.slurm.in_controller(part, record) {
            self.begun += 1;
            let ended = self.slurm.ended(self.begun);
            ends.extend(ended.into_iter().last().map(|(_, _, end)| end));
        }
        if part == Part::Epilog || ends.iter().all(|end| *end == PrepEnd::Done) {
            ends.push(prep::node_end(&self.slurm.plugins, part, node));
        }
        ends.into_iter().try_for_each(|end| match end {
            PrepEnd::Done => Ok(()),
            PrepEnd::Failed(text) => Err(text),
            PrepEnd::Cancelled => Err("the job was cancelled".to_owned()),
            PrepEnd::TimedOut => Err("no end within PrologEpilogTimeout".to_owned()),
        })
    }
}

/// The node of all jobs.
const NODE: &str = "testhost";

impl TestHost for TestSlurmPrep {
    fn start(setup: &HostSetup) -> Result<Self, String> {
        let slurm = start(TestSlurm::new().prep(), setup)?;
        Ok(Self { slurm, begun: 0 })
    }

    fn kind(&self) -> HostKind {
        HostKind::SlurmPrep
    }

    fn now(&self) -> Timestamp {
        self.slurm.now()
    }

    #[track_caller]
    fn submit(&mut self, job: TestJob) -> Result<JobId, String> {
        let (_, descriptor) = request(job)?;
        Ok(self.slurm.keep(descriptor))
    }

    fn messages(&mut self) -> Vec<String> {
        self.slurm.messages()
    }

    #[track_caller]
    fn priority(&self, id: JobId) -> Option<u32> {
        self.slurm.priority(id)
    }

    #[track_caller]
    fn jobspec(&self, id: JobId) -> Value {
        self.slurm.jobspec(id)
    }

    fn events(&self, id: JobId) -> Vec<String> {
        self.slurm.events(id)
    }

    fn annotations(&self, id: JobId) -> Value {
        self.slurm.annotations(id)
    }

    fn unserved(&mut self) -> Vec<String> {
        self.slurm.unserved()
    }

    #[track_caller]
    fn run(&mut self, id: JobId) -> Result<(), String> {
        self.call(id, Part::Prolog, State::Run)
    }

    #[track_caller]
    fn end(&mut self, id: JobId, _: u8) -> Result<(), String> {
        self.call(id, Part::Epilog, State::Cleanup)
    }

    fn end_processes_with(&mut self, end: ProcessEnd) {
        self.slurm.end_processes_with(end);
    }

    fn started_processes(&self) -> Vec<Process> {
        self.slurm.started_processes()
    }
}
