//! The socket between manager and shepherd, in the manager's state directory.
//!
//! The manager makes the socket and passes it, listening, to the shepherd as its standard input:
//! the manager can connect at once, and no moment exists at which the shepherd runs but can't be
//! reached. The file stays when the shepherd is gone; nobody listens then, and the next manager
//! replaces it.

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

/// The socket's path by way of an open directory, because a socket address holds 107 bytes and the
/// path of a state directory may be longer.
fn by_descriptor(dir: &Dir) -> PathBuf {
    dir.through_handle().join(SOCKET)
}

/// Whether the socket's file is there. A link or a file in its place was not made by a manager.
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

/// Connects to the shepherd of `state_dir`; `None` when there is none. No write on the connection
/// waits longer than `patience`, and the connecting itself doesn't either: it would wait for ever for
/// a shepherd that is stopped once enough connections wait there.
pub(super) fn connect(state_dir: &Path, patience: Duration) -> io::Result<Option<UnixStream>> {
    let dir = Dir::open(state_dir)?;
    if !is_there(&dir)? {
        return Ok(None);
    }
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
    let dir = Dir::open(state_dir)?;
    if is_there(&dir)? {
        dir.remove_file(SOCKET)?;
    }
    UnixListener::bind(by_descriptor(&dir))
}

/// Whether a shepherd listens on the socket of `dir`, without waiting for it to answer. In doubt one does.
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
    fn a_shepherd_that_does_not_answer_listens_all_the_same() {
        let base = tempfile::tempdir().unwrap();
        let dir = Dir::open(base.path()).unwrap();
        assert!(!listens(&dir));
        let listener = listen(base.path()).unwrap();
        // More than wait for it at once: nobody accepts them.
        let waiting = (0..200).map(|_| listens(&dir)).filter(|listens| *listens).count();
        assert_eq!(waiting, 200);
        drop(listener);
        assert!(!listens(&dir));
    }
}
