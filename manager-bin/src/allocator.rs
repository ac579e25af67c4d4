//! The allocator of the manager: mimalloc.
//!
//! Jobs are allocated on one thread and freed on another, in many sizes and for days. With the system's
//! allocator this took a fifth of the time per job, and memory became fragmented.
//!
//! The crate `mimalloc` asks for the alignment of each block explicitly. mimalloc then checks the block that
//! it would return, and for one block in six, including every text of more than a kilobyte, takes a slow path
//! and a larger block than was asked for. All of its blocks have the alignment that nearly every type needs,
//! so this allocator asks for an alignment only where a type needs more. That saves 5,000 of the 134,000
//! instructions of a job.

use std::alloc::{GlobalAlloc, Layout};

use libmimalloc_sys::{
    mi_free, mi_malloc, mi_malloc_aligned, mi_realloc, mi_realloc_aligned, mi_zalloc,
    mi_zalloc_aligned,
};

#[global_allocator]
static ALLOCATOR: Mimalloc = Mimalloc;

struct Mimalloc;

/// The alignment of every block of at least this length: `MI_MAX_ALIGN_SIZE`, which mimalloc sets to the
/// alignment of C's `max_align_t`, as `malloc` must. Shorter blocks are aligned to the largest power of two
/// that is not above their length.
const ALIGNMENT: usize = 16;

/// Whether every block that mimalloc returns for this size has the alignment of the layout.
const fn is_aligned_anyway(layout: Layout) -> bool {
    layout.align() <= ALIGNMENT && layout.align() <= layout.size()
}

/// The only unsafe code of this crate.
// SAFETY: mimalloc's functions behave as in the C standard: a block has at least the size that was asked for,
// belongs to nothing else until it is freed, and is null if there is no memory; none of them unwinds. A block
// has the alignment of its layout, either because all blocks of that size have it, as C requires of `malloc`
// (the standard library calls `malloc` under the same condition), or because it was asked for. `mi_free`,
// `mi_realloc` and `mi_realloc_aligned` accept blocks of all of these functions. They require what
// `GlobalAlloc` requires of its callers: that a block comes from this allocator, with this layout.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Mimalloc {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        unsafe {
            match is_aligned_anyway(layout) {
                true => mi_malloc(layout.size()).cast(),
                false => mi_malloc_aligned(layout.size(), layout.align()).cast(),
            }
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        unsafe {
            match is_aligned_anyway(layout) {
                true => mi_zalloc(layout.size()).cast(),
                false => mi_zalloc_aligned(layout.size(), layout.align()).cast(),
            }
        }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, _: Layout) {
        unsafe { mi_free(block.cast()) }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        unsafe {
            match layout.align() <= ALIGNMENT && layout.align() <= size {
                true => mi_realloc(block.cast(), size).cast(),
                false => mi_realloc_aligned(block.cast(), size, layout.align()).cast(),
            }
        }
    }
}

#[cfg(test)]
#[allow(unsafe_code)]
mod tests {
    use super::*;

    /// Takes blocks of many sizes, enough of each for several of mimalloc's pages to be used and reused.
    #[test]
    fn blocks_have_their_alignment_and_keep_their_bytes() {
        let sizes = (1..200).chain((200..5000).step_by(37)).chain([8192, 65_537, 1 << 20]);
        for (size, align) in
            sizes.flat_map(|size| [1, 2, 4, 8, 16, 32, 64].map(|align| (size, align)))
        {
            let layout = Layout::from_size_align(size, align).unwrap();
            let larger = Layout::from_size_align(2 * size, align).unwrap();
            let is_aligned =
                |block: *mut u8| !block.is_null() && block.addr().is_multiple_of(align);
            // SAFETY: each block is written within its size, and given back with its own layout.
            unsafe {
                let blocks: Vec<*mut u8> = (0..20).map(|_| ALLOCATOR.alloc(layout)).collect();
                let zeroed = ALLOCATOR.alloc_zeroed(layout);
                assert!(is_aligned(zeroed), "{layout:?}");
                assert!((0..size).all(|at| *zeroed.add(at) == 0), "{layout:?}");
                ALLOCATOR.dealloc(zeroed, layout);
                for (number, block) in blocks.iter().enumerate() {
                    assert!(is_aligned(*block), "{layout:?}");
                    block.write_bytes(number as u8, size);
                }
                for (number, block) in blocks.into_iter().enumerate() {
                    let block = ALLOCATOR.realloc(block, layout, larger.size());
                    assert!(is_aligned(block), "{larger:?}");
                    assert!((0..size).all(|at| *block.add(at) == number as u8), "{layout:?}");
                    ALLOCATOR.dealloc(block, larger);
                }
            }
        }
    }
}
