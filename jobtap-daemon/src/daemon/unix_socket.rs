//! Unix sockets of the manager at paths of their own: made for their owner alone, and removed at the end.

use std::path::Path;

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use tokio::net::UnixListener;

use crate::files::{Dir, Kind};

/// Removes the socket that [`listen`] has made.
pub(super) fn remove_socket(path: &Path) {
    let Ok((dir, name)) = Dir::of_file(path) else { return };
    if matches!(dir.kind(&name), Ok(Some(Kind::Socket))) {
        // An error is ignored: the next manager replaces a socket that is left.
        let _ = dir.remove_file(&name);
    }
}

/// Creates a socket that only its owner can connect to. No client can connect before its mode is set.
pub(super) fn listen(path: &Path) -> std::io::Result<UnixListener> {
    let (dir, name) = Dir::of_file(path)?;
    match dir.kind(&name)? {
        None => {}
        Some(Kind::Socket) if std::os::unix::net::UnixStream::connect(path).is_ok() => {
            let text = "another process listens there";
            return Err(std::io::Error::new(std::io::ErrorKind::AddrInUse, text));
        }
        // Removes the socket of a manager that was killed.
        Some(Kind::Socket) => dir.remove_file(&name)?,
        Some(kind) => {
            let text = format!("it is {}: remove it", kind.described());
            return Err(std::io::Error::new(std::io::ErrorKind::AlreadyExists, text));
        }
    }
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    dir.set_mode_of(&name, 0o600)?;
    rustix::net::listen(&socket, 1024)?;
    UnixListener::from_std(std::os::unix::net::UnixListener::from(socket))
}
