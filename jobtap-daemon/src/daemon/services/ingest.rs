//! `job-ingest.submit`: the checks of a submission before the engine and its plugins see it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use jobtap_core::engine::{Cred, Request, Submission};
use jobtap_core::job::{Flags, Uid, Urgency};
use jobtap_core::jobspec::{Jobspec, JobspecError};

use super::handle::{Context, Handle, PendingResponse};
use crate::daemon::config::jobspec_size as size;
use crate::daemon::request_parts::RequestParts;
use crate::rpc::errno::{EINVAL, ENOSPC, EPERM};
use crate::rpc::message::Body;
use crate::rpc::service::Service;
use crate::rpc::services::ingest::{SentJobspec, Submit, SubmitArray};
use crate::rpc::{RpcError, payload};
use crate::store::request;

impl Handle for Submit {
    fn handle(self, context: &Context<'_>) -> Result<PendingResponse, RpcError> {
        let most = context.parts.configuration.max_jobspec.load(Ordering::Relaxed);
        let submission = submission(self, context.cred, most)?;
        check_user(context.parts.owner, context.cred, &submission.jobspec)?;
        check_space(context.parts)?;
        check_limits(context.parts, &submission)?;
        Ok(PendingResponse::FromEngine(Request::Submit(Box::new(submission))))
    }

    /// Takes the jobspec from beside the payload, where our clients write it, or from the payload.
    fn decode(topic: &str, body: Body) -> Result<Self, RpcError> {
        let submit = payload::decode(topic, body.json()?)?;
        with_jobspec(topic, submit, body.jobspec)
    }
}

impl Handle for SubmitArray {
    fn handle(self, context: &Context<'_>) -> Result<PendingResponse, RpcError> {
        let Self { submit, elements } = self;
        let most = context.parts.configuration.max_jobspec.load(Ordering::Relaxed);
        let submission = submission(submit, context.cred, most)?;
        check_user(context.parts.owner, context.cred, &submission.jobspec)?;
        check_space(context.parts)?;
        check_limits(context.parts, &submission)?;
        let submission = Submission { elements: Some(Arc::new(elements)), ..submission };
        Ok(PendingResponse::FromEngine(Request::Submit(Box::new(submission))))
    }

    /// Takes the jobspec from beside the payload, or from the payload.
    fn decode(topic: &str, body: Body) -> Result<Self, RpcError> {
        let array: Self = payload::decode(topic, body.json()?)?;
        let submit = with_jobspec(topic, array.submit, body.jobspec)?;
        Ok(Self { submit, ..array })
    }
}

/// A submission with the jobspec that may be beside its payload.
fn with_jobspec(topic: &str, submit: Submit, beside: Option<String>) -> Result<Submit, RpcError> {
    match (beside, &submit.jobspec) {
        (None, _) => Ok(submit),
        (Some(text), None) => Ok(Submit { jobspec: Some(SentJobspec::Text(text)), ..submit }),
        (Some(_), Some(_)) => Err(RpcError::proto(format!("{topic}: 'jobspec' is there twice"))),
    }
}

/// How much spare capacity the text of a jobspec beside the payload should have, so that it is stored without a copy.
pub(in crate::daemon) const JOBSPEC_SPARE: usize = request::HEAD;

/// Refuses jobs of other users if the manager can't run them as these users. Simulated jobs run no process.
fn check_user(owner: Uid, cred: Cred, jobspec: &Jobspec) -> Result<(), RpcError> {
    let can_run = owner == Uid::new(0) || cred.userid == owner;
    if can_run || jobspec.attribute("system.exec.test").is_some() {
        return Ok(());
    }
    let text = format!(
        "this manager runs as user {owner} and can't run jobs of user {}: only a manager that root \
         runs can; start one of your own with `jobtap start`",
        cred.userid
    );
    Err(RpcError::new(EPERM, text))
}

