//! Follows the values of interest through the text of a script, with the scopes of Lua.
//!
//! The text is not run. Each local is the variable that its declaration makes, each global is one by its name, and
//! each table and function is the value of the place where it is written. What a variable or a field may hold is
//! collected without regard to the order of the program, in rounds over all files until nothing is added. What is not
//! followed counts as unknown, so that nothing is said about it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use jobtap_builtins::lua::MODULES;
use jobtap_builtins::lua::token::{Kind, Tokens};

use super::uses::{File, Literal, Object, Place, Uses};

/// What names a table or a function: its file and the index of its token. A file itself has the highest index.
type Id = (usize, usize);

const CHUNK: usize = usize::MAX;

/// A value, as far as it is of interest.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Value {
    Object(Object),
    /// A table or a function of the script.
    Own(Id),
    /// A module that the manager serves.
    Module(&'static str),
    /// A global of Lua or a member of one, such as `os.execute`.
    Library(String),
}

type Values = BTreeSet<Value>;

/// A variable: a local by its declaration, or a global.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Variable {
    Local(Id),
    Global(String),
}

/// What the files of a script use. The first is the script itself, the others are modules beside it.
pub(super) fn uses(files: &[File]) -> Uses {
    let tokens: Vec<Tokens<'_>> = files.iter().map(|file| Tokens::new(&file.source)).collect();
    let named = |(index, file): (usize, &File)| Some((file.module.clone()?, index));
    Facts::gather(&tokens, &files.iter().enumerate().filter_map(named).collect()).uses
}

/// What is known about a script so far.
#[derive(Debug, Default)]
struct Facts {
    variables: BTreeMap<Variable, Values>,
    /// The globals that the script assigns.
    assigned: BTreeSet<String>,
    /// The locals that were given a literal; `None` for one that holds anything else at times.
    constants: BTreeMap<Variable, Option<Literal>>,
    /// Fields to which a local alone is written.
    written: BTreeMap<Variable, BTreeSet<(Object, String, Place)>>,
    members: BTreeMap<(Id, String), Values>,
    parameters: BTreeMap<Id, Vec<Variable>>,
    returned: BTreeMap<Id, Values>,
    /// A function or file, and one that it calls or passes to another.
    calls: BTreeSet<(Id, Id)>,
    /// The functions and files that name the functions for messages.
    telling: BTreeSet<Id>,
    uses: Uses,
}

/// The functions that the manager calls, and what it gives them.
const ENTRIES: [(&str, [Option<Object>; 3]); 2] = [
    ("slurm_job_submit", [Some(Object::Description), Some(Object::Partitions), None]),
    ("slurm_job_modify", [Some(Object::Description), Some(Object::Job), Some(Object::Partitions)]),
];

/// The functions of `slurm` that send messages to the user.
const MESSAGES: [&str; 2] = ["log_user", "user_msg"];

/// How deep expressions and blocks may nest. Lua itself takes no more.
const DEEPEST: usize = 200;

/// More rounds than any script of people needs.
const ROUNDS: usize = 50;

