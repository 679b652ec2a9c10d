"""What other tools take as a field and this one does not: what does it here."""

from __future__ import annotations

_RATE = "speech has no speed to set; say it in instruct, as 'speaks slowly', where it is taken"
_PAUSE = "write [pause 500ms] into the text, or set pauses of long rows by --pause-sentence"
_STYLE = "describe it in instruct, as 'in a sad voice', where it is taken"
_VOLUME = "audio is as loud as the model speaks; levels are set for a whole run, see synth --help"
_PITCH = "pitch cannot be set; choose another voice, or describe it in instruct where it is taken"
_INSTEAD = {
    _RATE: "speed rate pace tempo speaking_rate speech_rate length_scale duration",
    _PAUSE: "pause pauses break silence pause_ms pause_after pause_before pause_s gap",
    _STYLE: "style emotion emotions mood tone expression delivery style_prompt description acting",
    _VOLUME: "volume gain loudness lufs",
    _PITCH: "pitch pitch_shift semitones",
    "write what is to be said into text; marks of SSML are not read": "ssml markup",
    "the id names the file, as scene1/line4": "file filename file_name output output_file "
    "out_path audio_file wav",
    "the format is one for all rows: --format": "format audio_format codec",
    "the sample rate is one for all rows: --sample-rate": "sample_rate sampling_rate sr",
    "the model is one for all rows: --model": "model model_name checkpoint",
    "name a recording to clone ref_audio, and what is said in it ref_text": "prompt_audio "
    "audio_prompt prompt_wav speaker_wav reference_audio reference ref_wav audio_path",
    "what is said in ref_audio is called ref_text": "prompt_text reference_text transcript_ref",
}
_BY_NAME = {name: words for words, names in _INSTEAD.items() for name in names.split()}


def instead_of(name: str) -> str | None:
    """What to do instead of giving the field `name`; None where nothing is known of it."""
    return _BY_NAME.get(name.strip().casefold().replace("-", "_").replace(" ", "_"))
