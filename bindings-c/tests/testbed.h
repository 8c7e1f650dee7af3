/*
 * What the C tests share: real servers by quorlock-testbed (see tests/README.md), checks, threads, child processes.
 * A failed check ends the program with its place and the thread's last error.
 */
#ifndef TESTBED_H
#define TESTBED_H

#define _XOPEN_SOURCE 700
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <quorlock.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* A loaded machine may be late by this much. Lower bounds have no such allowance. */
#define SLACK_MS 1500

/* ---- checks ---- */

static inline void fail(const char *file, int line, const char *what) {
    char text[2000];
    quorlock_last_error_message(text, sizeof text);
    fprintf(stderr, "%s:%d: %s\n  last error: %s: %s\n", file, line, what,
            quorlock_status_name(quorlock_last_error_status()), text);
    exit(1);
}

#define CHECK(condition) ((condition) ? (void)0 : fail(__FILE__, __LINE__, #condition))

static inline void check_range(const char *file, int line, const char *what, double least, double most, double is) {
    if (is >= least && is <= most) return;
    char text[500];
    snprintf(text, sizeof text, "%s is %.1f, not %.1f..%.1f", what, is, least, most);
    fail(file, line, text);
}

#define CHECK_RANGE(least, most, value) check_range(__FILE__, __LINE__, #value, least, most, (double)(value))

static inline void check_status(const char *file, int line, const char *call, int expected, int got) {
    if (got == expected) return;
    char text[500];
    snprintf(text, sizeof text, "%s gave %s, not %s", call, quorlock_status_name(got), quorlock_status_name(expected));
    fail(file, line, text);
}

/* The call must give QUORLOCK_<status>. */
#define GIVES(status, call) check_status(__FILE__, __LINE__, #call, QUORLOCK_##status, call)

/* Whether the thread's last error has this text in its message. */
static inline bool error_says(const char *text) {
    char message[2000];
    quorlock_last_error_message(message, sizeof message);
    return strstr(message, text) != NULL;
}

/* ---- time ---- */

static inline double now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static inline void sleep_ms(int ms) {
    struct timespec left = {ms / 1000, ms % 1000 * 1000000L};
    while (nanosleep(&left, &left) != 0 && errno == EINTR) {
    }
}

