# SPDX-License-Identifier: Apache-2.0
"""The build backend of the package dlo (PEP 517 and 660): pure Python, nothing to download.

Reproducible: the same tree gives the same bytes. Not installed.
"""
import base64
import hashlib
import io
import os
import re
import tarfile
import zipfile

NAME = "dlo-client"
HERE = os.path.dirname(os.path.abspath(__file__))
ENTRY_POINTS = "[vllm_omni.general_plugins]\ndlo = dlo.vllm_omni:register\n"
EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest that a zip file knows


def _read(*path):
    with open(os.path.join(HERE, *path), "rb") as file:
        return file.read()


def _version():
    return re.search(r'^__version__ = "([^"]+)"', _read("dlo", "__init__.py").decode(), re.M).group(1)


def _metadata():
    return (f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {_version()}\n"
            "Summary: GPU workers ask dlod when to empty their allocator cache\n"
            "License: Apache-2.0\nRequires-Python: >=3.9\n")


def _stem():
    return f"{NAME.replace('-', '_')}-{_version()}"


def _modules():
    return sorted(name for name in os.listdir(os.path.join(HERE, "dlo"))
                  if name.endswith(".py")) + ["_site/sitecustomize.py"]


def _dist_info():
    wheel = "Wheel-Version: 1.0\nGenerator: dlo_build\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    return [(f"{_stem()}.dist-info/{name}", text.encode())
            for name, text in (("METADATA", _metadata()), ("WHEEL", wheel),
                               ("entry_points.txt", ENTRY_POINTS))]


def _write_wheel(folder, files):
    files = files + _dist_info()
    rows = []
    for name, data in files:
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        rows.append(f"{name},sha256={digest},{len(data)}\n")
    record = f"{_stem()}.dist-info/RECORD"
    files.append((record, ("".join(rows) + f"{record},,\n").encode()))
    wheel = f"{_stem()}-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(folder, wheel), "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files:
            info = zipfile.ZipInfo(name, EPOCH)
            info.external_attr = 0o644 << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, data)
    return wheel


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    return _write_wheel(wheel_directory, [(f"dlo/{name}", _read("dlo", name)) for name in _modules()])


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    return _write_wheel(wheel_directory, [("dlo_client.pth", f"{HERE}\n".encode())])


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    folder = os.path.join(metadata_directory, f"{_stem()}.dist-info")
    os.makedirs(folder)
    for name, data in _dist_info():
        with open(os.path.join(metadata_directory, name), "wb") as file:
            file.write(data)
    return os.path.basename(folder)


prepare_metadata_for_build_editable = prepare_metadata_for_build_wheel


def build_sdist(sdist_directory, config_settings=None):
    files = [("PKG-INFO", _metadata().encode()), ("pyproject.toml", _read("pyproject.toml")),
             ("dlo_build.py", _read("dlo_build.py"))]
    files += [(f"dlo/{name}", _read("dlo", name)) for name in _modules()]
    sdist = f"{_stem()}.tar.gz"
    with tarfile.open(os.path.join(sdist_directory, sdist), "w:gz", format=tarfile.PAX_FORMAT) as archive:
        for name, data in files:
            info = tarfile.TarInfo(f"{_stem()}/{name}")
            info.size, info.mode = len(data), 0o644
            archive.addfile(info, io.BytesIO(data))
    return sdist
