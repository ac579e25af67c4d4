//! The packages for Debian and rpm install what a host needs, and a manager's binary is replaced while jobs run.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::fs;
use std::path::Path;
use std::process::Command;

use jobtap_tests::{Manager, clean, jobtap, run, site_manager, temporary, workspace};

fn is_installed(program: &str) -> bool {
    Path::new("/usr/bin").join(program).exists()
}

#[test]
fn a_debian_package_has_program_unit_pages_and_completions() {
    if !is_installed("dpkg-deb") || !is_installed("objdump") {
        eprintln!("skipped: dpkg-deb or objdump is not installed");
        return;
    }
    let directory = temporary();
    let at = |name: &str| directory.path().join(name);
    let script = workspace().join("packaging/deb");
    let mut build = Command::new(script);
    build.arg("-b").arg(jobtap()).arg(at("out"));
    // A binary for debugging is large, and compressing it takes a minute.
    run(build.env("DPKG_DEB_COMPRESSOR_TYPE", "none")).ok();
    let package = fs::read_dir(at("out")).unwrap().next().unwrap().unwrap().path();
    run(Command::new("dpkg-deb").arg("-x").arg(&package).arg(at("root"))).ok();
    let root = at("root");
    for file in [
        "lib/systemd/system/jobtap.service",
        "usr/share/man/man1/jobtap-submit.1.gz",
        "usr/share/bash-completion/completions/jobtap",
        "usr/share/zsh/vendor-completions/_jobtap",
        "usr/share/fish/vendor_completions.d/jobtap.fish",
        "usr/share/doc/jobtap/copyright",
    ] {
        assert!(root.join(file).exists(), "{file}");
    }
    let program = root.join("usr/bin/jobtap");
    run(clean(&program).args(["config", "check"]).arg(root.join("etc/jobtap"))).ok();
    let ran = run(clean(&program).args(["start", "jobtap", "run", "echo", "works"]));
    assert_eq!(ran.ok().trim(), "works");
    // It contains no path of the machine that built the package.
    let completion = fs::read_to_string(root.join("usr/share/bash-completion/completions/jobtap"));
    assert!(!completion.unwrap().contains(directory.path().to_str().unwrap()));
}

#[test]
fn a_package_for_rpm_has_the_same_where_rpm_has_it() {
    if !is_installed("rpmbuild") || !is_installed("rpm2archive") {
        eprintln!("skipped: rpmbuild or rpm2archive is not installed");
        return;
    }
    let directory = temporary();
    let at = |name: &str| directory.path().join(name);
    let mut build = Command::new(workspace().join("packaging/rpm"));
    build.arg("-b").arg(jobtap()).arg(at("out"));
    // Compressing a binary for debugging takes a minute.
    run(build.env("JOBTAP_RPM_PAYLOAD", "w0.gzdio")).ok();
    let package = fs::read_dir(at("out")).unwrap().next().unwrap().unwrap().path();
    let asked = |words: &[&str]| run(Command::new("rpm").args(words).arg(&package)).ok();
    assert_eq!(asked(&["-qp", "--qf", "%{NAME} %{LICENSE}"]), "jobtap MIT OR Apache-2.0");
    assert_eq!(asked(&["-qpc"]), "/etc/jobtap/jobtap.toml", "the configuration of a site is kept");
    run(Command::new("rpm2archive").arg(&package)).ok();
    fs::create_dir(at("root")).unwrap();
    let archive = package.with_extension("rpm.tgz");
    run(Command::new("tar").arg("-C").arg(at("root")).arg("-xzf").arg(archive)).ok();
    let root = at("root");
    for file in [
        "usr/lib/systemd/system/jobtap.service",
        "usr/share/man/man1/jobtap-submit.1.gz",
        "usr/share/bash-completion/completions/jobtap",
        "usr/share/zsh/site-functions/_jobtap",
        "usr/share/fish/vendor_completions.d/jobtap.fish",
    ] {
        assert!(root.join(file).exists(), "{file}");
    }
    let copyright = fs::read_to_string(root.join("usr/share/doc/jobtap/copyright")).unwrap();
    assert!(copyright.contains("\ntokio "), "the licenses of its crates");
    let program = root.join("usr/bin/jobtap");
    let ran = run(clean(&program).args(["start", "jobtap", "run", "echo", "works"]));
    assert_eq!(ran.ok().trim(), "works");
}

#[test]
fn the_bill_of_materials_has_each_crate_with_license_and_checksum() {
    let sbom = run(&mut Command::new(workspace().join("packaging/sbom"))).ok();
    assert_eq!(sbom, run(&mut Command::new(workspace().join("packaging/sbom"))).ok());
    let sbom: serde_json::Value = serde_json::from_str(&sbom).unwrap();
    let components = sbom["components"].as_array().unwrap();
    let named = |name: &str| components.iter().find(|component| component["name"] == name);
    assert_eq!(named("tokio").unwrap()["licenses"][0]["expression"], "MIT");
    assert_eq!(named("tokio").unwrap()["hashes"][0]["content"].as_str().unwrap().len(), 64);
    assert!(named("lua-src").is_some() && named("serde_derive").is_none());
    for component in components {
        assert!(component["licenses"].is_array(), "{component}");
    }
}

#[test]
fn the_unit_is_one_that_systemd_understands() {
    if !is_installed("systemd-analyze") {
        eprintln!("skipped: systemd is not installed");
        return;
    }
    let directory = temporary();
    let text = fs::read_to_string(workspace().join("packaging/jobtap.service")).unwrap();
    // The program and the pages aren't installed here.
    let text = text.replace("/usr/bin/jobtap", "/bin/true").replace("man:", "https://");
    let unit = directory.path().join("jobtap.service");
    fs::write(&unit, text).unwrap();
    let checked = run(Command::new("systemd-analyze").arg("verify").arg(&unit));
    assert!(checked.code == 0 && checked.stderr.is_empty(), "{checked:?}");
}

#[test]
fn running_jobs_survive_the_replacement_of_the_program() {
    let directory = temporary();
    let at = |name: &str| directory.path().join(name);
    fs::copy(jobtap(), at("manager")).unwrap();
    let mut m = Manager::start_in(&at("manager"), &at("state"), &[]);
    let wait = format!(
        "until [ -e {0}/go ]; do sleep 0.05; done; echo ended >>{0}/ends",
        directory.path().display()
    );
    let job = m.submit_args(&["sh", "-c", &wait]);
    m.wait(&job, "start");
    m.stop();
    // As a package manager does it: the shepherd still executes the old program.
    fs::copy(site_manager(), at("new")).unwrap();
    fs::rename(at("new"), at("manager")).unwrap();
    m.start_again();
    assert_eq!(m.field(&job, "state"), "RUN");
    assert!(m.jobtap("plugin available").ok().contains("deadline"), "it is the other program");
    fs::write(at("go"), "").unwrap();
    m.wait(&job, "clean");
    assert_eq!(fs::read_to_string(at("ends")).unwrap(), "ended\n");
    assert_eq!(m.field(&job, "result"), "COMPLETED");
    let next = m.submit("true");
    m.wait(&next, "clean");
    assert_eq!(m.field(&next, "result"), "COMPLETED");
}