impl Facts {
    /// Follows values through the files of a script. `modules` maps the names under which the files are required.
    fn gather(tokens: &[Tokens<'_>], modules: &BTreeMap<String, usize>) -> Self {
        let mut facts = Self::default();
        for _ in 0..ROUNDS {
            let before = facts.size();
            for (name, objects) in ENTRIES {
                let values = |object: &Option<Object>| object.map(Value::Object);
                let arguments: Vec<Values> =
                    objects.iter().map(|object| values(object).into_iter().collect()).collect();
                for function in facts.global(name) {
                    facts.enter(&function, &arguments);
                }
            }
            for (file, tokens) in tokens.iter().enumerate() {
                Walk::new(file, tokens, modules, &mut facts).whole();
            }
            if facts.size() == before {
                break;
            }
        }
        facts.follow_constants();
        let entries = ENTRIES.iter().map(|(name, _)| (*name).to_owned());
        facts.uses.entries = entries.filter(|name| facts.assigned.contains(name)).collect();
        // A global that is called above its definition looked like one of Lua in the first round.
        let Self { assigned, uses, .. } = &mut facts;
        let of_script =
            |path: &str| path.split('.').next().is_some_and(|global| assigned.contains(global));
        uses.called.retain(|path, _| !of_script(path));
        facts.uses.modify_tells = facts.tells("slurm_job_modify");
        facts
    }

    /// Notes the literals that come to fields by way of locals that hold nothing else.
    fn follow_constants(&mut self) {
        for (variable, fields) in &self.written {
            let Some(Some(literal)) = self.constants.get(variable) else { continue };
            for (object, field, place) in fields {
                let written = (*object, field.clone(), literal.clone());
                self.uses.literals.entry(written).or_default().insert(*place);
            }
        }
    }

    /// Notes what a local is given: a literal, or something else.
    fn give(&mut self, variable: &Variable, literal: Option<Literal>) {
        let held = self.constants.entry(variable.clone()).or_insert_with(|| literal.clone());
        if *held != literal {
            *held = None;
        }
    }

    /// Whether a function may send messages. What a file as a whole names may be called from everywhere.
    fn tells(&self, name: &str) -> bool {
        let own = |value: Value| if let Value::Own(id) = value { Some(id) } else { None };
        let mut open: Vec<Id> = self.global(name).into_iter().filter_map(own).collect();
        let mut seen: BTreeSet<Id> = open.iter().copied().collect();
        while let Some(function) = open.pop() {
            let called = self.calls.iter().filter(|(caller, _)| *caller == function);
            open.extend(called.map(|(_, called)| *called).filter(|called| seen.insert(*called)));
        }
        self.telling.iter().any(|id| seen.contains(id) || id.1 == CHUNK)
    }

    /// A number that grows with each fact.
    fn size(&self) -> usize {
        let sets = self.variables.values().chain(self.members.values());
        sets.chain(self.returned.values()).map(BTreeSet::len).sum::<usize>() + self.assigned.len()
    }

    fn global(&self, name: &str) -> Values {
        self.variables.get(&Variable::Global(name.to_owned())).cloned().unwrap_or_default()
    }

    fn hold(&mut self, variable: Variable, values: &Values) {
        self.variables.entry(variable).or_default().extend(values.iter().cloned());
    }

    /// Notes what a function gets when it is called.
    fn enter(&mut self, function: &Value, arguments: &[Values]) {
        let Value::Own(id) = function else { return };
        let parameters = self.parameters.get(id).cloned().unwrap_or_default();
        for (parameter, values) in parameters.into_iter().zip(arguments) {
            self.hold(parameter, values);
        }
    }

    /// All that the table may hold.
    fn elements(&self, table: Id) -> Values {
        let of_table = self.members.iter().filter(|((owner, _), _)| *owner == table);
        of_table.flat_map(|(_, values)| values.iter().cloned()).collect()
    }
}

/// The key of an index or a field.
enum Key {
    Name(String),
    /// It is computed when the script runs.
    Computed,
}

/// The last index of an expression, which is read or written.
struct Access {
    owners: Values,
    key: Key,
    at: usize,
}

/// An expression with its indexes and calls.
struct Chain {
    values: Values,
    /// The name that it consists of, if it is one.
    name: Option<String>,
    /// Its last index, which is not noted as read yet.
    access: Option<Access>,
    is_call: bool,
}

struct Walk<'t, 's> {
    file: usize,
    tokens: &'t Tokens<'s>,
    modules: &'t BTreeMap<String, usize>,
    facts: &'t mut Facts,
    at: usize,
    depth: usize,
    scopes: Vec<Vec<(&'s str, usize)>>,
    functions: Vec<Id>,
}

impl<'t, 's> Walk<'t, 's> {
    fn new(
        file: usize,
        tokens: &'t Tokens<'s>,
        modules: &'t BTreeMap<String, usize>,
        facts: &'t mut Facts,
    ) -> Self {
        let (scopes, functions) = (vec![Vec::new()], vec![(file, CHUNK)]);
        Self { file, tokens, modules, facts, at: 0, depth: 0, scopes, functions }
    }

    fn whole(&mut self) {
        let is_whole = self.block().is_some() && self.tokens.get(self.at).is_none();
        if !is_whole {
            let last = self.tokens.list().len().saturating_sub(1);
            let place = self.place(self.at.min(last));
            self.facts.uses.unread.insert(place);
        }
    }

    fn is(&self, text: &str) -> bool {
        self.tokens.is(self.at, text)
    }

    fn skip(&mut self, text: &str) -> bool {
        let found = self.is(text);
        self.at += usize::from(found);
        found
    }

    /// Takes a token that must be there. `None` ends the reading of a text that is no Lua.
    fn expect(&mut self, text: &str) -> Option<()> {
        self.skip(text).then_some(())
    }

    fn name(&mut self) -> Option<(&'s str, usize)> {
        let name = self.tokens.name(self.at)?;
        self.at += 1;
        Some((name, self.at - 1))
    }

    fn place(&self, index: usize) -> Place {
        Place { file: self.file, line: self.tokens.get(index).map_or(0, |token| token.line) }
    }

    fn declare(&mut self, name: &'s str, at: usize) -> Variable {
        if let Some(scope) = self.scopes.last_mut() {
            scope.push((name, at));
        }
        Variable::Local((self.file, at))
    }

    fn variable(&self, name: &str) -> Variable {
        let mut locals = self.scopes.iter().rev().flat_map(|scope| scope.iter().rev());
        match locals.find(|(local, _)| *local == name) {
            Some((_, at)) => Variable::Local((self.file, *at)),
            None => Variable::Global(name.to_owned()),
        }
    }

    fn scoped<T>(&mut self, inner: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        if self.depth == DEEPEST {
            return None;
        }
        self.depth += 1;
        self.scopes.push(Vec::new());
        let done = inner(self);
        self.scopes.pop();
        self.depth -= 1;
        done
    }

    fn block(&mut self) -> Option<()> {
        while self.tokens.get(self.at).is_some() {
            if ["end", "else", "elseif", "until"].iter().any(|word| self.is(word)) {
                break;
            }
            self.statement()?;
        }
        Some(())
    }

    fn body(&mut self) -> Option<()> {
        self.scoped(|walk| walk.block())
    }

