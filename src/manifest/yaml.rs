//! YAML text to documents, each with its lines.
//!
//! Decides about anchors, aliases and tags, and how much of them is too much: an alias is shared, never copied, and
//! the sum of what aliases stand for is bounded, as is the depth. Never decides what an object means.

use std::borrow::Cow;
use std::collections::HashMap;
use std::rc::Rc;

use serde_saphyr::granit_parser::{
    ErrorKind, Event, Parser, ScalarStyle, ScanError, Span, StrInput, Tag, options,
};

use super::mapping::MappingBuilder;
use super::node::{Data, Entry, Node};
use super::scalar;

/// Kubernetes objects are about ten deep; this keeps every recursion within a small stack.
pub(super) const MAX_DEPTH: usize = 100;

/// How many values aliases may stand for in one file; an alias bomb stands for billions.
const MAX_REPLAYED: usize = 1_000_000;

/// How much text aliases may stand for in one file.
const MAX_REPLAYED_BYTES: usize = 64 << 20;

/// What makes the text unreadable, and on which line.
#[derive(Clone, Debug)]
pub(super) struct Unreadable {
    pub(super) line: usize,
    pub(super) message: String,
    /// Whether the text is not YAML at all, as opposed to YAML that is refused.
    pub(super) syntax: bool,
}

type Made<'a> = Result<Node<'a>, Unreadable>;

/// An anchored node and the size of what an alias to it stands for.
struct Anchor<'a> {
    node: Rc<Node<'a>>,
    values: usize,
    bytes: usize,
    height: usize,
}

/// Makes documents of a parser's events.
pub(super) struct Documents<'a> {
    parser: Parser<'a, StrInput<'a>>,
    anchors: HashMap<usize, Anchor<'a>>,
    /// Values and bytes so far, with aliases counted as what they stand for.
    values: usize,
    bytes: usize,
    replayed: usize,
    replayed_bytes: usize,
    /// The deepest level reached since it was last reset.
    deepest: usize,
    done: bool,
}

/// A line number that fits a node; files have fewer than four billion lines.
fn line_of(span: &Span) -> u32 {
    u32::try_from(span.start.line()).unwrap_or(u32::MAX)
}

pub(super) fn unreadable<T>(line: u32, message: impl Into<String>) -> Result<T, Unreadable> {
    Err(Unreadable { line: line as usize, message: message.into(), syntax: false })
}

