//! Requests to services, with the token and without it.

use serde_json::{Value, json};

use crate::client::{Site, Stream, jobspec};

const EPERM: i64 = 1;
const ENOENT: i64 = 2;
const EACCES: i64 = 13;
const EINVAL: i64 = 22;
const ENOSYS: i64 = 38;
const ENODATA: i64 = 61;
const EPROTO: i64 = 71;

#[test]
fn users_are_named_for_a_bounded_number_at_once() {
    let site = Site::open("");
    let users = site.read("job-list.users", json!({"userids": [4_000_000_123u32, 0]})).ok();
    assert_eq!(users, json!({"users": [{"userid": 0, "name": "root"}]}));
    let many: Vec<u32> = (0..257).collect();
    let words = site.read("job-list.users", json!({"userids": many})).refused(400, 22);
    assert_eq!(words, "job-list.users: more than 256 users are refused");
}

#[test]
fn a_job_is_submitted_followed_and_listed() {
    let site = Site::with_token("");
    let waitable = 4;
    let request = json!({"jobspec": jobspec(&["echo", "hello"]), "flags": waitable});
    let id = site.call("job-ingest.submit", request).ok()["id"].clone();
    let ended = site.call("job-manager.wait", json!({ "id": id })).ok();
    assert_eq!((&ended["id"], &ended["success"]), (&id, &json!(true)));

    let mut stream = site.stream("job-info.eventlog-watch", &json!({"id": id, "path": "eventlog"}));
    let mut names = Vec::new();
    let end = loop {
        let (event, data) = stream.next().unwrap();
        if event == "end" {
            break data;
        }
        let entry: Value = serde_json::from_str(data["event"].as_str().unwrap()).unwrap();
        names.push(entry["name"].as_str().unwrap().to_owned());
    };
    assert_eq!(end["errno"], ENODATA);
    assert_eq!(names.first().map(String::as_str), Some("submit"));
    assert_eq!(names.last().map(String::as_str), Some("clean"));

    let listed = site.call("job-list.list", json!({"max_entries": 0})).ok();
    assert_eq!(listed["jobs"][0]["id"], id);
    assert_eq!(listed["jobs"].as_array().unwrap().len(), 1);
    // The token gives the rights of the owner, who submitted the job.
    let text = serde_json::to_string(&listed).unwrap();
    assert_eq!(site.m.jobtap_args(&["jobs", "-ano", "{id.dec}"]).ok(), id.to_string(), "{text}");
}

#[test]
fn a_client_is_told_how_many_jobs_wait_for_what() {
    let site = Site::open("");
    let held = site.m.submit("--urgency=hold true");
    let after = site.m.submit(&format!("--cc=1-2 --dependency=afterok:{held} true"));
    let after = after.lines().last().unwrap();
    site.m.wait(after, "dependency-add");
    let ids = json!({"ids": [held, after, 7]});
    let told = site.read("job-list.waits", ids).ok();
    assert_eq!(told["counts"], json!({"dependency": 2, "held": 1}));
    let words: Vec<&Value> =
        told["jobs"].as_array().unwrap().iter().map(|job| &job["why"]).collect();
    assert_eq!(words, ["held", "dependency"]);
    let many: Vec<u32> = (0..257).collect();
    let words = site.read("job-list.waits", json!({"ids": many})).refused(400, EINVAL);
    assert_eq!(words, "job-list.waits: more than 256 ids are refused");
}

#[test]
fn a_list_of_many_jobs_is_whole() {
    let site = Site::open("");
    site.m.jobtap("submit --cc=1-1500 --quiet --urgency=hold true").ok();
    let listed = site.read("job-list.list", json!({"max_entries": 0})).ok();
    assert_eq!(listed["jobs"].as_array().unwrap().len(), 1500);
}

#[test]
fn a_client_without_the_token_reads_and_changes_nothing() {
    for site in [Site::open(""), Site::with_token("")] {
        let id = site.m.submit("--urgency=hold true");
        let jobs = site.read("job-list.list", json!({})).ok();
        assert_eq!(jobs["jobs"].as_array().unwrap().len(), 1);
        assert_eq!(site.read("job-list.job-stats", json!({})).ok()["job_states"]["sched"], 1);
        // For this client, as for a guest, the job belongs to another user.
        site.read("job-manager.why", json!({ "id": id })).refused(403, EPERM);
        site.read("job-info.lookup", json!({"id": id, "keys": ["eventlog"]})).refused(403, EPERM);
        assert_eq!(site.read("config.get", json!({})).ok().get("http"), None);

        for (topic, payload) in [
            ("job-ingest.submit", json!({"jobspec": jobspec(&["true"])})),
            ("job-manager.raise", json!({"id": id, "type": "cancel", "severity": 0})),
            ("job-manager.kill", json!({"id": id, "signum": 9})),
            ("job-manager.urgency", json!({"id": id, "urgency": 16})),
            ("job-manager.update", json!({"id": id, "updates": {}})),
            ("job-manager.memo", json!({"id": id, "memo": {}})),
            ("job-manager.limits.why", json!(1)),
            ("job-manager.some-plugin.change", json!({})),
            ("job-exec.stdin", json!({"id": id})),
            ("resource.drain", json!({"targets": "0"})),
            ("config.load", json!({})),
            ("shutdown.start", json!({})),
            ("log.dmesg", json!({})),
        ] {
            let words = site.read(topic, payload).refused(403, EPERM);
            assert!(words.starts_with(topic) && words.contains("token"), "{words}");
        }
        assert_eq!(site.m.field(&id, "state"), "SCHED");
    }
}

