//! What the functions of a plugin's crate need of their host, according to their source: the topics of
//! handlers, and the calls that they make.
//!
//! A call counts if it is made on a context: on a parameter of type `Cx`, on a parameter named `cx` in a
//! plugin's own block, or on the context that a closure gets from `Remote`. A context under another name, or
//! in another crate, is not recognized; the host refuses such a call when it is made.

use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, Group, Span, TokenStream, TokenTree};

/// A need, and its place in the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Need {
    pub(crate) what: What,
    pub(crate) file: PathBuf,
    pub(crate) line: usize,
    pub(crate) function: String,
}

/// What is needed of the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum What {
    /// A call of a handler of a topic.
    Handler {
        /// The topic, as in `#[on]`.
        topic: String,
        /// Whether the handler is asynchronous.
        is_async: bool,
    },
    /// Requests for a service of this name.
    Service(String),
    /// A call of a method of a context, or of a `Remote`.
    Call(Call),
    /// The partitions of Slurm, as a parameter.
    Partitions,
}

/// A call, by its receiver and its method.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) receiver: String,
    pub(crate) method: String,
}

/// Reads the needs of the functions in a plugin's block.
pub(crate) fn of_plugin(body: TokenStream, file: &Path) -> Vec<Need> {
    let mut needs = Vec::new();
    let mut attributes: Vec<Group> = Vec::new();
    let mut signature = Signature::in_plugin();
    for token in body {
        match token {
            TokenTree::Group(group) if group.delimiter() == Delimiter::Bracket => {
                attributes.push(group);
            }
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
                let signature = std::mem::replace(&mut signature, Signature::in_plugin());
                for attribute in attributes.drain(..) {
                    let whats = handled(&attribute, signature.is_async);
                    needs
                        .extend(whats.into_iter().map(|(what, at)| signature.need(what, at, file)));
                }
                if signature.takes_partitions {
                    needs.push(signature.need(What::Partitions, group.span(), file));
                }
                needs.extend(signature.calls(&group, file));
            }
            token => signature.read(&token),
        }
    }
    needs
}

/// Reads `on("TOPIC", .., key = value)` or `service(..)` in an attribute.
fn handled(attribute: &Group, is_async: bool) -> Vec<(What, Span)> {
    let mut tokens = attribute.stream().into_iter();
    let Some(TokenTree::Ident(name)) = tokens.next() else { return Vec::new() };
    let arguments = match tokens.next() {
        Some(TokenTree::Group(arguments)) => arguments.stream().into_iter().collect(),
        _ => Vec::<TokenTree>::new(),
    };
    match name.to_string().as_str() {
        "service" => {
            let name = arguments.first().cloned().map(texts).unwrap_or_default().pop();
            vec![(What::Service(name.unwrap_or_default()), attribute.span())]
        }
        "on" => {
            // Topics come first; the values of keys are strings, too.
            let topics =
                arguments.split(|token| token.to_string() == "=").next().unwrap_or_default();
            let topic = |token: &TokenTree| {
                let topic = texts(token.clone()).pop()?;
                Some((What::Handler { topic, is_async }, token.span()))
            };
            topics.iter().filter_map(topic).collect()
        }
        _ => Vec::new(),
    }
}

/// The methods of `Remote` that take a closure, which gets a context as its second argument.
const LATER: [&str; 5] = ["run", "call", "at", "after", "every"];

/// The signature of a function, as far as it was read.
#[derive(Debug, Clone, Default)]
pub(crate) struct Signature {
    is_async: bool,
    /// The word before the present token.
    before: String,
    name: Option<String>,
    has_parameters: bool,
    takes_partitions: bool,
    /// The names of the contexts and of the `Remote`s.
    receivers: Vec<String>,
}

impl Signature {
    /// The signature of a function in a plugin's block, where contexts mostly have their usual names.
    fn in_plugin() -> Self {
        let receivers = vec!["cx".to_owned(), "remote".to_owned()];
        Self { receivers, ..Self::default() }
    }

