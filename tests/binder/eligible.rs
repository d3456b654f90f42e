//! Which nodes the volumes of bound claims leave: `getEligibleNodes`.

use std::fmt::Write;

use pvbind::cluster::Key;
use pvbind::decide::binder::eligible;
use pvbind::objects::{Claim, claim, name, topology};
use serde_json::json;

use crate::record::Record;

/// The nodes that are left.
pub fn nodes(record: &Record) -> String {
    let cluster = record.state.shown();
    let claims: Vec<Claim> = record.input("boundClaims").unwrap_or_default();
    let mut story = String::new();
    for claim in &claims {
        let volume = claim::volume_name(claim);
        let found = cluster.volume(&Key::volume(volume));
        let selector = found.map(|volume| json!(topology::required(volume).map(|s| &s.node_selector_terms)));
        let where_it_is =
            selector.map_or_else(|| "is not there".to_owned(), |terms| format!("needs {terms}"));
        writeln!(story, "{} has {volume}, which {where_it_is}", name(&claim.metadata))
            .expect("a string grows");
    }
    let left = eligible::nodes(&cluster, &claims);
    assert_eq!(json!(left), record.want["eligibleNodes"]);
    assert_eq!(json!(left), record.got["eligibleNodes"]);
    let left = left.map(|names| names.into_iter().collect::<Vec<_>>().join(", "));
    story + &left.map_or_else(|| "any node\n".to_owned(), |names| format!("only nodes [{names}]\n"))
}
