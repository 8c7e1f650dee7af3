/*
 * quorlock: distributed locks on Redis and Valkey.
 *
 * - A function that can fail returns a quorlock_status; QUORLOCK_OK is 0. The quorlock_last_error
 *   functions tell more about the last failure on the same thread.
 * - The object comes first, then inputs, then outputs. Outputs are set to NULL or 0 first, and filled
 *   only on QUORLOCK_OK.
 * - Durations are whole milliseconds, in uint32_t with a name that ends in _ms. 0 means 0;
 *   QUORLOCK_FOREVER and QUORLOCK_DEFAULT are the two special values.
 * - Strings that go in are UTF-8, end in NUL, and are copied. Strings that come out go to a buffer of
 *   the caller, as with snprintf: ended by NUL if len is not 0, cut at a whole character, and the full
 *   length without the NUL is returned. Only the two handles have to be freed.
 * - Handles may be used by any thread, and by several at once: that is what const says here. The call
 *   of _free comes after every other one, once; NULL is fine.
 * - NULL where it is not allowed, bad UTF-8, or an unknown value gives QUORLOCK_INVALID and a message
 *   that names the parameter. A bug in the library is QUORLOCK_INTERNAL; it does not end the process.
 * - Callbacks run on a thread of the library, or on one that waits inside a call of it. They return soon and throw no C++ exception; functions
 *   that block give QUORLOCK_INVALID there, instead of a deadlock.
 * - After fork, a client works in the child too. A lease belongs to the process that acquired it: in
 *   the child its functions give QUORLOCK_CLOSED, and freeing it does nothing.
 * - The library installs no signal handler and raises no SIGPIPE; its threads block all signals.
 */


#ifndef QUORLOCK_H
#define QUORLOCK_H

/* Made by cbindgen from bindings-c/src: QUORLOCK_BLESS=1 cargo test -p quorlock-c makes it anew. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** The version of this header. quorlock_version() gives that of the library. */
#define QUORLOCK_VERSION "0.1.0"
#define QUORLOCK_VERSION_MAJOR 0
#define QUORLOCK_VERSION_MINOR 1
#define QUORLOCK_VERSION_PATCH 0


/** Fields in order, see quorlock_lock_options. */
#define QUORLOCK_LOCK_OPTIONS_INIT                                                      \
    {                                                                                   \
        sizeof(quorlock_lock_options), QUORLOCK_DEFAULT, QUORLOCK_DEFAULT,              \
            QUORLOCK_DEFAULT, QUORLOCK_DEFAULT, NULL                                    \
    }

/** Fields in order, see quorlock_client_options. */
#define QUORLOCK_CLIENT_OPTIONS_INIT                                                    \
    {                                                                                   \
        sizeof(quorlock_client_options), QUORLOCK_DEFAULT, QUORLOCK_DEFAULT,            \
            QUORLOCK_DEFAULT, QUORLOCK_DEFAULT, QUORLOCK_DEFAULT, QUORLOCK_DEFAULT,     \
            NULL, NULL, NULL, NULL, NULL                                                \
    }

/**
 * No limit, where a duration may be without one.
 */
#define QUORLOCK_FOREVER 4294967295

/**
 * In any numeric field, and as the ttl_ms of quorlock_lease_extend: the default.
 */
#define QUORLOCK_DEFAULT 4294967294

/**
 * What came of a call. The numbers stay as they are; new ones may be added.
 */
