//! Texts that users, plugins and administrators choose are shown as text, in the page and in the report of a
//! simulation.

use jobtap_tests::{clean, jobtap, run, temporary};

use crate::browser::Browser;
use crate::client::{Site, TOKEN};

/// A text that would run, load or hide something if it were taken for more than text: elements, the end of a script or
/// of an attribute, an address that is a script, control characters, and one that changes the direction of text.
const HOSTILE: &str = "\"'><img src=x onerror=document.title='ran'></script><script>document.title='ran'</script>\
     <b class=planted>`${document.title='ran'}` javascript:alert(1)\u{1b}[2J\u{7}\u{202e}\u{0}end";

/// Asserts that nothing in `HOSTILE` has become a part of the page, or was run.
#[track_caller]
fn is_text_only(browser: &Browser, place: &str, title: &str) {
    let planted =
        "document.querySelectorAll('img, .planted, [onerror], a[href^=\"javascript\"]').length";
    assert_eq!(browser.value(planted), 0, "{place}");
    let found = browser.value("document.title");
    assert!(found.as_str().unwrap().contains(title), "{place}: {found}");
    assert!(found != "ran", "{place}");
    assert_eq!(browser.complaints(), [""; 0], "{place}");
}

/// The text without NUL, which no argument of a command can contain.
fn argument() -> String {
    HOSTILE.replace('\0', "")
}

#[test]
fn hostile_texts_are_texts_in_every_view_of_the_page() {
    let Some(browser) = Browser::start() else { return };
    let site = Site::with_token(
        "[queues.'<img src=x onerror=document.title=1>']\n[policy.jobspec.defaults.system]\n\
         queue = '<img src=x onerror=document.title=1>'\n",
    );
    let (m, text) = (&site.m, argument());
    let id = m.submit_args(&["--urgency=hold", &format!("--job-name={text}"), "true"]);
    m.jobtap_args(&["job", "memo", &id, &format!("note={text}")]).ok();
    m.jobtap_args(&["job", "raise", "--severity=5", "-m", &text, &id]).ok();
    let failed = m.submit_args(&["--urgency=hold", &format!("--job-name={text}2"), "true"]);
    m.jobtap_args(&["job", "raise", "-m", &text, &failed]).ok();
    m.wait(&failed, "clean");
    m.jobtap_args(&["queue", "stop", "--all", "-m", &text]).ok();
    m.jobtap_args(&["queue", "disable", "--all", "-m", &text]).ok();
    m.jobtap_args(&["resource", "drain", "0", &text]).ok();
    browser.open(&site.address);
    browser.until_shown("#link", "live");
    browser.click("#token-open");
    browser.enter(TOKEN);
    browser.until_shown("#rights", "owner");
    for (view, shown) in
        [("jobs", "onerror"), ("nodes", "onerror"), ("queues", "onerror"), ("plugins", "")]
    {
        browser.value(&format!("location.hash = '#{view}'"));
        browser.until_shown("#view", shown);
        is_text_only(&browser, view, "jobtap");
    }
    for id in [&id, &failed] {
        let key = m.field(id, "id.dec");
        browser.value(&format!("location.hash = '#jobs/{key}'"));
        browser.until_shown("#job-body", "exception");
        browser.until_shown("#job-body", "onerror");
        is_text_only(&browser, id, "jobtap");
    }
}

#[test]
fn hostile_texts_are_texts_in_a_report() {
    let Some(browser) = Browser::start() else { return };
    let place = temporary();
    // A field of this format has neither its separator nor a line break.
    let text = HOSTILE.replace(['\0', '|'], "");
    let head = "JobIDRaw|User|UID|Account|Partition|Submit|Start|End|TimelimitRaw|NNodes|AllocCPUS|JobName|State";
    let name = "<img src=x onerror=document.title=1>";
    let line = |at: u32| {
        format!(
            "{at}|{text}|{}|{text}|{name}|2024-01-01T00:00:0{at}|2024-01-01T00:00:1{at}|2024-01-01T00:01:00|10|1|1|{text}|COMPLETED\n",
            1000 + at
        )
    };
    let trace: String = (1..6).map(line).collect();
    std::fs::write(place.path().join(format!("{name}.txt")), format!("{head}\n{trace}")).unwrap();
    let config = format!("{name}.toml");
    std::fs::write(
        place.path().join(&config),
        format!("[queues.'{name}']\n[policy.scheduler]\nqueue-policy = \"easy\"\n"),
    )
    .unwrap();
    let mut simulate = clean(jobtap());
    let trace = format!("{name}.txt");
    let words = ["simulate", "--nodes", "4x8", "--trace", &trace, "--config", &config, "-o", "out"];
    run(simulate.current_dir(place.path()).args(words)).ok();
    let report = place.path().join("out/report.html");
    browser.open_url(&format!("file://{}", report.display()));
    browser.until("the charts are drawn", "document.querySelector('canvas, svg') !== null");
    assert!(browser.text("body").contains("onerror"), "the texts are shown");
    is_text_only(&browser, "report.html", "");
}
