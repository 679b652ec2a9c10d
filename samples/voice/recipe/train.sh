#!/bin/bash
# Makes the teacher's speech and trains both parts, detached, on a machine with one or two GPUs.
#
#   bash train.sh DRIVER TEXTS WORK CODEC_SECONDS TALKER_SECONDS [codec options] -- [talker options]
#
#   DRIVER   teacher.c, compiled        TEXTS   lines "id|voice|text" from texts.py
#   WORK     folder for everything written: speech/, out/{codec,talker}.pt, logs
#   options  go to train.py as they are, such as --init or --lr
#
# The official package must be importable by python3. The codec gets the first GPU and the talker all
# others; one GPU is shared.
# The speech is made while the trainings already run; both end after their seconds. Done when
# out/codec.done and out/talker.done are there.
set -euo pipefail
if [ $# -lt 5 ]; then
    sed -n '2,12p' "$0" >&2
    exit 2
fi
driver=$1 texts=$2 work=$3 codec_seconds=$4 talker_seconds=$5
shift 5
codec_options=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do
    codec_options+=("$1")
    shift
done
[ $# -eq 0 ] || shift

recipe=$(dirname "$0")
rm -rf "$work/speech"
mkdir -p "$work/out"
cores=$(env -u OMP_NUM_THREADS nproc) # nproc obeys OMP_NUM_THREADS
speakers=$((cores > 8 ? cores - 4 : (cores + 1) / 2))
gpus=$(nvidia-smi -L | wc -l)
export PYTHONUNBUFFERED=1

start() { # LOG COMMAND...: in the background, surviving this shell
    local log=$1
    shift
    setsid nohup "$@" </dev/null >"$log" 2>&1 &
}

OMP_NUM_THREADS=1 start "$work/speech.log" \
    python3 "$recipe/data.py" "$texts" "$driver" "$work/speech" \
    --processes "$speakers" --chunks 960
OMP_NUM_THREADS=2 CUDA_VISIBLE_DEVICES=0 start "$work/codec.log" \
    python3 "$recipe/train.py" codec --speech "$work/speech" --out "$work/out" \
    --seconds "$codec_seconds" --first 16 --most 200 "${codec_options[@]}"
if [ "$gpus" -gt 1 ]; then
    talkers=$((gpus - 1)) talker_gpus=$(seq -s , 1 "$talkers")
else
    talkers=1 talker_gpus=0
fi
OMP_NUM_THREADS=2 CUDA_VISIBLE_DEVICES=$talker_gpus start "$work/talker.log" \
    python3 -m torch.distributed.run --nproc-per-node "$talkers" --master-addr 127.0.0.1 \
    --master-port 29517 "$recipe/train.py" talker --speech "$work/speech" --out "$work/out" \
    --seconds "$talker_seconds" --first 8 "$@"
