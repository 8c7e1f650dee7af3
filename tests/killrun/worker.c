/*
 * The kill run's worker in C: takes the lock, works behind the store's check, and so on until SIGTERM.
 *
 * Arguments: the lock's servers (URLs with commas between), the store's port, the lock's name, this worker's name, a
 * seed, TTL and server_timeout in ms. What it tells, and what it does at random, is in tests/README.md.
 */
#define _DEFAULT_SOURCE
#include <arpa/inet.h>
#include <quorlock.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>

static quorlock_client *client;
static volatile sig_atomic_t stopping;
static uint64_t dice;
static FILE *store;

static void tell(const char *event, const char *detail) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    printf("%s %lld.%06ld %s\n", event, (long long)now.tv_sec, now.tv_nsec / 1000, detail);
    fflush(stdout);
}

static void must(quorlock_status status) {
    if (status == QUORLOCK_OK) return;
    char why[1024];
    quorlock_last_error_message(why, sizeof why);
    fprintf(stderr, "%s\n", why);
    exit(1);
}

/* The same numbers in every language. */
static uint32_t pick(uint32_t below) {
    dice = dice * 48271 % 2147483647;
    return (uint32_t)(dice % below);
}

/* SIGALRM cancels a wait, SIGTERM ends the program. */
static void on_signal(int signal) {
    if (signal == SIGTERM) stopping = 1;
    quorlock_client_interrupt(client);
}

static void alarm_after_ms(uint32_t ms) {
    struct itimerval timer = {.it_value = {.tv_usec = ms * 1000L}};
    setitimer(ITIMER_REAL, &timer, NULL);
}

static void open_store(const char *port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int connection = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(connection, (struct sockaddr *)&address, sizeof address) == 0) store = fdopen(connection, "r");
    if (store) return;
    perror("store");
    exit(1);
}

/* The store's value, or -1 if it refuses; `value` is "" to enter. */
static long long act(const char *body, uint64_t fence, const char *value) {
    char reply[256];
    dprintf(fileno(store), "FCALL act 0 %s %llu %s\r\n", body, (unsigned long long)fence, value);
    if (fgets(reply, sizeof reply, store) && reply[0] == ':') return atoll(reply + 1);
    fprintf(stderr, "the store does not answer\n");
    exit(1);
}

static quorlock_lease *acquire(const char *name) {
    quorlock_lock_options options = QUORLOCK_LOCK_OPTIONS_INIT;
    uint32_t plan = pick(10);
    if (plan < 2) {
        alarm_after_ms(1 + pick(300));
    } else if (plan < 3) {
        options.wait_ms = 1 + pick(200);
    } else if (plan < 6) {
        options.wait_ms = 5000;
    }
    tell("wait", "");
    quorlock_lease *lease = NULL;
    quorlock_status status = quorlock_client_acquire(client, name, &options, &lease);
    alarm_after_ms(0);
    if (status == QUORLOCK_BUSY || status == QUORLOCK_UNAVAILABLE || status == QUORLOCK_CANCELLED) {
        tell("ended", quorlock_status_name(status));
    } else {
        must(status);
    }
    return lease;
}

static void work(quorlock_lease *lease, const char *body) {
    char text[32];
    uint64_t fence = quorlock_lease_fence(lease);
    snprintf(text, sizeof text, "%llu", (unsigned long long)fence);
    tell("granted", text);
    long long value = act(body, fence, "");
    if (value >= 0) {
        nanosleep(&(struct timespec){.tv_nsec = (5 + pick(46)) * 1000000L}, NULL);
        snprintf(text, sizeof text, "%lld", value + 1);
        value = act(body, fence, text);
    }
    if (value < 0) tell("refused", quorlock_lease_held(lease) ? "held" : "lost");
    quorlock_status status = quorlock_lease_release(lease);
    if (status == QUORLOCK_LOST || status == QUORLOCK_UNAVAILABLE) {
        tell("unreleased", quorlock_status_name(status));
    } else {
        must(status);
        tell("released", "");
    }
    quorlock_lease_free(lease);
}

int main(int argc, char **argv) {
    if (argc != 8) return 2;
    const char *urls[8];
    size_t n = 0;
    for (char *url = strtok(argv[1], ","); url && n < 8; url = strtok(NULL, ",")) urls[n++] = url;
    const char *name = argv[3], *me = argv[4];
    dice = strtoull(argv[5], NULL, 10);
    quorlock_client_options options = QUORLOCK_CLIENT_OPTIONS_INIT;
    options.ttl_ms = (uint32_t)atoi(argv[6]);
    options.server_timeout_ms = (uint32_t)atoi(argv[7]);
    must(quorlock_client_new(urls, n, &options, &client));
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    open_store(argv[2]);
    for (int bodies = 0; !stopping;) {
        quorlock_lease *lease = acquire(name);
        if (!lease) continue;
        char body[64];
        snprintf(body, sizeof body, "%s.%d", me, ++bodies);
        work(lease, body);
    }
    must(quorlock_client_close(client, 0));
    quorlock_client_free(client);
    fclose(store);
}
