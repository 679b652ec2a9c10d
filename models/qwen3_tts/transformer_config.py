"""What every transformer of a Qwen3-TTS checkpoint says of itself, in Hugging Face's names: as
released, or as transformers 5 saves it again.
"""

from __future__ import annotations

from models.checkpoint.section import Section

SIZES = {  # our name -> theirs
    "width": "hidden_size",
    "mlp_width": "intermediate_size",
    "num_layers": "num_hidden_layers",
    "num_heads": "num_attention_heads",
    "num_kv_heads": "num_key_value_heads",
    "head_dim": "head_dim",
}
POSITIONS = {"max_positions": "max_position_embeddings"}


def read_rope_theta(section: Section) -> float:
    """The base of RoPE: `rope_theta`, which transformers 5 moves into `rope_parameters`.

    Raises:
        CheckpointError: the key is missing or wrong, two keys disagree, or RoPE is to be scaled.
    """
    for key in ("rope_scaling", "rope_parameters"):
        settings = section.section_or_empty(key).values
        kind = settings.get("rope_type", settings.get("type", "default"))
        if kind != "default":
            raise section.wrong(f"{key} {kind!r:.60} is not supported")
    moved = section.section_or_empty("rope_parameters")
    if not moved.holds("rope_theta"):
        return section.number("rope_theta", least=1)
    theta = moved.number("rope_theta", least=1)
    if section.holds("rope_theta") and section.number("rope_theta") != theta:
        raise section.wrong(
            f"'rope_theta' is {section.number('rope_theta'):g}, but rope_parameters has {theta:g}"
        )
    return theta
