'use strict';
// Engine for Node workers (protocol: ../README.md). A worker script calls
// main({'peer-name': async (cfg) => adapter}); adapter: acquire(key, ttlMs) -> handle or null,
// release(handle), optionally watched(key, ttlMs, body) for the lock-lost test, and info.
const readline = require('readline');
const now = () => Number(process.hrtime.bigint());
const cpu = () => { const u = process.cpuUsage(); return u.user + u.system; };
const err = (e) => `${[e && e.name, e && e.code].filter(Boolean).join(' ')}: ${e && e.message}`.slice(0, 200);
const out = (o) => process.stdout.write(JSON.stringify(o) + '\n');
const sleep = (ms) => new Promise((r) => setTimeout(r, Math.max(0, ms)));
const sleepUntil = (ns) => sleep((ns - now()) / 1e6);

async function pairs(ad, c) {
  const lat = [], errors = [];
  const end = now() + (c.max_ms || 600000) * 1e6;
  const per = Math.max(1, Math.floor(c.n / c.tasks));
  const task = async (i) => {
    const key = `${c.key}:${i}`;
    for (let k = 0; k < per; k++) {
      const t0 = now();
      if (t0 > end) break;
      try {
        const h = await ad.acquire(key, c.ttl_ms);
        if (!h) throw new Error('gave up');
        await ad.release(h);
        lat.push((now() - t0) / 1000);
      } catch (e) { errors.push([(now() - t0) / 1000, err(e)]); }
    }
  };
  const t0 = now(), c0 = cpu();
  await Promise.all(Array.from({ length: c.tasks }, (_, i) => task(i)));
  return { lat_us: lat, errors, wall_us: (now() - t0) / 1000, cpu_us: cpu() - c0 };
}

async function contend(ad, c) {
  const grants = [], fails = [], loop = c.mode === 'loop', hold = c.hold_us / 1000;
  const end = c.start_ns + (c.duration_ms || 0) * 1e6;
  const turn = async (i, until) => {
    const t0 = now();
    let h = null, why = 'gave up';
    try { h = await ad.acquire(c.key, c.ttl_ms); } catch (e) { why = err(e); }
    const t1 = now();
    if (!h) { fails.push([i, t0, t1, why]); return; }
    if (until) await sleepUntil(until);
    else if (hold && (!loop || t1 < end)) await sleep(hold);
    const t2 = now();
    try { await ad.release(h); } catch (e) { fails.push([i, t2, now(), 'release: ' + err(e)]); }
    grants.push([i, t0, t1, t2, now()]);
  };
  const waiter = async (i) => {
    await sleepUntil(c.start_ns + i * c.stagger_us * 1000);
    await turn(i);
    while (loop && now() < end && fails.length < 20000) await turn(i);
  };
  const all = [];
  const c0 = cpu();
  if (c.gate_ns) all.push(turn(-1, c.gate_ns));
  for (const i of c.ids) all.push(waiter(i));
  await Promise.all(all);
  return { grants, fails, cpu_us: cpu() - c0 };
}

async function watched(ad, c) {
  const res = { lost_ns: null };
  const body = async (lost) => {
    out({ event: 'held', t: now() });
    const end = now() + c.work_ms * 1e6;
    while (now() < end) {
      if (lost() && !res.lost_ns) res.lost_ns = now();
      await sleep(2);
    }
    res.end_ns = now();
  };
  try { res.release = String(await ad.watched(c.key, c.ttl_ms, body)); } catch (e) { res.release = err(e); }
  res.done_ns = now();
  return res;
}

exports.main = async (makers) => {
  const cfg = JSON.parse(process.argv[2]);
  const ad = await makers[cfg.peer](cfg);
  out({ event: 'ready', info: ad.info || '' });
  const fns = { pairs, contend, watched };
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const c = JSON.parse(line);
    if (c.cmd === 'exit') break;
    out(await fns[c.cmd](ad, c));
  }
  process.exit(0);
};
