"""The disk of disk.py as a file of this machine, for a loop device: `fuse_disk.py FILE DIRECTORY SEED`.

DIRECTORY/disk shows FILE through the volatile cache. SIGUSR1 takes the power away: what is left of the cache
is decided, told in one line, and the program ends; from then on every access fails."""

import ctypes
import os
import random
import signal
import stat
import struct
import sys
import time

from disk import Medium

LOOKUP, FORGET, GETATTR, SETATTR, OPEN, READ, WRITE, STATFS, RELEASE, FSYNC = 1, 2, 3, 4, 14, 15, 16, 17, 18, 20
FLUSH, INIT, OPENDIR, READDIR, RELEASEDIR, INTERRUPT, DESTROY, BATCH_FORGET = 25, 26, 27, 28, 29, 36, 38, 42
ROOT, FILE = 1, 2
NO_ENTRY, NOT_IMPLEMENTED = 2, 38
BIG_WRITES, MAX_PAGES = 1 << 5, 1 << 22
WRITE_BYTES_MAX = 1 << 20
HEADER = struct.Struct("<IIQQIIII")
FOREVER_S = 1 << 30


class Disk:
    def __init__(self, medium, fd):
        self.medium, self.fd = medium, fd

    def attributes(self, node):
        mode, size = (stat.S_IFDIR | 0o755, 0) if node == ROOT else (stat.S_IFREG | 0o600, self.medium.size)
        now = int(time.time())
        return struct.pack("<QQQQQQIIIIIIIIII", node, size, size // 512, now, now, now, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)

    def answer(self, operation, node, body):
        """Bytes to answer with, or a negative error; None: nothing is to be said."""
        if operation == INIT:
            return struct.pack("<IIIIHHIIHHI28x", 7, 31, 1 << 17, BIG_WRITES | MAX_PAGES, 16, 12, WRITE_BYTES_MAX, 1,
                               WRITE_BYTES_MAX // 4096, 0, 0)  # fmt: skip
        if operation == LOOKUP:
            if body.rstrip(b"\0") != b"disk":
                return -NO_ENTRY
            return struct.pack("<QQQQII", FILE, 0, FOREVER_S, FOREVER_S, 0, 0) + self.attributes(FILE)
        if operation in (GETATTR, SETATTR):
            return struct.pack("<QII", FOREVER_S, 0, 0) + self.attributes(node)
        if operation in (OPEN, OPENDIR):
            return struct.pack("<QII", 0, 0, 0)
        if operation == READ:
            _, at, size = struct.unpack_from("<QQI", body)
            return bytes(self.medium.read(at, max(0, min(size, self.medium.size - at))))
        if operation == WRITE:
            _, at, size = struct.unpack_from("<QQI", body)
            self.medium.write(at, body[40 : 40 + size])
            return struct.pack("<II", size, 0)
        if operation == FSYNC:
            self.medium.flush()
            return b""
        if operation == STATFS:
            return struct.pack("<QQQQQIIII24x", 1 << 20, 0, 0, 2, 0, 4096, 255, 4096, 0)
        if operation in (FORGET, BATCH_FORGET, INTERRUPT):
            return None
        return b"" if operation in (FLUSH, RELEASE, RELEASEDIR, READDIR, DESTROY) else -NOT_IMPLEMENTED

    def serve(self):
        while True:
            try:
                asked = os.read(self.fd, WRITE_BYTES_MAX + 4096)
            except InterruptedError:
                continue
            except OSError:
                return  # unmounted
            _, operation, unique, node, *_ = HEADER.unpack_from(asked)
            said = self.answer(operation, node, asked[HEADER.size :])
            if said is not None:
                error, data = (said, b"") if isinstance(said, int) else (0, said)
                os.write(self.fd, struct.pack("<IiQ", 16 + len(data), error, unique) + data)


def mount(fd, directory):
    options = f"fd={fd},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"atoll-disk", os.fsencode(directory), b"fuse", 6, options) < 0:
        raise OSError(ctypes.get_errno(), f"mount {directory}")


def main(path, directory, seed):
    medium = Medium(path)
    fd = os.open("/dev/fuse", os.O_RDWR)
    mount(fd, directory)

    def lose_power(*_):
        print(medium.lose_power(random.Random(seed)), flush=True)
        os._exit(0)

    signal.signal(signal.SIGUSR1, lose_power)
    print("ready", flush=True)
    Disk(medium, fd).serve()
    medium.flush()


if __name__ == "__main__":
    main(*sys.argv[1:4])
