"""What breaks: M3 servers of a quorum, M5 the holder, M6 the only server."""
import signal
import time

from .machine import log, measured, med, now, pct
from .options import CLIENTS, M5_TTL, PEERS, TTL, A, variants
from .results import save
from .servers import S
from .worker import Hung, workers


def m3():
    ports = [s.port for s in S]
    faults = {"up": [], "hung1": [("stop", 4)], "killed1": [("kill", 4)], "killed2": [("kill", 4), ("kill", 3)],
              "killed3": [("kill", 4), ("kill", 3), ("kill", 2)], "hung3": [("stop", 4), ("stop", 3), ("stop", 2)]}
    for client in CLIENTS:
        names = [p for p in PEERS if "M3" in PEERS[p]["tests"] and client in PEERS[p].get("clients", CLIENTS)]
        for fault, acts in faults.items() if names else ():
            for peer in names:
                d = {"client": client, "fault": fault}
                try:
                    with measured(not fault.startswith("hung") and not fault.endswith("3")), workers(1, peer, ports, client=client) as (w,):
                        d["info"] = w.info
                        w.ask(cmd="pairs", n=100, tasks=1, key="warm", ttl_ms=TTL)
                        before = w.ask(cmd="pairs", n=200, tasks=1, key="m3", ttl_ms=TTL, max_ms=2000)
                        d["before_p50"] = pct(before["lat_us"], 50)
                        t0 = time.time()
                        try:
                            for a, i in acts:
                                getattr(S[i], a)()
                            time.sleep(0.05)
                            n = 1 if fault.endswith("3") else (1000 if not acts else 200)
                            r = w.ask(timeout=A.hard, cmd="pairs", n=n, tasks=1, key="m3", ttl_ms=TTL, max_ms=6000)
                            lat = r["lat_us"]
                            d.update(ok=len(lat), failed=len(r["errors"]), first_us=lat[0] if lat else None, p50=pct(lat, 50),
                                     p99=pct(lat, 99), max=max(lat) if lat else None, cpu_us=r["cpu_us"] / max(1, len(lat)),
                                     errors=r["errors"][:3], fail_ms=r["errors"][0][0] / 1000 if r["errors"] else None)
                        finally:
                            d["wall_s"] = time.time() - t0
                            for s in S:
                                s.heal()
                except Hung as e:
                    d["error"] = str(e)
                save(peer, f"M3.{client}.{fault}", d)
            log("M3", client, fault)


def m5():
    names = [p for p in PEERS if "M5" in PEERS[p]["tests"]]
    ttl = M5_TTL
    for peer in names:
        for v in variants(peer):
            d = {}
            key = PEERS[peer]["key"].format("m5")
            try:
                with measured(False), workers(1, peer, [S[0].port], v) as (w,):
                    S[0].cmd("FLUSHALL")
                    w.send(cmd="watched", key="m5", ttl_ms=ttl, work_ms=3 * ttl + 500)
                    w.recv(10)
                    time.sleep(0.3)
                    w.p.send_signal(signal.SIGSTOP)
                    t = time.time()
                    took = None
                    while time.time() - t < 3 * ttl / 1000 and not took:
                        took = S[0].cmd("SET", key, "thief", "NX", "PX", 60000) == "OK"
                        time.sleep(0.02)
                    d["thief_got_it_after_ms"] = (time.time() - t) * 1000 if took else None
                    time.sleep(max(0, 2 * ttl / 1000 - (time.time() - t)))
                    cont = now()
                    w.p.send_signal(signal.SIGCONT)
                    r = w.recv(12)
                    d.update(told_ms=(r["lost_ns"] - cont) / 1e6 if r.get("lost_ns") else None, release=r.get("release"),
                             release_ms=(r["done_ns"] - r.get("end_ns", r["done_ns"])) / 1e6, thief_kept=S[0].cmd("GET", key) == "thief")
            except Hung as e:
                d["error"] = str(e)
                d["thief_kept"] = S[0].cmd("GET", key) == "thief"
            save(peer, f"M5.{v}", d)
        log("M5", peer, d)


def m6():
    names = [p for p in PEERS if "M6" in PEERS[p]["tests"]]
    for peer in names:
        for v in variants(peer):
            runs = []
            for _ in range(3):
                d = {}
                key = PEERS[peer]["key"].format("m6:0")
                try:
                    with measured(False), workers(1, peer, [S[0].port], v) as (w,):
                        w.ask(cmd="pairs", n=5, tasks=1, key="warm", ttl_ms=TTL)
                        S[0].cmd("SET", key, "other", "PX", 60000)
                        t0 = now()
                        w.send(cmd="pairs", n=1, tasks=1, key="m6", ttl_ms=TTL)
                        try:
                            time.sleep(0.5)
                            S[0].kill()
                            tk = now()
                            time.sleep(1)
                            S[0].start()
                            tu = now()
                            r = w.recv(A.hard)
                            t1 = now()
                            d.update(recovered=bool(r["lat_us"]), after_up_ms=(t1 - tu) / 1e6 if r["lat_us"] else None,
                                     error=r["errors"][0][1] if r["errors"] else None,
                                     error_after_kill_ms=(r["errors"][0][0] * 1000 - (tk - t0)) / 1e6 if r["errors"] else None)
                        finally:
                            S[0].heal()
                except Hung as e:
                    d["hung"] = str(e)
                runs.append(d)
            save(peer, f"M6.{v}", {"runs": runs, "recovered": sum(1 for x in runs if x.get("recovered")),
                              "after_up_ms": med([x.get("after_up_ms") for x in runs])})
            log("M6", peer, v, runs)
