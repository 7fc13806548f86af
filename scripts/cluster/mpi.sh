#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# mpi.sh - a run in shards, one a rank of an MPI launcher or of srun. attnbench does not use MPI; it
# reads from the launcher's variables which rank it is. Copy it, and change the lines marked "yours".
# Arguments are those of attnbench, after --shard, --resume and -o:
#
#   mpirun -n 8 --map-by node scripts/cluster/mpi.sh bench -b avx2 cases/sweep_seqlen.cases  # Open MPI
#   mpiexec -n 8 -ppn 1 scripts/cluster/mpi.sh bench ...                              # MPICH, Intel MPI
#   srun -N 8 -n 8 scripts/cluster/mpi.sh bench ...                                               # Slurm
#
# One rank a node, or figures of time disturb each other. Let the launcher pin no rank to one processor
# if --threads is above 1 (Open MPI: --bind-to none).
set -euo pipefail
: "${ATTNBENCH_RUN:=runs/attnbench}" # yours: a folder that all nodes see
: "${ATTNBENCH:=attnbench}"          # the program

verb=$1
shift
rank=${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-${SLURM_PROCID:?mpi.sh: no rank; start it with mpirun or srun}}}
exec "$ATTNBENCH" "$verb" --shard auto --resume -o "$ATTNBENCH_RUN/shard-$((rank + 1))" "$@"
