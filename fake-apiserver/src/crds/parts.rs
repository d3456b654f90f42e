//! Decides which expressions stand directly in another one, in the order in which they are written. Never evaluates any. Answers to
//! `cel-go/common/ast/navigable.go`.

use cel::common::ast::{EntryExpr, Expr, IdedExpr};

/// The expressions in an expression.
pub(super) fn parts(expr: &IdedExpr) -> Vec<&IdedExpr> {
    match &expr.expr {
        Expr::Unspecified | Expr::Literal(_) | Expr::Ident(_) => Vec::new(),
        Expr::Call(call) => call.target.as_deref().into_iter().chain(&call.args).collect(),
        Expr::Select(select) => vec![&select.operand],
        Expr::List(list) => list.elements.iter().collect(),
        Expr::Map(map) => map.entries.iter().flat_map(|entry| of_entry(&entry.expr)).collect(),
        Expr::Struct(new) => new.entries.iter().flat_map(|entry| of_entry(&entry.expr)).collect(),
        Expr::Comprehension(inner) => {
            vec![&inner.iter_range, &inner.accu_init, &inner.loop_cond, &inner.loop_step, &inner.result]
        }
    }
}

/// The same, to be changed.
pub(super) fn parts_mut(expr: &mut IdedExpr) -> Vec<&mut IdedExpr> {
    match &mut expr.expr {
        Expr::Unspecified | Expr::Literal(_) | Expr::Ident(_) => Vec::new(),
        Expr::Call(call) => call.target.as_deref_mut().into_iter().chain(&mut call.args).collect(),
        Expr::Select(select) => vec![&mut select.operand],
        Expr::List(list) => list.elements.iter_mut().collect(),
        Expr::Map(map) => map.entries.iter_mut().flat_map(|entry| of_entry_mut(&mut entry.expr)).collect(),
        Expr::Struct(new) => new.entries.iter_mut().flat_map(|entry| of_entry_mut(&mut entry.expr)).collect(),
        Expr::Comprehension(inner) => vec![
            &mut inner.iter_range,
            &mut inner.accu_init,
            &mut inner.loop_cond,
            &mut inner.loop_step,
            &mut inner.result,
        ],
    }
}

fn of_entry(entry: &EntryExpr) -> Vec<&IdedExpr> {
    match entry {
        EntryExpr::MapEntry(entry) => vec![&entry.key, &entry.value],
        EntryExpr::StructField(field) => vec![&field.value],
    }
}

fn of_entry_mut(entry: &mut EntryExpr) -> Vec<&mut IdedExpr> {
    match entry {
        EntryExpr::MapEntry(entry) => vec![&mut entry.key, &mut entry.value],
        EntryExpr::StructField(field) => vec![&mut field.value],
    }
}