enum quorlock_status
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    /**
     * It worked.
     */
    QUORLOCK_OK = 0,
    /**
     * Others held the lock for the whole wait: try later.
     */
    QUORLOCK_BUSY = 1,
    /**
     * The lease is over, expired or taken by others: stop the protected work.
     */
    QUORLOCK_LOST = 2,
    /**
     * Too few servers answered usefully in time: retry with back-off.
     */
    QUORLOCK_UNAVAILABLE = 3,
    /**
     * A store refused our fencing token: stop, a newer holder exists.
     */
    QUORLOCK_STALE = 4,
    /**
     * A value kept changing and the retries are spent: read again, decide again.
     */
    QUORLOCK_CONFLICT = 5,
    /**
     * The servers said no for good (rights, password, type of the key): mend the server or the key.
     */
    QUORLOCK_REFUSED = 6,
    /**
     * A wrong argument or option; nothing was sent: mend the code.
     */
    QUORLOCK_INVALID = 7,
    /**
     * The client is closed, the lease is released already, or it was acquired in another process.
     */
    QUORLOCK_CLOSED = 8,
    /**
     * A bug of ours: report it.
     */
    QUORLOCK_INTERNAL = 9,
    /**
     * quorlock_client_interrupt ended the wait.
     */
    QUORLOCK_CANCELLED = 10,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum quorlock_status quorlock_status;
#else
typedef int32_t quorlock_status;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/**
 * For a write whose reply is missing: whether it took effect.
 */
enum quorlock_outcome
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    /**
     * The error is not about a write.
     */
    QUORLOCK_OUTCOME_NONE = 0,
    /**
     * It was never sent, or the server refused it.
     */
    QUORLOCK_OUTCOME_NOT_APPLIED = 1,
    /**
     * It was sent and no reply came: it may have happened.
     */
    QUORLOCK_OUTCOME_UNKNOWN = 2,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum quorlock_outcome quorlock_outcome;
#else
typedef int32_t quorlock_outcome;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/**
 * Why a lease was lost.
 */
enum quorlock_lost_reason
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    /**
     * It is not lost.
     */
    QUORLOCK_REASON_NONE = 0,
    /**
     * Its deadline passed without a confirmed renewal.
     */
    QUORLOCK_REASON_EXPIRED = 1,
    /**
     * The servers say that it is not ours any more.
     */
    QUORLOCK_REASON_TAKEN = 2,
    /**
     * max_hold_ms is over.
     */
    QUORLOCK_REASON_MAX_HOLD = 3,
    /**
     * The client was closed while it was held.
     */
    QUORLOCK_REASON_CLOSED = 4,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum quorlock_lost_reason quorlock_lost_reason;
#else
typedef int32_t quorlock_lost_reason;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/**
 * How grave an event is.
 */
enum quorlock_log_level
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    /**
     * For tracking down a fault.
     */
    QUORLOCK_LOG_DEBUG = 1,
    /**
     * Normal, but worth knowing.
     */
    QUORLOCK_LOG_INFO = 2,
    /**
     * Something that somebody should look at.
     */
    QUORLOCK_LOG_WARN = 3,
    /**
     * Something failed for good.
     */
    QUORLOCK_LOG_ERROR = 4,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum quorlock_log_level quorlock_log_level;
#else
typedef int32_t quorlock_log_level;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/**
 * Its servers, and the entry to everything.
 */
typedef struct quorlock_client quorlock_client;

/**
 * A lock that is held, until it is released, lost or freed.
 */
typedef struct quorlock_lease quorlock_lease;

/**
 * How to take a lock. Begin with QUORLOCK_LOCK_OPTIONS_INIT (or quorlock_lock_options_init) and set what you
 * want.
 */
typedef struct quorlock_lock_options {
    /**
     * sizeof(quorlock_lock_options): tells which fields your program knows.
     */
    size_t size;
    /**
     * How long the servers keep the lock without renewal: at least twice server_timeout_ms. Default: that of
     * the client.
     */
    uint32_t ttl_ms;
    /**
     * How long an acquire may take in all; 0 tries once, QUORLOCK_FOREVER has no limit. Default: that of the
     * client.
     */
    uint32_t wait_ms;
    /**
     * 1 renews the lease at every third of its TTL; 0 lets it end. Default: 1.
     */
    uint32_t renew;
    /**
     * Renewal stops this long after the grant, and the lease is lost. Default: QUORLOCK_FOREVER.
     */
    uint32_t max_hold_ms;
    /**
     * A text for people, at most 256 bytes, shown in errors and events; NULL for that of the client.
     */
    const char *label;
} quorlock_lock_options;

/**
 * Options of a client. Begin with QUORLOCK_CLIENT_OPTIONS_INIT (or quorlock_client_options_init).
 */
