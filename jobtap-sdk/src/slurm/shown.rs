//! What each release of Slurm shows of a request in a form of its own, and how a script's answer is taken back.
//!
//! In jobtap's manager, a [`JobDescriptor`] has one form, whatever Slurm a policy was written for: that of 22.05, but
//! for numbers that `sbatch` derives from others, which it leaves unset. Lua scripts were written for one release, so
//! they are shown the form of that one. `FORMS` is the table of these forms and `CHANGES` says what each of them
//! changes; a new release has its row there.

use std::sync::LazyLock;

use super::constants::{JOB_NTASKS_SET, NO_VAL};
use super::table::Field;
use super::{FIELDS, JobDescriptor, JobRecord, Release, SetError, Value};

/// How a release writes what `sbatch` was asked for.
struct Forms {
    /// What is before the name of a generic resource: `gres:` or `gres/`.
    prefix: &'static str,
    /// What `tres_per_task` and `tres_bind` have beside the resources that were asked for.
    task: TaskForm,
    /// Whether `num_tasks` is computed from the nodes and the tasks of each.
    counts_tasks: bool,
    /// Whether `min_nodes` is computed from the tasks and the tasks of each node.
    counts_nodes: bool,
    /// Whether `min_cpus` is computed from the GPUs and the CPUs of each.
    counts_cpus: bool,
    /// Whether a script sees the group 99 (`nobody`) when a job is changed. At a submission it sees the user's group.
    changes_as_nobody: bool,
}

impl Forms {
    /// Those of 22.05, the oldest.
    const OLDEST: Self = Self {
        prefix: "gres:",
        task: TaskForm::Plain,
        counts_tasks: true,
        counts_nodes: false,
        counts_cpus: false,
        changes_as_nobody: false,
    };

    const V23_02: Self = Self { counts_tasks: false, ..Self::OLDEST };

    const V23_11: Self = Self {
        prefix: "gres/",
        task: TaskForm::Full { separator: ':', sums_gpus: false },
        counts_nodes: true,
        ..Self::V23_02
    };

    const V24_05: Self =
        Self { task: TaskForm::Full { separator: '=', sums_gpus: false }, ..Self::V23_11 };

    /// Neither 23.02 nor 23.11 nor 24.05 was tried for what is new here.
    const V24_11: Self = Self { counts_cpus: true, changes_as_nobody: true, ..Self::V24_05 };

    const V25_05: Self =
        Self { task: TaskForm::Full { separator: '=', sums_gpus: true }, ..Self::V24_11 };
}

/// How a release writes the resources of a task.
#[derive(Clone, Copy)]
enum TaskForm {
    /// The generic resources alone.
    Plain,
    /// With the CPUs of the task, and with a binding of each resource.
    Full {
        /// What is before a count.
        separator: char,
        /// Whether GPUs of several types are bound by their sum.
        sums_gpus: bool,
    },
}

/// The forms by release: each row holds from its release up to the next row.
const FORMS: &[(Release, Forms)] = &[
    (Release::V22_05, Forms::OLDEST),
    (Release::V23_02, Forms::V23_02),
    (Release::V23_11, Forms::V23_11),
    (Release::V24_05, Forms::V24_05),
    (Release::V24_11, Forms::V24_11),
    (Release::V25_05, Forms::V25_05),
];

/// The group of a user whom Slurm doesn't know.
const NOBODY: u32 = 99;

/// A field that scripts see in another form from a release on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Change {
    /// The first release with the new form.
    pub release: Release,
    /// The fields, in `job_desc` and in records of jobs.
    pub fields: &'static [&'static str],
    /// What scripts see from then on, and what they saw before.
    pub text: &'static str,
}

