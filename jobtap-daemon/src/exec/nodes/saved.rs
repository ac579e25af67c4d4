//! What a manager needs to be found again by its nodes after `kill -9`: the address at which they look for it, and the
//! identity that they expect. A file of the state directory, which only the manager's user can read.
//!
//! It is there for as long as the instance exists: the nodes of one that has ended in order have ended, too.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::admission::Admission;
use super::identity::Identity;
use super::instance::{Nodes, NodesError};
use super::wire::NodeInfo;
use crate::files::{self, Access, input};

/// The name of the file.
const NAME: &str = "nodes.json";

#[derive(Serialize, Deserialize)]
struct Saved {
    address: SocketAddr,
    identity: String,
    size: u32,
    own: NodeInfo,
    patience: Duration,
    grace: Duration,
    #[serde(default)]
    known: Vec<NodeInfo>,
    end: f64,
    /// The tag and the key of an elastic instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    admission: Option<(String, String)>,
}

/// Where the nodes of a manager that hasn't ended in order may still run its jobs; `None` if there was none, or its
/// allocation is over `now` (UNIX seconds).
pub fn found(state_dir: &Path, now: f64) -> Option<std::path::PathBuf> {
    let path = state_dir.join(NAME);
    let text = input::text(&path);
    let saved = text.as_ref().ok().and_then(|text| serde_json::from_str::<Saved>(text).ok());
    let is_over = saved.is_some_and(|saved| saved.end > 0.0 && saved.end < now);
    let is_there = !matches!(&text, Err(error) if error.kind() == io::ErrorKind::NotFound);
    (is_there && !is_over).then_some(path)
}

/// Writes the file. `end` is when the allocation ends (UNIX seconds, 0: never).
///
/// # Errors
/// It can't be written.
pub fn save(state_dir: &Path, nodes: &Nodes, end: f64) -> io::Result<()> {
    let saved = Saved {
        address: nodes.listener.local_addr()?,
        identity: nodes.identity.encode(),
        size: nodes.size,
        own: nodes.own.clone(),
        patience: nodes.patience,
        grace: nodes.grace,
        known: nodes.known().clone(),
        end,
        admission: nodes.admission.as_ref().map(|admission| {
            let (tag, key) = admission.parts();
            (tag.to_owned(), key.to_owned())
        }),
    };
    files::write_whole(&state_dir.join(NAME), &serde_json::to_vec(&saved)?, Access::Private)
}

/// Listens again where the nodes of a killed manager look for it; `None` if there was no such manager, or its allocation is
/// over `now` (UNIX seconds). Returns the end of the allocation, too.
///
/// # Errors
/// The file is damaged, or the address is taken.
pub fn load(state_dir: &Path, now: f64) -> Result<Option<(Nodes, f64)>, NodesError> {
    let path = state_dir.join(NAME);
    let text = match input::text(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(reason) => return Err(NodesError::Saved { path, reason }),
    };
    let saved: Saved = match serde_json::from_str(&text) {
        Ok(saved) => saved,
        Err(error) => return Err(NodesError::Saved { path, reason: error.into() }),
    };
    let Saved { address, identity, size, own, patience, grace, known, end, admission } = saved;
    if end > 0.0 && end < now {
        // The allocation is over, and its nodes with it.
        remove(state_dir);
        return Ok(None);
    }
    let listener =
        TcpListener::bind(address).map_err(|reason| NodesError::Saved { path, reason })?;
    let identity = Identity::decode(&identity)?;
    let known = known.into();
    let admission = admission.map(|(tag, key)| Admission::saved(tag, key));
    let nodes = Nodes { listener, identity, size, own, patience, grace, known, admission };
    Ok(Some((nodes, end)))
}

/// Removes the file, when the instance ends.
pub fn remove(state_dir: &Path) {
    // An instance of one node has no such file.
    let _ = std::fs::remove_file(state_dir.join(NAME));
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use jobtap_core::resource::Idset;

    use super::*;

    #[test]
    fn a_manager_listens_again_where_its_nodes_look_for_it() {
        let state = tempfile::tempdir().unwrap();
        assert!(load(state.path(), 9.0).unwrap().is_none());
        let own = NodeInfo {
            rank: 0,
            host: "n1".to_owned(),
            cores: Idset::from(0..=1),
            gpus: Idset::new(),
            program: "1.0".to_owned(),
            uri: None,
        };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (patience, grace) = (Duration::from_secs(9), Duration::from_secs(3));
        let identity = Identity::new().unwrap();
        let known = vec![own.clone()].into();
        let own_node = own.clone();
        let admission = Some(Admission::saved("tag".to_owned(), "key".to_owned()));
        let own_node = own_node;
        let size = 4;
        let nodes =
            Nodes { listener, identity, size, own: own_node, patience, grace, known, admission };
        save(state.path(), &nodes, 99.0).unwrap();
        let mode = state.path().join(NAME).metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let taken = load(state.path(), 9.0).unwrap_err().to_string();
        assert!(taken.contains("nodes.json"), "{taken}");
        let identity = nodes.identity.encode();
        drop(nodes);
        let (again, end) = load(state.path(), 9.0).unwrap().unwrap();
        assert_eq!((again.listener.local_addr().unwrap(), again.size, end), (address, 4, 99.0));
        assert_eq!((again.own.clone(), again.identity.encode()), (own, identity));
        assert_eq!(again.admission.unwrap().parts(), ("tag", "key"));
        drop(again.listener);
        assert!(found(state.path(), 9.0).is_some() && found(state.path(), 100.0).is_none());
        assert!(load(state.path(), 100.0).unwrap().is_none(), "the allocation is over");
        std::fs::write(state.path().join(NAME), "{").unwrap();
        assert!(load(state.path(), 9.0).is_err());
        remove(state.path());
        assert!(load(state.path(), 9.0).unwrap().is_none());
    }
}
