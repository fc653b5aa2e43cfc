"""Classic BPF programs, put together in pure Python: the few instructions that a seccomp filter needs."""

from __future__ import annotations

import enum
import struct
from dataclasses import dataclass

LONGEST_JUMP = 255
"""A conditional jump's distance is one byte."""

_LOAD_WORD = 0x20  # BPF_LD | BPF_W | BPF_ABS
_RETURN = 0x06  # BPF_RET | BPF_K
_INSTRUCTION = struct.Struct("=HBBI")  # struct sock_filter of linux/filter.h


class Condition(enum.IntEnum):
    """Conditional jumps; the accumulator against a constant, unsigned."""

    EQUAL = 0x15  # BPF_JMP | BPF_JEQ | BPF_K
    GREATER = 0x25  # BPF_JMP | BPF_JGT | BPF_K
    ANY_BIT = 0x45  # BPF_JMP | BPF_JSET | BPF_K


@dataclass(frozen=True, slots=True)
class _Instruction:
    code: int
    constant: int
    then: str = ""
    otherwise: str = ""


class Assembler:
    """Collects instructions and resolves the names that jumps go to; jumps only go forward."""

    def __init__(self) -> None:
        self._instructions: list[_Instruction] = []
        self._labels: dict[str, int] = {}

    def label(self, name: str) -> None:
        """Name the place of the next instruction."""
        if name in self._labels:
            message = f"label {name} is set twice"
            raise ValueError(message)
        self._labels[name] = len(self._instructions)

    def load(self, offset: int) -> None:
        """Load the 32 bit word at an offset of the data into the accumulator."""
        self._instructions.append(_Instruction(_LOAD_WORD, offset))

    def jump(self, condition: Condition, constant: int, *, then: str = "", otherwise: str = "") -> None:
        """Go to `then` when the condition holds, else to `otherwise`; an empty name is the next instruction."""
        self._instructions.append(_Instruction(condition, constant, then, otherwise))

    def give(self, value: int) -> None:
        """End with a value."""
        self._instructions.append(_Instruction(_RETURN, value))

    def program(self) -> bytes:
        """Give the bytes, as an array of `struct sock_filter` of this machine.

        Raises:
            ValueError: a jump goes backwards, too far, or to a name that was never set.
        """
        return b"".join(
            _INSTRUCTION.pack(
                item.code, self._distance(place, item.then), self._distance(place, item.otherwise), item.constant
            )
            for place, item in enumerate(self._instructions)
        )

    def _distance(self, place: int, label: str) -> int:
        if not label:
            return 0
        distance = self._labels.get(label, -1) - place - 1
        if not 0 <= distance <= LONGEST_JUMP:
            message = f"jump from {place} to {label} is not possible"
            raise ValueError(message)
        return distance
