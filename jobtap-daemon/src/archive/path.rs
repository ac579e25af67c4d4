//! The path of a key in an archive, and back.
//!
//! A key that Flux can have has Flux's path. Our keys may have what a path can't: a slash, or an empty part
//! between two dots. These are written with a percent sign.

use super::error::PathFault;

/// Returns the path of `key`.
pub(super) fn of_key(key: &str) -> String {
    let components = key.split('.').map(|component| match component {
        "" => "%".to_owned(),
        text => text.replace('%', "%25").replace('/', "%2F"),
    });
    components.collect::<Vec<_>>().join("/")
}

/// Returns the key at `path`, or the reason why the path leads to no key.
pub(super) fn to_key(path: &str) -> Result<String, PathFault> {
    if path.starts_with('/') {
        return Err(PathFault::Absolute);
    }
    let path = path.strip_prefix("./").unwrap_or(path);
    let mut components = Vec::new();
    for component in path.split('/') {
        components.push(match component {
            "" => return Err(PathFault::NoName),
            "." | ".." => return Err(PathFault::Outside),
            "%" => String::new(),
            text => text.replace("%2F", "/").replace("%25", "%"),
        });
    }
    Ok(components.join("."))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn keys_have_the_paths_of_flux() {
        let key = "job.0000.0001.e100.0000.guest.exec.eventlog";
        let path = "job/0000/0001/e100/0000/guest/exec/eventlog";
        assert_eq!(of_key(key), path);
        assert_eq!(to_key(path).unwrap(), key);
        assert_eq!(to_key("./resource/R").unwrap(), "resource.R");
    }

    #[test]
    fn a_path_out_of_the_archive_is_no_key() {
        for path in ["", "/a", "a//b", "a/..", "../a", "a/./b", "a/"] {
            assert!(to_key(path).is_err(), "{path}");
        }
    }

    proptest! {
        #[test]
        fn a_key_comes_back(key in "[a-z./%25F\u{0192}]{1,30}") {
            let path = of_key(&key);
            prop_assert_eq!(to_key(&path).unwrap(), key);
        }

        #[test]
        fn any_path_is_a_keys_or_refused(path in "\\PC*|[a.%/25F]{0,12}") {
            match to_key(&path) {
                Ok(key) => prop_assert_eq!(to_key(&of_key(&key)).unwrap(), key),
                Err(why) => {
                    let component = |text: &str| path.split('/').any(|part| part == text);
                    prop_assert!(component("") || component(".") || component(".."), "{}", why);
                }
            }
        }
    }
}
