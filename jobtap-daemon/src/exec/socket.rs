//! The socket between manager and shepherd, in the manager's state directory.
//!
//! The manager creates the socket and passes it, listening, to the shepherd as its standard input: the
//! manager can connect at once, and the shepherd is reachable from the moment it starts. The file stays
//! when the shepherd is gone. Connections to it are refused then, and the next manager replaces it.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};

use crate::files::{Dir, Kind};

/// Name of the socket in the state directory.
const SOCKET: &str = "shepherd.sock";

/// The socket's path through the handle of the directory, because a socket address holds 107 bytes and
/// the path of a state directory may be longer.
fn by_descriptor(dir: &Dir) -> PathBuf {
    dir.through_handle().join(SOCKET)
}

/// Whether the socket exists. Any other kind of file in its place was not made by a manager and is an
/// error.
fn is_there(dir: &Dir) -> io::Result<bool> {
    match dir.kind(SOCKET)? {
        None => Ok(false),
        Some(Kind::Socket) => Ok(true),
        Some(kind) => {
            let path = dir.path().join(SOCKET);
            let text = format!("{} is {}: remove it", path.display(), kind.described());
            Err(io::Error::new(io::ErrorKind::InvalidInput, text))
        }
    }
}

/// Connects to the shepherd of `state_dir`; returns `None` if none listens. Neither a write on the
/// connection nor the connecting itself waits longer than `patience`.
pub(super) fn connect(state_dir: &Path, patience: Duration) -> io::Result<Option<UnixStream>> {
    let dir = Dir::open(state_dir)?;
    if !is_there(&dir)? {
        return Ok(None);
    }
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    // Set before connecting: `connect` blocks without limit when the backlog of a stopped shepherd is full.
    set_socket_timeout(&socket, Timeout::Send, Some(patience))?;
    let address = SocketAddrUnix::new(by_descriptor(&dir))?;
    match rustix::net::connect(&socket, &address) {
        Ok(()) => Ok(Some(check_peer(UnixStream::from(socket))?)),
        Err(Errno::NOENT | Errno::CONNREFUSED) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

/// Creates the socket of `state_dir`, replacing an old one. To be called only when [`connect`] found no
/// shepherd.
pub(super) fn listen(state_dir: &Path) -> io::Result<UnixListener> {
    let dir = Dir::open(state_dir)?;
    if is_there(&dir)? {
        dir.remove_file(SOCKET)?;
    }
    UnixListener::bind(by_descriptor(&dir))
}

/// Whether a shepherd listens on the socket of `dir`, without waiting for it to respond. Returns `true`
/// if that can't be determined, since callers remove directories that no shepherd uses.
pub(crate) fn listens(dir: &Dir) -> bool {
    let connected = || {
        if !is_there(dir)? {
            return Err(Errno::NOENT.into());
        }
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        let address = SocketAddrUnix::new(by_descriptor(dir))?;
        rustix::net::connect(&socket, &address).map_err(io::Error::from)
    };
    match connected() {
        Ok(()) => true,
        Err(error) => {
            !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
        }
    }
}

/// Whether the other end of a connection is a process of this process's user.
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
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(10);

    #[test]
    fn paths_longer_than_a_socket_address_work() {
        let base = tempfile::tempdir().unwrap();
        let dir = base.path().join("d".repeat(120)).join("e".repeat(120));
        std::fs::create_dir_all(&dir).unwrap();
        assert!(connect(&dir, PATIENCE).unwrap().is_none());
        let listener = listen(&dir).unwrap();
        assert!(connect(&dir, PATIENCE).unwrap().is_some());
        drop(listener);
        assert!(connect(&dir, PATIENCE).unwrap().is_none(), "the listener is closed");
        let _listener = listen(&dir).unwrap();
        assert!(connect(&dir, PATIENCE).unwrap().is_some(), "the old socket is replaced");
    }

    #[test]
    fn connecting_times_out_if_no_connection_is_accepted() {
        let dir = tempfile::tempdir().unwrap();
        let listener = listen(dir.path()).unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        let attempt = || connect(dir.path(), Duration::from_millis(20));
        let _first = attempt().unwrap();
        assert_eq!(attempt().unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn only_a_socket_is_connected_to_or_replaced() {
        let base = tempfile::tempdir().unwrap();
        let (mine, other) = (base.path().join("mine"), base.path().join("other"));
        std::fs::create_dir(&mine).unwrap();
        std::fs::create_dir(&other).unwrap();
        let _listener = listen(&other).unwrap();
        std::os::unix::fs::symlink(other.join(SOCKET), mine.join(SOCKET)).unwrap();
        for refused in [connect(&mine, PATIENCE).err(), listen(&mine).err()] {
            let text = refused.unwrap().to_string();
            assert!(text.ends_with("shepherd.sock is a symbolic link: remove it"), "{text}");
        }
        std::fs::remove_file(mine.join(SOCKET)).unwrap();
        std::fs::write(mine.join(SOCKET), "precious").unwrap();
        assert!(connect(&mine, PATIENCE).is_err() && listen(&mine).is_err());
        assert!(mine.join(SOCKET).exists());
    }

    #[test]
    fn a_shepherd_that_does_not_respond_still_listens() {
        let base = tempfile::tempdir().unwrap();
        let dir = Dir::open(base.path()).unwrap();
        assert!(!listens(&dir));
        let listener = listen(base.path()).unwrap();
        // More connections than the backlog takes, and none of them is accepted.
        let waiting = (0..200).map(|_| listens(&dir)).filter(|listens| *listens).count();
        assert_eq!(waiting, 200);
        drop(listener);
        assert!(!listens(&dir));
    }
}
