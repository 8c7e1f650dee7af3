/* Long work under a lock: stops when the lease is lost, and in good order at SIGTERM.
 *
 *     long_work [parts of work, 100 ms each]
 */
#include <quorlock.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "redis_urls.h"

static quorlock_client *client = NULL;
static volatile sig_atomic_t stopping = 0;
static atomic_int lost = QUORLOCK_REASON_NONE;

static void on_sigterm(int number) {
    (void)number;
    stopping = 1;
    quorlock_client_interrupt(client); /* ends the wait for the lock; may be called in a signal handler */
}

/* Runs on a thread of the library: it only leaves a note. */
static void on_lost(void *user, int reason) {
    (void)user;
    atomic_store(&lost, reason);
}

static void check(quorlock_status status) {
    char message[512];
    if (status == QUORLOCK_OK) return;
    quorlock_last_error_message(message, sizeof message);
    fprintf(stderr, "%s: %s\n", quorlock_status_name(status), message);
    exit(1);
}

int main(int argc, char **argv) {
    int parts = argc > 1 ? atoi(argv[1]) : 100;
    setvbuf(stdout, NULL, _IOLBF, 0);

    const char *urls[16];
    check(quorlock_client_new(urls, redis_urls(urls, 16), NULL, &client));
    struct sigaction action = {.sa_handler = on_sigterm};
    sigaction(SIGTERM, &action, NULL);

    quorlock_lock_options options = QUORLOCK_LOCK_OPTIONS_INIT;
    options.ttl_ms = 3000;
    options.wait_ms = 5000;
    quorlock_lease *lease = NULL;
    quorlock_status status = quorlock_client_acquire(client, "reports/daily", &options, &lease);
    if (status == QUORLOCK_CANCELLED) return 0;
    check(status);
    check(quorlock_lease_on_lost(lease, on_lost, NULL));
    puts("holding the lock");

    /* It is renewed by a thread of the library, however long the work takes. */
    int part = 0;
    while (part < parts && !stopping && atomic_load(&lost) == QUORLOCK_REASON_NONE) {
        usleep(100 * 1000);
        printf("part %d of %d\n", ++part, parts);
    }

    if (atomic_load(&lost) != QUORLOCK_REASON_NONE) {
        fprintf(stderr, "lost the lock (reason %d): stopped\n", atomic_load(&lost));
        return 2;
    }
    puts(part == parts ? "done" : "stopped");
    check(quorlock_lease_release(lease));
    quorlock_lease_free(lease);
    /* In a program with more than one thread: refuses new locks, and gives the holders 5 s to finish. */
    check(quorlock_client_close(client, 5000));
    quorlock_client_free(client);
    return 0;
}
