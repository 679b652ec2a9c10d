"""Recipe: processes that train together, and the attention guide without the official package."""

from __future__ import annotations

import os
import sys

import pytest
from warm_process import WarmProcess

PROGRAM = """
import torch
from team import Team
team = Team("cpu")
weight = torch.nn.Parameter(torch.full((3,), float(team.rank)))
team.share([weight.data])
unused = torch.nn.Parameter(torch.zeros(2))
(weight * (1 + team.rank)).sum().backward()
team.average_gradients([weight, unused])
print(weight.tolist(), weight.grad.tolist(), team.agree(5.0 + team.rank), team.is_first)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="forks of Linux")
def test_two_processes_agree(voice_folder, monkeypatch):
    monkeypatch.chdir(voice_folder / "recipe")
    env = {**os.environ, "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29533"}
    mates = [
        WarmProcess(PROGRAM, [], {**env, "RANK": str(rank), "LOCAL_RANK": str(rank)})
        for rank in (0, 1)
    ]
    lines = [mate.communicate(timeout=60)[0].strip() for mate in mates]
    same = "[0.0, 0.0, 0.0] [1.5, 1.5, 1.5] 5.0"
    assert lines == [f"{same} True", f"{same} False"]


@pytest.mark.parametrize(
    ("text", "heads"), [("4:1,3:0", ((4, 1), (3, 0))), ("", ()), ("7:3", ((7, 3),))]
)
def test_heads_are_parsed(recipe, text, heads):
    assert recipe("train").parse_heads(text) == heads
