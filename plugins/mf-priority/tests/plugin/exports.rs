//! Files of flux-accounting: the same data from what `flux account export-json` prints, from the folder that
//! `flux account export-db` fills, and from the database; and what is said about files that can't be used.

use std::path::{Path, PathBuf};

use jobtap_core::testing::TestManager;
use mf_priority::MfPriority;
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::site::{Site, association, job, queue};

/// The tables in SQL, with some of the columns that the plugin doesn't use, and in another order.
const TABLES: &str = "
PRAGMA user_version = 38;
CREATE TABLE association_table (
    active INTEGER, username TEXT, userid INTEGER, bank TEXT, default_bank TEXT, shares INTEGER, fairshare REAL,
    max_running_jobs INTEGER, max_active_jobs INTEGER, max_nodes INTEGER, max_cores INTEGER, queues TEXT,
    projects TEXT, default_project TEXT, max_sched_jobs INTEGER, PRIMARY KEY (username, bank));
CREATE TABLE bank_table (bank_id INTEGER PRIMARY KEY, bank TEXT, active INTEGER, priority REAL);
CREATE TABLE queue_table (
    queue TEXT PRIMARY KEY, min_nodes_per_job INTEGER, max_nodes_per_job INTEGER, max_time_per_job INTEGER,
    priority INTEGER, max_running_jobs INTEGER, max_nodes_per_assoc INTEGER, max_sched_jobs INTEGER,
    max_sched_nodes_per_assoc INTEGER, max_sched_cores_per_assoc INTEGER, max_nodes INTEGER);
CREATE TABLE project_table (project_id INTEGER PRIMARY KEY, project TEXT);
CREATE TABLE priority_factor_weight_table (factor TEXT PRIMARY KEY, weight INTEGER);
CREATE TABLE config_table (key TEXT PRIMARY KEY, value TEXT);
INSERT INTO association_table VALUES
    (1, 'ann', 5001, 'B', 'B', 1, 0.75, 5, 7, 2147483647, 2147483647, 'batch,debug', 'fusion,*', 'fusion', 2147483647),
    (1, 'ann', 5001, 'A', 'B', 1, 1, 2, 9, 2147483647, 2147483647, '', '*', '*', 11),
    (0, 'bob', 4294967295, 'A', 'A', 1, 0.5, 5, 7, 16, 64, '', '*', '*', 2147483647);
INSERT INTO bank_table VALUES (1, 'A', 1, 0.0), (2, 'B', 1, 2.5);
INSERT INTO queue_table VALUES
    ('batch', 0, 2147483647, 2147483647, 10, 20, 2147483647, 2147483647, 2147483647, 2147483647, 99);
INSERT INTO project_table VALUES (1, '*'), (2, 'fusion');
INSERT INTO priority_factor_weight_table VALUES ('fairshare', 1000), ('bank', 100), ('urgency', 1);
INSERT INTO config_table VALUES ('decay_factor', '0.5'), ('deny_unknown_queues', 'true');
";

/// The same in the form of `flux account export-json`.
fn exported() -> Value {
    let own = json!({
        "def_bank": "B", "fairshare": 0.75, "queues": "batch,debug", "projects": "fusion,*", "def_project": "fusion",
    });
    let second = json!({
        "def_bank": "B", "fairshare": 1, "max_running_jobs": 2, "max_active_jobs": 9, "max_sched_jobs": 11
    });
    let disabled = json!({"active": 0, "max_nodes": 16, "max_cores": 64});
    json!({
        "associations": [
            association(5001, "B", own), association(5001, "A", second), association(u32::MAX, "A", disabled),
        ],
        "queues": [queue("batch", 10, json!({"max_running_jobs": 20}))],
        "projects": [{"project": "*"}, {"project": "fusion"}],
        "banks": [{"bank": "A", "priority": 0.0}, {"bank": "B", "priority": 2.5}],
        "priority_factors": [
            {"factor": "fairshare", "weight": 1000}, {"factor": "bank", "weight": 100}, {"factor": "urgency", "weight": 1},
        ],
        "config": {"deny_unknown_queues": true},
    })
}

/// A place of its own for each test.
fn place(name: &str) -> PathBuf {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("exports").join(name);
    if place.exists() {
        std::fs::remove_dir_all(&place).unwrap();
    }
    std::fs::create_dir_all(&place).unwrap();
    place
}

/// A database, after these changes.
fn database(name: &str, changes: &str) -> PathBuf {
    let file = place(name).join("FluxAccounting.db");
    let database = Connection::open(&file).unwrap();
    database.execute_batch(TABLES).unwrap();
    database.execute_batch(changes).unwrap();
    file
}

