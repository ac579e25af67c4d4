//! The settings of the store: the table `[store]` of the configuration.

use serde_json::Value;

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

/// A key of `[store]` has a value that can't be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreSettingsError {
    /// The memory is not a size, or too small.
    #[error(
        "store.memory: {0} is not a size of {min} MiB or more, such as \"{default}M\"",
        min = Memory::MIN / MIB,
        default = Memory::DEFAULT / MIB
    )]
    Memory(String),
    /// The reaction to damage is not one of the known words.
    #[error("store.damage: {0} is neither \"refuse\" nor \"repair\"")]
    Damage(String),
}

/// The settings in the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreSettings {
    /// `store.memory`: how much memory the store may use.
    pub memory: Memory,
    /// `store.damage`: how a starting manager reacts to a damaged store.
    pub damage: OnDamage,
}

/// How a starting manager reacts to a damaged store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnDamage {
    /// It reports the damage and exits.
    #[default]
    Refuse,
    /// It saves a copy, drops the damaged data, reports what was dropped and starts.
    Repair,
}

/// The bytes that the store may use in memory: for data not yet in tables, and for blocks of tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory(u64);

impl Memory {
    /// With less, tables would be so small that the store would be busy merging them.
    const MIN: u64 = 16 * MIB;
    /// More was not faster in measurements.
    const DEFAULT: u64 = 96 * MIB;

    /// The bytes for cached blocks of tables: data blocks for lookups of old jobs, and filters (10
    /// bits a row: 32 MiB for 26 million rows). The manager also has all jobs in its own memory.
    pub(super) fn cache(self) -> u64 {
        self.0 / 3
    }

    /// The bytes for data written since the last table was begun. As much again may be on its way to a
    /// table.
    pub(super) fn gathering(self) -> u64 {
        self.0 / 3
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self(Self::DEFAULT)
    }
}

impl StoreSettings {
    /// Reads the settings from `config`, the whole configuration.
    ///
    /// # Errors
    /// Fails on an invalid value; the message names its key.
    pub fn read(config: &Value) -> Result<Self, StoreSettingsError> {
        let mut settings = Self::default();
        if let Some(value) = config.pointer("/store/memory") {
            let bytes = size(value).filter(|bytes| *bytes >= Memory::MIN);
            let bytes = bytes.ok_or_else(|| StoreSettingsError::Memory(value.to_string()))?;
            settings.memory = Memory(bytes);
        }
        settings.damage = match config.pointer("/store/damage").map(|value| (value.as_str(), value))
        {
            None | Some((Some("refuse"), _)) => OnDamage::Refuse,
            Some((Some("repair"), _)) => OnDamage::Repair,
            Some((_, value)) => return Err(StoreSettingsError::Damage(value.to_string())),
        };
        Ok(settings)
    }
}

/// Parses a size in bytes: a number, or a text such as `96M` with units that are powers of 1024.
fn size(value: &Value) -> Option<u64> {
    let Some(text) = value.as_str() else { return value.as_u64() };
    let scales = [('K', KIB), ('k', KIB), ('M', MIB), ('G', 1024 * MIB)];
    let scaled = scales
        .into_iter()
        .find_map(|(letter, scale)| text.strip_suffix(letter).map(|digits| (digits, scale)));
    let (digits, scale) = scaled.unwrap_or((text, 1));
    digits.parse::<u64>().ok()?.checked_mul(scale)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn memory_is_a_number_of_bytes_or_a_size() {
        let read = |value: Value| StoreSettings::read(&json!({ "store": { "memory": value } }));
        for value in [json!(32 * MIB), json!("33554432"), json!("32768K"), json!("32M")] {
            assert_eq!(read(value).unwrap().memory, Memory(32 * MIB));
        }
        for value in [json!("15M"), json!(-1), json!(1.5), json!("32MB"), json!("M"), json!(null)] {
            let text = read(value.clone()).unwrap_err().to_string();
            let expected =
                format!("store.memory: {value} is not a size of 16 MiB or more, such as \"96M\"");
            assert_eq!(text, expected);
        }
        assert_eq!(StoreSettings::read(&json!({})).unwrap(), StoreSettings::default());
    }

    #[test]
    fn damage_is_refused_unless_repair_is_configured() {
        let read = |value: &str| StoreSettings::read(&json!({ "store": { "damage": value } }));
        assert_eq!(read("refuse").unwrap().damage, OnDamage::Refuse);
        assert_eq!(read("repair").unwrap().damage, OnDamage::Repair);
        let text = read("ignore").unwrap_err().to_string();
        assert_eq!(text, "store.damage: \"ignore\" is neither \"refuse\" nor \"repair\"");
    }
}