    fn statement(&mut self) -> Option<()> {
        if self.skip(";") || self.skip("break") {
        } else if self.skip("if") {
            self.expression()?;
            self.expect("then")?;
            self.body()?;
            while self.skip("elseif") {
                self.expression()?;
                self.expect("then")?;
                self.body()?;
            }
            if self.skip("else") {
                self.body()?;
            }
            self.expect("end")?;
        } else if self.skip("while") {
            self.expression()?;
            self.expect("do")?;
            self.body()?;
            self.expect("end")?;
        } else if self.skip("do") {
            self.body()?;
            self.expect("end")?;
        } else if self.skip("repeat") {
            self.scoped(|walk| {
                walk.block()?;
                walk.expect("until")?;
                walk.expression()
            })?;
        } else if self.skip("for") {
            self.scoped(Self::iteration)?;
        } else if self.is("function") {
            self.named_function()?;
        } else if self.skip("local") {
            self.local()?;
        } else if self.skip("return") {
            let ends = ["end", "else", "elseif", "until", ";"];
            let empty = self.tokens.get(self.at).is_none();
            if !empty && !ends.iter().any(|word| self.is(word)) {
                let values = self.expressions()?.into_iter().next().unwrap_or_default();
                if let Some(function) = self.functions.last() {
                    self.facts.returned.entry(*function).or_default().extend(values);
                }
            }
            self.skip(";");
        } else if self.skip("goto") {
            self.name()?;
        } else if self.skip("::") {
            self.name()?;
            self.expect("::")?;
        } else {
            self.assignment_or_call()?;
        }
        Some(())
    }

    /// `for i = 1, 2 do`, `for key, value in pairs(list) do`.
    fn iteration(&mut self) -> Option<()> {
        let mut names = vec![self.name()?];
        while self.skip(",") {
            names.push(self.name()?);
        }
        let mut elements = Values::new();
        if self.skip("=") {
            self.expressions()?;
        } else {
            self.expect("in")?;
            elements = self.iterated()?;
        }
        for (index, (name, at)) in names.into_iter().enumerate() {
            let variable = self.declare(name, at);
            self.facts.give(&variable, None);
            // The value of `pairs` and `next` is their second one.
            if index == 1 {
                self.facts.hold(variable, &elements);
            }
        }
        self.expect("do")?;
        self.body()?;
        self.expect("end")
    }

    /// The elements over which a loop goes.
    fn iterated(&mut self) -> Option<Values> {
        let start = self.at;
        let iterates = |name: &str| matches!(name, "pairs" | "ipairs" | "next");
        let iterator = self.tokens.name(start).filter(|name| iterates(name));
        let is_global =
            iterator.is_some_and(|name| matches!(self.variable(name), Variable::Global(_)));
        let values = self.expressions()?;
        if !is_global {
            return Some(Values::new());
        }
        let after = self.at;
        // The argument is read again for its value alone.
        self.at = start + 2;
        let list = match self.tokens.is(start + 1, "(") {
            true => self.expression(),
            false => values.into_iter().nth(1),
        };
        self.at = after;
        let list = list.unwrap_or_default();
        Some(self.elements(&list))
    }

    fn elements(&self, lists: &Values) -> Values {
        let mut all = Values::new();
        for list in lists {
            match list {
                Value::Object(object) => all.extend(object.element().map(Value::Object)),
                Value::Own(id) => all.extend(self.facts.elements(*id)),
                _ => {}
            }
        }
        all
    }

    /// `function a.b:c(..) .. end`.
    fn named_function(&mut self) -> Option<()> {
        let at = self.at;
        self.at += 1;
        let (name, _) = self.name()?;
        let mut chain = self.named(name);
        let mut method = None;
        while self.is(".") || self.is(":") {
            if let Some(access) = chain.access.take() {
                chain.values = self.read(&access);
            }
            method = self.is(":").then_some(self.at);
            self.at += 1;
            let (key, at) = self.name()?;
            chain.access =
                Some(Access { owners: chain.values.clone(), key: Key::Name(key.to_owned()), at });
            chain.name = None;
        }
        let function = self.function(at, method)?;
        self.write(&chain, &Values::from([function]), None);
        Some(())
    }

    /// The parameters and the body of a function. `method` is the place of the colon before its name.
    fn function(&mut self, at: usize, method: Option<usize>) -> Option<Value> {
        let id = (self.file, at);
        self.expect("(")?;
        self.scoped(|walk| {
            let mut parameters: Vec<Variable> =
                method.map(|colon| walk.declare("self", colon)).into_iter().collect();
            while !walk.skip(")") {
                if let Some((name, at)) = walk.name() {
                    let parameter = walk.declare(name, at);
                    walk.facts.give(&parameter, None);
                    parameters.push(parameter);
                } else {
                    let dots = walk.at;
                    walk.expect("...")?;
                    walk.declare("arg", dots);
                }
                walk.skip(",");
            }
            walk.facts.parameters.insert(id, parameters);
            walk.functions.push(id);
            let body = walk.block();
            walk.functions.pop();
            body?;
            walk.expect("end")
        })?;
        Some(Value::Own(id))
    }

