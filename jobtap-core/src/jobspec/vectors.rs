//! The example jobspecs of RFC 25 and RFC 14, as JSON: the former are version 1 and must pass, the
//! latter are canonical jobspecs that version 1 doesn't know and must be refused by name.

use super::{Counts, Jobspec};

/// Name, jobspec, and `nnodes, nslots, slot_size, slot_gpus, ntasks`.
const V1: &[(&str, &str, [u64; 5])] = &[
    (
        "spec_25/example1",
        r#"{"version":1,"resources":[{"type":"node","count":4,"with":[{"type":"slot",
           "count":1,"label":"default","with":[{"type":"core","count":2}]}]}],"tasks":[{"command":[
           "app"],"slot":"default","count":{"per_slot":1}}],"attributes":{"system":{"duration":3600.0,
           "cwd":"/home/flux","environment":{"HOME":"/home/flux"}}}}"#,
        [4, 4, 2, 0, 4],
    ),
    (
        "spec_25/use_case_1.1",
        r#"{"version":1,"resources":[{"type":"node","count":4,"with":[{"type":"slot",
           "count":1,"label":"default","with":[{"type":"core","count":1}]}]}],"tasks":[{"command":[
           "flux","start"],"slot":"default","count":{"per_slot":1}}],"attributes":{"system":{
           "duration":3600.0,"cwd":"/home/flux","environment":{"HOME":"/home/flux"}}}}"#,
        [4, 4, 1, 0, 4],
    ),
    (
        "spec_25/use_case_2.1",
        r#"{"version":1,"resources":[{"type":"node","count":4,"with":[{"type":"slot",
           "count":1,"label":"myslot","with":[{"type":"core","count":1}]}]}],"tasks":[{"command":[
           "hostname"],"slot":"myslot","count":{"total":5}}],"attributes":{"system":{"duration":3600.0,
           "cwd":"/home/flux","environment":{"HOME":"/home/flux"}}}}"#,
        [4, 4, 1, 0, 5],
    ),
    (
        "spec_25/use_case_2.2",
        r#"{"version":1,"resources":[{"type":"slot","label":"default","count":10,"with":[{"type":"core",
           "count":2}]}],"tasks":[{"command":["myapp"],"slot":"default","count":{"per_slot":1}}],
           "attributes":{"system":{"duration":3600.0,"cwd":"/home/flux","environment":{"HOME":"/home/flux"}}}}"#,
        [0, 10, 2, 0, 10],
    ),
    (
        "spec_25/use_case_2.3",
        r#"{"version":1,"resources":[{"type":"slot","count":10,"label":"default","with":[{"type":"core",
           "count":2},{"type":"gpu","count":1}]}],"tasks":[{"command":["myapp"],"slot":"default",
           "count":{"per_slot":1}}],"attributes":{"system":{"duration":3600.0,"cwd":"/home/flux",
           "environment":{"HOME":"/home/flux"}}}}"#,
        [0, 10, 2, 1, 10],
    ),
    (
        "spec_25/use_case_2.4",
        r#"{"version":1,"resources":[{"type":"node","count":4,"with":[{"type":"slot",
           "count":4,"label":"default","with":[{"type":"core","count":1},{"type":"gpu",
           "count":1}]}]}],"tasks":[{"command":["myapp"],"slot":"default","count":{"per_slot":1}}],
           "attributes":{"system":{"duration":3600.0,"cwd":"/home/flux","environment":{"HOME":"/home/flux"}}}}"#,
        [4, 16, 1, 1, 16],
    ),
    (
        "spec_14/example1",
        r#"{"version":1,"resources":[{"type":"node","count":4,"with":[{"type":"slot",
           "count":1,"label":"default","with":[{"type":"core","count":2}]}]}],"tasks":[{"command":[
           "app"],"slot":"default","count":{"per_slot":1}}],"attributes":{"system":{"duration":3600.0,
           "cwd":"/home/flux","environment":{"HOME":"/home/flux"}}}}"#,
        [4, 4, 2, 0, 4],
    ),
];

