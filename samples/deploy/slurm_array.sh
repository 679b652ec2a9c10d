#!/bin/bash
# One manifest on many GPUs: each task of a Slurm array synthesizes one part of it.
#
#     sbatch --array=1-4 samples/deploy/slurm_array.sh 4 lines.jsonl wavs --model PATH [option ...]
#
# synthesizes lines.jsonl in 4 parts into wavs/part-1-of-4 to wavs/part-4-of-4. The id of a row alone
# decides its part, so the parts share no file. If a task ended early, submit the same line again: rows
# that are done are skipped. `--array=3` with the same 4 runs only part 3. Slurm writes the log files
# named below to the folder in which you call sbatch.
#
#SBATCH --job-name=tts
#SBATCH --output=%x-%A_%a.log
#SBATCH --gpus-per-task=1
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=8
#SBATCH --mem=32G
#SBATCH --time=08:00:00
#SBATCH --requeue
# Two minutes before its time limit, a task gets SIGTERM and finishes the rows in progress.
#SBATCH --signal=B:TERM@120
set -eu

if [ $# -lt 3 ] || [ -z "${SLURM_ARRAY_TASK_ID:-}" ]; then
    echo "usage: sbatch --array=1-N slurm_array.sh N MANIFEST DIR [option of tts-cli synth ...]" >&2
    exit 2
fi
parts=$1 manifest=$2 folder=$3
shift 3
part=$SLURM_ARRAY_TASK_ID

# A task that Slurm requeued, perhaps on another node, finds the lock of its own dead run.
if [ "${SLURM_RESTART_COUNT:-0}" -gt 0 ]; then
    set -- --take-over "$@"
fi

# exec: the signal reaches tts-cli itself.
exec tts-cli synth "$manifest" --out "$folder/part-$part-of-$parts" --shard "$part/$parts" "$@"
