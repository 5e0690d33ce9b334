"""ipykernel, with output that is neither lost nor hoarded.

A kernel publishes over a socket that drops what its reader has no room for, and hands print() on to a
thread without ever waiting for it. Here the socket keeps little and drops nothing, and print() waits
while too much of its output is not on its way: a program that prints faster than it is read is slowed
down.

What programs and libraries write past print(), to descriptors 1 and 2, is read from pipes; before a
cell ends the pipes are emptied, so that it belongs to its cell. A crash writes where the program stood
to the descriptor that the kernel was started with."""

import codecs
import contextlib
import faulthandler
import fcntl
import importlib
import os
import select
import site
import sys
import threading
import warnings

if sys.path[0] == os.path.dirname(os.path.abspath(__file__)):
    del sys.path[0]  # nothing here is for import by cells

# A debugger and completion, which no client can ask for: 13 MB of every sandbox. Cells may import them.
LEFT_OUT = "debugpy", "jedi"
sys.modules.update(dict.fromkeys(LEFT_OUT))
sys.setrecursionlimit(3000)  # jedi does it wherever it is imported, and so cells have it in every notebook

import zmq
from ipykernel.iostream import OutStream
from ipykernel.kernelapp import IPKernelApp

UNSENT_MESSAGES_MAX = 16
UNSENT_CHARACTERS_MAX = 256 * 1024
READ_BYTES_MAX = 64 * 1024
# Slow to import, and what most cells begin with, or their first figure.
PRELOADED = "numpy", "pandas", "matplotlib.pyplot", "matplotlib.backends.backend_agg", "e2b_charts"

_write = OutStream.write


def _publish(stream, *calls):
    """Has the publishing thread make the calls and send what they wrote, and waits for it."""
    sent = threading.Event()
    for call in (*calls, stream._flush, sent.set):
        stream.pub_thread.schedule(call)
    sent.wait()


def _waiting_write(stream, text):
    written = _write(stream, text)
    stream._unsent = getattr(stream, "_unsent", 0) + len(text)
    if stream._unsent > UNSENT_CHARACTERS_MAX:
        stream._unsent = 0
        if threading.current_thread() is not stream.pub_thread.thread:
            _publish(stream)
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

    def read(self):
        try:
            return self.decoder.decode(os.read(self.pipe, READ_BYTES_MAX))
        except BlockingIOError:
            return ""

    def empty(self):
        """Publishes what the pipe holds now: a child that writes for ever does not keep us."""
        with self.lock:
            self.stream.write(self.read())

    def watch(self):
        """Output of a thread belongs to the cell that started the thread. The publishing thread's
        belongs to the cell under way, so it does the writing."""
        while True:
            select.select([self.pipe], [], [])
            with self.lock:
                text = self.read()
                _publish(self.stream, lambda: self.stream.write(text))


class App(IPKernelApp):
    def _bind_socket(self, socket, port):
        if socket.type in (zmq.PUB, zmq.XPUB):
            socket.setsockopt(zmq.SNDHWM, UNSENT_MESSAGES_MAX)
            socket.setsockopt(zmq.XPUB_NODROP, 1)
        return super()._bind_socket(socket, port)

    def initialize(self, argv=None):
        self.capture_fd_output = False
        super().initialize(argv)
        for name in LEFT_OUT:
            del sys.modules[name]
        OutStream.write = _waiting_write
        warnings.filterwarnings("ignore", "To exit: use", module="IPython")  # advice for a prompt, which this is not
        self.descriptors = [Descriptor(1, sys.stdout), Descriptor(2, sys.stderr)]
        faulthandler.enable(self.descriptors[1].original, all_threads=False)
        self.shell.events.register("pre_run_cell", find_user_packages)
        self.shell.events.register("post_run_cell", self.empty_descriptors)
        if os.environ.pop("ATOLL_KEPT", None):  # nobody waits for this kernel: it is to be saved
            preload()

    def empty_descriptors(self, *_):
        for descriptor in self.descriptors:
            descriptor.empty()


def find_user_packages(*_):
    """pip installs below the user's home, where there may have been nothing when this kernel was started.
    What is there goes before the image's own packages, as it does in a program that is started now."""
    home = site.getusersitepackages()
    if home in sys.path or not os.path.isdir(home):
        return
    before = list(sys.path)
    site.addsitedir(home)
    at = next((at for at, path in enumerate(before) if str(path).endswith("dist-packages")), len(before))
    sys.path[:] = before[:at] + sys.path[len(before):] + before[at:]


def preload():
    for name in PRELOADED:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


if __name__ == "__main__":
    App.launch_instance()