/// Refuses new jobs when the store has only room left to record the running ones.
fn check_space(parts: &RequestParts) -> Result<(), RpcError> {
    let checked = parts.space.check(parts.records.store().as_ref());
    checked.map_err(|error| RpcError::new(ENOSPC, format!("no new jobs are accepted: {error}")))
}

/// Refuses jobs that no host can run.
fn check_limits(parts: &RequestParts, submission: &Submission) -> Result<(), RpcError> {
    let Submission { jobspec, signed, .. } = submission;
    if request::jobspec_in(signed).is_some_and(|text| parts.limits.obviously_fits(jobspec, text)) {
        return Ok(());
    }
    let checked = parts.limits.check(jobspec);
    checked.map_err(|excess| RpcError::new(EINVAL, excess.to_string()))
}

/// Converts the request for the engine: with the jobspec decoded, and signed. A jobspec of more than `most` bytes is
/// refused.
pub(in crate::daemon) fn submission(
    request: Submit,
    cred: Cred,
    most: usize,
) -> Result<Submission, RpcError> {
    let Submit { jobspec, signed, urgency, flags } = request;
    let flags = flags.unwrap_or(0);
    let urgency = urgency.unwrap_or(i64::from(Urgency::DEFAULT.value()));
    if cred.userid == Uid::new(0) && !cred.owner {
        return Err(RpcError::new(EINVAL, "submission of jobs as user root not supported"));
    }
    let (text, signed) = match (signed, jobspec) {
        (Some(signed), _) => {
            size::check(size::in_token(&signed), most)?;
            (unwrap_signed(&signed, cred)?, Some(signed))
        }
        (None, Some(jobspec)) => {
            let text = jobspec.into_text();
            size::check(text.len(), most)?;
            (text, None)
        }
        (None, None) => {
            return Err(RpcError::proto(format!("{}: 'jobspec' is missing", Submit::TOPIC)));
        }
    };
    let unvalidated =
        cred.owner && Flags::try_from(flags).is_ok_and(|flags| flags.contains(Flags::NOVALIDATE));
    let jobspec = Jobspec::parse(&text).map_err(|error| match (&error, unvalidated) {
        (JobspecError::Json(_), _) => RpcError::new(EINVAL, format!("jobspec: {error}")),
        (_, true) => RpcError::new(EINVAL, managers_words(&error)),
        // Flux's ingest service passes on refusals of its validator with this error number.
        (_, false) => RpcError::new(EPERM, error.to_string()),
    })?;
    let signed = signed.unwrap_or_else(|| request::unsigned(cred.userid.as_u32(), text));
    Ok(Submission { jobspec, signed, urgency, flags, elements: None })
}

/// Returns the refusal of a jobspec that was submitted without validation. One that cannot be read is refused
/// nevertheless; malformed dependencies are refused in the words of Flux's job manager, which reads them in this case.
fn managers_words(error: &JobspecError) -> String {
    match error.path().strip_prefix("attributes.system.dependencies") {
        Some("") => "dependencies object must be an array".to_owned(),
        Some(entry) if !error.text().contains("value") => {
            format!("dependency{entry} missing string scheme")
        }
        _ => error.to_string(),
    }
}

fn unwrap_signed(token: &str, cred: Cred) -> Result<String, RpcError> {
    let malformed = || RpcError::new(EINVAL, "malformed signed jobspec");
    let mut parts = token.trim_end().split('.');
    let (Some(header), Some(_), Some(mechanism), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(malformed());
    };
    if mechanism != "none" {
        return Err(RpcError::new(EINVAL, format!("sign mechanism {mechanism} is not supported")));
    }
    if !cred.owner {
        return Err(RpcError::new(EPERM, "only instance owner can use sign-type=none"));
    }
    let header = BASE64_STANDARD.decode(header).map_err(|_| malformed())?;
    let signer = signer(&header).ok_or_else(malformed)?;
    if signer != cred.userid {
        let text = format!("signer={signer} != requestor={}", cred.userid);
        return Err(RpcError::new(EPERM, text));
    }
    request::jobspec_of(token.trim_end()).ok_or_else(malformed)
}

