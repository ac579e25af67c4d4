//! The page at `/`: jobs, nodes, queues and plugins in a browser, live.
//!
//! It is part of the binary, needs no network and no build step, and has nothing secret in it: what it shows, its
//! script asks for as any other client does, within the same rights. So it is served without a token also where
//! everything else needs one.
//!
//! Names of jobs are text of users that may be hostile. The script makes elements only as text, and the policy below
//! makes the browser refuse everything else: scripts and styles that are not these files, text that is parsed as
//! HTML (`require-trusted-types-for`), and any other server.

use hyper::header::{CONTENT_SECURITY_POLICY, HeaderValue};
use hyper::{Response, StatusCode};

use super::responses::{Content, response, whole};

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
                      require-trusted-types-for 'script'; trusted-types 'none'";

/// What stands in the document for the value of [`token`].
const TOKEN: &str = "{token}";

/// The path, the type and the text of each file.
const FILES: [(&str, &str, &str); 15] = [
    ("/", HTML, include_str!("index.html")),
    ("/page/page.css", CSS, include_str!("page.css")),
    ("/page/icon.svg", SVG, include_str!("icon.svg")),
    ("/page/main.js", SCRIPT, include_str!("main.js")),
    ("/page/api.js", SCRIPT, include_str!("api.js")),
    ("/page/state.js", SCRIPT, include_str!("state.js")),
    ("/page/users.js", SCRIPT, include_str!("users.js")),
    ("/page/text.js", SCRIPT, include_str!("text.js")),
    ("/page/dom.js", SCRIPT, include_str!("dom.js")),
    ("/page/rows.js", SCRIPT, include_str!("rows.js")),
    ("/page/jobs.js", SCRIPT, include_str!("jobs.js")),
    ("/page/job.js", SCRIPT, include_str!("job.js")),
    ("/page/nodes.js", SCRIPT, include_str!("nodes.js")),
    ("/page/queues.js", SCRIPT, include_str!("queues.js")),
    ("/page/plugins.js", SCRIPT, include_str!("plugins.js")),
];

/// The response with the file at `path`, if the page has such a file. With `has_token` a token is configured, and the
/// page asks the person for it.
pub(super) fn file(path: &str, has_token: bool) -> Option<Response<Content>> {
    let (_, kind, text) = FILES.iter().find(|(file, ..)| *file == path)?;
    let text = match *kind {
        HTML => text.replace(TOKEN, token(has_token)),
        _ => (*text).to_owned(),
    };
    let mut response = response(StatusCode::OK, kind, whole(text));
    response.headers_mut().insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    Some(response)
}

/// What the document tells its script about the token.
fn token(has_token: bool) -> &'static str {
    if has_token { "configured" } else { "none" }
}
