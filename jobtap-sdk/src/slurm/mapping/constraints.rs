//! `attributes.system.constraints`: features and hosts.
//!
//! A feature is a property of nodes. `&` and `,` join features that must all hold, `|` joins features of
//! which one must hold, from left to right, and `!` negates one. Counts and brackets say how many nodes
//! must have which feature, or that all must have the same: the constraint then says only what each node
//! must have.
//!
//! Hosts that the job must use become a list from which all its nodes are taken. If there are fewer hosts
//! than nodes that the job needs, Slurm adds others, which no constraint can express: such a list is only
//! kept.

use super::place::Group;
use super::remove;
use crate::jobspec::{JobspecError, path};
use crate::resource::Hostlist;
use crate::slurm::descriptor::JobDescriptor;
use serde_json::{Value, json};

const CONSTRAINTS: &str = "attributes.system.constraints";

/// The deepest nesting of parentheses that is read.
const MAX_DEPTH: usize = 20;

/// Characters that have a meaning in a list of features.
const SPECIAL: &[char] = &['&', '|', ',', '(', ')', '[', ']', '*', '!', '^', ' '];

pub(super) const GROUP: Group = Group {
    fields: &[
        ("features", "attributes.system.constraints: properties"),
        ("req_nodes", "attributes.system.constraints: hostlist, if there are enough for min_nodes"),
        ("exc_nodes", "attributes.system.constraints: not hostlist"),
    ],
    read,
    same: |a, b| wanted(a) == wanted(b),
    put,
};

/// The parts of the constraint that a description asks for, which must all hold.
fn wanted(desc: &JobDescriptor) -> Vec<Value> {
    let mut parts = Vec::new();
    if let Some(features) = &desc.features {
        match Expression::parse(features) {
            Some(Expression::All(all)) => all_of(&all, &mut parts),
            Some(other) => parts.push(other.to_value()),
            // No node has such a property, and validation refuses most of them.
            None => parts.push(json!({"properties": [features]})),
        }
    }
    if let Some(hosts) = &desc.req_nodes {
        let enough = hosts.parse::<Hostlist>().map_or(usize::MAX, |hosts| hosts.len());
        if u64::try_from(enough).unwrap_or(u64::MAX) >= u64::from(desc.min_nodes.unwrap_or(0)) {
            parts.push(json!({"hostlist": [hosts]}));
        }
    }
    if let Some(hosts) = &desc.exc_nodes {
        parts.push(json!({"not": [{"hostlist": [hosts]}]}));
    }
    parts
}

fn put(
    before: &JobDescriptor,
    after: &JobDescriptor,
    jobspec: &mut Value,
) -> Result<(), JobspecError> {
    let (old, new) = (wanted(before), wanted(after));
    let mut own = Described::default();
    let mut parts: Vec<Value> = Vec::new();
    for part in all(jobspec) {
        if !own.take(&part) && !old.contains(&part) && !new.contains(&part) {
            parts.push(part);
        }
    }
    parts.extend(new);
    match (parts.len(), parts.pop()) {
        (1, Some(only)) => path::set(jobspec, CONSTRAINTS, only),
        (_, Some(last)) => {
            parts.push(last);
            path::set(jobspec, CONSTRAINTS, json!({ "and": parts }))
        }
        (_, None) => {
            remove(jobspec, CONSTRAINTS);
            Ok(())
        }
    }
}

/// The parts of a jobspec's constraint, which must all hold.
fn all(jobspec: &Value) -> Vec<Value> {
    let Some(constraint) = path::get(jobspec, CONSTRAINTS) else { return Vec::new() };
    match only_member(constraint) {
        Some(("and", parts)) => parts.clone(),
        Some(_) => vec![constraint.clone()],
        // An empty constraint holds for every node.
        None if constraint.as_object().is_some_and(serde_json::Map::is_empty) => Vec::new(),
        None => vec![constraint.clone()],
    }
}

/// The operator of a constraint and its operands.
fn only_member(constraint: &Value) -> Option<(&str, &Vec<Value>)> {
    let object = constraint.as_object().filter(|object| object.len() == 1)?;
    let (operator, operands) = object.iter().next()?;
    Some((operator, operands.as_array()?))
}

