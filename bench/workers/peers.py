"""Adapters for the Python peers."""
import driver


def redis_kwargs(cfg):
    """client=default: the client's own defaults; client=tuned: 50 ms limits and no client-level retry."""
    if cfg.get("client") != "tuned":
        return {}
    return {"socket_timeout": 0.05, "socket_connect_timeout": 0.05}


def redis_clients(cfg, asynchronous=False):
    if asynchronous:
        import redis.asyncio as r
        from redis.asyncio.retry import Retry
    else:
        import redis as r
        from redis.retry import Retry
    from redis.backoff import NoBackoff
    kw = redis_kwargs(cfg)
    if kw:
        kw["retry"] = Retry(NoBackoff(), 0)
    # redis-py 8 caps its pool at 100 connections: 100 waiters in BLPOP would then lock the holder out of its release
    return [r.Redis(host="127.0.0.1", port=p, max_connections=1000, **kw) for p in cfg["ports"]]


def versions(*names):
    from importlib.metadata import PackageNotFoundError, version
    got = []
    for n in names:
        try:
            got.append(f"{n} {version(n)}")
        except PackageNotFoundError:
            got.append(f"{n} absent")
    return ", ".join(got)


class RedisPy:
    kind = "sync"

    def __init__(self, cfg):
        self.r = redis_clients(cfg)[0]
        self.kw = {"sleep": 0.005} if cfg["variant"] == "aggressive" else {}
        self.info = versions("redis", "hiredis")

    def acquire(self, key, ttl):
        lk = self.r.lock(key, timeout=ttl / 1000, **self.kw)
        return lk if lk.acquire() else None

    def release(self, lk):
        return lk.release()

    def watched(self, key, ttl, body):
        lk = self.acquire(key, ttl)
        body(lambda: False)
        return lk.release()


class RedisPyAsync:
    kind = "async"

    def __init__(self, cfg):
        self.cfg = cfg
        self.kw = {"sleep": 0.005} if cfg["variant"] == "aggressive" else {}
        self.info = versions("redis", "hiredis")

    async def setup(self):
        self.r = redis_clients(self.cfg, True)[0]

    async def acquire(self, key, ttl):
        lk = self.r.lock(key, timeout=ttl / 1000, **self.kw)
        return lk if await lk.acquire() else None

    async def release(self, lk):
        return await lk.release()

    async def watched(self, key, ttl, body):
        lk = await self.acquire(key, ttl)
        await body(lambda: False)
        return await lk.release()


class PyRedisLock:
    kind = "sync"

    def __init__(self, cfg):
        self.r = redis_clients(cfg)[0]
        self.info = versions("python-redis-lock", "redis", "hiredis")

    def acquire(self, key, ttl):
        import redis_lock
        lk = redis_lock.Lock(self.r, key, expire=max(1, ttl // 1000))
        return lk if lk.acquire() else None

    def release(self, lk):
        return lk.release()

    def watched(self, key, ttl, body):
        import redis_lock
        lk = redis_lock.Lock(self.r, key, expire=max(1, ttl // 1000), auto_renewal=True)
        lk.acquire()
        # the only public sign is that the renewal thread has died of its exception
        body(lambda: not lk._lock_renewal_thread.is_alive())
        return lk.release()


class Pottery:
    kind = "sync"

    def __init__(self, cfg):
        import logging

        import pottery
        logging.getLogger("pottery").setLevel(logging.CRITICAL)
        self.masters = set(redis_clients(cfg))
        self.cls = pottery.Redlock
        if cfg["variant"] == "aggressive":
            self.cls = type("FastRedlock", (pottery.Redlock,), {"_RETRY_DELAY": 0.01, "__slots__": ()})
        # without this pottery never says that the quorum cannot be reached
        self.kw = {"raise_on_redis_errors": True} if cfg.get("client") == "tuned" else {}
        self.info = versions("pottery", "redis", "hiredis")

    def acquire(self, key, ttl):
        lk = self.cls(key=key, masters=self.masters, auto_release_time=ttl / 1000, **self.kw)
        return lk if lk.acquire() else None

    def release(self, lk):
        return lk.release()

    def watched(self, key, ttl, body):
        lk = self.acquire(key, ttl)
        body(lambda: False)
        return lk.release()


class PotteryAsync:
    kind = "async"

    def __init__(self, cfg):
        self.cfg = cfg
        self.info = versions("pottery", "redis", "hiredis")

    async def setup(self):
        import logging

        import pottery
        logging.getLogger("pottery").setLevel(logging.CRITICAL)
        self.masters = set(redis_clients(self.cfg, True))
        self.cls = pottery.AIORedlock
        if self.cfg["variant"] == "aggressive":
            self.cls = type("FastRedlock", (pottery.AIORedlock,), {"_RETRY_DELAY": 0.01, "__slots__": ()})
        self.kw = {"raise_on_redis_errors": True} if self.cfg.get("client") == "tuned" else {}

    async def acquire(self, key, ttl):
        lk = self.cls(key=key, masters=self.masters, auto_release_time=ttl / 1000, **self.kw)
        return lk if await lk.acquire() else None

    async def release(self, lk):
        return await lk.release()

    async def watched(self, key, ttl, body):
        lk = await self.acquire(key, ttl)
        await body(lambda: False)
        return await lk.release()


class AioRedlock:
    kind = "async"

    def __init__(self, cfg):
        self.cfg = cfg
        self.info = versions("aioredlock", "aioredis", "hiredis")

    async def setup(self):
        from aioredlock import Aioredlock
        kw = {}
        if self.cfg["variant"] == "aggressive":
            kw = {"retry_count": 1000000, "retry_delay_min": 0.005, "retry_delay_max": 0.005}
        conns = [("127.0.0.1", p) for p in self.cfg["ports"]]
        self.m = Aioredlock(conns, **kw)
        self.mk = lambda ttl: Aioredlock(conns, internal_lock_timeout=ttl / 1000, **kw)

    async def acquire(self, key, ttl):
        return await self.m.lock(key, lock_timeout=ttl / 1000)

    async def release(self, lk):
        return await self.m.unlock(lk)

    async def watched(self, key, ttl, body):
        m = self.mk(ttl)  # no lock_timeout given: its watchdog extends
        lk = await m.lock(key)
        await body(lambda: not lk.valid)
        return await m.unlock(lk)


if __name__ == "__main__":
    driver.main({
        "redis-py": RedisPy, "redis-py-nohiredis": RedisPy,
        "redis-py-async": RedisPyAsync, "redis-py-async-nohiredis": RedisPyAsync,
        "python-redis-lock": PyRedisLock,
        "pottery": Pottery, "pottery-async": PotteryAsync, "aioredlock": AioRedlock,
    })