typedef struct quorlock_client_options {
    /**
     * sizeof(quorlock_client_options): tells which fields your program knows.
     */
    size_t size;
    /**
     * TTL of its locks. Default: 30000.
     */
    uint32_t ttl_ms;
    /**
     * Wait of its locks. Default: QUORLOCK_FOREVER.
     */
    uint32_t wait_ms;
    /**
     * Limit for one server and one call. Default: 50. Raise it for TLS or far servers.
     */
    uint32_t server_timeout_ms;
    /**
     * 1: the lock's key is the name itself, shared with other libraries that use a plain string key. Default:
     * 0.
     */
    uint32_t exact_keys;
    /**
     * How long a waiter to whom the lock is handed may take to claim it. Default: 1000.
     */
    uint32_t claim_window_ms;
    /**
     * Part of the TTL set aside for clocks that run at different rates, from 0 to 0.5. Default: 0.01.
     */
    double drift;
    /**
     * Label of its locks; NULL for none.
     */
    const char *label;
    /**
     * What every key begins with, without braces; NULL for "lock:".
     */
    const char *prefix;
    /**
     * PEM file with the certificate authorities to trust (with rediss://); NULL for those of the system.
     */
    const char *ca_file;
    /**
     * PEM file with the client's certificate, or NULL.
     */
    const char *client_cert;
    /**
     * PEM file with the client's private key, or NULL.
     */
    const char *client_key;
} quorlock_client_options;

/**
 * What quorlock_client_ping tells of one server: its address (host:port or a socket's path, never a password),
 * and either the round trip in microseconds with `cause` NULL, or why there was no answer. The strings live
 * during the call.
 */
typedef void (*quorlock_ping_fn)(void *user, const char *address, uint64_t round_trip_us, const char *cause);

/**
 * What is called when a lease is lost; `reason` is one of quorlock_lost_reason.
 */
typedef void (*quorlock_lost_fn)(void *user, int reason);

/**
 * A lock as the servers see it, for people: it may have changed when you read this. What is not known of the holder is
 * NULL or 0: all but the label, if another library holds the lock.
 */
typedef struct quorlock_lock_info {
    /**
     * 1 if somebody holds it: on a quorum, the same owner on a majority of the servers.
     */
    uint32_t held;
    /**
     * The holder's process id on its machine.
     */
    uint32_t holder_pid;
    /**
     * For how long they will keep it, if it is not renewed; 0 if it is not held.
     */
    uint64_t remaining_ms;
    /**
     * How many stand in its queue, in all processes; those who can only poll do not.
     */
    uint64_t waiters;
    /**
     * The largest fencing token given out so far; 0 if there was none for a day.
     */
    uint64_t fence;
    /**
     * When the holder's client came into use, by its own clock: milliseconds since 1970.
     */
    uint64_t holder_since_ms;
    /**
     * The name of the holder's machine (of its container).
     */
    const char *holder_host;
    /**
     * "rust", "python", "node" or "c".
     */
    const char *holder_language;
    /**
     * The version of quorlock that the holder uses.
     */
    const char *holder_version;
    /**
     * The label of the lock.
     */
    const char *label;
} quorlock_lock_info;

/**
 * Takes what quorlock_client_inspect found. The struct and its strings live during the call.
 */
typedef void (*quorlock_inspect_fn)(void *user, const struct quorlock_lock_info *lock);

/**
 * How often something took how long. The bounds are 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 30000
 * and 60000 ms; a count is of what took at most as long as the bound of the same place, and longer than the one
 * before, the last of what took longer than all.
 */
typedef struct quorlock_histogram {
    uint64_t counts[16];
    /**
     * How often in all.
     */
    uint64_t count;
    /**
     * How long in all.
     */
    uint64_t sum_ms;
} quorlock_histogram;

/**
 * What a client has done so far in this process. All but `waiting` and `holding` only grow.
 */
