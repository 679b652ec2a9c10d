"""Recipe: a talker's code rows move to the codes of another codec."""

from __future__ import annotations

import torch


def test_rows_move_to_the_codes_that_sound_most_alike(recipe):
    transfer = recipe("transfer")
    generator = torch.Generator().manual_seed(0)
    new = {
        "basis": torch.linalg.qr(torch.randn(648, 12, generator=generator))[0],
        "books": torch.randn(2, 8, 12, generator=generator),
    }
    order = torch.randperm(8, generator=generator)
    # The old codec has the same sounds in other places.
    shown = new["books"] @ new["basis"].t()
    old = {"basis": torch.eye(648), "books": shown[:, order]}
    codes = transfer.nearest_codes(old, new)
    assert torch.equal(order[codes[0]], torch.arange(8))
    assert torch.equal(codes[0], codes[1])
    names = (
        "talker.codec_head.weight",
        "talker.model.codec_embedding.weight",
        "talker.code_predictor.model.codec_embedding.0.weight",
        "talker.code_predictor.lm_head.0.weight",
        "talker.model.norm.weight",
    )
    rows = torch.arange(10.0)[:, None]
    weights = {name: rows if name.startswith("talker.codec_head") else rows[:8] for name in names}
    weights["talker.model.codec_embedding.weight"] = rows
    made = transfer.moved(weights, codes)
    wanted = codes[0].float()
    for name in names[:2]:
        assert made[name][:, 0].tolist() == [*wanted.tolist(), 8, 9]
    for name in names[2:4]:
        assert torch.equal(made[name][:, 0], wanted)
    assert torch.equal(made[names[4]], weights[names[4]])
