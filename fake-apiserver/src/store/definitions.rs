//! Decides which tables the versions of a definition have: one for all of them, that stays when they go and come back.
//! Never looks at a definition. Answers to the storage map of
//! `k8s.io/apiextensions-apiserver/pkg/apiserver/customresource_handler.go`.

use crate::kinds::Kind;
use crate::store::Store;

impl Store {
    /// Serves these versions of a definition and no others. Watches of its objects end: they start again with what there
    /// is now.
    pub(crate) fn serve(&mut self, definition: &str, versions: Vec<Kind>) {
        self.kinds.serve(definition, versions);
        self.add_tables();
        if let Some(index) = self.kinds.of_definition(definition) {
            self.table_mut(index).watchers.clear();
        }
    }
}
