//! Decides which files of one volume would lie in each other's place. Never refuses. Answers to
//! `warningsForOverlappingVirtualPaths` of `kubernetes/pkg/api/pod/warnings.go`.

use crate::validate::field::Field;

/// A path, and what it comes from where that is not the volume itself.
struct Path<'a> {
    path: &'a str,
    source: String,
}

impl Path<'_> {
    fn shown(&self) -> String {
        if self.source.is_empty() {
            format!("\"{}\"", self.path)
        } else {
            format!("\"{}\" ({})", self.path, self.source)
        }
    }

    fn overlaps(&self, other: &Self) -> bool {
        let below = |a: &str, b: &str| a == b || a.strip_prefix(b).is_some_and(|rest| rest.starts_with('/'));
        !other.path.is_empty() && (below(other.path, self.path) || below(self.path, other.path))
    }
}

pub(super) fn overlaps(spec: &Field<'_>, said: &mut Vec<String>) {
    for volume in spec.at("volumes").items() {
        for source in ["configMap", "secret", "downwardAPI"] {
            let field = volume.at(source);
            warn(&volume, &described(&field, source), &items(&field, ""), said);
        }
        if !volume.at("projected").is_set() {
            continue;
        }
        let mut paths = Vec::new();
        for source in volume.at("projected.sources").items() {
            if source.is_empty() {
                let name = volume.at("name").text();
                said.push(format!("volume \"{name}\" (Projected) has no sources provided"));
                continue;
            }
            for kind in ["configMap", "secret", "downwardAPI"] {
                let field = source.at(kind);
                paths.extend(items(&field, &described(&field, kind)));
            }
            let token = source.at("serviceAccountToken");
            if token.is_set() {
                paths.push(Path { path: trimmed(&token), source: "ServiceAccountToken".into() });
            }
            let bundle = source.at("clusterTrustBundle");
            if bundle.is_set() {
                let (name, signer) = (bundle.at("name"), bundle.at("signerName").text());
                let name = if name.is_set() { name.text() } else { signer };
                paths.push(Path { path: trimmed(&bundle), source: format!("ClusterTrustBundle \"{name}\"") });
            }
        }
        warn(&volume, "Projected", &paths, said);
    }
}

fn warn(volume: &Field<'_>, described: &str, paths: &[Path<'_>], said: &mut Vec<String>) {
    let name = volume.at("name").text();
    for (index, path) in paths.iter().enumerate() {
        for earlier in paths[..index].iter().filter(|earlier| path.overlaps(earlier)) {
            let (path, earlier) = (path.shown(), earlier.shown());
            said.push(format!("volume \"{name}\" ({described}): overlapping paths: {path} with {earlier}"));
        }
    }
}

fn described(field: &Field<'_>, source: &str) -> String {
    match source {
        "configMap" => format!("ConfigMap \"{}\"", field.at("name").text()),
        // In a volume it is called otherwise than in a projection.
        "secret" => {
            let names = [field.at("secretName").text(), field.at("name").text()];
            format!("Secret \"{}\"", names.concat())
        }
        _ => "DownwardAPI".to_owned(),
    }
}

fn items<'a>(field: &Field<'a>, source: &str) -> Vec<Path<'a>> {
    let items = field.at("items").items();
    items.iter().map(|item| Path { path: trimmed(item), source: source.to_owned() }).collect()
}

fn trimmed<'a>(item: &Field<'a>) -> &'a str {
    item.at("path").text().trim_end_matches('/')
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "the tests below are read more easily")]
    fn of(volume: Value) -> Vec<String> {
        let mut said = Vec::new();
        overlaps(&Field::root(&json!({"volumes": [volume]})), &mut said);
        said
    }

    #[test]
    fn files_in_each_others_place_are_named() {
        let keys = |paths: [&str; 2]| paths.map(|path| json!({"key": "k", "path": path}));
        let volume = |paths| json!({"name": "v", "configMap": {"name": "c", "items": Value::from(keys(paths).to_vec())}});
        assert_eq!(of(volume(["a", "b"])), Vec::<String>::new());
        assert_eq!(of(volume(["a", "ab"])), Vec::<String>::new());
        assert_eq!(
            of(volume(["a", "a/b"])),
            ["volume \"v\" (ConfigMap \"c\"): overlapping paths: \"a/b\" with \"a\""]
        );
        let projected = json!({"name": "v", "projected": {"sources": [
            {"secret": {"name": "s", "items": [{"key": "k", "path": "p"}]}}, {"serviceAccountToken": {"path": "p"}}, {},
        ]}});
        assert_eq!(
            of(projected),
            [
                "volume \"v\" (Projected) has no sources provided",
                "volume \"v\" (Projected): overlapping paths: \"p\" (ServiceAccountToken) with \"p\" (Secret \"s\")",
            ]
        );
    }
}
