"""CRIU's images as lists of fields, so that a test can change any of them: what protobuf is on the wire, without the
descriptions of CRIU's own messages."""
import struct

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


def varint_read(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            return value, at


def varint(value):
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def parse(data):
    """[[number, wire type, value]]; messages within are bytes."""
    fields, at = [], 0
    while at < len(data):
        key, at = varint_read(data, at)
        number, kind = key >> 3, key & 7
        if kind == VARINT:
            value, at = varint_read(data, at)
        elif kind == BYTES:
            size, at = varint_read(data, at)
            value, at = data[at:at + size], at + size
        else:
            size = 8 if kind == FIXED64 else 4
            value, at = data[at:at + size], at + size
        fields.append([number, kind, value])
    return fields


def build(fields):
    out = b""
    for number, kind, value in fields:
        out += varint(number << 3 | kind)
        out += varint(value) if kind == VARINT else varint(len(value)) + value if kind == BYTES else value
    return out


def set_field(message, number, kind, *values):
    """The message with these values, and no others, for a field."""
    kept = [field for field in parse(message) if field[0] != number]
    return build(kept + [[number, kind, value] for value in values])


def get_field(message, number):
    return [value for n, _, value in parse(message) if n == number]


def entries(path):
    """(the words before the entries, the entries)."""
    data = path.read_bytes()
    found, at = [], 8
    while at + 4 <= len(data):
        (size,) = struct.unpack_from("<I", data, at)
        found.append(data[at + 4:at + 4 + size])
        at += 4 + size
    return data[:8], found


def write(path, head, messages):
    path.write_bytes(head + b"".join(struct.pack("<I", len(message)) + message for message in messages))


def change(path, edit):
    """Every entry of an image becomes edit(entry)."""
    head, messages = entries(path)
    write(path, head, [edit(message) for message in messages])
