//! A model of a disk with a file system: its current content, and the content after a power loss.
//!
//! It guarantees less than the file systems that managers run on. Until a file is synced, each sector written
//! to it may or may not be there, and its length may be any that it had. Until a directory is synced, it has
//! the first few of the changes of its entries, or none; syncing a file does not sync its directory entry.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Component, Path};

const SECTOR: u64 = 512;

/// Pseudo-random numbers, which are the same for the same seed.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(super) fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }

    fn coin(&mut self) -> bool {
        self.next() & 1 == 1
    }
}

/// The content of a file. Ranges that were never written read as zeros and take no memory.
#[derive(Clone, Default)]
struct Content {
    sectors: BTreeMap<u64, [u8; SECTOR as usize]>,
    length: u64,
}

impl Content {
    fn write(&mut self, offset: u64, data: &[u8], mut keep: impl FnMut() -> bool) {
        let mut at = offset;
        let mut rest = data;
        while !rest.is_empty() {
            let within = (at % SECTOR) as usize;
            let (part, more) = rest.split_at(rest.len().min(SECTOR as usize - within));
            if keep() {
                let sector = self.sectors.entry(at / SECTOR).or_insert([0; SECTOR as usize]);
                sector[within..within + part.len()].copy_from_slice(part);
                self.length = self.length.max(at + part.len() as u64);
            }
            at += part.len() as u64;
            rest = more;
        }
    }

    fn set_length(&mut self, length: u64) {
        if length < self.length {
            self.sectors.retain(|index, _| index * SECTOR < length);
            if let Some(last) = self.sectors.get_mut(&(length / SECTOR)) {
                last[(length % SECTOR) as usize..].fill(0);
            }
        }
        self.length = length;
    }

    fn read(&self, offset: u64, size: u64) -> Vec<u8> {
        let end = (offset + size).min(self.length);
        let byte = |at: u64| {
            self.sectors.get(&(at / SECTOR)).map_or(0, |sector| sector[(at % SECTOR) as usize])
        };
        (offset..end).map(byte).collect()
    }

    fn save(&self, path: &Path) {
        let file = File::create(path).unwrap();
        file.set_len(self.length).unwrap();
        for (index, sector) in &self.sectors {
            let start = index * SECTOR;
            let size = (self.length.saturating_sub(start)).min(SECTOR) as usize;
            file.write_all_at(&sector[..size], start).unwrap();
        }
    }
}

#[derive(Clone)]
enum Change {
    Write { offset: u64, data: Vec<u8> },
    Length(u64),
}

#[derive(Clone, Default)]
struct FileNode {
    now: Content,
    durable: Content,
    /// Changes since `durable`, and the number of changes before them.
    pending: Vec<Change>,
    before: usize,
}

#[derive(Clone)]
enum EntryChange {
    Put(String, Node),
    Remove(String),
    Move(String, String),
}

type Entries = BTreeMap<String, Node>;

#[derive(Clone, Default)]
struct DirNode {
    now: Entries,
    durable: Entries,
    pending: Vec<EntryChange>,
    before: usize,
}

/// A file or directory, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Node {
    File(usize),
    Dir(usize),
}

/// The state of a node when a sync of it began.
#[derive(Clone, Copy)]
pub(super) struct SyncMark(Node, usize);

/// The disk.
#[derive(Clone)]
pub(super) struct Disk {
    files: Vec<FileNode>,
    dirs: Vec<DirNode>,
    /// The number of syncs so far.
    syncs: usize,
}

/// The directory that everything is in.
pub(super) const ROOT: Node = Node::Dir(0);

impl Disk {
    /// A disk with the durable content of `dir`.
    pub(super) fn load(dir: &Path) -> Self {
        let mut disk = Self { files: Vec::new(), dirs: vec![DirNode::default()], syncs: 0 };
        disk.load_into(dir, 0);
        disk
    }