typedef struct quorlock_stats {
    /**
     * Acquires under way now.
     */
    uint64_t waiting;
    /**
     * Leases held now.
     */
    uint64_t holding;
    /**
     * How often acquires have asked the servers for a lock.
     */
    uint64_t attempts;
    /**
     * Acquires that gave a lease.
     */
    uint64_t acquired;
    /**
     * Acquires that others made wait for too long.
     */
    uint64_t busy;
    /**
     * Acquires that too few servers answered.
     */
    uint64_t unavailable;
    /**
     * Acquires that the servers refused for good.
     */
    uint64_t refused;
    /**
     * Acquires that ended otherwise: interrupted, or the client was closed.
     */
    uint64_t cancelled;
    /**
     * Leases that were released or freed.
     */
    uint64_t released;
    /**
     * Lost leases whose deadline had passed.
     */
    uint64_t lost_expired;
    /**
     * Lost leases that others had taken.
     */
    uint64_t lost_taken;
    /**
     * Lost leases whose max_hold_ms was over.
     */
    uint64_t lost_max_hold;
    /**
     * Lost leases of a client that was closed.
     */
    uint64_t lost_closed;
    /**
     * How long acquires took, whatever their end.
     */
    struct quorlock_histogram wait;
    /**
     * How long leases were held, whatever their end.
     */
    struct quorlock_histogram hold;
} quorlock_stats;

/**
 * How one server has answered: its address (never a password), the questions that calls, waits and renewals had for it,
 * and those without a useful answer. The string lives during the call.
 */
typedef void (*quorlock_server_stats_fn)(void *user, const char *address, uint64_t calls, uint64_t failures);

/**
 * What is called for each event: `level` is one of quorlock_log_level; `message` is one line, such as
 * lease lost name=orders/42 fence=7 reason=expired, and lives during the call.
 */
typedef void (*quorlock_log_fn)(void *user, int level, const char *message);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * The status of the last failure on this thread; QUORLOCK_OK if there was none. A success leaves the last
 * error as it is, like errno.
 */
quorlock_status quorlock_last_error_status(void);

/**
 * The text of the last failure on this thread: what happened, the lock's name, the effort, and what each
 * server said; "" if there was none. It is for people; programs look at the functions below.
 */
size_t quorlock_last_error_message(char *buf, size_t len);

/**
 * The name of the lock that the last error is about; "" if it is about none.
 */
size_t quorlock_last_error_name(char *buf, size_t len);

/**
 * How many rounds of asking the servers the failed call tried.
 */
uint32_t quorlock_last_error_attempts(void);

/**
 * How long the failed call took.
 */
uint32_t quorlock_last_error_elapsed_ms(void);

/**
 * For a write whose reply is missing: whether it took effect.
 */
quorlock_outcome quorlock_last_error_outcome(void);

/**
 * How many servers the last error tells about.
 */
size_t quorlock_last_error_server_count(void);

/**
 * The address of server number `index` (from 0) of the last error: host:port or a socket's path, never a
 * password; "" if there are not so many.
 */
size_t quorlock_last_error_server_address(size_t index, char *buf, size_t len);

/**
 * What server number `index` (from 0) of the last error said, or why it said nothing; "" if there are not so
 * many.
 */
size_t quorlock_last_error_server_cause(size_t index, char *buf, size_t len);

/**
 * The name of a status: "ok", "busy", "lost", ... "unknown" for a number that is none. The text is static.
 */
const char *quorlock_status_name(int32_t status);

/**
 * Sets every field to its default, as QUORLOCK_LOCK_OPTIONS_INIT does.
 */
quorlock_status quorlock_lock_options_init(struct quorlock_lock_options *options);

/**
 * Sets every field to its default, as QUORLOCK_CLIENT_OPTIONS_INIT does.
 */
quorlock_status quorlock_client_options_init(struct quorlock_client_options *options);

/**
 * Makes a client of `n` URLs, without I/O: one is one server; three or more are a quorum of independent
 * servers. redis://[user:password@]host[:port][/db], rediss:// (TLS), unix:///path/to/socket. `options` may be
 * NULL. QUORLOCK_INVALID for a bad URL or option, or the same address twice.
 */
