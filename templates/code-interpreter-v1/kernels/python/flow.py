"""Makes the kernel wait when its output is not taken, instead of dropping or hoarding it.

A kernel publishes over a socket that drops what its reader has no room for, and a thread does the
publishing, so that print() never waits for it. Here the socket is told not to drop, and print() waits
whenever this much of its output is not on its way."""


def _flow():
    import sys
    import threading

    import zmq
    from ipykernel.iostream import OutStream

    unsent_max = 1024 * 1024

    class Waiting(OutStream):
        """Counts what was written since everything was last on its way."""

    shell = get_ipython()
    shell.kernel.iopub_socket  # fails here, once, when ipykernel has changed
    thread = sys.stdout.pub_thread
    socket = getattr(thread.socket, "_socket", thread.socket)
    socket.setsockopt(zmq.XPUB_NODROP, 1)
    write = OutStream.write

    def waiting_write(self, text):
        written = write(self, text)
        unsent = getattr(self, "_unsent", 0) + len(text)
        if unsent > unsent_max and threading.current_thread() is not self.pub_thread.thread:
            sent = threading.Event()
            self.pub_thread.schedule(self._flush)
            self.pub_thread.schedule(sent.set)
            sent.wait()
            unsent = 0
        self._unsent = unsent
        return written

    OutStream.write = waiting_write


_flow()
del _flow
