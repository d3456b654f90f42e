//! Putting text on a page: columns, wrapped sentences, colours, durations.
//!
//! Knows nothing of claims and volumes, but that some phases are good and some bad.

use super::Style;

/// Sentences are not squeezed narrower than this, however narrow the terminal is.
const NARROWEST: usize = 20;

/// What a word is painted like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Paint {
    None,
    Title,
    Good,
    Waiting,
    Bad,
    Fix,
}

impl Paint {
    pub(super) fn of_phase(phase: &str) -> Self {
        match phase {
            "Bound" | "Available" | "Running" | "Succeeded" => Paint::Good,
            "Lost" | "Failed" => Paint::Bad,
            "Pending" | "Released" => Paint::Waiting,
            _ => Paint::None,
        }
    }

    fn code(self) -> &'static str {
        match self {
            Paint::None => "",
            Paint::Title => "\x1b[1m",
            Paint::Good => "\x1b[32m",
            Paint::Waiting => "\x1b[33m",
            Paint::Bad => "\x1b[31m",
            Paint::Fix => "\x1b[36m",
        }
    }
}

/// One cell of a table.
pub(super) struct Cell {
    text: String,
    paint: Paint,
}

/// Names and messages come from the input: what would steer the terminal is shown instead of sent.
pub(super) fn clean(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() {
            clean.extend(c.escape_default());
        } else {
            clean.push(c);
        }
    }
    clean
}

pub(super) fn cell(text: &str) -> Cell {
    Cell { text: if text.is_empty() { "-".to_owned() } else { clean(text) }, paint: Paint::None }
}

pub(super) fn phase(text: &str) -> Cell {
    Cell { paint: Paint::of_phase(text), ..cell(text) }
}

/// `1.5 s`, `5 min 19 s`, `1 h 0 min 0 s`.
pub(super) fn duration(seconds: f64) -> String {
    // To the millisecond, and without the noise of floating point.
    let exact = format!("{:.3}", seconds.max(0.0));
    let (whole, fraction) = exact.split_once('.').unwrap_or((&exact, ""));
    let fraction = fraction.trim_end_matches('0');
    let point = if fraction.is_empty() { "" } else { "." };
    match whole.parse::<u64>() {
        Ok(whole) if whole >= 3600 => {
            format!("{} h {} min {} s", whole / 3600, whole / 60 % 60, whole % 60)
        }
        Ok(whole) if whole >= 60 => format!("{} min {}{point}{fraction} s", whole / 60, whole % 60),
        _ => format!("{whole}{point}{fraction} s"),
    }
}

impl Style {
    pub(super) fn painted(self, text: &str, paint: Paint) -> String {
        if self.color && paint != Paint::None {
            format!("{}{text}\x1b[0m", paint.code())
        } else {
            text.to_owned()
        }
    }

    /// Cells under their heads, aligned.
    pub(super) fn columns(self, out: &mut String, heads: &[&str], rows: &[Vec<Cell>]) {
        let widths: Vec<usize> = heads
            .iter()
            .enumerate()
            .map(|(column, head)| {
                let cells = rows.iter().filter_map(|row| row.get(column));
                cells.map(|cell| cell.text.chars().count()).fold(head.len(), usize::max)
            })
            .collect();
        let heads: Vec<Cell> = heads.iter().map(|head| cell(head)).collect();
        for row in std::iter::once(&heads).chain(rows) {
            let mut text = String::new();
            for (position, (cell, width)) in row.iter().zip(&widths).enumerate() {
                let gap = if position + 1 == row.len() { 0 } else { width - cell.text.chars().count() + 2 };
                text.push_str(&self.painted(&cell.text, cell.paint));
                text.extend(std::iter::repeat_n(' ', gap));
            }
            line(out, &text);
        }
    }

    /// A sentence at an indent, wrapped between words; lines after the first stand two further in.
    pub(super) fn wrapped(self, out: &mut String, indent: usize, sentence: &str, paint: Paint) {
        let width = self.width.map_or(usize::MAX, |width| width.max(NARROWEST + indent + 2));
        let (mut text, mut used, mut margin) = (String::new(), 0, indent);
        for word in sentence.split(' ') {
            let long = word.chars().count();
            if used > 0 && margin + used + 1 + long > width {
                line(out, &format!("{:margin$}{}", "", self.painted(&text, paint)));
                text.clear();
                (used, margin) = (0, indent + 2);
            }
            if used > 0 {
                text.push(' ');
                used += 1;
            }
            text.push_str(word);
            used += long;
        }
        line(out, &format!("{:margin$}{}", "", self.painted(&text, paint)));
    }
}

/// A line without blanks at its end.
pub(super) fn line(out: &mut String, text: &str) {
    out.push_str(text.trim_end());
    out.push('\n');
}
