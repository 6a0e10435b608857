# SPDX-License-Identifier: Apache-2.0
"""The wire by hand: a Request as bytes and a Reply as a dict, without any protobuf library, so that
a mistake of the generated code cannot hide. Fields come from proto/dlo.proto, words from
proto/base/*.h.

    encode("Request", {"seq": 1, "hello": {"name": b"x"}})  ->  bytes
    decode("Reply", packet)                                 ->  {"seq": 1, "welcome": {...}}

A field that is absent on the wire is absent in the dict."""
import os
import re
import struct

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
MESSAGE_MAX = 4096
VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5


def _read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        return f.read()


def _load_schema():
    """{message: {field name: (number, type, is repeated)}}"""
    messages = {}
    fields = None
    for line in _read("proto/dlo.proto").splitlines():
        line = line.split("//")[0].strip()
        start = re.match(r"message (\w+) \{", line)
        field = re.match(r"(?:(optional|required|repeated) )?(\w+) (\w+) = (\d+)", line)
        if start:
            fields = messages.setdefault(start.group(1), {})
        elif field and fields is not None:
            label, kind, name, number = field.groups()
            fields[name] = (int(number), kind, label == "repeated")
    return messages


def _load_words(path, macro):
    """{word: number} of an X-macro table."""
    body = re.search(r"#define " + macro + r"\(X\)(.*?)\n\n", _read(path), re.S).group(1)
    return {word: int(number) for number, word in re.findall(r'X\(\w+, (-?\d+), "(\w+)"', body)}


SCHEMA = _load_schema()
BY_NUMBER = {m: {number: (name, kind, many) for name, (number, kind, many) in fields.items()}
             for m, fields in SCHEMA.items()}
ERROR = _load_words("proto/base/error.h", "ERROR_MAP")
DECISION, REASON, FORCE, POLICY, MODE, SOURCE, PHASE, STAGE_END = (
    _load_words("proto/base/terms.h", f"{name}_MAP") for name in
    ("DECISION", "REASON", "FORCE", "POLICY", "MODE", "SOURCE", "PHASE", "STAGE_END"))


def word(table, number):
    for text, value in table.items():
        if value == number:
            return text
    return f"?{number}"


# ---- to bytes ----

def varint(value):
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7f:
        out.append(value & 0x7f | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def tag(number, wire_type):
    return varint(number << 3 | wire_type)


def block(number, data):
    return tag(number, LENGTH) + varint(len(data)) + data


def _encode_one(number, kind, value):
    if kind == "double":
        return tag(number, FIXED64) + struct.pack("<d", value)
    if kind in ("bytes", "string"):
        return block(number, value.encode() if isinstance(value, str) else bytes(value))
    if kind in SCHEMA:
        return block(number, encode(kind, value))
    if kind.startswith("sint"):
        value = value << 1 ^ value >> 63
    return tag(number, VARINT) + varint(int(value))


def encode(message, values):
    out = b""
    for name, value in values.items():
        number, kind, many = SCHEMA[message][name]
        if many and kind == "uint64":  # packed
            out += block(number, b"".join(varint(v) for v in value))
            continue
        for one in value if many else [value]:
            out += _encode_one(number, kind, one)
    return out


def request(seq, op, **fields):
    return encode("Request", {"seq": seq, op: fields})


# ---- from bytes ----

class Malformed(Exception):
    pass


def _take_varint(data, at):
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise Malformed("varint")
        value |= (data[at] & 0x7f) << shift
        at += 1
        if not data[at - 1] & 0x80:
            return value, at
        shift += 7


def _take(data, at, wire_type):
    if wire_type == VARINT:
        return _take_varint(data, at)
    length = {FIXED64: 8, FIXED32: 4}.get(wire_type)
    if wire_type == LENGTH:
        length, at = _take_varint(data, at)
    if length is None or at + length > len(data):
        raise Malformed(f"wire type {wire_type}")
    return data[at:at + length], at + length


def _value(kind, raw):
    if kind == "double":
        return struct.unpack("<d", raw)[0]
    if kind in SCHEMA:
        return decode(kind, raw)
    if kind.startswith("sint"):
        return raw >> 1 ^ -(raw & 1)
    return bool(raw) if kind == "bool" else raw


def _packed(raw):
    values, at = [], 0
    while at < len(raw):
        value, at = _take_varint(raw, at)
        values.append(value)
    return values


def decode(message, data):
    out, at = {}, 0
    while at < len(data):
        key, at = _take_varint(data, at)
        raw, at = _take(data, at, key & 7)
        if key >> 3 not in BY_NUMBER[message]:
            continue
        name, kind, many = BY_NUMBER[message][key >> 3]
        if many and kind == "uint64" and key & 7 == LENGTH:
            out.setdefault(name, []).extend(_packed(raw))
        elif many:
            out.setdefault(name, []).append(_value(kind, raw))
        else:
            out[name] = _value(kind, raw)
    return out


def decode_reply(data):
    """(seq, name of the body, its fields)"""
    reply = decode("Reply", data)
    seq = reply.pop("seq")
    [(body, fields)] = reply.items()
    return seq, body, fields
