"""Speaks the keeper's protocol, as src/wire/keeper.h lays it out: to hand it root filesystems that
no API would."""
import array
import ctypes as c
import socket

VERSION, ID, LAYERS, LAYER, HOST, BATCH = 7, 32, 32, 72, 64, 32
SAVED, VOLUMES, VOLUME, VOLUME_PATH = 56, 16, 40, 256
HELLO, CREATE, ATTACH, DESTROY, LIST, USAGE, USAGE_MANY = range(1, 8)


class Mount(c.Structure):
    _fields_ = [("volume", c.c_char * VOLUME), ("path", c.c_char * VOLUME_PATH)]


class Plan(c.Structure):
    _fields_ = [("uid_slot", c.c_uint32), ("cpu_millis", c.c_uint32), ("memory_mb", c.c_uint32),
                ("disk_mb", c.c_uint32), ("pids", c.c_uint32), ("network", c.c_uint32), ("layers_n", c.c_uint32),
                ("layers", (c.c_char * LAYER) * LAYERS), ("hostname", c.c_char * HOST), ("saved", c.c_char * SAVED),
                ("keeps_disk", c.c_uint32), ("channel_min", c.c_uint32), ("volumes_n", c.c_uint32), ("volumes", Mount * VOLUMES)]


class Jail(c.Structure):
    _fields_ = [("pid", c.c_int32), ("reserved", c.c_uint32), ("start_ticks", c.c_uint64)]


class Request(c.Structure):
    _fields_ = [("version", c.c_uint32), ("op", c.c_uint32), ("seq", c.c_uint32), ("reserved", c.c_uint32),
                ("id", c.c_char * ID), ("jail", Jail), ("plan", Plan)]


class Status(c.Structure):
    _fields_ = [("lacks", c.c_uint32), ("jails", c.c_uint32), ("pool_used_bytes", c.c_uint64),
                ("pool_total_bytes", c.c_uint64)]


class Usage(c.Structure):
    _fields_ = [("memory_bytes", c.c_uint64), ("memory_cache_bytes", c.c_uint64), ("cpu_usec", c.c_uint64),
                ("disk_bytes", c.c_uint64), ("oom_kills", c.c_uint32), ("pids", c.c_uint32),
                ("known", c.c_uint32), ("reserved", c.c_uint32)]


class Err(c.Structure):
    _fields_ = [("code", c.c_int), ("msg", c.c_char * 252)]


class Answer(c.Structure):
    _fields_ = [("version", c.c_uint32), ("op", c.c_uint32), ("seq", c.c_uint32), ("status", c.c_int32),
                ("id", c.c_char * ID), ("jail", Jail), ("channel", c.c_uint32), ("reserved", c.c_uint32),
                ("state", Status), ("usages", Usage * BATCH),
                ("err", Err)]


class Keeper:
    def __init__(self, path):
        self.path = str(path)

    def __enter__(self):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(30)
        self.socket.connect(self.path)
        return self

    def __exit__(self, *_):
        self.socket.close()

    def ask_raw(self, data):
        self.socket.send(data)
        data, control, *_ = self.socket.recvmsg(c.sizeof(Answer) + 64, 256)
        fds = array.array("i")
        for level, kind, payload in control:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                fds.frombytes(payload[:len(payload) // fds.itemsize * fds.itemsize])
        return Answer.from_buffer_copy(data), list(fds)

    def ask(self, op, name=b"", **fields):
        request = Request(version=VERSION, op=op, seq=7, id=name)
        for key, value in fields.items():
            setattr(request, key, value)
        return self.ask_raw(bytes(request))

    def create(self, name, layers, slot=24000):
        plan = Plan(uid_slot=slot, cpu_millis=1000, memory_mb=256, disk_mb=512, pids=256, layers_n=len(layers),
                    hostname=b"test")
        for i, layer in enumerate(layers):
            plan.layers[i].value = layer.encode()
        return self.ask(CREATE, name, plan=plan)

    def destroy(self, name, jail=None):
        return self.ask(DESTROY, name, jail=jail or Jail())
