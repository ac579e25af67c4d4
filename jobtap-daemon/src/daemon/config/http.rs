//! `[http]`: where the manager listens for HTTP, and what a client needs to be the owner.

use std::io::{self, Read};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use jobtap_core::settings::{SettingError, setting};
use rustix::fs::OFlags;
use serde_json::Value;

const LISTEN: &str = "http.listen";
const TOKEN_FILE: &str = "http.token-file";
const HOSTS: &str = "http.hosts";

/// A token of fewer characters could be guessed.
const SHORTEST_TOKEN: usize = 16;
/// At most this many bytes of the file are read.
const LONGEST_TOKEN: u64 = 4096;

/// Why the manager can't listen for HTTP.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// A value of a wrong type.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// The path of the token's file is relative.
    #[error("{TOKEN_FILE}: {} is not an absolute path", .0.display())]
    RelativeTokenFile(PathBuf),
    /// Other hosts can reach the address, and there is no token.
    #[error("{LISTEN}: other hosts can reach {0}, so {TOKEN_FILE} must name a file with a token")]
    NoToken(Listen),
    /// The path of the socket is relative.
    #[error("{LISTEN}: {0:?}: the path of the socket must be absolute")]
    RelativeSocket(String),
    /// Neither an address nor a socket.
    #[error("{LISTEN}: {0:?} must be ADDRESS:PORT, such as \"127.0.0.1:8380\", or \"unix:PATH\"")]
    Address(String),
    /// The token can't be used.
    #[error("{TOKEN_FILE}: {}: {fault}", file.display())]
    Token {
        /// The file with the token.
        file: PathBuf,
        /// What is wrong with it.
        fault: TokenFault,
    },
    /// The system refuses the address.
    #[error("{LISTEN}: can't listen at {listen}: {reason}")]
    Listen {
        /// The address.
        listen: Listen,
        /// The error of the system.
        reason: io::Error,
    },
}

/// What is wrong with the file of the token.
#[derive(Debug, thiserror::Error)]
pub enum TokenFault {
    /// It can't be read.
    #[error(transparent)]
    Read(#[from] io::Error),
    /// It is a directory or a device, for example.
    #[error("it is no regular file")]
    NotRegular,
    /// Another user could change it.
    #[error("it belongs to user {owner}, not to the manager's user {user}")]
    Owner {
        /// The file's user.
        owner: u32,
        /// The manager's user.
        user: u32,
    },
    /// Other users have access to it, by this mode.
    #[error("other users have access to it (mode {0:o}): chmod 600")]
    Mode(u32),
    /// Its text is too short, or has spaces.
    #[error("it must have a token of {SHORTEST_TOKEN} or more ASCII characters without spaces")]
    NoToken,
}

/// The settings of a manager that listens for HTTP.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::daemon) struct HttpSettings {
    pub(in crate::daemon) listen: Listen,
    /// The file that has the owner's token.
    token_file: Option<PathBuf>,
    /// The names by which clients call this host, besides `localhost`.
    pub(in crate::daemon) hosts: Vec<String>,
}

/// Where the manager listens.
#[derive(Clone, Debug, PartialEq)]
pub enum Listen {
    /// At an address.
    Tcp(SocketAddr),
    /// At a socket of this host.
    Unix(PathBuf),
}

impl std::fmt::Display for Listen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "http://{address}/"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl HttpSettings {
    /// Reads `config`, the whole configuration; `None` if the manager does not listen for HTTP.
    ///
    /// # Errors
    /// Values that cannot be used, with their key.
    pub(in crate::daemon) fn read(config: &Value) -> Result<Option<Self>, HttpError> {
        let listen: Option<String> = setting(config, LISTEN)?;
        let token_file: Option<PathBuf> = setting(config, TOKEN_FILE)?;
        let hosts: Vec<String> = setting(config, HOSTS)?.unwrap_or_default();
        let Some(listen) = listen else { return Ok(None) };
        let listen = Listen::read(&listen)?;
        if let Some(file) = token_file.as_ref().filter(|file| !file.is_absolute()) {
            return Err(HttpError::RelativeTokenFile(file.clone()));
        }
        if !listen.is_local() && token_file.is_none() {
            return Err(HttpError::NoToken(listen));
        }
        let hosts = hosts.into_iter().map(|host| host.to_ascii_lowercase()).collect();
        Ok(Some(Self { listen, token_file, hosts }))
    }

    /// Reads the token; `None` where none is configured.
    ///
    /// # Errors
    /// The file cannot be read, others could read it, or it has no token.
    pub(in crate::daemon) fn token(&self) -> Result<Option<String>, HttpError> {
        let Some(file) = &self.token_file else { return Ok(None) };
        let fault = |fault| HttpError::Token { file: file.clone(), fault };
        read_secret(file).map_err(fault).map(Some)
    }
}

