"""Recipe: a few training steps with the official modules at tiny sizes."""

from __future__ import annotations

import contextlib
import json
from importlib.util import find_spec

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

pytestmark = [
    pytest.mark.oracle,
    pytest.mark.skipif(find_spec("qwen_tts") is None, reason="needs the qwen-tts package"),
    pytest.mark.filterwarnings("ignore"),
]


@pytest.fixture(scope="module", autouse=True)
def official(recipe):
    """The official package, as the recipe imports it."""
    recipe("official").load()


def test_talker_losses_at_tiny_sizes(recipe):
    talker, config = recipe("talker"), recipe("config")
    small = {
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "head_dim": 16,
    }
    rope = {**config.TALKER["rope_scaling"], "mrope_section": [4, 2, 2]}
    model = talker.build(
        {**config.TALKER, **small, "text_hidden_size": 32, "rope_scaling": rope},
        {**config.PREDICTOR, **small, "hidden_size": 24},
    )
    talker.init_weights(model)
    store = recipe("talker_data").Store("cpu")
    codes = [np.full((frames, 16), frames, np.uint8) for frames in (5, 2)]
    places = [np.arange(5, dtype=np.int16), np.array([0, 3], np.int16)]
    store.add(["Good morning.", "Yes."], ["michael", "heart"], codes, places)
    store.freeze()
    optimizer = talker.make_optimizer(model.talker, talker.TalkerTraining(10, device="cpu"))
    guide = recipe("alignment").Guide(model.talker, [(1, 0)])
    totals, guided = [], []
    for _ in range(8):
        result = talker.losses(model, store.batch([0, 1]), 256, guide=guide)
        assert result.predictor_accuracy.shape == (15,)
        (result.talker + result.predictor + result.guide).backward()
        guided.append(float(result.guide.detach()))
        optimizer.step()
        optimizer.zero_grad()
        totals.append(float((result.talker + result.predictor).detach()))
    assert totals[0] == pytest.approx(np.log(1280) + np.log(256), rel=0.1)
    assert totals[-1] < totals[0]
    assert guided[-1] < guided[0]


def test_guide_sees_the_attention_of_the_official_module(recipe):
    """Probabilities of the watched head are those the official layer computes."""
    talker, config = recipe("talker"), recipe("config")
    model = talker.build({**config.TALKER, "num_hidden_layers": 1, "num_key_value_heads": 2})
    talker.init_weights(model)
    attention = model.talker.model.layers[0].self_attn
    torch.nn.init.normal_(attention.q_proj.weight, 0, 0.2)
    guide = recipe("alignment").Guide(model.talker, [(0, 3)])
    model.talker.model.config._attn_implementation = "eager"
    seen: list[torch.Tensor] = []
    attention.register_forward_hook(lambda module, args, result: seen.append(result[1]))
    positions = torch.arange(7)[None, None].expand(3, 2, -1)
    model.talker.model(
        inputs_embeds=torch.randn(2, 7, config.WIDTH),
        attention_mask=None,
        position_ids=positions,
        use_cache=False,
    )
    assert torch.allclose(guide.logits(0, 3).softmax(-1), seen[0][:, 3], atol=1e-6)


def test_codec_decoder_at_tiny_sizes(recipe):
    codec, config = recipe("codec"), recipe("config")
    small = {
        "codebook_size": 8,
        "hidden_size": 16,
        "latent_dim": 16,
        "codebook_dim": 16,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "intermediate_size": 24,
        "num_hidden_layers": 1,
        "decoder_dim": 32,
    }
    books = torch.randn(16, 8, 12)
    decoder = codec.build({**config.DECODER, **small})
    codec.place_books(decoder, books)
    samples = codec.synthesise(decoder, torch.randint(0, 8, (2, 16, 3)), contextlib.nullcontext)
    assert samples.shape == (2, 1, 3 * 1920)
    recipe("codec_losses").SpectralLoss()(samples, torch.zeros_like(samples)).backward()
    layer = decoder.quantizer.rvq_rest.vq.layers[3]._codebook
    assert layer.embedding_sum.grad is not None
    assert not layer.cluster_usage.requires_grad


