//! The OpenAPI document of the services, made from the table in [`services`]: the data of each row, and the
//! schemas of its types.

use schemars::generate::{SchemaGenerator, SchemaSettings};
use schemars::transform::ReplaceBoolSchemas;
use serde_json::{Map, Value, json};

use super::service::{Access, Responses, Service};
use super::services;

/// The path below which services are called: a request to the topic `job-list.list` is a POST to
/// `/v1/job-list.list`.
pub const SERVICES: &str = "/v1/";

/// The name of the response that has no content.
const DONE: &str = "Done";

/// The document.
pub fn document() -> Value {
    let mut made = Document::new();
    add_all(&mut made);
    made.finish()
}

/// Adds the services of the whole table.
fn add_all(made: &mut Document) {
    use services::*;

    macro_rules! add {
        ($($request:ty),*) => { $(made.add::<$request>();)* };
    }
    each_service!(add);
    each_plugin_service!(add);
}

/// A document that is being made.
struct Document {
    /// Requests are described as they are read, and responses as they are written.
    requests: SchemaGenerator,
    responses: SchemaGenerator,
    paths: Map<String, Value>,
    schemas: Map<String, Value>,
}

impl Document {
    fn new() -> Self {
        let settings = || {
            let settings = SchemaSettings::draft2020_12().with(|settings| {
                settings.definitions_path = "/components/schemas".into();
                settings.meta_schema = None;
            });
            let mut objects = ReplaceBoolSchemas::default();
            objects.skip_additional_properties = true;
            settings.with_transform(objects)
        };
        Self {
            requests: settings().for_deserialize().into_generator(),
            responses: settings().for_serialize().into_generator(),
            paths: Map::new(),
            schemas: Map::new(),
        }
    }

    /// Adds a service: its path and the schemas of its request and response.
    fn add<S: Service>(&mut self) {
        let request = self.requests.root_schema_for::<S>().to_value();
        let response = self.responses.root_schema_for::<S::Response>().to_value();
        self.add_row(S::TOPIC, S::ACCESS, S::RESPONSES, request, response);
    }

    /// Adds a service with these schemas. It has no type parameters, so that it is compiled once and not for each
    /// service.
    fn add_row(
        &mut self,
        topic: &str,
        access: Access,
        kind: Responses,
        mut request: Value,
        mut response: Value,
    ) {
        let name = camel(topic);
        self.take_definitions(&mut request);
        let description = request.get("description").cloned().unwrap_or_default();
        let request_name = format!("{name}Request");
        let response_name = match response.get("title") {
            Some(title) if title == DONE => DONE.to_owned(),
            _ => format!("{name}Response"),
        };
        self.put(&request_name, request);
        self.take_definitions(&mut response);
        self.put(&response_name, response);
        let operation = json!({
            "operationId": name_in_snake_case(topic),
            "tags": [topic.split('.').next()],
            "summary": topic,
            "description": described(description.as_str().unwrap_or_default(), access),
            "security": security(access),
            "requestBody": {
                "required": true,
                "content": { "application/json": { "schema": reference(&request_name) } },
            },
            "responses": {
                "200": responses(topic, kind, &response_name),
                "4XX": { "$ref": "#/components/responses/Refused" },
                "5XX": { "$ref": "#/components/responses/Refused" },
            },
        });
        self.paths.insert(format!("{SERVICES}{topic}"), json!({ "post": operation }));
    }

    /// Moves the definitions in a schema to the schemas of the document.
    fn take_definitions(&mut self, schema: &mut Value) {
        let parts = schema
            .as_object_mut()
            .and_then(|schema| schema.remove("components").or_else(|| schema.remove("$defs")));
        let parts = parts.and_then(|mut parts| match parts.get_mut("schemas") {
            Some(Value::Object(schemas)) => Some(std::mem::take(schemas)),
            _ => None,
        });
        for (name, part) in parts.into_iter().flatten() {
            self.put(&name, part);
        }
    }

    fn put(&mut self, name: &str, mut schema: Value) {
        if let Some(schema) = schema.as_object_mut() {
            // The title is the type's own name, which several types may share.
            schema.remove("title");
        }
        self.schemas.insert(name.to_owned(), schema);
    }

    fn finish(mut self) -> Value {
        self.put("Error", error_schema());
        let refused = json!({
            "description": "The request was refused.",
            "content": { "application/json": { "schema": reference("Error") } },
        });
        let mut paths = Map::new();
        paths.insert("/healthz".to_owned(), health());
        paths.insert("/metrics".to_owned(), metrics());
        paths.append(&mut self.paths);
        json!({
            "openapi": "3.1.0",
            "info": {
                "title": "jobtap",
                "version": env!("CARGO_PKG_VERSION"),
                "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
                "description": "The services of a manager. Topics and payloads are those of Flux. A service of \
                                a plugin that is not listed here is called in the same way.",
            },
            "servers": [{ "url": "/" }],
            "paths": paths,
            "components": {
                "schemas": self.schemas,
                "responses": { "Refused": refused },
                "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
            },
        })
    }
}

fn health() -> Value {
    json!({
        "get": {
            "operationId": "healthz",
            "summary": "Whether the manager works",
            "security": [{}],
            "responses": {
                "200": {
                    "description": "The engine responds.",
                    "content": { "application/json": { "schema": {
                        "type": "object",
                        "properties": { "status": { "type": "string" } },
                        "required": ["status"],
                    } } },
                },
                "503": { "$ref": "#/components/responses/Refused" },
            },
        },
    })
}

