//! Copies the output of tasks from their pipes to the output log or a file.
//!
//! A stream is read only as fast as its target can be written: a task that writes faster than the disk, or than
//! the reader of a FIFO, blocks on its pipe, and the shepherd's memory stays bounded.

use std::io;
use std::time::Duration;

use jobtap_core::job::JobId;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::super::message::Message;
use super::super::output_stream::Stream;
use super::super::system_error::plain;
use super::ends::{Capture, Target, lock};
use super::lines::LineBuffer;
use super::task_pipe::{JobHelpers, Printed};

/// Captures a stream until its last writer has closed it; then sends [`Message::StreamEnded`].
pub(in crate::exec::shepherd) fn start(
    id: JobId,
    capture: Capture,
    helpers: &JobHelpers,
    inbox: &UnboundedSender<Message>,
) -> io::Result<AbortHandle> {
    let Capture { pipe, target, stream, rank, unbuffered } = capture;
    let pipe = Printed::new(pipe, helpers)?;
    let inbox = inbox.clone();
    let task = tokio::spawn(async move {
        let mut lines = LineBuffer::new(unbuffered);
        let mut loss_reported = false;
        let mut report_loss = |outcome: io::Result<()>| {
            // Once per stream: on a full disk each write fails.
            if let Err(error) = outcome
                && !std::mem::replace(&mut loss_reported, true)
            {
                let note = format!("task {rank}: {} lost: {}", stream.name(), plain(&error));
                let _ = inbox.send(Message::OutputLost { id, note });
            }
        };
        if let Target::File(file, _) = &target {
            report_loss(file.open().await);
        }
        loop {
            let next = pipe.read();
            tokio::pin!(next);
            // What the task has printed is to be seen although it prints nothing more.
            let read = loop {
                let Some(patience) = patience(&target) else { break next.await };
                match timeout(patience, &mut next).await {
                    Ok(read) => break read,
                    Err(_) => report_loss(flush(&target)),
                }
            };
            let Some(read) = read.ok().filter(|read| !read.is_empty()) else { break };
            let rest = write(&target, stream, rank, |piece| lines.push(&read, piece));
            report_loss(finish(rest, &target).await);
            // All jobs share this thread, so one busy writer must not occupy it.
            tokio::task::yield_now().await;
        }
        let rest = end(lines, &target, stream, rank);
        if let Target::Log(_) = &target {
            // The other stream has often ended at the same time; then both ends are written together.
            tokio::task::yield_now().await;
            report_loss(flush(&target));
        }
        report_loss(finish(rest, &target).await);
        let _ = inbox.send(Message::StreamEnded { id });
    });
    Ok(task.abort_handle())
}

/// How long a stream that prints nothing may wait until its target is flushed; `None` for as long as it likes.
fn patience(target: &Target) -> Option<Duration> {
    match target {
        Target::Log(log) => lock(log).patience(),
        Target::File(..) => None,
    }
}

fn flush(target: &Target) -> io::Result<()> {
    match target {
        Target::Log(log) => lock(log).flush(),
        Target::File(..) => Ok(()),
    }
}

/// Writes to a file what is still to be written.
async fn finish(rest: io::Result<Vec<u8>>, target: &Target) -> io::Result<()> {
    match target {
        Target::Log(_) => rest.map(drop),
        Target::File(file, _) => file.write(rest?).await,
    }
}

/// Writes to the log the pieces that `pieces` passes to its argument. For a file, returns what is to be written
/// to it.
fn write(
    target: &Target,
    stream: Stream,
    rank: u32,
    pieces: impl FnOnce(&mut dyn FnMut(&[u8])),
) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    match target {
        Target::Log(log) => {
            let mut log = lock(log);
            pieces(&mut |piece| log.data(stream, rank, piece));
            log.flush()?;
        }
        Target::File(_, labeled) => pieces(&mut |piece| {
            if !*labeled {
                return text.extend_from_slice(piece);
            }
            for line in piece.split_inclusive(|byte| *byte == b'\n') {
                text.extend_from_slice(format!("{rank}: ").as_bytes());
                text.extend_from_slice(line);
            }
        }),
    }
    Ok(text)
}

fn end(lines: LineBuffer, target: &Target, stream: Stream, rank: u32) -> io::Result<Vec<u8>> {
    let outcome = write(target, stream, rank, |piece| lines.finish(piece));
    if let Target::Log(log) = target {
        lock(log).eof(stream, rank);
    }
    outcome
}
