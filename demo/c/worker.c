/*
 * The demo's worker in C: adds 1 to a counter in SQLite, again and again, under the lock that all workers share.
 *
 * Arguments: the database, how many increments, the increment at which to pause, `fenced` or `unfenced`, the servers'
 * URLs.
 */
#define _POSIX_C_SOURCE 200809L
#include <quorlock.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static quorlock_client *client;
static sqlite3 *store;
static sqlite3_stmt *read_value, *write_value;
static bool fenced;

static void tell(const char *event, const char *detail, uint64_t number) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    printf("{\"event\": \"%s\", \"t\": %lld", event, now.tv_sec * 1000000000LL + now.tv_nsec);
    if (detail) printf(", \"%s\": %llu", detail, (unsigned long long)number);
    printf("}\n");
    fflush(stdout);
}

static void sleep_ms(long ms) {
    nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
}

static void next_order(void) {
    char line[16];
    if (!fgets(line, sizeof line, stdin)) exit(1);
}

static void must(quorlock_status status) {
    if (status == QUORLOCK_OK) return;
    char why[1024];
    quorlock_last_error_message(why, sizeof why);
    fprintf(stderr, "%s\n", why);
    exit(1);
}

/* Tells how an attempt ended, if that is a thing to go on after. */
static void ended(quorlock_status status) {
    if (status == QUORLOCK_LOST) {
        tell("lost", NULL, 0);
    } else if (status == QUORLOCK_UNAVAILABLE) {
        tell("unavailable", NULL, 0);
    } else {
        must(status);
        tell("released", NULL, 0);
    }
}

static void must_sql(bool worked) {
    if (worked) return;
    fprintf(stderr, "%s\n", sqlite3_errmsg(store));
    exit(1);
}

/* False if the store has seen a larger fence; else the value, and from here on the store refuses smaller fences. */
static bool read_counter(uint64_t fence, int64_t *value) {
    sqlite3_bind_int64(read_value, 1, (sqlite3_int64)fence);
    int got = sqlite3_step(read_value);
    must_sql(got == SQLITE_ROW || got == SQLITE_DONE);
    if (got == SQLITE_ROW) *value = sqlite3_column_int64(read_value, 0);
    must_sql(sqlite3_reset(read_value) == SQLITE_OK);
    return got == SQLITE_ROW;
}

/* False if the store has seen a larger fence: the write came too late. */
static bool write_counter(int64_t value, uint64_t fence) {
    sqlite3_bind_int64(write_value, 1, value);
    sqlite3_bind_int64(write_value, 2, (sqlite3_int64)fence);
    must_sql(sqlite3_step(write_value) == SQLITE_DONE);
    must_sql(sqlite3_reset(write_value) == SQLITE_OK);
    return sqlite3_changes(store) == 1;
}

static bool add_one_with(const quorlock_lease *lease, bool pause) {
    /* Without fencing every holder looks the same to the store. */
    uint64_t fence = fenced ? quorlock_lease_fence(lease) : 0;
    int64_t value = 0;
    bool allowed = read_counter(fence, &value);
    sleep_ms(10); /* the work */
    if (quorlock_lease_ensure_held(lease) != QUORLOCK_OK) return false;
    if (pause) { /* Between the check and the write: no check of the lease can be the last thing that happens. */
        tell("paused", "remaining_ms", quorlock_lease_remaining_ms(lease));
        next_order();
    }
    bool written = allowed && write_counter(value + 1, fence);
    tell(written ? "wrote" : "refused", NULL, 0);
    return written;
}

/* Whether the increment was written: else it is to be tried again. */
static bool add_one(bool pause) {
    quorlock_lock_options options = QUORLOCK_LOCK_OPTIONS_INIT;
    options.ttl_ms = 1500;
    options.wait_ms = 60000;
    quorlock_lease *lease = NULL;
    tell("asked", NULL, 0);
    quorlock_status status = quorlock_client_acquire(client, "counter", &options, &lease);
    bool written = false;
    if (status == QUORLOCK_OK) {
        tell("acquired", "fence", quorlock_lease_fence(lease));
        written = add_one_with(lease, pause);
        status = quorlock_lease_release(lease);
        quorlock_lease_free(lease);
    }
    ended(status);
    return written;
}

int main(int argc, char **argv) {
    if (argc < 6) return 2;
    int increments = atoi(argv[2]), pause_at = atoi(argv[3]);
    fenced = strcmp(argv[4], "fenced") == 0;
    must(quorlock_client_new((const char *const *)argv + 5, (size_t)argc - 5, NULL, &client));
    must_sql(sqlite3_open(argv[1], &store) == SQLITE_OK);
    sqlite3_busy_timeout(store, 10000);
    const char *read_sql = "UPDATE counter SET fence = ?1 WHERE fence <= ?1 RETURNING value";
    const char *write_sql = "UPDATE counter SET value = ? WHERE fence <= ?";
    must_sql(sqlite3_prepare_v2(store, read_sql, -1, &read_value, NULL) == SQLITE_OK);
    must_sql(sqlite3_prepare_v2(store, write_sql, -1, &write_value, NULL) == SQLITE_OK);

    tell("ready", NULL, 0);
    next_order();
    bool paused = false;
    for (int done = 0; done < increments;) {
        bool pause = done + 1 == pause_at && !paused;
        paused = paused || pause;
        done += add_one(pause);
        sleep_ms(20); /* its other work */
    }
    sqlite3_finalize(read_value);
    sqlite3_finalize(write_value);
    sqlite3_close(store);
    quorlock_client_free(client);
}