/// The user in a header, a sequence of zero-terminated keys and typed values.
fn signer(header: &[u8]) -> Option<Uid> {
    let mut fields = header.split(|byte| *byte == 0);
    fields.find(|field| *field == b"userid")?;
    let value = std::str::from_utf8(fields.next()?).ok()?;
    value.strip_prefix('i')?.parse().ok().map(Uid::new)
}

#[cfg(test)]
mod tests {
    use jobtap_core::jobspec::JobspecBuilder;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    const OWNER: Cred = Cred { userid: Uid::new(1000), owner: true };
    const GUEST: Cred = Cred { userid: Uid::new(1001), owner: false };

    fn decode(payload: &Value, cred: Cred) -> Result<Submission, RpcError> {
        let request = Submit::decode(Submit::TOPIC, Body::of_payload(payload).unwrap())?;
        submission(request, cred, size::DEFAULT)
    }

    #[test]
    fn a_jobspec_that_is_not_json_is_refused() {
        let error = decode(&json!({"jobspec": "{"}), OWNER).unwrap_err();
        assert!(error.text.starts_with("jobspec: invalid JSON: "), "{}", error.text);
        let error = decode(&json!({}), OWNER).unwrap_err();
        assert_eq!(error.text, "job-ingest.submit: 'jobspec' is missing");
    }

    #[test]
    fn a_submission_is_the_same_however_it_is_written() {
        let jobspec = JobspecBuilder::new(["true"]).to_value();
        let read = |payload: &str, beside: Option<&str>| {
            let (payload, jobspec) = (payload.to_owned(), beside.map(str::to_owned));
            let request = Submit::decode(Submit::TOPIC, Body { payload, jobspec })?;
            let Submission { jobspec, signed, urgency, flags, elements: _ } =
                submission(request, OWNER, size::DEFAULT)?;
            Ok::<_, RpcError>((jobspec.value().to_string(), signed, urgency, flags))
        };
        let text = jobspec.to_string();
        let beside = read("{\"urgency\":3,\"flags\":2}", Some(&text)).unwrap();
        for payload in [
            format!("{{\"jobspec\":{jobspec},\"urgency\":3,\"flags\":2}}"),
            format!("{{ \"urgency\" : 3,\"flags\":2,\"jobspec\": {jobspec} }}"),
            format!("{{\"jobspec\":{},\"urgency\":3,\"flags\":2}}", json!(text)),
        ] {
            assert_eq!(read(&payload, None).unwrap(), beside, "{payload}");
            assert!(read(&payload, Some(&text)).unwrap_err().text.ends_with("is there twice"));
        }
        assert!(read("{}", Some(&text)).is_ok());
        // Two jobspecs are refused, even if one of the keys is written with an escape.
        let two = format!("{{\"jobspec\":{jobspec},\"jobspe\\u0063\":{jobspec}}}");
        let refusal = read(&two, None).unwrap_err();
        assert!(refusal.text.ends_with("'jobspec' occurs twice"), "{}", refusal.text);
        let cut = read(&format!("{{\"jobspec\":{jobspec}"), None).unwrap_err();
        assert!(cut.text.starts_with("malformed message: "), "{}", cut.text);
        assert_eq!(read("{}", Some("{")).unwrap_err().errno, EINVAL);
    }

    #[test]
    fn a_jobspec_over_the_limit_is_refused_in_each_form() {
        let jobspec = json!({"a": "x".repeat(100)});
        let text = jobspec.to_string();
        let signed = Some(request::token_of(1000, &text));
        let of = |jobspec: Value| Submit { jobspec: Some(jobspec.into()), ..Submit::default() };
        for request in [of(jobspec), of(json!(text)), Submit { signed, ..Submit::default() }] {
            let allowed = submission(request.clone(), OWNER, text.len() + 2).unwrap_err();
            assert!(!allowed.text.contains("bytes"), "{}", allowed.text);
            let refused = submission(request, OWNER, 50).unwrap_err();
            assert_eq!(refused.errno, EINVAL);
            let words = "are more than the 50 of ingest.max-jobspec-size";
            assert!(refused.text.ends_with(words), "{}", refused.text);
        }
    }

