//! How a script is loaded, and loaded again.

use jobtap_builtins::lua::{Options, Script};
use jobtap_core::slurm::JobDescriptor;

use super::{MODIFY, Request, Site, texts, touch};

/// A script that returns a number.
fn returning(code: u32) -> String {
    format!("function slurm_job_submit() return {code} end\n{MODIFY}")
}

fn code(script: &mut Script) -> (i32, Vec<String>) {
    let (verdict, _) = Request::new(JobDescriptor::default()).submit(script);
    (verdict.code, texts(&verdict.log))
}

#[test]
fn a_script_that_can_not_be_loaded_is_refused_with_its_place() {
    let site = Site::new();
    for (text, error) in [
        ("function f(", "job_submit.lua:1: <name> or '...' expected near <eof>"),
        ("x = = 1", "job_submit.lua:1: unexpected symbol near '='"),
        ("\nerror('no configuration')", "job_submit.lua:2: no configuration"),
        ("", "job_submit.lua: the function slurm_job_submit is missing"),
        (
            "function slurm_job_submit() end",
            "job_submit.lua: the function slurm_job_modify is missing",
        ),
        (
            "slurm_job_submit = 5 slurm_job_modify = print",
            "job_submit.lua: the function slurm_job_submit is missing",
        ),
        (
            &(returning(0) + "return 7"),
            "job_submit.lua: the script returned 7 when it was loaded; it must return 0 or nothing",
        ),
        ("error({})", "job_submit.lua: the script raised a table value, not a text"),
        ("\u{1b}Lua", "job_submit.lua: compiled Lua can't be loaded, only its source text"),
    ] {
        assert_eq!(site.refused(text), error, "{text}");
    }
}

#[test]
fn a_missing_file_is_refused() {
    let site = Site::new();
    let error = Script::load(&site.path(), Options::default(), &mut Vec::new()).unwrap_err();
    let text = error.to_string();
    assert!(text.ends_with("job_submit.lua: No such file or directory (os error 2)"), "{text}");
    std::fs::create_dir(site.path()).unwrap();
    let error = Script::load(&site.path(), Options::default(), &mut Vec::new()).unwrap_err();
    assert!(error.to_string().ends_with("not a file"), "{error}");
}

#[test]
fn a_script_may_return_zero_and_begin_with_a_shebang() {
    let site = Site::new();
    let text = format!("#!/usr/bin/lua\n{}return slurm.SUCCESS", returning(5));
    assert_eq!(code(&mut site.load(&text).unwrap()).0, 5);
}

#[test]
fn lines_logged_while_loading_are_kept() {
    let site = Site::new();
    site.write("job_submit.lua", &("slurm.log_info('here')\n".to_owned() + &returning(0)));
    let mut log = Vec::new();
    Script::load(&site.path(), Options::default(), &mut log).unwrap();
    assert_eq!(texts(&log), ["here"]);
}

#[test]
fn a_changed_script_is_loaded_into_a_fresh_state() {
    let site = Site::new();
    let text = "count = (count or 0) + 1\nfunction slurm_job_submit() count = count + 1 return count end\n";
    let mut script = site.load(&(text.to_owned() + MODIFY)).unwrap();
    assert_eq!((code(&mut script).0, code(&mut script).0), (2, 3));
    touch(&site.path());
    let (first, log) = code(&mut script);
    assert_eq!(first, 2);
    assert!(log[0].ends_with("job_submit.lua: loaded again"), "{log:?}");
}

#[test]
fn an_older_file_is_not_loaded_again() {
    let site = Site::new();
    let mut script = site.load(&returning(5)).unwrap();
    site.write("job_submit.lua", &returning(6));
    let file = std::fs::File::options().append(true).open(site.path()).unwrap();
    file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    assert_eq!(code(&mut script).0, 5);
}

