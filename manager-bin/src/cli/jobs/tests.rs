//! Tests of `jobs` with a simulated manager: requests, output and exit codes.

use std::cell::RefCell;

use clap::Parser;
use serde_json::{Value, json};

use super::execute;
use super::fetch::JobSource;
use super::options::{JobsArgs, Setting};
use super::row::tests::{active, display_context, job};
use crate::cli::common::message::{CliError, Prog, Streams};
use crate::client::RpcError;
use crate::rpc::errno::{EINVAL, ENOENT};
use crate::rpc::service;

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    args: JobsArgs,
}

fn parse(words: &[&str]) -> Result<JobsArgs, clap::Error> {
    Command::try_parse_from([&["jobs"], words].concat()).map(|command| command.args)
}

/// A simulated manager that has some jobs and records the requests that it receives.
#[derive(Default)]
struct Service {
    jobs: Vec<Value>,
    /// The manager that runs as one of the jobs.
    inner: Option<Box<Service>>,
    requests: RefCell<Vec<(String, Value)>>,
}

impl<'s> JobSource for &'s Service {
    async fn inner(&self, uri: &str, _: &str) -> Option<Self> {
        let service: &'s Service = self;
        service.inner.as_deref().filter(|_| uri.starts_with("local:///inner"))
    }

    async fn call<S: service::Service>(&self, request: S) -> Result<S::Response, RpcError> {
        let response = self.respond(S::TOPIC, serde_json::to_value(request).unwrap())?;
        Ok(serde_json::from_value(response).unwrap())
    }
}

impl Service {
    fn respond(&self, topic: &str, payload: Value) -> Result<Value, RpcError> {
        self.requests.borrow_mut().push((topic.to_owned(), payload.clone()));
        match topic {
            "job-list.list" => {
                let limit = payload["max_entries"].as_u64().unwrap() as usize;
                let jobs = if limit == 0 {
                    self.jobs.as_slice()
                } else {
                    &self.jobs[..limit.min(self.jobs.len())]
                };
                Ok(json!({"jobs": jobs}))
            }
            "job-list.list-id" => {
                let found = self.jobs.iter().find(|job| job["id"] == payload["id"]);
                found.map(|job| json!({"job": job})).ok_or(RpcError::new(ENOENT, "no"))
            }
            "job-list.job-stats" => Ok(json!({
                "job_states": {"depend": 1, "priority": 0, "sched": 1, "run": 1, "cleanup": 0, "inactive": 4},
                "successful": 1, "failed": 1, "canceled": 1, "timeout": 1, "inactive_purged": 0,
                "queues": [
                    {"name": "qa", "job_states": {"run": 1, "inactive": 2}, "successful": 1, "failed": 1},
                    {"name": "qb", "job_states": {"inactive": 2}, "canceled": 1, "timeout": 1, "inactive_purged": 7},
                ],
            })),
            "job-manager.queue-status" if payload["name"] == "new" => Ok(json!({"enable": true})),
            "job-manager.queue-status" => Err(RpcError::new(EINVAL, "not a valid queue")),
            _ => unreachable!("{topic}"),
        }
    }
}

#[derive(Debug, PartialEq)]
struct Output {
    code: u8,
    out: String,
    err: String,
}

fn execute_with(service: &Service, words: &[&str], input: &str) -> Result<Output, CliError> {
    let setting = Setting {
        prog: Prog::named("flux"),
        uid: 1001,
        display: display_context(),
        formats: Setting::builtin_formats(),
        color: false,
        columns: Some(20),
    };
    let args = parse(words).unwrap();
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut streams = Streams { input: &mut input.as_bytes(), out: &mut out, err: &mut err };
    let done = execute(&args, &setting, async || Ok(service), &mut streams);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let code = runtime.block_on(done)?;
    Ok(Output { code, out: String::from_utf8(out).unwrap(), err: String::from_utf8(err).unwrap() })
}

fn service(jobs: Vec<Value>) -> Service {
    Service { jobs, ..Service::default() }
}

fn run(service: &Service, words: &[&str]) -> Output {
    execute_with(service, words, "").unwrap()
}

fn failure(words: &[&str]) -> (u8, String) {
    let Err(error) = execute_with(&service(vec![]), words, "") else {
        panic!("{words:?} was accepted")
    };
    (error.code, error.text)
}

fn numbered(ids: &[u64]) -> Vec<Value> {
    ids.iter().map(|id| job(json!({"id": id, "priority": id % 3}))).collect()
}

/// The constraint in the request for these options.
fn constraint(words: &[&str]) -> Value {
    let service = service(vec![]);
    run(&service, words);
    let requests = service.requests.into_inner();
    requests[0].1["constraint"].clone()
}

