//! What clients send over HTTP, for fuzzers.

use std::cell::Cell;
use std::convert::Infallible;

use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::json;

use super::calls::content;
use super::guard::{self, Client, Guard};
use super::responses::{Content, Refusal, json_response};
use super::token::Token;
use super::{HEADER, parser};
use crate::daemon::config::http::HttpSettings;
use crate::daemon::server::shares::Share;
use crate::daemon::services;
use crate::rpc::{MAX_REQUEST, openapi};

/// The owner's token.
const TOKEN: &str = "0123456789abcdef";

/// Serves a connection whose client sends these bytes: guards it, reads the contents of requests, and decodes them by
/// their services. Returns how many were decoded. Must be called in a runtime.
pub async fn http(bytes: &[u8]) -> usize {
    let http = json!({"listen": "127.0.0.1:80", "token-file": "/x", "hosts": ["jobs.site"]});
    let Ok(Some(settings)) = HttpSettings::read(&json!({ "http": http })) else { return 0 };
    let guard = Guard::new(&settings, Some(Token::new(TOKEN)));
    let share = Share::of_owner();
    let decoded = Cell::new(0);
    let service = service_fn(|request| async {
        let response = respond(&guard, &share, request, &decoded).await;
        Ok::<_, Infallible>(response.unwrap_or_else(Refusal::into_response))
    });
    let socket = TokioIo::new(tokio::io::join(bytes, tokio::io::sink()));
    // A client that breaks off is an error.
    let _ = parser().serve_connection(socket, service).await;
    decoded.get()
}

async fn respond(
    guard: &Guard,
    share: &Share,
    request: Request<Incoming>,
    decoded: &Cell<usize>,
) -> Result<Response<Content>, Refusal> {
    guard::check_size(&request, HEADER)?;
    guard.check_origin(request.uri(), request.headers())?;
    Guard::check_site(request.headers())?;
    let client = guard.client(request.headers())?;
    let path = request.uri().path().to_owned();
    let topic = path.strip_prefix(openapi::SERVICES).unwrap_or(&path);
    let most = services::size(topic).most().min(MAX_REQUEST);
    let (body, charge) = content(topic, most, request, share).await?;
    if client == Client::Owner || services::is_for_readers(topic) {
        decoded.set(decoded.get() + usize::from(services::decodes(topic, body)));
    }
    drop(charge);
    Ok(json_response(StatusCode::OK, &json!({})))
}