/// What the rows of the forms change, for people who move a script to a newer release.
pub const CHANGES: &[Change] = &[
    Change {
        release: Release::V23_02,
        fields: &["num_tasks"],
        text: "-N2 --ntasks-per-node=24 alone leaves it NO_VAL; it was 48",
    },
    Change {
        release: Release::V23_11,
        fields: &[
            "gres",
            "tres_per_node",
            "tres_per_job",
            "tres_per_socket",
            "cpus_per_tres",
            "mem_per_tres",
        ],
        text: "--gres=gpu:2 shows as gres/gpu:2; it was gres:gpu:2",
    },
    Change {
        release: Release::V23_11,
        fields: &["tres_per_task"],
        text: "-c2 --gpus-per-task=1 shows as cpu:2,gres/gpu:1; it was gres:gpu:1, and nil for -c2 alone",
    },
    Change {
        release: Release::V23_11,
        fields: &["tres_bind"],
        text: "--gpus-per-task=1 sets it to gres/gpu:per_task:1; it was nil, and --gpu-bind showed as gpu:.. without gres/",
    },
    Change {
        release: Release::V23_11,
        fields: &["min_nodes"],
        text: "-n5 --ntasks-per-node=2 sets it to 3; it was NO_VAL",
    },
    Change {
        release: Release::V24_05,
        fields: &["tres_per_task"],
        text: "-c2 --gpus-per-task=1 shows as cpu=2,gres/gpu=1; it was cpu:2,gres/gpu:1",
    },
    Change {
        release: Release::V24_11,
        fields: &["min_cpus"],
        text: "--cpus-per-gpu=3 --gpus=2 sets it to 6; it was 1",
    },
    Change {
        release: Release::V24_11,
        fields: &["group_id"],
        text: "it is 99 in slurm_job_modify; it was NO_VAL",
    },
    Change {
        release: Release::V25_05,
        fields: &["tres_bind"],
        text: "GPUs of several types are bound by their sum; each type had an entry",
    },
];

/// The first release in which a script that fails at run time refuses the request. Up to then it is accepted.
pub const FAILURE_REFUSES: Release = Release::V26_05;

fn forms(release: Release) -> &'static Forms {
    let [(_, oldest), ..] = FORMS else { unreachable!("the table has rows") };
    let rows = FORMS.iter().rev();
    rows.filter(|(first, _)| *first <= release).map(|(_, forms)| forms).next().unwrap_or(oldest)
}

impl Forms {
    /// A list of generic resources in this form.
    fn list(&self, text: &str) -> String {
        text.split(',').map(|entry| self.entry(entry)).collect::<Vec<_>>().join(",")
    }

    fn entry(&self, entry: &str) -> String {
        match entry.strip_prefix("gres:") {
            Some(rest) => format!("{}{rest}", self.prefix),
            None => entry.to_owned(),
        }
    }

    fn rewrite(&self, text: &mut Option<String>) {
        if let Some(list) = text {
            *list = self.list(list);
        }
    }

    /// What a script that writes `gres` reads then. An entry that has the prefix of another release gets that of
    /// this one before it.
    fn written_gres(&self, text: &str) -> String {
        let typed = |entry: &str| match entry.strip_prefix(self.prefix) {
            Some(_) => entry.to_owned(),
            None => format!("{}{entry}", self.prefix),
        };
        text.split(',').map(typed).collect::<Vec<_>>().join(",")
    }

    /// Writes the resources of a task, with its CPUs, and binds them.
    fn task(&self, per_task: &mut Option<String>, bind: &mut Option<String>, cpus: Option<u16>) {
        let TaskForm::Full { separator, sums_gpus } = self.task else {
            return self.rewrite(per_task);
        };
        if let Some(text) = bind
            && text.starts_with("gpu:")
        {
            *text = format!("{}{text}", self.prefix);
        }
        let mut entries: Vec<String> = Vec::new();
        let mut counts: Vec<(String, u64)> = Vec::new();
        for entry in per_task.iter().flat_map(|list| list.split(',')) {
            let Some(gres) = entry.strip_prefix("gres:") else {
                entries.push(entry.to_owned());
                continue;
            };
            let (kind, count) = match gres.rsplit_once([':', '=']) {
                Some((kind, count)) if count.starts_with(|c: char| c.is_ascii_digit()) => {
                    (kind, count)
                }
                _ => (gres, "1"),
            };
            entries.push(format!("{}{kind}{separator}{count}", self.prefix));
            let name = kind.split(':').next().unwrap_or_default().to_owned();
            let number = count.parse().unwrap_or(0);
            match counts.iter_mut().find(|(known, _)| *known == name) {
                Some((_, sum)) if sums_gpus && name == "gpu" => *sum += number,
                _ => counts.push((name, number)),
            }
        }
        if let Some(cpus) = cpus {
            entries.insert(0, format!("cpu{separator}{cpus}"));
        }
        *per_task = Some(entries.join(",")).filter(|text| !text.is_empty());
        // What the user has bound stays so.
        let asked = bind.clone().unwrap_or_default();
        let free = counts.into_iter().filter(|(name, _)| !asked.contains(name.as_str()));
        let added = free.map(|(name, count)| format!("{}{name}:per_task:{count}", self.prefix));
        let all: Vec<String> = bind.take().into_iter().chain(added).collect();
        *bind = Some(all.join("+")).filter(|text| !text.is_empty());
    }
}

