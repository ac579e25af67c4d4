//! Tests the description of a request in memory of Slurm's allocator. `.ci/asan` runs this with AddressSanitizer, which
//! finds texts that are leaked, freed twice or written beyond their ends.

use std::borrow::Cow;
use std::ffi::{CString, c_int};

use super::*;
use crate::ffi::memory;
use crate::structure::Kind as Stored;

/// Larger than any version's `job_desc_msg_t`.
const SIZE: usize = 1 << 14;

/// Loads Slurm's library so that `dlsym` finds its functions, as in a daemon. `SLURM_LIBRARY` can name its file.
fn has_slurm() -> bool {
    unsafe extern "C" {
        fn dlopen(file: *const c_char, flags: c_int) -> *mut c_void;
    }
    let debian = "/usr/lib/x86_64-linux-gnu/slurm-wlm/libslurmfull.so".to_owned();
    let file = std::env::var("SLURM_LIBRARY").unwrap_or(debian);
    let file = CString::new(file).unwrap_or_default();
    // SAFETY: the name is NUL-terminated, and Slurm's library runs no code when it is loaded.
    !unsafe { dlopen(file.as_ptr(), 2 | 0x100) }.is_null()
}

fn owned(text: &str) -> Cow<'static, str> {
    Cow::Owned(text.to_owned())
}

#[test]
fn texts_and_lists_of_a_request_are_replaced_in_slurms_memory() {
    if !has_slurm() {
        println!("skipped: there is no libslurmfull.so; set SLURM_LIBRARY");
        return;
    }
    let memory = memory::allocate(1, SIZE);
    assert!(!memory.is_null());
    // SAFETY: zeroed memory is a description without texts, and only this thread uses it.
    let mut descriptor = unsafe { InMemory::descriptor(memory) };
    let slots = descriptor.slots().to_vec();
    assert!(slots.iter().filter(|slot| slot.kind == Stored::Text).count() > 30);
    for round in [0, 3, 0, 40, 1, 0] {
        for (index, slot) in slots.iter().enumerate() {
            let written = match (slot.kind, round) {
                (Stored::Text, 0) => Value::Text(None),
                (Stored::Text, _) => Value::Text(Some(owned(&"é".repeat(round)))),
                (Stored::Texts, _) => {
                    let line = |n: usize| owned(&format!("{}={n}", slot.name));
                    Value::Texts((0..round).map(line).collect())
                }
                _ => continue,
            };
            assert_eq!(descriptor.set(index, written.clone()), Ok(()), "{}", slot.name);
            assert_eq!(descriptor.get(index), written, "{}", slot.name);
        }
    }
    let name = slots.iter().position(|slot| slot.kind == Stored::Text).unwrap_or(0);
    assert!(descriptor.set(name, Value::Text(Some(owned("a\0b")))).is_err());
    assert_eq!(descriptor.get(name), Value::Text(None));
    // Even an empty list is allocated. Slurm would free it together with the description.
    for place in descriptor.plan.places.iter().filter(|place| place.member.kind == Kind::Texts) {
        let list: *mut *mut c_char = descriptor.pointer(place.base, place.member);
        // SAFETY: `set` has allocated the list, and nothing uses it any more.
        unsafe { free_texts(list, descriptor.count(place)) };
    }
    // SAFETY: `allocate` has returned it, and nothing uses it any more.
    unsafe { free(memory) };
}

#[test]
fn the_users_of_a_partition_are_read_as_each_release_lists_them() {
    let (ended, counted) = ([1000_u32, 1001, 0], [0_u32, 1000]);
    let (ended, counted) = (ended.as_ptr(), counted.as_ptr());
    let none = std::ptr::null();
    let negative = u64::from(-1_i32 as u32);
    // SAFETY: the first list ends with a 0, and the second has two numbers.
    unsafe {
        assert_eq!(users_of(ended, None, true), Some(vec![1000, 1001]));
        assert_eq!(users_of(counted, Some(2), true), Some(vec![0, 1000]));
        assert_eq!(users_of(counted, Some(negative), true), Some(Vec::new()));
        // The groups have no members.
        assert_eq!(users_of(none, Some(0), true), Some(Vec::new()));
        assert_eq!(users_of(none, None, true), Some(Vec::new()));
        assert_eq!(users_of(none, None, false), None);
    }
}