    fn local(&mut self) -> Option<()> {
        if self.is("function") {
            let at = self.at;
            self.at += 1;
            let (name, place) = self.name()?;
            // Declared before the body, which may call it.
            let variable = self.declare(name, place);
            let function = self.function(at, None)?;
            self.facts.hold(variable, &Values::from([function]));
            return Some(());
        }
        let mut names = Vec::new();
        loop {
            names.push(self.name()?);
            if self.skip("<") {
                self.name()?;
                self.expect(">")?;
            }
            if !self.skip(",") {
                break;
            }
        }
        let (mut first, others) = match self.is("=") {
            false => (Some(Literal::Nil), Some(Literal::Nil)),
            true => (None, None),
        };
        let values = match self.skip("=") {
            true => {
                first = self.literal();
                self.expressions()?
            }
            false => Vec::new(),
        };
        // Declared after the values, which see what the names meant before.
        let mut values = values.into_iter();
        for (name, at) in names {
            let variable = self.declare(name, at);
            self.facts.give(&variable, first.take());
            first.clone_from(&others);
            self.facts.hold(variable, &values.next().unwrap_or_default());
        }
        Some(())
    }

    fn assignment_or_call(&mut self) -> Option<()> {
        let start = self.at;
        let first = self.chain()?;
        if first.is_call {
            return Some(());
        }
        let mut targets = vec![first];
        while self.skip(",") {
            targets.push(self.chain()?);
        }
        self.expect("=")?;
        let literal = self.literal();
        let lone = self.lone_variable();
        let value = self.at;
        let values = self.expressions()?;
        if let [target] = targets.as_slice() {
            self.note_nil(target, start, value);
        }
        let mut values = values.into_iter();
        for (index, target) in targets.iter().enumerate() {
            let literal = literal.clone().filter(|_| index == 0);
            if let (Some(variable), Some(Access { owners, key: Key::Name(field), at })) =
                (lone.as_ref().filter(|_| index == 0), &target.access)
            {
                let place = self.place(*at);
                for owner in owners {
                    if let Value::Object(object) = owner {
                        let fields = self.facts.written.entry(variable.clone()).or_default();
                        fields.insert((*object, field.clone(), place));
                    }
                }
            }
            self.write(target, &values.next().unwrap_or_default(), literal);
        }
        Some(())
    }

    /// Notes a write of `t[key]`, or of `job.field and ..`, if the text of the function up to there doesn't have the
    /// same index, such as in a condition. The statement begins at `start`, its value at `value`.
    fn note_nil(&mut self, target: &Chain, start: usize, value: usize) {
        let Some(Access { owners, key: Key::Name(field), at }) = &target.access else {
            return;
        };
        let end = std::mem::replace(&mut self.at, value);
        let read = self.chain();
        let after = std::mem::replace(&mut self.at, end);
        let Some(access) = read.and_then(|read| read.access) else { return };
        let is_owner = |of: fn(&Value) -> bool| access.owners.iter().any(of);
        let of_table =
            matches!(access.key, Key::Computed) && is_owner(|owner| matches!(owner, Value::Own(_)));
        let of_request = self.tokens.is(after, "and")
            && is_owner(|owner| matches!(owner, Value::Object(Object::Description)));
        let has_other = (after..end).any(|index| self.tokens.is(index, "or"));
        let is_whole = after == end || self.tokens.is(after, "and");
        if (of_table || of_request)
            && is_whole
            && !has_other
            && !self.is_before(start, value..after)
        {
            let place = self.place(*at);
            for owner in owners {
                if let Value::Object(object) = owner {
                    let written = (*object, field.clone());
                    self.facts.uses.maybe_nil.entry(written).or_default().insert(place);
                }
            }
        }
    }

    /// Whether the function has the same tokens before a place.
    fn is_before(&self, place: usize, tokens: Range<usize>) -> bool {
        let begin = self.functions.last().map_or(0, |(_, at)| if *at == CHUNK { 0 } else { *at });
        let bytes = |at: usize| self.tokens.get(at).map(|_| self.tokens.bytes(at));
        let is_same = |at: usize| {
            tokens.clone().all(|index| bytes(at + index - tokens.start) == bytes(index))
        };
        (begin..place.saturating_sub(tokens.len())).any(is_same)
    }

    /// Whether the token here is a whole value.
    fn is_alone(&self) -> bool {
        let symbols = [
            "+", "-", "*", "/", "%", "^", "..", "and", "or", "==", "~=", "<", ">", "<=", ">=", ".",
            ":", "[", "(",
        ];
        !symbols.iter().any(|symbol| self.tokens.is(self.at + 1, symbol))
    }

    /// The variable that a whole value consists of.
    fn lone_variable(&self) -> Option<Variable> {
        self.tokens.name(self.at).filter(|_| self.is_alone()).map(|name| self.variable(name))
    }

    /// The literal that a whole value consists of.
    fn literal(&self) -> Option<Literal> {
        if !self.is_alone() {
            return None;
        }
        if self.is("nil") {
            return Some(Literal::Nil);
        } else if self.is("true") || self.is("false") {
            return Some(Literal::Boolean);
        } else if self.is("{") && self.tokens.is(self.at + 1, "}") {
            return Some(Literal::Table);
        }
        self.tokens.plain_string(self.at).map(|text| Literal::Text(text.to_owned()))
    }

