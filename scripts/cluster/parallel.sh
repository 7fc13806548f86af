#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# parallel.sh - a run in shards on the hosts of a list, by GNU parallel over ssh. Copy it, and change
# the lines marked "yours". Arguments are those of attnbench, after --shard, --resume and -o:
#
#   scripts/cluster/parallel.sh bench -b avx2 -b blas cases/sweep_seqlen.cases
#
# The same command again continues what is not done. Without ATTNBENCH_HOSTS, one after the other here.
set -euo pipefail
: "${ATTNBENCH_SHARDS:=8}"          # yours: the number of shards
: "${ATTNBENCH_HOSTS:=}"            # yours: a file with one host a line, or nothing
: "${ATTNBENCH_RUN:=$PWD/runs/attnbench}" # yours: a folder that all hosts see
: "${ATTNBENCH:=attnbench}"         # the program, the same path on all hosts

verb=$1
shift
hosts=()
[ -z "$ATTNBENCH_HOSTS" ] || hosts=(--sshloginfile "$ATTNBENCH_HOSTS" --workdir "$PWD")
mkdir -p "$ATTNBENCH_RUN"
# One job at a time on each host: figures of time need a host alone. --quote keeps the spaces of case
# lines. {} is the shard.
seq "$ATTNBENCH_SHARDS" |
    parallel --jobs 1 --quote "${hosts[@]}" --joblog "$ATTNBENCH_RUN/parallel.log" --tag \
        "$ATTNBENCH" "$verb" --shard "{}/$ATTNBENCH_SHARDS" --resume \
        -o "$ATTNBENCH_RUN/shard-{}" "$@"
