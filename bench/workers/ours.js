'use strict';
// Adapter for quorlock, which is found through NODE_PATH (set by bench.py).
const { main } = require('./driver.js');
const { Client, version } = require('quorlock');

main({
  'quorlock-node': async (cfg) => {
    // M3 (it alone names a client) tries once; elsewhere waiters wait without limit, as by default.
    const options = { wait: cfg.client ? 0 : undefined, serverTimeout: cfg.server_timeout_ms };
    const client = new Client(cfg.ports.map((port) => `redis://127.0.0.1:${port}`), options);
    const acquire = (key, ttl) => client.acquire(key, { ttl });
    const release = (lease) => lease.release();
    return {
      info: `quorlock ${version}`,
      acquire,
      release,
      watched: async (key, ttl, body) => {
        const lease = await acquire(key, ttl);
        await body(() => lease.signal.aborted);
        return release(lease);
      },
    };
  },
});
