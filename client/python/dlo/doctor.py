# SPDX-License-Identifier: Apache-2.0
"""python3 -m dlo doctor: what dlo finds in this environment, in plain words."""
import importlib.metadata
import os

from dlo import __version__, _library, client, engage, settings


def _library_words():
    try:
        library = _library.load()
        return f"{library.dlo_path}, version {client.version()}", True
    except _library.LibraryError as e:
        return f"missing: {e}", False


def _cuda_words():
    try:
        return _library.load_cuda({}).dlo_path
    except _library.LibraryError:
        return "not there (only programs on the CUDA Driver API need it)"


def _variables():
    found = []
    for row in settings.TABLE:
        if row.name not in os.environ:
            continue
        try:
            settings.get(row.name)
            found.append(f"{row.name}={os.environ[row.name]}")
        except settings.SettingError as e:
            found.append(f"WRONG: {e}")
    return found


def _torch_words():
    try:
        import torch
    except Exception as e:
        return f"not there ({e})"
    words = f"{torch.__version__}"
    if not torch.cuda.is_available():
        return f"{words}, no CUDA device"
    backend = getattr(torch.cuda, "get_allocator_backend", lambda: "native")()
    return f"{words}, {torch.cuda.device_count()} CUDA device(s), allocator {backend}"


def _version_of(package):
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _host_words():
    version = _version_of("vllm-omni")
    if version is None:
        return "no vLLM-Omni here"
    plugins = importlib.metadata.entry_points()
    plugins = (plugins.select(group="vllm_omni.general_plugins") if hasattr(plugins, "select")
               else plugins.get("vllm_omni.general_plugins", ()))
    if not any(p.name == "dlo" for p in plugins):
        return f"vLLM-Omni {version}, which does not see our plugin: install this package beside it"
    allowed = os.environ.get("VLLM_PLUGINS")
    if allowed is not None and "dlo" not in allowed.split(","):
        return f"vLLM-Omni {version}, but VLLM_PLUGINS does not list dlo"
    return f"vLLM-Omni {version}, which loads our plugin"


def _daemon():
    """(words, mode in force, does a daemon answer): by opening a session, as a worker does."""
    try:
        mode, why = engage.mode()
    except settings.SettingError as e:
        return f"not looked for: {e}", "off", False
    if mode == "off":
        return f"not used: {why}", "off", False
    try:
        with client.Client(name="doctor", mode="on") as handle:
            info = handle.info()
    except (client.DloError, _library.LibraryError) as e:
        return f"not reached: {e}", mode, False
    where = info["socket"] or "no socket found"
    if not info["connected"]:
        return f"not reached at {where}: {info['last_link_text']}", info["mode"], False
    return (f"dlod {info['daemon_version']} at {where}, device {info['uuid'] or 'not identified yet'}, "
            f"mode {info['mode']}"), info["mode"], True


def examine():
    """What there is, as a dict of words; `engaged`: would a worker of this environment be managed?"""
    library, has_library = _library_words()
    daemon, mode, answers = _daemon() if has_library else ("not reached: no library", "off", False)
    try:
        decided, why = engage.mode() if has_library else ("off", "the C library was not found")
    except settings.SettingError as e:
        decided, why = "off", str(e)
    return {"package": __version__, "library": library, "cuda_library": _cuda_words(),
            "variables": _variables(), "mode": f"{decided} ({why})", "daemon": daemon,
            "torch": _torch_words(), "host": _host_words(),
            "engaged": bool(answers and mode != "off")}


def page(found):
    """The same for people."""
    lines = [f"dlo {found['package']}",
             f"  library    {found['library']}",
             f"  for CUDA   {found['cuda_library']}",
             f"  variables  {'; '.join(found['variables']) or 'none set'}",
             f"  mode       {found['mode']}",
             f"  daemon     {found['daemon']}",
             f"  torch      {found['torch']}",
             f"  host       {found['host']}"]
    if found["engaged"]:
        lines.append("A worker started here is managed by that daemon.")
    elif found["mode"].startswith("off"):
        lines.append("A worker started here is left alone.")
    else:
        lines.append("A worker started here decides by itself, by the same policy, until a daemon is there.")
    return "\n".join(lines) + "\n"
