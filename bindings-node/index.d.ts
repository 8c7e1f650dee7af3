/// <reference types="node" />

/** Options of a client; what is left out has the default. All durations are milliseconds. */
export interface ClientOptions {
  /** Default TTL of its locks: 30 000. See {@link TryLockOptions.ttl}. */
  ttl?: number
  /** Default wait of its locks: no limit. See {@link LockOptions.wait}. */
  wait?: number
  /** Default label of its locks. See {@link TryLockOptions.label}. */
  label?: string
  /** Limit for one server and one call: 50. Raise it for TLS or far servers. */
  serverTimeout?: number
  /** Part of the TTL that is set aside for clocks running at different rates: 0.01. Another 2 ms always are. */
  drift?: number
  /** What every key begins with: `lock:`. No braces. */
  prefix?: string
  /** The lock's key is the name itself, shared with other libraries that use a plain string key: false. */
  exactKeys?: boolean
  /** How long a waiter to whom the lock is handed may take to claim it: 1000. */
  claimWindow?: number
  /** PEM file with the certificate authorities to trust instead of the system's (with `rediss://`). */
  caFile?: string
  /** PEM file with the client's certificate (with `clientKey`). */
  clientCert?: string
  /** PEM file with the client's private key (with `clientCert`). */
  clientKey?: string
}

/** Options of one try. All durations are milliseconds. */
export interface TryLockOptions {
  /** How long the servers keep the lock without renewal. At least twice `serverTimeout`; parts of a millisecond are cut off. */
  ttl?: number
  /** Renew the lease at every third of its TTL, on a thread of its own: true. */
  renew?: boolean
  /** Renewal stops this long after the grant, and the lease is lost: no limit. */
  maxHold?: number
  /** A text for people, at most 256 bytes: shown in errors and events. */
  label?: string
  /** Ends the attempt when it aborts, and undoes it. It has nothing to do with the lease that was granted. */
  signal?: AbortSignal
}

/** Options of one acquire. */
export interface LockOptions extends TryLockOptions {
  /** How long the whole call may take: 0 tries once, Infinity (the default) sets no limit. */
  wait?: number
}

/** Options of {@link Client.close}. */
export interface CloseOptions {
  /** How long to wait for the holders to finish, in milliseconds: 0. */
  drain?: number
}

/** What one server answered to {@link Client.ping}. */
export interface ServerState {
  /** `host:port` or the socket's path; never the password. */
  address: string
  /** Whether it answered. */
  up: boolean
  /** Milliseconds of the round trip, if it answered. */
  roundTrip?: number
  /** Why it did not answer, if it did not. */
  cause?: string
}

/**
 * Its servers, and the entry to every verb. One client serves the whole process; it does not keep the process alive,
 * only a call that somebody waits for does.
 */
export class Client implements AsyncDisposable {
  /**
   * One URL: one server (`redis://`, `rediss://`, `valkey://`, `unix://`). Several: a quorum of independent servers.
   * Connects at the first call.
   * @throws {QuorlockError} QUORLOCK_INVALID
   */
  constructor(urls: string | readonly string[], options?: ClientOptions)

  /**
   * Takes the lock, waiting as `wait` says.
   *
   * Rejects with QUORLOCK_BUSY if others held it for the whole wait, QUORLOCK_UNAVAILABLE if too few servers answered
   * usefully, QUORLOCK_REFUSED if they said no for good, QUORLOCK_INVALID before anything is sent, QUORLOCK_CLOSED, and
   * with an AbortError (`cause`: the signal's reason) when `signal` aborts; a grant that was on its way then is undone.
   */
  acquire(name: string, options?: LockOptions): Promise<Lease>

  /** Tries once; null if others hold it. Otherwise as {@link Client.acquire}. */
  tryAcquire(name: string, options?: TryLockOptions): Promise<Lease | null>

  /**
   * Takes the lock as {@link Client.acquire} does, runs `body`, releases the lock, and gives what the body gave.
   *
   * The body is always waited for: give it `lease.signal` to stop it at a loss. If the lease was lost before the end,
   * this rejects with QUORLOCK_LOST, whose `result` is what the body gave. What the body throws comes out as it is; a loss
   * becomes its `cause` if it has none.
   */
  withLock<T>(name: string, body: (lease: Lease) => T | PromiseLike<T>): Promise<T>
  withLock<T>(name: string, options: LockOptions | undefined, body: (lease: Lease) => T | PromiseLike<T>): Promise<T>

