/* C worker for quorlock, through libquorlock (protocol: ../README.md). One thread a waiter. */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <quorlock.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#define MAX_KEY 128
#define MAX_SERVERS 16

static quorlock_client *client;

static void die(const char *why) {
    fprintf(stderr, "%s\n", why);
    exit(1);
}

static void *must(void *allocated) {
    if (!allocated) die("out of memory");
    return allocated;
}

/* ---- time */

static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static void sleep_until(int64_t ns) {
    struct timespec t = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) != 0) {
    }
}

static int64_t cpu_us(void) {
    struct rusage r;
    getrusage(RUSAGE_SELF, &r);
    return (r.ru_utime.tv_sec + r.ru_stime.tv_sec) * INT64_C(1000000) + r.ru_utime.tv_usec + r.ru_stime.tv_usec;
}

/* ---- the flat JSON of the protocol: names occur once, strings hold no escapes */

static const char *find(const char *json, const char *name) {
    char quoted[64];
    snprintf(quoted, sizeof quoted, "\"%s\":", name);
    const char *at = strstr(json, quoted);
    return at ? at + strlen(quoted) + strspn(at + strlen(quoted), " ") : NULL;
}

/* `fallback` if it is missing or null */
static int64_t number(const char *json, const char *name, int64_t fallback) {
    const char *at = find(json, name);
    char *end = NULL;
    long long value = at ? strtoll(at, &end, 10) : 0;
    return at && end != at ? value : fallback;
}

static void string(const char *json, const char *name, char *out, size_t size) {
    const char *at = find(json, name);
    size_t length = at && *at == '"' ? strcspn(at + 1, "\"") : size;
    if (length >= size) die("bad string in the command");
    memcpy(out, at + 1, length);
    out[length] = '\0';
}

/* free() the result */
static int64_t *numbers(const char *json, const char *name, size_t *count) {
    const char *at = find(json, name);
    if (!at || *at != '[') die("bad list in the command");
    int64_t *list = must(malloc((strlen(at) + 1) * sizeof *list));
    char *end;
    for (*count = 0, at++;; at = end + strspn(end, ", ")) {
        long long value = strtoll(at, &end, 10);
        if (end == at) return list;
        list[(*count)++] = value;
    }
}

/* ---- growing text: items of a JSON list */

struct text {
    char *start;
    size_t length, size;
};

static void append(struct text *t, const char *format, ...) {
    for (;;) {
        va_list args;
        va_start(args, format);
        size_t room = t->size - t->length;
        int n = vsnprintf(t->start ? t->start + t->length : NULL, room, format, args);
        va_end(args);
        if (n < 0) die("cannot format");
        if ((size_t)n < room) {
            t->length += (size_t)n;
            return;
        }
        t->size = 2 * t->size + (size_t)n + 256;
        t->start = must(realloc(t->start, t->size));
    }
}

static const char *comma(const struct text *t) { return t->length ? ", " : ""; }

/* this thread's last error, fit for a JSON string; there is room for more than the status */
static const char *error_text(char *out, size_t size) {
    int used = snprintf(out, size, "%s: ", quorlock_status_name(quorlock_last_error_status()));
    quorlock_last_error_message(out + used, size - (size_t)used);
    for (char *c = out; *c; c++) {
        if (*c == '"' || *c == '\\' || (unsigned char)*c < ' ') *c = '\'';
    }
    return out;
}

/* ---- the commands */

struct command {
    char key[MAX_KEY];
    int64_t ttl_ms, pairs, end, start, stagger, hold, duration;
    bool loop;
};

struct task {
    pthread_t thread;
    const struct command *command;
    int64_t id;
    int64_t until; /* 0, or when the gate opens: held until then, once */
    struct text good, bad;
};

static quorlock_status acquire(const char *key, int64_t ttl_ms, quorlock_lease **lease) {
    quorlock_lock_options options = QUORLOCK_LOCK_OPTIONS_INIT;
    options.ttl_ms = (uint32_t)ttl_ms;
    return quorlock_client_acquire(client, key, &options, lease);
}

static quorlock_status release(quorlock_lease *lease) {
    quorlock_status status = quorlock_lease_release(lease);
    quorlock_lease_free(lease);
    return status;
}