    fn load_into(&mut self, path: &Path, dir: usize) {
        for entry in fs::read_dir(path).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            let node = if entry.path().is_dir() {
                self.dirs.push(DirNode::default());
                let index = self.dirs.len() - 1;
                self.load_into(&entry.path(), index);
                Node::Dir(index)
            } else {
                let bytes = fs::read(entry.path()).unwrap();
                let mut content = Content::default();
                for (index, sector) in bytes.chunks(SECTOR as usize).enumerate() {
                    if sector.iter().any(|byte| *byte != 0) {
                        content.write(index as u64 * SECTOR, sector, || true);
                    }
                }
                content.length = bytes.len() as u64;
                let file =
                    FileNode { now: content.clone(), durable: content, ..FileNode::default() };
                self.files.push(file);
                Node::File(self.files.len() - 1)
            };
            self.dirs[dir].now.insert(name.clone(), node);
            self.dirs[dir].durable.insert(name, node);
        }
    }

    /// The number of syncs so far.
    pub(super) fn syncs(&self) -> usize {
        self.syncs
    }

    /// The node at `path` below `from`.
    pub(super) fn find(&self, from: Node, path: &Path) -> Option<Node> {
        path.components().try_fold(from, |at, component| match (at, component) {
            (Node::Dir(_), Component::CurDir) => Some(at),
            (Node::Dir(dir), Component::Normal(name)) => {
                self.dirs[dir].now.get(name.to_str()?).copied()
            }
            _ => None,
        })
    }

    fn parent(&self, from: Node, path: &Path) -> Option<(usize, String)> {
        let name = path.file_name()?.to_str()?.to_owned();
        match self.find(from, path.parent()?)? {
            Node::Dir(dir) => Some((dir, name)),
            Node::File(_) => None,
        }
    }

    fn change(&mut self, dir: usize, change: EntryChange) {
        let dir = &mut self.dirs[dir];
        apply(&mut dir.now, &change);
        dir.pending.push(change);
    }

    pub(super) fn create_file(&mut self, from: Node, path: &Path) -> Node {
        let (dir, name) = self.parent(from, path).unwrap();
        self.files.push(FileNode::default());
        let node = Node::File(self.files.len() - 1);
        self.change(dir, EntryChange::Put(name, node));
        node
    }

    pub(super) fn create_dir(&mut self, from: Node, path: &Path) {
        let (dir, name) = self.parent(from, path).unwrap();
        self.dirs.push(DirNode::default());
        let node = Node::Dir(self.dirs.len() - 1);
        self.change(dir, EntryChange::Put(name, node));
    }

    pub(super) fn remove(&mut self, from: Node, path: &Path) {
        let (dir, name) = self.parent(from, path).unwrap();
        self.change(dir, EntryChange::Remove(name));
    }

    pub(super) fn rename(&mut self, from: (Node, &Path), to: (Node, &Path)) {
        let (from_dir, from_name) = self.parent(from.0, from.1).unwrap();
        let (to_dir, to_name) = self.parent(to.0, to.1).unwrap();
        if from_dir == to_dir {
            self.change(from_dir, EntryChange::Move(from_name, to_name));
        } else {
            let node = self.dirs[from_dir].now[&from_name];
            self.change(to_dir, EntryChange::Put(to_name, node));
            self.change(from_dir, EntryChange::Remove(from_name));
        }
    }

    fn file(&mut self, node: Node) -> &mut FileNode {
        match node {
            Node::File(index) => &mut self.files[index],
            Node::Dir(_) => panic!("a directory is no file"),
        }
    }

    pub(super) fn length(&mut self, node: Node) -> u64 {
        self.file(node).now.length
    }

    pub(super) fn read(&mut self, node: Node, offset: u64, size: u64) -> Vec<u8> {
        self.file(node).now.read(offset, size)
    }

    pub(super) fn write(&mut self, node: Node, offset: u64, data: Vec<u8>) {
        let file = self.file(node);
        file.now.write(offset, &data, || true);
        file.pending.push(Change::Write { offset, data });
    }

    pub(super) fn set_length(&mut self, node: Node, length: u64) {
        let file = self.file(node);
        file.now.set_length(length);
        file.pending.push(Change::Length(length));
    }

    /// To be called when a sync begins: later changes may not be synced by it.
    pub(super) fn sync_begins(&self, node: Node) -> SyncMark {
        let reached = match node {
            Node::File(index) => self.files[index].before + self.files[index].pending.len(),
            Node::Dir(index) => self.dirs[index].before + self.dirs[index].pending.len(),
        };
        SyncMark(node, reached)
    }

    /// To be called when that sync has succeeded.
    pub(super) fn sync_ends(&mut self, SyncMark(node, reached): SyncMark) {
        self.syncs += 1;
        match node {
            Node::File(index) => {
                let file = &mut self.files[index];
                let count = reached.saturating_sub(file.before);
                for change in file.pending.drain(..count) {
                    match change {
                        Change::Write { offset, data } => {
                            file.durable.write(offset, &data, || true)
                        }
                        Change::Length(length) => file.durable.set_length(length),
                    }
                }
                file.before += count;
            }
            Node::Dir(index) => {
                let dir = &mut self.dirs[index];
                let count = reached.saturating_sub(dir.before);
                for change in dir.pending.drain(..count) {
                    apply(&mut dir.durable, &change);
                }
                dir.before += count;
            }
        }
    }

    /// Writes to the empty directory `to` one possible content after a power loss now.
    pub(super) fn lose_power(&self, to: &Path, random: &mut Random) {
        self.save(0, to, random);
    }

    fn save(&self, dir: usize, to: &Path, random: &mut Random) {
        let dir = &self.dirs[dir];
        let mut entries = dir.durable.clone();
        let kept = random.below(dir.pending.len() + 1);
        for change in &dir.pending[..kept] {
            apply(&mut entries, change);
        }
        for (name, node) in entries {
            let path = to.join(name);
            match node {
                Node::Dir(index) => {
                    fs::create_dir(&path).unwrap();
                    self.save(index, &path, random);
                }
                Node::File(index) => self.files[index].survivor(random).save(&path),
            }
        }
    }
}

impl FileNode {
    fn survivor(&self, random: &mut Random) -> Content {
        let mut content = self.durable.clone();
        // Nothing, everything, the first few changes with the next one torn, or any sectors.
        let (whole, torn) = match random.below(4) {
            0 => (0, 0),
            1 => (self.pending.len(), 0),
            2 => (random.below(self.pending.len() + 1), 1),
            _ => (0, self.pending.len()),
        };
        for (index, change) in self.pending.iter().enumerate().take(whole + torn) {
            match change {
                Change::Write { offset, data } => {
                    content.write(*offset, data, || index < whole || random.coin());
                }
                Change::Length(length) => content.set_length(*length),
            }
        }
        if whole + torn > 0 && random.coin() {
            content.length = content.length.max(self.now.length);
        }
        content
    }
}

fn apply(entries: &mut Entries, change: &EntryChange) {
    match change {
        EntryChange::Put(name, node) => drop(entries.insert(name.clone(), *node)),
        EntryChange::Remove(name) => drop(entries.remove(name)),
        EntryChange::Move(from, to) => {
            if let Some(node) = entries.remove(from) {
                entries.insert(to.clone(), node);
            }
        }
    }
}