fn read(jobspec: &Value, desc: &mut JobDescriptor) {
    let mut own = Described::default();
    for part in all(jobspec) {
        own.take(&part);
    }
    let features = Expression::All(own.features);
    desc.features = Some(features.to_string()).filter(|text| !text.is_empty());
    desc.req_nodes = own.req_nodes;
    desc.exc_nodes = own.exc_nodes;
}

/// The part of a constraint that the fields describe.
#[derive(Default)]
struct Described {
    features: Vec<Expression>,
    req_nodes: Option<String>,
    exc_nodes: Option<String>,
}

impl Described {
    /// Takes a part, if the fields can describe it in addition to those that were taken before.
    fn take(&mut self, part: &Value) -> bool {
        if let Some(hosts) = hosts(part) {
            return self.req_nodes.is_none() && self.req_nodes.replace(hosts).is_none();
        }
        if let Some(("not", [inner])) = only_member(part).map(|(name, all)| (name, all.as_slice()))
            && let Some(hosts) = hosts(inner)
        {
            return self.exc_nodes.is_none() && self.exc_nodes.replace(hosts).is_none();
        }
        match Expression::from_constraint(part, 0) {
            Some(Expression::All(all)) => self.features.extend(all),
            Some(other) => self.features.push(other),
            None => return false,
        }
        true
    }
}

fn hosts(part: &Value) -> Option<String> {
    let ("hostlist", lists) = only_member(part)? else { return None };
    let lists: Option<Vec<&str>> = lists.iter().map(Value::as_str).collect();
    Some(lists?.join(",")).filter(|text| !text.is_empty())
}

/// A condition on the features of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Expression {
    Feature(String),
    Not(Box<Self>),
    All(Vec<Self>),
    Any(Vec<Self>),
}

impl Expression {
    fn parse(text: &str) -> Option<Self> {
        let mut parser = Parser { rest: text.trim() };
        let expression = parser.list(0)?;
        parser.rest.is_empty().then_some(expression)
    }

    /// Joins two conditions from left to right: `a|b&c` is `(a|b)&c`.
    fn join(self, operator: char, right: Self) -> Self {
        match (operator, self) {
            ('|', Self::Any(mut all)) => {
                all.push(right);
                Self::Any(all)
            }
            ('|', left) => Self::Any(vec![left, right]),
            (_, Self::All(mut all)) => {
                all.push(right);
                Self::All(all)
            }
            (_, left) => Self::All(vec![left, right]),
        }
    }

    /// Returns what each node must have if each part applies to some of the nodes: one of the parts.
    fn alternatives(self) -> Self {
        match self {
            Self::All(all) if all.len() > 1 => Self::Any(all),
            other => other,
        }
    }

    fn to_value(&self) -> Value {
        match self {
            Self::Feature(name) => json!({"properties": [name]}),
            Self::Not(inner) => match &**inner {
                Self::Feature(name) => json!({"properties": [format!("^{name}")]}),
                inner => json!({"not": [inner.to_value()]}),
            },
            Self::All(all) => {
                let mut parts = Vec::new();
                all_of(all, &mut parts);
                match <[Value; 1]>::try_from(parts) {
                    Ok([only]) => only,
                    Err(parts) => json!({ "and": parts }),
                }
            }
            Self::Any(all) => {
                let all: Vec<Value> = all.iter().map(Self::to_value).collect();
                json!({ "or": all })
            }
        }
    }

    /// Reads a constraint that is only about properties whose names can be in a list of features.
    fn from_constraint(constraint: &Value, depth: usize) -> Option<Self> {
        if depth > MAX_DEPTH {
            return None;
        }
        let (operator, operands) = only_member(constraint)?;
        let inner = || -> Option<Vec<Self>> {
            operands.iter().map(|inner| Self::from_constraint(inner, depth + 1)).collect()
        };
        match operator {
            "properties" => {
                let all: Option<Vec<Self>> = operands.iter().map(Self::property).collect();
                let mut all = all?;
                if all.len() == 1 { all.pop() } else { Some(Self::All(all)) }
            }
            "and" => inner().map(Self::All),
            "or" => inner().filter(|all| !all.is_empty()).map(Self::Any),
            "not" => {
                let mut all = inner().filter(|all| !all.is_empty())?;
                let only = if all.len() == 1 { all.pop()? } else { Self::All(all) };
                Some(Self::Not(Box::new(only)))
            }
            _ => None,
        }
    }