/// The files of that database, as `flux account export-db` writes them.
fn folder(name: &str) -> PathBuf {
    let place = place(name);
    let files = [
        (
            "association_table",
            "creation_time,active,username,userid,bank,default_bank,fairshare,max_running_jobs,max_active_jobs,\
             max_nodes,max_cores,queues,projects,default_project,max_sched_jobs\n\
             1796055093,1,ann,5001,B,B,0.75,5,7,2147483647,2147483647,\"batch,debug\",\"fusion,*\",fusion,2147483647\n\
             1796055093,1,ann,5001,A,B,1,2,9,2147483647,2147483647,,*,*,11\n\
             1796055093,0,bob,4294967295,A,A,0.5,5,7,16,64,,*,*,2147483647\n",
        ),
        ("bank_table", "bank_id,bank,active,priority\r\n1,A,1,0.0\r\n2,B,1,2.5\r\n"),
        (
            "queue_table",
            "queue,min_nodes_per_job,max_nodes_per_job,max_time_per_job,priority,max_running_jobs,max_nodes_per_assoc,\
             max_sched_jobs,max_sched_nodes_per_assoc,max_sched_cores_per_assoc,max_nodes\n\
             batch,0,2147483647,2147483647,10,20,2147483647,2147483647,2147483647,2147483647,99\n",
        ),
        ("project_table", "project_id,project\n1,*\n2,fusion\n"),
        ("priority_factor_weight_table", "factor,weight\nfairshare,1000\nbank,100\nurgency,1\n"),
        ("config_table", "key,value\ndecay_factor,0.5\ndeny_unknown_queues,true\ntest,\"a,b\"\n"),
    ];
    for (table, text) in files {
        std::fs::write(place.join(format!("{table}.csv")), text).unwrap();
    }
    place
}

fn config(file: &Path, weights: Value) -> Value {
    json!({
        "job-manager": {"plugins": [{"load": "mf_priority"}]},
        "plugins": {"mf_priority": {"config-file": file, "weights": weights}},
    })
}

fn site(file: &Path) -> Site {
    Site(TestManager::new().plugin::<MfPriority>().config(config(file, json!({}))).start())
}

#[track_caller]
fn refused(file: &Path, text: &str) {
    let config = config(file, json!({}));
    let refused = TestManager::new().plugin::<MfPriority>().config(config).try_start();
    let said = refused.map(drop).unwrap_err().to_string();
    assert!(said.contains(text), "{said:?} doesn't contain {text:?}");
    assert!(said.contains(file.to_str().unwrap()), "{said:?} doesn't name the file");
}

#[test]
fn all_kinds_of_files_give_the_same_data() {
    let printed = place("all").join("accounting.json");
    std::fs::write(&printed, exported().to_string()).unwrap();
    let files = [printed, folder("all-csv"), database("all-db", "")];
    let shown = files.map(|file| {
        let mut site = site(&file);
        site.0.hold_scheduling().unwrap();
        let jobs = [job(5001), job(5001).attribute("bank", "A")].map(|job| site.submit(job));
        assert_eq!(jobs.map(|id| site.priority(id)), [Some(1000), Some(1000)], "{file:?}");
        assert!(site.refusal(job(u32::MAX)).contains("disabled"));
        let mut config = config(&file, json!({}));
        config["queues"] = json!({"x": {}});
        let mut other = Site(TestManager::new().plugin::<MfPriority>().config(config).start());
        let unknown = other.refusal(job(5001).queue("x"));
        assert!(unknown.contains("unknown to flux-accounting"), "{file:?}: {unknown}");
        site.0.query_plugin("mf_priority").unwrap()
    });
    assert_eq!(shown[0]["mf_priority_map"][0]["banks"][1]["projects"], json!(["fusion", "*"]));
    assert_eq!(shown[0], shown[1]);
    assert_eq!(shown[0], shown[2]);
}

#[test]
fn the_configurations_weights_go_before_those_of_the_data() {
    let file = database("weights", "");
    let config = config(&file, json!({"fairshare": 10, "urgency": 0}));
    let mut site = Site(TestManager::new().plugin::<MfPriority>().config(config).start());
    site.0.hold_scheduling().unwrap();
    let first = site.submit(job(5001).urgency(9));
    assert_eq!(site.priority(first), Some(258), "0.75 * 10 + 2.5 * 100, rounded");
    let sent = json!([{"factor": "fairshare", "weight": 7000}, {"factor": "bank", "weight": 10}]);
    site.send("rec_fac_update", sent);
    site.reprioritize();
    assert_eq!(site.priority(first), Some(33), "only the weight of banks is free");
}

#[test]
fn a_weight_that_is_none_is_refused() {
    let file = database("no-weight", "");
    let config = config(&file, json!({"fairshares": 10}));
    let refused = TestManager::new().plugin::<MfPriority>().config(config).try_start();
    let said = refused.map(drop).unwrap_err().to_string();
    assert!(said.contains("fairshares") && said.contains("weights"), "{said}");
}

#[test]
fn names_are_relative_to_the_configuration() {
    let file = database("relative", "");
    let (directory, name) = (file.parent().unwrap(), file.file_name().unwrap());
    let builder = TestManager::new().plugin::<MfPriority>().config_directory(directory);
    let mut site = Site(builder.config(config(Path::new(name), json!({}))).start());
    assert_eq!(site.first()["bank_name"], "A");
}

