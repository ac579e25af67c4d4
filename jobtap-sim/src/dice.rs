//! Random numbers that are the same on every machine and in every version: SplitMix64.

/// A sequence of numbers that its seed determines.
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    /// The sequence of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`; 0 if `end` is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.roll().checked_rem(end).unwrap_or(0)
    }

    /// An index of a list of this length; 0 if it is empty.
    pub fn index(&mut self, len: usize) -> usize {
        // Less than `len`.
        usize::try_from(self.below(len as u64)).unwrap_or(0)
    }

    /// Whether it is one of `times` cases in `of`.
    pub fn hits(&mut self, times: u64, of: u64) -> bool {
        self.below(of) < times
    }

    /// Picks an item of a list; `None` if the list is empty.
    pub fn one_of<'a, T>(&mut self, all: &'a [T]) -> Option<&'a T> {
        all.get(self.index(all.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_numbers_of_splitmix64() {
        let mut dice = Dice::new(1_234_567);
        let rolled = [dice.roll(), dice.roll(), dice.roll()];
        let published =
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!(rolled, published);
    }
}
