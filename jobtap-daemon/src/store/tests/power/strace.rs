//! Records the file operations of a process below one directory with strace, and replays them on a
//! [`Disk`].

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::disk::{Disk, Node, ROOT, SyncMark};

/// The system calls that change files, and those that show which file a descriptor refers to.
const CALLS: &str = "open,openat,creat,close,dup,dup2,dup3,fcntl,lseek,write,pwrite64,writev,\
                     pwritev,ftruncate,fallocate,fsync,fdatasync,rename,renameat,renameat2,unlink,\
                     unlinkat,mkdir,mkdirat,rmdir,link,linkat,copy_file_range,sendfile";

/// Whether strace is installed and may trace.
pub(super) fn works() -> bool {
    let traced = Command::new("strace").args(["-f", "-qq", "-o", "/dev/null", "true"]).output();
    traced.is_ok_and(|output| output.status.success())
}

/// `strace` with its options; the program and its arguments are to be added.
pub(super) fn command(output: &Path) -> Command {
    let mut command = Command::new("strace");
    // No string is shortened, and all bytes are hexadecimal.
    command.args(["-f", "-qq", "-xx", "-s", "16777216", "-e"]);
    command.arg(format!("trace={CALLS}")).arg("-o").arg(output).arg("--");
    command
}

/// A replayed step: a write of the process to its standard output, or any other.
pub(super) enum Event {
    Printed(String),
    Other,
}

/// The open file of a descriptor.
#[derive(Clone, Copy)]
struct Open {
    node: Node,
    append: bool,
    description: usize,
}

/// The replay of a record.
pub(super) struct Player {
    root: PathBuf,
    lines: std::vec::IntoIter<String>,
    pub(super) disk: Disk,
    descriptors: HashMap<i64, Open>,
    /// The offset of each open file.
    places: Vec<u64>,
    /// The call that each thread has begun, and for a sync the state that it will make durable.
    begun: HashMap<String, (String, Option<SyncMark>)>,
}

impl Player {
    /// Replays the record `trace` of a process that worked in `root`, on `disk`.
    pub(super) fn new(root: &Path, trace: &Path, disk: Disk) -> Self {
        let text = fs::read_to_string(trace).unwrap();
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        Self {
            root: root.to_owned(),
            lines: lines.into_iter(),
            disk,
            descriptors: HashMap::new(),
            places: Vec::new(),
            begun: HashMap::new(),
        }
    }

    /// The number of steps left.
    pub(super) fn left(&self) -> usize {
        self.lines.len()
    }

    /// Replays a step; returns `None` at the end.
    pub(super) fn step(&mut self) -> Option<Event> {
        let line = self.lines.next()?;
        let (thread, call) = line.split_once(' ').unwrap();
        let call = call.trim_start();
        if let Some(beginning) = call.strip_suffix(" <unfinished ...>") {
            let mark = self.sync_mark(beginning);
            if let Some(descriptor) = beginning.strip_prefix("close(") {
                // Handled when the call begins: another thread may get the descriptor number before the
                // end of this call is recorded.
                self.descriptors.remove(&descriptor.parse().unwrap());
            }
            self.begun.insert(thread.to_owned(), (beginning.to_owned(), mark));
            return Some(Event::Other);
        }
        if call.starts_with("<... ") {
            let (_, end) = call.split_once(" resumed>").unwrap();
            let (beginning, mark) = self.begun.remove(thread).unwrap();
            if beginning.starts_with("close(") {
                return Some(Event::Other);
            }
            return Some(self.call(&format!("{beginning}{end}"), mark));
        }
        if call.starts_with("+++") || call.starts_with("---") {
            return Some(Event::Other);
        }
        let mark = self.sync_mark(call);
        Some(self.call(call, mark))
    }

    fn sync_mark(&self, call: &str) -> Option<SyncMark> {
        let rest = call.strip_prefix("fsync(").or_else(|| call.strip_prefix("fdatasync("))?;
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        let open = self.descriptors.get(&digits.parse().ok()?)?;
        Some(self.disk.sync_begins(open.node))
    }

