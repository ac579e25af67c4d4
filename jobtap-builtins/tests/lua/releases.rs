//! Scripts see what the release of Slurm shows for which they were written. The values are those of real Slurms:
//! 22.05.8, 24.11.5 and 26.05.5.

use jobtap_builtins::lua::{OnError, Options, Version};
use jobtap_core::slurm::{FUNCTIONS, JobDescriptor, JobRecord, Kind, Release, errno};

use super::{MODIFY, Request, Site, submit_with, texts};

fn options_of(release: Release) -> Options {
    Options { release, ..Options::default() }
}

fn desc() -> JobDescriptor {
    JobDescriptor::default()
}

/// What an expression gives in 22.05, 24.11 and 26.05.
fn seen(desc: &JobDescriptor, expression: &str) -> [String; 3] {
    [Release::V22_05, Release::V24_11, Release::V26_05].map(|release| {
        let body = format!("print({expression}) return 0");
        let (verdict, after) = submit_with(options_of(release), &body, desc.clone());
        assert_eq!((verdict.error, &after), (None, desc), "{release}");
        texts(&verdict.log).remove(0)
    })
}

#[test]
fn every_field_is_read_and_written_where_the_release_has_it() {
    for release in Release::ALL {
        let mut reads = String::new();
        let mut writes = String::new();
        for field in JobDescriptor::FIELDS {
            let name = field.name;
            let expected = match field.kind {
                _ if !field.readable.has(*release) => "nil",
                Kind::Environment => "table",
                _ => (field.get)(&desc()).type_name(),
            };
            reads +=
                &format!("if type(job_desc.{name}) ~= '{expected}' then error('{name}') end\n");
            if field.writable.has(*release) {
                let value = if field.kind == Kind::Text { "'7'" } else { "7" };
                writes += &format!("job_desc.{name} = {value}\n");
            }
        }
        let (verdict, _) = submit_with(options_of(*release), &format!("{reads} return 0"), desc());
        assert_eq!(verdict.error, None, "{release}");
        let (verdict, after) =
            submit_with(options_of(*release), &format!("{writes} return 0"), desc());
        assert_eq!((verdict.error, verdict.log), (None, vec![]), "{release}");
        assert_eq!((after.account.as_deref(), after.num_tasks), (Some("7"), Some(7)));
    }
}

#[test]
fn a_field_of_another_release_is_logged_and_ignored() {
    let body = "job_desc.power_flags = 1 job_desc.segment_size = 2 return 0";
    let (verdict, after) = submit_with(options_of(Release::V24_11), body, desc());
    let refused = ["unrecognized field: power_flags", "unrecognized field: segment_size"];
    assert_eq!((texts(&verdict.log), after), (refused.map(str::to_owned).to_vec(), desc()));
    let shown = "tostring(job_desc.power_flags) .. ' ' .. tostring(job_desc.segment_size)";
    assert_eq!(seen(&desc(), shown), ["0 nil", "nil nil", "nil 0"]);
}

#[test]
fn options_of_sbatch_show_as_in_each_release() {
    let gres = JobDescriptor { tres_per_node: Some("gres:gpu:2".to_owned()), ..desc() };
    assert_eq!(seen(&gres, "job_desc.gres"), ["gres:gpu:2", "gres/gpu:2", "gres/gpu:2"]);
    let task = JobDescriptor { tres_per_task: Some("gres:gpu:1".to_owned()), ..desc() };
    let both = "job_desc.tres_per_task .. ' ' .. tostring(job_desc.tres_bind)";
    let newer = "gres/gpu=1 gres/gpu:per_task:1";
    assert_eq!(seen(&task, both), ["gres:gpu:1 nil", newer, newer]);
    let cpus = JobDescriptor { cpus_per_task: Some(2), ..desc() };
    assert_eq!(seen(&cpus, "job_desc.tres_per_task"), ["nil", "cpu=2", "cpu=2"]);
    let tasks = JobDescriptor { num_tasks: Some(5), ntasks_per_node: Some(2), ..desc() };
    assert_eq!(seen(&tasks, "job_desc.min_nodes"), ["4294967294", "3", "3"]);
    let nodes = JobDescriptor {
        min_nodes: Some(2),
        max_nodes: Some(2),
        ntasks_per_node: Some(24),
        ..desc()
    };
    assert_eq!(seen(&nodes, "job_desc.num_tasks"), ["48", "4294967294", "4294967294"]);
}

