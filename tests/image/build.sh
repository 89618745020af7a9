#!/usr/bin/env bash
# Builds the image with podman, without a registry: tests/image/build.sh [BASE]
#
# BASE is the image to build on. Without one, a base is made once from Debian's packages: the release, and the Python,
# that the Dockerfile's own base has. Everything is kept apart from other images of this machine, under
# ${STOWPLAN_BUILD:-~/.cache/stowplan}/image. Needs Linux, root, podman with crun or runc, and mmdebstrap for the base.
# Prints the image's name and size. Exit codes: 0 built, 1 failed, 2 something is missing.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cache=${STOWPLAN_BUILD:-${XDG_CACHE_HOME:-$HOME/.cache}/stowplan}/image
base=${1:-}
version=$(awk -F '"' '/^__version__/ {print $2}' "$root/scheduler/stowplan_scheduler/__init__.py")
own_base=localhost/stowplan-base:trixie

missing() { echo "build.sh: $1" >&2; exit 2; }
[ "$(uname)" = Linux ] || missing "containers need Linux"
[ "$(id -u)" -eq 0 ] || missing "must be root, to make file systems and networks for containers"
command -v podman >/dev/null || missing "no 'podman' on PATH (Debian: apt-get install podman runc)"

podman=(podman --root "$cache/store" --runroot "$cache/run" --cgroup-manager cgroupfs)

if [ -z "$base" ]; then
    base=$own_base
    if ! "${podman[@]}" image exists "$base"; then
        command -v mmdebstrap >/dev/null || missing "no 'mmdebstrap' on PATH (Debian: apt-get install mmdebstrap)"
        mkdir -p "$cache"
        # Where downloads pass through a proxy with an authority of its own, the base has to know it as this machine does.
        authorities=${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}
        mmdebstrap --quiet --variant=minbase --include=python3,python3-venv,python-is-python3,ca-certificates \
            --customize-hook="upload $authorities /etc/ssl/certs/ca-certificates.crt" \
            trixie "$cache/base.tar"
        "${podman[@]}" import --quiet "$cache/base.tar" "$base" >/dev/null
        rm "$cache/base.tar"
    fi
fi

# Steps run in a chroot: building needs neither cgroups nor a network of its own.
"${podman[@]}" build --isolation chroot --build-arg "BASE=$base" --pull=missing \
    --file "$root/deploy/image/Dockerfile" --tag "localhost/stowplan:$version" "$root" >&2
"${podman[@]}" images --noheading --format '{{.Repository}}:{{.Tag}} {{.Size}}' "localhost/stowplan:$version"
