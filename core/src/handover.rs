//! Waiting for a lock in order of arrival: a place in each server's queue, until the lock is handed over.
//!
//! A waiter sleeps. A release gives the lock to the first of the queue for the claim window and tells it so. When it has
//! been given a majority of the servers (of one: that one) the waiter claims them, with one fence for all, for the whole
//! TTL: validity counts only from a message that the holder itself has sent. Each waiter also looks for itself when the
//! lock is known to expire, the first one once a second: a message may have gone to a process that is dead or asleep, or
//! never have been sent.
//!
//! On a quorum the servers may hand over to different waiters, as tickets do not reach all of them at once. So a ticket
//! that comes later, but is earlier, asks (inquire) whoever was given the lock meanwhile, who gives it back (yields) unless
//! it has a majority. The earliest ticket is never asked, and so collects all servers: Maekawa's algorithm.
//! ARCHITECTURE.md, "The life of an acquire".

use crate::acquire::{Acquire, FIRST_PAUSE, Granted, LONGEST_RETRY, Why, over, settle_release, try_call};
use crate::answer::{Failure, Reply};
use crate::channels::{Listening, Subscription};
use crate::client::Shared;
use crate::clock::Moment;
use crate::hold::Hold;
use crate::lease::Lease;
use crate::options::Keys;
use crate::quorum;
use crate::script::{CLAIM, Call, YIELD};
use crate::token;
use crate::wait::{Message, Waiter};
use futures_util::future::{BoxFuture, select_all};
use futures_util::stream::{FuturesUnordered, StreamExt};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// How often the first waiter looks: a lock may vanish without a message.
const FIRST_LOOKS_EVERY: Duration = Duration::from_secs(1);
/// How often the others look at a lock that has no TTL.
const LOOK_WITHOUT_TTL: Duration = Duration::from_secs(10);
/// Between the looks of two neighbours in the queue when a lock expires, up to so many of them.
const STAGGER: (Duration, u32) = (Duration::from_millis(50), 20);
/// A proposed fence is no further above those that servers gave.
const NEAR_US: u64 = 500_000;
/// How far ahead of the clock it is: servers that hand over only now should not give a larger one.
const AHEAD_US: u64 = 10_000;

/// How a wait ended.
pub(crate) enum Outcome {
    Taken(Lease),
    Missed(Why),
    /// Too few servers let us subscribe.
    NoMessages,
}

/// Waits until the lock is handed to us, or the wait is over. `listening`: to each server's wake-ups.
pub(crate) async fn wait(acquire: &mut Acquire<'_>, listening: Vec<Listening>) -> Outcome {
    let end = acquire.end;
    // All servers must order the tickets alike; a single one gives them itself.
    let ticket = if listening.len() == 1 { 0 } else { acquire.began_us as i64 };
    let mut place = Place::new(acquire, listening, ticket);
    loop {
        match place.step() {
            Step::Open => {}
            Step::Taken { fence, began, deadline } => {
                return Outcome::Taken(place.hold(acquire, fence, began, deadline));
            }
            Step::Renew => {
                place = place.renew(acquire);
                continue;
            }
            Step::NoMessages => {
                warn_of_polling(&place);
                return Outcome::NoMessages;
            }
            Step::Refused => return Outcome::Missed(place.tell(acquire, Why::Refused)),
        }
        if acquire.outage(place.silent_since) {
            return Outcome::Missed(place.tell(acquire, Why::Short));
        }
        // After the step: one that is complete must leave no question under way.
        if place.ask_where_due() {
            acquire.count_attempt();
        }
        acquire.warn_of_own();
        let due = place.next_due();
        tokio::select! {
            biased;
            () = over(end) => return Outcome::Missed(place.tell(acquire, place.why())),
            Some((server, asked, answer)) = place.calls.next() => place.hear(server, asked, answer),
            (server, message) = place.waiter.message() => place.read(server, message),
            () = subscriptions_changed(&place.seats) => {}
            () = sleep_until(due) => {}
        }
    }
}

/// Waits until messages of a server begin or cease to reach us.
async fn subscriptions_changed(seats: &[Seat]) {
    select_all(seats.iter().map(|seat| Box::pin(seat.listening.changed()))).await;
}

/// What a server was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    Try,
    Claim { fence: u64 },
    Yield,
}

/// Which server answered what to which question.
type Answered = (usize, Asked, Result<Reply, Failure>);

/// What we have on one server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nothing, as far as we know.
    Out,
    Queued,
    /// The lock, for the claim window.
    Granted {
        fence: u64,
    },
    /// The lock, for the whole TTL.
    Claimed {
        fence: u64,
    },
    /// The lock, with a fence so far ahead that it cannot be counted.
    Ahead,
}