/// The fields that scripts of some release see in another form. A request is compared field by field after each call of a
/// script, and most of its text is in others, above all in its environment.
static FORMED: LazyLock<Vec<&Field<JobDescriptor>>> = LazyLock::new(|| {
    let names = [
        "tres_per_job",
        "tres_per_node",
        "tres_per_socket",
        "tres_per_task",
        "tres_bind",
        "cpus_per_tres",
        "mem_per_tres",
        "num_tasks",
        "min_nodes",
        "min_cpus",
        "group_id",
    ];
    FIELDS.iter().filter(|field| names.contains(&field.name)).collect()
});

impl JobDescriptor {
    /// This description as scripts of a release see it.
    ///
    /// ```
    /// use jobtap_core::slurm::{JobDescriptor, Release};
    ///
    /// let gres = Some("gres:gpu:2".to_owned());
    /// let desc = JobDescriptor { tres_per_node: gres, ..JobDescriptor::default() };
    /// let shown = desc.shown_in(Release::V24_11);
    /// assert_eq!(shown.tres_per_node.as_deref(), Some("gres/gpu:2"));
    /// assert_eq!(desc.shown_in(Release::V22_05), desc);
    /// ```
    #[must_use]
    pub fn shown_in(&self, release: Release) -> Self {
        let mut shown = self.clone();
        let forms = forms(release);
        for text in [
            &mut shown.tres_per_job,
            &mut shown.tres_per_node,
            &mut shown.tres_per_socket,
            &mut shown.cpus_per_tres,
            &mut shown.mem_per_tres,
        ] {
            forms.rewrite(text);
        }
        // The CPUs of GPUs are not among the resources of a task.
        let cpus = self.cpus_per_task.filter(|_| self.cpus_per_tres.is_none());
        forms.task(&mut shown.tres_per_task, &mut shown.tres_bind, cpus);
        let per_node = self.ntasks_per_node.filter(|tasks| *tasks > 0).map(u32::from);
        let fixed = self.min_nodes.filter(|least| self.max_nodes.is_none_or(|most| most == *least));
        match (self.num_tasks, per_node) {
            (None, Some(each)) if forms.counts_tasks && fixed.is_some() => {
                shown.num_tasks = fixed.map(|nodes| nodes.saturating_mul(each));
                shown.bitflags |= JOB_NTASKS_SET;
            }
            (Some(tasks), Some(each)) if forms.counts_nodes && self.min_nodes.is_none() => {
                shown.min_nodes = Some(tasks.div_ceil(each));
            }
            _ => {}
        }
        if forms.counts_cpus
            && let Some(cpus) = self.cpus_of_gpus(shown.num_tasks, shown.min_nodes)
        {
            shown.min_cpus = Some(cpus.max(shown.num_tasks.unwrap_or(1)));
        }
        if forms.changes_as_nobody && shown.group_id == NO_VAL {
            shown.group_id = NOBODY;
        }
        shown
    }

    /// The CPUs that come with the GPUs of the request, if each of them has some.
    fn cpus_of_gpus(&self, tasks: Option<u32>, nodes: Option<u32>) -> Option<u32> {
        let each = gpus(self.cpus_per_tres.as_deref())?;
        let (tasks, nodes) = (tasks.unwrap_or(1), nodes.unwrap_or(1));
        let sockets = u32::from(self.sockets_per_node.unwrap_or(1)).saturating_mul(nodes);
        let per = |list: &Option<String>, times: u32| {
            gpus(list.as_deref()).map(|count| count.saturating_mul(times))
        };
        let count = per(&self.tres_per_job, 1)
            .or_else(|| per(&self.tres_per_node, nodes))
            .or_else(|| per(&self.tres_per_socket, sockets))
            .or_else(|| per(&self.tres_per_task, tasks))?;
        Some(each.saturating_mul(count))
    }

