//! Looking at a lock: who holds it, for how long, and how many wait.
//!
//! The owner token never leaves a server: it answers with the token's fingerprint, by which a majority is counted, and
//! with the part that names the client, by which the holder's registration is found.

use crate::answer::Reply;
use crate::ballot::Ballot;
use crate::client::{Client, Shared};
use crate::error::Result;
use crate::options::{self, Keys, MAX_DURATION};
use crate::quorum::majority;
use crate::registration;
use crate::runtime;
use crate::script::{Call, INSPECT, WHO};
use std::time::{Duration, SystemTime};

/// A lock as the servers see it, for people: it may have changed when you read this. To know whether *you* hold a lock,
/// ask its lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockInfo {
    /// Whether somebody holds it: on a quorum, the same owner on a majority of the servers.
    pub held: bool,
    /// For how long they (a majority of them) will keep it, if it is not renewed: zero if it is not held, and
    /// [`MAX_DURATION`] if another program has made it without a TTL.
    pub remaining: Duration,
    /// Who holds it; `None` if nobody does.
    pub holder: Option<Holder>,
    /// How many stand in its queue, on the server with the most: waiters of all processes. Those who have died are
    /// counted until they are skipped; those who can only poll are not.
    pub waiters: u64,
    /// The largest fencing token given out so far, held or not; `None` if there was none for a day.
    pub fence: Option<u64>,
}

/// Who holds a lock, as far as it is known. All but the label come from the registration of its client, and are `None`
/// where it has none: another library holds the lock, the client was closed or died more than a day ago, or it had no
/// right to register.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Holder {
    /// The name of its machine (of its container).
    pub host: Option<String>,
    /// Its process id there.
    pub pid: Option<u32>,
    /// `rust`, `python`, `node`, `c`.
    pub language: Option<String>,
    /// The version of quorlock that it uses.
    pub version: Option<String>,
    /// When its client came into use, by its own clock.
    pub since: Option<SystemTime>,
    /// The label of the lock; `None` if it was given none.
    pub label: Option<String>,
}

impl Client {
    /// Asks who holds a lock, for how long, and how many wait. Changes nothing.
    ///
    /// # Errors
    /// Unavailable: fewer than a majority of the servers answered usefully. Refused: they said no for good (rights, or a
    /// key that holds something other than a lock). Invalid: a wrong name; nothing was sent. Closed.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn inspect(&self, name: &str) -> Result<LockInfo> {
        let keys = options::keys(name, self.settings())?;
        let shared = self.shared().map_err(|e| e.with_name(name))?.clone();
        let info = runtime::run(Box::pin(async move { inspect(&shared, &keys).await })).await;
        info.map_err(|e| e.with_name(name))
    }
}

async fn inspect(shared: &Shared, keys: &Keys) -> Result<LockInfo> {
    let began = shared.clock.now();
    let need = majority(shared.links.len());
    let call = Call::new(&INSPECT, [&keys.lock, &keys.fence, &keys.label, &keys.queue], []);
    let mut ballot = Ballot::open(shared, call, |reply| reply.number(0).is_some());
    let mut views = Vec::new();
    while agreed(&views, need).is_none() && ballot.next().await {
        views = ballot.answers.iter().flatten().flatten().filter_map(View::read).collect();
    }
    if views.len() < need {
        return Err(ballot.failed(shared, "inspect", began));
    }
    let (mut info, client) = together(&views, need);
    if let (Some(holder), Some(client)) = (&mut info.holder, client) {
        *holder = Holder { label: holder.label.take(), ..who(shared, &client).await };
    }
    Ok(info)
}

/// A client's registration, from the first server that has it.
async fn who(shared: &Shared, client: &str) -> Holder {
    let call = Call::new(&WHO, [registration::key(&shared.settings, client)], []);
    let mut ballot = Ballot::open(shared, call, |reply| reply.text(0).is_some());
    while ballot.tally.yes == 0 && ballot.next().await {}
    let text = ballot.answers.iter().flatten().flatten().find_map(|reply| reply.text(0));
    registration::read(&text.unwrap_or_default())
}

/// What one server says.
#[derive(Debug, Clone)]
struct View {
    owner: Option<Owner>,
    fence: Option<u64>,
    waiters: u64,
}

#[derive(Debug, Clone)]
struct Owner {
    /// Of its token.
    fingerprint: String,
    /// The client that made the token, if it is one of ours.
    client: Option<String>,
    remaining: Duration,
    label: Option<String>,
}

