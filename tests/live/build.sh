#!/usr/bin/env bash
# Builds the node-side peers of the live check from the Go module proxy: metrics-server, and Karpenter with its kwok
# provider; kwok itself is left to ../conformance/build.sh, as is the control plane that they live beside (rig).
#
#   tests/live/build.sh [--missing] [kwok|metrics-server|karpenter]...        (default: all)
#
# Each is a module of its own with versions of its own, so that each is installed alone. Programs go to
# $STOWPLAN_BUILD/bin, by default to the user's cache folder; --missing leaves out those that are there. The paths are
# printed on stdout, progress goes to stderr.
# Exit codes: 0 built, 1 the build failed, 2 bad use, 3 there is no Go.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
out=${STOWPLAN_BUILD:-${XDG_CACHE_HOME:-$HOME/.cache}/stowplan}/bin

# Karpenter asks for the newer Go of the two; one toolchain for both shares what is compiled. Go fetches it as a module.
export GOTOOLCHAIN=${STOWPLAN_LIVE_GO:-go1.27.3+auto}
export CGO_ENABLED=0

# The version is part of the file's name: another one is another program.
target_of() {
    case $1 in
        kwok) ;;
        metrics-server) echo "sigs.k8s.io/metrics-server/cmd/metrics-server v0.9.0" ;;
        karpenter) echo "sigs.k8s.io/karpenter/kwok v1.15.0" ;;
        *) echo "build.sh: unknown program '$1': one of kwok, metrics-server, karpenter" >&2; return 2 ;;
    esac
}

# Karpenter's custom resource definitions are files of its module.
copy_definitions() {
    local folder module
    folder=$out/karpenter-$1.crds
    module=$(go mod download -json "sigs.k8s.io/karpenter@$1" | sed -n 's/^[[:space:]]*"Dir": "\(.*\)",$/\1/p')
    rm -rf "$folder"
    mkdir "$folder"
    cp "$module"/pkg/apis/crds/*.yaml "$module"/kwok/apis/crds/*.yaml "$folder"
    chmod u+w "$folder"/*.yaml
}

missing=no
if [ "${1:-}" = --missing ]; then missing=yes; shift; fi
if [ $# -eq 0 ]; then set -- kwok metrics-server karpenter; fi
for name in "$@"; do target_of "$name" >/dev/null; done
if [[ " $* " == *" kwok "* ]]; then env -u GOTOOLCHAIN "$root/tests/conformance/build.sh" kwok; fi
mkdir -p "$out"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" # outside of any module
for name in "$@"; do
    if [ "$name" = kwok ]; then continue; fi
    read -r package version <<<"$(target_of "$name")"
    file=$out/$name-$version
    if [ $missing = no ] || [ ! -x "$file" ]; then
        if ! command -v go >/dev/null; then
            echo "build.sh: no 'go' on PATH; install Go 1.26 or newer" >&2
            exit 3
        fi
        [ "$name" != karpenter ] || copy_definitions "$version"
        echo "build.sh: building $name $version (minutes the first time)" >&2
        GOBIN=$scratch/bin go install -trimpath -ldflags "-s -w" "$package@$version" || exit 1
        # The last part of the package's path is what Go calls the program. A rename keeps one that runs right now whole.
        cp "$scratch/bin/${package##*/}" "$file.new.$$"
        mv -f "$file.new.$$" "$file"
        rm -rf "$scratch/bin"
    fi
    echo "$file"
done
