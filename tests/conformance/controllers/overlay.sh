#!/usr/bin/env bash
# Prints the path of a file for `go build -overlay`, made in the folder given. With it, the two loops of the DaemonSet
# controller that choose which pods a rolling update replaces visit the nodes by name. Upstream they run in the random
# order of a Go map, so that no run could be repeated. Nothing else is changed: the package is upstream's own, from the
# module cache, under another name.
set -euo pipefail

folder=$1
cd "$(dirname "${BASH_SOURCE[0]}")"
package=stowplan.io/oracle/controllers/internal/daemon
go mod download k8s.io/kubernetes
upstream=$(go list -m -f '{{.Dir}}' k8s.io/kubernetes)/pkg/controller/daemon
awk '
    /^\t*for nodeName, pods := range nodeToDaemonPods {$/ {
        print "for _, nodeName := range slices.Sorted(maps.Keys(nodeToDaemonPods)) {"
        print "pods := nodeToDaemonPods[nodeName]"
        loops++
        next
    }
    /^\t"fmt"$/ { print; print "\t\"maps\""; next }
    /^\t"sort"$/ { print "\t\"slices\""; print; next }
    { print }
    END { if (loops != 2) { print "overlay.sh: expected two loops over nodes, found " loops + 0 > "/dev/stderr"; exit 1 } }
' "$upstream/update.go" >"$folder/update.go"
sed "s|\"k8s.io/kubernetes/pkg/controller/daemon\"|\"$package\"|" internal/clustersim/daemon.go >"$folder/daemon.go"
cat >"$folder/overlay.json" <<JSON
{"Replace": {
    "$PWD/internal/daemon/daemon_controller.go": "$upstream/daemon_controller.go",
    "$PWD/internal/daemon/update.go": "$folder/update.go",
    "$PWD/internal/clustersim/daemon.go": "$folder/daemon.go"
}}
JSON
echo "$folder/overlay.json"