    fn call(&mut self, line: &str, mark: Option<SyncMark>) -> Event {
        let (call, result) = line.rsplit_once(" = ").unwrap();
        let result = result.split(' ').next().unwrap_or_default();
        // A call that didn't return before the end of the process, or that failed, changed nothing.
        let Ok(result) = result.parse::<i64>() else { return Event::Other };
        if result < 0 {
            return Event::Other;
        }
        let (name, arguments) = call.split_once('(').unwrap();
        let arguments = arguments.trim_end().strip_suffix(')').unwrap();
        let arguments: Vec<&str> = arguments.split(", ").collect();
        let number = |index: usize| arguments[index].parse::<i64>().unwrap();
        match name {
            // Files of C libraries, which are outside of the directory.
            "open" | "creat" => assert!(self.place("AT_FDCWD", arguments[0]).is_none(), "{line}"),
            "openat" => self.open(&arguments, result),
            "close" => drop(self.descriptors.remove(&number(0))),
            "dup" | "dup2" | "dup3" => self.duplicate(number(0), result),
            "fcntl" if arguments[1].starts_with("F_DUPFD") => self.duplicate(number(0), result),
            "fcntl" => {}
            "lseek" => {
                if let Some(open) = self.descriptors.get(&number(0)) {
                    self.places[open.description] = result as u64;
                }
            }
            "write" | "writev" | "pwrite64" | "pwritev" => {
                let data = strings(call, result as usize);
                if number(0) == 1 {
                    return Event::Printed(String::from_utf8_lossy(&data).into_owned());
                }
                let offset = name.starts_with('p').then(|| number(arguments.len() - 1) as u64);
                self.write(number(0), offset, data);
            }
            "ftruncate" => {
                if let Some(open) = self.descriptors.get(&number(0)) {
                    self.disk.set_length(open.node, number(1) as u64);
                }
            }
            "fsync" | "fdatasync" => {
                if let Some(mark) = mark {
                    self.disk.sync_ends(mark);
                }
            }
            "rename" => self.rename(("AT_FDCWD", arguments[0]), ("AT_FDCWD", arguments[1])),
            "renameat" | "renameat2" => {
                self.rename((arguments[0], arguments[1]), (arguments[2], arguments[3]));
            }
            "unlink" | "rmdir" => self.remove("AT_FDCWD", arguments[0]),
            "unlinkat" => self.remove(arguments[0], arguments[1]),
            "mkdir" => self.create_dir("AT_FDCWD", arguments[0]),
            "mkdirat" => self.create_dir(arguments[0], arguments[1]),
            "copy_file_range" => {
                let (from, to) = (number(0), number(2));
                self.copy(from, to, result as u64);
            }
            _ => panic!("not expected of the store: {line}"),
        }
        Event::Other
    }

    /// The node of a path on the disk; `None` if it isn't below the directory.
    fn place(&self, at: &str, path: &str) -> Option<(Node, PathBuf)> {
        let path = PathBuf::from(String::from_utf8(strings(path, usize::MAX)).unwrap());
        if path.is_absolute() {
            return Some((ROOT, path.strip_prefix(&self.root).ok()?.to_owned()));
        }
        let open = self.descriptors.get(&at.parse().ok()?)?;
        Some((open.node, path))
    }

    fn open(&mut self, arguments: &[&str], descriptor: i64) {
        // Closed without being recorded, as standard descriptors are at the start.
        self.descriptors.remove(&descriptor);
        let Some((from, path)) = self.place(arguments[0], arguments[1]) else { return };
        let flags: Vec<&str> = arguments[2].split('|').collect();
        let node = match self.disk.find(from, &path) {
            Some(node) => node,
            None if flags.contains(&"O_CREAT") => self.disk.create_file(from, &path),
            None => panic!("the disk has no {}", path.display()),
        };
        if flags.contains(&"O_TRUNC") && self.disk.length(node) > 0 {
            self.disk.set_length(node, 0);
        }
        self.places.push(0);
        let description = self.places.len() - 1;
        let append = flags.contains(&"O_APPEND");
        self.descriptors.insert(descriptor, Open { node, append, description });
    }

    fn duplicate(&mut self, from: i64, to: i64) {
        match self.descriptors.get(&from).copied() {
            Some(open) => drop(self.descriptors.insert(to, open)),
            None => drop(self.descriptors.remove(&to)),
        }
    }

    fn write(&mut self, descriptor: i64, offset: Option<u64>, data: Vec<u8>) {
        let Some(open) = self.descriptors.get(&descriptor).copied() else { return };
        let at = match offset {
            Some(offset) => offset,
            None if open.append => self.disk.length(open.node),
            None => self.places[open.description],
        };
        if offset.is_none() {
            self.places[open.description] = at + data.len() as u64;
        }
        self.disk.write(open.node, at, data);
    }

    fn copy(&mut self, from: i64, to: i64, size: u64) {
        let (Some(from), Some(to)) =
            (self.descriptors.get(&from).copied(), self.descriptors.get(&to).copied())
        else {
            return;
        };
        let data = self.disk.read(from.node, self.places[from.description], size);
        self.places[from.description] += size;
        let at = self.places[to.description];
        self.places[to.description] += size;
        self.disk.write(to.node, at, data);
    }

    fn rename(&mut self, from: (&str, &str), to: (&str, &str)) {
        if let (Some(from), Some(to)) = (self.place(from.0, from.1), self.place(to.0, to.1)) {
            self.disk.rename((from.0, &from.1), (to.0, &to.1));
        }
    }

    fn remove(&mut self, at: &str, path: &str) {
        if let Some((from, path)) = self.place(at, path) {
            self.disk.remove(from, &path);
        }
    }

    fn create_dir(&mut self, at: &str, path: &str) {
        if let Some((from, path)) = self.place(at, path) {
            self.disk.create_dir(from, &path);
        }
    }
}

/// The bytes of all strings in a line of strace's output, at most `most` of them.
fn strings(text: &str, most: usize) -> Vec<u8> {
    let quoted = text.split('"').skip(1).step_by(2);
    let hex = quoted.flat_map(|string| string.split("\\x").skip(1));
    hex.map(|digits| u8::from_str_radix(digits, 16).unwrap()).take(most).collect()
}
