//! Decides who a request is from, and which requests of browsers are refused.
//!
//! A page of another site can make a browser send requests here. It cannot read the responses, since none of them
//! allows another origin, and it has no token. But it can make its own name stand for this server's address, and then
//! the browser takes this server for that site: so requests to unknown names are refused.

use std::net::IpAddr;

use hyper::header::{AUTHORIZATION, HOST, HeaderMap, HeaderName, ORIGIN};
use hyper::{Request, StatusCode, Uri};

use super::responses::Refusal;
use super::token::Token;
use crate::daemon::config::http::{HttpSettings, Listen};
use crate::rpc::RpcError;
use crate::rpc::errno::{EACCES, EMSGSIZE, EPROTO};

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Who a client is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Client {
    /// It has the token.
    Owner,
    /// It has none, and reads what a guest may see.
    Reader,
}

/// What is needed to decide about a request.
pub(super) struct Guard {
    token: Option<Token>,
    hosts: Vec<String>,
    over_tcp: bool,
    /// Whether clients without a token may read.
    readers: bool,
}

impl Guard {
    pub(super) fn new(settings: &HttpSettings, token: Option<Token>) -> Self {
        Self {
            token,
            hosts: settings.hosts.clone(),
            over_tcp: matches!(settings.listen, Listen::Tcp(_)),
            readers: settings.listen.is_local(),
        }
    }

    /// Refuses requests to an unknown host, and those made by a page of another site.
    pub(super) fn check_origin(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Refusal> {
        let host = match uri.authority() {
            Some(authority) => Some(authority.as_str()),
            None => text(headers, &HOST),
        };
        if self.over_tcp {
            let name = host.map(name_of).unwrap_or_default();
            if !self.knows(name) {
                let words = format!(
                    "this server is not called {name:?}: use its address, or add the name to http.hosts"
                );
                return Err(forbidden(words));
            }
        }
        if headers.contains_key(ORIGIN) {
            let origin = text(headers, &ORIGIN).and_then(|origin| origin.split_once("://"));
            if origin.map(|(_, of)| of) != host {
                return Err(forbidden("requests of pages of another site are refused"));
            }
        }
        Ok(())
    }

    /// Refuses requests that a page of another site has made according to the browser (`Sec-Fetch-Site`).
    pub(super) fn check_site(headers: &HeaderMap) -> Result<(), Refusal> {
        match text(headers, &FETCH_SITE) {
            None | Some("same-origin" | "none")
                if headers.get_all(FETCH_SITE).iter().count() < 2 =>
            {
                Ok(())
            }
            _ => Err(forbidden("requests of pages of another site are refused")),
        }
    }

    /// Returns who the client is.
    pub(super) fn client(&self, headers: &HeaderMap) -> Result<Client, Refusal> {
        let Some(given) = headers.get(AUTHORIZATION) else {
            return match self.readers {
                true => Ok(Client::Reader),
                false => Err(unknown("this address needs a token: Authorization: Bearer TOKEN")),
            };
        };
        let Some(token) = &self.token else {
            return Err(unknown("no token is configured (http.token-file)"));
        };
        match bearer(given.as_bytes()) {
            Some(given) if token.is(given) => Ok(Client::Owner),
            Some(_) => Err(unknown("the token is another one")),
            None => Err(unknown("a token is given as: Authorization: Bearer TOKEN")),
        }
    }

    /// Whether this is a name of this host. An address can't be another site's name.
    fn knows(&self, name: &str) -> bool {
        let bare = name.trim_start_matches('[').trim_end_matches(']');
        bare.parse::<IpAddr>().is_ok()
            || name.eq_ignore_ascii_case("localhost")
            || self.hosts.iter().any(|host| name.eq_ignore_ascii_case(host))
    }
}

/// Refuses a header of more than `most` bytes. The parser refuses only what doesn't fit into its buffer, which has room
/// for more.
pub(super) fn check_size<T>(request: &Request<T>, most: usize) -> Result<(), Refusal> {
    // "GET PATH HTTP/1.1" and "NAME: VALUE", each with the end of its line; an empty line at the end.
    let path = request.uri().path_and_query().map_or(0, |path| path.as_str().len());
    let first = request.method().as_str().len() + path + " HTTP/1.1\r\n".len() + 1;
    let lines = request.headers().iter();
    let lines = lines.map(|(name, value)| name.as_str().len() + value.len() + ": \r\n".len());
    if first + lines.sum::<usize>() + "\r\n".len() <= most {
        return Ok(());
    }
    let error = RpcError::new(EMSGSIZE, format!("the header has more than {most} bytes"));
    Err(Refusal::with(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, error))
}

/// A host without its port.
fn name_of(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

/// Returns the only value of a header; `None` if there is none, there are several, or it is not text.
fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().ok(),
        _ => None,
    }
}

fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked("Bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then(|| token.trim_ascii())
}

fn forbidden(words: impl Into<String>) -> Refusal {
    Refusal::with(StatusCode::FORBIDDEN, RpcError::new(EACCES, words))
}

fn unknown(words: &str) -> Refusal {
    Refusal::with(StatusCode::UNAUTHORIZED, RpcError::new(EACCES, words))
}

/// The refusal of a request whose content can't be read.
pub(super) fn malformed(words: impl Into<String>) -> Refusal {
    Refusal::with(StatusCode::BAD_REQUEST, RpcError::new(EPROTO, words))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const TOKEN: &str = "0123456789abcdef";

    fn guard(listen: &str, token: bool) -> Guard {
        let http = json!({"listen": listen, "token-file": "/x", "hosts": ["jobs.site"]});
        let settings = HttpSettings::read(&json!({ "http": http })).unwrap().unwrap();
        Guard::new(&settings, token.then(|| Token::new(TOKEN)))
    }

    fn headers(all: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in all {
            headers.append(HeaderName::from_static(name), value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn only_addresses_and_known_names_are_this_host() {
        let guard = guard("127.0.0.1:80", false);
        let root = Uri::from_static("/");
        let allowed = |host| guard.check_origin(&root, &headers(&[("host", host)])).is_ok();
        for host in
            ["127.0.0.1:80", "localhost:9", "LOCALHOST", "[::1]:80", "jobs.site", "10.0.0.1"]
        {
            assert!(allowed(host), "{host}");
        }
        for host in
            ["evil.example", "evil.example:80", "localhost.evil.example", "", "127.0.0.1.nip.io"]
        {
            assert!(!allowed(host), "{host}");
        }
        assert!(guard.check_origin(&root, &headers(&[])).is_err());
        let two = [("host", "localhost"), ("host", "evil.example")];
        assert!(guard.check_origin(&root, &headers(&two)).is_err());
        let absolute = Uri::from_static("http://evil.example/");
        assert!(guard.check_origin(&absolute, &headers(&[("host", "localhost")])).is_err());
    }

    #[test]
    fn requests_of_pages_of_another_site_are_refused() {
        let guard = guard("127.0.0.1:80", false);
        let allowed = |origin| {
            let headers = headers(&[("host", "localhost:80"), ("origin", origin)]);
            guard.check_origin(&Uri::from_static("/"), &headers).is_ok()
        };
        assert!(allowed("http://localhost:80"));
        for origin in ["http://evil.example", "null", "http://localhost:81", "http://127.0.0.1:80"]
        {
            assert!(!allowed(origin), "{origin}");
        }
        let site = |site| Guard::check_site(&headers(&[("sec-fetch-site", site)])).is_ok();
        assert!(site("same-origin") && site("none") && Guard::check_site(&headers(&[])).is_ok());
        assert!(!site("cross-site") && !site("same-site"));
    }

    #[test]
    fn only_the_token_makes_a_client_the_owner() {
        let with = |guard: &Guard, given: &[&str]| {
            let given: Vec<_> = given.iter().map(|given| ("authorization", *given)).collect();
            guard.client(&headers(&given)).map_err(|refusal| refusal.status())
        };
        let bearer = format!("Bearer {TOKEN}");
        let local = guard("127.0.0.1:80", true);
        assert_eq!(with(&local, &[&bearer]), Ok(Client::Owner));
        assert_eq!(with(&local, &[]), Ok(Client::Reader));
        for wrong in ["", "Bearer", "Bearer x", TOKEN, &format!("Basic {TOKEN}")] {
            assert_eq!(with(&local, &[wrong]), Err(StatusCode::UNAUTHORIZED), "{wrong}");
        }
        let without = guard("127.0.0.1:80", false);
        assert_eq!(with(&without, &[&bearer]), Err(StatusCode::UNAUTHORIZED));
        let remote = guard("0.0.0.0:80", true);
        assert_eq!(with(&remote, &[&bearer]), Ok(Client::Owner));
        assert_eq!(with(&remote, &[]), Err(StatusCode::UNAUTHORIZED));
    }
}
