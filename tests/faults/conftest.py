"""How much is run: a short form by ``pytest -m slow``, the long one by ``FAULTS=long pytest -m slow tests/faults``."""

from __future__ import annotations

import functools
import gzip
import io
import os
import pickle
import random
import resource
import shutil
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import HealthCheck, settings
from PIL import Image

from logit_correction.errors import InputError

LONG = os.environ.get("FAULTS") == "long"
USER_CODE = Path(__file__).parents[1] / "user_code"

#: Examples of one fuzz test; there are five, 10,000 examples in the long form.
EXAMPLES = 2000 if LONG else 25

#: Bytes that a test may take: what asks for more fails instead of taking the machine's.
MEMORY = 8 * 2**30

settings.register_profile(
    "faults",
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    derandomize=not LONG,
    print_blob=True,
    database=None,
)
settings.load_profile("faults")  # before the tests are read, which take their settings then


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of this folder slow, and give the long form time."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.slow)
            item.add_marker(pytest.mark.timeout(3 * 3600 if LONG else 900))


@pytest.fixture(autouse=True)
def surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the module ``my_parts`` on the path, here and in child processes."""
    monkeypatch.syspath_prepend(str(USER_CODE))
    source = Path(__file__).parents[2] / "src"
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(source), str(USER_CODE)]))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


@pytest.fixture
def times() -> Callable[[int, int], int]:
    """Choose between the number of the short and of the long form."""
    return lambda short, long: long if LONG else short


@pytest.fixture
def program() -> list[str]:
    """The words that start the program in a process of its own."""
    return [sys.executable, "-m", "logit_correction"]


class Mischief:
    """Makes a file when it is unpickled."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[Any, ...]:
        return (open, (str(self.target), "w"))


def npy(header: str, content: bytes = b"") -> bytes:
    """A ``.npy`` with any header."""
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + content


def packed(members: dict[str, bytes], link: str = "") -> bytes:
    """A zip file, packed, one of whose members may be a link."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
        if link:
            info = zipfile.ZipInfo("link")
            info.external_attr = 0o120777 << 16
            archive.writestr(info, link)
    return stream.getvalue()


def tarred(outside: Path, mode: str) -> bytes:
    """A tar file with members outside of its folder, links, a device and a queue."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode=mode) as archive:  # type: ignore[call-overload]
        for name in ("../../escaped", str(outside / "escaped"), "train/cat/../../../../escaped"):
            member = tarfile.TarInfo(name)
            member.size = 3
            archive.addfile(member, io.BytesIO(b"abc"))
        for number, kind in enumerate((tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE)):
            member = tarfile.TarInfo(f"train/cat/{number}.png")
            member.type, member.linkname = kind, "/etc/passwd"
            archive.addfile(member)
    return stream.getvalue()


def written(write: Callable[[io.BytesIO], object]) -> bytes:
    """What a function writes to a file."""
    stream = io.BytesIO()
    write(stream)
    return stream.getvalue()


@functools.cache
def bombs() -> dict[str, bytes]:
    """Small files that would take all memory or time where they are unfolded."""
    zeros = bytes(2**26)
    member = tarfile.TarInfo("train/cat/0.png")
    member.size = 2**40
    archive = gzip.compress(member.tobuf()) + 20 * gzip.compress(zeros)
    arrays = packed({"inputs.npy": npy("{'descr': '|u1', 'fortran_order': False, 'shape': (67108800, 1)}\n", zeros)})
    laughs = "a0: &a0 [x, x]\n" + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 30))
    return {
        "tar bomb": archive,
        "zip bomb": arrays,
        "YAML bomb": f"{laughs}data: *a29\nepochs: *a29\n".encode(),
    }