static void *pairs_task(void *argument) {
    struct task *task = argument;
    const struct command *c = task->command;
    char key[MAX_KEY + 24], why[256];
    snprintf(key, sizeof key, "%s:%lld", c->key, (long long)task->id);
    for (int64_t i = 0; i < c->pairs; i++) {
        int64_t t0 = now();
        if (t0 > c->end) break;
        quorlock_lease *lease = NULL;
        bool ok = acquire(key, c->ttl_ms, &lease) == QUORLOCK_OK && release(lease) == QUORLOCK_OK;
        double us = (double)(now() - t0) / 1000;
        if (ok) {
            append(&task->good, "%s%.3f", comma(&task->good), us);
        } else {
            append(&task->bad, "%s[%.3f, \"%s\"]", comma(&task->bad), us, error_text(why, sizeof why));
        }
    }
    return NULL;
}

static void *contend_task(void *argument) {
    struct task *task = argument;
    const struct command *c = task->command;
    char why[256];
    long long id = task->id, end = c->start + c->duration;
    if (!task->until) sleep_until(c->start + task->id * c->stagger);
    do {
        quorlock_lease *lease = NULL;
        long long t0 = now();
        quorlock_status status = acquire(c->key, c->ttl_ms, &lease);
        long long t1 = now();
        if (status != QUORLOCK_OK) {
            append(&task->bad, "%s[%lld, %lld, %lld, \"%s\"]", comma(&task->bad), id, t0, t1, error_text(why, sizeof why));
            continue;
        }
        if (task->until) {
            sleep_until(task->until);
        } else if (c->hold && (!c->loop || t1 < end)) {
            sleep_until(t1 + c->hold);
        }
        long long t2 = now();
        status = release(lease);
        long long t3 = now();
        if (status != QUORLOCK_OK) {
            append(&task->bad, "%s[%lld, %lld, %lld, \"release: %s\"]", comma(&task->bad), id, t2, t3, error_text(why, sizeof why));
        }
        append(&task->good, "%s[%lld, %lld, %lld, %lld, %lld]", comma(&task->good), id, t0, t1, t2, t3);
    } while (c->loop && !task->until && now() < end);
    return NULL;
}

/* Runs the tasks, each in its thread, and joins what they wrote. */
static void fan(struct task *tasks, size_t count, void *(*run)(void *), struct text *good, struct text *bad) {
    for (size_t i = 0; i < count; i++) {
        if (pthread_create(&tasks[i].thread, NULL, run, &tasks[i]) != 0) die("no thread");
    }
    for (size_t i = 0; i < count; i++) {
        pthread_join(tasks[i].thread, NULL);
        if (tasks[i].good.length) append(good, "%s%s", comma(good), tasks[i].good.start);
        if (tasks[i].bad.length) append(bad, "%s%s", comma(bad), tasks[i].bad.start);
        free(tasks[i].good.start);
        free(tasks[i].bad.start);
    }
}

static const char *shown(const struct text *t) { return t->start ? t->start : ""; }

static void pairs(const char *json, struct command *c) {
    size_t count = (size_t)number(json, "tasks", 1);
    struct task *tasks = must(calloc(count, sizeof *tasks));
    struct text good = {0}, bad = {0};
    c->pairs = number(json, "n", 1) / (int64_t)count;
    if (c->pairs < 1) c->pairs = 1;
    c->end = now() + number(json, "max_ms", 600000) * 1000000;
    for (size_t i = 0; i < count; i++) {
        tasks[i] = (struct task){.command = c, .id = (int64_t)i};
    }
    int64_t t0 = now(), c0 = cpu_us();
    fan(tasks, count, pairs_task, &good, &bad);
    printf("{\"lat_us\": [%s], \"errors\": [%s], \"wall_us\": %.3f, \"cpu_us\": %lld}\n", shown(&good), shown(&bad),
           (double)(now() - t0) / 1000, (long long)(cpu_us() - c0));
    free(good.start);
    free(bad.start);
    free(tasks);
}

