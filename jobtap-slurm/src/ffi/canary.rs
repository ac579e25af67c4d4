//! Checks that the daemon's structures are laid out as the headers of this build say, before anything is read.
//!
//! A record has a constant near its beginning and the size with which it was allocated, its id finds it, and its name is
//! a text of the daemon's allocator. Between two micro versions of one release, a member before the id has moved all
//! that follows.

use std::ffi::c_void;

use super::layout::{self, Member, find};
use super::symbols;
use crate::installed::Version;
use crate::structure::Mismatch;

const VERSION: Version = layout::VERSION;

/// The constants at the member `magic`.
const JOB_MAGIC: u32 = 0xf0b7_392c;
const DETAILS_MAGIC: u32 = 0x0dea_84e7;
const PARTITION_MAGIC: u32 = 0xaefe_8495;

/// A structure with its layout.
struct Laid {
    name: &'static str,
    layout: &'static [Member],
    at: usize,
}

impl Laid {
    fn wrong(&self, member: &'static str) -> Mismatch {
        Mismatch { structure: self.name, member, version: VERSION }
    }

    /// Reads the bytes of a member; `None` if it isn't in memory.
    fn peek<const N: usize>(&self, member: &str) -> Option<[u8; N]> {
        peek(self.at.checked_add(find(self.layout, member)?.offset)?)
    }

    fn has_magic(&self, magic: u32) -> Result<(), Mismatch> {
        match self.peek("magic").map(u32::from_ne_bytes) {
            Some(found) if found == magic => Ok(()),
            _ => Err(self.wrong("magic")),
        }
    }

    /// Whether the member is null or a text of the daemon's allocator.
    fn has_text(&self, member: &'static str) -> Result<(), Mismatch> {
        let at = self.peek(member).map(usize::from_ne_bytes).ok_or_else(|| self.wrong(member))?;
        let is_text = at == 0 || allocated(at).is_some_and(|size| ends_within(at, size));
        if is_text { Ok(()) } else { Err(self.wrong(member)) }
    }
}

/// Checks slurmctld's record of a job.
///
/// # Safety
/// `record` is slurmctld's, which holds its lock on jobs.
pub(super) unsafe fn check_job(record: *const c_void) -> Result<(), Mismatch> {
    if !can_read() {
        return Ok(());
    }
    let at = record.addr();
    let job = Laid { name: "job_record_t", layout: layout::JOB_RECORD, at };
    if allocated(at) != Some(layout::JOB_RECORD_SIZE) {
        return Err(job.wrong("the end"));
    }
    job.has_magic(JOB_MAGIC)?;
    let id = job.peek("job_id").map(u32::from_ne_bytes).ok_or_else(|| job.wrong("job_id"))?;
    // SAFETY: this is slurmctld's own function with this type, and slurmctld holds its lock on jobs.
    let found = symbols::find_job().map(|find| unsafe { find(id) }.addr());
    if found.is_some_and(|found| found != at) {
        return Err(job.wrong("job_id"));
    }
    job.has_text("name")?;
    let details = job.peek("details").map(usize::from_ne_bytes);
    let details = details.ok_or_else(|| job.wrong("details"))?;
    let details = Laid { name: "job_details_t", layout: layout::JOB_DETAILS, at: details };
    if details.at == 0 { Ok(()) } else { details.has_magic(DETAILS_MAGIC) }
}

/// Checks a partition of slurmctld's.
pub(super) fn check_partition(partition: *const c_void) -> Result<(), Mismatch> {
    if !can_read() {
        return Ok(());
    }
    let at = partition.addr();
    let partition = Laid { name: "part_record_t", layout: layout::PARTITION, at };
    if allocated(at) != Some(layout::PARTITION_SIZE) {
        return Err(partition.wrong("the end"));
    }
    partition.has_magic(PARTITION_MAGIC)?;
    partition.has_text("name")
}

/// The size of what the daemon's allocator has allocated at this address; `None` if it has allocated nothing there.
fn allocated(at: usize) -> Option<usize> {
    const ALLOCATED: usize = 0x42;
    const WORD: usize = size_of::<usize>();
    let is_block = peek(at.checked_sub(2 * WORD)?).map(usize::from_ne_bytes)? == ALLOCATED;
    let size = peek(at.checked_sub(WORD)?).map(usize::from_ne_bytes)?;
    is_block.then_some(size)
}

/// Whether a text ends within this many bytes, of which the first of a long text are looked at.
fn ends_within(at: usize, size: usize) -> bool {
    const LONGEST: usize = 4096;
    let mut bytes = vec![0; size.min(LONGEST)];
    read(at, &mut bytes) && (size > LONGEST || bytes.contains(&0))
}

fn peek<const N: usize>(at: usize) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    read(at, &mut bytes).then_some(bytes)
}

/// Reads memory of this process that may not be there. Returns whether it is.
fn read(at: usize, into: &mut [u8]) -> bool {
    let length = into.len();
    let to = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: length };
    let from = libc::iovec { iov_base: std::ptr::with_exposed_provenance_mut(at), iov_len: length };
    // SAFETY: both lists have one entry, and the kernel writes at most `length` bytes into `into`. It reads the other
    // address itself, and returns an error if nothing is there.
    let read =
        unsafe { libc::process_vm_readv(libc::getpid(), &raw const to, 1, &raw const from, 1, 0) };
    usize::try_from(read).is_ok_and(|read| read == length)
}

/// Whether the kernel lets this process read its own memory in this way. Some containers forbid it.
fn can_read() -> bool {
    static KNOWN: u32 = JOB_MAGIC;
    peek((&raw const KNOWN).expose_provenance()) == Some(JOB_MAGIC.to_ne_bytes())
}
