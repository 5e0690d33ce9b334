"""e2b-desktop: a screen with XFCE, mouse and keyboard, windows, browsers, and the stream."""

import base64
import os
import socket
import ssl
import struct
import time
import urllib.parse

from e2b_desktop import Sandbox
from steps import run, step

SIZE = 1280, 800
WAIT_S = 60
BACKGROUND_BYTES = 50_000  # a picture without it has a fifth of that
PAGE = "<title>atoll page</title><body style='background:#0a7'><h1>served inside</h1>"


def until(condition, what):
    deadline = time.monotonic() + WAIT_S
    while not (found := condition()):
        assert time.monotonic() < deadline, f"still not so after {WAIT_S} s: {what}"
        time.sleep(0.3)
    return found


def picture(desktop, name):
    """A screenshot, as its PNG and the size that is in it. DESKTOP_PICTURES keeps it."""
    png = bytes(desktop.screenshot())
    assert png.startswith(b"\x89PNG"), png[:16]
    if os.environ.get("DESKTOP_PICTURES"):
        with open(os.path.join(os.environ["DESKTOP_PICTURES"], f"{name}.png"), "wb") as file:
            file.write(png)
    return png, struct.unpack(">II", png[16:24])


def windows(desktop, name):
    """Those whose class has that name; xdotool fails where there are none."""
    try:
        return [one for one in desktop.get_application_windows(name) if one]
    except Exception:
        return []


def titled(desktop, application, title):
    """The window of an application with that in its title, once it is there."""
    return until(lambda: next((one for one in windows(desktop, application)
                               if title in desktop.get_window_title(one)), None), f"{application} shows {title}")


def screen(desktop):
    assert desktop.get_screen_size() == SIZE
    for name in ("xfce4-panel", "xfdesktop"):
        until(lambda name=name: windows(desktop, name), f"{name} is there")
    until(lambda: len(picture(desktop, "desktop")[0]) > BACKGROUND_BYTES, "the background is drawn")
    assert picture(desktop, "desktop")[1] == SIZE