static void contend(const char *json, struct command *c) {
    char mode[8];
    size_t count;
    int64_t *ids = numbers(json, "ids", &count), gate = number(json, "gate_ns", 0);
    struct task *tasks = must(calloc(count + 1, sizeof *tasks));
    struct text good = {0}, bad = {0};
    string(json, "mode", mode, sizeof mode);
    c->loop = strcmp(mode, "loop") == 0;
    c->start = number(json, "start_ns", 0);
    c->stagger = number(json, "stagger_us", 0) * 1000;
    c->hold = number(json, "hold_us", 0) * 1000;
    c->duration = number(json, "duration_ms", 0) * 1000000;
    size_t used = 0;
    if (gate) tasks[used++] = (struct task){.command = c, .id = -1, .until = gate};
    for (size_t i = 0; i < count; i++) {
        tasks[used++] = (struct task){.command = c, .id = ids[i]};
    }
    int64_t c0 = cpu_us();
    fan(tasks, used, contend_task, &good, &bad);
    printf("{\"grants\": [%s], \"fails\": [%s], \"cpu_us\": %lld}\n", shown(&good), shown(&bad), (long long)(cpu_us() - c0));
    free(good.start);
    free(bad.start);
    free(tasks);
    free(ids);
}

static void watched(const char *json, struct command *c) {
    quorlock_lease *lease = NULL;
    char why[256] = "released";
    long long lost = 0, end = now();
    bool ok = acquire(c->key, c->ttl_ms, &lease) == QUORLOCK_OK;
    if (ok) {
        printf("{\"event\": \"held\", \"t\": %lld}\n", (long long)now());
        fflush(stdout);
        end = now() + number(json, "work_ms", 0) * 1000000;
        while (now() < end) {
            if (!lost && !quorlock_lease_held(lease)) lost = now();
            sleep_until(now() + 2000000);
        }
        end = now();
        ok = release(lease) == QUORLOCK_OK;
    }
    if (!ok) error_text(why, sizeof why);
    printf("{\"lost_ns\": ");
    if (lost) {
        printf("%lld", lost);
    } else {
        printf("null");
    }
    printf(", \"end_ns\": %lld, \"release\": \"%s\", \"done_ns\": %lld}\n", end, why, (long long)now());
}

static void connect_client(const char *config) {
    char urls[MAX_SERVERS][32];
    const char *pointers[MAX_SERVERS];
    size_t count;
    int64_t *ports = numbers(config, "ports", &count);
    if (count > MAX_SERVERS) die("too many servers");
    for (size_t i = 0; i < count; i++) {
        snprintf(urls[i], sizeof urls[i], "redis://127.0.0.1:%d", (int)ports[i]);
        pointers[i] = urls[i];
    }
    free(ports);
    char why[256];
    quorlock_client_options options = QUORLOCK_CLIENT_OPTIONS_INIT;
    /* M3 (it alone names a client) tries once; elsewhere waiters wait without limit, as by default. */
    if (find(config, "client")) options.wait_ms = 0;
    options.server_timeout_ms = (uint32_t)number(config, "server_timeout_ms", QUORLOCK_DEFAULT);
    if (quorlock_client_new(pointers, count, &options, &client) != QUORLOCK_OK) die(error_text(why, sizeof why));
}

int main(int argc, char **argv) {
    if (argc != 2) die("usage: worker CONFIG");
    connect_client(argv[1]);
    printf("{\"event\": \"ready\", \"info\": \"libquorlock %s\"}\n", quorlock_version());
    fflush(stdout);
    char *line = NULL;
    size_t size = 0;
    while (getline(&line, &size, stdin) > 0) {
        char name[16];
        struct command command = {0};
        string(line, "cmd", name, sizeof name);
        string(line, "key", command.key, sizeof command.key);
        command.ttl_ms = number(line, "ttl_ms", 0);
        if (strcmp(name, "pairs") == 0) {
            pairs(line, &command);
        } else if (strcmp(name, "contend") == 0) {
            contend(line, &command);
        } else if (strcmp(name, "watched") == 0) {
            watched(line, &command);
        } else {
            die("unknown command");
        }
        fflush(stdout);
    }
    free(line);
    quorlock_client_free(client);
    return 0;
}
