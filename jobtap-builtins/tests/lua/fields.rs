//! Scripts read and write the fields of jobs.

use jobtap_core::slurm::{Environment, INFINITE, JobDescriptor, JobRecord, NO_VAL, Reservation};

use super::{MODIFY, Request, Site, failed, submit, texts};

fn desc() -> JobDescriptor {
    JobDescriptor::default()
}

#[test]
fn unset_fields_read_as_constants() {
    let (verdict, _) = submit(
        "if job_desc.time_limit == slurm.NO_VAL and job_desc.requeue == slurm.NO_VAL16
            and job_desc.begin_time == 0 and job_desc.account == nil and job_desc.pn_min_memory == slurm.NO_VAL64
         then return slurm.SUCCESS end",
        desc(),
    );
    assert!(verdict.log.is_empty());
}

#[test]
fn values_are_converted_as_in_slurm() {
    let before = JobDescriptor { account: Some("a".to_owned()), time_limit: Some(5), ..desc() };
    let (verdict, after) = submit(
        "job_desc.account = ''
         job_desc.name = 10 / 2
         job_desc.min_nodes = '12'
         job_desc.num_tasks = 3.9
         job_desc.time_limit = slurm.NO_VAL
         job_desc.max_nodes = slurm.INFINITE
         return 0",
        before,
    );
    assert_eq!(verdict.error, None);
    assert_eq!(after.account, None);
    assert_eq!(after.name.as_deref(), Some("5"));
    assert_eq!((after.min_nodes, after.num_tasks, after.time_limit), (Some(12), Some(3), None));
    assert_eq!(after.max_nodes, Some(INFINITE));
}

#[test]
fn a_value_of_the_wrong_type_is_an_error() {
    for (body, error) in [
        ("job_desc.account = nil", ":1: bad argument #3 to '?' (string expected, got nil)"),
        ("job_desc.account = {}", ":1: bad argument #3 to '?' (string expected, got table)"),
        ("job_desc.account = print", ":1: bad argument #3 to '?' (string expected, got function)"),
        ("job_desc.account = true", ":1: bad argument #3 to '?' (string expected, got boolean)"),
        ("job_desc.min_nodes = 'abc'", ":1: bad argument #3 to '?' (number expected, got string)"),
        ("job_desc.min_nodes = nil", ":1: bad argument #3 to '?' (number expected, got nil)"),
        ("job_desc.environment.A = nil", ":1: bad argument #3 to '?' (string expected, got nil)"),
        ("job_desc[nil] = 1", ":1: bad argument #2 to '?' (string expected, got nil)"),
        ("return job_desc[{}]", ":1: bad argument #2 to '?' (string expected, got table)"),
    ] {
        assert_eq!(failed(body), error, "{body}");
    }
}

#[test]
fn unknown_and_read_only_fields_are_logged_and_ignored() {
    let (verdict, after) = submit(
        "job_desc.tiem_limit = 5
         job_desc.user_id = 0
         job_desc.environment = {}
         slurm.log_info(tostring(job_desc.tiem_limit))
         return 0",
        desc(),
    );
    assert_eq!((verdict.code, after), (0, desc()));
    assert_eq!(
        texts(&verdict.log),
        [
            "unrecognized field: tiem_limit",
            "field user_id can't be written",
            "field environment can't be written",
            "nil",
        ]
    );
}

#[test]
fn proxies_have_nothing_to_iterate_over() {
    let environment: Environment = [("A", "1")].into_iter().collect();
    let (verdict, _) = submit(
        "for k in pairs(job_desc) do return 1 end
         for k in pairs(job_desc.environment) do return 2 end
         if type(job_desc) ~= 'table' or #job_desc ~= 0 then return 3 end
         return 0",
        JobDescriptor { environment, ..desc() },
    );
    assert_eq!((verdict.error, verdict.code), (None, 0));
}

#[test]
fn the_environment_is_read_and_written_by_name() {
    let environment: Environment = [("HOME", "/home/a"), ("LANG", "C")].into_iter().collect();
    let (verdict, after) = submit(
        "slurm.log_info(job_desc.environment.HOME .. tostring(job_desc.environment['NONE']))
         job_desc.environment.LANG = 'en'
         job_desc.environment['NEW'] = 10 / 5
         job_desc.environment.EMPTY = ''
         return 0",
        JobDescriptor { environment, ..desc() },
    );
    assert_eq!(texts(&verdict.log), ["/home/anil"]);
    let lines: Vec<_> = after.environment.lines().collect();
    assert_eq!(lines, ["EMPTY=", "NEW=2", "HOME=/home/a", "LANG=en"]);
}

#[test]
fn arguments_are_counted_from_zero() {
    let argv = vec!["run.sh".to_owned(), "-x".to_owned()];
    let (verdict, _) = submit(
        "slurm.log_info(job_desc.argv[0] .. job_desc.argv[1] .. job_desc.argc) return 0",
        JobDescriptor { argv, argc: 2, ..desc() },
    );
    assert_eq!(texts(&verdict.log), ["run.sh-x2"]);
}

