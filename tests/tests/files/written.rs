//! Commands write files whole, replace regular files only, and never write through a link.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use jobtap_tests::{Manager, Output, clean, jobtap, run, temporary};

use super::refused;

#[test]
fn an_archive_replaces_regular_files_only() {
    let base = temporary();
    let path = |name: &str| base.path().join(name);
    let m = Manager::start(jobtap());
    fs::write(path("victim"), "precious").unwrap();
    symlink("victim", path("link")).unwrap();
    run(Command::new("mkfifo").arg(path("fifo"))).ok();
    for (name, text) in [
        ("link", "it is a symbolic link to victim, and is not replaced: name the file itself"),
        ("fifo", "it is a FIFO, and is not replaced"),
        ("", "it is a directory"),
    ] {
        let output = run(m.command(["dump"]).arg(path(name).components().as_path()));
        refused(output, text);
    }
    // A device made here: if the test fails as root, the machine's own `/dev/null` is unharmed.
    if run(Command::new("mknod").arg(path("device")).args(["c", "1", "7"])).code == 0 {
        refused(run(m.command(["dump"]).arg(path("device"))), "it is a device");
    } else {
        println!("skipped: only root can make a device");
    }
    assert!(path("link").is_symlink());
    assert_eq!(fs::read_to_string(path("victim")).unwrap(), "precious");
    // A file that was prepared under a name for temporary files is neither written nor renamed.
    symlink("victim2", path("a.tar.partial")).unwrap();
    run(m.command(["dump"]).arg(path("a.tar"))).ok();
    assert!(path("a.tar.partial").is_symlink() && !path("victim2").exists());
    fs::write(path("b.tar"), "").unwrap();
    fs::set_permissions(path("b.tar"), Permissions::from_mode(0o666)).unwrap();
    run(m.command(["dump"]).arg(path("b.tar"))).ok();
    for name in ["a.tar", "b.tar"] {
        let found = fs::symlink_metadata(path(name)).unwrap();
        assert_eq!((found.is_file(), found.mode() & 0o777), (true, 0o600), "{name}");
    }
    // `-` is the standard output of the command.
    for name in ["-", "/dev/stdout"] {
        let mut command = m.command(["dump", name]);
        let output = command.stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success() && output.stdout.len() > 512, "{name}");
    }
}

#[test]
fn an_unusable_dump_file_is_refused_at_the_start() {
    let base = temporary();
    symlink("victim", base.path().join("link")).unwrap();
    let option = format!("-Scontent.dump={}", base.path().join("link").display());
    let output = run(clean(jobtap()).args(["start", &option, "true"]));
    refused(output, "it is a symbolic link to victim");
}

/// Runs a command in the directory of a manifest.
fn in_site(site: &Path, args: &[&str]) -> Output {
    let mut command = clean(jobtap());
    run(command.current_dir(site).args(args).env("CARGO_NET_OFFLINE", "true"))
}

#[test]
fn a_build_changes_no_files_that_it_did_not_make() {
    let base = temporary();
    in_site(base.path(), &["new", "manager", "site"]).ok();
    let site = base.path().join("site");
    let home = base.path().join("home");
    for file in ["Documents/thesis.tex", "crate/plugins/precious", "crate/Cargo.toml", "lock"] {
        let file = home.join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, "precious").unwrap();
    }
    fs::write(base.path().join("victim"), "precious").unwrap();
    symlink("../victim", site.join("link")).unwrap();
    let cache = ["--cache", "../cache"];
    for (args, text) in [
        (["--vendor", "../home"], "is not empty, and no build filled it"),
        (["--print-crate", "../home"], "is not empty, and `jobtap build` did not make"),
        (["--cache", "../home"], "is not empty, and `jobtap build` did not make"),
        (["-o", "link"], "it is a symbolic link to ../victim"),
        (["--sbom", "link"], "it is a symbolic link to ../victim"),
        (["--sbom", "/dev/full"], "it is a device"),
    ] {
        let cache = if args[0] == "--cache" { &[][..] } else { &cache };
        let args = [&["build", "--offline"], cache, &args].concat();
        refused(in_site(&site, &args), text);
    }
    for file in ["Documents/thesis.tex", "crate/plugins/precious", "crate/Cargo.toml", "lock"] {
        assert_eq!(fs::read_to_string(home.join(file)).unwrap(), "precious", "{file}");
    }
    assert_eq!(fs::read_dir(&home).unwrap().count(), 3, "nothing was added");
    assert_eq!(fs::read_to_string(base.path().join("victim")).unwrap(), "precious");
}

#[test]
fn a_manifest_is_replaced_whole_and_keeps_its_mode() {
    let base = temporary();
    in_site(base.path(), &["new", "manager", "site"]).ok();
    let site = base.path().join("site");
    let manifest = site.join("jobtap-build.toml");
    fs::set_permissions(&manifest, Permissions::from_mode(0o640)).unwrap();
    in_site(&site, &["build", "add", "deadline@1"]).ok();
    assert!(fs::read_to_string(&manifest).unwrap().contains("deadline"));
    assert_eq!(fs::metadata(&manifest).unwrap().mode() & 0o777, 0o640);
    let before = fs::read_to_string(&manifest).unwrap();
    symlink("jobtap-build.toml", site.join("link.toml")).unwrap();
    let output = in_site(&site, &["build", "remove", "-f", "link.toml", "deadline"]);
    refused(output, "it is a symbolic link to jobtap-build.toml");
    assert_eq!(fs::read_to_string(&manifest).unwrap(), before);
    let names: Vec<_> = fs::read_dir(&site).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert!(names.iter().all(|name| !name.to_string_lossy().contains("unfinished")), "{names:?}");
}

#[test]
fn a_new_crate_is_not_made_through_a_link() {
    let base = temporary();
    symlink("elsewhere", base.path().join("site")).unwrap();
    for what in ["manager", "plugin"] {
        refused(in_site(base.path(), &["new", what, "site"]), "site is there already");
    }
    assert!(!base.path().join("elsewhere").exists());
}