impl Listen {
    fn read(text: &str) -> Result<Self, HttpError> {
        if let Some(path) = text.strip_prefix("unix:") {
            let path = PathBuf::from(path);
            return match path.is_absolute() {
                true => Ok(Self::Unix(path)),
                false => Err(HttpError::RelativeSocket(text.to_owned())),
            };
        }
        text.parse().map(Self::Tcp).map_err(|_| HttpError::Address(text.to_owned()))
    }

    /// Whether only this host's users can connect.
    pub(in crate::daemon) fn is_local(&self) -> bool {
        match self {
            Self::Tcp(address) => match address.ip() {
                IpAddr::V6(ip) => ip.to_canonical().is_loopback(),
                IpAddr::V4(ip) => ip.is_loopback(),
            },
            Self::Unix(_) => true,
        }
    }
}

/// Reads the token from a file that only the manager's user can read.
fn read_secret(file: &Path) -> Result<String, TokenFault> {
    // A FIFO must not hold up the start.
    let nonblocking = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    let opened = std::fs::OpenOptions::new().read(true).custom_flags(nonblocking).open(file)?;
    let meta = opened.metadata()?;
    if !meta.is_file() {
        return Err(TokenFault::NotRegular);
    }
    let user = rustix::process::geteuid().as_raw();
    if meta.uid() != user {
        return Err(TokenFault::Owner { owner: meta.uid(), user });
    }
    if meta.mode() & 0o077 != 0 {
        return Err(TokenFault::Mode(meta.mode() & 0o777));
    }
    let mut text = String::new();
    opened.take(LONGEST_TOKEN).read_to_string(&mut text)?;
    let token = text.trim();
    if token.len() < SHORTEST_TOKEN || !token.chars().all(|c| c.is_ascii_graphic()) {
        return Err(TokenFault::NoToken);
    }
    Ok(token.to_owned())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use serde_json::json;

    use super::*;

    fn read(http: &Value) -> Result<Option<HttpSettings>, HttpError> {
        HttpSettings::read(&json!({ "http": http }))
    }

    #[test]
    fn a_manager_listens_only_where_it_is_told_to() {
        assert_eq!(HttpSettings::read(&json!({})).unwrap(), None);
        assert_eq!(read(&json!({"token-file": "/x"})).unwrap(), None);
        assert!(read(&json!({"listen": "127.0.0.1:0"})).unwrap().is_some());
        assert!(read(&json!({"listen": "[::1]:80"})).unwrap().is_some());
        assert!(read(&json!({"listen": "unix:/run/jobtap/http"})).unwrap().is_some());
    }

    #[test]
    fn an_address_for_other_hosts_needs_a_token() {
        for listen in ["0.0.0.0:80", "[::]:80", "192.0.2.1:80", "[::ffff:192.0.2.1]:80"] {
            let refused = read(&json!({"listen": listen})).unwrap_err().to_string();
            assert!(refused.contains("must name a file with a token"), "{refused}");
            let with_token = json!({"listen": listen, "token-file": "/etc/token"});
            assert!(read(&with_token).unwrap().is_some());
        }
    }

    #[test]
    fn a_value_that_cannot_be_used_is_named_by_its_key() {
        for (http, key) in [
            (json!({"listen": 80}), LISTEN),
            (json!({"listen": "localhost"}), LISTEN),
            (json!({"listen": "unix:here"}), LISTEN),
            (json!({"listen": "127.0.0.1:80", "token-file": "here"}), TOKEN_FILE),
            (json!({"listen": "127.0.0.1:80", "hosts": "x"}), HOSTS),
        ] {
            let refused = read(&http).unwrap_err().to_string();
            assert!(refused.starts_with(key), "{refused}");
        }
    }

    #[test]
    fn a_token_is_read_only_from_a_file_of_the_owner_alone() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("token");
        let settings =
            read(&json!({"listen": "127.0.0.1:0", "token-file": file})).unwrap().unwrap();
        let with = |text: &str, mode| {
            std::fs::write(&file, text).unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
            settings.token()
        };
        let token = "0123456789abcdef";
        assert_eq!(with(&format!("{token}\n"), 0o600).unwrap().as_deref(), Some(token));
        for (text, mode, says) in [
            (token, 0o640, "mode 640"),
            (token, 0o604, "mode 604"),
            ("short", 0o600, "16 or more"),
            ("0123456789 abcdef", 0o600, "without spaces"),
        ] {
            let refused = with(text, mode).err().unwrap().to_string();
            assert!(refused.starts_with(TOKEN_FILE) && refused.contains(says), "{refused}");
        }
        std::fs::remove_file(&file).unwrap();
        assert!(settings.token().is_err());
    }
}
