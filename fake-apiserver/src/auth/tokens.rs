//! Decides how a file of tokens is read: a line each, of token, user, uid and groups. Never keeps one. Answers
//! to `k8s.io/apiserver/plugin/pkg/authenticator/token/tokenfile`, kube-apiserver's `--token-auth-file`.

/// A bearer token and who presents it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// The secret.
    pub token: String,
    /// The name of the user.
    pub user: String,
    /// The uid of the user.
    pub uid: String,
    /// The groups of the user, without `system:authenticated`, which everybody gets.
    pub groups: Vec<String>,
}

/// A line that says too little.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "line {line} of the token file has {columns} columns; write token,user,uid or token,user,uid,\"group1,group2\""
)]
pub struct TokenFileError {
    line: usize,
    columns: usize,
}

impl Token {
    /// The token of an administrator.
    #[must_use]
    pub fn admin(token: &str) -> Self {
        Self {
            token: token.to_owned(),
            user: "admin".to_owned(),
            uid: "admin".to_owned(),
            groups: vec!["system:masters".to_owned()],
        }
    }

    /// Reads the lines of a token file; empty ones and comments are passed over.
    ///
    /// # Errors
    /// When a line has fewer than three columns.
    pub fn read_all(text: &str) -> Result<Vec<Self>, TokenFileError> {
        let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
        let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        lines
            .map(|(number, line)| {
                let columns = columns(line);
                let [token, user, uid, rest @ ..] = &columns[..] else {
                    return Err(TokenFileError { line: number, columns: columns.len() });
                };
                let groups = rest.first().map_or("", String::as_str).split(',').map(str::trim);
                let groups = groups.filter(|group| !group.is_empty()).map(str::to_owned).collect();
                Ok(Self { token: token.clone(), user: user.clone(), uid: uid.clone(), groups })
            })
            .collect()
    }
}

/// The columns of a line; what stands in quotes may have commas.
fn columns(line: &str) -> Vec<String> {
    let mut columns = vec![String::new()];
    let mut quoted = false;
    for letter in line.chars() {
        match (letter, columns.last_mut()) {
            ('"', _) => quoted = !quoted,
            (',', _) if !quoted => columns.push(String::new()),
            (letter, Some(column)) => column.push(letter),
            (_, None) => {}
        }
    }
    columns.iter().map(|column| column.trim().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_stand_in_quotes() {
        let tokens = Token::read_all("# ours\n\nabc,alice,1,\"dev, ops\"\nxyz,bob,2\n").unwrap();
        let found: Vec<(&str, &str, Vec<&str>)> = tokens
            .iter()
            .map(|one| (&*one.token, &*one.user, one.groups.iter().map(String::as_str).collect()))
            .collect();
        assert_eq!(found, [("abc", "alice", vec!["dev", "ops"]), ("xyz", "bob", vec![])]);
    }

    #[test]
    fn a_line_that_says_too_little_is_named() {
        let error = Token::read_all("abc,alice,1\nxyz\n").unwrap_err();
        assert!(error.to_string().starts_with("line 2 of the token file has 1 columns"), "{error}");
    }
}