    /// Notes that values are written to a variable or a field.
    fn write(&mut self, target: &Chain, values: &Values, literal: Option<Literal>) {
        if let Some(name) = &target.name {
            let variable = self.variable(name);
            if let Variable::Global(name) = &variable {
                self.facts.assigned.insert(name.clone());
            }
            self.facts.give(&variable, literal.clone());
            self.facts.hold(variable, values);
        }
        let Some(Access { owners, key, at }) = &target.access else { return };
        let place = self.place(*at);
        for owner in owners {
            match (owner, key) {
                (Value::Own(id), Key::Name(key)) => {
                    let members = self.facts.members.entry((*id, key.clone())).or_default();
                    members.extend(values.iter().cloned());
                }
                (Value::Own(id), Key::Computed) => {
                    let members = self.facts.members.entry((*id, String::new())).or_default();
                    members.extend(values.iter().cloned());
                }
                (Value::Object(object), Key::Name(key)) => {
                    let uses = &mut self.facts.uses;
                    let places = uses.fields.entry((*object, key.clone())).or_default();
                    places.written.insert(place);
                    if let Some(literal) = &literal {
                        let written = (*object, key.clone(), literal.clone());
                        uses.literals.entry(written).or_default().insert(place);
                    }
                }
                (Value::Object(object), Key::Computed) => self.computed(*object, place),
                (Value::Library(path), Key::Name(key)) if path == "_G" => {
                    self.facts.assigned.insert(key.clone());
                    self.facts.hold(Variable::Global(key.clone()), values);
                }
                (Value::Library(path), Key::Name(key)) => {
                    self.facts.uses.extended.insert(format!("{path}.{key}"));
                }
                _ => {}
            }
        }
    }

    fn computed(&mut self, object: Object, place: Place) {
        if object != Object::Environment {
            self.facts.uses.computed.insert((object, place));
        }
    }

    /// Notes that a field is read, and returns what it may hold.
    fn read(&mut self, Access { owners, key, at }: &Access) -> Values {
        let place = self.place(*at);
        let mut values = Values::new();
        for owner in owners {
            match (owner, key) {
                (Value::Own(id), Key::Computed) => values.extend(self.facts.elements(*id)),
                (Value::Own(id), Key::Name(key)) => {
                    let of = |key: &str| self.facts.members.get(&(*id, key.to_owned()));
                    values.extend(of(key).or_else(|| of("")).into_iter().flatten().cloned());
                }
                (Value::Object(object), key) => {
                    values.extend(self.of_object(*object, key, place).map(Value::Object));
                }
                (Value::Module(module), Key::Name(key)) => {
                    let member = ((*module).to_owned(), key.clone());
                    self.facts.uses.members.entry(member).or_default().insert(place);
                }
                (Value::Library(path), Key::Name(key)) if path == "_G" => {
                    values.extend(self.facts.global(key));
                }
                (Value::Library(path), Key::Name(key)) => {
                    values.insert(Value::Library(format!("{path}.{key}")));
                }
                _ => {}
            }
        }
        values
    }

    fn of_object(&mut self, object: Object, key: &Key, place: Place) -> Option<Object> {
        if let Some(element) = object.element() {
            return Some(element);
        }
        match (object, key) {
            (Object::Slurm, Key::Name(key)) if key == "jobs" => Some(Object::Jobs),
            (Object::Slurm, Key::Name(key)) if key == "reservations" => Some(Object::Reservations),
            (Object::Description, Key::Name(key)) if key == "environment" => {
                Some(Object::Environment)
            }
            (object, Key::Name(key)) => {
                if object == Object::Slurm && MESSAGES.contains(&key.as_str()) {
                    self.facts.telling.extend(self.functions.last());
                }
                let places = self.facts.uses.fields.entry((object, key.clone())).or_default();
                places.read.insert(place);
                None
            }
            (object, Key::Computed) => {
                self.computed(object, place);
                None
            }
        }
    }

    fn expressions(&mut self) -> Option<Vec<Values>> {
        let mut list = vec![self.expression()?];
        while self.skip(",") {
            list.push(self.expression()?);
        }
        Some(list)
    }

    /// An expression. Its value is one of its operands if `and` and `or` are its only operators.
    fn expression(&mut self) -> Option<Values> {
        self.scoped(|walk| {
            let (mut values, mut is_operand) = (Values::new(), true);
            loop {
                while ["not", "-", "#", "~"].iter().any(|sign| walk.is(sign)) {
                    walk.at += 1;
                    is_operand = false;
                }
                values.extend(walk.operand()?);
                if walk.skip("and") || walk.skip("or") {
                    continue;
                }
                let operators = [
                    "+", "-", "*", "/", "%", "^", "..", "==", "~=", "<", ">", "<=", ">=", "//",
                    "&", "|", "~", "<<", ">>",
                ];
                if !operators.iter().any(|operator| walk.skip(operator)) {
                    return Some(if is_operand { values } else { Values::new() });
                }
                is_operand = false;
            }
        })
    }

    fn operand(&mut self) -> Option<Values> {
        let at = self.at;
        let kind = self.tokens.get(at)?.kind;
        if self.skip("function") {
            return Some(Values::from([self.function(at, None)?]));
        }
        if self.is("{") {
            return self.table();
        }
        if self.skip("nil") || self.skip("true") || self.skip("false") || self.skip("...") {
            return Some(Values::new());
        }
        if matches!(kind, Kind::Number) {
            self.at += 1;
            return Some(Values::new());
        }
        let chain = self.chain()?;
        Some(match &chain.access {
            Some(access) => self.read(access),
            None => chain.values,
        })
    }