/// Name, jobspec, and its refusal once it claims version 1 (all but the first say 999); empty for
/// one that is version 1 in all but the number.
const CANONICAL: &[(&str, &str, &str)] = &[
    (
        "spec_14/example2",
        r#"{"version":1,"resources":[{"type":"slot","count":4,"label":"default","with":[{"type":"node",
           "count":1}]}],"tasks":[{"command":["hostname"],"slot":"default","count":{"per_slot":1}}],
           "attributes":{"system":{"duration":3600.0,"cwd":"/home/flux","environment":{"HOME":"/home/flux"}}}}"#,
        "resources[0].with[0]: a slot holds cores and gpus only, not 'node'",
    ),
    (
        "spec_14/use_case_1.1",
        r#"{"version":999,"resources":[{"type":"slot","count":4,"label":"default",
           "with":[{"type":"node","count":1}]}],"tasks":[{"command":["flux","start"],
           "slot":"default","count":{"per_slot":1}}],"attributes":{"system":{"duration":3600.0,
           "cwd":"/home/flux","environment":{"HOME":"/home/flux"}}}}"#,
        "resources[0].with[0]: a slot holds cores and gpus only, not 'node'",
    ),
    (
        "spec_14/use_case_1.2",
        r#"{"version":999,"resources":[{"type":"slot","count":{"min":3,"max":30,"operator":"+",
           "operand":1},"label":"default","with":[{"type":"node","count":1}]}],"tasks":[{"command":[
           "flux","start"],"slot":"default","count":{"per_slot":1}}],"attributes":{"system":{
           "duration":3600.0,"cwd":"/home/flux","environment":{"HOME":"/home/flux"}}}}"#,
        "resource count must be an integer for type 'slot' (got 'dict')",
    ),
    (
        "spec_14/use_case_1.3",
        r#"{"version":999,"resources":[{"type":"slot","count":4,"label":"nodelevel",
           "with":[{"type":"node","exclusive":false,"count":1,"with":[{"type":"socket",
           "count":{"min":2},"with":[{"type":"core","count":{"min":4}}]}]}]}],"tasks":[{"command":[
           "flux","start"],"slot":"nodelevel","count":{"per_slot":1}}],"attributes":{"system":{
           "duration":3600.0,"cwd":"/home/flux","environment":{"HOME":"/home/flux"}}}}"#,
        "resources[0].with[0]: a slot holds cores and gpus only, not 'node'",
    ),
    (
        "spec_14/use_case_1.4",
        r#"{"version":999,"resources":[{"type":"slot","count":4,"label":"nodelevel",
           "with":[{"type":"node","count":1,"with":[{"type":"socket","count":2,"with":[{"type":"core",
           "count":4}]}]}]}],"tasks":[{"command":["flux","start"],"slot":"nodelevel",
           "count":{"per_slot":1}}],"attributes":{"system":{"duration":3600.0,"cwd":"/home/flux",
           "environment":{"HOME":"/home/flux"}}}}"#,
        "resources[0].with[0]: a slot holds cores and gpus only, not 'node'",
    ),
    (
        "spec_14/use_case_1.5",
        r#"{"version":999,"resources":[{"type":"cluster","count":1,"with":[{"type":"slot",
           "count":2,"label":"ib","with":[{"type":"node","count":1,"with":[{"type":"memory",
           "count":4,"unit":"GB"},{"type":"ib10g","count":1}]}]}]},{"type":"switch",
           "count":1,"with":[{"type":"slot","count":2,"label":"bicore","with":[{"type":"node",
           "count":1,"with":[{"type":"core","count":2}]}]}]}],"tasks":[{"command":["flux",
           "start"],"slot":"ib","count":{"per_slot":1}},{"command":["flux","start"],
           "slot":"bicore","count":{"per_slot":1}}],"attributes":{"system":{"duration":14400.0,
           "cwd":"/home/flux","environment":{"HOME":"/home/flux"}}}}"#,
        "resources must have exactly one entry",
    ),
    (
        "spec_14/use_case_1.6",
        r#"{"version":999,"resources":[{"type":"cluster","count":2,"with":[{"type":"slot",
           "count":1,"label":"default","with":[{"type":"node","count":{"min":1},"exclusive":false,
           "with":[{"type":"core","count":30}]}]}]}],"tasks":[{"command":["flux","start"],
           "slot":"default","count":{"per_resource":{"type":"node","count":1}}}],"attributes":{
           "system":{"duration":3600.0,"cwd":"/home/flux","environment":{"HOME":"/home/flux"}}}}"#,
        "resources[0]: a jobspec of version 1 begins with a node or a slot, not with 'cluster'",
    ),
    (
        "spec_14/use_case_1.7",
        r#"{"version":999,"resources":[{"type":"switch","count":3,"with":[{"type":"slot",
           "count":1,"label":"default","with":[{"type":"node","count":{"min":1},"exclusive":false,
           "with":[{"type":"core","count":1}]}]}]}],"tasks":[{"command":["flux","start"],
           "slot":"default","count":{"per_resource":{"type":"node","count":1}}}],"attributes":{
           "system":{"duration":3600.0,"cwd":"/home/flux","environment":{"HOME":"/home/flux"}}}}"#,
        "resources[0]: a jobspec of version 1 begins with a node or a slot, not with 'switch'",
    ),
    (
        "spec_14/use_case_1.8",
        r#"{"version":999,"resources":[{"type":"slot","count":"4,9,16,25","label":"default",
           "with":[{"type":"node","count":1}]}],"tasks":[{"command":["flux","start"],
           "slot":"default","count":{"per_slot":1}}],"attributes":{"system":{"duration":3600.0,
           "cwd":"/home/flux","environment":{"HOME":"/home/flux"}}}}"#,
        "resource count must be an integer for type 'slot' (got 'str')",
    ),
    (
        "spec_14/use_case_2.1",
        r#"{"version":999,"resources":[{"type":"slot","label":"default","count":4,
           "with":[{"type":"node","count":1}]}],"tasks":[{"command":["hostname"],"slot":"default",
           "count":{"per_slot":5}}],"attributes":{"system":{"duration":3600.0,"cwd":"/home/flux",
           "environment":{"HOME":"/home/flux"}}}}"#,
        "resources[0].with[0]: a slot holds cores and gpus only, not 'node'",
    ),
    (
        "spec_14/use_case_2.2",
        r#"{"version":999,"resources":[{"type":"slot","count":4,"label":"myslot","with":[{"type":"node",
           "count":1}]}],"tasks":[{"command":["hostname"],"slot":"myslot","count":{"total":5}}],
           "attributes":{"system":{"duration":3600.0,"cwd":"/home/flux","environment":{"HOME":"/home/flux"}}}}"#,
        "resources[0].with[0]: a slot holds cores and gpus only, not 'node'",
    ),
    (
        "spec_14/use_case_2.3",
        r#"{"version":999,"resources":[{"type":"slot","label":"default","count":10,
           "with":[{"type":"core","count":2}]}],"tasks":[{"command":["myapp"],"slot":"default",
           "count":{"per_slot":1}}],"attributes":{"system":{"duration":3600.0,"cwd":"/home/flux",
           "environment":{"HOME":"/home/flux"}}}}"#,
        "",
    ),
    (
        "spec_14/use_case_2.4",
        r#"{"version":999,"resources":[{"type":"node","count":1,"with":[{"type":"slot",
           "label":"read-db","count":10,"with":[{"type":"core","count":1},{"type":"memory",
           "count":4,"unit":"GB"}]},{"type":"slot","label":"db","count":1,"with":[{"type":"core",
           "count":6},{"type":"memory","count":24,"unit":"GB"}]}]}],"tasks":[{"command":["read-db"],
           "slot":"read-db","count":{"per_slot":1}},{"command":["db"],"slot":"db",
           "count":{"per_slot":1}}],"attributes":{"system":{"duration":3600.0,"cwd":"/home/flux",
           "environment":{"HOME":"/home/flux"}}}}"#,
        "resources[0]: a node holds exactly one slot",
    ),
    (
        "spec_14/use_case_2.5",
        r#"{"version":999,"resources":[{"type":"slot","label":"default","count":10,
           "with":[{"type":"memory","count":{"min":2},"unit":"GB"},{"type":"core",
           "count":1}]}],"tasks":[{"command":["app"],"slot":"default","count":{"per_slot":1}}],
           "attributes":{"system":{"duration":3600.0,"cwd":"/home/flux","environment":{"HOME":"/home/flux"}}}}"#,
        "resources[0].with[0]: a slot holds cores and gpus only, not 'memory'",
    ),
    (
        "spec_14/use_case_2.6",
        r#"{"version":999,"resources":[{"type":"slot","label":"4GB-node","count":2,
           "with":[{"type":"node","count":1,"with":[{"type":"memory","count":{"min":4},
           "unit":"GB"}]}]}],"tasks":[{"command":["app"],"slot":"4GB-node","count":{"total":10}}],
           "attributes":{"system":{"duration":3600.0,"cwd":"/home/flux","environment":{"HOME":"/home/flux"}}}}"#,
        "resources[0].with[0]: a slot holds cores and gpus only, not 'node'",
    ),
    (
        "spec_14/use_case_2.7",
        r#"{"version":999,"resources":[{"type":"slot","count":1,"label":"default",
           "with":[{"type":"node","count":1}]}],"tasks":[{"command":["flux","start"],
           "slot":"default","count":{"per_slot":1}},{"command":["flux","start"],"slot":"default",
           "count":{"per_slot":1},"attributes":{"environment":{"FOO":null,"BAR":"2"}}}],
           "attributes":{"system":{"duration":3600.0,"cwd":"/home/flux","environment":{"FOO":"/tmp",
           "BAR":"1"}}}}"#,
        "resources[0].with[0]: a slot holds cores and gpus only, not 'node'",
    ),
    (
        "spec_14/use_case_2.8",
        r#"{"version":999,"resources":[{"type":"slot","count":1,"label":"default",
           "with":[{"type":"node","count":1}]}],"tasks":[{"command":["flux","start"],
           "slot":"default","count":{"per_slot":1}}],"attributes":{"system":{"duration":3600.0,
           "cwd":"/home/flux","dependencies":[{"type":"in","scope":"user","scheme":"fluid",
           "value":"hungry-hippo-white-elephant"},{"type":"in","scope":"user","scheme":"string",
           "value":"foo"},{"type":"out","scope":"user","scheme":"string","value":"bar"}]}}}"#,
        "resources[0].with[0]: a slot holds cores and gpus only, not 'node'",
    ),
    (
        "spec_14/use_case_2.9",
        r#"{"version":999,"resources":[{"type":"slot","count":1,"label":"default",
           "with":[{"type":"node","count":1}]}],"tasks":[{"command":["flux","start"],
           "slot":"default","count":{"per_slot":1}}],"attributes":{"system":{"duration":3600.0,
           "cwd":"/home/flux","constraints":{"properties":["amd-mi50"]}}}}"#,
        "resources[0].with[0]: a slot holds cores and gpus only, not 'node'",
    ),
];

