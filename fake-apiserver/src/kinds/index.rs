//! Decides which kinds are served now, and finds each by whatever names it: its URL, its type, a short word of a test.
//! Never describes one. Answers to the REST mapper of `k8s.io/apimachinery/pkg/api/meta`.

use std::collections::HashMap;
use std::sync::Arc;

use super::Trait::Generation;
use super::{Found, Kind, ROWS, STATUS, plural_of, split_api_version};

/// All kinds that are served, with an index for each way of asking. The number of a kind stays its own when it is served no
/// more, and is given to it again when it comes back.
#[derive(Clone, Debug)]
pub(crate) struct Kinds {
    /// Those that are served, in the order of discovery.
    all: Vec<Arc<Kind>>,
    slots: Vec<Slot>,
    by_plural: HashMap<String, Vec<usize>>,
}

#[derive(Clone, Debug)]
struct Slot {
    kind: Arc<Kind>,
    served: bool,
    /// Whether it is a version of its definition still, served or not.
    known: bool,
    /// The number of the kind with which it shares its objects.
    table: usize,
}

impl Kinds {
    pub(crate) fn served() -> Self {
        let mut kinds = Self { all: Vec::new(), slots: Vec::new(), by_plural: HashMap::new() };
        for (group, kind, plural, namespaced, short_names, subresources, fields, traits) in
            ROWS.iter().copied()
        {
            let (group, version) = group.split_once('/').unwrap_or((group, "v1"));
            kinds.add(Kind {
                group: group.into(),
                version: version.into(),
                kind: kind.into(),
                plural: plural.into(),
                namespaced,
                short_names,
                subresources,
                fields,
                traits,
                columns: Vec::new(),
                custom: false,
                definition: None,
                found: Found::default(),
            });
        }
        kinds
    }

    /// Serves one more kind; one that is already served stays as it is.
    pub(crate) fn register(&mut self, api_version: &str, kind: &str, namespaced: bool) -> usize {
        let (group, version) = split_api_version(api_version);
        if let Some(index) = self.by_kind(group, version, kind) {
            return index;
        }
        self.add(Kind {
            group: group.to_owned().into(),
            version: version.to_owned().into(),
            kind: kind.to_owned().into(),
            plural: plural_of(kind).into(),
            namespaced,
            short_names: &[],
            subresources: STATUS,
            fields: &[],
            traits: &[Generation],
            columns: Vec::new(),
            custom: true,
            definition: None,
            found: Found::default(),
        })
    }

    fn add(&mut self, kind: Kind) -> usize {
        let index = self.slots.len();
        self.by_plural.entry(kind.plural.to_string()).or_default().push(index);
        let kind = Arc::new(kind);
        self.all.push(kind.clone());
        self.slots.push(Slot { kind, served: true, known: true, table: index });
        index
    }

    /// Knows these versions of a definition and no others, and serves those that say so; all share their objects.
    pub(crate) fn serve(&mut self, definition: &str, versions: Vec<Kind>) {
        let belongs =
            |kind: &Kind| kind.definition.as_ref().is_some_and(|custom| custom.definition == definition);
        self.all.retain(|kind| !belongs(kind));
        for slot in self.slots.iter_mut().filter(|slot| belongs(&slot.kind)) {
            (slot.served, slot.known) = (false, false);
        }
        for kind in versions {
            let served = kind.definition.as_ref().is_none_or(|version| version.served);
            let shared = self.of_definition(definition);
            let known = self.slots.iter().position(|slot| {
                let one = &slot.kind;
                one.group == kind.group && one.version == kind.version && one.plural == kind.plural
            });
            let index = known.unwrap_or(self.slots.len());
            if known.is_none() {
                self.by_plural.entry(kind.plural.to_string()).or_default().push(index);
            }
            let kind = Arc::new(kind);
            if served {
                self.all.push(kind.clone());
            }
            let slot = Slot { kind, served, known: true, table: shared.unwrap_or(index) };
            match self.slots.get_mut(index) {
                Some(old) => *old = slot,
                None => self.slots.push(slot),
            }
        }
    }

