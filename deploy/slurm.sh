#!/usr/bin/env bash
# A Ray cluster for Latentboard as a job of Slurm: the head on the first node, one Ray node on each other.
#
#   sbatch --nodes=4 deploy/slurm.sh                                     until the job ends
#   sbatch --nodes=4 deploy/slurm.sh lvmcore fit table.csv --cluster     until the command ends
#
# The log of the job has the address for `latentboard --cluster`. Every node needs the same environment
# with latentboard[ray] on its PATH. Options of sbatch on the command line replace those below.
# LATENTBOARD_RAY_HOST and LATENTBOARD_RAY_PORT choose another address of the head.
#SBATCH --job-name=latentboard
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=8
#SBATCH --time=08:00:00
set -euo pipefail

port="${LATENTBOARD_RAY_PORT:-6379}"
first="$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)"
host="${LATENTBOARD_RAY_HOST:-$(srun --nodes=1 --ntasks=1 --nodelist="$first" hostname --ip-address | cut -d " " -f 1)}"
export RAY_ADDRESS="$host:$port" RAY_USAGE_STATS_ENABLED=0
case "$host" in 127.*) export RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER=0 ;; esac # Ray keeps this address

start() { # NODES FURTHER OPTIONS OF srun -- OPTIONS OF ray start
    local nodes="$1"
    shift
    local options=()
    while [ "$1" != "--" ]; do options+=("$1"); shift; done
    shift
    srun --overlap --nodes="$nodes" --ntasks="$nodes" "${options[@]}" \
        ray start "$@" --num-cpus="$SLURM_CPUS_PER_TASK" --block &
}

start 1 --nodelist="$first" -- --head --node-ip-address="$host" --port="$port" --include-dashboard=false
until python -c "import socket; socket.create_connection(('$host', $port), 1)" 2>/dev/null; do sleep 1; done
others=$((SLURM_JOB_NUM_NODES - 1))
if [ "$others" -gt 0 ]; then start "$others" --exclude="$first" -- --address="$RAY_ADDRESS"; fi

echo "The cluster is at $RAY_ADDRESS: latentboard --cluster $RAY_ADDRESS"
if [ "$#" -eq 0 ]; then
    wait
else
    srun --overlap --nodes=1 --ntasks=1 --nodelist="$first" "$@"
fi