#[test]
fn the_examples_of_version_1_pass() {
    for (name, text, [nnodes, nslots, slot_size, slot_gpus, ntasks]) in V1 {
        let spec = Jobspec::parse(text).unwrap_or_else(|error| panic!("{name}: {error}"));
        let wanted = Counts {
            nnodes: *nnodes,
            nslots: *nslots,
            slot_size: *slot_size,
            slot_gpus: *slot_gpus,
            ntasks: *ntasks,
            exclusive: false,
        };
        assert_eq!(spec.counts(), wanted, "{name}");
        assert_eq!(spec.duration(), 3600.0, "{name}");
        assert_eq!(spec.cwd(), Some("/home/flux"), "{name}");
    }
}

#[test]
fn canonical_jobspecs_are_refused_by_their_version() {
    for (name, text, _) in CANONICAL {
        if !text.contains(r#""version":1,"#) {
            let error = Jobspec::parse(text).unwrap_err().to_string();
            assert_eq!(error, "version must be 1", "{name}");
        }
    }
}

#[test]
fn canonical_jobspecs_that_claim_version_1_are_refused_by_their_shape() {
    for (name, text, wanted) in CANONICAL {
        let text = text.replace(r#""version":999"#, r#""version":1"#);
        let got = Jobspec::parse(&text).map_or_else(|error| error.to_string(), |_| String::new());
        assert_eq!(got, *wanted, "{name}");
    }
}