    /// `{a, key = b, [c] = d}`.
    fn table(&mut self) -> Option<Values> {
        let id = (self.file, self.at);
        self.expect("{")?;
        while !self.skip("}") {
            let mut key = String::new();
            if self.tokens.name(self.at).is_some() && self.tokens.is(self.at + 1, "=") {
                key = self.name()?.0.to_owned();
                self.at += 1;
            } else if self.skip("[") {
                key = self.tokens.plain_string(self.at).unwrap_or_default().to_owned();
                self.expression()?;
                self.expect("]")?;
                self.expect("=")?;
            }
            let values = self.expression()?;
            self.facts.members.entry((id, key)).or_default().extend(values);
            if !self.skip(",") && !self.skip(";") {
                self.expect("}")?;
                break;
            }
        }
        Some(Values::from([Value::Own(id)]))
    }

    /// A name as an expression.
    fn named(&self, name: &str) -> Chain {
        let variable = self.variable(name);
        let values = match &variable {
            Variable::Global(name) if name == "slurm" => {
                Values::from([Value::Object(Object::Slurm)])
            }
            Variable::Global(name) if !self.facts.assigned.contains(name) => {
                Values::from([Value::Library(name.clone())])
            }
            variable => self.facts.variables.get(variable).cloned().unwrap_or_default(),
        };
        Chain { values, name: Some(name.to_owned()), access: None, is_call: false }
    }

    /// A name, a string or an expression in brackets, with the indexes and calls after it.
    fn chain(&mut self) -> Option<Chain> {
        let at = self.at;
        let kind = self.tokens.get(at)?.kind;
        let mut chain = if let Some((name, _)) = self.name() {
            self.named(name)
        } else if self.skip("(") {
            let values = self.expression()?;
            self.expect(")")?;
            Chain { values, name: None, access: None, is_call: false }
        } else if matches!(kind, Kind::Quoted | Kind::Long) {
            if let Some(text) = self.tokens.plain_string(at) {
                let place = self.place(at);
                self.facts.uses.texts.entry(text.to_owned()).or_default().insert(place);
            }
            self.at += 1;
            Chain { values: Values::new(), name: None, access: None, is_call: false }
        } else {
            return None;
        };
        loop {
            let at = self.at;
            let is_string = self
                .tokens
                .get(at)
                .is_some_and(|token| matches!(token.kind, Kind::Quoted | Kind::Long));
            let is_call = self.is("(") || self.is("{") || is_string;
            if !is_call && !self.is(".") && !self.is("[") && !self.is(":") {
                return Some(chain);
            }
            // What is before an index or a call is read.
            if let Some(access) = chain.access.take() {
                chain.values = self.read(&access);
            }
            let owners = std::mem::take(&mut chain.values);
            chain.name = None;
            chain.is_call = false;
            if self.skip(".") {
                let (key, at) = self.name()?;
                chain.access = Some(Access { owners, key: Key::Name(key.to_owned()), at });
            } else if self.skip("[") {
                let text =
                    self.tokens.plain_string(self.at).filter(|_| self.tokens.is(self.at + 1, "]"));
                let key = text.map_or(Key::Computed, |text| Key::Name(text.to_owned()));
                self.expression()?;
                self.expect("]")?;
                chain.access = Some(Access { owners, key, at });
            } else if self.skip(":") {
                let (key, at) = self.name()?;
                let method = Access { owners: owners.clone(), key: Key::Name(key.to_owned()), at };
                // The members of Lua's own tables with methods are texts and files, such as `package.path`.
                let is_own = |owner: &Value| !matches!(owner, Value::Object(_) | Value::Library(_));
                let functions =
                    if owners.iter().all(is_own) { self.read(&method) } else { Values::new() };
                let arguments = self.arguments(vec![owners])?;
                chain.values = self.call(&functions, &arguments, at);
                chain.is_call = true;
            } else {
                let arguments = self.arguments(Vec::new())?;
                chain.values = self.call(&owners, &arguments, at);
                chain.is_call = true;
            }
        }
    }

    /// The arguments of a call, after those that are there already.
    fn arguments(&mut self, mut list: Vec<Values>) -> Option<Vec<Values>> {
        if self.skip("(") {
            if !self.skip(")") {
                list.extend(self.expressions()?);
                self.expect(")")?;
            }
        } else {
            list.push(self.operand_of_call()?);
        }
        Some(list)
    }

    /// `f "text"` or `f {..}`.
    fn operand_of_call(&mut self) -> Option<Values> {
        if self.is("{") {
            return self.table();
        }
        self.at += 1;
        Some(Values::new())
    }