#[test]
fn private_mode_hides_jobs_from_a_client_without_the_token() {
    let site = Site::with_token("[access]\nprivate-mode = true\n");
    let id = site.m.submit("--urgency=hold true");
    assert_eq!(site.read("job-list.list", json!({})).ok(), json!({"jobs": []}));
    site.read("job-list.job-stats", json!({})).refused(403, EPERM);
    site.read("job-manager.why", json!({ "id": id })).refused(403, EPERM);
    let waits = |told: Value| (told["counts"].clone(), told["jobs"].as_array().unwrap().len());
    let ids = json!({ "ids": [id] });
    assert_eq!(waits(site.read("job-list.waits", ids.clone()).ok()), (json!({}), 0));
    assert_eq!(waits(site.call("job-list.waits", ids).ok()), (json!({"held": 1}), 1));
    assert_eq!(site.call("job-list.list", json!({})).ok()["jobs"].as_array().unwrap().len(), 1);
    site.call("job-list.job-stats", json!({})).ok();
}

/// Returns the names of the jobs in the next response that has any.
fn names(stream: &mut Stream) -> Vec<String> {
    loop {
        let (event, data) = stream.next().unwrap();
        assert_eq!(event, "message", "{data}");
        let jobs = data["jobs"].as_array().unwrap();
        if !jobs.is_empty() {
            return jobs.iter().map(|job| job["name"].as_str().unwrap().to_owned()).collect();
        }
    }
}

#[test]
fn changes_of_jobs_are_streamed_also_without_the_token() {
    let site = Site::open("");
    site.m.submit("--job-name=before --urgency=hold true");
    let mut stream = site.stream_as(None, "job-list.changes", &json!({}));
    // The first response is empty, since a client requests the list after it.
    assert_eq!(stream.next().unwrap(), ("message".to_owned(), json!({"jobs": []})));
    let id = site.m.submit("--job-name=later --urgency=hold true");
    assert_eq!(names(&mut stream), ["later"]);
    site.m.jobtap(&format!("cancel {id}")).ok();
    let inactive = 64;
    let job = loop {
        let (_, data) = stream.next().unwrap();
        let job = data["jobs"][0].clone();
        if job["state"] == inactive {
            break job;
        }
    };
    let listed = site.read("job-list.list-id", json!({ "id": id })).ok();
    assert_eq!(job, listed["job"]);
}

#[test]
fn changes_of_jobs_end_when_private_mode_begins() {
    let site = Site::with_token("");
    let mut reader = site.stream_as(None, "job-list.changes", &json!({}));
    let mut owner = site.stream("job-list.changes", &json!({}));
    for stream in [&mut reader, &mut owner] {
        assert_eq!(stream.next().unwrap().1, json!({"jobs": []}));
    }
    site.call("config.load", json!({"access": {"private-mode": true}})).ok();
    site.m.submit("--job-name=secret --urgency=hold true");
    let (event, data) = reader.next().unwrap();
    assert_eq!((event.as_str(), &data["errno"]), ("end", &json!(EPERM)), "{data}");
    assert_eq!(names(&mut owner), ["secret"]);
    site.read("job-list.changes", json!({})).refused(403, EPERM);
}

#[test]
fn another_token_is_refused_also_for_what_needs_none() {
    for site in [Site::open(""), Site::with_token("")] {
        for given in ["Bearer 0123456789abcdef", "Bearer ", "Basic OnB3"] {
            let header = format!("Authorization: {given}");
            let reply = site.send(&[&header], "job-list.list", "{}");
            reply.refused(401, EACCES);
            assert!(reply.header.contains("www-authenticate: bearer"), "{reply:?}");
        }
    }
}

#[test]
fn changes_with_the_token_are_in_the_log_of_changes() {
    let site = Site::with_token("");
    site.call("resource.drain", json!({"targets": "0", "reason": "by http"})).ok();
    let recorded = site.m.jobtap("audit").ok();
    assert!(recorded.contains("drain") && recorded.contains("by http"), "{recorded}");
}