@functools.cache
def others(outside: Path) -> dict[str, bytes]:
    """Files of other kinds, some of them made in bad faith; what they would run or write makes a file in a folder."""
    bad = Mischief(outside / "ran")
    old = written(lambda file: torch.save({"a": bad}, file, _use_new_zipfile_serialization=False))
    objects = np.array([bad], object)
    image = written(lambda file: Image.new("RGB", (5, 5)).save(file, "png"))
    head = b"IHDR" + 2 * (60_000).to_bytes(4, "big") + image[24:29]
    huge = image[:12] + head + zlib.crc32(head).to_bytes(4, "big") + image[33:]
    return bombs() | {
        "nothing": b"",
        "text": "Größe;<script>alert(1)</script>\n".encode("latin-1"),
        "null": b"null",
        "nested": b"[" * 100_000,
        "deep": b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
        "YAML that makes objects": f"a: !!python/object/apply:open ['{outside}/ran', w]\n".encode(),
        "a date that is none": b"data: 2001-99-99\n",
        "pickle": pickle.dumps(bad),
        "pickle of torch": written(lambda file: torch.save({"a": bad}, file)),
        "old pickle of torch": old,
        "pickled array": written(lambda file: np.save(file, objects, allow_pickle=True)),
        "pickled arrays": written(lambda file: np.savez(file, inputs=objects, label=objects)),
        "array": written(lambda file: np.save(file, np.zeros(3))),
        "arrays": written(lambda file: np.savez(file, a=np.zeros(3))),
        "huge array": npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000, 9)}\n"),
        "no array": npy("((((" * 2000),
        "zip": packed({"../../escaped": b"a", f"{outside}/escaped": b"a", "a/../../escaped": b"b"}, link="/etc/passwd"),
        "tar": tarred(outside, "w"),
        "packed tar": tarred(outside, "w:gz"),
        "image": image,
        "huge image": huge,
        "table": written(pd.DataFrame({"a": [1, 2]}).to_parquet),
        "long weights": (2**63 - 1).to_bytes(8, "little") + b"{}",
    }


def in_its_place(file: Path) -> dict[str, Callable[[], object]]:
    """What is no file, and yet lies where one is read."""
    return {
        "folder": lambda: (file / "a").mkdir(parents=True),
        "link to nothing": lambda: file.symlink_to("nowhere"),
        "link to itself": lambda: file.symlink_to(file.name),
        "link to a device": lambda: file.symlink_to("/dev/zero"),
        "queue": lambda: os.mkfifo(file),
    }


@pytest.fixture
def endures(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, times: Callable[[int, int], int]
) -> Iterator[Callable[..., int]]:
    """Spoil a file in every way and read it; return how many times that gave a message."""
    outside = tmp_path_factory.getbasetemp() / "outside"
    outside.mkdir(exist_ok=True)
    faults: list[str] = []

    def survives(read: Callable[[], Any], whole: Any, what: str) -> bool:
        try:
            found = read()
            assert whole is None or torch.equal(torch.as_tensor(found), whole), what
            return False
        except InputError as error:
            assert whole is None or what in ("folder", "queue"), f"{what}: {error}"
            assert len(str(error)) < 5000 and str(error).strip(), what
            return True
        except Exception as error:
            faults.append(f"{what}: {type(error).__name__}: {str(error)[:300]}")
            return False

    def spoil(file: Path, read: Callable[[], Any], again: bool = False) -> int:
        draw, messages, intact = random.Random(file.name), 0, file.read_bytes()
        whole = torch.as_tensor(read()) if again else None

        def put(content: bytes | None) -> None:
            shutil.rmtree(file) if file.is_dir() and not file.is_symlink() else file.unlink(True)
            if content is not None:
                file.write_bytes(content)

        for what, content in others(outside).items():
            put(content)
            messages += survives(read, whole, what)
        for what, lay in in_its_place(file).items():
            put(None)
            lay()
            messages += survives(read, whole, what)
        for _ in range(times(6, 300)):
            damaged = bytearray(intact)
            if draw.random() < 0.3:
                del damaged[draw.randrange(len(damaged)) :]
            for _ in range(draw.choice([0, 1, 1, 100])):
                if damaged:
                    place = draw.randrange(min(len(damaged), draw.choice([200, len(damaged)])))
                    damaged[place] ^= 1 << draw.randrange(8)
            put(bytes(damaged))
            messages += survives(read, whole, f"damaged: {bytes(damaged[:40])!r}")
        put(intact)
        survives(read, whole, "as it was")
        assert not faults, "\n".join(faults)
        assert not list(outside.iterdir()) and not list(tmp_path.rglob("escaped"))
        return messages

    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, before[1]))
    yield spoil
    resource.setrlimit(resource.RLIMIT_AS, before)
