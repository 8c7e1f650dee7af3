"""Adapters for quorlock: the synchronous client in threads, the asynchronous one in tasks."""
import importlib.metadata

import driver
import quorlock

INFO = f"quorlock {importlib.metadata.version('quorlock')}"


def connect(client, cfg):
    """M3 (it alone names a client) tries once; elsewhere waiters wait without limit, as by default."""
    options = {"wait": 0} if "client" in cfg else {}
    if "server_timeout_ms" in cfg:
        options["server_timeout"] = cfg["server_timeout_ms"] / 1000
    return client([f"redis://127.0.0.1:{port}" for port in cfg["ports"]], **options)


class Sync:
    kind = "sync"
    info = INFO

    def __init__(self, cfg):
        self.client = connect(quorlock.Client, cfg)

    def acquire(self, key, ttl):
        return self.client.acquire(key, ttl=ttl / 1000)

    def release(self, lease):
        return lease.release()

    def watched(self, key, ttl, body):
        lease = self.acquire(key, ttl)
        body(lambda: lease.lost)
        return lease.release()


class Async:
    kind = "async"
    info = INFO

    def __init__(self, cfg):
        self.cfg = cfg

    async def setup(self):
        self.client = connect(quorlock.AsyncClient, self.cfg)

    async def acquire(self, key, ttl):
        return await self.client.acquire(key, ttl=ttl / 1000)

    async def release(self, lease):
        return await lease.release()

    async def watched(self, key, ttl, body):
        lease = await self.acquire(key, ttl)
        await body(lambda: lease.lost)
        return await lease.release()


if __name__ == "__main__":
    driver.main({"quorlock-py": Sync, "quorlock-py-async": Async})