impl<'a> Documents<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        // One level above our own limit, so that the message is ours.
        let options = options! {
            emit_comments: false,
            flow_nesting_limit: MAX_DEPTH + 1,
            block_nesting_limit: MAX_DEPTH + 1,
        };
        Documents {
            parser: Parser::new_from_str_with_options(text, options),
            anchors: HashMap::new(),
            values: 0,
            bytes: 0,
            replayed: 0,
            replayed_bytes: 0,
            deepest: 0,
            done: false,
        }
    }

    /// The next document; a broken one ends the stream, since nothing after it can be trusted.
    pub(super) fn next_document(&mut self) -> Option<Made<'a>> {
        if self.done {
            return None;
        }
        let document = self.document();
        self.done = !matches!(document, Ok(Some(_)));
        document.transpose()
    }

    fn document(&mut self) -> Result<Option<Node<'a>>, Unreadable> {
        loop {
            match self.event()? {
                (Event::StreamEnd, _) => return Ok(None),
                (Event::DocumentStart(..), _) => break,
                _ => {}
            }
        }
        self.anchors.clear();
        let first = self.event()?;
        let node = self.node(first, 0)?;
        Ok(Some(node))
    }

    fn event(&mut self) -> Result<(Event<'a>, Span), Unreadable> {
        match self.parser.next_event() {
            Some(Ok(event)) => Ok(event),
            Some(Err(error)) => Err(broken(&error)),
            None => Ok((Event::StreamEnd, Span::default())),
        }
    }

    fn node(&mut self, (event, span): (Event<'a>, Span), depth: usize) -> Made<'a> {
        let line = line_of(&span);
        if depth > MAX_DEPTH {
            return unreadable(line, too_deep());
        }
        self.deepest = self.deepest.max(depth);
        let anchor = event.anchor_id();
        let (values, bytes, outer) = (self.values, self.bytes, self.deepest);
        self.deepest = depth;
        self.values += 1;
        let node = match event {
            Event::Scalar(text, style, _, tag) => {
                self.bytes += text.len();
                Node { line, data: scalar_data(text, style, tag.as_deref(), line)? }
            }
            Event::SequenceStart(..) => Node { line, data: Data::List(self.list(depth)?) },
            Event::MappingStart(..) => Node { line, data: Data::Mapping(self.mapping(line, depth)?) },
            Event::Alias(id) => self.alias(id, line, depth)?,
            _ => return unreadable(line, "ends where a value is due; is the file cut short?"),
        };
        let height = self.deepest - depth;
        self.deepest = self.deepest.max(outer);
        let Some(id) = anchor else { return Ok(node) };
        let node = Rc::new(node);
        let size = Anchor {
            node: Rc::clone(&node),
            values: self.values - values,
            bytes: self.bytes - bytes,
            height,
        };
        self.anchors.insert(id, size);
        Ok(Node { line, data: Data::Shared(node) })
    }

    fn alias(&mut self, id: usize, line: u32, depth: usize) -> Made<'a> {
        let Some(anchor) = self.anchors.get(&id) else {
            return unreadable(
                line,
                "is an alias to something that contains it; write the value out instead",
            );
        };
        let node = Node { line, data: Data::Shared(Rc::clone(&anchor.node)) };
        self.deepest = self.deepest.max(depth + anchor.height);
        self.values += anchor.values;
        self.bytes += anchor.bytes;
        self.replayed += anchor.values;
        self.replayed_bytes += anchor.bytes;
        if self.deepest > MAX_DEPTH {
            return unreadable(
                line,
                format!("is an alias that nests values more than {MAX_DEPTH} levels deep"),
            );
        }
        if self.replayed > MAX_REPLAYED || self.replayed_bytes > MAX_REPLAYED_BYTES {
            return unreadable(
                line,
                format!(
                    "is an alias too many: the aliases of this file stand for more than {MAX_REPLAYED} values or {} MiB; write the values out",
                    MAX_REPLAYED_BYTES >> 20
                ),
            );
        }
        Ok(node)
    }

    fn list(&mut self, depth: usize) -> Result<Vec<Node<'a>>, Unreadable> {
        let mut items = Vec::new();
        loop {
            match self.event()? {
                (Event::SequenceEnd, _) => return Ok(items),
                event => items.push(self.node(event, depth + 1)?),
            }
        }
    }

    fn mapping(&mut self, line: u32, depth: usize) -> Result<Vec<Entry<'a>>, Unreadable> {
        let mut mapping = MappingBuilder::default();
        loop {
            let (event, span) = match self.event()? {
                (Event::MappingEnd, _) => return mapping.finish(line),
                event => event,
            };
            let merge = matches!(&event, Event::Scalar(text, ScalarStyle::Plain, ..) if text == "<<");
            let key = self.node((event, span), depth + 1)?;
            let value = self.event()?;
            let value = self.node(value, depth + 1)?;
            if merge {
                mapping.merge(value);
            } else {
                mapping.insert(key, value)?;
            }
        }
    }
}

fn scalar_data<'a>(
    text: Cow<'a, str>,
    style: ScalarStyle,
    tag: Option<&Tag>,
    line: u32,
) -> Result<Data<'a>, Unreadable> {
    let suffix = tag.map(|tag| tag.suffix_in_namespace("tag:yaml.org,2002:").unwrap_or_default());
    let plain = match suffix.as_deref() {
        None => style == ScalarStyle::Plain,
        Some("int" | "float" | "bool" | "null") => true,
        Some("binary") => {
            return unreadable(line, "tag !!binary is not read; write the base64 text without it");
        }
        Some(_) => false,
    };
    if plain && scalar::is_non_finite(&text) {
        return unreadable(
            line,
            format!("{text} is a number that JSON can't hold; put it in quotes if it is a string"),
        );
    }
    Ok(if plain { Data::Plain(text) } else { Data::Text(text) })
}

fn too_deep() -> String {
    format!("is nested more than {MAX_DEPTH} levels deep, and no Kubernetes object is")
}

fn broken(error: &ScanError) -> Unreadable {
    let marker = error.marker();
    if matches!(error.kind(), ErrorKind::RecursionLimitExceeded) {
        return Unreadable { line: marker.line(), message: too_deep(), syntax: false };
    }
    let message = format!("is not valid YAML: {} (column {})", error.info(), marker.col() + 1);
    Unreadable { line: marker.line(), message, syntax: true }
}
