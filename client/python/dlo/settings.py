# SPDX-License-Identifier: Apache-2.0
"""Every environment variable that dlo reads, in one table. docs/user-guide.md shows the same rows."""
import os
from dataclasses import dataclass
from typing import Callable, Optional


class SettingError(ValueError):
    """An environment variable has a value that cannot be; the text names it and what is allowed."""


def _text(value):
    return value


def _flag(value):
    words = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False,
             "off": False}
    if value.lower() not in words:
        raise ValueError("must be 1 or 0")
    return words[value.lower()]


def _one_of(*words):
    def parse(value):
        if value not in words:
            raise ValueError(f"must be {', '.join(words[:-1])} or {words[-1]}")
        return value

    return parse


def _milliseconds(value):
    if not value.isdecimal() or not 1 <= int(value) <= 60000:
        raise ValueError("must be a number of milliseconds from 1 to 60000")
    return int(value)


def _names(value):
    return tuple(name.strip() for name in value.split(",") if name.strip())


@dataclass(frozen=True)
class Setting:
    name: str
    default: Optional[object]
    parse: Callable
    values: str
    meaning: str


TABLE = (
    Setting("DLO_MODE", None, _one_of("off", "shadow", "on"), "`off`, `shadow`, `on`",
            "wins over everything; unset: on where `DLO_SOCKET` is set or the device's socket exists, "
            "else off"),
    Setting("DLO_SOCKET", None, _text, "path", "the daemon's socket; unset: found by the GPU's UUID"),
    Setting("DLO_LIBRARY", None, _text, "path", "`libdlo-client.so.0`; unset: looked for"),
    Setting("DLO_LIBRARY_CUDA", None, _text, "path", "`libdlo-client-cuda.so.0`; unset: looked for"),
    Setting("DLO_LIBCUDA", None, _text, "path", "the driver's `libcuda.so.1`; unset: the loader's"),
    Setting("DLO_NAME", None, _text, "name", "of this worker in status and log; unset: the program's"),
    Setting("DLO_DEADLINE_MS", None, _milliseconds, "1 to 60000",
            "how long a call may wait for the daemon; unset: 250"),
    Setting("DLO_POLICY", None, _one_of("learned", "fixed", "always", "never"),
            "`learned`, `fixed`, `always`, `never`", "the policy of this worker; unset: the daemon's"),
    Setting("DLO_STAGE_END", "force", _one_of("force", "advise"), "`force`, `advise`",
            "what a release that a host forces at the end of a stage becomes (R4)"),
    Setting("DLO_VLLM_OMNI_WORKERS", ("vllm_omni.diffusion.worker.diffusion_worker",), _names,
            "module, ...", "where it has the worker class whose requests are bracketed"),
    Setting("DLO_VLLM_OMNI_MODULES", ("vllm_omni.diffusion.offloader.module_residency",), _names,
            "module, ...", "where vLLM-Omni, or a fork of it, has the class to patch"),
    Setting("DLO_WRAP_EMPTY_CACHE", False, _flag, "`1`, `0`",
            "`python3 -m dlo run` and a `.pth` file: wrap `torch.cuda.empty_cache`"),
    Setting("DLO_RECORD", None, _text, "path", "write a trace of every boundary to this file"),
)
_ROWS = {row.name: row for row in TABLE}


def get(name):
    """The value of a variable, its default where it is unset or empty. Raises SettingError."""
    row = _ROWS[name]
    raw = os.environ.get(name, "")
    if not raw:
        return row.default
    try:
        return row.parse(raw)
    except ValueError as e:
        raise SettingError(f"environment variable {name} is {raw!r}: it {e}") from None
