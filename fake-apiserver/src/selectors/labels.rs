//! Decides whether an object's labels satisfy a selector such as `app in (a,b),!old,tier>1`. Never looks at
//! anything but labels.

use serde_json::Value;

use crate::object::at;
use crate::status::{Result, Status};

#[derive(Clone, Debug, PartialEq, Eq)]
enum Operator {
    In,
    NotIn,
    Exists,
    Absent,
    Greater,
    Less,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    operator: Operator,
    values: Vec<String>,
}

/// All requirements must hold; none at all picks everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LabelSelector(Vec<Requirement>);

impl LabelSelector {
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let mut parser = Parser { tokens: tokens(text), next: 0 };
        let mut requirements = Vec::new();
        if parser.peek().is_empty() {
            return Ok(Self(requirements));
        }
        loop {
            requirements.push(parser.requirement()?);
            match parser.take().as_str() {
                "" => return Ok(Self(requirements)),
                "," => {}
                other => return Err(error(&format!("found '{other}', expected: ',' or 'end of string'"))),
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn matches(&self, object: &Value) -> bool {
        if self.0.is_empty() {
            return true;
        }
        let labels = at(object, &["metadata", "labels"]);
        self.0
            .iter()
            .all(|one| one.holds(labels.and_then(|labels| labels.get(&one.key)).and_then(Value::as_str)))
    }
}

impl Requirement {
    fn holds(&self, label: Option<&str>) -> bool {
        let listed = |value: &str| self.values.iter().any(|one| one == value);
        match self.operator {
            Operator::In => label.is_some_and(listed),
            Operator::NotIn => !label.is_some_and(listed),
            Operator::Exists => label.is_some(),
            Operator::Absent => label.is_none(),
            Operator::Greater | Operator::Less => {
                let bound = self.values.first().and_then(|value| value.parse::<i64>().ok());
                match (label.and_then(|label| label.parse::<i64>().ok()), bound) {
                    (Some(label), Some(bound)) if self.operator == Operator::Greater => label > bound,
                    (Some(label), Some(bound)) => label < bound,
                    _ => false,
                }
            }
        }
    }
}

fn error(what: &str) -> Box<Status> {
    Status::bad_request(format!("unable to parse requirement: {what}"))
}

/// Words and marks; the empty word is the end.
fn tokens(text: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            ' ' | '\t' | '\n' | '\r' => {}
            '(' | ')' | ',' => tokens.push(letter.to_string()),
            '=' | '!' | '>' | '<' => {
                let mut mark = letter.to_string();
                if letters.peek() == Some(&'=') && matches!(letter, '=' | '!') {
                    mark.extend(letters.next());
                }
                tokens.push(mark);
            }
            _ => {
                let mut word = letter.to_string();
                while let Some(next) = letters.next_if(|next| !" \t\n\r(),=!><".contains(*next)) {
                    word.push(next);
                }
                tokens.push(word);
            }
        }
    }
    tokens
}

struct Parser {
    tokens: Vec<String>,
    next: usize,
}

impl Parser {
    fn peek(&self) -> &str {
        self.tokens.get(self.next).map_or("", String::as_str)
    }

    fn take(&mut self) -> String {
        let token = self.peek().to_owned();
        self.next += 1;
        token
    }

    fn requirement(&mut self) -> Result<Requirement> {
        if self.peek() == "!" {
            self.take();
            let key = self.key()?;
            return Ok(Requirement { key, operator: Operator::Absent, values: Vec::new() });
        }
        let key = self.key()?;
        if matches!(self.peek(), "" | ",") {
            return Ok(Requirement { key, operator: Operator::Exists, values: Vec::new() });
        }
        let (operator, values) = match self.take().as_str() {
            "in" => (Operator::In, self.set()?),
            "notin" => (Operator::NotIn, self.set()?),
            "=" | "==" => (Operator::In, vec![self.value()?]),
            "!=" => (Operator::NotIn, vec![self.value()?]),
            ">" => (Operator::Greater, vec![self.integer(&key)?]),
            "<" => (Operator::Less, vec![self.integer(&key)?]),
            other => {
                let all = "in, notin, =, ==, !=, gt, lt";
                return Err(error(&format!("found '{other}', expected: {all}")));
            }
        };
        Ok(Requirement { key, operator, values })
    }

    fn key(&mut self) -> Result<String> {
        let key = self.take();
        if key.is_empty() || "(),=!><==!=".contains(key.as_str()) {
            return Err(error(&format!("found '{key}', expected: !, identifier, or 'end of string'")));
        }
        crate::validate::names::qualified_name(&key)
            .map_or(Ok(key.clone()), |why| Err(error(&format!("key: Invalid value: \"{key}\": {why}"))))
    }

    /// A single value; nothing at all is the empty value.
    fn value(&mut self) -> Result<String> {
        if matches!(self.peek(), "" | ",") {
            return Ok(String::new());
        }
        let value = self.take();
        if "()=!><==!=".contains(value.as_str()) {
            return Err(error(&format!("found '{value}', expected: identifier")));
        }
        crate::validate::names::label_value(&value).map_or(Ok(value.clone()), |why| {
            Err(error(&format!("values[0][{value}]: Invalid value: \"{value}\": {why}")))
        })
    }

    fn integer(&mut self, key: &str) -> Result<String> {
        let value = self.value()?;
        if value.parse::<i64>().is_err() {
            let why = "for 'Gt', 'Lt' operators, the value must be an integer";
            return Err(error(&format!("values[0][{key}]: Invalid value: \"{value}\": {why}")));
        }
        Ok(value)
    }

    fn set(&mut self) -> Result<Vec<String>> {
        let open = self.take();
        if open != "(" {
            return Err(error(&format!("found '{open}' expected: '('")));
        }
        let mut values = Vec::new();
        loop {
            let value = match self.peek() {
                "," | ")" => String::new(),
                _ => self.value()?,
            };
            values.push(value);
            match self.take().as_str() {
                ")" => return Ok(values),
                "," => {}
                other => return Err(error(&format!("found '{other}', expected: ',' or ')'"))),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(selector: &str, matches: bool) {
        let object = json!({"metadata": {"labels": {"app": "x", "tier": "1", "empty": "", "a.b/c": "d"}}});
        assert_eq!(LabelSelector::parse(selector).unwrap().matches(&object), matches, "{selector}");
    }

    #[test]
    fn requirements_hold_as_upstream() {
        for selector in
            ["", "app=x", "app==x", " app = x ", "app in (x, y)", "app notin (y)", "!gone", "tier", "tier>0"]
        {
            check(selector, true);
        }
        for selector in
            ["app!=x", "app=y", "!app", "gone", "gone=", "tier<1", "app>1", "app=x,tier=2", "gone in (a)"]
        {
            check(selector, false);
        }
        for selector in ["gone!=x", "gone notin (x)", "empty=", "empty in ()", "a.b/c=d", "app in (x),tier<2"]
        {
            check(selector, true);
        }
    }

    #[test]
    fn what_cannot_be_parsed_is_refused() {
        for selector in ["a in", "a in (b", "=x", "a,,b", "a b", "(a)", "a>x", "a==", "-a=b", "a=b c"] {
            let refused = LabelSelector::parse(selector);
            if selector == "a==" {
                assert!(refused.is_ok());
            } else {
                assert_eq!(refused.unwrap_err().code, 400, "{selector}");
            }
        }
        let message = LabelSelector::parse("a in").unwrap_err().message;
        assert_eq!(message, "unable to parse requirement: found '' expected: '('");
    }
}
