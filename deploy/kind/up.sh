#!/usr/bin/env bash
# Stowplan in a cluster of its own on this machine, from an image built here, and the tests that run on any cluster.
#
#   deploy/kind/up.sh            create the cluster, build and load the image, install
#   deploy/kind/up.sh test       the same, then the tests
#   deploy/kind/up.sh down       delete the cluster
#
# Needs kind, docker and kubectl; the tests need `make venv` as well. STOWPLAN_KIND_NODE names the node image, and with it
# the version of Kubernetes: by default the one that kind brings along. Exit codes: 0 done, 1 failed, 2 bad use.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
name=${STOWPLAN_KIND_CLUSTER:-stowplan}
kubeconfig=$root/build/kind/kubeconfig
action=${1:-install}

case $action in
    install | test | down) ;;
    *) echo "up.sh: unknown action '$action': one of install, test, down" >&2; exit 2 ;;
esac
for tool in kind docker kubectl; do
    command -v "$tool" >/dev/null || { echo "up.sh: no '$tool' on PATH" >&2; exit 2; }
done
if [ "$action" = test ] && [ ! -x "$root/.venv/bin/python" ]; then
    echo "up.sh: the tests need the environment .venv: run make venv" >&2
    exit 2
fi

if [ "$action" = down ]; then
    kind delete cluster --name "$name"
    rm -f "$kubeconfig"
    exit 0
fi

mkdir -p "$(dirname "$kubeconfig")"
if kind get clusters | grep -qx "$name"; then
    kind export kubeconfig --name "$name" --kubeconfig "$kubeconfig"
else
    kind create cluster --name "$name" --config "$root/deploy/kind/cluster.yaml" --kubeconfig "$kubeconfig" \
        ${STOWPLAN_KIND_NODE:+--image "$STOWPLAN_KIND_NODE"} --wait 120s
fi
export KUBECONFIG=$kubeconfig

version=$(awk -F '"' '/^__version__/ {print $2}' "$root/scheduler/stowplan_scheduler/__init__.py")
# kind loads every platform that an image names: an attestation counts as one, and cannot be unpacked.
BUILDX_NO_DEFAULT_ATTESTATIONS=1 docker build --file "$root/deploy/image/Dockerfile" --tag "stowplan:$version" "$root"
kind load docker-image "stowplan:$version" --name "$name"

kubectl apply --server-side --kustomize "$root/deploy/kustomize/default"
kubectl wait --for=condition=Established --timeout=60s \
    crd/schedulerprofiles.stowplan.io crd/nodepools.stowplan.io crd/simulations.stowplan.io
# A second run has a new image under the same tag.
kubectl --namespace stowplan-system rollout restart deployment/stowplan-operator
kubectl --namespace stowplan-system rollout status deployment/stowplan-operator --timeout=180s
echo "up.sh: installed; export KUBECONFIG=$kubeconfig"

if [ "$action" = test ]; then
    cd "$root"
    STOWPLAN_KUBECONFIG=$kubeconfig .venv/bin/python -m pytest -m any_cluster tests/integration
fi