def mouse(desktop):
    desktop.move_mouse(*(n // 2 for n in SIZE))
    assert desktop.get_cursor_position() == tuple(n // 2 for n in SIZE)
    before = picture(desktop, "before-menu")[0]
    desktop.right_click()
    until(lambda: picture(desktop, "menu")[0] != before, "a menu is shown")
    desktop.press("escape")
    desktop.left_click(300, 300)
    desktop.double_click(5, SIZE[1] - 100)
    desktop.middle_click(300, 310)
    desktop.press("escape")
    desktop.scroll("down", 2)
    desktop.scroll("up", 2)
    desktop.drag((300, 300), (400, 400))
    assert desktop.get_cursor_position() == (400, 400)
    desktop.wait(10)


def keyboard(desktop):
    desktop.files.write("/home/user/note.txt", "")
    desktop.open("/home/user/note.txt")
    window = titled(desktop, "mousepad", "note.txt")
    until(lambda: desktop.commands.run(f"xdotool windowactivate --sync {window}").exit_code == 0, "it has the focus")
    assert "note.txt" in desktop.get_window_title(desktop.get_current_window_id())
    desktop.write("typed by the client: 'quotes', $dollars & ümlauts")
    desktop.press(["ctrl", "s"])
    until(lambda: desktop.files.read("/home/user/note.txt").strip() == "typed by the client: 'quotes', $dollars & ümlauts",
          "what was typed is in the file")
    desktop.press(["ctrl", "q"])


def serve(desktop):
    desktop.files.write("/home/user/web/page.html", PAGE)
    desktop.commands.run("cd ~/web && exec python3 -m http.server 8000 2>~/web.log", background=True)
    until(lambda: "served" in desktop.commands.run("curl -s localhost:8000/page.html || true").stdout, "a page is served")


def browser_opened(desktop):
    serve(desktop)
    desktop.open("http://localhost:8000/page.html?opened")
    titled(desktop, "firefox", "atoll page")
    picture(desktop, "firefox")
    log = desktop.files.read("/home/user/web.log")
    assert "?opened" in log, log
    desktop.commands.run("pkill firefox; true")


def browser_launched(desktop):
    desktop.launch("google-chrome", "http://localhost:8000/page.html?launched")
    titled(desktop, "chromium", "atoll page")
    until(lambda: "?launched" in desktop.files.read("/home/user/web.log"), "the page was asked for")
    picture(desktop, "chromium")
    desktop.commands.run("pkill chromium; true")


# ---- the stream ----


def door(desktop, url):
    """A connection to the stream's port, and the headers that lead there."""
    parts = urllib.parse.urlsplit(url)
    if os.environ.get("E2B_SANDBOX_URL"):
        edge = urllib.parse.urlsplit(os.environ["E2B_SANDBOX_URL"])
        return (socket.create_connection((edge.hostname, edge.port), 30),
                f"Host: {edge.netloc}\r\nE2b-Sandbox-Id: {desktop.sandbox_id}\r\nE2b-Sandbox-Port: 6080\r\n")
    plain = socket.create_connection(("127.0.0.1", parts.port or 443), 30)
    context = ssl.create_default_context(cafile=os.environ["SSL_CERT_FILE"])
    return context.wrap_socket(plain, server_hostname=parts.hostname), f"Host: {parts.netloc}\r\n"


def receive(connection, n):
    data = b""
    while len(data) < n:
        more = connection.recv(n - len(data))
        assert more, f"the stream ended after {data!r}"
        data += more
    return data


def head(connection):
    data = b""
    while not data.endswith(b"\r\n\r\n"):
        data += receive(connection, 1)
    return data.decode()


def message(connection):
    """One unmasked WebSocket message, below 64 KiB."""
    _, size = receive(connection, 2)
    return receive(connection, struct.unpack(">H", receive(connection, 2))[0] if size == 126 else size)


def send(connection, data):
    connection.sendall(bytes([0x82, 0x80 | len(data)]) + bytes(4) + data)  # masked with zeros


def handshake(desktop, url):
    """RFB's first words, and the security types that x11vnc offers: 2 is a password, 1 none."""
    connection, names = door(desktop, url)
    with connection:
        key = base64.b64encode(os.urandom(16)).decode()
        connection.sendall((f"GET /websockify HTTP/1.1\r\n{names}Upgrade: websocket\r\nConnection: Upgrade\r\n"
                            f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: binary\r\n"
                            f"Sec-WebSocket-Key: {key}\r\n\r\n").encode())
        assert " 101 " in head(connection)
        version = message(connection)
        assert version.startswith(b"RFB 003."), version
        send(connection, b"RFB 003.008\n")
        return list(message(connection)[1:])


def page(desktop, url):
    parts = urllib.parse.urlsplit(url)
    connection, names = door(desktop, url)
    with connection:
        connection.sendall(f"GET {parts.path}?{parts.query} HTTP/1.1\r\n{names}Connection: close\r\n\r\n".encode())
        return b"".join(iter(lambda: connection.recv(65536), b"")).decode(errors="replace")


def stream_of_a_window(desktop):
    """Before the one with a password: the package asks for one from then on."""
    desktop.launch("xfce4-terminal")
    window = until(lambda: windows(desktop, "xfce4-terminal"), "a terminal is there")[0]
    desktop.stream.start(window_id=window)
    until(lambda: handshake(desktop, desktop.stream.get_url()) == [1], "no password is asked for")
    desktop.stream.stop()
    until(lambda: not desktop.stream._check_vnc_running(), "it has ended")


def stream(desktop):
    desktop.stream.start(require_auth=True)
    key = desktop.stream.get_auth_key()
    url = desktop.stream.get_url(auth_key=key)
    assert key in url and url.startswith("https://6080-") and "/vnc.html?autoconnect=true" in url, url
    shown = page(desktop, url)
    assert " 200 " in shown.splitlines()[0] and "noVNC" in shown, shown[:300]
    until(lambda: handshake(desktop, url) == [2], "a password is asked for")
    try:
        desktop.stream.start()
        raise AssertionError("it was started twice")
    except RuntimeError:
        desktop.stream.stop()


def main():
    made = []
    step("create", lambda: made.append(Sandbox.create(resolution=SIZE, timeout=600)))
    if not made:
        return
    try:
        for call in (screen, mouse, keyboard, browser_opened, browser_launched, stream_of_a_window, stream):
            step(call.__name__.replace("_", " "), call, made[0])
    finally:
        made[0].kill()


run(main)