/// Our place on one server.
struct Seat {
    listening: Listening,
    state: State,
    /// The connection on which we asked last, if messages reach us on it.
    asked_on: Option<u64>,
    /// When to ask again.
    due: Instant,
    pause: Duration,
    /// An answer is awaited. Messages wait until it is read: they may be older or newer than it.
    calling: Option<Asked>,
    messages: Vec<Message>,
    /// An earlier ticket than ours waits here.
    inquired: bool,
    /// Before the last try was sent.
    tried: Moment,
    /// Whether the server may have something of ours.
    owed: bool,
    said: Option<Result<(), Failure>>,
}

impl Seat {
    /// Whether no messages reach us from there.
    fn deaf(&self) -> bool {
        matches!(self.listening.peek(), Subscription::Refused(_))
    }

    /// Whether it said no for good.
    fn refuses(&self) -> bool {
        matches!(&self.said, Some(Err(failure)) if failure.for_good)
    }

    /// Whether it may be asked.
    fn idle(&self) -> bool {
        self.calling.is_none() && !self.deaf() && !self.refuses()
    }
}

/// What to do next.
enum Step {
    Open,
    /// The clock, read now, is before the deadline: the lock is ours from here.
    Taken {
        fence: u64,
        began: Moment,
        deadline: Moment,
    },
    /// With another token.
    Renew,
    NoMessages,
    Refused,
}

/// A place in the queues, with an owner token of its own. Dropping it gives up the place, and the lock where it has it.
struct Place {
    shared: Arc<Shared>,
    keys: Keys,
    ttl: Duration,
    label: String,
    token: String,
    waiter: Waiter,
    /// Kept when asking again: an entry that was served is gone from the queue.
    ticket: i64,
    seats: Vec<Seat>,
    calls: FuturesUnordered<BoxFuture<'static, Answered>>,
    /// The fence that a majority must confirm, and the time before it was sent.
    claim: Option<(u64, Moment)>,
    /// The smallest fence that a server refused as too high: none from there on can be confirmed.
    limit: u64,
    /// Since when too few servers answer.
    silent_since: Option<Moment>,
    /// A yield may yet be run: the token must not be granted anything more.
    spent: bool,
}

impl Place {
    fn new(acquire: &Acquire<'_>, listening: Vec<Listening>, ticket: i64) -> Place {
        let shared = acquire.shared;
        let token = token::fresh(&*shared.rng, &shared.uuid);
        let due = Instant::now() + shared.settings.server_timeout;
        let seats = listening.into_iter().map(|listening| Seat {
            listening,
            state: State::Out,
            asked_on: None,
            due,
            pause: FIRST_PAUSE,
            calling: None,
            messages: Vec::new(),
            inquired: false,
            tried: shared.clock.now(),
            owed: false,
            said: None,
        });
        Place {
            waiter: shared.wakeups.enter(&token),
            shared: shared.clone(),
            keys: acquire.keys.clone(),
            ttl: acquire.settings.ttl,
            label: acquire.settings.label.clone().unwrap_or_default(),
            token,
            ticket,
            seats: seats.collect(),
            calls: FuturesUnordered::new(),
            claim: None,
            limit: u64::MAX,
            silent_since: None,
            spent: false,
        }
    }

    /// The same place in the queue under a fresh token; the old one is given up.
    fn renew(self, acquire: &Acquire<'_>) -> Place {
        let channel = &self.shared.wakeups.channel;
        let listening = self.shared.links.iter().map(|link| link.listen(channel)).collect();
        let mut renewed = Place::new(acquire, listening, self.ticket);
        renewed.silent_since = self.silent_since;
        renewed
    }

    fn call(&mut self, server: usize, asked: Asked, call: Call) {
        self.seats[server].calling = Some(asked);
        let answer = self.shared.links[server].run(Arc::new(call));
        self.calls.push(Box::pin(async move { (server, asked, answer.await) }));
    }

    fn keys(&self) -> [&str; 4] {
        [&self.keys.lock, &self.keys.fence, &self.keys.label, &self.keys.queue]
    }