quorlock_status quorlock_client_new(const char *const *urls,
                                    size_t n,
                                    const struct quorlock_client_options *options,
                                    struct quorlock_client **client);

/**
 * Frees the client. Leases of it go on, renewed, until they are released or freed; quorlock_client_close ends
 * them.
 */
void quorlock_client_free(struct quorlock_client *client);

/**
 * Takes the lock `name`, waiting as the options say (NULL: as the client's say). QUORLOCK_OK gives a lease, to
 * be released and freed. QUORLOCK_BUSY: others held it for the whole wait. QUORLOCK_UNAVAILABLE: too few
 * servers answered. QUORLOCK_REFUSED, QUORLOCK_INVALID, QUORLOCK_CLOSED; QUORLOCK_CANCELLED after
 * quorlock_client_interrupt. Whatever ends it, a failed call leaves no lock behind. Signals do not end the
 * wait.
 */
quorlock_status quorlock_client_acquire(const struct quorlock_client *client,
                                        const char *name,
                                        const struct quorlock_lock_options *options,
                                        struct quorlock_lease **lease);

/**
 * As quorlock_client_acquire, with a name of `name_len` bytes that need not end in NUL.
 */
quorlock_status quorlock_client_acquire_n(const struct quorlock_client *client,
                                          const char *name,
                                          size_t name_len,
                                          const struct quorlock_lock_options *options,
                                          struct quorlock_lease **lease);

/**
 * As quorlock_client_acquire, but tries once, whatever wait_ms says. QUORLOCK_BUSY if others hold the lock: an
 * outcome to expect. QUORLOCK_OK always means that you hold it.
 */
quorlock_status quorlock_client_try_acquire(const struct quorlock_client *client,
                                            const char *name,
                                            const struct quorlock_lock_options *options,
                                            struct quorlock_lease **lease);

/**
 * Asks every server for a sign of life, in parallel, for at most `timeout_ms`; then calls `each` for one after
 * the other, in the order of the URLs, on this thread. QUORLOCK_OK even if none answered: count in `each`. A
 * readiness probe.
 */
quorlock_status quorlock_client_ping(const struct quorlock_client *client,
                                     uint32_t timeout_ms,
                                     quorlock_ping_fn each,
                                     void *user);

/**
 * Refuses new calls and ends waits (QUORLOCK_CLOSED), waits up to `drain_ms` for holders to finish, tells
 * those left that their lease is lost, and releases it. Handles stay valid until they are freed.
 */
quorlock_status quorlock_client_close(const struct quorlock_client *client, uint32_t drain_ms);

/**
 * Ends the waits of the moment, in all threads, with QUORLOCK_CANCELLED; later calls are as before. On Linux it may be
 * called in a signal handler.
 */
void quorlock_client_interrupt(const struct quorlock_client *client);

/**
 * Frees the lease. One that is still held is released in the background; in a forked child nothing is done. No
 * on_lost callback runs after this returned. It may be called in that callback.
 */
void quorlock_lease_free(struct quorlock_lease *lease);

/**
 * The fencing token: below 2^53, and larger than that of every earlier lease of the name. Give it to the store
 * with each write, and let the store refuse a smaller one than it has seen. 0 for NULL.
 */
uint64_t quorlock_lease_fence(const struct quorlock_lease *lease);

/**
 * The lock's name.
 */
size_t quorlock_lease_name(const struct quorlock_lease *lease, char *buf, size_t len);

/**
 * Whether it is still held, by the local clock, which runs through suspend. Free: no network.
 */
bool quorlock_lease_held(const struct quorlock_lease *lease);

/**
 * How long it may still be relied on, by the local clock; 0 once released, lost, or in another process. Free.
 */
uint32_t quorlock_lease_remaining_ms(const struct quorlock_lease *lease);

/**
 * QUORLOCK_OK while it is held; QUORLOCK_LOST; QUORLOCK_CLOSED if it was released, or acquired in another
 * process. Free.
 */
quorlock_status quorlock_lease_ensure_held(const struct quorlock_lease *lease);

