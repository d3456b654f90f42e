//! Which of the known names a misspelt one probably stands for.
//!
//! Decides by letters alone. Never decides whether a name is misspelt.

/// The known field that was probably meant.
pub(crate) fn nearest<'a>(key: &str, known: &[&'a str]) -> Option<&'a str> {
    let near = |field: &&&str| {
        let (short, long) = if key.len() < field.len() { (key, **field) } else { (**field, key) };
        short.len() >= 4 && long.to_ascii_lowercase().starts_with(&short.to_ascii_lowercase())
            || distance(key, field) <= 2
    };
    known.iter().filter(near).min_by_key(|field| distance(key, field)).copied()
}

/// How many letters to change, add or drop to make one word of the other.
fn distance(one: &str, other: &str) -> usize {
    if one.len() > 64 {
        return usize::MAX;
    }
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in other.iter().enumerate() {
            let change = diagonal + usize::from(!a.eq_ignore_ascii_case(b));
            diagonal = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row.last().copied().unwrap_or(usize::MAX)
}
