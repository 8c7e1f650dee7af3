"""Breaks every promise of the kill run, to show that its checks see it. Takes a worker's arguments; ends when killed.

It enters bodies without the lock, with the fence of whoever has it; sometimes with a fence that it makes up, so that
the store refuses the holder; leaves a key; and says that it waits, but does not, so that the lock stays free.
"""

import socket
import sys
import time

urls, port, name, me, *_ = sys.argv[1:]


def ask(server: socket.socket, *words: object) -> str:
    """A command whose reply is a number or a short string."""
    server.sendall(" ".join(map(str, words)).encode() + b"\r\n")
    reply = server.recv(256).decode().split("\r\n")
    return reply[1] if reply[0].startswith("$") else reply[0].removeprefix(":")


lock = socket.create_connection(("127.0.0.1", int(urls.partition(",")[0].rpartition(":")[2])))
store = socket.create_connection(("127.0.0.1", int(port)))
print("wait", f"{time.time():.6f}", flush=True)
ask(lock, "SET", f"lock:{{{name}}}:litter", me)
bodies = 0
while True:
    bodies += 1
    ahead = 300_000 if bodies % 10 == 0 else 0  # fences are microseconds: for the next 0.3 s the holders' are too small
    fence = int(ask(lock, "GET", f"lock:{{{name}}}:fence") or 0) + ahead
    value = int(ask(store, "FCALL act 0", f"{me}.{bodies}", fence))
    time.sleep(0.03)
    if value >= 0:
        ask(store, "FCALL act 0", f"{me}.{bodies}", fence, value + 1)
    time.sleep(0.03)
