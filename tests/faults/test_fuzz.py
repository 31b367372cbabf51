"""Any input gives a result or one ``InputError``: no other error, no endless wait."""

from __future__ import annotations

import contextlib
import io
import resource
import string
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from logit_correction.cli.arguments import parse_arguments
from logit_correction.cli.commands import train_command
from logit_correction.errors import InputError
from logit_correction.runs.options import RunConfig, complete_config

#: Bytes that a test may take: what asks for more fails instead of taking the machine's.
MEMORY = 8 * 2**30


@pytest.fixture(autouse=True, scope="module")
def limit_memory() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


texts = st.one_of(
    st.sampled_from(["", " ", "NA", "nan", "0", "-1", "1e400", "train", "test", "a,b", "\0", "é", "<b>", "x" * 3000]),
    st.text(max_size=8),
)
numbers = st.one_of(st.integers(-(2**70), 2**70), st.floats(), st.booleans(), st.none())
scalars = st.one_of(texts, numbers)
any_value = st.recursive(
    scalars, lambda part: st.lists(part, max_size=4) | st.dictionaries(texts, part, max_size=4), max_leaves=12
)

PARTS = {
    "data": st.one_of(
        st.just("Digits"), st.fixed_dictionaries({"name": st.just("Digits"), "seed": scalars}), any_value
    ),
    "method": st.one_of(
        st.just("LC"),
        st.fixed_dictionaries({"name": st.just("LC"), "attributes": any_value, "strength": scalars}),
        any_value,
    ),
    "network": st.one_of(st.fixed_dictionaries({"name": st.just("MLP"), "hidden": any_value}), any_value),
    "preset": scalars,
    "epochs": any_value,
    "batch_size": any_value,
    "threads": any_value,
}


@given(content=st.fixed_dictionaries({}, optional=PARTS), broken=st.text(alphabet=string.printable, max_size=3))
def test_any_config_is_accepted_or_refused_with_one_message(
    content: dict[str, Any], broken: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.getbasetemp() / "fuzz.yaml"
    content = {"data": "Digits", "method": "LC"} | content
    file.write_text(yaml.safe_dump(content, allow_unicode=True) + broken, encoding="utf-8", errors="ignore")
    with contextlib.suppress(InputError):
        complete_config(RunConfig.read(file))


WORDS = ["--data", "Digits", "--method", "LC", "ERM", "--network", "MLP", "--epochs", "--out", "x", "--seed", "3"]
WORDS += ["--method.attributes", "Online", "--method.attributes.q", "--network.hidden", "[8]", "--config", "no.yaml"]
WORDS += ["--resume", "--preset", "paper", "--shortcut", "colour", "--seeds", "--threads=", "--data.seed=", "="]


@given(words=st.lists(st.one_of(st.sampled_from(WORDS), texts), max_size=9))
def test_any_command_line_is_accepted_or_refused_with_one_message(words: list[str]) -> None:
    with contextlib.suppress(InputError), contextlib.redirect_stderr(io.StringIO()):
        given_words = [word for word in words if word not in ("-h", "--help")]
        parse_arguments("train", train_command, ["--data", "Digits", "--method", "ERM", "--out", "x", *given_words])
