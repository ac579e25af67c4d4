//! The files of a pack, one for each node: appending is atomic on one host, but not on several that share a file system
//! such as NFS, where two blocks would overwrite each other.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The file to which the node of this rank writes: that of rank 0 has the pack's own name, and the others `NAME.RANK`.
pub fn file_of_node(pack: &Path, rank: u32) -> PathBuf {
    let mut file = pack.as_os_str().to_owned();
    if rank > 0 {
        file.push(format!(".{rank}"));
    }
    file.into()
}

/// The files of a pack that exist, by their ranks; only `pack` itself if there are none, or its directory can't be read.
pub fn files(pack: &Path) -> Vec<PathBuf> {
    let name = pack.file_name().unwrap_or_default();
    let directory = pack.parent().filter(|parent| !parent.as_os_str().is_empty());
    let entries = directory.unwrap_or(Path::new(".")).read_dir().into_iter().flatten().flatten();
    let mut ranks: Vec<u32> =
        entries.filter_map(|entry| rank_of(&entry.file_name(), name)).collect();
    ranks.sort_unstable();
    match ranks.is_empty() {
        true => vec![pack.to_owned()],
        false => ranks.into_iter().map(|rank| file_of_node(pack, rank)).collect(),
    }
}

/// The rank of the node that writes to the file `name` of a pack; `None` if it is none of its files.
fn rank_of(name: &OsStr, pack: &OsStr) -> Option<u32> {
    let rest = name.as_bytes().strip_prefix(pack.as_bytes())?;
    if rest.is_empty() {
        return Some(0);
    }
    let digits = std::str::from_utf8(rest.strip_prefix(b".")?).ok()?;
    let rank: u32 = digits.parse().ok()?;
    (rank > 0 && digits == rank.to_string()).then_some(rank)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pack_has_a_file_for_each_node() {
        let dir = tempfile::tempdir().unwrap();
        let pack = dir.path().join("out");
        assert_eq!(files(&pack), vec![pack.clone()]);
        for rank in [10, 9, 0] {
            std::fs::write(file_of_node(&pack, rank), "").unwrap();
        }
        for other in ["out.0", "out.07", "out.+1", "out.x", "out.1.x", "outer", "my-out"] {
            std::fs::write(dir.path().join(other), "").unwrap();
        }
        let names = ["out", "out.9", "out.10"].map(|name| dir.path().join(name));
        assert_eq!(files(&pack), names);
    }
}