def test_trainings_write_what_export_reads(recipe, voice_folder, tmp_path):
    """One step of each part from the shipped weights, then the export."""
    codec, talker, data = recipe("codec"), recipe("talker"), recipe("data")
    shipped = voice_folder / "checkpoint"
    rng = np.random.default_rng(0)
    samples, places = rng.integers(-99, 99, 9 * 1920).astype(np.int16), np.zeros(9, np.int16)
    items = [data.Utterance("Yes.", "michael", samples, places)]
    codes = [rng.integers(0, 256, (9, 16)).astype(np.uint8)]
    lines: list[str] = []
    settings = codec.CodecTraining(
        0.01, device="cpu", batch=1, frames=9, decoded_frames=8, gan_start=-1, init=shipped
    )
    speech = (items, codes), torch.randn(16, 256, 96)
    codec.train(lambda: speech, tmp_path / "c.pt", settings, lines.append)
    store = recipe("talker_data").Store("cpu")
    store.add(["Yes."], ["michael"], codes, [places])
    store.freeze()
    settings = talker.TalkerTraining(
        0.01, device="cpu", max_positions=100, init=shipped, guided=((4, 1),)
    )
    talker.train(store, store, tmp_path / "t.pt", settings, lines.append)
    again = talker.load_or_init(tmp_path / "t.pt").state_dict()
    saved = torch.load(tmp_path / "t.pt", weights_only=True)
    assert all(torch.equal(again[name], value.float()) for name, value in saved.items())
    assert any("fooling" in line for line in lines)
    assert any("validation" in line for line in lines)
    states = [torch.load(tmp_path / name, weights_only=True) for name in ("t.pt", "c.pt")]
    recipe("export").write_checkpoint(*states, tmp_path / "made", 0.3, 0.05)
    talkers = [folder / "model.safetensors" for folder in (tmp_path / "made", shipped)]
    assert talkers[0].stat().st_size == talkers[1].stat().st_size
    sizes = json.loads((tmp_path / "made" / "speech_tokenizer" / "config.json").read_text())
    assert sizes["decoder_config"]["decoder_dim"] == recipe("config").DECODER["decoder_dim"]


def test_a_wider_decoder_begins_with_the_sound_of_the_narrow_one(recipe):
    codec, config = recipe("codec"), recipe("config")
    sizes = {**config.DECODER, "num_hidden_layers": 1, "codebook_size": 8}
    books = torch.randn(16, 8, 96)
    narrow, wide = (codec.build({**sizes, "decoder_dim": dim}).eval() for dim in (32, 48))
    codec.place_books(narrow, books)
    codec.take_over(wide, narrow.state_dict())
    codes = torch.randint(0, 8, (1, 16, 3))
    with torch.no_grad():
        sounds = [codec.synthesise(one, codes, contextlib.nullcontext) for one in (narrow, wide)]
    assert sounds[0].abs().max() > 0
    assert torch.allclose(*sounds, atol=1e-6)


@pytest.fixture
def shipped_decoder(recipe, voice_folder):
    """The decoder of the sample voice."""
    codec, config = recipe("codec"), recipe("config")
    shipped = load_file(voice_folder / "checkpoint" / "speech_tokenizer" / "model.safetensors")
    state = {name.removeprefix("decoder."): value.float() for name, value in shipped.items()}
    width = state["decoder.0.conv.weight"].shape[0]
    decoder = codec.build({**config.DECODER, "decoder_dim": width}).eval()
    decoder.load_state_dict(state)
    return decoder


def test_convolutions_of_some_frames_sound_alike(recipe, shipped_decoder):
    """Behind the edge, where they lack what came before; an utterance's start has no edge."""
    codec = recipe("codec")
    generator = torch.Generator().manual_seed(0)
    codes = torch.randint(0, 256, (3, 16, 12), generator=generator)
    starts, edge = torch.tensor([0, 3, 6]), codec.EDGE_FRAMES * 1920
    with torch.no_grad():
        whole = codec.synthesise(shipped_decoder, codes, contextlib.nullcontext)
        part = codec.synthesise(shipped_decoder, codes, contextlib.nullcontext, starts, 6)
    assert part.shape == (3, 1, 6 * 1920)
    wanted = codec.cut(whole, starts, 6, 1920)
    assert torch.allclose(part[0], wanted[0], atol=1e-5)
    assert (part - wanted)[..., edge:].abs().max() < 0.05 * whole.abs().max()


def test_segments_are_heard_as_in_their_utterance(recipe, shipped_decoder):
    """Anywhere in an utterance, its start too: what a step hears is what a run would speak."""
    codec, data = recipe("codec"), recipe("data")
    generator = torch.Generator().manual_seed(1)
    lengths, items, codes = (9, 40, 12), [], []
    for length in lengths:
        rows = torch.randint(0, 256, (length, 16), generator=generator)
        with torch.no_grad():
            made = codec.synthesise(shipped_decoder, rows.t()[None], contextlib.nullcontext)
        samples = (made[0, 0].clamp(-1, 1) * 32767).round().to(torch.int16).numpy()
        places = np.zeros(length, np.int16)
        items.append(data.Utterance("text", "michael", samples, places))
        codes.append(rows.to(torch.uint8).numpy())
    settings = codec.CodecTraining(1, device="cpu")
    torch.manual_seed(2)
    segment = codec.Segments((items, codes), settings).draw(24)
    num_heard = settings.decoded_frames - codec.EDGE_FRAMES
    with torch.no_grad():
        made = codec.synthesise(
            shipped_decoder, segment.codes, contextlib.nullcontext, segment.decoded, 10
        )
    heard = codec.cut(made, segment.heard, num_heard, 1920)
    openings = (segment.decoded + segment.heard) == 0
    assert 2 <= openings.sum() < 24  # also of the short ones
    assert (segment.judged[openings] == 0).all()
    assert (segment.judged <= num_heard - codec.JUDGED_FRAMES).all()
    difference = (heard - segment.speech).abs().amax((1, 2)) / segment.speech.abs().amax()
    assert difference[openings].max() < 1e-3
    assert difference.max() < 0.05
