//! `--add-file`: files that are part of a job, as RFC 37 objects in its jobspec.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::caller::Caller;
use super::error::ArgError;

/// The bits in the mode of a regular file that are its type.
const REGULAR: u32 = 0o100_000;

/// The file objects for the options, by the names that the files have in the job.
///
/// # Errors
/// [`ArgError::AddFile`] for a file that can't be read, [`ArgError::Permissions`].
pub(crate) fn files(options: &[String], caller: &Caller) -> Result<Map<String, Value>, ArgError> {
    options.iter().map(|option| file(option, caller)).collect()
}

fn file(option: &str, caller: &Caller) -> Result<(String, Value), ArgError> {
    let (name, path) = match option.split_once('=') {
        Some((name, path)) => (Some(name), path),
        None => (None, option),
    };
    let (name, permissions) = match name.and_then(|name| name.split_once(':')) {
        Some((name, permissions)) => (Some(name), Some(permissions)),
        None => (name, None),
    };
    let failed = |error: std::io::Error| ArgError::add_file(option, path, &error);
    let found = caller.file(path);
    let data = std::fs::read(&found).map_err(failed)?;
    let meta = std::fs::metadata(&found).map_err(failed)?;
    let mode = match permissions {
        Some(text) => {
            let bits = u32::from_str_radix(text, 8).ok().filter(|bits| *bits <= 0o7777);
            REGULAR | bits.ok_or_else(|| ArgError::Permissions(text.to_owned()))?
        }
        None => meta.mode(),
    };
    let size = data.len();
    let (encoding, data) = match String::from_utf8(data) {
        Ok(text) => ("utf-8", text),
        Err(bytes) => ("base64", STANDARD.encode(bytes.as_bytes())),
    };
    let base = || Path::new(path).file_name().map(|name| name.to_string_lossy().into_owned());
    let name = name.map(str::to_owned).or_else(base).unwrap_or_else(|| path.to_owned());
    let (mtime, ctime) = (meta.mtime(), meta.ctime());
    let object = json!({
        "mode": mode, "size": size, "mtime": mtime, "ctime": ctime, "encoding": encoding,
        "data": data,
    });
    Ok((name, object))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_the_requested_name_and_mode() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a.txt"), "text").unwrap();
        std::fs::write(dir.path().join("b"), [0xff]).unwrap();
        let caller = Caller { cwd: dir.path().to_owned(), ..Caller::default() };
        let all = |options: &[&str]| {
            let options: Vec<String> = options.iter().map(|option| (*option).to_owned()).collect();
            files(&options, &caller)
        };
        let found = all(&["a.txt", "nm=a.txt", "run:0755=a.txt", "b"]).unwrap();
        assert_eq!(found.keys().collect::<Vec<_>>(), ["a.txt", "nm", "run", "b"]);
        assert_eq!(found["a.txt"]["data"], "text");
        assert_eq!(found["run"]["mode"], 0o100755);
        assert_eq!(
            (&found["b"]["encoding"], &found["b"]["data"]),
            (&json!("base64"), &json!("/w=="))
        );
        assert_eq!(
            all(&["x=none"]).unwrap_err().to_string(),
            "--add-file=x=none: [Errno 2] No such file or directory: 'none'"
        );
        assert!(all(&["x:9=b"]).unwrap_err().to_string().contains("'9'"));
    }
}
