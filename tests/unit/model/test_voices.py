"""Voices: the released layout, what is refused, archives that would leave their folder."""

from __future__ import annotations

import io
import os
import pickle
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from model.archive import unpack_voices
from model.checkpoint.errors import VoiceError
from model.config import LMConfig
from model.voices import VoiceCatalogue, open_catalogue, write_voice

pytestmark = pytest.mark.unit

DIM, CARD, TEXT_CARD, FRAMES = 8, 2048, 4000, 5
LM = LMConfig(dim=DIM, card=CARD, text_card=TEXT_CARD)


def released(frames: int = FRAMES) -> dict[str, Tensor]:
    """The dictionary that a released `.pt` holds."""
    return {
        "embeddings": torch.randn(frames - 1, 1, 1, DIM).bfloat16(),
        "cache": torch.randint(CARD, (1, 17, 4)),
    }


def saved(folder: Path, body: object, name: str = "A.pt") -> VoiceCatalogue:
    torch.save(body, folder / name)
    return VoiceCatalogue(folder, LM)


def test_a_released_voice_is_read(tmp_path: Path) -> None:
    body = released()
    voice = saved(tmp_path, body).read("A.pt")
    assert voice.frames == FRAMES
    assert torch.equal(voice.embeddings, body["embeddings"][:, 0, 0])
    assert torch.equal(voice.cache, body["cache"][0])


def test_a_voice_is_written_in_the_released_layout(tmp_path: Path) -> None:
    body = released()
    write_voice(tmp_path / "B.pt", body["embeddings"][:, 0, 0], body["cache"][0])
    again = torch.load(tmp_path / "B.pt", weights_only=True)
    assert again.keys() == body.keys()
    assert all(torch.equal(again[key], body[key]) for key in body)
    assert [path.name for path in tmp_path.iterdir()] == ["B.pt"]


def test_a_written_voice_can_be_read_by_others(tmp_path: Path) -> None:
    body = released()
    write_voice(tmp_path / "B.pt", body["embeddings"][:, 0, 0], body["cache"][0])
    assert (tmp_path / "B.pt").stat().st_mode & 0o777 == 0o644


def test_only_pt_basenames_are_listed_sorted(tmp_path: Path) -> None:
    for name in ("B.pt", "A.pt", "notes.txt", ".hidden.pt", "b c.pt", "x.pt.bak"):
        (tmp_path / name).touch()
    assert VoiceCatalogue(tmp_path, LM).names() == ("A.pt", "B.pt")


# contract: B1
@pytest.mark.parametrize("name", ["../A.pt", "/etc/passwd", "sub/A.pt", "A", "a.pt", "", "A.pt\0"])
def test_nothing_but_a_bundled_basename_is_opened(tmp_path: Path, name: str) -> None:
    catalogue = saved(tmp_path, released())
    with pytest.raises(VoiceError, match="no voice"):
        catalogue.read(name)


def test_a_link_that_leaves_the_folder_is_not_followed(tmp_path: Path) -> None:
    inside, outside = tmp_path / "voices", tmp_path / "outside.pt"
    inside.mkdir()
    torch.save(released(), outside)
    (inside / "A.pt").symlink_to(outside)
    with pytest.raises(VoiceError, match="leaves the folder"):
        VoiceCatalogue(inside, LM).read("A.pt")


def spoilt(**changes: Tensor | None) -> dict[str, Tensor]:
    body = released()
    for key, value in changes.items():
        if value is None:
            del body[key]
        else:
            body[key] = value
    return body


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (spoilt(cache=None), "lacks the tensors"),
        (spoilt(embeddings=None), "lacks the tensors"),
        (spoilt(embeddings=torch.zeros(4, 1, 1, DIM + 1)), "embeddings are"),
        (spoilt(embeddings=torch.zeros(0, 1, 1, DIM)), "embeddings are"),
        (spoilt(embeddings=torch.zeros(4, DIM)), "embeddings are"),
        (spoilt(embeddings=torch.full((4, 1, 1, DIM), torch.nan)), "finite"),
        (spoilt(embeddings=torch.zeros(4, 1, 1, DIM, dtype=torch.int64)), "floating"),
        (spoilt(cache=torch.zeros(1, 17, 3, dtype=torch.int64)), "cache must be"),
        (spoilt(cache=torch.zeros(1, 17, 4)), "cache must be"),
        (spoilt(cache=torch.full((1, 17, 4), CARD + 1)), "tokens outside"),
        (spoilt(cache=torch.full((1, 17, 4), -2)), "tokens outside"),
        ([1, 2, 3], "holds a list"),
    ],
)
def test_a_voice_of_another_shape_is_refused(tmp_path: Path, body: object, reason: str) -> None:
    with pytest.raises(VoiceError, match=reason):
        saved(tmp_path, body).read("A.pt")


