//! Decides uids and the random ends of generated names. Never reads a clock, and with a seed never gives two
//! different sequences. Answers to `k8s.io/apiserver/pkg/storage/names` and
//! `k8s.io/apimachinery/pkg/util/uuid`.

use std::hash::{BuildHasher, Hasher, RandomState};

use crate::options::Ids;

/// Letters and digits without vowels and look-alikes, so that no word comes out by chance.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
const DIGITS: &[u8; 16] = b"0123456789abcdef";
const SUFFIX: usize = 5;
const LONGEST_BASE: usize = 63 - SUFFIX;

/// A stream of names.
#[derive(Debug)]
pub(crate) struct Names {
    state: u64,
}

impl Names {
    pub(crate) fn new(ids: Ids) -> Self {
        let state = match ids {
            Ids::Seeded(seed) => seed,
            // The hasher's keys are the only randomness that the standard library offers; tests need no more.
            Ids::Random => RandomState::new().build_hasher().finish(),
        };
        Self { state }
    }

    /// Goes on in a server that has been started again at that revision: with a seed too, nothing comes a second time.
    pub(crate) fn resume(&mut self, revision: u64) {
        self.state = self.state.wrapping_add(revision.wrapping_mul(0xD1B5_4A32_D192_ED03));
        self.state = self.next();
    }

    /// `SplitMix64`: short, seedable, and good enough for names.
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A uid in the form of a version 4 UUID.
    pub(crate) fn uid(&mut self) -> String {
        let (high, low) = (self.next(), self.next());
        // The version and the variant have their places.
        let halves = [(high & !0xf000) | 0x4000, (low & !(0b11 << 62)) | (0b10 << 62)];
        let mut uid = String::with_capacity(36);
        for (place, byte) in halves.into_iter().flat_map(u64::to_be_bytes).enumerate() {
            if matches!(place, 4 | 6 | 8 | 10) {
                uid.push('-');
            }
            for digit in [byte >> 4, byte & 0xf] {
                uid.push(char::from(DIGITS[usize::from(digit)]));
            }
        }
        uid
    }

    /// The name that `generateName: base` gets: the base, cut so that the whole has at most 63 characters,
    /// and five more.
    pub(crate) fn generate(&mut self, base: &str) -> String {
        let mut end = base.len().min(LONGEST_BASE);
        while !base.is_char_boundary(end) {
            end -= 1;
        }
        let mut name = String::with_capacity(end + SUFFIX);
        name.push_str(&base[..end]);
        let mut random = self.next();
        for _ in 0..SUFFIX {
            let letter = usize::try_from(random % 27).unwrap_or(0);
            name.push(char::from(ALPHABET[letter]));
            random /= 27;
        }
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_names() {
        let (mut a, mut b) = (Names::new(Ids::Seeded(7)), Names::new(Ids::Seeded(7)));
        assert_eq!(a.uid(), b.uid());
        assert_eq!(a.generate("c-"), b.generate("c-"));
        assert_ne!(a.uid(), a.uid());
    }

    #[test]
    fn uids_have_the_form_of_a_random_uuid() {
        let uid = Names::new(Ids::Seeded(1)).uid();
        assert_eq!(uid.len(), 36);
        assert_eq!(uid.as_bytes()[14], b'4');
        assert!(matches!(uid.as_bytes()[19], b'8' | b'9' | b'a' | b'b'), "{uid}");
        assert_eq!(
            uid, "910a2dec-8902-4cc1-beeb-8da1658eec67",
            "what tests have recorded with a seed stays so"
        );
    }

    #[test]
    fn generated_names_keep_within_63_characters() {
        let mut names = Names::new(Ids::Random);
        let name = names.generate(&"x".repeat(80));
        assert_eq!(name.len(), 63);
        assert!(name[58..].bytes().all(|letter| ALPHABET.contains(&letter)), "{name}");
    }
}