#[test]
fn a_database_that_others_use_can_be_read_unless_one_is_writing() {
    let file = database("in-use", "");
    let other = Connection::open(&file).unwrap();
    other.execute_batch("BEGIN IMMEDIATE; DELETE FROM bank_table").unwrap();
    drop(site(&file));
    other.execute_batch("ROLLBACK; BEGIN EXCLUSIVE; DELETE FROM bank_table").unwrap();
    refused(&file, "the database is in use: a program is writing to it");
    other.execute_batch("ROLLBACK").unwrap();
    drop(site(&file));
    other
        .execute_batch("PRAGMA journal_mode = WAL; BEGIN EXCLUSIVE; DELETE FROM bank_table")
        .unwrap();
    drop(site(&file));
}

#[test]
fn reading_changes_nothing_in_the_database() {
    let file = database("read-only", "");
    let before = std::fs::read(&file).unwrap();
    drop(site(&file));
    assert_eq!(std::fs::read(&file).unwrap(), before);
    assert_eq!(file.parent().unwrap().read_dir().unwrap().count(), 1, "and nothing beside it");
}

#[test]
fn what_is_wrong_in_a_database_is_named() {
    let cases = [
        ("PRAGMA user_version = 39", "have version 39, and only 38 can be read"),
        ("DROP TABLE bank_table", "the database has no table bank_table"),
        (
            "ALTER TABLE queue_table DROP COLUMN priority",
            "table queue_table has no column priority",
        ),
        (
            "UPDATE association_table SET fairshare = NULL WHERE bank = 'A' AND username = 'ann'",
            "table association_table, row 2, column fairshare: NULL is no number",
        ),
        (
            "UPDATE association_table SET max_nodes = 'many'",
            "table association_table, row 1, column max_nodes: \"many\" is no integer",
        ),
        (
            "UPDATE association_table SET max_cores = 1.5",
            "table association_table, row 1, column max_cores: 1.5 is no integer",
        ),
        (
            "UPDATE association_table SET userid = -1",
            "table association_table, row 1, column userid: -1 is no number of a user",
        ),
        (
            "UPDATE association_table SET fairshare = 9e999",
            "table association_table, row 1, column fairshare: inf is no number",
        ),
        (
            "UPDATE project_table SET project = x'ff00'",
            "table project_table, row 1, column project: a blob of 2 bytes is no text",
        ),
        (
            "UPDATE config_table SET value = 'perhaps'",
            "table config_table: deny_unknown_queues is \"perhaps\", and neither true nor false",
        ),
    ];
    for (number, (changes, text)) in cases.into_iter().enumerate() {
        refused(&database(&format!("wrong-{number}"), changes), text);
    }
}

#[test]
fn a_database_that_is_cut_off_is_refused() {
    let file = database("cut", "");
    let whole = std::fs::read(&file).unwrap();
    // Its last page may be one that nobody needs.
    for length in (16..whole.len() - 4096).step_by(1024) {
        std::fs::write(&file, &whole[..length]).unwrap();
        refused(&file, "FluxAccounting.db: ");
    }
}

#[test]
fn what_is_wrong_in_a_folder_is_named() {
    let folder = folder("wrong-folder");
    let file = |table: &str| folder.join(format!("{table}.csv"));
    let change = |table: &str, from: &str, to: &str, text: &str| {
        let whole = std::fs::read_to_string(file(table)).unwrap();
        std::fs::write(file(table), whole.replace(from, to)).unwrap();
        refused(&folder, text);
        refused(&folder, &format!("{table}.csv: "));
        std::fs::write(file(table), whole).unwrap();
    };
    let text = "table association_table, line 3, column fairshare: \"\" is no number";
    change("association_table", "A,B,1,", "A,B,,", text);
    change(
        "association_table",
        ",bob,4294967295",
        ",bob,-1",
        "column userid: \"-1\" is no number of a user",
    );
    change("queue_table", ",priority,", ",prio,", "table queue_table has no column priority");
    change("bank_table", "B,1,2.5", "B,1", "the previous record has 4 fields");
    change("bank_table", "2.5", "inf", "column priority: \"inf\" is no number");
    std::fs::remove_file(file("project_table")).unwrap();
    refused(&folder, "project_table.csv: No such file");
}

#[test]
fn what_is_no_export_is_refused() {
    let place = place("none");
    let cases = [
        ("cut.json", "{", "EOF while parsing an object"),
        ("list.csv", "userid,bank\n1,A\n", "`flux account export-json`"),
        (
            "row.json",
            r#"{"associations": [{"userid": 1}]}"#,
            "associations[0]: missing field `bank`",
        ),
        ("no-table.json", r#"{"queues": 1}"#, "queues data is NULL or not an array"),
    ];
    for (name, content, text) in cases {
        std::fs::write(place.join(name), content).unwrap();
        refused(&place.join(name), text);
    }
    refused(&place.join("missing.json"), "No such file");
}
