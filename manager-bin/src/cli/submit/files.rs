//! `--add-file`: files that are part of a job, as RFC 37 objects in its jobspec. Their contents come from a file, or
//! are the argument itself, which then contains a newline.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustix::io::Errno;
use serde_json::{Map, Value, json};

use super::caller::Caller;
use super::error::ArgError;
use crate::files::input;

/// The bits in the mode of a regular file that are its type.
const REGULAR: u32 = 0o100_000;

/// The permissions of a file whose contents are the argument, unless the option sets others.
const PRIVATE: u32 = 0o600;

/// The text that stands for a newline in an argument.
const NEWLINE: &str = "\\n";

/// The file objects for the options, by the names that the files have in the job.
///
/// # Errors
/// [`ArgError::AddFile`] for a file that can't be read, [`ArgError::Permissions`].
pub(crate) fn files(options: &[String], caller: &Caller) -> Result<Map<String, Value>, ArgError> {
    options.iter().map(|option| file(option, caller)).collect()
}

fn file(option: &str, caller: &Caller) -> Result<(String, Value), ArgError> {
    let (name, argument) = match option.split_once('=') {
        // A file of this name, as in Flux.
        Some((name, "")) => (None, name),
        Some((name, argument)) => (Some(name), argument),
        None => (None, option),
    };
    let is_octal =
        |text: &&str| !text.is_empty() && text.bytes().all(|byte| matches!(byte, b'0'..=b'7'));
    let (name, permissions) = match name.and_then(|name| name.split_once(':')) {
        Some((name, permissions)) if is_octal(&permissions) => (Some(name), Some(permissions)),
        _ => (name, None),
    };
    let permissions = permissions.map(mode).transpose()?;
    if let Some(name) = name
        && (argument.contains('\n') || argument.contains(NEWLINE))
    {
        let mode = permissions.unwrap_or(REGULAR | PRIVATE);
        let data = argument.replace(NEWLINE, "\n");
        return Ok((name.to_owned(), json!({ "mode": mode, "data": data, "encoding": "utf-8" })));
    }
    let path = argument;
    let failed = |error: std::io::Error| ArgError::add_file(option, path, &error);
    if path.is_empty() {
        return Err(failed(Errno::NOENT.into()));
    }
    let found = caller.file(path);
    let data = input::bytes(&found).map_err(failed)?;
    let meta = std::fs::metadata(&found).map_err(failed)?;
    let mode = permissions.unwrap_or_else(|| meta.mode());
    let size = data.len();
    let (encoding, data) = match String::from_utf8(data) {
        Ok(text) => ("utf-8", text),
        Err(bytes) => ("base64", STANDARD.encode(bytes.as_bytes())),
    };
    let base = || Path::new(path).file_name().map(|name| name.to_string_lossy().into_owned());
    let name = name.map(str::to_owned).or_else(base).unwrap_or_else(|| path.to_owned());
    Ok((name, json!({ "mode": mode, "size": size, "data": data, "encoding": encoding })))
}

/// The mode of a regular file with these permissions, which are octal digits.
fn mode(permissions: &str) -> Result<u32, ArgError> {
    let bits = u32::from_str_radix(permissions, 8).ok().filter(|bits| *bits <= 0o7777);
    Ok(REGULAR | bits.ok_or_else(|| ArgError::Permissions(permissions.to_owned()))?)
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
        assert!(all(&["x:77777=b"]).unwrap_err().to_string().contains("'77777'"));
        assert_eq!(all(&["x:9=b"]).unwrap().keys().collect::<Vec<_>>(), ["x:9"]);
    }

    #[test]
    fn an_argument_with_a_newline_is_the_contents() {
        let object = |option: &str| {
            let mut found = files(&[option.to_owned()], &Caller::default()).unwrap();
            let name = found.keys().next().cloned().unwrap();
            let object = found.remove(&name).unwrap();
            (name, object["mode"].as_u64().unwrap(), object["data"].as_str().unwrap().to_owned())
        };
        assert_eq!(object("h=a\\nb=c"), ("h".into(), 0o100_600, "a\nb=c".into()));
        assert_eq!(object("h=a\nb\\t"), ("h".into(), 0o100_600, "a\nb\\t".into()));
        assert_eq!(object("h:0755=#!/bin/sh\\n"), ("h".into(), 0o100_755, "#!/bin/sh\n".into()));
        let caller = Caller::default();
        for option in ["", "h=", "a\\nb"] {
            let error = files(&[option.to_owned()], &caller).unwrap_err().to_string();
            assert!(error.contains("No such file or directory"), "{error}");
        }
    }
}