#[test]
fn options_become_a_constraint() {
    let (own, all) = (json!({"userid": [1001]}), json!({"states": [62]}));
    for (words, expected) in [
        (vec![], json!({"and": [own, all]})),
        (vec!["-a"], json!({"and": [own]})),
        (vec!["-A"], json!({"and": [all]})),
        (vec!["-aA"], json!({})),
        (vec!["-u", "root"], json!({"and": [{"userid": [0]}, all]})),
        (vec!["-u", "77"], json!({"and": [{"userid": [77]}, all]})),
        (vec!["-u", "all"], json!({"and": [all]})),
        (vec!["-f", "Pending,RUN"], json!({"and": [own, {"states": [30]}]})),
        (vec!["-f", "failed"], json!({"and": [own, {"results": [2]}]})),
        (
            vec!["--filter=failed,timeout,run"],
            json!({"and": [own, {"or": [{"states": [16]}, {"results": [10]}]}]}),
        ),
        (vec!["-f", "inactive"], json!({"and": [own, {"states": [64]}]})),
        (vec!["-a", "-f", "run"], json!({"and": [own, {"states": [16]}]})),
        (
            vec!["--name=x", "-q", "a,b"],
            json!({"and": [own, all, {"name": ["x"]}, {"queue": ["a", "b"]}]}),
        ),
        (vec!["-i", "0-3"], json!({"and": [all, {"ranks": ["0-3"]}]})),
        (
            vec!["-i", "node[1-2]", "-u", "root"],
            json!({"and": [{"userid": [0]}, all, {"hostlist": ["node[1-2]"]}]}),
        ),
        (vec!["--since=-1h"], json!({"and": [own]})),
    ] {
        assert_eq!(constraint(&words), expected, "{words:?}");
    }
}

#[test]
fn since_and_count_are_members_of_the_request() {
    let request = |words: &[&str]| {
        let service = service(vec![]);
        run(&service, words);
        service.requests.into_inner().remove(0)
    };
    let (topic, payload) = request(&[]);
    assert_eq!(topic, "job-list.list");
    assert_eq!(payload["max_entries"], 1001);
    assert_eq!(payload["attrs"], json!(["all"]));
    assert_eq!(payload.get("since"), None);
    assert_eq!(request(&["-c", "0"]).1["max_entries"], 0);
    assert_eq!(request(&["--since", "-1h"]).1["since"], json!(1_699_996_400.0));
}

#[test]
fn jobs_are_sorted_by_option_then_format_then_manager() {
    let jobs = service(numbered(&[5, 3, 4]));
    let format = ["-no", "{id.dec}"];
    assert_eq!(run(&jobs, &format).out, "5\n3\n4\n");
    assert_eq!(run(&jobs, &[&format[..], &["--sort=id"]].concat()).out, "3\n4\n5\n");
    assert_eq!(run(&jobs, &[&format[..], &["--sort", "-priority,id"]].concat()).out, "5\n4\n3\n");
    assert_eq!(run(&jobs, &["-no", "sort:-id {id.dec}"]).out, "5\n4\n3\n");
    let both = ["-no", "sort:-id {id.dec}", "--sort=id"];
    assert_eq!(run(&jobs, &both).out, "3\n4\n5\n");
}

#[test]
fn an_empty_list_prints_the_header() {
    let header = "       JOBID USER     NAME       ST NTASKS NNODES     TIME INFO\n";
    assert_eq!(
        run(&service(vec![]), &[]),
        Output { code: 0, out: header.to_owned(), err: String::new() }
    );
}

#[test]
fn truncation_warns_unless_there_is_no_header() {
    let jobs = service(numbered(&[1, 2, 3]));
    let cut = run(&jobs, &["-c2", "-o", "{id.dec}"]);
    assert_eq!(cut.out, "JOBID\n1\n2\n");
    assert_eq!(
        cut.err,
        "warning: output truncated at 2 jobs.\n\
         Use --count to increase returned results or use filters to alter results.\n"
    );
    assert_eq!(run(&jobs, &["-c3"]).err, "");
    let quiet = run(&jobs, &["-c2", "-no", "{id.dec}"]);
    assert_eq!((quiet.out.as_str(), quiet.err.as_str()), ("1\n2\n", ""));
    let json = run(&jobs, &["-c2", "--json"]);
    assert_eq!((json.out.matches("\"id\"").count(), json.err.as_str()), (2, ""));
}