#[test]
fn records_of_jobs_show_as_in_each_release() {
    let record = JobRecord {
        tres_per_node: Some("gres:gpu:2".to_owned()),
        cpus_per_task: Some(2),
        ..JobRecord::default()
    };
    for (release, line) in
        [(Release::V22_05, "gres:gpu:2 nil nil"), (Release::V26_05, "gres/gpu:2 cpu=2 0")]
    {
        let site = Site::with(options_of(release));
        let text = "function slurm_job_submit() return 0 end
            function slurm_job_modify(job_desc, job_rec)
              local other = slurm.jobs['7']
              slurm.log_info('%s %s %s', job_rec.gres, tostring(other.tres_per_task), tostring(other.segment_size))
              return 0
            end";
        let mut script = site.load(text).unwrap();
        let mut request = Request::new(desc());
        request.around.jobs = vec![JobRecord { job_id: 7, ..record.clone() }];
        let (verdict, _) = request.modify(&mut script, record.clone());
        assert_eq!((verdict.error, texts(&verdict.log)), (None, vec![line.to_owned()]));
    }
}

#[test]
fn each_release_has_its_functions_constants_and_errors() {
    for release in Release::ALL {
        let has = |name: &str, has: bool| {
            format!("if (slurm.{name} ~= nil) ~= {has} then error('{name}') end\n")
        };
        let functions = FUNCTIONS.iter().map(|f| has(f.name, f.releases.has(*release)));
        let errors = errno::ERRORS.iter().map(|e| has(e.name, e.is_in_scripts(*release)));
        let body: String = functions.chain(errors).collect();
        let (verdict, _) = submit_with(options_of(*release), &format!("{body} return 0"), desc());
        assert_eq!(verdict.error, None, "{release}");
    }
    assert_eq!(
        seen(&desc(), "slurm.CONSOLIDATE_SEGMENTS"),
        ["nil", "nil", "17592186044416"].map(str::to_owned)
    );
    assert_eq!(seen(&desc(), "slurm.ESLURM_RES_CORES_PER_GPU_UNIQUE"), ["nil", "2174", "2174"]);
    assert_eq!(seen(&desc(), "slurm.ESLURM_INVALID_EXTERNAL_JOB"), ["nil", "nil", "2189"]);
    assert_eq!(seen(&desc(), "slurm.ESLURM_LUA_FUNC_FAILED"), ["nil", "nil", "7404"]);
    let priority = "slurm.get_qos_priority and slurm.get_qos_priority('none')";
    assert_eq!(seen(&desc(), priority), ["nil", "0", "0"]);
    assert_eq!(seen(&desc(), "table.unpack"), ["nil"; 3]);
}

#[test]
fn a_number_is_the_error_of_the_release() {
    let text = |release| {
        let (verdict, _) = submit_with(options_of(release), "return 2174", desc());
        verdict.refusal().unwrap().to_string()
    };
    assert_eq!(text(Release::V22_05), "Unknown error 2174");
    assert_ne!(text(Release::V24_11), "Unknown error 2174");
}

#[test]
fn a_script_that_fails_is_refused_whatever_the_release() {
    for release in Release::ALL {
        let fails = |on_error| {
            let options = Options { on_error, ..options_of(*release) };
            submit_with(options, "job_desc.name = 'x' error('broken')", desc())
        };
        let (verdict, after) = fails(OnError::Reject);
        let name = verdict.refusal().map(|refusal| refusal.name().to_owned());
        assert_eq!(name.as_deref(), Some("ESLURM_LUA_FUNC_FAILED_RUNTIME_ERROR"));
        assert_eq!(after, desc());
        let (verdict, after) = fails(OnError::Accept);
        assert_eq!((verdict.code, after.name.as_deref()), (0, Some("x")));
    }
}

#[test]
fn what_a_script_changes_is_one_form_for_all_that_come_after() {
    for (release, gres) in [(Release::V22_05, "gres:gpu:1"), (Release::V24_11, "gres/gpu:1")] {
        let body = format!("job_desc.gres = 'gpu:1' return job_desc.gres == '{gres}' and 0 or 1");
        let (verdict, after) = submit_with(options_of(release), &body, desc());
        assert_eq!((verdict.code, after.tres_per_node.as_deref()), (0, Some("gres:gpu:1")));
    }
}

#[test]
fn documents_are_written_as_in_26_05() {
    let yaml = seen(&desc(), "slurm.to_yaml and slurm.to_yaml({ a = 1 })");
    assert_eq!(yaml, ["nil", "nil", "%YAML 1.1\n--- !!map\n!!str a: !!float 1.000000\n...\n"]);
}

#[test]
fn every_release_runs_under_both_versions_of_lua() {
    for (release, version) in
        Release::ALL.iter().flat_map(|r| [(*r, Version::Lua51), (*r, Version::Lua54)])
    {
        let site = Site::with(Options { version, ..options_of(release) });
        assert!(site.load(&format!("function slurm_job_submit() end {MODIFY}")).is_ok());
    }
}