/* Looks again and again until the condition holds; fails after `ms`. */
#define UNTIL(ms, condition)                                                                       \
    for (double end_ = now_ms() + (ms); !(condition); sleep_ms(2))                                  \
    CHECK(now_ms() < end_ && #condition)

/* ---- servers ---- */

static FILE *bed_in, *bed_out;

static inline void bed_start(void) {
    const char *path = getenv("QUORLOCK_TESTBED");
    int in[2], out[2];
    CHECK(path && pipe(in) == 0 && pipe(out) == 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        dup2(in[0], 0);
        dup2(out[1], 1);
        close(in[0]), close(in[1]), close(out[0]), close(out[1]);
        execl(path, path, (char *)NULL);
        _exit(127);
    }
    close(in[0]), close(out[1]);
    fcntl(in[1], F_SETFD, FD_CLOEXEC);
    fcntl(out[0], F_SETFD, FD_CLOEXEC);
    bed_in = fdopen(in[1], "w");
    bed_out = fdopen(out[0], "r");
    CHECK(bed_in && bed_out);
}

/* Sends one line, and gives the line that answers. It is valid until the next one. */
static inline char *bed_line(const char *command) {
    static char *line;
    static size_t size;
    fprintf(bed_in, "%s\n", command);
    fflush(bed_in);
    ssize_t n = getline(&line, &size, bed_out);
    CHECK(n > 0 && "the testbed has ended");
    line[strcspn(line, "\n")] = 0;
    return line;
}

/* Sends a command that must succeed, and gives its answer. */
__attribute__((format(printf, 1, 2))) static inline char *ask(const char *format, ...) {
    char command[4000];
    va_list args;
    va_start(args, format);
    vsnprintf(command, sizeof command, format, args);
    va_end(args);
    char *line = bed_line(command);
    if (strncmp(line, "ok", 2) != 0) {
        char text[5000];
        snprintf(text, sizeof text, "testbed: %s: %s", command, line);
        fail(__FILE__, __LINE__, text);
    }
    return line[2] ? line + 3 : line + 2;
}

/* ask, for an answer that is a number. */
#define ASK_NUMBER(...) atoll(ask(__VA_ARGS__))

/* ---- clients ---- */

/* A client of the URLs in one text, with spaces between. */
static inline quorlock_client *client_with(const char *urls, const quorlock_client_options *options) {
    char *copy = strdup(urls), *rest = NULL;
    const char *list[16];
    size_t n = 0;
    for (char *url = strtok_r(copy, " ", &rest); url; url = strtok_r(NULL, " ", &rest)) list[n++] = url;
    quorlock_client *client = NULL;
    GIVES(OK, quorlock_client_new(list, n, options, &client));
    free(copy);
    return client;
}

/* A client that forgives a busy machine: for tests with long TTLs, where slowness of a server is not the matter. */
static inline quorlock_client *patient_client(const char *urls) {
    quorlock_client_options options = QUORLOCK_CLIENT_OPTIONS_INIT;
    options.server_timeout_ms = 2000;
    return client_with(urls, &options);
}

/* One for TTLs of 300 ms and more. */
static inline quorlock_client *quick_client(const char *urls) {
    quorlock_client_options options = QUORLOCK_CLIENT_OPTIONS_INIT;
    options.server_timeout_ms = 150;
    return client_with(urls, &options);
}

static inline quorlock_lock_options lock_options(uint32_t ttl_ms, uint32_t wait_ms) {
    quorlock_lock_options options = QUORLOCK_LOCK_OPTIONS_INIT;
    options.ttl_ms = ttl_ms;
    options.wait_ms = wait_ms;
    return options;
}

/* Acquires what must be free by then. */
static inline quorlock_lease *take(quorlock_client *client, const char *name, quorlock_lock_options options) {
    quorlock_lease *lease = NULL;
    GIVES(OK, quorlock_client_acquire(client, name, &options, &lease));
    CHECK(lease);
    return lease;
}

static inline void count_up(void *count, const char *address, uint64_t round_trip_us, const char *cause) {
    (void)address, (void)round_trip_us;
    if (!cause) ++*(int *)count;
}

/* How many servers answer. */
static inline int servers_up(quorlock_client *client) {
    int count = 0;
    GIVES(OK, quorlock_client_ping(client, 1000, count_up, &count));
    return count;
}

/* ---- an acquire in a thread of its own ---- */

typedef struct {
    pthread_t thread;
    quorlock_client *client;
    const char *name;
    quorlock_lock_options options;
    quorlock_lease *lease;
    int status;
    double took_ms;
} waiter;

static inline void *waiter_run(void *arg) {
    waiter *w = arg;
    double begin = now_ms();
    w->status = quorlock_client_acquire(w->client, w->name, &w->options, &w->lease);
    w->took_ms = now_ms() - begin;
    return NULL;
}

static inline void waiter_start(waiter *w, quorlock_client *client, const char *name, quorlock_lock_options options) {
    w->client = client, w->name = name, w->options = options, w->lease = NULL;
    CHECK(pthread_create(&w->thread, NULL, waiter_run, w) == 0);
}

static inline int waiter_join(waiter *w) {
    CHECK(pthread_join(w->thread, NULL) == 0);
    return w->status;
}

/* ---- child processes ---- */

/* Forks; the child runs `body` and exits in the normal way with what it gives. */
static inline pid_t child_start(int (*body)(void *), void *arg) {
    fflush(NULL);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) exit(body(arg));
    return pid;
}

/* Its exit code; 128 + signal if one ended it. Fails if it still runs after `ms`. */
static inline int child_wait(pid_t pid, int ms) {
    int status;
    UNTIL(ms, waitpid(pid, &status, WNOHANG) == pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* ---- the cases of a program ---- */

typedef struct {
    const char *name;
    void (*run)(void);
} test_case;

#define CASE(name) {#name, name}

/* Runs the cases, or only those whose name begins as the first argument says, each with a fresh testbed. */
static inline int run_cases(const test_case *cases, size_t n, int argc, char **argv) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    bed_start();
    for (size_t i = 0; i < n; i++) {
        if (argc > 1 && strncmp(cases[i].name, argv[1], strlen(argv[1])) != 0) continue;
        double begin = now_ms();
        cases[i].run();
        ask("reset");
        printf("ok %s (%.0f ms)\n", cases[i].name, now_ms() - begin);
    }
    return 0;
}

#define RUN_CASES(argc, argv) run_cases(cases, sizeof cases / sizeof *cases, argc, argv)

#endif