#[test]
fn refusals_are_json_with_a_number_and_words() {
    let site = Site::with_token("");
    let missing = json!({"id": 7});
    site.call("job-list.list-id", missing.clone()).refused(404, ENOENT);
    site.call("no.such", json!({})).refused(404, ENOSYS);
    site.read("no.such", json!({})).refused(404, ENOSYS);
    let words = site.call("job-manager.raise", missing).refused(400, EPROTO);
    assert_eq!(words, "job-manager.raise: 'type' is missing");
    site.send(&[], "job-list.list", "{").refused(400, EPROTO);
    site.ask("POST /v1/job-list.list", &["Content-Type: text/plain"], "{}").refused(415, EPROTO);
    site.get("/v1/job-list.list").refused(405, EINVAL);
    site.ask("OPTIONS /v1/job-list.list", &[], "").refused(405, EINVAL);
    site.get("/no/such").refused(404, ENOENT);
    // No content is an empty request.
    assert_eq!(site.ask("POST /v1/job-list.list", &[], "").ok(), json!({"jobs": []}));
}

#[test]
fn requests_of_other_sites_are_refused() {
    let site = Site::with_token("hosts = [\"jobs.site\"]\n");
    let own = format!("Origin: http://{}", site.address);
    site.send(&[&own], "job-list.list", "{}").ok();
    site.send(&["Host: jobs.site"], "job-list.list", "{}").ok();
    for line in [
        "Origin: http://evil.example",
        "Origin: null",
        "Sec-Fetch-Site: cross-site",
        "Host: evil.example",
        "Host: evil.example:80",
    ] {
        let reply = site.send(&[line], "job-list.list", "{}");
        reply.refused(403, EACCES);
        assert!(!reply.header.contains("access-control-"), "{reply:?}");
    }
    let reply = site.read("job-list.list", json!({}));
    for header in
        ["x-content-type-options: nosniff", "cache-control: no-store", "default-src 'none'"]
    {
        assert!(reply.header.contains(header), "{reply:?}");
    }
}

#[test]
fn a_working_manager_is_healthy() {
    let site = Site::open("");
    assert_eq!(site.get("/healthz").ok(), json!({"status": "ok"}));
}

#[test]
fn a_manager_that_restarts_listens_again() {
    let site = Site::with_token("");
    let mut stream = site.stream("job-manager.events-journal", &json!({}));
    stream.next().unwrap();
    site.call("job-manager.restart", json!({})).ok();
    // The stream ends, and does not keep the manager from starting again.
    while stream.next().is_some() {}
    let uri = || site.m.jobtap("getattr http-uri");
    jobtap_tests::until("the manager restarts", || uri().code == 0);
    let address = uri().ok().trim_start_matches("http://").trim_end_matches('/').to_owned();
    let socket = std::net::TcpStream::connect(&address).unwrap();
    let host = format!("Host: {address}");
    assert_eq!(crate::client::ask(socket, "GET /healthz", &[&host], "").status, 200);
}

#[test]
fn a_content_that_is_no_object_is_refused() {
    let site = Site::open("");
    for content in ["[]", "null", "1", "\"x\"", " [1]", "true"] {
        let words = site.send(&[], "job-list.job-stats", content).refused(400, 71);
        assert!(words.contains("the content of a request is a JSON object"), "{content}: {words}");
    }
    for content in ["", "{}", " { } \n"] {
        site.send(&[], "job-list.job-stats", content).ok();
    }
}

#[test]
fn a_stream_of_events_has_only_those_that_were_asked_for() {
    let site = Site::with_token("");
    let id = site.m.submit("--urgency=hold true");
    let number: u64 = site.m.field(&id, "id.dec").parse().unwrap();
    let watch = |only: &[&str]| json!({"id": number, "path": "eventlog", "only": only});
    let names = |mut stream: Stream| {
        let events =
            std::iter::from_fn(move || stream.next()).take_while(|(event, _)| event != "end");
        let entry = |text: &Value| serde_json::from_str::<Value>(text.as_str().unwrap()).unwrap();
        let name =
            |(_, data): (String, Value)| entry(&data["event"])["name"].as_str().unwrap().to_owned();
        events.map(name).collect::<Vec<_>>()
    };
    let wanted = ["exception", "clean", "validate"];
    // One has both what is stored and what comes later, the other only what is stored.
    let mut early = site.stream("job-info.eventlog-watch", &watch(&wanted));
    assert!(early.next().unwrap().1["event"].as_str().unwrap().contains("validate"));
    site.m.jobtap(&format!("cancel {id}")).ok();
    assert_eq!(names(early), ["exception", "clean"]);
    let late = site.stream("job-info.eventlog-watch", &watch(&wanted));
    assert_eq!(names(late), ["validate", "exception", "clean"]);
    let many = watch(&["clean"; 33]).to_string();
    let refused = site.send(&["Accept: text/event-stream"], "job-info.eventlog-watch", &many);
    assert_eq!(refused.refused(400, EINVAL), "only: at most 32 names of events");
}