    /// A number under which the objects of a definition are found, whether it is served or not.
    pub(crate) fn of_definition(&self, definition: &str) -> Option<usize> {
        let belongs =
            |slot: &Slot| slot.kind.definition.as_ref().is_some_and(|custom| custom.definition == definition);
        self.slots.iter().find(|slot| belongs(slot)).map(|slot| slot.table)
    }

    /// The number of the kind under which a kind's objects are kept.
    pub(crate) fn table(&self, index: usize) -> usize {
        self.slots[index].table
    }

    /// The kind under which objects that are kept under a number are found again after a restart.
    pub(crate) fn keeper(&self, table: usize) -> &Arc<Kind> {
        let keeps = |slot: &&Slot| slot.known && slot.table == table;
        self.slots.iter().find(keeps).map_or_else(|| self.get(table), |slot| &slot.kind)
    }

    /// The number of a kind that is known, served or not.
    pub(crate) fn known(&self, group: &str, version: &str, kind: &str) -> Option<usize> {
        let is = |one: &Kind| one.kind == kind && one.group == group && one.version == version;
        self.slots.iter().position(|slot| slot.known && is(&slot.kind))
    }

    /// How many numbers there are.
    pub(crate) fn count(&self) -> usize {
        self.slots.len()
    }

    /// The kinds that are served, in the order of discovery; their places are not their numbers.
    pub(crate) fn all(&self) -> &[Arc<Kind>] {
        &self.all
    }

    pub(crate) fn get(&self, index: usize) -> &Arc<Kind> {
        &self.slots[index].kind
    }

    fn position(&self, mut wanted: impl FnMut(&Kind) -> bool) -> Option<usize> {
        self.slots.iter().position(|slot| slot.served && wanted(&slot.kind))
    }

    /// The kind that a URL names.
    pub(crate) fn by_plural(&self, group: &str, version: &str, plural: &str) -> Option<usize> {
        let candidates = self.by_plural.get(plural)?;
        candidates.iter().copied().find(|index| {
            let Slot { kind, served, .. } = &self.slots[*index];
            *served && kind.group == group && kind.version == version
        })
    }

    /// The kind that an object names.
    pub(crate) fn by_kind(&self, group: &str, version: &str, kind: &str) -> Option<usize> {
        self.position(|one| one.kind == kind && one.group == group && one.version == version)
    }

    /// The first kind of that name in any group: what a test means by "Pod".
    pub(crate) fn named(&self, kind: &str) -> Option<usize> {
        self.position(|one| one.kind == kind)
    }

    /// The first kind with that plural in any group.
    pub(crate) fn with_plural(&self, plural: &str) -> Option<usize> {
        self.position(|one| one.plural == plural)
    }

    /// Whether a group is the server's own, and not from a definition.
    pub(crate) fn is_built_in(&self, group: &str) -> bool {
        self.all.iter().any(|kind| kind.group == group && kind.definition.is_none())
    }

    pub(crate) fn has_version(&self, group: &str, version: &str) -> bool {
        self.all.iter().any(|kind| kind.group == group && kind.version == version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_is_found_by_its_url_and_its_kind() {
        let kinds = Kinds::served();
        for (index, kind) in kinds.all().iter().enumerate() {
            assert_eq!(kinds.by_plural(&kind.group, &kind.version, &kind.plural), Some(index));
            assert_eq!(kinds.by_kind(&kind.group, &kind.version, &kind.kind), Some(index));
        }
    }

    #[test]
    fn registering_twice_changes_nothing() {
        let mut kinds = Kinds::served();
        let first = kinds.register("example.com/v1", "Policy", true);
        assert_eq!(kinds.register("example.com/v1", "Policy", true), first);
        assert_eq!(kinds.by_plural("example.com", "v1", "policies"), Some(first));
        assert_eq!(kinds.register("v1", "Pod", true), kinds.named("Pod").unwrap());
    }
}
