//! The page at `/`, in a real browser.

use serde_json::json;

use crate::browser::{Browser, DOWN, ESCAPE};
use crate::client::{Site, TOKEN};

/// The visible rows, as an expression of JavaScript.
const ROWS: &str = "[...document.querySelectorAll('#table .body .row:not([hidden])')]";

fn rows_with(text: &str) -> String {
    format!("{ROWS}.some((row) => row.innerText.includes({text:?}))")
}

/// Opens the page of a manager and waits until it is live.
fn live(browser: &Browser, site: &Site) {
    browser.open(&site.address);
    browser.until_shown("#link", "live");
}

/// Enters the token in the page, as a user does.
fn give_token(browser: &Browser, token: &str) {
    browser.click("#token-open");
    browser.enter(token);
}

#[test]
fn jobs_are_shown_as_they_change() {
    let Some(browser) = Browser::start() else { return };
    let site = Site::open("");
    let before = site.m.submit("--job-name=before true");
    site.m.wait(&before, "clean");
    live(&browser, &site);
    browser.until("jobs of before are listed", &rows_with("before"));
    // A mark that would be lost if the page were loaded again.
    browser.value("document.body.dataset.marked = 'yes'");
    let held = site.m.submit("--job-name=later --urgency=hold true");
    browser.until("a new job is shown", &rows_with("later"));
    let row = format!("{ROWS}.find((row) => row.innerText.includes('later'))");
    assert!(browser.value(&format!("{row}.innerText")).as_str().unwrap().contains("pending"));
    site.m.jobtap(&format!("job urgency {held} 16")).ok();
    browser.until("its end is shown", &format!("{row}.innerText.includes('completed')"));
    browser.until_shown("#shown", "2 jobs");
    assert_eq!(browser.value("document.body.dataset.marked"), "yes");
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn elements_of_an_array_that_are_no_jobs_yet_are_one_row() {
    let Some(browser) = Browser::start() else { return };
    let site = Site::open("");
    let input = site.files.path().join("input");
    std::fs::write(&input, (0..20000).map(|n| format!("{n}\n")).collect::<String>()).unwrap();
    let input = input.display().to_string();
    let words = ["bulksubmit", "--array", "--job-name=sweep", "--urgency=hold"];
    let array = site.m.jobtap_args(&[&words[..], &["true", "{}", "::::", &input]].concat()).ok();
    live(&browser, &site);
    browser.until_shown("#shown", "20,000 jobs");
    browser.until_shown("#summary", "20,000");
    // The elements beside the jobs, found by the words that find jobs.
    browser.click("#filter");
    browser.keys("array sweep");
    let id = array.trim_start_matches(['f', 'ƒ']).to_owned();
    browser.until("the rest is a row", &format!("{ROWS}.length === 1 && {}", rows_with(&id)));
    let row = format!("{ROWS}[0].innerText");
    assert!(browser.value(&row).as_str().unwrap().contains("-19999]"), "{}", browser.value(&row));
    assert!(browser.value(&row).as_str().unwrap().contains("held"), "{}", browser.value(&row));
    // It is no job that could be opened.
    browser.click("#table .body .row");
    assert_eq!(browser.value("document.getElementById('job').hidden"), true);
    site.m.jobtap(&format!("cancel {array}")).ok();
    browser.until_shown("#shown", "0 of");
    assert_eq!(browser.complaints(), [""; 0]);
}

/// The selector of the user in the first row.
const FIRST_USER: &str = "#table .body .row .user";

#[test]
fn users_have_their_names_when_the_directory_has_said_them() {
    let Some(browser) = Browser::start() else { return };
    // A user directory that doesn't respond until the test makes the file `up`.
    let site = Site::with_getent(
        "dir=${0%/*}; echo \"$*\" >> $dir/asked; until [ -e $dir/up ]; do sleep 0.05; done\n\
         [ \"$1\" = passwd ] && echo \"ada:x:$3:100::/:/bin/sh\"",
    );
    let number = jobtap_tests::run(std::process::Command::new("id").arg("-u")).ok();
    let id = site.m.submit("--job-name=waits --urgency=hold true");
    live(&browser, &site);
    browser.until_shown(FIRST_USER, &number);
    let asked = site.files.path().join("asked");
    jobtap_tests::until("the directory is asked", || asked.exists());
    // Meanwhile everything goes on, for the page and for others.
    site.read("job-list.job-stats", json!({})).ok();
    let other = site.m.submit("--job-name=other true");
    site.m.wait(&other, "clean");
    browser.until("the other job is shown", &rows_with("other"));
    assert_eq!(browser.text(FIRST_USER), number);
    std::fs::write(site.files.path().join("up"), "").unwrap();
    browser.until_shown(FIRST_USER, "ada");
    browser.value(&format!("location.hash = '#jobs/' + {ROWS}[0].dataset.key"));
    browser.until_shown("#job-body .facts", "ada");
    // The filter finds users by name, as it finds queues and hosts.
    for (words, found) in [("ada", "2 jobs"), (" -ada", "0 of 2 jobs")] {
        browser.click("#filter");
        browser.keys(words);
        browser.until_shown("#shown", found);
    }
    // Another page gets the name from the manager, which doesn't ask the directory again.
    browser.open(&site.address);
    browser.until_shown(FIRST_USER, "ada");
    let asked = std::fs::read_to_string(asked).unwrap();
    assert_eq!(asked, format!("passwd -- {number}\n"));
    site.m.jobtap(&format!("cancel {id}")).ok();
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn an_unknown_user_stays_a_number() {
    let Some(browser) = Browser::start() else { return };
    let site = Site::with_getent("echo \"$*\" >> ${0%/*}/asked; exit 2");
    let number = jobtap_tests::run(std::process::Command::new("id").arg("-u")).ok();
    site.m.submit("--job-name=waits --urgency=hold true");
    live(&browser, &site);
    browser.until(
        "the manager has answered",
        "performance.getEntriesByType('resource')
        .some((entry) => entry.name.endsWith('job-list.users') && entry.responseEnd > 0)",
    );
    // A change makes the page draw its rows again.
    let other = site.m.submit("--job-name=other true");
    site.m.wait(&other, "clean");
    browser.until("the other job is shown", &rows_with("other"));
    assert_eq!(browser.text(FIRST_USER), number);
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn names_of_jobs_are_text_and_nothing_else() {
    let Some(browser) = Browser::start() else { return };
    let site = Site::with_token("");
    let name = "<img src=x onerror=document.title=1><b id=bold>x</b>";
    site.m.submit_args(&["--urgency=hold", &format!("--job-name={name}"), "true"]);
    live(&browser, &site);
    browser.until("the name is shown as it is", &rows_with(name));
    give_token(&browser, TOKEN);
    browser.until_shown("#rights", "owner");
    browser.click("#table .body .row");
    browser.until_shown("#job-title", name);
    browser.until_shown("#job-body", "submit");
    browser.click("#job-cancel");
    browser.until_shown("#cancel-what", name);
    assert_eq!(browser.value("document.querySelectorAll('img, b#bold').length"), 0);
    assert_eq!(browser.value("document.title"), "Jobs · jobtap");
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn ten_thousand_jobs_are_a_few_rows() {
    let Some(browser) = Browser::start() else { return };
    let site = Site::open("");
    site.m.jobtap("submit --quiet --cc=1-10000 --urgency=hold --job-name=many true").ok();
    live(&browser, &site);
    browser.until_shown("#shown", "10,000 jobs");
    let all = "document.querySelectorAll('#table .body .row').length";
    assert!(browser.value(all).as_u64().unwrap() < 100, "{}", browser.value(all));
    browser.value("document.getElementById('table').scrollTop = 1e9");
    let last = format!("{ROWS}.some((row) => row.getAttribute('aria-rowindex') === '10001')");
    browser.until("the last row is there", &last);
    // Once a user has scrolled, the rows in sight don't move when jobs change.
    let seen = "(() => { const box = document.getElementById('table').getBoundingClientRect();
        return document.elementFromPoint(box.left + 40, box.top + 200).closest('.row')?.dataset.key })()";
    browser.value("document.getElementById('table').scrollTop = 100000");
    browser.until("rows are there", &format!("{seen} !== undefined"));
    let before = browser.value(seen);
    let more = site.m.submit("--job-name=more true");
    site.m.wait(&more, "clean");
    browser.until_shown("#shown", "10,001 jobs");
    assert_eq!(browser.value(seen), before);
    assert!(browser.value(all).as_u64().unwrap() < 100);
    // The words in the filter find a single job.
    browser.click("#filter");
    browser.keys("more completed");
    browser.until_shown("#shown", "1 of 10,001 jobs");
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn a_job_is_explained_and_cancelled_with_the_token() {
    let Some(browser) = Browser::start() else { return };
    let site = Site::with_token("");
    let id = site.m.submit("--job-name=waits --urgency=hold true");
    live(&browser, &site);
    browser.until("the job is shown", &rows_with("waits"));
    browser.click("#table .body .row");
    browser.until_shown("#job-title", "waits");
    browser.until_shown("#job-body .why", "with the token");
    assert_eq!(browser.value("document.getElementById('job-cancel').hidden"), true);
    assert_eq!(browser.text("#rights"), "read-only");

    give_token(&browser, "another-token-0123456789");
    browser.until_shown("#token-error", "the token is another one");
    browser.value("document.getElementById('token').value = ''");
    browser.click("#token");
    browser.enter(TOKEN);
    browser.until_shown("#rights", "owner");
    let why = site.m.jobtap(&format!("job why {id}")).ok();
    // Each line is one of the reasons that `job why` prints.
    jobtap_tests::until("the reasons are shown", || {
        let shown = browser.text("#job-body .why");
        !shown.is_empty() && shown.lines().all(|line| why.contains(line))
    });
    for event in ["submit", "validate", "depend", "priority"] {
        browser.until_shown("#job-body .events", event);
    }
    browser.click("#job-cancel");
    browser.until_shown("#cancel-what", "waits");
    browser.click("#cancel-form button.danger");
    site.m.wait(&id, "clean");
    browser.until_shown("#job-body .sentence", "It was canceled");
    browser.until_shown("#job-body .events", "exception");
    browser.until("it can't be canceled twice", "document.getElementById('job-cancel').hidden");
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn a_reason_leads_to_the_job_that_it_names() {
    let Some(browser) = Browser::start() else { return };
    let site = Site::with_token("");
    let first = site.m.submit("--job-name=first --urgency=hold true");
    let second = site.m.submit(&format!("--job-name=second --dependency=afterok:{first} true"));
    live(&browser, &site);
    give_token(&browser, TOKEN);
    browser.until_shown("#rights", "owner");
    let row = |name: &str| format!("{ROWS}.find((row) => row.innerText.includes({name:?}))");
    browser.until("both are listed", &rows_with("second"));
    // The list itself says what they wait for.
    browser.until(
        "what it waits for",
        &format!("{}.innerText.includes('after-success')", row("second")),
    );
    browser.until("that it is held", &format!("{}.innerText.includes('held')", row("first")));
    // And summed up over all jobs.
    browser.until_shown("#waits", "held");
    browser.until_shown("#waits", "dependency");
    browser.value(&format!("{}.click()", row("second")));
    browser.until_shown("#job-title", "second");
    let text = site.m.jobtap(&format!("job id --to=f58 {first}")).ok();
    browser.until_shown("#job-body .why a", text.trim_start_matches(['f', 'ƒ']));
    browser.click("#job-body .why a");
    browser.until_shown("#job-title", "first");
    // Without the first one, the second would end by itself.
    for job in [second, first] {
        site.m.jobtap(&format!("cancel {job}")).ok();
    }
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn a_manager_without_jobs_says_so() {
    let Some(browser) = Browser::start() else { return };
    let site = Site::open("");
    live(&browser, &site);
    browser.until_shown("#empty", "no jobs yet");
    let id = site.m.submit("--urgency=hold true");
    browser.until("it is gone", "document.getElementById('empty').hidden");
    browser.click("#filter");
    browser.keys("nosuch");
    browser.until_shown("#empty", "No job is like that");
    site.m.jobtap(&format!("cancel {id}")).ok();
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn without_a_configured_token_the_page_only_reads() {
    let Some(browser) = Browser::start() else { return };
    let site = Site::open("");
    site.m.submit("--job-name=waits --urgency=hold true");
    live(&browser, &site);
    browser.until("the job is shown", &rows_with("waits"));
    browser.click("#table .body .row");
    browser.until_shown("#job-body .facts", "Submitted");
    assert_eq!(browser.text("#rights"), "read-only");
    for id in ["token-open", "job-cancel"] {
        assert_eq!(browser.value(&format!("document.getElementById('{id}').hidden")), true, "{id}");
    }
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn private_mode_hides_jobs_from_the_page_too() {
    let Some(browser) = Browser::start() else { return };
    let site = Site::with_token("");
    site.m.submit("--job-name=secret --urgency=hold true");
    live(&browser, &site);
    browser.until("the job is shown", &rows_with("secret"));
    // The open stream ends with the next change.
    site.call("config.load", json!({"access": {"private-mode": true}})).ok();
    site.m.submit("--job-name=secret --urgency=hold true");
    browser.until_shown("#notice", "access.private-mode");
    browser.until("no job is shown", &format!("!{}", rows_with("secret")));
    browser.until("nor how many there are", "!summary.innerText.includes('waiting')");
    browser.value("location.hash = '#plugins'");
    browser.until_shown("#engine", "access.private-mode");
    browser.value("location.hash = '#jobs'");
    give_token(&browser, TOKEN);
    browser.until("the owner sees the jobs", &rows_with("secret"));
    browser.until_shown("#shown", "2 jobs");
    // With the token, the page forgets the jobs.
    browser.click("#token-open");
    browser.until_shown("#notice", "access.private-mode");
    browser.until("no job is shown", &format!("!{}", rows_with("secret")));
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn the_page_is_used_with_the_keyboard_alone() {
    let Some(browser) = Browser::start() else { return };
    let site = Site::open("");
    for name in ["first", "second"] {
        site.m.submit(&format!("--job-name={name} --urgency=hold true"));
    }
    live(&browser, &site);
    browser.until("the jobs are shown", &rows_with("second"));
    browser.keys("/");
    browser.keys("second");
    browser.until_shown("#shown", "1 of 2 jobs");
    browser.keys(DOWN);
    browser.keys(DOWN);
    let active = "document.activeElement.getAttribute('aria-activedescendant')";
    browser.until("a row is active", &format!("{active} === 'table-0'"));
    browser.enter("");
    browser.until_shown("#job-title", "second");
    browser.keys(ESCAPE);
    browser.until("the job is closed", "document.getElementById('job').hidden");
    assert_eq!(browser.value("document.activeElement.id"), "table");
    for (key, view) in [("2", "nodes"), ("3", "queues"), ("4", "plugins"), ("1", "jobs")] {
        browser.keys(key);
        browser.until(view, &format!("!document.getElementById('{view}').hidden"));
        let current = browser.text("nav a[aria-current]").to_lowercase();
        assert_eq!(current, view);
    }
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn nodes_queues_and_plugins_are_shown() {
    let Some(browser) = Browser::start() else { return };
    let site = Site::open("[queues.batch]\n[queues.debug]\n");
    site.m.jobtap("queue start --queue=batch").ok();
    site.m.jobtap("queue stop --queue=debug --message=repair").ok();
    let id = site.m.submit("--queue=batch --job-name=sleeps sleep 600");
    site.m.wait(&id, "start");
    site.m.jobtap("resource drain 0 disk").ok();
    live(&browser, &site);
    browser.value("location.hash = '#nodes'");
    browser.until_shown("#gantt .body", "drained: disk");
    browser.until_shown("#gantt .body", "1 job running");
    site.m.jobtap("resource undrain 0").ok();
    browser.until_shown("#gantt .body", "up, 1 of 4 cores");
    site.m.jobtap("resource drain 0 disk").ok();
    browser.until_shown("#summary", "1/4");
    // The bar of the job is painted, in its color.
    let painted = "(() => { const canvas = document.querySelector('#gantt .body canvas');
        const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
        return data.some((value) => value > 0) })()";
    browser.until("the canvas is painted", painted);
    browser.value("location.hash = '#queues'");
    browser.until_shown("#queue-table", "stopped: repair");
    // The job has one of the four cores, and the only node is drained.
    let bars = "[...document.querySelectorAll('#queue-table .share')].map((bar) => bar.ariaLabel)";
    for words in ["1 of 1 nodes, 1 down", "1 of 4 cores, 4 down"] {
        browser.until(words, &format!("{bars}.includes({words:?})"));
    }
    browser.value("location.hash = '#plugins'");
    browser.until_shown("#plugin-table", ".priority-default");
    browser.click("#plugin-table button");
    browser.until_shown("#plugin-table .part", "job.");
    browser.until_shown("#engine", "all plugins in service");
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn a_plugin_out_of_service_is_seen() {
    let Some(browser) = Browser::start() else { return };
    let site = Site::of_probe();
    site.m.jobtap("plugin load probe").ok();
    live(&browser, &site);
    browser.value("location.hash = '#plugins'");
    browser.until_shown("#engine", "all plugins in service");
    let row = "tr:has([data-plugin=probe])";
    browser.until_shown(row, "in service");
    for _ in 0..3 {
        assert_eq!(site.m.jobtap("submit --setattr=probe.panic=1 true").code, 1);
    }
    browser.until_shown("#engine", "1 plugin out of service");
    browser.until_shown(row, "out of service");
    browser.until("it stands out", &format!("document.querySelector('{row}').matches('.faulted')"));
    let panics = browser.value(&format!("document.querySelector('{row}').children[5].innerText"));
    assert_eq!(panics, "3");
}

#[test]
fn a_token_that_is_refused_is_named() {
    let Some(browser) = Browser::start() else { return };
    let site = Site::with_token("");
    site.m.submit("--urgency=hold true");
    live(&browser, &site);
    browser.until_shown("#shown", "1 job");
    // As after the token has been replaced.
    browser.value("sessionStorage.setItem('jobtap-token', 'another-token-0123456789')");
    browser.open(&site.address);
    browser.until_shown("#notice", "the token is another one");
    assert_eq!(browser.text("#shown"), "0 jobs");
    browser.click("#token-open");
    browser.until_shown("#link", "live");
    browser.until_shown("#shown", "1 job");
    assert_eq!(browser.value("document.getElementById('notice').hidden"), true);
}

/// Each color that the style sheet has for text must have the contrast of WCAG with each background on which it is
/// used.
#[test]
fn colors_have_contrast_in_light_and_dark() {
    let Some(browser) = Browser::start() else { return };
    let site = Site::open("");
    live(&browser, &site);
    let contrast = "(() => {
        const style = getComputedStyle(document.documentElement);
        const light = (name) => {
            const hex = style.getPropertyValue('--' + name).trim();
            const [r, g, b] = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16) / 255)
                .map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
            return 0.2126 * r + 0.7152 * g + 0.0722 * b;
        };
        const texts = ['text', 'quiet', 'running', 'ending', 'pending', 'waiting', 'completed', 'failed',
            'timeout', 'canceled'];
        const low = [];
        for (const text of texts) for (const ground of ['panel', 'odd', 'back', 'hover', 'chosen']) {
            const [a, b] = [light(text), light(ground)].sort((x, y) => y - x);
            const ratio = (a + 0.05) / (b + 0.05);
            if (!(ratio >= 4.5)) low.push(`${text} on ${ground}: ${ratio.toFixed(2)}`);
        }
        return low;
    })()";
    let ground = "getComputedStyle(document.body).backgroundColor";
    let mut grounds = Vec::new();
    for scheme in ["light", "dark"] {
        browser.prefer(scheme);
        assert_eq!(browser.value(contrast), json!([]), "{scheme}");
        grounds.push(browser.value(ground));
    }
    assert_ne!(grounds[0], grounds[1]);
}

#[test]
fn only_the_files_of_the_page_need_no_token_and_have_a_policy() {
    let site = Site::with_token("");
    for path in ["/", "/page/main.js", "/page/page.css", "/page/icon.svg"] {
        let reply = site.get(path);
        assert_eq!(reply.status, 200, "{reply:?}");
        for part in ["default-src 'none'; script-src 'self'", "require-trusted-types-for 'script'"]
        {
            assert!(reply.header.contains(part), "{reply:?}");
        }
        assert!(!reply.header.contains("unsafe"), "{reply:?}");
        assert!(!reply.text.contains(TOKEN), "{path}");
        site.ask(&format!("POST {path}"), &[], "").refused(405, 22);
    }
    let document = site.get("/").text;
    assert!(document.contains("data-token=\"configured\"") && !document.contains("style="));
    assert!(Site::open("").get("/").text.contains("data-token=\"none\""));
    // A link of another site may lead to the page, but no other site may use its files.
    let elsewhere = ["Sec-Fetch-Site: cross-site"];
    assert_eq!(site.ask("GET /", &elsewhere, "").status, 200);
    site.ask("GET /page/main.js", &elsewhere, "").refused(403, 13);
    site.get("/page/").refused(404, 2);
    site.get("/page/../page/main.js").refused(404, 2);
}
