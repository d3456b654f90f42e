#!/usr/bin/env bash
# Writes the plain manifests, as the chart has them with its own values.
# usage: render.sh [FOLDER]    deploy, if no other is named; helm is $HELM, the one beside the control plane's programs, or on the path
set -euo pipefail
deploy=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
out=${1:-$deploy}
helm=${HELM:-}
if [ -z "$helm" ] && [ -x "${KUBEBUILDER_ASSETS:-/nowhere}/helm" ]; then helm=$KUBEBUILDER_ASSETS/helm; fi
helm=${helm:-$(command -v helm || true)}
[ -n "$helm" ] || { echo "render.sh: no helm: tests/control-plane/build.sh helm builds one; name it by HELM" >&2; exit 2; }
# Nothing of the user's own helm gets in.
state=$(mktemp -d)
trap 'rm -rf "$state"' EXIT
export HELM_CONFIG_HOME=$state HELM_CACHE_HOME=$state HELM_DATA_HOME=$state

# Helm's own marks make no sense where helm is not used.
render() {
    local file=$out/$1
    shift
    mkdir -p "$(dirname "$file")"
    {
        echo "# Rendered from deploy/chart/pvbind by \`just manifests\`: change it there."
        "$helm" template pvbind "$deploy/chart/pvbind" --namespace kube-system --kube-version 1.36.3 --set controller.enabled=false "$@"
    } | sed -e '/^# Source: /d' -e '/^ *helm\.sh\/chart: /d' -e '/^ *app\.kubernetes\.io\/managed-by: /d' | awk '
        # No empty lines between documents, and no mark before the first.
        /^---$/ && !begun { begun = 1; next }
        NF { print }' >"$file"
}
render manifests/controller.yaml --set controller.enabled=true
render manifests/scheduler.yaml --set scheduler.enabled=true
render manifests/extender.yaml --set extender.enabled=true
# What an extender beside the cluster's own kube-scheduler may do.
render extender/rbac.yaml --set extender.enabled=true,extender.pod=false