/**
 * Why it was lost; QUORLOCK_REASON_NONE if it was not.
 */
quorlock_lost_reason quorlock_lease_lost_reason(const struct quorlock_lease *lease);

/**
 * Asks the servers whether it is still ours; prolongs nothing. QUORLOCK_LOST, QUORLOCK_UNAVAILABLE or
 * QUORLOCK_CLOSED otherwise.
 */
quorlock_status quorlock_lease_confirm(const struct quorlock_lease *lease);

/**
 * Sets the remaining time to `ttl_ms` from now (never adds); QUORLOCK_DEFAULT for the lease's own TTL.
 * `remaining_ms` gets the new remaining time, and may be NULL.
 */
quorlock_status quorlock_lease_extend(const struct quorlock_lease *lease,
                                      uint32_t ttl_ms,
                                      uint32_t *remaining_ms);

/**
 * Releases the lock and keeps the handle, which is still to be freed. QUORLOCK_OK: this call released it.
 * QUORLOCK_CLOSED: it was released before. QUORLOCK_LOST: it was lost; the lock of whoever has it now is not
 * touched.
 */
quorlock_status quorlock_lease_release(const struct quorlock_lease *lease);

/**
 * Waits for the loss of the lease, at most `timeout_ms` (or QUORLOCK_FOREVER). `reason` gets one of
 * quorlock_lost_reason: QUORLOCK_REASON_NONE if it is not lost by then, or was released meanwhile. It may be
 * NULL.
 */
quorlock_status quorlock_lease_wait_lost(const struct quorlock_lease *lease,
                                         uint32_t timeout_ms,
                                         quorlock_lost_reason *reason);

/**
 * Calls `callback` once when the lease is lost (soon, if it is lost already), on a thread of the library or on one that
 * waits in a call of it. It replaces the previous callback; NULL only removes it. After this returned, the previous one
 * does not run any more, unless this was called inside of it. Not called after a release.
 */
quorlock_status quorlock_lease_on_lost(const struct quorlock_lease *lease,
                                       quorlock_lost_fn callback,
                                       void *user);

/**
 * Asks who holds the lock `name`, for how long, and how many wait; changes nothing. Then calls `found` once, on this
 * thread. QUORLOCK_UNAVAILABLE, QUORLOCK_REFUSED, QUORLOCK_INVALID, QUORLOCK_CLOSED: `found` is not called.
 */
quorlock_status quorlock_client_inspect(const struct quorlock_client *client,
                                        const char *name,
                                        quorlock_inspect_fn found,
                                        void *user);

/**
 * Frees the lock `name` whoever holds it, and hands it to the first waiter. `fence` gets a new fencing token: above that
 * of every lease so far, and below that of every later one. The holder's lease is lost at its next renewal.
 * QUORLOCK_UNAVAILABLE (it may have happened), QUORLOCK_REFUSED, QUORLOCK_INVALID, QUORLOCK_CLOSED.
 */
quorlock_status quorlock_client_break_lock(const struct quorlock_client *client,
                                           const char *name,
                                           uint64_t *fence);

/**
 * Counters and histograms of this client in this process, without a command to a server. `size` is sizeof *stats. Calls
 * `each`, if it is not NULL, for one server after the other, in the order of the URLs, on this thread. Works on a
 * closed client, too.
 */
quorlock_status quorlock_client_stats(const struct quorlock_client *client,
                                      struct quorlock_stats *stats,
                                      size_t size,
                                      quorlock_server_stats_fn each,
                                      void *user);

/**
 * Sends every event of this process to `callback`, on whichever thread it happens, also on several at once. It
 * replaces the previous one; NULL only removes it. After this returned, the previous one does not run any more. Not
 * to be called in such a callback. A forked child has no callback until it sets its own.
 */
quorlock_status quorlock_set_log(quorlock_log_fn callback,
                                 void *user);

/**
 * The version of the library as "MAJOR.MINOR.PATCH". Compare it with QUORLOCK_VERSION, that of the header.
 */
const char *quorlock_version(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* QUORLOCK_H */