    fn property(value: &Value) -> Option<Self> {
        let text = value.as_str()?;
        let (name, negated) = match text.strip_prefix('^') {
            Some(name) => (name, true),
            None => (text, false),
        };
        if name.is_empty() || name.contains(SPECIAL) {
            return None;
        }
        let feature = Self::Feature(name.to_owned());
        Some(if negated { Self::Not(Box::new(feature)) } else { feature })
    }

    fn is_joined(&self) -> bool {
        matches!(self, Self::All(all) | Self::Any(all) if all.len() > 1)
    }
}

impl std::fmt::Display for Expression {
    /// Writes the condition as a list of features, with parentheses around joined conditions inside it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let inner = |f: &mut std::fmt::Formatter<'_>, inner: &Self| match inner.is_joined() {
            true => write!(f, "({inner})"),
            false => write!(f, "{inner}"),
        };
        match self {
            Self::Feature(name) => f.write_str(name),
            Self::Not(not) => {
                f.write_str("!")?;
                inner(f, not)
            }
            Self::All(all) | Self::Any(all) => {
                let operator = if matches!(self, Self::All(_)) { "&" } else { "|" };
                for (index, part) in all.iter().enumerate() {
                    f.write_str(if index == 0 { "" } else { operator })?;
                    inner(f, part)?;
                }
                Ok(())
            }
        }
    }
}

/// The parts of a conjunction. The features among them share one list of properties, at the place of the
/// first.
fn all_of(all: &[Expression], parts: &mut Vec<Value>) {
    let mut place = None;
    for expression in all {
        let value = expression.to_value();
        let Some(properties) = value.get("properties").and_then(Value::as_array) else {
            parts.push(value);
            continue;
        };
        let list = *place.get_or_insert(parts.len());
        match parts.get_mut(list).and_then(|part| part.get_mut("properties")) {
            Some(Value::Array(list)) => list.extend(properties.iter().cloned()),
            _ => parts.push(value),
        }
    }
}

/// Reads a list of features.
struct Parser<'t> {
    rest: &'t str,
}

impl Parser<'_> {
    fn eat(&mut self, wanted: &[char]) -> Option<char> {
        let first = self.rest.chars().next().filter(|first| wanted.contains(first))?;
        self.rest = self.rest.get(first.len_utf8()..).unwrap_or_default().trim_start();
        Some(first)
    }

    fn list(&mut self, depth: usize) -> Option<Expression> {
        let (mut left, mut counted) = self.counted_term(depth)?;
        while let Some(operator) = self.eat(&['&', '|', ',']) {
            let (right, is_counted) = self.counted_term(depth)?;
            left = left.join(operator, right);
            counted |= is_counted;
        }
        Some(if counted { left.alternatives() } else { left })
    }

    /// A term, and whether a number of nodes follows it.
    fn counted_term(&mut self, depth: usize) -> Option<(Expression, bool)> {
        let term = self.term(depth)?;
        if self.eat(&['*']).is_none() {
            return Some((term, false));
        }
        let end = self.rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.rest.len());
        let (count, rest) = self.rest.split_at_checked(end)?;
        self.rest = rest.trim_start();
        count.parse::<u32>().ok().map(|_| (term, true))
    }

    fn term(&mut self, depth: usize) -> Option<Expression> {
        if depth > MAX_DEPTH {
            return None;
        }
        if self.eat(&['!']).is_some() {
            return Some(Expression::Not(Box::new(self.term(depth + 1)?)));
        }
        if let Some(open) = self.eat(&['(', '[']) {
            let inner = self.list(depth + 1)?;
            self.eat(if open == '(' { &[')'] } else { &[']'] })?;
            return Some(if open == '[' { inner.alternatives() } else { inner });
        }
        let end = self.rest.find(SPECIAL).unwrap_or(self.rest.len());
        let (name, rest) = self.rest.split_at_checked(end)?;
        self.rest = rest.trim_start();
        Some(Expression::Feature(name.to_owned())).filter(|_| !name.is_empty())
    }
}
