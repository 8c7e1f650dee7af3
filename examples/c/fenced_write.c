/* Writes the state of an order to SQLite, safely even if this process stalls while it holds the lock.
 *
 *     fenced_write orders.db paid [seconds of work before the write]
 */
#include <quorlock.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "redis_urls.h"

static void die(const char *what, const char *why) {
    fprintf(stderr, "%s: %s\n", what, why);
    exit(1);
}

/* For calls of quorlock, whose last error is kept for each thread. */
static void check(quorlock_status status) {
    char message[512];
    if (status == QUORLOCK_OK) return;
    quorlock_last_error_message(message, sizeof message);
    die(quorlock_status_name(status), message);
}

/* The store remembers the largest fence that has written each row, and refuses a smaller one: 0 rows change. */
static const char *WRITE =
    "INSERT INTO orders (id, state, fence) VALUES (42, ?, ?)"
    " ON CONFLICT (id) DO UPDATE SET state = excluded.state, fence = excluded.fence WHERE fence <= excluded.fence";

/* Returns how many rows were changed. */
static int write_order(sqlite3 *db, const char *state, uint64_t fence) {
    sqlite3_stmt *write = NULL;
    if (sqlite3_prepare_v2(db, WRITE, -1, &write, NULL) != SQLITE_OK) die("sqlite", sqlite3_errmsg(db));
    sqlite3_bind_text(write, 1, state, -1, SQLITE_TRANSIENT);
    sqlite3_bind_int64(write, 2, (sqlite3_int64)fence);
    if (sqlite3_step(write) != SQLITE_DONE) die("sqlite", sqlite3_errmsg(db));
    sqlite3_finalize(write);
    return sqlite3_changes(db);
}

int main(int argc, char **argv) {
    if (argc < 3) die("usage", "fenced_write DATABASE STATE [SECONDS]");

    sqlite3 *db = NULL;
    if (sqlite3_open(argv[1], &db) != SQLITE_OK) die("sqlite", sqlite3_errmsg(db));
    sqlite3_busy_timeout(db, 5000);
    if (sqlite3_exec(db, "CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, state TEXT, fence INTEGER)",
                     NULL, NULL, NULL) != SQLITE_OK)
        die("sqlite", sqlite3_errmsg(db));

    const char *urls[16];
    quorlock_client *client = NULL;
    check(quorlock_client_new(urls, redis_urls(urls, 16), NULL, &client));

    /* It is renewed while we hold it. The short TTL means that others wait for a dead holder 2 s at most. */
    quorlock_lock_options options = QUORLOCK_LOCK_OPTIONS_INIT;
    options.ttl_ms = 2000;
    options.wait_ms = 5000;
    quorlock_lease *lease = NULL;
    check(quorlock_client_acquire(client, "orders/42", &options, &lease));
    uint64_t fence = quorlock_lease_fence(lease);
    printf("holding the lock with fence %llu\n", (unsigned long long)fence);
    fflush(stdout);

    /* Whatever has to be done first: ask the payment service, ... */
    if (argc > 3) usleep((useconds_t)(atof(argv[3]) * 1e6));

    /* A pause before this line (swapped out, suspended) may have been longer than the TTL. No check here could rule
     * out another one right after it; so the store has the last word. */
    if (write_order(db, argv[2], fence) == 0) die("refused", "a newer holder has written this order");
    puts("written");

    /* QUORLOCK_LOST if the lease was lost on the way, for what else had relied on it. */
    check(quorlock_lease_release(lease));
    quorlock_lease_free(lease);
    check(quorlock_client_close(client, 0)); /* the release has reached every server that answers */
    quorlock_client_free(client);
    sqlite3_close(db);
    return 0;
}