#[test]
fn unknown_ids_are_reported_as_typed() {
    let jobs = service(numbered(&[1, 2]));
    let one = run(&jobs, &["-no", "{id.dec}", "0x2", "99", "f2"]);
    assert_eq!(
        one,
        Output { code: 0, out: "2\n1\n".to_owned(), err: "JobID 99 unknown\n".to_owned() }
    );
    let none = run(&jobs, &["-no", "{id.dec}", "0x63"]);
    assert_eq!(
        none,
        Output { code: 1, out: String::new(), err: "JobID 0x63 unknown\n".to_owned() }
    );
    let filtered = run(&jobs, &["-a", "-no", "{id.dec}", "1"]);
    assert_eq!(filtered.out, "1\n");
    assert_eq!(filtered.err, "flux-jobs: WARNING: Filtering options ignored with jobid list\n");
    assert!(parse(&["xyz"]).is_err());
}

#[test]
fn filter_overrides_all_with_a_warning() {
    let both = run(&service(vec![]), &["-a", "--filter=pending", "-n"]);
    assert_eq!(both.err, "flux-jobs: WARNING: Both -a and --filter specified, ignoring -a\n");
}

#[test]
fn stats_only_exits_with_1_if_no_job_is_active() {
    let jobs = service(numbered(&[1]));
    let all = "1 running, 1 completed, 3 failed, 2 pending, 0 inactive purged\n";
    let stats = run(&jobs, &["--stats", "-no", "{id.dec}"]);
    assert_eq!((stats.code, stats.out), (0, format!("{all}1\n")));
    let only = run(&jobs, &["--stats-only"]);
    assert_eq!((only.code, only.out.as_str()), (0, all));
    let idle = run(&jobs, &["--stats-only", "-q", "qb"]);
    let line = "0 running, 0 completed, 2 failed, 0 pending, 7 inactive purged\n";
    assert_eq!((idle.code, idle.out.as_str()), (1, line));
    assert_eq!(run(&jobs, &["--stats-only", "-q", "qa,qb"]).code, 0);
    let none = run(&jobs, &["--stats-only", "-q", "new"]);
    let zeros = "0 running, 0 completed, 0 failed, 0 pending, 0 inactive purged\n";
    assert_eq!((none.code, none.out.as_str()), (1, zeros));
    assert_eq!(
        failure(&["--stats", "-q", "nope"]),
        (1, "error retrieving job stats: no stats available for queue nope".to_owned())
    );
}

#[test]
fn json_prints_a_list_or_a_single_named_job() {
    let jobs = service(numbered(&[1, 2]));
    let read = |words: &[&str]| serde_json::from_str::<Value>(&run(&jobs, words).out).unwrap();
    assert_eq!(read(&["--json"])["jobs"][1]["id"], 2);
    assert_eq!(read(&["--json", "2"])["id"], 2);
    assert_eq!(read(&["--json", "2", "1"])["jobs"][0]["id"], 2);
    // As in Flux, only tables are sorted.
    assert_eq!(read(&["--json", "--sort=-id"])["jobs"][0]["id"], 1);
}

#[test]
fn lines_are_cut_to_the_width() {
    let jobs = service(numbered(&[1]));
    assert_eq!(run(&jobs, &["-w", "8", "-o", "{id.dec}-{cwd}"]).out, "JOBID-C+\n1-/home+\n");
    assert_eq!(run(&jobs, &["-n", "--width", "-o", "{cwd}{cwd}"]).out, "/home/alice/home/al+\n");
    assert_eq!(run(&jobs, &["-n", "-o", "{cwd}{cwd}"]).out, "/home/alice/home/alice\n");
}

#[test]
fn lines_of_inactive_jobs_are_coloured_by_result() {
    let results = [1, 2, 4, 8].map(|result| job(json!({"result": result})));
    let jobs = service(results.into_iter().chain([active(16, json!({}))]).collect());
    assert_eq!(
        run(&jobs, &["-o", "{status}", "--color"]).out,
        "STATUS\n\x1b[01;32mCOMPLETED\n\x1b[0;0m\x1b[01;31mFAILED\n\x1b[0;0m\
         \x1b[37mCANCELED\n\x1b[0;0m\x1b[01;31mTIMEOUT\n\x1b[0;0mRUN\n"
    );
    for plain in ["--color=never", "--color=auto"] {
        assert!(!run(&jobs, &[plain]).out.contains('\x1b'));
    }
}

#[test]
fn from_stdin_sends_no_request() {
    let unused = service(vec![]);
    let input = format!("{}\n\n{}\n", job(json!({"id": 7})), active(8, json!({"id": 8})));
    let done =
        execute_with(&unused, &["--from-stdin", "-no", "{id.dec} {status}"], &input).unwrap();
    assert_eq!(done.out, "7 COMPLETED\n8 SCHED\n");
    assert!(unused.requests.borrow().is_empty());
    let error = execute_with(&unused, &["--from-stdin"], "{\"id\":1}\n{").unwrap_err();
    assert!(error.text.starts_with("JSON input error: line 2: "), "{}", error.text);
}