    /// This description with what a script of a release has changed in what it was shown.
    ///
    /// ```
    /// use jobtap_core::slurm::{JobDescriptor, Release};
    ///
    /// let desc = JobDescriptor { cpus_per_task: Some(2), ..JobDescriptor::default() };
    /// let mut script = desc.shown_in(Release::V24_11);
    /// script.set_in(Release::V24_11, "gres", "gpu:1".into())?;
    /// let taken = desc.with_changes_of(Release::V24_11, script);
    /// assert_eq!(taken.tres_per_node.as_deref(), Some("gres:gpu:1"));
    /// assert_eq!(taken.tres_per_task, None);
    /// # Ok::<(), jobtap_core::slurm::SetError>(())
    /// ```
    #[must_use]
    pub fn with_changes_of(&self, release: Release, script: Self) -> Self {
        let shown = self.shown_in(release);
        let mut taken = script;
        let per_task_changed = shown.tres_per_task != taken.tres_per_task;
        if per_task_changed && shown.cpus_per_task == taken.cpus_per_task {
            taken.cpus_per_task = cpus_of(taken.tres_per_task.as_deref()).or(taken.cpus_per_task);
        }
        for field in FORMED.iter().filter(|field| field.is_changed(self, &shown)) {
            if !field.is_changed(&shown, &taken)
                && let Some((store, load)) = field.json
            {
                load(&mut taken, &store(self));
            }
        }
        taken.bitflags &= !(shown.bitflags & !self.bitflags);
        for text in [
            &mut taken.tres_per_job,
            &mut taken.tres_per_node,
            &mut taken.tres_per_socket,
            &mut taken.tres_per_task,
            &mut taken.cpus_per_tres,
            &mut taken.mem_per_tres,
        ] {
            *text = text.take().map(|list| one_form(&list)).filter(|list| !list.is_empty());
        }
        taken
    }

    /// A field's value as scripts of a release read it; `None` if they have no field of this name.
    #[must_use]
    pub fn get_in(&self, release: Release, name: &str) -> Option<Value> {
        let field = Field::find(FIELDS, name).filter(|field| field.readable.has(release))?;
        Some((field.get)(self))
    }

    /// Writes a value into a field as scripts of a release do; see [`set`](Self::set).
    ///
    /// # Errors
    /// [`SetError`] if scripts of that release have no such field or can't write it, or if it doesn't take values
    /// of this type. The description is not changed then.
    pub fn set_in(&mut self, release: Release, name: &str, value: Value) -> Result<(), SetError> {
        let unknown = || SetError::Unknown(name.to_owned());
        let field = Field::find(FIELDS, name).ok_or_else(unknown)?;
        if !field.is_in(release) {
            return Err(unknown());
        }
        if !field.writable.has(release) {
            return Err(SetError::ReadOnly(name.to_owned()));
        }
        if name != "gres" {
            return self.set(name, value);
        }
        self.set("tres_per_node", value)?;
        let forms = forms(release);
        self.tres_per_node = self.tres_per_node.take().map(|list| forms.written_gres(&list));
        Ok(())
    }
}

impl JobRecord {
    /// This record as scripts of a release see it.
    #[must_use]
    pub fn shown_in(mut self, release: Release) -> Self {
        let forms = forms(release);
        for text in [
            &mut self.tres_per_job,
            &mut self.tres_per_node,
            &mut self.tres_per_socket,
            &mut self.cpus_per_tres,
            &mut self.mem_per_tres,
        ] {
            forms.rewrite(text);
        }
        forms.task(&mut self.tres_per_task, &mut self.tres_bind, self.cpus_per_task);
        self
    }
}

/// A list of generic resources in the form that descriptions have, whichever release it was written for. The CPUs
/// of a task are a field of their own.
fn one_form(list: &str) -> String {
    let entries = list.split(',').filter(|entry| cpus_of(Some(entry)).is_none());
    let entry = |entry: &str| match entry.strip_prefix("gres/") {
        // Of `gres/gres:gpu:1`, which a script for an older release makes of a newer one.
        Some(rest) => {
            format!("gres:{}", rest.strip_prefix("gres:").unwrap_or(rest)).replace('=', ":")
        }
        None => entry.to_owned(),
    };
    entries.map(entry).collect::<Vec<_>>().join(",")
}

/// The CPUs of a task in a list such as `cpu=2,gres/gpu=1`.
fn cpus_of(list: Option<&str>) -> Option<u16> {
    let mut entries = list?.split(',');
    entries.find_map(|entry| entry.strip_prefix("cpu")?.strip_prefix(['=', ':'])?.parse().ok())
}