#[test]
fn the_old_script_stays_when_the_new_one_is_broken() {
    let site = Site::new();
    let mut script = site.load(&returning(5)).unwrap();
    for broken in
        ["syntax error", "error('x')", "return 7", "slurm_job_submit = nil", "while true do end"]
    {
        site.write("job_submit.lua", broken);
        touch(&site.path());
    }
    site.write("job_submit.lua", "x = = 1");
    touch(&site.path());
    let (first, log) = code(&mut script);
    assert_eq!(first, 5);
    assert!(
        log[0].ends_with("job_submit.lua:1: unexpected symbol near '='; the previous script stays in use until the file changes"),
        "{log:?}"
    );
    // The error is logged only once.
    assert_eq!(code(&mut script), (5, vec![]));
    site.write("job_submit.lua", &returning(6));
    touch(&site.path());
    touch(&site.path());
    assert_eq!(code(&mut script).0, 6);
}

#[test]
fn the_old_script_stays_when_the_file_is_deleted() {
    let site = Site::new();
    let mut script = site.load(&returning(5)).unwrap();
    std::fs::remove_file(site.path()).unwrap();
    let (first, log) = code(&mut script);
    assert_eq!(first, 5);
    assert!(log[0].ends_with("the old script stays in use"), "{log:?}");
    assert_eq!(code(&mut script), (5, vec![]));
    site.write("job_submit.lua", &returning(6));
    touch(&site.path());
    assert_eq!(code(&mut script).0, 6);
}

#[test]
fn a_script_that_deletes_itself_goes_on() {
    let site = Site::new();
    let path = site.path();
    let text = format!(
        "function slurm_job_submit(job_desc) os.remove('{}') job_desc.name = 'x' return 0 end\n{MODIFY}",
        path.display()
    );
    let mut script = site.load(&text).unwrap();
    let (verdict, after) = Request::new(JobDescriptor::default()).submit(&mut script);
    assert_eq!((verdict.code, after.name.as_deref()), (0, Some("x")));
    assert!(!path.exists());
    assert_eq!(code(&mut script).0, 0);
}

#[test]
fn sibling_files_are_required_and_run_once() {
    let site = Site::new();
    site.write("limits.lua", "loads = (loads or 0) + 1\nreturn { most = 10 / 2 }");
    site.write(
        "site.lua",
        "module('site', package.seeall)\nfunction name(n) return 'n' .. limits.most .. n end\nlimits = require 'limits'",
    );
    std::fs::create_dir(site.directory.path().join("lib")).unwrap();
    site.write("lib/init.lua", "return { value = 1 }");
    let text = "local limits = require('limits')
        require 'site'
        local lib = require('lib')
        function slurm_job_submit()
          slurm.log_info(limits.most .. site.name('x') .. lib.value .. loads)
          return 0
        end\n";
    let mut script = site.load(&(text.to_owned() + MODIFY)).unwrap();
    assert_eq!(code(&mut script), (0, vec!["5n5x11".to_owned()]));
    assert_eq!(script.files().len(), 4);
}

#[test]
fn an_error_in_a_sibling_file_names_it() {
    let site = Site::new();
    site.write("other.lua", "return {\n  a = = 1\n}");
    let error = site.refused(&("require 'other'\n".to_owned() + &returning(0)));
    assert_eq!(
        error,
        "job_submit.lua: error loading module 'other' from file 'other.lua':\n\tother.lua:2: unexpected symbol near '='"
    );
}

#[test]
fn the_sandbox_reads_no_files_elsewhere() {
    let elsewhere = Site::new();
    elsewhere.write("secret.lua", "return 'secret'");
    let site = Site::with(Options { sandbox: true, ..Options::default() });
    let text = format!(
        "package.path = '{}/?.lua'\nrequire 'secret'\n{}",
        elsewhere.directory.path().display(),
        returning(0)
    );
    let error = site.refused(&text);
    assert!(error.contains("secret.lua is not in the directory of the script"), "{error}");
    site.write("sibling.lua", "return 5");
    let text = "local five = require 'sibling'\nfunction slurm_job_submit() return five end\n";
    assert_eq!(code(&mut site.load(&(text.to_owned() + MODIFY)).unwrap()).0, 5);
}
