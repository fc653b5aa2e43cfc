"""Names of sandboxes."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from sandgate_providers.naming import sandbox_name
from sandgate_providers.types import SandboxKey

texts = st.text(max_size=20)


@given(texts, texts, texts)
def test_every_name_is_a_dns_label(installation: str, tenant: str, thread: str) -> None:
    """Whatever a client calls its thread, the name is safe as a host name, a folder and a label."""
    name = sandbox_name(installation, SandboxKey(tenant=tenant, thread=thread))
    assert re.fullmatch(r"sg-[0-9a-f]{32}", name)


@given(st.tuples(texts, texts, texts), st.tuples(texts, texts, texts))
def test_names_are_equal_only_for_equal_inputs(first: tuple[str, str, str], second: tuple[str, str, str]) -> None:
    """Two keys never share a sandbox, however their parts are split; one key always finds its own again."""
    names = [sandbox_name(parts[0], SandboxKey(tenant=parts[1], thread=parts[2])) for parts in (first, second)]
    assert (names[0] == names[1]) == (first == second)


def test_parts_cannot_be_shifted_into_each_other() -> None:
    """Tenant `a` with thread `bc` is not tenant `ab` with thread `c`."""
    first = sandbox_name("i", SandboxKey(tenant="a", thread="bc"))
    assert first != sandbox_name("i", SandboxKey(tenant="ab", thread="c"))
    assert first != sandbox_name("ia", SandboxKey(tenant="", thread="bc"))


def test_a_name_never_changes() -> None:
    """A new release finds the sandboxes and folders of the one before."""
    name = sandbox_name("home", SandboxKey(tenant="acme", thread="7"))
    assert name == "sg-4f929c7005ccacd0ed0fa9cb09c1c703"


def test_lone_surrogates_are_named_too() -> None:
    """A thread id that is no valid Unicode is a name like another, not a crash."""
    assert sandbox_name("i", SandboxKey(tenant="t", thread="\ud800")) != sandbox_name(
        "i", SandboxKey(tenant="t", thread="\ud801")
    )
