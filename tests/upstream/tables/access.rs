//! Access modes in short, by which upstream's index groups volumes: asked of the set that groups them here.

use pvbind::objects::access::ModeSet;
use serde_json::json;

use super::Row;

pub fn to_short(row: &Row) -> String {
    let modes: Vec<String> = row.given("accessModes");
    let short = ModeSet::new(&modes).to_string();
    let again: Vec<&str> = ModeSet::from_short(&short).modes().collect();
    row.check(json!({"key": short, "modesOfKey": again}), json!({}));
    format!("[{}] -> {short:?}", modes.join(", "))
}

pub fn from_short(row: &Row) -> String {
    let text: String = row.given("modes");
    let set = ModeSet::from_short(&text);
    let modes: Vec<&str> = set.modes().collect();
    row.check(json!({"contains": modes}), json!({"asStringAgain": set.to_string(), "modes": modes}));
    format!("{text:?} -> [{}]", modes.join(", "))
}
