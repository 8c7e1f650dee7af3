//! Runs the scenarios of `conformance/`, as its README says, on the asynchronous API.

use quorlock::{Client, ClientOptions, Error, ErrorKind, Lease, LockOptions, LostReason, Result, Wait};
use quorlock_tests::{Dialogue, words};
use std::collections::HashMap;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/conformance");

macro_rules! scenarios {
    ($($name:ident)*) => {
        $(#[test] fn $name() { run(stringify!($name)); })*

        #[test]
        fn no_file_is_missed() {
            let mut files: Vec<String> = std::fs::read_dir(FOLDER).unwrap()
                .filter_map(|entry| Some(entry.unwrap().file_name().to_str()?.strip_suffix(".scenario")?.to_owned()))
                .collect();
            files.sort();
            assert_eq!(files, [$(stringify!($name)),*]);
        }
    };
}

scenarios! {
    break_a_lock
    break_on_a_quorum
    causes_are_told
    claim_window_invalid
    close_drains
    close_ends_leases
    close_ends_waits
    confirm
    connection_lost_and_found
    database
    deleted_lock_is_lost
    exact_keys
    expiry_without_renewal
    extend_after_expiry_is_lost
    extend_sets_and_never_adds
    extend_shorter
    fence_exhausted
    fence_rises
    fence_rises_on_a_quorum
    inspect
    inspect_on_a_quorum
    label
    late_release_is_lost
    late_write_is_undone
    majority_frozen
    majority_killed
    max_hold
    minority_frozen
    minority_killed
    mutual_exclusion
    mutual_exclusion_one_server
    names
    names_invalid
    not_reentrant
    options_invalid
    out_of_memory
    password
    ping
    plain_keys
    prefix
    read_only
    release_twice
    renewal_keeps
    restarted_servers_are_healed
    scripts_flushed
    taken_lock_is_lost
    ttl_is_milliseconds
    two_servers
    wait_ends_with_deletion
    wait_ends_with_expiry
    wait_ends_with_release
    wait_in_order
    wait_in_order_on_a_quorum
    wait_is_bounded
    wait_that_ends_leaves_nothing
    wait_without_messages
    wait_zero_is_busy
    wrong_type_is_refused
}

/// What an actor's step gave.
enum Outcome {
    Granted(Lease),
    Word(String),
    Number(u128),
    Failed(Error),
}

/// A step's outcome, and how long it took.
type Done = (Outcome, Duration);

struct Scenario {
    bed: Dialogue,
    urls: Vec<String>,
    clients: HashMap<String, Client>,
    slots: HashMap<String, Arc<Lease>>,
    replaced: Vec<Arc<Lease>>,
    /// By name: the slot, and the task.
    jobs: HashMap<String, (String, JoinHandle<Done>)>,
    variables: HashMap<String, String>,
}

fn run(name: &str) {
    let file = format!("{FOLDER}/{name}.scenario");
    let text = std::fs::read_to_string(&file).expect("read the scenario");
    let mut scenario = Scenario {
        bed: Dialogue::start(env!("CARGO_BIN_EXE_quorlock-testbed"), &[]),
        urls: Vec::new(),
        clients: HashMap::new(),
        slots: HashMap::new(),
        replaced: Vec::new(),
        jobs: HashMap::new(),
        variables: HashMap::new(),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.is_empty() && !line.starts_with('#')) {
        if let Err(instead) = runtime.block_on(scenario.line(line)) {
            panic!("{file}:{}: {line}: {instead}", number + 1);
        }
    }
    assert!(scenario.jobs.is_empty(), "{file}: each job is joined");
    for client in scenario.clients.values() {
        runtime.block_on(client.close(Duration::ZERO)).expect("close");
    }
    assert!(scenario.bed.finish(), "{file}: the testbed ends well");
}

impl Scenario {
    async fn line(&mut self, line: &str) -> Result<(), String> {
        let (command, expectation) = match line.split_once(" -> ") {
            Some((command, expectation)) => (command.trim(), Some(expectation.trim())),
            None => (line.trim(), None),
        };
        let (first, rest) = command.split_once(' ').unwrap_or((command, ""));
        match first {
            "&" => {
                let (job, step) = rest.split_once(' ').ok_or("a job has a name and a step")?;
                let (slot, future) = self.act(step)?;
                self.jobs.insert(job.to_owned(), (slot, tokio::spawn(future)));
                Ok(())
            }
            "join" => {
                let (slot, task) = self.jobs.remove(rest).ok_or("no such job")?;
                let done = task.await.map_err(|error| error.to_string())?;
                self.check(&slot, done, expectation)
            }
            "running" => match self.jobs[rest].1.is_finished() {
                true => Err("it has ended".to_owned()),
                false => Ok(()),
            },
            "pause" => {
                tokio::time::sleep(ms(rest)?).await;
                Ok(())
            }
            "until" => {
                let (limit, step) = rest.split_once(' ').ok_or("until MS STEP")?;
                let limit = Instant::now() + ms(limit)?;
                loop {
                    let result = self.step(step, expectation).await;
                    if result.is_ok() || Instant::now() > limit {
                        return result;
                    }
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            }
            "client" => self.make_client(rest, expectation),
            _ => self.step(command, expectation).await,
        }
    }

    async fn step(&mut self, step: &str, expectation: Option<&str>) -> Result<(), String> {
        let first = step.split(' ').next().unwrap_or_default().split('.').next().unwrap_or_default();
        if first.len() > 1 {
            return self.testbed(step, expectation);
        }
        let (slot, future) = self.act(step)?;
        let done = future.await;
        self.check(&slot, done, expectation)
    }

    fn testbed(&mut self, command: &str, expectation: Option<&str>) -> Result<(), String> {
        self.bed.say(&self.substitute(command));
        let answer = self.bed.hear().ok_or("the testbed has ended")?;
        let expectation = expectation.map(|text| self.substitute(text));
        if let Some(text) = expectation.as_deref().and_then(|text| text.strip_prefix("error ")) {
            return met(answer.starts_with("error ") && answer.contains(text), answer);
        }
        let rest = answer.strip_prefix("ok").ok_or(&answer)?.trim_start().to_owned();
        if command.starts_with("servers ") {
            self.urls = rest.split(' ').map(str::to_owned).collect();
        }
        let Some(expectation) = expectation else { return Ok(()) };
        if let Some(variable) = expectation.strip_prefix("store ") {
            self.variables.insert(variable.to_owned(), rest);
            return Ok(());
        }
        match expectation
            .split_once("..")
            .filter(|(low, high)| low.parse::<i64>().is_ok() && high.parse::<i64>().is_ok())
        {
            Some(_) => met(in_range(rest.parse::<i64>(), &expectation), rest),
            None => met(rest == expectation, rest),
        }
    }

    fn substitute(&self, text: &str) -> String {
        let mut parts = text.split('$');
        let mut result = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let end = part.find(|c: char| !c.is_ascii_uppercase() && !c.is_ascii_digit()).unwrap_or(part.len());
            match self.variables.get(&part[..end]) {
                Some(value) => result += value,
                None => result = result + "$" + &part[..end],
            }
            result += &part[end..];
        }
        result
    }

    fn make_client(&mut self, rest: &str, expectation: Option<&str>) -> Result<(), String> {
        let words = words::split(rest)?;
        let actor = words.first().ok_or("client has an actor")?.clone();
        let mut options = ClientOptions::default();
        let mut urls = self.urls.clone();
        let (mut user, mut password, mut db) = ("", String::new(), String::new());
        for word in &words[1..] {
            match word.split_once('=').ok_or_else(|| format!("not an option: {word}"))? {
                ("ttl", value) => options.ttl = Some(ms(value)?),
                ("server_timeout", value) => options.server_timeout = Some(ms(value)?),
                ("claim_window", value) => options.claim_window = Some(ms(value)?),
                ("wait", value) => options.wait = Some(wait(value)?),
                ("drift", value) => options.drift = Some(number(value)?),
                ("prefix", value) => options.prefix = Some(value.to_owned()),
                ("label", value) => options.label = Some(value.to_owned()),
                ("exact_keys", value) => options.exact_keys = Some(value == "on"),
                ("servers", value) => {
                    let numbers: Vec<usize> = value.split(',').map(number).collect::<Result<_, _>>()?;
                    urls = numbers.into_iter().map(|i| self.urls[i].clone()).collect();
                }
                ("user", value) => user = value,
                ("password", value) => password = format!(":{value}@"),
                ("db", value) => db = format!("/{value}"),
                _ => return Err(format!("no such option: {word}")),
            }
        }
        for url in &mut urls {
            *url = url.replace("redis://", &format!("redis://{user}{password}")) + &db;
        }
        let begin = Instant::now();
        let outcome = match Client::with_options(urls, options) {
            Ok(client) => {
                self.clients.insert(actor.clone(), client);
                Outcome::Word("made".to_owned())
            }
            Err(error) => Outcome::Failed(error),
        };
        self.check(&actor, (outcome, begin.elapsed()), expectation)
    }

    /// The slot of an actor's step, and the step itself.
    fn act(&mut self, step: &str) -> Result<(String, impl Future<Output = Done> + Send + 'static), String> {
        let words = words::split(step)?;
        let [slot, verb, args @ ..] = &words[..] else { return Err("an actor and a verb".to_owned()) };
        let actor = slot.split('.').next().unwrap_or_default().to_owned();
        if !self.clients.contains_key(&actor) {
            let client = Client::new(self.urls.clone()).map_err(|error| error.to_string())?;
            self.clients.insert(actor.clone(), client);
        }
        let client = self.clients[&actor].clone();
        let lease = self.slots.get(slot).cloned();
        let (verb, args) = (verb.clone(), args.to_vec());
        let future = async move {
            let begin = Instant::now();
            let outcome = call(client, lease, &verb, &args).await.unwrap_or_else(Outcome::Failed);
            (outcome, begin.elapsed())
        };
        Ok((slot.clone(), future))
    }

    /// Keeps a granted lease, and compares.
    fn check(&mut self, slot: &str, (outcome, took): Done, expectation: Option<&str>) -> Result<(), String> {
        let (word, fence, error) = match outcome {
            Outcome::Granted(lease) => {
                let fence = lease.fence();
                self.replaced.extend(self.slots.insert(slot.to_owned(), Arc::new(lease)));
                ("held".to_owned(), Some(fence), None)
            }
            Outcome::Word(word) => {
                let fence = word.strip_prefix("fence ").map(|digits| digits.parse().expect("a fence"));
                (word, fence, None)
            }
            Outcome::Number(number) => (number.to_string(), None, None),
            Outcome::Failed(error) => (error.kind().name().to_owned(), None, Some(error)),
        };
        let got =
            format!("{word} in={} {}", took.as_millis(), error.as_ref().map(Error::to_string).unwrap_or_default());
        let Some(expectation) = expectation else { return met(error.is_none() && word != "none", got) };
        let expected = words::split(expectation)?;
        // A `fence` step has no word of its own before the parts.
        let parts = if word.starts_with("fence ") { &expected[..] } else { &expected[1..] };
        if !word.starts_with("fence ") {
            let first = &expected[0];
            met(*first == word || (first.contains("..") && in_range(word.parse::<u64>(), first)), got.clone())?;
        }
        for part in parts {
            let fence = fence.map(|fence| fence.to_string()).unwrap_or_default();
            let text = error.as_ref().map(Error::to_string).unwrap_or_default();
            let servers = error.as_ref().map(Error::servers).unwrap_or_default();
            let holds = if let Some(variable) = part.strip_prefix("fence>") {
                number::<u64>(&fence)? > number(&self.variables[variable])?
            } else {
                match part.split_once('=').ok_or("a part is NAME=VALUE")? {
                    ("fence", digits) if digits.starts_with(|c: char| c.is_ascii_digit()) => fence == digits,
                    ("fence", variable) => *self.variables.entry(variable.to_owned()).or_insert(fence.clone()) == fence,
                    ("in", range) => in_range::<_, ()>(Ok(took.as_millis() as u64), range),
                    ("text", wanted) => text.contains(wanted),
                    ("hides", secret) => !format!("{text} {error:?}").contains(secret),
                    ("servers", count) => servers.len() == number::<usize>(count)?,
                    ("cause", wanted) => servers.iter().any(|server| server.cause.contains(wanted)),
                    _ => return Err(format!("no such expectation: {part}")),
                }
            };
            met(holds, format!("not {part}: {got} fence={fence}"))?;
        }
        Ok(())
    }
}

async fn call(client: Client, lease: Option<Arc<Lease>>, verb: &str, args: &[String]) -> Result<Outcome> {
    let word = |word: &str| Ok(Outcome::Word(word.to_owned()));
    let lease = || lease.clone().expect("the actor was granted a lease");
    let option = |name: &str| args.iter().find_map(|arg| arg.strip_prefix(name)?.strip_prefix('='));
    let time = |name: &str| option(name).map(|value| ms(value).expect("a time"));
    match verb {
        "acquire" | "try" => {
            let options = LockOptions {
                ttl: time("ttl"),
                wait: option("wait").map(|value| wait(value).expect("a wait")),
                renew: option("renew").map(|value| value == "on"),
                max_hold: time("max_hold"),
                label: option("label").map(str::to_owned),
            };
            let lock = client.lock_with(&args[0], options)?;
            let lease = if verb == "try" { lock.try_acquire().await? } else { Some(lock.acquire().await?) };
            lease.map_or_else(|| word("none"), |lease| Ok(Outcome::Granted(lease)))
        }
        "release" => word(if lease().release().await? { "true" } else { "false" }),
        "extend" => Ok(Outcome::Number(lease().extend(time("ttl")).await?.as_millis())),
        "confirm" => lease().confirm().await.and_then(|()| word("ok")),
        "ensure" => lease().ensure_held().and_then(|()| word("ok")),
        "held" => word(if lease().held() { "true" } else { "false" }),
        "remaining" => Ok(Outcome::Number(lease().remaining().as_millis())),
        "fence" => word(&format!("fence {}", lease().fence())),
        "name" => word(lease().name()),
        "lost" => word(lease().lost_reason().map_or("none", LostReason::name)),
        "await-lost" => {
            let lease = lease();
            let limit = ms(&args[0]).expect("a time");
            word(tokio::time::timeout(limit, lease.lost()).await.map_or("none", LostReason::name))
        }
        "inspect" => {
            let lock = client.inspect(&args[0]).await?;
            let holder = lock.holder.unwrap_or_default();
            match args[1].as_str() {
                "held" => word(if lock.held { "true" } else { "false" }),
                "remaining" => Ok(Outcome::Number(lock.remaining.as_millis())),
                "waiters" => word(&lock.waiters.to_string()),
                "fence" => word(&format!("fence {}", lock.fence.unwrap_or_default())),
                "language" => word(if holder.language.is_some_and(|it| !it.is_empty()) { "known" } else { "none" }),
                "label" => word(holder.label.as_deref().unwrap_or("none")),
                field => Err(Error::new(ErrorKind::Internal, format!("the runner knows no field {field}"))),
            }
        }
        "break" => word(&format!("fence {}", client.break_lock(&args[0]).await?)),
        "ping" => {
            let states = client.ping(time("timeout").unwrap_or(Duration::from_secs(1))).await?;
            word(&format!("up={}", states.iter().filter(|state| state.answer.is_ok()).count()))
        }
        "close" => client.close(time("drain").unwrap_or_default()).await.and_then(|()| word("ok")),
        _ => Err(Error::new(ErrorKind::Internal, format!("the runner knows no step {verb}"))),
    }
}

fn met(holds: bool, got: String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(got) }
}

fn in_range<N: PartialOrd + FromStr, E>(value: Result<N, E>, range: &str) -> bool {
    let Some((low, high)) = range.split_once("..") else { return false };
    matches!((value, low.parse::<N>(), high.parse::<N>()), (Ok(v), Ok(low), Ok(high)) if low <= v && v <= high)
}

fn number<N: FromStr>(text: &str) -> Result<N, String> {
    text.parse().map_err(|_| format!("not a number: {text}"))
}

fn ms(text: &str) -> Result<Duration, String> {
    number(text).map(Duration::from_millis)
}

fn wait(text: &str) -> Result<Wait, String> {
    if text == "forever" { Ok(Wait::Forever) } else { ms(text).map(Wait::For) }
}
