//! The counters of a client.

use napi_derive::napi;

/// How often something took how long.
#[napi(object)]
pub struct Histogram {
    /// Milliseconds.
    pub bounds: Vec<f64>,
    pub counts: Vec<f64>,
    pub count: f64,
    /// Milliseconds.
    pub sum: f64,
}

/// Lost leases by reason.
#[napi(object)]
pub struct Losses {
    pub expired: f64,
    pub taken: f64,
    #[napi(js_name = "max_hold")]
    pub max_hold: f64,
    pub closed: f64,
}

/// How one server has answered.
#[napi(object)]
pub struct ServerStats {
    pub address: String,
    pub calls: f64,
    pub failures: f64,
}

/// What a client has done so far.
#[napi(object)]
pub struct Stats {
    pub waiting: f64,
    pub holding: f64,
    pub attempts: f64,
    pub acquired: f64,
    pub busy: f64,
    pub unavailable: f64,
    pub refused: f64,
    pub cancelled: f64,
    pub released: f64,
    pub abandoned: f64,
    pub lost: Losses,
    pub wait: Histogram,
    pub hold: Histogram,
    pub servers: Vec<ServerStats>,
}

fn number(n: u64) -> f64 {
    n as f64
}

impl From<quorlock::Histogram> for Histogram {
    fn from(h: quorlock::Histogram) -> Histogram {
        Histogram {
            bounds: quorlock::Histogram::BOUNDS_MS.map(number).to_vec(),
            counts: h.counts.map(number).to_vec(),
            count: number(h.count),
            sum: number(h.sum_ms),
        }
    }
}

impl From<quorlock::ServerStats> for ServerStats {
    fn from(s: quorlock::ServerStats) -> ServerStats {
        ServerStats { address: s.address, calls: number(s.calls), failures: number(s.failures) }
    }
}

impl From<quorlock::Stats> for Stats {
    fn from(s: quorlock::Stats) -> Stats {
        Stats {
            waiting: number(s.waiting),
            holding: number(s.holding),
            attempts: number(s.attempts),
            acquired: number(s.acquired),
            busy: number(s.busy),
            unavailable: number(s.unavailable),
            refused: number(s.refused),
            cancelled: number(s.cancelled),
            released: number(s.released),
            abandoned: number(s.abandoned),
            lost: Losses {
                expired: number(s.lost.expired),
                taken: number(s.lost.taken),
                max_hold: number(s.lost.max_hold),
                closed: number(s.lost.closed),
            },
            wait: s.wait.into(),
            hold: s.hold.into(),
            servers: s.servers.into_iter().map(Into::into).collect(),
        }
    }
}
