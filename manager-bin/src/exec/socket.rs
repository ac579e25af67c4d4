//! The socket between manager and shepherd, in the manager's state directory.
//!
//! The manager makes the socket and passes it, listening, to the shepherd as its standard input:
//! the manager can connect at once, and no moment exists at which the shepherd runs but can't be
//! reached. The file stays when the shepherd is gone; nobody listens then, and the next manager
//! replaces it.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};

/// Name of the socket in the state directory.
const SOCKET: &str = "shepherd.sock";

/// The socket's path by way of an open directory, because a socket address holds 107 bytes and the
/// path of a state directory may be longer.
fn by_descriptor(dir: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}/{SOCKET}", dir.as_raw_fd()))
}

/// Connects to the shepherd of `state_dir`; `None` when there is none. No write on the connection
/// waits longer than `patience`, and the connecting itself doesn't either: it would wait for ever for
/// a shepherd that is stopped once enough connections wait there.
pub(super) fn connect(state_dir: &Path, patience: Duration) -> io::Result<Option<UnixStream>> {
    let dir = File::open(state_dir)?;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    set_socket_timeout(&socket, Timeout::Send, Some(patience))?;
    let address = SocketAddrUnix::new(by_descriptor(&dir))?;
    match rustix::net::connect(&socket, &address) {
        Ok(()) => Ok(Some(check_peer(UnixStream::from(socket))?)),
        Err(Errno::NOENT | Errno::CONNREFUSED) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

/// Makes the socket of `state_dir` anew. To be called only when [`connect`] found no shepherd.
pub(super) fn listen(state_dir: &Path) -> io::Result<UnixListener> {
    let dir = File::open(state_dir)?;
    let path = by_descriptor(&dir);
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => UnixListener::bind(path),
    }
}

/// Whether the other end of a connection is a process of this process' user.
pub(super) fn is_same_user(stream: &impl AsFd) -> io::Result<bool> {
    let peer = rustix::net::sockopt::socket_peercred(stream)?;
    Ok(peer.uid == rustix::process::geteuid())
}

fn check_peer(stream: UnixStream) -> io::Result<UnixStream> {
    if is_same_user(&stream)? {
        Ok(stream)
    } else {
        Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "another user's process listens on the shepherd's socket",
        ))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(10);

    #[test]
    fn a_long_path_is_no_obstacle() {
        let base = tempfile::tempdir().unwrap();
        let dir = base.path().join("d".repeat(120)).join("e".repeat(120));
        std::fs::create_dir_all(&dir).unwrap();
        assert!(connect(&dir, PATIENCE).unwrap().is_none());
        let listener = listen(&dir).unwrap();
        assert!(connect(&dir, PATIENCE).unwrap().is_some());
        drop(listener);
        assert!(connect(&dir, PATIENCE).unwrap().is_none(), "nobody listens any more");
        let _listener = listen(&dir).unwrap();
        assert!(connect(&dir, PATIENCE).unwrap().is_some(), "the old socket is replaced");
    }

    #[test]
    fn connecting_does_not_wait_for_ever_where_nobody_accepts() {
        let dir = tempfile::tempdir().unwrap();
        let listener = listen(dir.path()).unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        let attempt = || connect(dir.path(), Duration::from_millis(20));
        let _first = attempt().unwrap();
        assert_eq!(attempt().unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }
}