def with_text(token: int) -> dict[str, Tensor]:
    """A voice whose text at its last position is `token`."""
    body = released()
    body["cache"][0, 0, (FRAMES - 1) % 4] = token
    return body


# contract: I5
@pytest.mark.parametrize("token", [-1, TEXT_CARD + 1])
def test_a_text_token_that_no_embedding_has_is_refused_by_name(tmp_path: Path, token: int) -> None:
    with pytest.raises(VoiceError, match=f"A.pt: cache holds text tokens outside 0 to {TEXT_CARD}"):
        saved(tmp_path, with_text(token)).read("A.pt")


@pytest.mark.parametrize("token", [0, CARD + 1, TEXT_CARD])
def test_every_text_token_that_an_embedding_has_is_taken(tmp_path: Path, token: int) -> None:
    assert int(saved(tmp_path, with_text(token)).read("A.pt").cache[0].max()) >= token


class Trap:
    """Unpickling this would make a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return os.mkdir, (str(self.path),)


def test_code_in_a_voice_file_is_not_run(tmp_path: Path) -> None:
    trap = tmp_path / "sprung"
    (tmp_path / "A.pt").write_bytes(pickle.dumps(Trap(trap)))
    torch.save({"embeddings": Trap(trap)}, tmp_path / "B.pt")
    catalogue = VoiceCatalogue(tmp_path, LM)
    for name in ("A.pt", "B.pt"):
        with pytest.raises(VoiceError, match="no voice file"):
            catalogue.read(name)
    assert not trap.exists()


@pytest.mark.parametrize("body", [b"", b"RIFF", np.arange(50).tobytes()])
def test_a_file_that_is_no_voice_is_one_line(tmp_path: Path, body: bytes) -> None:
    (tmp_path / "A.pt").write_bytes(body)
    with pytest.raises(VoiceError, match=r"A\.pt") as refused:
        VoiceCatalogue(tmp_path, LM).read("A.pt")
    assert "\n" not in str(refused.value)


def archive(path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as target:
        for member, body in members:
            member.size = len(body)
            target.addfile(member, io.BytesIO(body))
    return path


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info


def voice_bytes() -> bytes:
    out = io.BytesIO()
    torch.save(released(), out)
    return out.getvalue()


def test_an_archive_is_unpacked_once_and_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = archive(
        tmp_path / "voices.tgz",
        (member("voices", tarfile.DIRTYPE), b""),
        (member("voices/A.pt"), voice_bytes()),
        (member("voices/README.md"), b"text"),
        (member("voices/._A.pt"), b"debris of another system"),
    )
    first, second = (open_catalogue(path, LM) for _ in range(2))
    assert first.names() == ("A.pt",)
    assert first.folder == second.folder
    assert first.read("A.pt").frames == FRAMES


@pytest.mark.parametrize(
    "evil",
    [
        member("../outside.pt"),
        member("voices/../../outside.pt"),
        member("/tmp/outside.pt"),
        member("voices\\..\\outside.pt"),
        member("voices/A.pt", tarfile.SYMTYPE, "../outside.pt"),
        member("voices/A.pt", tarfile.LNKTYPE, "/etc/passwd"),
        member("voices", tarfile.SYMTYPE, "/tmp"),
        member("voices/A.pt", tarfile.FIFOTYPE),
        member("voices/A.pt", tarfile.CHRTYPE),
    ],
    ids=lambda info: f"{info.name}-{info.type.decode()}",
)
def test_no_path_or_link_leaves_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, evil: tarfile.TarInfo
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = archive(tmp_path / "voices.tgz", (member("voices/0.pt"), voice_bytes()), (evil, b""))
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(VoiceError, match="do not use this file"):
        open_catalogue(path, LM)
    left = [found for found in tmp_path.rglob("*") if found not in before]
    assert left == [tmp_path / "cache", tmp_path / "cache" / "personaplex"]


@pytest.mark.parametrize("body", [b"", b"no archive", b"\x1f\x8b\x08broken"])
def test_a_broken_archive_is_one_line(tmp_path: Path, body: bytes) -> None:
    path = tmp_path / "voices.tgz"
    path.write_bytes(body)
    with pytest.raises(VoiceError, match=r"voices\.tgz") as refused:
        unpack_voices(path, tmp_path)
    assert "\n" not in str(refused.value)


def test_a_truncated_archive_is_one_line(tmp_path: Path) -> None:
    path = archive(tmp_path / "voices.tgz", (member("voices/A.pt"), os.urandom(100_000)))
    path.write_bytes(path.read_bytes()[:50_000])
    with pytest.raises(VoiceError, match=r"voices\.tgz"):
        unpack_voices(path, tmp_path)