    #[test]
    fn without_validation_malformed_jobspecs_are_still_refused() {
        let refused = |dependencies: Value, flags: u32| {
            let jobspec = json!({
                "version": 1,
                "resources": [{"type": "slot", "count": 1, "label": "task",
                               "with": [{"type": "core", "count": 1}]}],
                "tasks": [{"command": ["true"], "slot": "task", "count": {"per_slot": 1}}],
                "attributes": {"system": {"duration": 0, "dependencies": dependencies}},
            });
            let error = decode(&json!({ "jobspec": jobspec, "flags": flags }), OWNER).unwrap_err();
            (error.errno, error.text)
        };
        let novalidate = Flags::NOVALIDATE.bits();
        let array = "dependencies object must be an array".to_owned();
        assert_eq!(refused(json!({}), novalidate), (EINVAL, array));
        let scheme = "dependency[1] missing string scheme".to_owned();
        let good = json!({"scheme": "x", "value": ""});
        for bad in [json!(5), json!({"value": ""}), json!({"scheme": 1, "value": ""})] {
            assert_eq!(refused(json!([good, bad]), novalidate), (EINVAL, scheme.clone()));
        }
        let list = "attributes.system.dependencies must be a list".to_owned();
        assert_eq!(refused(json!({}), 0), (EPERM, list));
    }

    #[test]
    fn a_token_of_another_user_is_refused() {
        let token = |uid| json!({"J": request::token_of(uid, "{}")});
        assert_eq!(decode(&token(7), OWNER).unwrap_err().text, "signer=7 != requestor=1000");
        let error = decode(&token(1001), GUEST).unwrap_err();
        assert_eq!(error.text, "only instance owner can use sign-type=none");
        assert_eq!(decode(&json!({"J": "x"}), OWNER).unwrap_err().text, "malformed signed jobspec");
    }

    #[test]
    fn only_a_manager_of_root_takes_real_jobs_of_guests() {
        let jobspec = |system: Value| {
            let text = json!({
                "version": 1,
                "resources": [{"type": "slot", "count": 1, "label": "task",
                               "with": [{"type": "core", "count": 1}]}],
                "tasks": [{"command": ["true"], "slot": "task", "count": {"per_slot": 1}}],
                "attributes": {"system": system},
            });
            Jobspec::parse(&text.to_string()).unwrap()
        };
        let real = jobspec(json!({"duration": 0}));
        let simulated = jobspec(json!({"duration": 0, "exec": {"test": {}}}));
        let root = Uid::new(0);
        for (owner, cred, jobspec) in
            [(root, GUEST, &real), (OWNER.userid, OWNER, &real), (OWNER.userid, GUEST, &simulated)]
        {
            check_user(owner, cred, jobspec).unwrap();
        }
        let refusal = check_user(OWNER.userid, GUEST, &real).unwrap_err();
        assert_eq!(refusal.errno, EPERM);
        let text = "this manager runs as user 1000 and can't run jobs of user 1001: ";
        assert!(refusal.text.starts_with(text), "{}", refusal.text);
    }

    #[test]
    fn root_as_guest_is_refused() {
        let root = Cred { userid: Uid::new(0), owner: false };
        let error = decode(&json!({"jobspec": {}}), root).unwrap_err();
        assert_eq!(error.text, "submission of jobs as user root not supported");
    }

    proptest! {
        #[test]
        fn an_arbitrary_text_is_no_token(token in ".*|[a-zA-Z0-9=]{0,9}\\.[a-zA-Z0-9=]{0,9}\\.none") {
            let error = decode(&json!({"J": token}), OWNER).unwrap_err();
            let malformed = error.text == "malformed signed jobspec";
            prop_assert!(malformed || error.text.starts_with("sign mechanism "), "{}", error.text);
        }
    }
}
