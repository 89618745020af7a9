#!/usr/bin/env bash
# Builds the Go programs that the tests and benchmarks compare with: the real kube-scheduler and the real controllers
# behind a JSON interface, a real control plane (etcd, kube-apiserver, kube-controller-manager, kube-scheduler), and kwok,
# which plays its nodes and kubelets.
#
#   tests/conformance/build.sh [oracle|controllers|bench|rig|kwok]...        (default: all)
#
# The programs are written to $STOWPLAN_BUILD/bin, by default to the user's cache folder, never into the tree.
# The paths of what was built are printed on stdout, progress goes to stderr.
# Exit codes: 0 built, 1 the build failed, 2 bad use, 3 there is no Go, or it is too old.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
out=${STOWPLAN_BUILD:-${XDG_CACHE_HOME:-$HOME/.cache}/stowplan}/bin

# One set of flags for every program, so that they share the compiled packages of k8s.io/kubernetes: the second build takes seconds.
# -trimpath makes the result independent of the folder of the clone, so that another clone finds the same cache entries.
export CGO_ENABLED=0
flags=(-trimpath -buildvcs=false -mod=readonly -ldflags "-s -w")

module_of() {
    case $1 in
        oracle) echo "$root/tests/conformance/oracle" ;;
        controllers) echo "$root/tests/conformance/controllers" ;;
        bench) echo "$root/tests/benchmarks/upstream" ;;
        rig) echo "$root/tests/integration/rig" ;;
        kwok) ;;
        *) echo "build.sh: unknown program '$1': one of oracle, controllers, bench, rig, kwok" >&2; return 2 ;;
    esac
}

# Not a module of this tree: its dependencies have versions of their own. The version is part of the file's name.
kwok=v0.8.0
install_kwok() {
    local file=$out/kwok-$kwok
    if [ ! -x "$file" ]; then
        require_go "$root/tests/integration/rig"
        echo "build.sh: building kwok $kwok (a minute or two the first time)" >&2
        (cd "$scratch" && GOBIN=$scratch go install -trimpath -ldflags "-s -w" "sigs.k8s.io/kwok/cmd/kwok@$kwok") || exit 1
        cp "$scratch/kwok" "$file.new.$$"
        mv -f "$file.new.$$" "$file"
    fi
    echo "$file"
}

# Asked inside the module: a Go that may fetch a newer toolchain answers with that one.
require_go() {
    local module=$1 need have
    need=$(awk '$1 == "go" {print $2; exit}' "$module/go.mod")
    if ! command -v go >/dev/null; then
        echo "build.sh: no 'go' on PATH; install Go $need or newer" >&2
        return 3
    fi
    have=$(cd "$module" && go env GOVERSION 2>/dev/null) || have=$(go version | awk '{print $3}')
    have=${have#go}
    if [ "$(printf '%s\n' "$need" "$have" | sort -V | head -n 1)" != "$need" ]; then
        echo "build.sh: Go $have is too old for $module; install Go $need or newer" >&2
        return 3
    fi
}

if [ $# -eq 0 ]; then set -- oracle controllers bench rig kwok; fi
for name in "$@"; do module_of "$name" >/dev/null; done
mkdir -p "$out"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
for name in "$@"; do
    if [ "$name" = kwok ]; then
        install_kwok
        continue
    fi
    module=$(module_of "$name")
    require_go "$module"
    echo "build.sh: building $name (several minutes the first time)" >&2
    extra=()
    if [ "$name" = controllers ]; then
        overlay=$("$module/overlay.sh" "$scratch")
        extra=(-overlay "$overlay")
    elif [ "$name" = rig ]; then
        # What /version says; it is set when linking, so the compiled packages are still shared.
        version=$(awk '$1 == "k8s.io/kubernetes" {print $2; exit}' "$module/go.mod")
        extra=(-ldflags "-s -w -X k8s.io/component-base/version.gitVersion=$version")
    fi
    # A rename keeps a program that is running right now whole.
    (cd "$module" && go build "${flags[@]}" ${extra[@]+"${extra[@]}"} -o "$out/$name.new.$$" .) || { rm -f "$out/$name.new.$$"; exit 1; }
    mv -f "$out/$name.new.$$" "$out/$name"
    echo "$out/$name"
done