#[test]
fn partitions_jobs_and_reservations_are_tables_by_name() {
    let site = Site::new();
    let mut script = site
        .load(&format!(
            "function slurm_job_submit(job_desc, part_list, submit_uid)
               local names = {{}}
               for name, part in pairs(part_list) do
                 names[#names + 1] = name .. part.flag_default .. part.max_time .. tostring(part.nothing)
               end
               table.sort(names)
               slurm.log_info(table.concat(names, ' '))
               for id, job in pairs(slurm.jobs) do
                 slurm.log_info('%s %s %d', type(id), id, job.user_id)
               end
               slurm.log_info(slurm.jobs['7'].job_id + slurm.jobs['7'].min_nodes)
               slurm.log_info(tostring(slurm.jobs[7]) .. tostring(slurm.reservations.maint.full_nodes))
               part_list.gpu.max_time = 'mine'
               slurm.log_info(part_list.gpu.max_time .. submit_uid)
               return 0
             end
             {MODIFY}"
        ))
        .unwrap();
    let job = JobRecord { job_id: 7, user_id: 1000, min_nodes: 2, ..JobRecord::default() };
    let mut request = Request::new(desc()).partitions(&["batch", "gpu"]);
    request.around.partitions[0].flags = 1;
    request.around.jobs = vec![job];
    let reservation = Reservation { full_nodes: true, ..Reservation::default() };
    request.around.reservations = vec![("maint".to_owned(), reservation)];
    let (verdict, _) = request.submit(&mut script);
    assert_eq!(verdict.error, None);
    assert_eq!(
        texts(&verdict.log),
        ["batch14294967295nil gpu04294967295nil", "string 7 1000", "9", "niltrue", "mine1000"]
    );
    // The lists of the previous call are gone.
    let (verdict, _) = Request::new(desc()).submit(&mut script);
    assert_eq!(
        verdict.error.as_deref().map(super::without_place),
        Some(":11: attempt to index field '7' (a nil value)")
    );
}

#[test]
fn a_change_is_described_with_the_job_as_it_is() {
    let site = Site::new();
    let mut script = site
        .load(
            "function slurm_job_submit() return 0 end
             function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
               if job_desc.time_limit ~= slurm.NO_VAL and job_desc.time_limit > job_rec.time_limit and modify_uid ~= 0 then
                 slurm.log_user('job %d may not get longer', job_rec.job_id)
                 return slurm.ESLURM_ACCESS_DENIED
               end
               job_desc.comment = job_rec.name
               return slurm.SUCCESS
             end",
        )
        .unwrap();
    let job = JobRecord {
        job_id: 12,
        time_limit: Some(60),
        name: Some("sim".to_owned()),
        ..JobRecord::default()
    };
    let longer = Request::new(JobDescriptor { time_limit: Some(90), ..desc() });
    let (verdict, _) = longer.modify(&mut script, job.clone());
    assert_eq!(
        (verdict.code, verdict.messages),
        (2002, vec!["job 12 may not get longer".to_owned()])
    );
    let (verdict, after) = Request::new(desc()).modify(&mut script, job);
    assert_eq!((verdict.code, after.comment.as_deref()), (0, Some("sim")));
}

#[test]
fn what_a_script_keeps_of_a_call_reads_as_nothing_later() {
    let site = Site::new();
    let mut script = site
        .load(&format!(
            "function slurm_job_submit(job_desc, parts)
               if kept then
                 kept.name = 'changed'
                 return kept.name == nil and parts.batch.max_time == slurm.INFINITE and part.max_time == nil and 0 or 1
               end
               kept, part = job_desc, parts.batch
               return 0
             end
             {MODIFY}"
        ))
        .unwrap();
    for _ in 0..2 {
        let named = JobDescriptor { name: Some("a".to_owned()), ..desc() };
        let (verdict, after) = Request::new(named).partitions(&["batch"]).submit(&mut script);
        assert_eq!((verdict.error, verdict.code, after.name.as_deref()), (None, 0, Some("a")));
    }
}

#[test]
fn constants_and_errors_have_their_numbers() {
    let (verdict, _) = submit(
        "return slurm.NO_VAL == 4294967294 and slurm.ERROR == -1 and slurm.FAILURE == -1
            and slurm.ESLURM_ACCESS_DENIED == 2002 and slurm.MAIL_JOB_TIME890 == 32
            and slurm.NOTHING == nil and type(slurm.ESLURM_INVALID_QOS) == 'number' and 0 or 1",
        desc(),
    );
    assert_eq!(verdict.code, 0);
    assert_eq!(NO_VAL, 4_294_967_294);
}

#[test]
fn the_old_functions_of_the_c_side_are_there() {
    let (verdict, after) = submit(
        "_set_job_req_field(job_desc, 'comment', 'x')
         _set_job_env_field(job_desc, 'A', 'b')
         return _get_job_req_field_name(job_desc, 'comment') == 'x'
            and _get_job_env_field_name(job_desc, 'A') == 'b' and 0 or 1",
        desc(),
    );
    assert_eq!((verdict.code, after.comment.as_deref()), (0, Some("x")));
}

#[test]
fn texts_with_zero_bytes_and_impossible_variables_are_errors() {
    for (body, error) in [
        ("job_desc.name = 'a\\0b'", "bad argument #3 to '?' (the text for name has a zero byte)"),
        (
            "job_desc.comment = '\\0'",
            "bad argument #3 to '?' (the text for comment has a zero byte)",
        ),
        ("job_desc.environment['A=B'] = 'c'", "variable A=B: its name has a ="),
        ("job_desc.environment[''] = 'c'", "a variable has no name"),
        ("job_desc.environment.A = 'b\\0c'", "variable A has a zero byte"),
        ("job_desc.environment['A\\0'] = 'b'", "variable A\\0 has a zero byte"),
    ] {
        let (verdict, after) = submit(body, JobDescriptor::default());
        assert!(
            verdict.error.as_deref().unwrap_or_default().ends_with(error),
            "{body}: {verdict:?}"
        );
        assert_eq!(after, JobDescriptor::default());
    }
}
