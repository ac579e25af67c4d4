//! The page at `/`: jobs, nodes, queues and plugins in a browser, live.
//!
//! It is part of the binary, needs no network and no build step, and contains no secrets: its script requests what it
//! shows as any other client does, with the same rights. So it is served without a token even where everything else
//! needs one.
//!
//! Job names are text from users, who may be hostile. The script inserts them only as text, and the policy below makes
//! the browser refuse everything else: scripts and styles that are not these files, text that is parsed as HTML
//! (`require-trusted-types-for`), and any other server.

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

/// The placeholder in the document for the value of [`token`].
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

/// Returns the response with the file at `path`, if the page has such a file. `has_token` says that a token is
/// configured: then the page asks the user for it.
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
