//! Decides how a field is found among those of a struct. Never says what a field is. Answers to no upstream piece: Go's compiler
//! knows where each field is.

use std::cmp::Ordering;

use crate::schema::Field;

/// Named fields, the shorter names first: most names are told apart by their length, without a look at their letters.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fields(Vec<(String, Field)>);

fn order(a: &str, b: &str) -> Ordering {
    a.len().cmp(&b.len()).then_with(|| a.cmp(b))
}

impl Fields {
    fn find(&self, name: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(one, _)| order(one, name))
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Field> {
        self.find(name).ok().and_then(|place| self.0.get(place)).map(|(_, field)| field)
    }

    pub(crate) fn contains(&self, name: &str) -> bool {
        self.find(name).is_ok()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Field)> {
        self.0.iter().map(|(name, field)| (name.as_str(), field))
    }

    /// Adds a field, or puts it in place of the one of that name.
    pub(crate) fn insert(&mut self, name: &str, field: Field) {
        match self.find(name) {
            Ok(place) => self.0[place].1 = field,
            Err(place) => self.0.insert(place, (name.to_owned(), field)),
        }
    }
}

/// Fields whose names differ, as those of a map do.
impl FromIterator<(String, Field)> for Fields {
    fn from_iter<T: IntoIterator<Item = (String, Field)>>(fields: T) -> Self {
        let mut fields: Vec<(String, Field)> = fields.into_iter().collect();
        fields.sort_by(|(a, _), (b, _)| order(a, b));
        Self(fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{Link, Merge};

    fn field(required: bool) -> Field {
        Field { link: Link::deduced(), default: None, required, merge: Merge::default() }
    }

    #[test]
    fn each_field_is_found_by_its_name_and_no_other_is() {
        let names = ["spec", "kind", "a", "", "metadata", "apiVersion", "data"];
        let mut fields: Fields = names.iter().map(|name| ((*name).to_owned(), field(false))).collect();
        fields.insert("kind", field(true));
        fields.insert("status", field(true));
        for name in names.iter().chain(&["status"]) {
            let required = matches!(*name, "kind" | "status");
            assert_eq!(fields.get(name).map(|field| field.required), Some(required), "{name}");
        }
        for name in ["b", "spek", "metadatas"] {
            assert!(!fields.contains(name), "{name}");
        }
        assert_eq!(fields.iter().count(), names.len() + 1);
    }
}