    /// Reads the next token before the function's body.
    pub(crate) fn read(&mut self, token: &TokenTree) {
        match token {
            TokenTree::Ident(word) => {
                let word = word.to_string();
                self.is_async |= word == "async";
                if self.before == "fn" {
                    self.name = Some(word.clone());
                }
                self.before = word;
            }
            // The first parentheses after the function's name.
            TokenTree::Group(group)
                if group.delimiter() == Delimiter::Parenthesis
                    && self.name.is_some()
                    && !self.has_parameters =>
            {
                self.has_parameters = true;
                for parameter in split(group.stream()) {
                    self.takes_partitions |= parameter.iter().any(is_partition);
                    self.receivers.extend(receiver(&parameter));
                }
            }
            _ => {}
        }
    }

    /// The calls in the function's body. A block that isn't a function's body has none.
    pub(crate) fn calls(self, body: &Group, file: &Path) -> Vec<Need> {
        let mut needs = Vec::new();
        if self.name.is_some() {
            self.collect(body.stream(), &self.receivers, file, &mut needs);
        }
        needs
    }

    fn need(&self, what: What, at: Span, file: &Path) -> Need {
        let function = self.name.clone().unwrap_or_default();
        Need { what, file: file.to_path_buf(), line: at.start().line, function }
    }

    fn collect(&self, code: TokenStream, receivers: &[String], file: &Path, needs: &mut Vec<Need>) {
        let tokens: Vec<TokenTree> = code.into_iter().collect();
        for (index, token) in tokens.iter().enumerate() {
            let before = |back: usize| index.checked_sub(back).and_then(|at| tokens.get(at));
            let is = |back: usize, text: &str| before(back).is_some_and(|t| t.to_string() == text);
            match token {
                TokenTree::Group(group) => {
                    let mut inner = receivers.to_vec();
                    if LATER.iter().any(|method| is(1, method) && is(2, ".")) {
                        inner.extend(context_of_closure(group.stream()));
                    }
                    self.collect(group.stream(), &inner, file, needs);
                }
                TokenTree::Ident(method) if is(1, ".") => {
                    let receiver = before(2).map(TokenTree::to_string);
                    let Some(receiver) = receiver.filter(|name| receivers.contains(name)) else {
                        continue;
                    };
                    let call = Call { receiver, method: method.to_string() };
                    let need = self.need(What::Call(call), method.span(), file);
                    if !needs.iter().any(|known| known.what == need.what) {
                        needs.push(need);
                    }
                }
                _ => {}
            }
        }
    }
}

/// Whether a part of a parameter's type is that of partitions.
fn is_partition(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Ident(word) if word == "Partitions" || word == "Partition")
}

/// Splits parameters at their commas, except for commas inside the angle brackets of a type.
fn split(parameters: impl IntoIterator<Item = TokenTree>) -> Vec<Vec<TokenTree>> {
    let mut split = vec![Vec::new()];
    let mut depth = 0_usize;
    for token in parameters {
        if let TokenTree::Punct(punct) = &token {
            match punct.as_char() {
                '<' => depth += 1,
                '>' => depth = depth.saturating_sub(1),
                ',' if depth == 0 => {
                    split.push(Vec::new());
                    continue;
                }
                _ => {}
            }
        }
        if let Some(last) = split.last_mut() {
            last.push(token);
        }
    }
    split
}

/// The name of a parameter.
fn name(parameter: &[TokenTree]) -> Option<String> {
    let mut words = parameter.iter().filter_map(|token| match token {
        TokenTree::Ident(word) if word != "mut" => Some(word.to_string()),
        _ => None,
    });
    words.next().filter(|name| name != "_")
}

/// The name of a parameter that is a context or a `Remote`.
fn receiver(parameter: &[TokenTree]) -> Option<String> {
    let is_type = |token: &TokenTree| matches!(token, TokenTree::Ident(word) if *word == "Cx" || *word == "Remote");
    name(parameter).filter(|_| parameter.iter().any(is_type))
}

/// The name of the second parameter of a closure: `cx` in `move |plugin, cx| ..`.
fn context_of_closure(arguments: TokenStream) -> Option<String> {
    let is_bar = |token: &TokenTree| matches!(token, TokenTree::Punct(p) if p.as_char() == '|');
    let after = arguments.into_iter().skip_while(|token| !is_bar(token)).skip(1);
    let parameters = split(after.take_while(|token| !is_bar(token)));
    parameters.get(1).and_then(|parameter| name(parameter))
}