/// The number that a list has for GPUs of all types; `None` if it has none.
fn gpus(list: Option<&str>) -> Option<u32> {
    let entries = list?.split(',').filter_map(|entry| entry.strip_prefix("gres:gpu"));
    let count = |rest: &str| rest.rsplit([':', '=']).next()?.parse().ok();
    let counts = entries.map(|rest| count(rest).unwrap_or(1));
    counts.reduce(u32::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The description that `sbatch` makes of some options.
    fn asked(fields: &[(&str, &str)]) -> JobDescriptor {
        let mut desc = JobDescriptor::default();
        for (name, value) in fields {
            desc.set(name, Value::from(*value)).unwrap();
        }
        desc
    }

    /// The values of a field in 22.05, 23.02, 23.11, 24.05, 24.11, 25.05, 25.11 and 26.05.
    fn by_release(desc: &JobDescriptor, field: &str) -> Vec<String> {
        let value = |release: &Release| {
            let shown = desc.shown_in(*release);
            for field in FIELDS.iter().filter(|field| field.is_changed(desc, &shown)) {
                let is_formed = FORMED.iter().any(|formed| formed.name == field.name);
                assert!(is_formed || field.name == "bitflags", "{} is formed, too", field.name);
            }
            shown.get_in(*release, field)
        };
        Release::ALL.iter().map(|r| value(r).map_or("-".to_owned(), |v| v.to_string())).collect()
    }

    #[test]
    fn generic_resources_show_as_in_each_release() {
        let desc = asked(&[("tres_per_node", "gres:gpu:2"), ("tres_per_job", "gres:gpu:a100:4")]);
        for (field, old, new) in [
            ("gres", "gres:gpu:2", "gres/gpu:2"),
            ("tres_per_node", "gres:gpu:2", "gres/gpu:2"),
            ("tres_per_job", "gres:gpu:a100:4", "gres/gpu:a100:4"),
        ] {
            assert_eq!(by_release(&desc, field), [[old; 2].as_slice(), &[new; 6]].concat());
        }
    }

    #[test]
    fn the_resources_of_a_task_show_as_in_each_release() {
        let gpus = asked(&[("tres_per_task", "gres:gpu:1")]);
        let old = ["gres:gpu:1", "gres:gpu:1", "gres/gpu:1"].as_slice();
        assert_eq!(by_release(&gpus, "tres_per_task"), [old, &["gres/gpu=1"; 5]].concat());
        let bound = "gres/gpu:per_task:1";
        assert_eq!(by_release(&gpus, "tres_bind"), [["nil"; 2].as_slice(), &[bound; 6]].concat());
        let cpus = asked(&[("cpus_per_task", "2")]);
        let shown = by_release(&cpus, "tres_per_task");
        assert_eq!(shown, [["nil", "nil", "cpu:2"].as_slice(), &["cpu=2"; 5]].concat());
        assert_eq!(by_release(&cpus, "tres_bind"), ["nil"; 8]);
        let both = asked(&[("cpus_per_task", "2"), ("tres_per_task", "gres:gpu:a100")]);
        assert_eq!(by_release(&both, "tres_per_task")[4], "cpu=2,gres/gpu:a100=1");
    }

    #[test]
    fn gpus_are_bound_unless_the_user_has_bound_them() {
        let asked_for = asked(&[("tres_per_task", "gres:gpu:1"), ("tres_bind", "gpu:closest")]);
        let shown = by_release(&asked_for, "tres_bind");
        assert_eq!((&*shown[0], &*shown[7]), ("gpu:closest", "gres/gpu:closest"));
        let types = asked(&[("tres_per_task", "gres:gpu:a100:1,gres:gpu:h100:2")]);
        let shown = by_release(&types, "tres_bind");
        assert_eq!(shown[4], "gres/gpu:per_task:1+gres/gpu:per_task:2");
        assert_eq!(shown[5], "gres/gpu:per_task:3");
    }

    #[test]
    fn tasks_and_nodes_are_counted_as_in_each_release() {
        let nodes = asked(&[("num_tasks", "5"), ("ntasks_per_node", "2")]);
        let unset = "4294967294";
        let shown = by_release(&nodes, "min_nodes");
        assert_eq!(shown, [[unset; 2].as_slice(), &["3"; 6]].concat());
        let fields = [("min_nodes", "2"), ("max_nodes", "2"), ("ntasks_per_node", "24")];
        let tasks = asked(&fields);
        let shown = by_release(&tasks, "num_tasks");
        assert_eq!(shown, [["48"].as_slice(), &[unset; 7]].concat());
        assert_eq!(tasks.shown_in(Release::V22_05).bitflags, JOB_NTASKS_SET);
        let open = asked(&[("min_nodes", "2"), ("max_nodes", "4"), ("ntasks_per_node", "24")]);
        assert_eq!(by_release(&open, "num_tasks"), [unset; 8]);
    }

    #[test]
    fn cpus_of_gpus_are_counted_as_in_each_release() {
        let shown = |fields: &[(&str, &str)]| {
            let mut desc = asked(&[&[("cpus_per_tres", "gres:gpu:3")], fields].concat());
            desc.min_cpus = Some(1);
            by_release(&desc, "min_cpus")
        };
        let gpus = shown(&[("tres_per_job", "gres:gpu:a:2,gres:gpu:b")]);
        assert_eq!(gpus, [["1"; 4], ["9"; 4]].concat());
        for (fields, cpus) in [
            ([("tres_per_node", "gres:gpu:2"), ("min_nodes", "2")].as_slice(), "12"),
            (&[("tres_per_node", "gres:nic:4,gres:gpu")], "3"),
            (&[("tres_per_job", "gres:gpu:1"), ("num_tasks", "9")], "9"),
            (&[("tres_per_task", "gres:gpu:2"), ("num_tasks", "3")], "18"),
            (&[("tres_per_socket", "gres:gpu:1"), ("sockets_per_node", "2")], "6"),
            (&[("tres_per_job", "gres:gpu:4"), ("tres_per_node", "gres:gpu:2")], "12"),
            (&[("tres_per_node", "gres:nic:4")], "1"),
        ] {
            assert_eq!(shown(fields)[7], cpus, "{fields:?}");
        }
    }

    #[test]
    fn a_change_is_of_nobody_since_24_11() {
        let changed = JobDescriptor { group_id: NO_VAL, ..JobDescriptor::default() };
        let shown = by_release(&changed, "group_id");
        assert_eq!(shown, [["4294967294"; 4], ["99"; 4]].concat());
        let submitted = JobDescriptor { group_id: 5, ..JobDescriptor::default() };
        assert_eq!(by_release(&submitted, "group_id"), ["5"; 8]);
    }

    #[test]
    fn fields_that_a_release_lacks_are_not_there() {
        let desc = JobDescriptor::default();
        let zero_until_23_11 = [["0"; 3].as_slice(), &["-"; 5]].concat();
        assert_eq!(by_release(&desc, "power_flags"), zero_until_23_11);
        let zero_since_25_11 = [["-"; 6].as_slice(), &["0"; 2]].concat();
        assert_eq!(by_release(&desc, "segment_size"), zero_since_25_11);
        let mut desc = desc;
        let mut refused = |release, name| desc.set_in(release, name, "1".into()).unwrap_err();
        let unknown = |name: &str| SetError::Unknown(name.to_owned());
        assert_eq!(refused(Release::V24_05, "power_flags"), unknown("power_flags"));
        assert_eq!(refused(Release::V25_11, "core_spec"), unknown("core_spec"));
        let read_only = SetError::ReadOnly("network".to_owned());
        assert_eq!(refused(Release::V26_05, "network"), read_only);
        // Scripts of 22.05 could write it, but not read it.
        assert_eq!(desc.set_in(Release::V22_05, "selinux_context", "x".into()), Ok(()));
        assert_eq!(desc.get_in(Release::V22_05, "selinux_context"), None);
    }

    #[test]
    fn a_script_that_changes_nothing_leaves_the_description() {
        let desc = asked(&[
            ("tres_per_node", "gres:gpu:2,nic"),
            ("tres_per_task", "gres:gpu:a100:1"),
            ("cpus_per_task", "2"),
            ("num_tasks", "5"),
            ("ntasks_per_node", "2"),
        ]);
        let fixed = asked(&[("min_nodes", "2"), ("ntasks_per_node", "24")]);
        for (desc, release) in Release::ALL.iter().flat_map(|r| [(&desc, *r), (&fixed, *r)]) {
            assert_eq!(desc.with_changes_of(release, desc.shown_in(release)), *desc, "{release}");
        }
    }

    #[test]
    fn what_a_script_changes_is_taken_in_the_one_form() {
        let release = Release::V24_11;
        let desc = asked(&[("cpus_per_task", "2"), ("tres_per_task", "gres:gpu:1")]);
        let taken = |fields: &[(&str, &str)]| {
            let mut script = desc.shown_in(release);
            for (name, value) in fields {
                script.set_in(release, name, Value::from(*value)).unwrap();
            }
            desc.with_changes_of(release, script)
        };
        let more = taken(&[("tres_per_task", "cpu=4,gres/gpu:a100=2")]);
        assert_eq!(more.tres_per_task.as_deref(), Some("gres:gpu:a100:2"));
        assert_eq!(more.cpus_per_task, Some(4));
        let cpus = taken(&[("cpus_per_task", "8")]);
        assert_eq!((cpus.cpus_per_task, &cpus.tres_per_task), (Some(8), &desc.tres_per_task));
        let none = taken(&[("tres_per_task", "")]);
        assert_eq!((none.tres_per_task, none.cpus_per_task), (None, Some(2)));
        // What scripts of 22.05 write has no CPUs in it.
        let mut script = desc.shown_in(Release::V22_05);
        script.set_in(Release::V22_05, "tres_per_task", "gres:gpu:2".into()).unwrap();
        assert_eq!(desc.with_changes_of(Release::V22_05, script).cpus_per_task, Some(2));
        // A script for 22.05 writes the old prefix.
        let old = taken(&[("gres", "gres:gpu:1,nic:1,gres/x")]);
        assert_eq!(old.tres_per_node.as_deref(), Some("gres:gpu:1,gres:nic:1,gres:x"));
        let fixed = asked(&[("min_nodes", "2"), ("ntasks_per_node", "24")]);
        let mut script = fixed.shown_in(Release::V22_05);
        script.bitflags |= 1 << 8;
        let taken = fixed.with_changes_of(Release::V22_05, script);
        assert_eq!((taken.bitflags, taken.num_tasks), (1 << 8, None));
    }

    #[test]
    fn gres_reads_as_it_was_written_with_the_prefix_of_the_release() {
        let gres = |release, text: &str| {
            let mut desc = JobDescriptor::default();
            desc.set_in(release, "gres", text.into()).unwrap();
            desc.get_in(release, "gres").unwrap().to_string()
        };
        assert_eq!(gres(Release::V22_05, "gpu:1,gres:nic"), "gres:gpu:1,gres:nic");
        assert_eq!(gres(Release::V23_11, "gpu:1,gres/nic"), "gres/gpu:1,gres/nic");
        assert_eq!(gres(Release::V26_05, "gres:gpu:1"), "gres/gres:gpu:1");
    }

    #[test]
    fn each_change_is_one_that_scripts_see() {
        let asked = asked(&[
            ("tres_per_node", "gres:gpu:2"),
            ("tres_per_job", "gres:gpu:2"),
            ("tres_per_socket", "gres:gpu:2"),
            ("tres_per_task", "gres:gpu:a:1,gres:gpu:b:1"),
            ("cpus_per_tres", "gres:gpu:2"),
            ("mem_per_tres", "gres:gpu:2"),
            ("ntasks_per_node", "2"),
        ]);
        let fixed = JobDescriptor { min_nodes: Some(2), group_id: NO_VAL, ..asked.clone() };
        let asked = JobDescriptor { num_tasks: Some(5), ..asked };
        for (at, release) in Release::ALL.iter().enumerate().skip(1) {
            let before = Release::ALL[at - 1];
            let differs = |field: &&Field<JobDescriptor>| {
                [&asked, &fixed].iter().any(|desc| {
                    let value = |release| (field.get)(&desc.shown_in(release));
                    value(before) != value(*release)
                })
            };
            let mut seen: Vec<&str> =
                FIELDS.iter().filter(differs).map(|field| field.name).collect();
            seen.retain(|name| *name != "bitflags");
            let of_release = CHANGES.iter().filter(|change| change.release == *release);
            let mut said: Vec<&str> =
                of_release.flat_map(|change| change.fields).copied().collect();
            seen.sort_unstable();
            said.sort_unstable();
            assert_eq!(said, seen, "{release}");
        }
    }
}
