"""The main weight files' tensors: talker and code predictor. Without torch.

Of both heads the rows that can be drawn are kept: see `talker.py`.
"""

from __future__ import annotations

from models.checkpoint.table import Table
from models.decoder.tensors import LayerNames, add_layers
from models.fish_speech.config import FishSpeechConfig

TEXT, AUDIO = "text_model.model", "audio_decoder"
LAYER = LayerNames(
    qkv=("attention.wqkv",),
    o="attention.wo",
    gate_up=("feed_forward.w1", "feed_forward.w3"),
    down="feed_forward.w2",
    input_norm="attention_norm",
    post_norm="ffn_norm",
    q_norm="attention.q_norm",
    k_norm="attention.k_norm",
    scales=("attention_layer_scale.gamma", "ffn_layer_scale.gamma"),
    is_interleaved=True,
)


def network_table(config: FishSpeechConfig, num_rest_codes: int) -> Table:
    """Every tensor of talker and code predictor.

    Args:
        num_rest_codes: codes of each codebook but the first; the predictor's head is cut to them.
    """
    table, codes, narrow = Table(), config.codebook_size, config.predictor.width
    width, count = config.talker.width, config.num_codebooks
    text = table.hold(f"{TEXT}.embeddings.weight", config.text_vocab_size, width)
    table.make("talker.text_embedding.weight", "rows", text)
    drawn = (config.semantic_start, codes, config.end)
    table.make("talker.head.weight", "range_and_one", text, numbers=drawn)
    books = table.hold(f"{AUDIO}.codebook_embeddings.weight", count * codes, width)
    table.make("talker.code_embedding.weight", "split", books, numbers=(count,))
    table_of_all = table.hold(f"{AUDIO}.embeddings.weight", codes, narrow)
    table.make("predictor.embeddings.weight", "split", table_of_all, numbers=(1,))
    head = table.hold(f"{AUDIO}.output.weight", codes, narrow)
    table.make("predictor.heads.weight", "first_rows", head, numbers=(num_rest_codes,))
    for theirs, ours, sizes in (
        (TEXT, "talker", config.talker),
        (AUDIO, "predictor", config.predictor),
    ):
        add_layers(table, theirs, f"{ours}.decoder", sizes, LAYER)
    return table