/// Returns a string, or the strings in a list.
pub(crate) fn texts(value: TokenTree) -> Vec<String> {
    match value {
        TokenTree::Literal(literal) => {
            let text = literal.to_string();
            let inner = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
            inner.map(str::to_owned).into_iter().collect()
        }
        TokenTree::Group(group) => group.stream().into_iter().flat_map(texts).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_are_needed_by_the_handlers_that_take_them() {
        let found = needs(
            "#[on(\"slurm.job_submit\")]\nfn one(&self, all: Partitions<'_>) {}\n\
             #[on(\"slurm.job_submit\")]\nasync fn two(all: Vec<Partition>) {}\n\
             #[on(\"slurm.job_submit\")]\nfn three(desc: Descriptor<'_>) {}",
        );
        let takes: Vec<&String> = found.iter().filter(|need| need.contains("partitions")).collect();
        assert_eq!(takes, ["2 one: partitions", "4 two: partitions"]);
    }

    /// The needs of functions in a plugin's block, each as `line function: what`.
    fn needs(text: &str) -> Vec<String> {
        let found = of_plugin(text.parse().unwrap(), Path::new("lib.rs"));
        let what = |what: What| match what {
            What::Handler { topic, is_async: true } => format!("async {topic}"),
            What::Handler { topic, is_async: false } => topic,
            What::Service(name) => format!("service {name}"),
            What::Call(call) => format!("{}.{}", call.receiver, call.method),
            What::Partitions => "partitions".to_owned(),
        };
        let shown = |need: Need| format!("{} {}: {}", need.line, need.function, what(need.what));
        found.into_iter().map(shown).collect()
    }

    #[test]
    fn topics_services_and_calls_are_found_with_their_places() {
        let text = "#[init] fn new(settings: Conf<S>) -> Self { Self { settings } }
            #[on(\"job.state.run\", \"job.event.alloc\", timeout = \"5m\")]
            async fn run(job: JobInfo) -> Result<(), PrologFailed> { Ok(()) }
            #[on(\"job.validate\")] fn validate(&self, cx: Cx<'_, JobValidate>) {
                if true { cx.dependency_add(\"x\"); cx.dependency_add(\"y\"); } self.cx(1);
            }
            #[on(my::Topic)] fn own(&self) {}
            #[service(\"set\", role = \"guest\")] async fn set() {}";
        let expected = [
            "2 run: async job.state.run",
            "2 run: async job.event.alloc",
            "4 validate: job.validate",
            "5 validate: cx.dependency_add",
            "8 set: service set",
        ];
        assert_eq!(needs(text), expected);
    }

    #[test]
    fn a_context_is_known_by_its_type_whatever_its_name() {
        let text =
            "fn a(&self, c: Cx<'_, (JobNew, JobStateRun)>, other: u8) { c.memo(); other.memo(); }
            fn b(context: &Cx<'_, Service>) { context.drain(); list.drain(); }
            fn c(&self, way: Remote<Self>) { way.until_ended(job, work); }
            fn d(f: impl Fn(Cx<'_, Service>) -> u8) { f.memo(); }";
        assert_eq!(needs(text), ["1 a: c.memo", "2 b: context.drain", "3 c: way.until_ended"]);
    }

    #[test]
    fn the_context_of_a_later_call_is_known() {
        let text = "fn a(&self, remote: Remote<Self>) {
                remote.after(5.0, move |plugin: &mut Self, c: Cx<'_, Later<Self>>| {
                    if let Ok(job) = c.active_job(id) { let _ = c.annotate(job, notes); }
                });
                self.remote.clone().call(|_, late| late.memo(job, \"a\", 1)).await;
                list.iter().map(|a, b| b.memo());
                remote.run(|_, _| ());
            }";
        let calls: Vec<String> =
            needs(text).into_iter().filter(|need| !need.contains("remote.")).collect();
        assert_eq!(calls, ["3 a: c.active_job", "3 a: c.annotate", "5 a: late.memo"]);
    }
}
