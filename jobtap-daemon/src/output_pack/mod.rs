//! Output packs: files that have the output of many jobs, such as the elements of a job array, so that the file system
//! sees one file and not a million.
//!
//! A pack is a sequence of blocks, each the output of one job up to some time. A block has a header that says whose output
//! it is and how long, so that a reader goes from header to header without reading the output of others. Writers append
//! whole blocks, those of each node to a file of its own; a block that a full disk has cut is passed over.
//!
//! ```text
//! jtpack1\n          8 bytes
//! length of header   4 bytes, little endian
//! length of data     8 bytes, little endian
//! header             JSON: {"job","array","index","pieces":[{"stream","rank","time","size"}],"crc"}
//! data               the pieces, one after the other
//! ```

mod block;
mod files;
mod reader;

pub use block::{Block, Of, Piece};
pub use files::{file_of_node, files};
pub use reader::{PackError, PackReader};
