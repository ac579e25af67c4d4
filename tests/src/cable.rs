//! The cable between a node and its manager, which a test can cut: a proxy of TCP on the loopback.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// How often a connection looks for what the cable does.
const LOOK: Duration = Duration::from_millis(20);

/// What the cable does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Passes,
    /// Connections end, and new ones end at once.
    Cut,
    /// Connections stay, and nothing comes through.
    Hangs,
}

struct State {
    mode: Mode,
    connections: Vec<TcpStream>,
}

/// A cable. It lives as long as the test's process.
#[derive(Clone)]
pub struct Cable {
    state: Arc<Mutex<State>>,
    /// Where a node connects.
    pub address: SocketAddr,
}

impl Cable {
    /// Lays a cable to a manager.
    ///
    /// # Errors
    /// The system refuses a socket.
    pub fn to(manager: SocketAddr) -> std::io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let address = listener.local_addr()?;
        let state = State { mode: Mode::Passes, connections: Vec::new() };
        let cable = Self { state: Arc::new(Mutex::new(state)), address };
        let of_thread = cable.clone();
        thread::spawn(move || {
            for node in listener.incoming().flatten() {
                // A manager that doesn't listen ends the connection.
                let _ = of_thread.connect(node, manager);
            }
        });
        Ok(cable)
    }

    /// Cuts the cable: all connections end.
    pub fn cut(&self) {
        let mut state = self.lock();
        state.mode = Mode::Cut;
        for stream in state.connections.drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Lets nothing through, while connections stay.
    pub fn hang(&self) {
        self.lock().mode = Mode::Hangs;
    }

    /// Mends the cable. What was sent while it hung comes through.
    pub fn mend(&self) {
        self.lock().mode = Mode::Passes;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn connect(&self, node: TcpStream, manager: SocketAddr) -> std::io::Result<()> {
        if self.lock().mode == Mode::Cut {
            return Ok(());
        }
        let manager = TcpStream::connect(manager)?;
        for (from, to) in [(&node, &manager), (&manager, &node)] {
            let (from, to) = (from.try_clone()?, to.try_clone()?);
            let cable = self.clone();
            thread::spawn(move || {
                let _ = cable.pass(&from, &to);
                let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
            });
        }
        self.lock().connections.extend([node, manager]);
        Ok(())
    }

    fn pass(&self, mut from: &TcpStream, mut to: &TcpStream) -> std::io::Result<()> {
        from.set_read_timeout(Some(LOOK))?;
        let mut bytes = [0; 1 << 16];
        loop {
            if self.lock().mode == Mode::Hangs {
                thread::sleep(LOOK);
                continue;
            }
            match from.read(&mut bytes) {
                Ok(0) => return Ok(()),
                Ok(count) => to.write_all(bytes.get(..count).unwrap_or_default())?,
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(error) => return Err(error),
            }
        }
    }
}
