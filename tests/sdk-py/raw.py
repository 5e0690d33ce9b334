"""Bytes to the daemon's port and bytes back, for what no HTTP library would send."""

import socket
from urllib.parse import urlsplit

from conftest import API_KEY, API_URL

TARGET = urlsplit(API_URL)
HEAD = f"Host: {TARGET.netloc}\r\nX-API-Key: {API_KEY}\r\n"


def dial():
    return socket.create_connection((TARGET.hostname, TARGET.port), timeout=60)


def receive(conn):
    """Everything until the server closes or resets."""
    got = b""
    try:
        while part := conn.recv(65536):
            got += part
    except ConnectionError:
        pass
    return got


def exchange(data):
    """Sends data, closes the sending half, and returns all that comes back."""
    with dial() as conn:
        try:
            conn.sendall(data if isinstance(data, bytes) else data.encode())
            conn.shutdown(socket.SHUT_WR)
        except ConnectionError:
            pass
        return receive(conn)


def status(answer):
    """The status code of the first answer in these bytes, or None when there is none."""
    if not answer.startswith(b"HTTP/1.1 "):
        return None
    return int(answer.split(b" ", 2)[1])