impl View {
    fn read(reply: &Reply) -> Option<View> {
        let remaining = match reply.number(0)? {
            -1 => MAX_DURATION,
            left => Duration::from_millis(u64::try_from(left).unwrap_or_default()).min(MAX_DURATION),
        };
        let owner = reply.text(2).map(|fingerprint| Owner {
            fingerprint,
            client: reply.text(1),
            remaining,
            label: reply.text(4),
        });
        let positive = |place| reply.number(place).and_then(|n| u64::try_from(n).ok());
        Some(View { owner, fence: positive(3), waiters: positive(5).unwrap_or_default() })
    }

    fn fingerprint(&self) -> Option<&str> {
        self.owner.as_ref().map(|owner| owner.fingerprint.as_str())
    }
}

/// The owner that so many servers name, or that so many say there is none.
fn agreed(views: &[View], need: usize) -> Option<Option<&str>> {
    let count = |owner| views.iter().filter(|view| view.fingerprint() == owner).count();
    views.iter().map(View::fingerprint).find(|owner| count(*owner) >= need)
}

/// What the servers say together, and which client holds the lock.
fn together(views: &[View], need: usize) -> (LockInfo, Option<String>) {
    let agreed = agreed(views, need).flatten();
    let mut owners: Vec<_> = views
        .iter()
        .filter_map(|view| view.owner.as_ref())
        .filter(|owner| Some(&*owner.fingerprint) == agreed)
        .collect();
    owners.sort_by_key(|owner| std::cmp::Reverse(owner.remaining));
    let info = LockInfo {
        held: agreed.is_some(),
        // Of a majority of them, the one that keeps it for the shortest time.
        remaining: owners.get(need - 1).map(|owner| owner.remaining).unwrap_or_default(),
        holder: agreed
            .map(|_| Holder { label: owners.iter().find_map(|owner| owner.label.clone()), ..Holder::default() }),
        waiters: views.iter().map(|view| view.waiters).max().unwrap_or_default(),
        fence: views.iter().filter_map(|view| view.fence).max(),
    };
    (info, owners.iter().find_map(|owner| owner.client.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server where this owner has so many ms left; `-` is nobody.
    fn view(owner: &str, left: u64) -> View {
        let owner = (owner != "-").then(|| Owner {
            fingerprint: owner.to_owned(),
            client: Some(format!("client of {owner}")),
            remaining: Duration::from_millis(left),
            label: (left % 2 == 1).then(|| "odd".to_owned()),
        });
        View { owner, fence: Some(left), waiters: left / 10 }
    }

    #[test]
    fn a_majority_says_who_holds_it_and_for_how_long() {
        let table = [
            (vec![view("a", 10)], 1, true, 10, None),
            (vec![view("-", 0)], 1, false, 0, None),
            (vec![view("a", 30), view("a", 11), view("a", 20)], 2, true, 20, Some("odd")),
            (vec![view("a", 30), view("a", 10)], 2, true, 10, None),
            (vec![view("a", 30), view("b", 10)], 2, false, 0, None),
            (vec![view("a", 31), view("b", 10), view("a", 20)], 2, true, 20, Some("odd")),
            (vec![view("a", 30), view("b", 10), view("-", 0)], 2, false, 0, None),
            (vec![view("-", 0), view("b", 10), view("-", 0)], 2, false, 0, None),
        ];
        for (views, need, held, remaining, label) in table {
            let (info, client) = together(&views, need);
            assert_eq!((info.held, info.remaining.as_millis() as u64), (held, remaining), "{views:?}");
            assert_eq!(info.holder.is_some(), held, "{views:?}");
            assert_eq!(info.holder.and_then(|holder| holder.label).as_deref(), label, "{views:?}");
            assert_eq!(client.as_deref(), held.then_some("client of a"), "{views:?}");
        }
        let (info, _) = together(&[view("a", 30), view("b", 59), view("a", 20)], 2);
        assert_eq!((info.fence, info.waiters), (Some(59), 5), "the largest that any server knows");
    }

    #[test]
    fn more_answers_are_awaited_until_a_majority_agrees() {
        assert_eq!(agreed(&[], 1), None);
        assert_eq!(agreed(&[view("a", 1), view("b", 1)], 2), None);
        assert_eq!(agreed(&[view("a", 1), view("b", 1), view("b", 2)], 2), Some(Some("b")));
        assert_eq!(agreed(&[view("-", 0), view("a", 1), view("-", 0)], 2), Some(None));
    }
}