    /// Asks the servers where it is time to, or where the connection is another; whether it asked one.
    fn ask_where_due(&mut self) -> bool {
        let now = Instant::now();
        let single = self.seats.len() == 1;
        let window = self.shared.settings.claim_window;
        let mut any = false;
        for server in 0..self.seats.len() {
            let seat = &mut self.seats[server];
            let on = match seat.listening.now() {
                Subscription::On(generation) => Some(generation),
                _ => None,
            };
            if !seat.idle() || (now < seat.due && (on.is_none() || on == seat.asked_on)) {
                continue;
            }
            any = true;
            seat.asked_on = on;
            seat.tried = self.shared.clock.now();
            // Until there is an answer it may have been granted.
            seat.owed = true;
            // Of several servers, each is only ours to claim: another may have the others.
            let ttl = if single { self.ttl } else { window };
            let ticket = on.map(|_| self.ticket);
            let call = try_call(&self.shared, &self.keys, &self.token, ttl, 0, &self.label, ticket);
            self.call(server, Asked::Try, call);
        }
        any
    }

    /// Claims, completes or yields, as the servers' answers and messages allow.
    fn step(&mut self) -> Step {
        let need = quorum::majority(self.seats.len());
        let count = |is: fn(&Seat) -> bool| self.seats.iter().filter(|seat| is(seat)).count();
        if count(Seat::refuses) >= need {
            return Step::Refused;
        }
        let too_many = |useless: usize| useless > self.seats.len() - need;
        let failing = count(|seat| !seat.deaf() && matches!(seat.said, Some(Err(_))));
        let deaf = count(Seat::deaf);
        if deaf > 0 && too_many(deaf + failing) {
            return Step::NoMessages;
        }
        let silent = too_many(failing);
        self.silent_since = silent.then(|| self.silent_since.unwrap_or_else(|| self.shared.clock.now()));
        if self.spent {
            return Step::Renew;
        }
        if let Some((fence, began)) = self.claim {
            let claimed = |seat: &&Seat| seat.state == State::Claimed { fence } && seat.calling != Some(Asked::Yield);
            if self.seats.iter().filter(claimed).count() >= need {
                let deadline = began + quorum::validity(self.ttl, self.shared.settings.drift);
                // This reading of the clock is the completion.
                let late = self.shared.clock.now() >= deadline;
                return if late { Step::Renew } else { Step::Taken { fence, began, deadline } };
            }
        }
        self.send_claims(need);
        if self.claim.is_none() {
            self.send_yields();
        }
        Step::Open
    }

    /// Claims what we were given, once it is a majority; and what is given meanwhile.
    fn send_claims(&mut self, need: usize) {
        let claiming = |seat: &Seat| matches!(seat.calling, Some(Asked::Claim { .. }));
        if let Some((fence, _)) = self.claim {
            for server in 0..self.seats.len() {
                let seat = &self.seats[server];
                if seat.calling.is_none() && matches!(seat.state, State::Granted { fence: given } if given <= fence) {
                    self.send_claim(server, fence);
                }
            }
            if !self.seats.iter().any(claiming) {
                self.claim = None;
            }
        }
        let given = |seat: &Seat| match seat.state {
            State::Granted { fence } | State::Claimed { fence } if seat.calling.is_none() => Some(fence),
            _ => None,
        };
        if self.claim.is_some() || self.seats.iter().filter_map(given).count() < need {
            return;
        }
        let highest = self.seats.iter().filter_map(given).max().unwrap_or_default();
        let fence = match self.shared.clock.wall_us() + AHEAD_US {
            ahead if self.seats.len() > 1 && ahead > highest && ahead - highest <= NEAR_US => ahead,
            _ => highest,
        };
        self.claim = Some((fence, self.shared.clock.now()));
        for server in 0..self.seats.len() {
            if let Some(fence) = given(&self.seats[server]) {
                // What was claimed before counts from before, and does not count here.
                self.seats[server].state = State::Granted { fence };
            }
        }
        for server in 0..self.seats.len() {
            if given(&self.seats[server]).is_some() {
                self.send_claim(server, fence);
            }
        }
    }

    fn send_claim(&mut self, server: usize, fence: u64) {
        let call = claim_call(&self.keys, &self.token, self.ttl, fence, &self.label);
        self.call(server, Asked::Claim { fence }, call);
    }

    /// Gives back what an earlier ticket waits for.
    fn send_yields(&mut self) {
        for server in 0..self.seats.len() {
            let seat = &self.seats[server];
            let (State::Granted { fence } | State::Claimed { fence }) = seat.state else { continue };
            if !seat.inquired || seat.calling.is_some() {
                continue;
            }
            let settings = &self.shared.settings;
            let call = Call::new(
                &YIELD,
                self.keys(),
                [
                    self.token.clone(),
                    fence.to_string(),
                    self.ticket.to_string(),
                    settings.claim_window.as_millis().to_string(),
                    settings.prefix.clone(),
                ],
            );
            self.call(server, Asked::Yield, call);
        }
    }

