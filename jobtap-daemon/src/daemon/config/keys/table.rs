//! How a table of the configuration and its keys are described.

/// A table of the configuration.
#[derive(Debug)]
pub struct Table {
    /// Its name, with periods between the names of tables. `*` stands for a name that the site chooses.
    pub name: &'static str,
    /// Where its keys are documented.
    pub by: By,
    /// How its content is treated.
    pub content: Content,
}

/// Where a table or a key is documented.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// A manual page of Flux's projects, section 5.
    Flux(&'static str),
    /// This guide.
    Jobtap,
}

/// How the content of a table is treated.
#[derive(Debug)]
pub enum Content {
    /// Each key says what happens to it.
    Keys(Reader, &'static [Key]),
    /// No key of the table is read here, all for the same reason.
    Idle {
        /// Why, as the end of a sentence.
        why: &'static str,
        /// The known keys.
        keys: &'static [&'static str],
    },
    /// Its keys are names that the site chooses, and the reader of the table checks them.
    Named(&'static str),
}

/// Who refuses the unknown keys of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reader {
    /// Only this list.
    List,
    /// This list, except that a reader refuses a value that is not a table, in Flux's words.
    ListOfTable,
    /// The part of the manager that reads the table as a whole, in Flux's words.
    Itself,
    /// The part of the manager that reads the tables of this name, of which there may be several.
    Several,
    /// This plugin, if it is loaded. Without it, nothing reads the table.
    Plugin(&'static str),
}

/// A key of a table.
#[derive(Debug)]
pub struct Key {
    /// Its name in the table.
    pub name: &'static str,
    /// Where it is documented, if not with its table.
    pub by: Option<By>,
    /// What it does here.
    pub fate: Fate,
}

/// What a key does here.
#[derive(Debug)]
pub enum Fate {
    /// It does what its documentation says.
    Served {
        /// When a new value takes effect.
        takes_effect: TakesEffect,
        /// What users should know about it here; may be empty.
        note: &'static str,
    },
    /// Nothing here reads it.
    NoEffect {
        /// Why, as the end of a sentence.
        why: &'static str,
        /// JSON values that ask for what happens anyway. `false` and empty values always count as such.
        fine: &'static [&'static str],
    },
    /// The manager refuses to start if it is set.
    Refused {
        /// What to do instead, as the end of a sentence.
        instead: &'static str,
    },
}

/// When a new value of a key takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TakesEffect {
    /// When the configuration is loaded.
    AtOnce,
    /// At the next start of the manager.
    AtStart,
}

pub(super) const fn served(name: &'static str, note: &'static str) -> Key {
    Key { name, by: None, fate: Fate::Served { takes_effect: TakesEffect::AtOnce, note } }
}

/// A key that is read at the start only.
pub(super) const fn at_start(name: &'static str, note: &'static str) -> Key {
    Key { name, by: None, fate: Fate::Served { takes_effect: TakesEffect::AtStart, note } }
}

/// A key of jobtap's own in a table of Flux.
pub(super) const fn own(key: Key) -> Key {
    Key { by: Some(By::Jobtap), ..key }
}

pub(super) const fn no_effect(name: &'static str, why: &'static str) -> Key {
    no_effect_unless(name, &[], why)
}

/// A key without effect. The values in `fine` ask for what happens anyway.
pub(super) const fn no_effect_unless(
    name: &'static str,
    fine: &'static [&'static str],
    why: &'static str,
) -> Key {
    Key { name, by: None, fate: Fate::NoEffect { why, fine } }
}

pub(super) const fn refused(name: &'static str, instead: &'static str) -> Key {
    Key { name, by: None, fate: Fate::Refused { instead } }
}