    /// What a call may return. `at` is the token before its first argument.
    fn call(&mut self, functions: &Values, arguments: &[Values], at: usize) -> Values {
        let mut returned = Values::new();
        for value in functions.iter().chain(arguments.iter().flatten()) {
            if let (Value::Own(id), Some(caller)) = (value, self.functions.last()) {
                self.facts.calls.insert((*caller, *id));
            }
        }
        for function in functions {
            match function {
                Value::Own(id) => {
                    self.facts.enter(function, arguments);
                    returned.extend(self.facts.returned.get(id).into_iter().flatten().cloned());
                }
                Value::Library(path) if path == "require" => returned.extend(self.require(at)),
                Value::Library(path) if path == "pcall" => {
                    if let Some((first, rest)) = arguments.split_first() {
                        first.iter().for_each(|function| self.facts.enter(function, rest));
                    }
                }
                Value::Library(path) => {
                    let place = self.place(at);
                    self.facts.uses.called.entry(path.clone()).or_default().insert(place);
                    for value in arguments.first().into_iter().flatten() {
                        if let Value::Object(object) = value {
                            let passed = (*object, path.clone());
                            self.facts.uses.passed.entry(passed).or_default().insert(place);
                        }
                        if path == "setmetatable" {
                            returned.insert(value.clone());
                        }
                    }
                }
                _ => {}
            }
        }
        returned
    }

