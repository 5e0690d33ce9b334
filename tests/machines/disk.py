"""A disk with a volatile write cache, served to QEMU over NBD: `disk.py FILE SOCKET SEED`.

What the machine writes lies in the cache until it asks for a flush; a read sees it all the same. When
QEMU ends, what was never flushed is treated as a disk would that lost its power: all of it is lost, or
all of it reached the medium, or some of it did, in pieces of 4 KiB and in any order. SEED decides. So a
program that promises before its data was flushed is found out, and so is one that counts on the order
of writes between two flushes. A machine that powers off flushes first, and loses nothing.

Prints one line at the end: what became of the writes that were under way."""

import os
import random
import socket
import struct
import sys

PIECE = 4096
CACHE_PIECES_MAX = 65536  # 256 MB; a real cache writes back as well when it is full

READ, WRITE, DISCONNECT, FLUSH = range(4)
OPTION_EXPORT_NAME, OPTION_ABORT, OPTION_INFO, OPTION_GO = 1, 2, 6, 7
OPTION_MAGIC, REPLY_MAGIC = 0x49484156454F5054, 0x3E889045565A9
ACKNOWLEDGED, INFORMATION, UNSUPPORTED = 1, 3, 0x80000001
HAS_FLAGS, CAN_FLUSH = 1, 4
INVALID = 22


class Medium:
    """A file, and before it the pieces that no flush has put there yet."""

    def __init__(self, path):
        self.file = os.open(path, os.O_RDWR)
        self.size = os.fstat(self.file).st_size
        self.cached = {}

    def piece(self, number):
        found = self.cached.get(number)
        if found is None:
            found = os.pread(self.file, PIECE, number * PIECE).ljust(PIECE, b"\0")
        return found

    def read(self, at, length):
        data = bytearray(os.pread(self.file, length, at).ljust(length, b"\0"))
        for number in range(at // PIECE, (at + length - 1) // PIECE + 1):
            piece = self.cached.get(number)
            if piece is not None:
                begin, end = max(at, number * PIECE), min(at + length, (number + 1) * PIECE)
                data[begin - at : end - at] = piece[begin - number * PIECE : end - number * PIECE]
        return data

    def write(self, at, data):
        done = 0
        while done < len(data):
            number, offset = divmod(at + done, PIECE)
            part = data[done : done + PIECE - offset]
            if len(part) < PIECE:
                whole = bytearray(self.piece(number))
                whole[offset : offset + len(part)] = part
                part_of_piece = bytes(whole)
            else:
                part_of_piece = bytes(part)
            self.cached.pop(number, None)  # it is the newest now
            self.cached[number] = part_of_piece
            done += len(part)
        while len(self.cached) > CACHE_PIECES_MAX:
            self.put(next(iter(self.cached)))

    def put(self, number):
        os.pwrite(self.file, self.cached.pop(number), number * PIECE)

    def flush(self):
        for number in list(self.cached):
            self.put(number)

    def lose_power(self, chance):
        """What is left of the cache, and a sentence about it."""
        pieces = list(self.cached)
        share = chance.choice((0.0, 0.0, 0.3, 0.7, 1.0))
        kept = [number for number in pieces if chance.random() < share]
        for number in kept:
            self.put(number)
        self.cached.clear()
        return f"{len(pieces)} pieces of 4 KiB were not flushed, {len(pieces) - len(kept)} of them were lost"


class Connection:
    """QEMU's side of the socket."""

    def __init__(self, peer, medium):
        self.peer, self.medium = peer, medium

    def take(self, length):
        data = bytearray()
        while len(data) < length:
            part = self.peer.recv(min(length - len(data), 1 << 20))
            if not part:
                raise EOFError
            data += part
        return bytes(data)

    def answer_option(self, option, kind, data=b""):
        self.peer.sendall(struct.pack(">QIII", REPLY_MAGIC, option, kind, len(data)) + data)

    def negotiate(self):
        self.peer.sendall(b"NBDMAGIC" + struct.pack(">QH", OPTION_MAGIC, 3))
        self.take(4)
        about = struct.pack(">QH", self.medium.size, HAS_FLAGS | CAN_FLUSH)
        while True:
            _, option, length = struct.unpack(">QII", self.take(16))
            self.take(length)
            if option == OPTION_EXPORT_NAME:
                self.peer.sendall(about)
                return
            if option in (OPTION_INFO, OPTION_GO):
                self.answer_option(option, INFORMATION, struct.pack(">H", 0) + about)
                self.answer_option(option, ACKNOWLEDGED)
                if option == OPTION_GO:
                    return
            elif option == OPTION_ABORT:
                raise EOFError
            else:
                self.answer_option(option, UNSUPPORTED)

    def serve(self):
        while True:
            _, _, kind, handle, at, length = struct.unpack(">IHHQQI", self.take(28))
            data, error = b"", 0
            if kind == WRITE:
                self.medium.write(at, self.take(length))
            elif kind == READ:
                data = self.medium.read(at, length)
            elif kind == FLUSH:
                self.medium.flush()
            elif kind == DISCONNECT:
                return
            else:
                error = INVALID
            self.peer.sendall(struct.pack(">IIQ", 0x67446698, error, handle) + data)


def main(path, address, seed):
    medium = Medium(path)
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(address)
        door.listen(1)
        print("ready", flush=True)
        peer, _ = door.accept()
    try:
        connection = Connection(peer, medium)
        connection.negotiate()
        connection.serve()
    except (EOFError, ConnectionError):
        pass
    print(medium.lose_power(random.Random(seed)), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:4])