  /** Each server's state, after at most `timeout` milliseconds: a readiness probe. Rejects only when the client is closed. */
  ping(timeout: number): Promise<ServerState[]>

  /**
   * Who holds a lock, for how long, and how many wait. Changes nothing. Rejects with QUORLOCK_UNAVAILABLE, _REFUSED, _INVALID or
   * _CLOSED.
   */
  inspect(name: string): Promise<LockInfo>

  /**
   * Frees a lock whoever holds it, and hands it to the first waiter. Gives a new fencing token: above that of every lease so far,
   * and below that of every later one. The holder's lease is lost at its next renewal. Rejects with QUORLOCK_UNAVAILABLE
   * (`outcome` says whether it may have happened), _REFUSED, _INVALID or _CLOSED.
   */
  breakLock(name: string): Promise<number>

  /**
   * Counters and histograms of this client in this process, without a command to a server. Names of locks are not told apart, so
   * what a metrics system makes of it is bounded.
   */
  stats(): Stats

  /**
   * Refuses new calls, ends waits (QUORLOCK_CLOSED), waits up to `drain` for holders, signals the loss to those left, and
   * releases their locks.
   */
  close(options?: CloseOptions): Promise<void>

  /** `close()`, for `await using`. Never rejects. */
  [Symbol.asyncDispose](): Promise<void>
}

/** Who holds a lock, as far as it is known: another library, or a client that died more than a day ago, left only the label. */
export interface Holder {
  /** The name of its machine (of its container). */
  host?: string
  /** Its process id there. */
  pid?: number
  /** `rust`, `python`, `node`, `c`. */
  language?: string
  /** The version of quorlock that it uses. */
  version?: string
  /** When its client came into use, by its own clock. */
  since?: Date
  /** The label of the lock. */
  label?: string
}

/** A lock as the servers see it, for people: it may have changed when you read this. */
export interface LockInfo {
  /** Whether somebody holds it: on a quorum, the same owner on a majority of the servers. */
  held: boolean
  /** For how many milliseconds they will keep it, if it is not renewed; 0 if it is not held. */
  remaining: number
  /** Who holds it; null if nobody does. */
  holder: Holder | null
  /** How many stand in its queue, in all processes; those who can only poll do not. */
  waiters: number
  /** The largest fencing token given out so far; null if there was none for a day. */
  fence: number | null
}

/** How often something took how long. */
export interface Histogram {
  /** The upper bounds of all counts but the last, in milliseconds. */
  bounds: number[]
  /** How often it took at most as long as the bound of the same place, and longer than the one before. */
  counts: number[]
  /** How often in all. */
  count: number
  /** How many milliseconds in all. */
  sum: number
}

/** How one server has answered. */
export interface ServerStats {
  /** `host:port` or the socket's path; never the password. */
  address: string
  /** Questions that calls, waits and renewals had for it. */
  calls: number
  /** Those without a useful answer: it was down, silent or too slow, or it refused. */
  failures: number
}

/** What a client has done so far in this process. All but `waiting` and `holding` only grow. */
export interface Stats {
  /** Acquires under way now. */
  waiting: number
  /** Leases held now. */
  holding: number
  /** How often acquires have asked the servers for a lock. */
  attempts: number
  /** Acquires that gave a lease. */
  acquired: number
  /** Acquires that others made wait for too long: `tryAcquire` without success, too. */
  busy: number
  /** Acquires that too few servers answered. */
  unavailable: number
  /** Acquires that the servers refused for good. */
  refused: number
  /** Acquires that ended otherwise: aborted, or the client was closed. */
  cancelled: number
  /** Leases that were released. */
  released: number
  /** Leases that were garbage-collected unreleased. */
  abandoned: number
  /** Leases that were lost, by reason. */
  lost: Record<LostReason, number>
  /** How long acquires took, whatever their end. */
  wait: Histogram
  /** How long leases were held, whatever their end. */
  hold: Histogram
  /** Each server, in the order of the URLs. */
  servers: ServerStats[]
}

/** Why a lease was lost: its deadline passed, others have it, `maxHold` is over, or the client was closed. */
export type LostReason = 'expired' | 'taken' | 'max_hold' | 'closed'