    fn require(&mut self, at: usize) -> Values {
        let argument = if self.tokens.is(at, "(") { at + 1 } else { at };
        let Some(module) = self.tokens.plain_string(argument) else { return Values::new() };
        let place = self.place(at);
        self.facts.uses.modules.entry(module.to_owned()).or_default().insert(place);
        if let Some(file) = self.modules.get(module) {
            return self.facts.returned.get(&(*file, CHUNK)).cloned().unwrap_or_default();
        }
        let served = MODULES.iter().find(|served| served.name == module);
        served.map(|served| Value::Module(served.name)).into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::uses::Places;
    use super::*;

    fn used(source: &str) -> Uses {
        uses(&[file(None, source)])
    }

    fn file(module: Option<&str>, source: &str) -> File {
        let module = module.map(str::to_owned);
        File { path: "x.lua".into(), module, source: source.as_bytes().to_vec() }
    }

    /// The names of the fields of an object, those that are written with `=` after them.
    fn fields(uses: &Uses, object: Object) -> Vec<String> {
        let of = uses.fields.iter().filter(|((owner, _), _)| *owner == object);
        let shown = |((_, name), places): (&(Object, String), &Places)| {
            format!("{name}{}", if places.written.is_empty() { "" } else { "=" })
        };
        of.map(shown).collect()
    }

    #[test]
    fn a_method_of_a_text_of_lua_is_no_function_of_its_library() {
        let uses = used("local d = package.path:match('^[^;]*') io.stdout:write(d)");
        assert!(uses.called.is_empty(), "{:?}", uses.called);
    }

    #[test]
    fn messages_of_changes_are_followed_through_calls() {
        let submit = "local function tell(x) slurm.log_user(x) end
             function slurm_job_submit() tell('a') end";
        for (rest, tells) in [
            ("function slurm_job_modify() return 0 end", false),
            ("function slurm_job_modify() tell('b') end", true),
            ("local function f() tell('b') end function slurm_job_modify() pcall(f) end", true),
            ("local say = slurm.user_msg function slurm_job_modify() say('b') end", true),
            ("slurm_job_modify = slurm_job_submit", true),
        ] {
            assert_eq!(used(&format!("{submit} {rest}")).modify_tells, tells, "{rest}");
        }
    }

    #[test]
    fn fields_are_found_by_the_position_of_parameters() {
        let uses = used(
            "function slurm_job_submit(jd, parts, uid)
               if jd.account == nil then jd.qos = 'x' end
               jd['comment'] = jd.name .. parts['batch'].max_time
               for n, p in pairs(parts) do if p.flag_default == 1 then jd.partition = n end end
               jd.environment.A = jd.environment['B']
               return slurm.SUCCESS
             end
             slurm_job_modify = function(d, rec, ps, uid) d.time_limit = rec.time_limit end",
        );
        assert_eq!(
            fields(&uses, Object::Description),
            ["account", "comment=", "name", "partition=", "qos=", "time_limit="]
        );
        assert_eq!(fields(&uses, Object::Environment), ["A=", "B"]);
        assert_eq!(fields(&uses, Object::Partition), ["flag_default", "max_time"]);
        assert_eq!(fields(&uses, Object::Job), ["time_limit"]);
        assert_eq!(fields(&uses, Object::Slurm), ["SUCCESS"]);
    }

    #[test]
    fn names_are_followed_through_calls_and_assignments() {
        let uses = used(
            "local function check(job, list) return job.licenses and list.gpu.max_nodes end
             local M = {}
             function M.deep(x) local y = x y.reservation = 'r' end
             function slurm_job_submit(desc, parts)
               check(desc, parts)
               M.deep(desc)
               local jobs = slurm.jobs
               for id, j in pairs(jobs) do print(j.user_id) end
               return slurm.jobs['1'].job_state
             end",
        );
        assert_eq!(fields(&uses, Object::Description), ["licenses", "reservation="]);
        assert_eq!(fields(&uses, Object::Partition), ["max_nodes"]);
        assert_eq!(fields(&uses, Object::Job), ["job_state", "user_id"]);
    }

    #[test]
    fn computed_names_and_library_functions_are_noted() {
        let uses = used(
            "local util = require 'util'
             require(\"posix\")
             function slurm_job_submit(job_desc)
               local f = 'x'
               job_desc[f] = job_desc[job_desc.name]
               os.exit(unpack({}))
             end",
        );
        assert_eq!(uses.computed.len(), 1);
        assert_eq!(fields(&uses, Object::Description), ["name"]);
        assert_eq!(uses.called.keys().collect::<Vec<_>>(), ["os.exit", "unpack"]);
        assert_eq!(uses.modules.keys().collect::<Vec<_>>(), ["posix", "util"]);
    }

    #[test]
    fn functions_of_the_script_are_its_own_before_they_are_defined() {
        let uses = used(
            "function slurm_job_submit(job_desc) site.log(limit(job_desc)) return check(job_desc) end
             function check(d) if d then return check() end end
             function limit(d) return d.time_limit end
             site = { log = print }",
        );
        assert_eq!(uses.called.keys().collect::<Vec<_>>(), ["print"]);
        assert_eq!(fields(&uses, Object::Description), ["time_limit"]);
    }

    #[test]
    fn a_name_means_what_its_scope_says() {
        let uses = used(
            "local job_desc = { colour = 'red' }
             local function paint(desc) return desc.colour end
             paint(job_desc)
             function slurm_job_submit(desc, parts)
               do local desc = {} desc.inner = 1 end
               for i, desc in ipairs({ 1 }) do print(desc.loop) end
               local f = function(desc) return desc.argument end
               f('x')
               local part = parts.gpu
               if part then local part = desc.partition print(part.text) end
               return desc.account
             end
             local slurm = { log = 1 }
             print(slurm.log)",
        );
        assert_eq!(fields(&uses, Object::Description), ["account", "partition"]);
        assert_eq!(fields(&uses, Object::Partition), Vec::<String>::new());
        assert_eq!(fields(&uses, Object::Slurm), Vec::<String>::new());
    }

    #[test]
    fn values_are_followed_through_tables_functions_and_modules() {
        let script = "local util, posix = require('util'), require 'posix'
             local ctx, M = {}, {}
             local checks = { function(job) return job.qos end }
             local function first(list) return list end
             function M:own(desc) return self.x, desc.wckey end
             function slurm_job_submit(job_desc)
               ctx.job = job_desc
               for _, check in ipairs(checks) do check(job_desc) end
               M:own(job_desc)
               pcall(util.limit, job_desc)
               posix.fork(posix.getpasswd(0).name)
               return ctx.job.comment, first(job_desc).name, (job_desc or ctx).extra
             end";
        let module = "local m = {} function m.limit(d) d.time_limit = 1 end return m";
        let uses = uses(&[file(None, script), file(Some("util"), module)]);
        assert_eq!(
            fields(&uses, Object::Description),
            ["comment", "extra", "name", "qos", "time_limit=", "wckey"]
        );
        let members: Vec<&str> = uses.members.keys().map(|(_, member)| member.as_str()).collect();
        assert_eq!(members, ["fork", "getpasswd"]);
    }

    #[test]
    fn literals_and_functions_on_objects_are_noted() {
        let uses = used(
            "function slurm_job_submit(job_desc)
               job_desc.environment.A = nil
               job_desc.requeue, job_desc.name = true, nil
               job_desc.comment = 'a' .. 'b'
               job_desc.qos = nil or 'x'
               for k, v in pairs(job_desc) do print(k, v) end
               setmetatable(job_desc, {}).account = 'gres:gpu:1'
             end",
        );
        let literals: Vec<_> = uses.literals.keys().cloned().collect();
        let noted = |object, name: &str, literal| (object, name.to_owned(), literal);
        assert_eq!(
            literals,
            [
                noted(Object::Description, "account", Literal::Text("gres:gpu:1".to_owned())),
                noted(Object::Description, "requeue", Literal::Boolean),
                noted(Object::Environment, "A", Literal::Nil),
            ]
        );
        let passed: Vec<&str> = uses.passed.keys().map(|(_, path)| path.as_str()).collect();
        assert_eq!(passed, ["pairs", "setmetatable"]);
        assert!(uses.texts.contains_key("gres:gpu:1"));
    }

    #[test]
    fn literals_are_followed_through_locals_that_hold_nothing_else() {
        let uses = used(
            "local never
             function slurm_job_submit(job_desc)
               local none = nil
               local some = nil
               if job_desc.name then some = 'x' end
               job_desc.environment.A = none
               job_desc.environment.B = some
               job_desc.environment.C = never
               job_desc.environment.D = none or 'y'
               local text = 'gres:gpu:1'
               job_desc.qos = text
               for _, each in ipairs({}) do job_desc.comment = each end
             end",
        );
        let literals: Vec<_> = uses.literals.keys().cloned().collect();
        let noted = |object, name: &str, literal| (object, name.to_owned(), literal);
        assert_eq!(
            literals,
            [
                noted(Object::Description, "qos", Literal::Text("gres:gpu:1".to_owned())),
                noted(Object::Environment, "A", Literal::Nil),
                noted(Object::Environment, "C", Literal::Nil),
            ]
        );
    }

    #[test]
    fn deep_nesting_ends_the_reading() {
        used(&"(".repeat(100_000));
        used(&"x = {".repeat(100_000));
        used(&"do ".repeat(100_000));
    }

    #[test]
    fn a_broken_text_is_read_as_far_as_it_goes() {
        for source in
            ["function", "for", "x = ", "slurm.", "slurm_job_submit = function(", "a[b", "f(("]
        {
            assert_eq!(used(source).unread.len(), 1, "{source}");
        }
    }
}
