"""Writes a full-size checkpoint with meaningless weights: 16.7 GB bf16, the released layout.

    python -m tests.synthetic_7b FOLDER [--context 256]

Tensors are written one after the other, so it needs little memory; values are small and random, the
same for the same position. The tokenizer is padded to the released 32,000 pieces.
"""

from __future__ import annotations

import argparse
import json
import struct
import sys
from math import prod
from pathlib import Path
from typing import IO

import torch
from sentencepiece import sentencepiece_model_pb2

from model.checkpoint.config import CheckpointConfig
from model.checkpoint.names import CONFIG_NAME, MODEL_NAME, VOICES_FOLDER
from model.checkpoint.schema import Schema, lm_schema, mimi_schema
from model.checkpoint.write import config_as_json
from model.config import LMConfig, ModelConfig
from model.vocabulary import TEXT, train_tokenizer
from model.voices import write_voice

MIMI_NAME = "tokenizer-e351c8d8-checkpoint125.safetensors"
TOKENIZER_NAME = "tokenizer_spm_32k_3.model"
NAMES = {torch.bfloat16: "BF16", torch.float32: "F32"}
BLOCK = 1 << 24
"""Values drawn once and repeated: drawing eight billion would take minutes."""
DEVIATION = 0.02
VOICE, VOICE_FRAMES = "NATF2.pt", 5


def write_tensors(path: Path, schema: Schema, dtype: torch.dtype) -> None:
    """One safetensors file, streamed."""
    header, offset = {}, 0
    for name, spec in schema.items():
        end = offset + prod(spec.shape) * dtype.itemsize
        header[name] = {
            "dtype": NAMES[dtype],
            "shape": list(spec.shape),
            "data_offsets": [offset, end],
        }
        offset = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    noise = (DEVIATION * torch.randn(BLOCK, generator=torch.Generator().manual_seed(1))).to(dtype)
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for name, spec in schema.items():
            write_values(out, name, prod(spec.shape), noise)


def write_values(out: IO[bytes], name: str, count: int, noise: torch.Tensor) -> None:
    """`count` values: ones where a norm or a usage would be, else the repeated noise."""
    ones = name.endswith((".alpha", "cluster_usage", "_initialized")) or ".norm" in name
    block = (torch.ones_like(noise) if ones else noise).view(torch.uint8).numpy()
    size = noise.element_size()
    while count > 0:
        part = min(count, len(noise))
        out.write(block[: part * size])
        count -= part


def tokenizer_of(pieces: int) -> bytes:
    """A small model, padded with pieces that no text contains."""
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(train_tokenizer(TEXT.splitlines(), 200))
    for number in range(len(proto.pieces), pieces):
        proto.pieces.add(piece=f"\u2582{number}", score=-1000.0 - number)
    proto.trainer_spec.vocab_size = pieces
    body: bytes = proto.SerializeToString()
    return body


def write_full_size(folder: Path, context: int) -> None:
    """The whole checkpoint into `folder`, which exists."""
    config = ModelConfig(lm=LMConfig(context=context))
    write_tensors(folder / MODEL_NAME, lm_schema(config.lm), torch.bfloat16)
    write_tensors(folder / MIMI_NAME, mimi_schema(config.mimi), torch.float32)
    (folder / TOKENIZER_NAME).write_bytes(tokenizer_of(config.lm.text_card))
    body = config_as_json(CheckpointConfig(config, voice=VOICE, random=True))
    (folder / CONFIG_NAME).write_text(json.dumps(body))
    (folder / VOICES_FOLDER).mkdir()
    embeddings = 0.1 * torch.randn(VOICE_FRAMES - 1, config.lm.dim).bfloat16()
    cache = torch.randint(config.lm.card, (17, 4))
    write_voice(folder / VOICES_FOLDER / VOICE, embeddings, cache)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--context", type=int, default=256)
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    write_full_size(args.folder, args.context)
    size = sum(path.stat().st_size for path in args.folder.rglob("*") if path.is_file())
    print(f"{args.folder}: {size / 1e9:.2f} GB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
