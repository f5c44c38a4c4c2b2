"""Do the values of a configuration fit each other, and the frame that everything is built on?

Pure checks, each of which names the value that is wrong. Raises `ConfigMismatch`.
"""

from __future__ import annotations

from math import prod

from model.checkpoint.errors import ConfigMismatch
from model.config import LMConfig, MimiConfig, ModelConfig
from model.core import AGENT_CODEBOOKS, FRAME_SAMPLES

PAD = 3
"""The text token of a position without text; 0 to 2 are its companions (EPAD, BOS, EOS)."""


def require(holds: bool, message: str) -> None:
    if not holds:
        raise ConfigMismatch(message)


def check_fit(config: ModelConfig) -> None:
    """Refuse, by name, values that do not fit each other."""
    _check_rows(config.lm)
    _check_transformers(config.lm)
    _check_codec(config.mimi)
    _check_codebooks(config)


def _check_rows(lm: LMConfig) -> None:
    require(
        lm.n_q == 2 * AGENT_CODEBOOKS,
        f"lm.n_q is {lm.n_q}, but a position has 8 agent and 8 user codebooks",
    )
    require(
        AGENT_CODEBOOKS <= lm.dep_q <= lm.n_q,
        f"lm.dep_q is {lm.dep_q}, but the agent's 8 codebooks need 8 to {lm.n_q} steps",
    )
    require(
        len(lm.delays) == lm.n_q + 1,
        f"lm.delays has {len(lm.delays)} entries for {lm.n_q + 1} rows",
    )
    agent, user = lm.delays[1 : 1 + AGENT_CODEBOOKS], lm.delays[1 + AGENT_CODEBOOKS :]
    require(
        lm.delays[0] == 0 and agent == user == (0, *[1] * (AGENT_CODEBOOKS - 1)),
        f"lm.delays is {list(lm.delays)}, but only the acoustic codebooks are delayed, by one",
    )
    require(
        lm.existing_text_padding_id == PAD and lm.text_card > PAD,
        f"lm.existing_text_padding_id is {lm.existing_text_padding_id}, but the pad is {PAD} of"
        f" {lm.text_card} text tokens",
    )


def _check_transformers(lm: LMConfig) -> None:
    _check_heads("lm.dim", lm.dim, "lm.num_heads", lm.num_heads)
    _check_heads(
        "lm.depformer_dim", lm.depformer_dim, "lm.depformer_num_heads", lm.depformer_num_heads
    )
    require(lm.context >= 2, f"lm.context is {lm.context}, but it must be at least 2")


def _check_heads(dim_name: str, dim: int, heads_name: str, heads: int) -> None:
    require(
        dim % (2 * heads) == 0,
        f"{dim_name} is {dim}, which {heads_name} {heads} does not split into even heads",
    )


def _check_codec(mimi: MimiConfig) -> None:
    hop = prod(mimi.seanet.ratios) * 2
    require(
        hop == FRAME_SAMPLES,
        f"mimi.seanet.ratios {list(mimi.seanet.ratios)} give frames of {hop} samples, not"
        f" {FRAME_SAMPLES}",
    )
    require(
        mimi.seanet.dimension == mimi.transformer.d_model,
        f"mimi.seanet.dimension is {mimi.seanet.dimension}, but mimi.transformer.d_model is"
        f" {mimi.transformer.d_model}",
    )
    transformer = mimi.transformer
    _check_heads(
        "mimi.transformer.d_model",
        transformer.d_model,
        "mimi.transformer.num_heads",
        transformer.num_heads,
    )
    require(
        transformer.context >= 4,
        f"mimi.transformer.context is {transformer.context}, but it must be at least 4",
    )
    require(
        mimi.quantizer.n_q >= mimi.num_codebooks,
        f"mimi.quantizer.n_q is {mimi.quantizer.n_q}, but {mimi.num_codebooks} codebooks are used",
    )


def _check_codebooks(config: ModelConfig) -> None:
    card, bins = config.lm.card, config.mimi.quantizer.bins
    require(
        card == bins, f"lm.card is {card}, but mimi.quantizer.bins is {bins}: they must be equal"
    )
    for name in ("silence_codes", "sine_codes"):
        codes: tuple[int, ...] = getattr(config, name)
        require(
            len(codes) == AGENT_CODEBOOKS,
            f"{name} has {len(codes)} codes, but there are {AGENT_CODEBOOKS} codebooks",
        )
        for code in codes:
            require(
                0 <= code < card,
                f"{name} holds {code}, but codebooks have entries 0 to {card - 1}",
            )


def check_vocabulary(config: ModelConfig, pieces: int, tokenizer: str) -> None:
    """The tokenizer must know exactly the text tokens that the model can say."""
    require(
        pieces == config.lm.text_card,
        f"lm.text_card is {config.lm.text_card}, but {tokenizer} has {pieces} pieces",
    )
