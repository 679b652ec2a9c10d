#!/bin/bash
# Makes the teachers' speech, fits the codes and trains both parts, on a machine with one GPU or two.
#
#   bash train.sh TEXTS KOKORO WORK MEN_SECONDS CODEC_SECONDS TALKER_SECONDS
#
#   TEXTS    lines "id|voice|text" from texts.py
#   KOKORO   file of kokoro_weights.py, am_michael.bin and am_fenrir.bin beside it
#   WORK     folder for everything written: speech/, codes.safetensors, out/{codec,talker}.pt, logs
#
# hibari, Kokoro's model code, onnx, onnxruntime and the official package must be importable. What
# is there already is not made again: after a stop call it anew; codec and talker go on from their
# last weights if INIT_CODEC and INIT_TALKER name them. With two GPUs both train at once. TWINS says
# how often the men's speech counts, GAN_AT from which share of its time on the codec is judged,
# SPARE how many processes speak as the woman. DEVICE=cpu with BATCH=1 is a rehearsal.
set -euo pipefail
if [ $# -lt 6 ]; then
    sed -n '2,14p' "$0" >&2
    exit 2
fi
texts=$1 kokoro=$2 work=$(realpath -m "$3") men_seconds=$4 codec_seconds=$5 talker_seconds=$6
recipe=$(realpath "$(dirname "$0")")
voice=${VOICE:-$(dirname "$recipe")}
device=${DEVICE:-cuda}
speech=$work/speech out=$work/out codes=$work/codes.safetensors
mkdir -p "$speech/men" "$out" "$work/some"
export PYTHONUNBUFFERED=1 OMP_NUM_THREADS=1
cores=$(env -u OMP_NUM_THREADS nproc) # nproc obeys OMP_NUM_THREADS
last=$({ nvidia-smi -L 2>/dev/null || true; } | wc -l)
last=$((last > 1 ? 1 : 0))
spare=${SPARE:-$((cores > 12 ? cores - 8 : 1))} # processes of the woman's speech

on() { # run on a GPU of that number
    local gpu=$1
    shift
    CUDA_VISIBLE_DEVICES=$gpu "$@"
}

if [ ! -e "$speech/READ" ]; then # the men's phonemes
    python3 "$recipe/teachers.py" read "$texts" "$speech" --processes "$spare" >"$work/read.log" 2>&1
fi
if [ ! -e "$speech/DONE" ]; then # the woman, on the other cores, beside all that follows
    setsid nohup python3 "$recipe/teachers.py" heart "$texts" "$speech" \
        --processes "$spare" </dev/null >"$work/heart.log" 2>&1 &
fi
codec=
if [ ! -e "$out/codec.done" ]; then # gets ready, and waits for the codes
    on 0 python3 "$recipe/train.py" codec --speech "$work/some" --out "$out" --codes "$codes" \
        --seconds "$codec_seconds" --first 1 --init "${INIT_CODEC:-$voice/checkpoint}" \
        --batch "${BATCH:-24}" --device "$device" --gan-at "${GAN_AT:-0.12}" >"$work/codec.log" 2>&1 &
    codec=$!
fi

men() { # GPU, seconds
    on "$1" python3 "$recipe/teachers.py" men "$speech" "$kokoro" --seconds "$2" \
        --share "$1/$((last + 1))" --device "$device" >"$work/men$1.log" 2>&1
}
if [ ! -e "$speech/MEN_DONE0" ]; then
    men $last "$men_seconds" &
    speaking=$!
    [ $last = 0 ] || men 0 $((men_seconds * 6 / 10))
    [ $last = 1 ] || wait $speaking
fi
[ -e "$codes" ] || {
    on 0 python3 "$recipe/fit_codes.py" "$speech" "$work/made.safetensors" --device "$device" \
        --chunks 120 >"$work/fit.log" 2>&1
    # The codec takes what is there now: hours of each voice are enough for it. (`head` would end
    # the pipe early, and with it this script.)
    find "$speech" -name '0*.npz' ! -name '*part*' | sort | sed -n 1,120p | xargs ln -sft "$work/some"
    find "$speech" -name 'men*.npz' ! -name '*part*' | sort | sed -n 1,24p | xargs ln -sft "$work/some"
    mv "$work/made.safetensors" "$codes"
}
on $last python3 "$recipe/train.py" encode --speech "$speech" --out "$out" --codes "$codes" \
    --seconds "$talker_seconds" --device "$device" >"$work/encode.log" 2>&1 &
[ -z "${speaking:-}" ] || wait $speaking
for file in "$speech"/men*-*.npz; do # the men's speech counts several times
    name=$(basename "$file" .npz)
    for twin in $(seq 2 "${TWINS:-3}"); do
        ln -sf "$name.npy" "$speech/twin$twin-$name.npy"
        ln -sf "$name.npz" "$speech/twin$twin-$name.npz"
    done
done
[ $last = 1 ] || wait $codec
start=${INIT_TALKER:-$work/start.pt}
[ -e "$start" ] || python3 "$recipe/transfer.py" "$voice/checkpoint" "$recipe/codes.safetensors" \
    "$codes" "$start"
first=$(find "$speech" -name '*.npy' | wc -l)
on $last python3 "$recipe/train.py" talker --speech "$speech" --out "$out" --codes "$codes" \
    --seconds "$talker_seconds" --first "$first" --init "$start" --lr 1e-3 --final-rate 0.05 \
    --positions "${POSITIONS:-40000}" --device "$device" >"$work/talker.log" 2>&1
wait $codec