/**
 * A lock that is held, until it is released or lost. One that is forgotten is no longer renewed, and ends with its TTL.
 * Only a client makes leases.
 */
export class Lease implements AsyncDisposable {
  private constructor()

  /** The lock's name. */
  readonly name: string

  /** The fencing token: larger than that of every earlier lease of the name. A store that refuses smaller ones is safe. */
  readonly fence: number

  /** Whether it is still held, by the local clock. Free. */
  readonly held: boolean

  /** Milliseconds for which it may still be relied on, by the local clock; 0 once it is released or lost. Free. */
  readonly remaining: number

  /** Why it was lost, if it was. */
  readonly lostReason: LostReason | undefined

  /**
   * Aborts with a QuorlockError when the lease is lost; never after its release. A blocked event loop delays it:
   * `remaining` and `ensureHeld()` know before. The signal does not keep the lease: one that is forgotten aborts it too.
   */
  readonly signal: AbortSignal

  /** @throws {QuorlockError} QUORLOCK_LOST, or QUORLOCK_CLOSED if it was released. Local and free. */
  ensureHeld(): void

  /** Asks the servers whether it is still ours; prolongs nothing. Rejects with QUORLOCK_LOST, _UNAVAILABLE or _CLOSED. */
  confirm(): Promise<void>

  /**
   * Sets the remaining time to `ttl` (by default the lease's own), counted from now; gives the new remaining, in
   * milliseconds. Rejects with QUORLOCK_LOST, _UNAVAILABLE, _INVALID or _CLOSED.
   */
  extend(ttl?: number): Promise<number>

  /** True; false if it was released before. Rejects with QUORLOCK_LOST if it was lost, and then touches nobody's lock. */
  release(): Promise<boolean>

  /** `release()`, for `await using`. Never rejects. */
  [Symbol.asyncDispose](): Promise<void>
}

/** What the caller should do about an error. These strings never change. */
export type QuorlockErrorCode =
  /** Others held the lock for the whole wait: try later. */
  | 'QUORLOCK_BUSY'
  /** The lease is over: stop the protected work. */
  | 'QUORLOCK_LOST'
  /** Too few servers answered usefully in time: retry with back-off. */
  | 'QUORLOCK_UNAVAILABLE'
  /** A store refused our fencing token: stop, a newer holder exists. */
  | 'QUORLOCK_STALE'
  /** A value kept changing: read again, decide again. */
  | 'QUORLOCK_CONFLICT'
  /** The servers said no for good: mend the server or the key. */
  | 'QUORLOCK_REFUSED'
  /** A wrong argument or option; nothing was sent: mend the code. */
  | 'QUORLOCK_INVALID'
  /** The client is closed, or the lease is released: make a new one. */
  | 'QUORLOCK_CLOSED'
  /** A bug of quorlock: report it. */
  | 'QUORLOCK_INTERNAL'

/** What one server said in the last round of a failed call. */
export interface ServerCause {
  /** `host:port` or the socket's path; never the password. */
  address: string
  /** The cause, in words. */
  cause: string
}

/** Every failure of quorlock. Its text, its properties and its JSON contain no password and no token. */
export class QuorlockError extends Error {
  private constructor()

  readonly name: 'QuorlockError'
  readonly code: QuorlockErrorCode
  /** The same in short: `busy`, `lost`, … */
  readonly kind: 'busy' | 'lost' | 'unavailable' | 'stale' | 'conflict' | 'refused' | 'invalid' | 'closed' | 'internal'
  /** The lock's name, if the error is about one (`name` is the class, as with every Error). */
  readonly lockName: string | undefined
  /** What each server said in the last round; empty if none was asked. */
  readonly servers: readonly ServerCause[]
  /** How many rounds were tried. */
  readonly attempts: number
  /** Milliseconds that the call took. */
  readonly elapsed: number
  /** For a write whose reply is missing: whether it took effect. */
  readonly outcome: 'not applied' | 'unknown' | undefined
  /** From `withLock` only: what the body gave although the lease was lost. */
  readonly result?: unknown

  toJSON(): object
}

/** What is published on the channels `quorlock:debug`, `:info`, `:warn` and `:error` of `node:diagnostics_channel`. */
export interface QuorlockEvent {
  level: 'debug' | 'info' | 'warn' | 'error'
  message: string
  /** `name`, `server`, `reason`, … */
  [field: string]: string
}

/** The version of this package. */
export const version: string
