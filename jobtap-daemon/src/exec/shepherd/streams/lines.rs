//! Splits the output of a task into lines, or into many lines at once where it prints much.

/// A longer line is split, which bounds the memory that a task's output can occupy.
const LONGEST: usize = 64 * 1024;

/// A chunk of at least this many bytes is not split into lines: each piece is an entry of the log, and reading the log
/// later would be slower than printing it.
const MANY: usize = 4096;

/// Collects the bytes of one stream and returns them line by line, or as they are read.
///
/// A UTF-8 character is never split, so that each piece of a text is valid UTF-8.
#[derive(Debug)]
pub(super) struct LineBuffer {
    pending: Vec<u8>,
    unbuffered: bool,
}

impl LineBuffer {
    /// Makes a buffer that splits at newlines, or after each read if `unbuffered`.
    pub(super) fn new(unbuffered: bool) -> Self {
        Self { pending: Vec::new(), unbuffered }
    }

    /// Adds bytes and calls `piece` with each complete piece, newline included.
    pub(super) fn push(&mut self, chunk: &[u8], mut piece: impl FnMut(&[u8])) {
        if self.unbuffered {
            self.pending.extend_from_slice(chunk);
            self.cut(&mut piece);
            return;
        }
        let whole_lines = match chunk.len() >= MANY {
            true => memchr::memrchr(b'\n', chunk).map_or(0, |end| end + 1),
            false => 0,
        };
        let (whole, chunk) = chunk.split_at_checked(whole_lines).unwrap_or_default();
        if !whole.is_empty() {
            match self.pending.is_empty() {
                true => piece(whole),
                false => {
                    self.pending.extend_from_slice(whole);
                    piece(&self.pending);
                    self.pending.clear();
                }
            }
        }
        for part in chunk.split_inclusive(|byte| *byte == b'\n') {
            let ends = part.last() == Some(&b'\n');
            if ends && self.pending.is_empty() {
                piece(part);
                continue;
            }
            self.pending.extend_from_slice(part);
            if ends {
                piece(&self.pending);
                self.pending.clear();
            } else if self.pending.len() >= LONGEST {
                self.cut(&mut piece);
            }
        }
    }

    /// Calls `piece` with the rest when the stream has ended.
    pub(super) fn finish(self, mut piece: impl FnMut(&[u8])) {
        if !self.pending.is_empty() {
            piece(&self.pending);
        }
    }

    fn cut(&mut self, piece: &mut impl FnMut(&[u8])) {
        let whole = match std::str::from_utf8(&self.pending) {
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            _ => self.pending.len(),
        };
        let rest = self.pending.split_off(whole);
        if !self.pending.is_empty() {
            piece(&self.pending);
        }
        self.pending = rest;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pieces(unbuffered: bool, chunks: &[&[u8]]) -> Vec<Vec<u8>> {
        let mut buffer = LineBuffer::new(unbuffered);
        let mut out = Vec::new();
        for chunk in chunks {
            buffer.push(chunk, |piece| out.push(piece.to_vec()));
        }
        buffer.finish(|piece| out.push(piece.to_vec()));
        out
    }

    #[test]
    fn lines_are_not_split() {
        assert_eq!(pieces(false, &[b"a", b"b\nc\n", b"d"]), [&b"ab\n"[..], b"c\n", b"d"]);
    }

    #[test]
    fn many_lines_at_once_are_one_piece() {
        let many = "line\n".repeat(MANY / 5 + 1);
        let chunk = format!("begun\n{many}rest");
        let out = pieces(false, &[b"was ", chunk.as_bytes(), b"\nlast\n"]);
        let first = format!("was begun\n{many}");
        assert_eq!(out, [first.as_bytes(), b"rest\n", b"last\n"]);
    }

    #[test]
    fn unbuffered_output_is_split_only_between_characters() {
        assert_eq!(pieces(true, &[b"? ", b"a\xc3", b"\xa9"]), [&b"? "[..], b"a", b"\xc3\xa9"]);
    }

    #[test]
    fn endless_lines_are_split() {
        let chunk = "é".repeat(LONGEST / 2 - 1) + "x";
        let out = pieces(false, &[chunk.as_bytes(), "é".as_bytes(), b"end"]);
        assert!(out.len() > 1);
        assert!(out.iter().all(|piece| std::str::from_utf8(piece).is_ok()));
    }

    proptest! {
        #[test]
        fn nothing_is_lost(unbuffered: bool, chunks: Vec<Vec<u8>>) {
            let chunks: Vec<&[u8]> = chunks.iter().map(Vec::as_slice).collect();
            prop_assert_eq!(pieces(unbuffered, &chunks).concat(), chunks.concat());
        }

        #[test]
        fn text_stays_text(unbuffered: bool, text: String, size in 1usize..9) {
            let chunks: Vec<&[u8]> = text.as_bytes().chunks(size).collect();
            for piece in pieces(unbuffered, &chunks) {
                prop_assert!(std::str::from_utf8(&piece).is_ok());
            }
        }
    }
}
