# SPDX-License-Identifier: Apache-2.0
"""Whether dlo engages in this process, and the one line that says so.

A process that nobody asked to be managed stays silent and untouched. One that was asked (DLO_MODE or
DLO_SOCKET) either says what engaged, or says in one error line why it did not.
"""
import logging
import os
import sys

from dlo import __version__, _library, client, settings

log = logging.getLogger("dlo")
_said = set()  # (pid, host, device, text of an error): said once


def mode(gpu_uuid=None):
    """("off", "shadow" or "on", why). $DLO_MODE wins; unset it is on where $DLO_SOCKET is set or the
    device's socket exists, else off. Raises settings.SettingError."""
    word = settings.get("DLO_MODE")
    if word:
        return word, f"DLO_MODE={word}"
    if settings.get("DLO_SOCKET"):
        return "on", "DLO_SOCKET is set"
    try:
        path = client.find_socket(gpu_uuid)
    except _library.LibraryError:
        return "off", "the C library was not found"
    except client.DloError:
        return "on", "several daemons are there"
    return ("on", f"{path} exists") if path else ("off", "no daemon's socket exists")


def is_asked():
    """Did somebody ask for dlo in this process?"""
    return bool(os.environ.get("DLO_SOCKET")) or os.environ.get("DLO_MODE", "off") not in ("", "off")


def say(level, text):
    """One line to the logger "dlo"; to stderr where the host has set no handler up."""
    if log.hasHandlers():
        log.log(level, text)
    elif level >= logging.INFO:
        print(f"dlo: {text}", file=sys.stderr, flush=True)


def _once(*key):
    key = (os.getpid(), *key)
    if key in _said:
        return False
    _said.add(key)
    return True


def announce(host, device, handle):
    """The line that says what engaged: version, device, daemon, mode. Once a process, host and
    device."""
    if not _once(host, str(device)):
        return
    info = handle.info()
    if info["mode"] == "off":
        say(logging.INFO, f"dlo {__version__}: mode off, host {host} goes on as without dlo")
        return
    daemon = f"{info['socket']} (dlod {info['daemon_version']})"
    if not info["connected"]:
        where = f" at {info['socket']}" if info["socket"] else ""
        daemon = f"none{where} ({info['last_link_text']}): the policy runs in this process"
    text = (f"dlo {__version__}: engaged, device {device} ({info['uuid'] or 'UUID not known'}), "
            f"daemon {daemon}, mode {info['mode']}, host {host}")
    say(logging.INFO if info["connected"] or not is_asked() else logging.ERROR, text)


def refuse(host, error):
    """The line that says why nothing engaged, and what to do. Once a process and reason."""
    if _once(host, str(error)):
        say(logging.ERROR, f"dlo {__version__}: NOT engaged in host {host}: {error}")
