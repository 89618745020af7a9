#!/usr/bin/env bash
# Runs the study of docs/study.md: docs/study/run.sh STOWPLAN [ARGUMENTS OF stowplan compare...]
# The data is read where it is; results go to build/study.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

data=${STOWPLAN_SHARED:-../shared}/data
if [ ! -f "$data/demand/nab_elb_request_count_8c0756.csv.gz" ]; then
    echo "study: no data in $data: set STOWPLAN_SHARED to the folder that holds data/demand and data/traces" >&2
    exit 2
fi
stowplan=$1
shift
mkdir -p build/study
cp docs/study/simulation.yaml docs/study/prices.csv build/study/
ln -sfn "$(cd "$data" && pwd)" build/study/data
exec "$stowplan" compare -f build/study/simulation.yaml --results build/study/results "$@"