    fn hear(&mut self, server: usize, asked: Asked, answer: Result<Reply, Failure>) {
        self.seats[server].calling = None;
        match answer {
            Ok(reply) => {
                self.seats[server].said = Some(Ok(()));
                self.seats[server].pause = FIRST_PAUSE;
                // The first sending may yet be run, when we have been given the lock again.
                self.spent |= asked == Asked::Yield && reply.resent;
                match asked {
                    Asked::Claim { fence } => self.hear_claim(server, fence, &reply),
                    Asked::Try => self.hear_place(server, &reply),
                    Asked::Yield => {
                        self.seats[server].inquired &= reply.code() == 0;
                        self.hear_place(server, &reply);
                    }
                }
            }
            Err(failure) => {
                self.spent |= asked == Asked::Yield && failure.maybe_applied;
                self.failed(server, failure);
            }
        }
        for message in std::mem::take(&mut self.seats[server].messages) {
            self.read(server, message);
        }
    }

    fn failed(&mut self, server: usize, failure: Failure) {
        let jitter = 0.5 + 0.5 * self.shared.rng.unit();
        let seat = &mut self.seats[server];
        seat.state = State::Out;
        seat.due = Instant::now() + seat.pause.mul_f64(jitter);
        seat.pause = (seat.pause * 2).min(LONGEST_RETRY);
        seat.said = Some(Err(failure));
    }

    /// The answer of try.lua or yield.lua.
    fn hear_place(&mut self, server: usize, reply: &Reply) {
        let now = Instant::now();
        match [0, 1, 2, 3].map(|place| reply.number(place)) {
            // A single server gives it to who asks for the whole TTL, and there is no other to confirm it.
            [Some(1), Some(fence), ..] if fence > 0 && self.seats.len() == 1 => {
                self.seats[server].state = State::Claimed { fence: fence as u64 };
                self.claim = Some((fence as u64, self.seats[server].tried));
            }
            [Some(1), Some(fence), ..] if fence > 0 => self.given(server, fence as u64),
            [Some(0), Some(left), Some(rank), Some(ticket)] => {
                let single = self.seats.len() == 1;
                let seat = &mut self.seats[server];
                // What we could not give back, as it was another grant, may be asked for still.
                seat.inquired &= rank < 0;
                seat.state = if rank >= 0 { State::Queued } else { State::Out };
                if rank >= 0 && single {
                    self.ticket = ticket;
                }
                let look_in = match left {
                    // Messages do not reach us (yet): ask now and again.
                    _ if rank < 0 && seat.asked_on.is_none() => LONGEST_RETRY,
                    // It was not ours any more.
                    _ if rank < 0 => Duration::ZERO,
                    // Free, but it could not be handed over.
                    -2 => LONGEST_RETRY,
                    -1 => LOOK_WITHOUT_TTL,
                    // A key may outlive its TTL, which is rounded, by a millisecond.
                    _ => Duration::from_millis(u64::try_from(left).unwrap_or_default()) + FIRST_PAUSE,
                };
                let rank = u32::try_from(rank).unwrap_or_default();
                let look_in = look_in + STAGGER.0 * rank.min(STAGGER.1);
                seat.due = now + if rank == 0 { look_in.min(FIRST_LOOKS_EVERY) } else { look_in };
            }
            _ => self.failed(server, Failure::unexpected(reply)),
        }
    }

    fn hear_claim(&mut self, server: usize, fence: u64, reply: &Reply) {
        match (reply.code(), reply.number(1)) {
            (1, _) if fence < self.limit => self.seats[server].state = State::Claimed { fence },
            (1, _) => self.seats[server].state = State::Ahead,
            (2, Some(larger)) => self.given(server, larger as u64),
            (3, _) => {
                tracing::warn!(target: "quorlock", fence, server = self.shared.links[server].address(),
                    "a server gave a fence far in the future: its clock is ahead");
                self.limit = self.limit.min(fence.saturating_sub(NEAR_US));
                self.claim = self.claim.filter(|(fence, _)| *fence < self.limit);
                for server in 0..self.seats.len() {
                    if let State::Granted { fence } | State::Claimed { fence } = self.seats[server].state {
                        self.given(server, fence);
                    }
                }
            }
            _ => {
                self.seats[server].state = State::Out;
                self.seats[server].due = Instant::now();
            }
        }
    }

    /// The server gave us the lock.
    fn given(&mut self, server: usize, fence: u64) {
        let seat = &mut self.seats[server];
        seat.state = if fence < self.limit { State::Granted { fence } } else { State::Ahead };
        seat.due = Instant::now() + self.shared.settings.claim_window;
    }