fn metrics() -> Value {
    json!({
        "get": {
            "operationId": "metrics",
            "summary": "Numbers for Prometheus",
            "description": described("", Access::UnlessPrivate),
            "security": security(Access::UnlessPrivate),
            "responses": {
                "200": {
                    "description": "The metrics in Prometheus's text format.",
                    "content": { "text/plain": { "schema": { "type": "string" } } },
                },
                "4XX": { "$ref": "#/components/responses/Refused" },
            },
        },
    })
}

fn error_schema() -> Value {
    json!({
        "type": "object",
        "description": "A refusal.",
        "properties": {
            "errno": { "type": "integer", "description": "The error number, as Flux responds with it." },
            "error": { "type": "string", "description": "What is wrong, a sentence for the user." },
            "messages": {
                "type": "array",
                "items": { "type": "string" },
                "description": "What plugins say to the user.",
            },
        },
        "required": ["errno", "error"],
    })
}

/// The responses of a request that is carried out.
fn responses(topic: &str, kind: Responses, name: &str) -> Value {
    let one = json!({ "schema": reference(name) });
    let stream = json!({
        "schema": {
            "type": "string",
            "description": "Server-sent events. The data of each one is a response; the last event, `end`, \
                            has the error that ended the stream, 61 (ENODATA) where it is complete.",
        },
        "x-response": reference(name),
    });
    let stream_of_one_job = topic == "job-info.eventlog-watch";
    let (description, content) = match kind {
        Responses::Stream => ("The responses", json!({ "text/event-stream": stream })),
        Responses::Late if stream_of_one_job => {
            ("The responses", json!({ "text/event-stream": stream }))
        }
        Responses::Short | Responses::Long | Responses::Late => {
            ("The response", json!({ "application/json": one }))
        }
        Responses::LongOrStream | Responses::Plugin => (
            "The response; or a stream, if `Accept` asks for `text/event-stream`",
            json!({ "application/json": one, "text/event-stream": stream }),
        ),
    };
    json!({ "description": description, "content": content })
}

fn described(request: &str, access: Access) -> String {
    let who = match access {
        Access::Reader => "Needs no token.",
        Access::UnlessPrivate => "Needs a token where `access.private-mode` is set.",
        Access::Anyone | Access::Owner => "Needs a token.",
    };
    format!("{request}\n\n{who}").trim().to_owned()
}

fn security(access: Access) -> Value {
    match access {
        Access::Reader | Access::UnlessPrivate => json!([{}, { "token": [] }]),
        Access::Anyone | Access::Owner => json!([{ "token": [] }]),
    }
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

/// `job-list.list-id` as `JobListListId`.
fn camel(topic: &str) -> String {
    let words = topic.split(|c: char| !c.is_ascii_alphanumeric());
    words
        .map(|word| {
            let (first, rest) = word.split_at(word.len().min(1));
            first.to_ascii_uppercase() + rest
        })
        .collect()
}

/// `job-list.list-id` as `job_list_list_id`.
fn name_in_snake_case(topic: &str) -> String {
    topic.replace(|c: char| !c.is_ascii_alphanumeric(), "_")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn references(value: &Value, found: &mut BTreeSet<String>) {
        match value {
            Value::Object(object) => {
                if let Some(Value::String(to)) = object.get("$ref") {
                    found.insert(to.clone());
                }
                object.values().for_each(|value| references(value, found));
            }
            Value::Array(values) => values.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }

    #[test]
    fn each_reference_has_its_target() {
        let document = document();
        let mut found = BTreeSet::new();
        references(&document, &mut found);
        assert!(found.len() > 50, "{}", found.len());
        for to in found {
            let target = to.strip_prefix('#').and_then(|path| document.pointer(path));
            assert!(target.is_some(), "{to}");
        }
    }

    #[test]
    fn each_service_has_a_path_and_says_who_may_call_it() {
        let document = document();
        let paths = document["paths"].as_object().unwrap();
        let mut rows = 0;
        let mut check = |topic: &str, access: Access| {
            rows += 1;
            let operation = &paths[&format!("/v1/{topic}")]["post"];
            let open = operation["security"][0] == json!({});
            assert_eq!(open, matches!(access, Access::Reader | Access::UnlessPrivate), "{topic}");
        };
        use services::*;
        macro_rules! checked {
            ($($request:ty),*) => { $(check(<$request>::TOPIC, <$request>::ACCESS);)* };
        }
        each_service!(checked);
        each_plugin_service!(checked);
        assert_eq!(paths.len(), rows + 2);
        let names: BTreeSet<_> =
            paths.values().filter_map(|path| path["post"]["operationId"].as_str()).collect();
        assert_eq!(names.len(), rows);
    }

    /// Two types with one name would overwrite each other's schema.
    #[test]
    fn fields_are_described_as_they_are_on_the_wire() {
        let document = document();
        let schema = |name: &str| &document["components"]["schemas"][name];
        let submit = schema("JobIngestSubmitRequest");
        assert_eq!(submit["properties"]["J"]["type"], json!(["string", "null"]));
        assert!(submit.get("required").is_none(), "{submit}");
        let raise = schema("JobManagerRaiseRequest");
        assert_eq!(raise["required"], json!(["id", "type", "severity"]));
        let stats = schema("JobListJobStatsResponse");
        assert!(stats["properties"]["job_states"].is_object(), "{stats}");
        let queue = schema("Queue");
        assert!(queue["properties"]["stop_reason"].is_object(), "{queue}");
        let status = schema("ResourceStatusResponse");
        assert_eq!(status["properties"]["drain"]["additionalProperties"], reference("Drained"));
    }
}
