//! Job dependencies (RFC 26), as the URI that users write and as the object in the jobspec. Which
//! schemes exist is up to the plugins.

use serde_json::{Map, Number, Value};

use super::JobspecError;

/// The length in bytes of the longest scheme that fits into a topic `job.dependency.SCHEME`.
const MAX_SCHEME: usize = 113;

/// One entry of `attributes.system.dependencies`.
///
/// ```
/// use jobtap_core::jobspec::Dependency;
///
/// let dependency = Dependency::from_uri("afterok:ƒ12")?;
/// assert_eq!(dependency.scheme, "afterok");
/// assert_eq!(dependency.value, "ƒ12");
/// # Ok::<(), jobtap_core::jobspec::JobspecError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Dependency {
    /// The kind of dependency, e.g. `afterok`. It determines the plugin that handles the dependency.
    pub scheme: String,
    /// The value, exactly as the user wrote it. It may be empty.
    pub value: String,
    /// All other members, e.g. `type` and `scope`.
    pub options: Map<String, Value>,
}

impl Dependency {
    /// Reads `SCHEME[:VALUE[?KEY=VAL[&KEY=VAL...]]]`. The scheme is converted to lower case. An option
    /// without a value is ignored, a numeric one becomes a number, and a repeated one an array. The options
    /// `scheme` and `value` replace the scheme and value before the query.
    ///
    /// # Errors
    /// [`JobspecError::Dependency`], `Invalid dependency URI "..."`, if the scheme is missing or isn't a
    /// letter followed by letters, digits, `+`, `-` or `.`.
    pub fn from_uri(uri: &str) -> Result<Self, JobspecError> {
        let invalid = || {
            // A bare word is a scheme with an empty value.
            let end = if uri.contains(':') { "" } else { ":" };
            JobspecError::Dependency(format!("Invalid dependency URI \"{uri}{end}\""))
        };
        let (scheme, rest) = uri.split_once(':').unwrap_or((uri, ""));
        if !is_scheme(scheme) {
            return Err(invalid());
        }
        // A URI may have a fragment, which has no meaning here.
        let (rest, _) = rest.split_once('#').unwrap_or((rest, ""));
        let (value, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (mut scheme, mut value) = (scheme.to_owned(), value.to_owned());
        let mut options = Map::new();
        for option in query.split('&') {
            let Some((key, text)) = option.split_once('=').filter(|(_, text)| !text.is_empty())
            else {
                continue;
            };
            let key = decode(key);
            // As in Flux, the query can have a scheme or value that can't be written before it, such as a
            // value with a `?`.
            match key.as_str() {
                "scheme" => {
                    scheme = decode(text);
                    continue;
                }
                "value" => {
                    value = decode(text);
                    continue;
                }
                _ => {}
            }
            let new = number_or_text(decode(text));
            match options.get_mut(&key) {
                None => {
                    options.insert(key, new);
                }
                Some(Value::Array(values)) => values.push(new),
                Some(first) => *first = Value::Array(vec![first.take(), new]),
            }
        }
        if !is_scheme(&scheme) {
            return Err(invalid());
        }
        Ok(Self { scheme: scheme.to_ascii_lowercase(), value, options })
    }

    /// Reads the object form. A missing `value` counts as empty.
    ///
    /// # Errors
    /// [`JobspecError::Dependency`] if the value isn't an object, if `scheme` or `value` isn't a string,
    /// or if the scheme is too long for the name of a topic.
    pub fn from_value(value: &Value) -> Result<Self, JobspecError> {
        let refuse = |text: &str| JobspecError::Dependency(text.to_owned());
        let mut options =
            value.as_object().cloned().ok_or_else(|| refuse("dependency must be an object"))?;
        let Some(Value::String(scheme)) = options.shift_remove("scheme") else {
            return Err(refuse("dependency missing string scheme"));
        };
        if scheme.len() > MAX_SCHEME {
            let text = format!("rejecting absurdly long dependency scheme: {scheme}");
            return Err(refuse(&text));
        }
        let value = match options.shift_remove("value") {
            None => String::new(),
            Some(Value::String(value)) => value,
            Some(_) => return Err(refuse("dependency value must be a string")),
        };
        Ok(Self { scheme, value, options })
    }

    /// The object form.
    #[must_use]
    pub fn to_value(&self) -> Value {
        let mut object = Map::new();
        object.insert("scheme".to_owned(), Value::String(self.scheme.clone()));
        object.insert("value".to_owned(), Value::String(self.value.clone()));
        for (key, value) in &self.options {
            object.insert(key.clone(), value.clone());
        }
        Value::Object(object)
    }

    /// Reads the `dependencies` array of a jobspec, which may be absent.
    pub(super) fn list(dependencies: Option<&Value>) -> Result<Vec<Self>, JobspecError> {
        entries(dependencies)?.iter().enumerate().map(Self::from_entry).collect()
    }

    /// Reads one entry of that array, if it has as many.
    pub(super) fn nth(
        dependencies: Option<&Value>,
        index: usize,
    ) -> Result<Option<Self>, JobspecError> {
        let entry = entries(dependencies)?.get(index);
        entry.map(|entry| Self::from_entry((index, entry))).transpose()
    }

    fn from_entry((index, entry): (usize, &Value)) -> Result<Self, JobspecError> {
        if entry.get("scheme").is_none_or(|scheme| !scheme.is_string()) {
            let text = format!("dependency[{index}] missing string scheme");
            return Err(JobspecError::Dependency(text));
        }
        Self::from_value(entry)
    }
}

fn entries(dependencies: Option<&Value>) -> Result<&[Value], JobspecError> {
    let text = "dependencies object must be an array";
    let Some(dependencies) = dependencies else { return Ok(&[]) };
    let entries = dependencies.as_array().map(Vec::as_slice);
    entries.ok_or_else(|| JobspecError::Dependency(text.to_owned()))
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
}

fn number_or_text(text: String) -> Value {
    let number = text
        .parse::<i64>()
        .map(Number::from)
        .ok()
        .or_else(|| text.parse::<f64>().ok().and_then(Number::from_f64));
    number.map_or(Value::String(text), Value::Number)
}

/// Decodes the percent and plus encoding of a URI query. An invalid escape stays as it is.
fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        rest = tail;
        match (first, tail) {
            (b'+', _) => bytes.push(b' '),
            (b'%', [high, low, tail @ ..]) => match (hex(*high), hex(*low)) {
                (Some(high), Some(low)) => {
                    bytes.push(high << 4 | low);
                    rest = tail;
                }
                _ => bytes.push(b'%'),
            },
            _ => bytes.push(first),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn uri(text: &str) -> Value {
        Dependency::from_uri(text).unwrap().to_value()
    }

    #[test]
    fn parses_uris_like_flux() {
        assert_eq!(uri("afterok:ƒ12"), json!({"scheme": "afterok", "value": "ƒ12"}));
        assert_eq!(uri("singleton"), json!({"scheme": "singleton", "value": ""}));
        assert_eq!(uri("begin-time:1234.5"), json!({"scheme": "begin-time", "value": "1234.5"}));
        assert_eq!(
            uri("string:foo?type=out"),
            json!({"scheme": "string", "value": "foo", "type": "out"})
        );
        assert_eq!(uri("x:y?n=1.5"), json!({"scheme": "x", "value": "y", "n": 1.5}));
        assert_eq!(uri("x:y?a=1&a=2"), json!({"scheme": "x", "value": "y", "a": [1, 2]}));
        assert_eq!(
            uri("afterok:job.0000.0000.0000.0001"),
            json!({"scheme": "afterok", "value": "job.0000.0000.0000.0001"})
        );
        assert_eq!(uri("x:a?b"), json!({"scheme": "x", "value": "a"}));
        assert_eq!(uri("x:a?b=1#c"), json!({"scheme": "x", "value": "a", "b": 1}));
    }

    #[test]
    fn refuses_uris_without_a_valid_scheme() {
        for text in [":foo", ":", "1x:y", "a b:c", "a_b:", "x:y?scheme=1z"] {
            let error = Dependency::from_uri(text).unwrap_err().to_string();
            assert_eq!(error, format!("Invalid dependency URI \"{text}\""));
            let bare = text.strip_suffix(':').map(|bare| Dependency::from_uri(bare).unwrap_err());
            assert!(bare.is_none_or(|error| error.to_string().ends_with(&format!("\"{text}\""))));
        }
    }

    #[test]
    fn the_query_can_say_scheme_and_value() {
        let open = json!({"scheme": "z", "value": "a?b", "w": 1});
        assert_eq!(uri("x:y?scheme=Z&value=a%3fb&w=1"), open);
    }

    #[test]
    fn schemes_become_lower_case_but_values_do_not() {
        assert_eq!(uri("AfterOK:A:B"), json!({"scheme": "afterok", "value": "A:B"}));
        assert_eq!(
            uri("x:y?a=1&a=b&a=c+%41%zz"),
            json!(
            {"scheme": "x", "value": "y", "a": [1, "b", "c A%zz"]})
        );
    }

    #[test]
    fn objects_need_a_scheme_and_keep_other_members() {
        let open = json!({"scheme": "string", "value": "foo", "type": "in", "scope": "user"});
        assert_eq!(Dependency::from_value(&open).unwrap().to_value(), open);
        let bare = Dependency::from_value(&json!({"scheme": "singleton"})).unwrap();
        assert_eq!(bare.value, "");
        assert!(Dependency::from_value(&json!({"value": "x"})).is_err());
        assert!(Dependency::from_value(&json!({"scheme": "x", "value": 1})).is_err());
        assert!(Dependency::from_value(&json!([])).is_err());
    }

    #[test]
    fn errors_of_lists_have_the_text_of_flux() {
        let refused = |list: Value| Dependency::list(Some(&list)).unwrap_err().to_string();
        assert_eq!(refused(json!({})), "dependencies object must be an array");
        assert_eq!(
            refused(json!([{"scheme": "x"}, {"value": "y"}])),
            "dependency[1] missing string scheme"
        );
        let long = "x".repeat(MAX_SCHEME + 1);
        assert_eq!(
            refused(json!([{"scheme": long}])),
            format!("rejecting absurdly long dependency scheme: {long}")
        );
        assert_eq!(Dependency::list(Some(&json!([]))).unwrap(), []);
        assert_eq!(Dependency::list(None).unwrap(), []);
    }

    #[test]
    fn parses_the_entries_of_the_rfc() {
        let list = json!([
            {"type": "in", "scope": "user", "scheme": "string", "value": "A"},
            {"type": "out", "scope": "user", "scheme": "string", "value": "B"},
            {"type": "in", "scope": "global", "scheme": "fluid",
             "value": "hungry-hippo-white-elephant"},
        ]);
        let read = Dependency::list(Some(&list)).unwrap();
        assert_eq!(read[1].options, *json!({"type": "out", "scope": "user"}).as_object().unwrap());
        assert_eq!(read[2].scheme, "fluid");
    }

    proptest! {
        #[test]
        fn an_accepted_uri_round_trips(text in "\\PC{0,24}|[a-c:?&=%+]{0,24}") {
            if let Ok(dependency) = Dependency::from_uri(&text) {
                let back = Dependency::from_value(&dependency.to_value()).unwrap();
                prop_assert_eq!(back, dependency);
            }
        }
    }
}
