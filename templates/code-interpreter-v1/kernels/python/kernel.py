"""ipykernel, with output that is neither lost nor hoarded.

A kernel publishes over a socket that drops what its reader has no room for, and hands print() on to a
thread without ever waiting for it. Here the socket keeps little and drops nothing, and print() waits
while too much of its output is not on its way: a program that prints faster than it is read is slowed
down.

What programs and libraries write past print(), to descriptors 1 and 2, is read from pipes; before a
cell ends the pipes are emptied, so that it belongs to its cell. A crash writes where the program stood
to the descriptor that the kernel was started with."""

import codecs
import faulthandler
import fcntl
import os
import select
import sys
import threading

if sys.path[0] == os.path.dirname(os.path.abspath(__file__)):
    del sys.path[0]  # nothing here is for import by cells

import zmq
from ipykernel.iostream import OutStream
from ipykernel.kernelapp import IPKernelApp

UNSENT_MESSAGES_MAX = 16
UNSENT_CHARACTERS_MAX = 256 * 1024
READ_BYTES_MAX = 64 * 1024

_write = OutStream.write


def _waiting_write(stream, text):
    written = _write(stream, text)
    stream._unsent = getattr(stream, "_unsent", 0) + len(text)
    publisher = stream.pub_thread
    if stream._unsent > UNSENT_CHARACTERS_MAX and threading.current_thread() is not publisher.thread:
        sent = threading.Event()
        publisher.schedule(stream._flush)
        publisher.schedule(sent.set)
        stream._unsent = 0
        sent.wait()
    return written


class Descriptor:
    """Descriptor 1 or 2: a pipe whose other end is read here."""

    def __init__(self, number, stream):
        self.stream = stream
        self.original = os.dup(number)
        self.pipe, writer = os.pipe()
        os.dup2(writer, number)
        os.close(writer)
        flags = fcntl.fcntl(self.pipe, fcntl.F_GETFL)
        fcntl.fcntl(self.pipe, fcntl.F_SETFL, flags | os.O_NONBLOCK)
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.lock = threading.RLock()
        threading.Thread(target=self.watch, daemon=True).start()

    def empty(self):
        """Publishes what the pipe holds now: a child that writes for ever does not keep us."""
        with self.lock:
            try:
                data = os.read(self.pipe, READ_BYTES_MAX)
            except BlockingIOError:
                return
            self.stream.write(self.decoder.decode(data))

    def watch(self):
        while True:
            select.select([self.pipe], [], [])
            self.empty()


class App(IPKernelApp):
    def _bind_socket(self, socket, port):
        if socket.type in (zmq.PUB, zmq.XPUB):
            socket.setsockopt(zmq.SNDHWM, UNSENT_MESSAGES_MAX)
            socket.setsockopt(zmq.XPUB_NODROP, 1)
        return super()._bind_socket(socket, port)

    def initialize(self, argv=None):
        self.capture_fd_output = False
        super().initialize(argv)
        OutStream.write = _waiting_write
        self.descriptors = [Descriptor(1, sys.stdout), Descriptor(2, sys.stderr)]
        faulthandler.enable(self.descriptors[1].original, all_threads=False)
        self.shell.events.register("post_run_cell", self.empty_descriptors)

    def empty_descriptors(self, *_):
        for descriptor in self.descriptors:
            descriptor.empty()


if __name__ == "__main__":
    App.launch_instance()