#[test]
fn format_help_needs_no_manager() {
    let unused = service(vec![]);
    assert!(run(&unused, &["-o", "help"]).out.contains("\n  endreason  "));
    assert!(run(&unused, &["-o", "get-config=deps"]).out.contains("[formats.deps]"));
    assert!(unused.requests.borrow().is_empty());
}

#[test]
fn invalid_options_are_refused_with_a_message() {
    for (words, code, text) in [
        (vec!["--filter=nosuch"], 1, "Invalid filter specified: nosuch"),
        (vec!["-f", "run,"], 1, "Invalid filter specified: "),
        (vec!["-f", "R"], 1, "Invalid filter specified: r"),
        (vec!["-u", "nosuchuser"], 1, "Invalid user nosuchuser specified"),
        (vec!["-o", "{nope}"], 1, "Error in user format: Unknown format field: nope"),
        (vec!["-o", "{id"], 1, "Error in user format: expected '}' before end of string"),
        (vec!["-o", "nope"], 1, "--format: No such format nope (Did you mean '{nope}'?)"),
        (vec!["--sort=nope"], 1, "Invalid sort key: nope"),
        (vec!["-i", "n[9"], 1, "-i/--include: invalid targets: n[9"),
        (vec!["-i", "3-1"], 1, "-i/--include: invalid targets: 3-1"),
        (vec!["--since=+1h"], 1, "--since=+1h appears to be in the future"),
        (vec!["--since=soon"], 1, "could not convert string to float: 'soon'"),
        (vec!["--count=-1"], 1, "invalid payload: max_entries < 0 not allowed"),
        (vec!["--json", "--stats"], 1, "--json incompatible with --stats or --stats-only"),
        (vec!["--json", "--stats-only"], 1, "--json incompatible with --stats or --stats-only"),
    ] {
        assert_eq!(failure(&words), (code, text.to_owned()), "{words:?}");
    }
}

#[test]
fn the_last_of_repeated_options_wins() {
    let args = parse(&["-n", "-o", "{id}", "-o", "{name}", "-n"]).unwrap();
    assert_eq!(args.format.as_deref(), Some("{name}"));
    assert!(args.no_header);
    assert!(parse(&["--suppress-header"]).unwrap().no_header);
    assert!(parse(&["--no-head"]).is_err(), "abbreviated long options are refused");
}

#[test]
fn recursive_lists_inner_jobs_under_their_path() {
    let manager = |id: u64| {
        let uri = json!({"user": {"uri": format!("local:///inner/{id}")}});
        active(16, json!({"id": id, "annotations": uri}))
    };
    let deepest = service(numbered(&[3]));
    let middle = Service { inner: Some(Box::new(deepest)), ..service(vec![manager(2)]) };
    let outer = Service { inner: Some(Box::new(middle)), ..service(vec![manager(1)]) };
    let list = |words: &[&str]| run(&outer, &[words, &["-o", "{id.dec}"]].concat()).out;
    assert_eq!(list(&[]), "JOBID\n1\n");
    assert_eq!(list(&["-R"]), "JOBID\n1\n\nf2:\n2\n\nf2/f3:\n3\n");
    assert_eq!(list(&["-n", "--color=always"]), "\x1b[01;34m1\n\x1b[0;0m");
    assert_eq!(list(&["-n", "-L1"]), "1\n\nf2:\n2\n");
    let nested: Value = serde_json::from_str(&run(&outer, &["-R", "--json"]).out).unwrap();
    assert_eq!(nested.pointer("/jobs/0/jobs/0/jobs/0/id"), Some(&json!(3)));
    let others = service(vec![active(16, json!({"userid": 7, "id": 1}))]);
    assert_eq!(run(&others, &["-R", "-n", "-o", "{id.dec}"]).out, "1\n");
}

#[test]
fn a_cycle_of_managers_is_visited_once() {
    let same =
        |id: u64| active(16, json!({"id": id, "annotations": {"user": {"uri": "local:///inner"}}}));
    let again = Service { inner: Some(Box::new(service(vec![]))), ..service(vec![same(1)]) };
    let once = Service { inner: Some(Box::new(again)), ..service(vec![same(1)]) };
    let listed = run(&once, &["-R", "-n", "-o", "{id.dec}"]).out;
    assert_eq!(listed, "1\n\nf2:\n1\n");
}