    fn read(&mut self, server: usize, message: Message) {
        let ticket = self.ticket;
        let seat = &mut self.seats[server];
        if seat.calling.is_some() {
            seat.messages.push(message);
            return;
        }
        match message {
            Message::Granted { fence: given } => match seat.state {
                State::Claimed { fence } if fence >= given => {}
                _ => self.given(server, given),
            },
            Message::Look { at } if seat.state == State::Queued => {
                let look_in = at.since(self.shared.clock.now()) + FIRST_PAUSE;
                seat.due = Instant::now() + look_in.min(FIRST_LOOKS_EVERY);
            }
            Message::Inquire { ticket: earlier } if earlier <= ticket => seat.inquired = true,
            _ => {}
        }
    }

    fn next_due(&self) -> Instant {
        let waiting = self.seats.iter().filter(|seat| seat.idle()).map(|seat| seat.due);
        waiting.min().unwrap_or_else(|| Instant::now() + FIRST_LOOKS_EVERY)
    }

    /// Why there is no lease yet.
    fn why(&self) -> Why {
        let answered = self.seats.iter().filter(|seat| matches!(seat.said, Some(Ok(())))).count();
        if answered >= quorum::majority(self.seats.len()) { Why::Busy { free_in: None } } else { Why::Short }
    }

    /// Notes what each server said, for the error.
    fn tell(&self, acquire: &mut Acquire<'_>, why: Why) -> Why {
        acquire.unanswered = self
            .seats
            .iter()
            .any(|seat| seat.calling.is_some() || matches!(&seat.said, Some(Err(failure)) if failure.maybe_applied));
        for (seat, known) in self.seats.iter().zip(&mut acquire.known) {
            match (&seat.said, seat.state) {
                (Some(Err(failure)), _) => *known = Some(failure.cause.clone()),
                (Some(Ok(())), State::Ahead) => {
                    *known = Some("its fence is far ahead: its clock or the others' is wrong".to_owned());
                }
                (Some(Ok(())), State::Granted { .. } | State::Claimed { .. }) => *known = Some("granted".to_owned()),
                (Some(Ok(())), _) => *known = Some("held by others".to_owned()),
                (None, _) if seat.deaf() => *known = Some("lets us wait only by asking".to_owned()),
                (None, _) => {}
            }
        }
        why
    }

    fn hold(mut self, acquire: &Acquire<'_>, fence: u64, began: Moment, deadline: Moment) -> Lease {
        let may_hold = self.seats.iter_mut().map(|seat| std::mem::replace(&mut seat.owed, false)).collect();
        // The claims of the other servers go on.
        let mut calls = std::mem::take(&mut self.calls);
        let late = (!calls.is_empty())
            .then(|| Box::pin(async move { while calls.next().await.is_some() {} }) as BoxFuture<'static, ()>);
        let granted = Granted { late, token: self.token.clone(), fence, began, deadline, may_hold };
        let hold = Hold::begin(acquire.shared, acquire.name, acquire.keys, acquire.settings, granted);
        // What has come just now, and what comes from here on, goes to the lease.
        for (server, message) in self.waiter.unread() {
            if let Message::Granted { .. } = message {
                hold.clone().claim_more(server);
            }
        }
        Lease::new(hold)
    }
}

/// The call that makes what was handed to `token` its own for the whole TTL.
pub(crate) fn claim_call(keys: &Keys, token: &str, ttl: Duration, fence: u64, label: &str) -> Call {
    Call::new(
        &CLAIM,
        [&keys.lock, &keys.fence, &keys.label],
        [token.to_owned(), ttl.as_millis().to_string(), fence.to_string(), label.to_owned()],
    )
}

impl Drop for Place {
    fn drop(&mut self) {
        settle_release(&self.shared, &self.keys, &self.token, self.ttl, |server| self.seats[server].owed);
    }
}

/// Says once that waiting goes on by polling.
fn warn_of_polling(place: &Place) {
    if place.shared.wakeups.warned.swap(true, Ordering::Relaxed) {
        return;
    }
    let refusal = place.seats.iter().zip(&place.shared.links).find_map(|(seat, link)| match seat.listening.peek() {
        Subscription::Refused(cause) => Some((link, cause)),
        _ => None,
    });
    if let Some((link, cause)) = refusal {
        tracing::warn!(target: "quorlock", server = link.address(), cause,
            "cannot subscribe to wake-ups: waiting goes on by polling, late by up to a second and not in order");
    }
}
