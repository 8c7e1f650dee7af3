"""An HTTP server whose handler waits for a lock at most 5 s, and then answers 503.

    PORT=8080 python http_handler.py
    curl -X POST http://localhost:8080/orders/42
"""

import os
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import quorlock

# One client for the whole program. Threads share it.
client = quorlock.Client(os.environ.get("REDIS_URLS", "redis://localhost").split(","))


def change_order(lease: quorlock.Lease) -> str:
    """The work that needs the lock."""
    time.sleep(0.05)
    return f"done with fence {lease.fence}"


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        """POST /orders/42: locks "orders/42"."""
        try:
            with client.lock(self.path.strip("/"), wait=5) as lease:
                text = change_order(lease)
            status = 200
        except (quorlock.LockBusyError, quorlock.UnavailableError) as error:
            # Others hold it, or too few servers answer: the caller may try again.
            status, text = 503, str(error)
        except quorlock.QuorlockError as error:
            status, text = 500, str(error)
        body = f"{text}\n".encode()
        self.send_response(status)
        if status == 503:
            self.send_header("Retry-After", "1")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


server = ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", "8080"))), Handler)
print(f"listening on http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()
