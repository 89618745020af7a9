#!/usr/bin/env bash
# Runs a command with a network of its own, for pods of tests/image/podman.py: tests/image/run.sh COMMAND [ARGUMENT...]
#
# There is a bridge for pods, with the addresses of a gateway and of the API server's service; nothing leads out. All of
# it is gone when the command ends. Needs Linux, root and ip.
set -euo pipefail

if [ "${STOWPLAN_OWN_NETWORK:-}" != 1 ]; then
    STOWPLAN_OWN_NETWORK=1 exec unshare --net --mount "$0" "$@"
fi
# Namespaces of pods are named here, and nowhere else.
mkdir -p /run/netns
mount -t tmpfs pods /run/netns
ip link set lo up
ip link add stowplan0 type bridge
ip address add 10.77.0.1/16 dev stowplan0
ip address add 10.0.0.1/32 dev stowplan0
ip link set stowplan0 up
exec "$@"
