/* Runs the scenarios of tests/conformance (its README.md has the format): conformance FILE... */
#include "testbed.h"

/* ---- words: `plain`, `"in quotes"`, `key="in quotes"`, `"x"*1025` ---- */

typedef struct {
    int n;
    char *at[40];
} words;

/* Reads the part in quotes that begins at `from`; gives where it ends. */
static const char *quoted(const char *from, FILE *word) {
    char part[2000];
    size_t n = 0;
    for (from++; *from && *from != '"'; from++) {
        if (*from == '\\' && (from[1] == '"' || from[1] == '\\')) from++;
        part[n++] = *from;
    }
    if (*from) from++;
    long times = 1;
    if (*from == '*') times = strtol(from + 1, (char **)&from, 10);
    while (times-- > 0) fwrite(part, 1, n, word);
    return from;
}

static words split(const char *text) {
    words w = {0};
    for (;;) {
        text += strspn(text, " ");
        if (!*text) return w;
        size_t length;
        FILE *word = open_memstream(&w.at[w.n++], &length);
        while (*text && *text != ' ') {
            if (*text == '"') text = quoted(text, word);
            else fputc(*text++, word);
        }
        fclose(word);
    }
}

/* The value of `key=value` among the words from number `from` on, or NULL. */
static const char *option(const words *w, int from, const char *key) {
    size_t length = strlen(key);
    for (int i = from; i < w->n; i++)
        if (strncmp(w->at[i], key, length) == 0 && w->at[i][length] == '=') return w->at[i] + length + 1;
    return NULL;
}

static uint32_t ms_of(const char *text, uint32_t if_absent) {
    if (!text) return if_absent;
    return strcmp(text, "forever") == 0 ? QUORLOCK_FOREVER : (uint32_t)strtoul(text, NULL, 10);
}

static uint32_t on_off(const char *text) {
    return text ? strcmp(text, "on") == 0 : QUORLOCK_DEFAULT;
}

/* `A..B` */
static bool range(const char *text, double *least, double *most) {
    long long a, b;
    int end = 0;
    if (sscanf(text, "%lld..%lld%n", &a, &b, &end) != 2 || text[end] != 0) return false;
    *least = (double)a, *most = (double)b;
    return true;
}

/* ---- what one scenario has: servers, variables, actors, jobs ---- */

typedef struct {
    int status;
    char value[2000]; /* what came on success, as the expectations write it */
    uint64_t fence;
    double took_ms;
    char text[8000], causes[8000]; /* of an error */
    size_t servers;
} result;

typedef struct {
    quorlock_client *client;
    quorlock_lease *slot[10];
} actor;

typedef struct {
    char name[40];
    pthread_t thread;
    char command[2000];
    result result;
    int done, joined;
} job;

static words urls;
static struct {
    char name[40], value[500];
} variables[40];
static int variable_count;
static actor actors[26];
static job jobs[20];
static int job_count;
static quorlock_lease *kept[100];
static int kept_count;

static char *variable(const char *name) {
    for (int i = 0; i < variable_count; i++)
        if (strcmp(variables[i].name, name) == 0) return variables[i].value;
    return NULL;
}

static void set_variable(const char *name, const char *value) {
    snprintf(variables[variable_count].name, sizeof variables[0].name, "%s", name);
    snprintf(variables[variable_count++].value, sizeof variables[0].value, "%s", value);
}

/* `text` with each $VAR replaced. */
static void expand(const char *text, char *out, size_t size) {
    size_t n = 0;
    while (*text && n + 1 < size) {
        char name[40];
        size_t length = strspn(text + 1, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789");
        snprintf(name, sizeof name, "%.*s", (int)length, text + 1);
        const char *value = *text == '$' ? variable(name) : NULL;
        if (value) {
            n += (size_t)snprintf(out + n, size - n, "%s", value);
            text += 1 + length;
        } else {
            out[n++] = *text++;
        }
    }
    out[n] = 0;
}

/* ---- the steps of an actor ---- */

static void take_error(result *r) {
    quorlock_last_error_message(r->text, sizeof r->text);
    r->servers = quorlock_last_error_server_count();
    size_t n = 0;
    for (size_t i = 0; i < r->servers && n + 1 < sizeof r->causes; i++)
        n += quorlock_last_error_server_cause(i, r->causes + n, sizeof r->causes - n);
}

static int make_client(actor *a, const words *w, int from) {
    const char *user = option(w, from, "user"), *password = option(w, from, "password"), *db = option(w, from, "db");
    const char *which = option(w, from, "servers"), *drift = option(w, from, "drift");
    char text[16][300];
    const char *list[16];
    int n = 0;
    for (int i = 0; which ? *which : i < urls.n; i++, n++) {
        int number = which ? (int)strtol(which, (char **)&which, 10) : i;
        if (which && *which == ',') which++;
        const char *address = urls.at[number] + strlen("redis://");
        snprintf(text[n], sizeof text[n], "redis://%s%s%s%s%s%s%s", user ? user : "", password ? ":" : "",
                 password ? password : "", user || password ? "@" : "", address, db ? "/" : "", db ? db : "");
        list[n] = text[n];
    }
    quorlock_client_options o = QUORLOCK_CLIENT_OPTIONS_INIT;
    o.ttl_ms = ms_of(option(w, from, "ttl"), QUORLOCK_DEFAULT);
    o.wait_ms = ms_of(option(w, from, "wait"), QUORLOCK_DEFAULT);
    o.server_timeout_ms = ms_of(option(w, from, "server_timeout"), QUORLOCK_DEFAULT);
    o.claim_window_ms = ms_of(option(w, from, "claim_window"), QUORLOCK_DEFAULT);
    o.exact_keys = on_off(option(w, from, "exact_keys"));
    if (drift) o.drift = strtod(drift, NULL);
    o.prefix = option(w, from, "prefix");
    o.label = option(w, from, "label");
    return quorlock_client_new(list, (size_t)n, &o, &a->client);
}

/* The actor of the word `a` or `a.2`, with its client made by now. */
static actor *actor_of(const char *word) {
    actor *a = &actors[word[0] - 'a'];
    words no_options = {0};
    if (!a->client) GIVES(OK, make_client(a, &no_options, 0));
    return a;
}

static int acquire(actor *a, quorlock_lease **slot, const words *w, result *r) {
    quorlock_lock_options o = QUORLOCK_LOCK_OPTIONS_INIT;
    o.ttl_ms = ms_of(option(w, 3, "ttl"), QUORLOCK_DEFAULT);
    o.wait_ms = ms_of(option(w, 3, "wait"), QUORLOCK_DEFAULT);
    o.max_hold_ms = ms_of(option(w, 3, "max_hold"), QUORLOCK_DEFAULT);
    o.renew = on_off(option(w, 3, "renew"));
    o.label = option(w, 3, "label");
    quorlock_lease *lease;
    bool once = strcmp(w->at[1], "try") == 0;
    int status = once ? quorlock_client_try_acquire(a->client, w->at[2], &o, &lease)
                      : quorlock_client_acquire(a->client, w->at[2], &o, &lease);
    strcpy(r->value, "held");
    if (status == QUORLOCK_OK) {
        r->fence = quorlock_lease_fence(lease);
        if (*slot) kept[__atomic_fetch_add(&kept_count, 1, __ATOMIC_SEQ_CST)] = *slot;
        *slot = lease;
    } else if (once && status == QUORLOCK_BUSY) {
        strcpy(r->value, "none");
        status = QUORLOCK_OK;
    }
    return status;
}

typedef struct {
    const char *field;
    result *r;
} wanted_field;

static void found(void *user, const quorlock_lock_info *lock) {
    const wanted_field *wanted = user;
    const char *field = wanted->field;
    result *r = wanted->r;
    if (strcmp(field, "held") == 0) strcpy(r->value, lock->held ? "true" : "false");
    if (strcmp(field, "remaining") == 0) sprintf(r->value, "%llu", (unsigned long long)lock->remaining_ms);
    if (strcmp(field, "waiters") == 0) sprintf(r->value, "%llu", (unsigned long long)lock->waiters);
    if (strcmp(field, "fence") == 0) r->fence = lock->fence;
    if (strcmp(field, "language") == 0) strcpy(r->value, lock->holder_language ? "known" : "none");
    if (strcmp(field, "label") == 0) snprintf(r->value, sizeof r->value, "%s", lock->label ? lock->label : "none");
}

static int step(const words *w, result *r) {
    static const char *const reasons[] = {"none", "expired", "taken", "max_hold", "closed"};
    actor *a = actor_of(w->at[0]);
    quorlock_lease **slot = &a->slot[w->at[0][1] == '.' ? atoi(w->at[0] + 2) : 1], *lease = *slot;
    const char *verb = w->at[1];
    int status = QUORLOCK_OK;
    strcpy(r->value, "ok");
#define IS(name) (strcmp(verb, name) == 0)
    if (IS("acquire") || IS("try")) {
        status = acquire(a, slot, w, r);
    } else if (IS("release")) {
        status = quorlock_lease_release(lease);
        strcpy(r->value, status == QUORLOCK_CLOSED ? "false" : "true");
        if (status == QUORLOCK_CLOSED) status = QUORLOCK_OK;
    } else if (IS("extend")) {
        uint32_t remaining;
        status = quorlock_lease_extend(lease, ms_of(option(w, 2, "ttl"), QUORLOCK_DEFAULT), &remaining);
        sprintf(r->value, "%u", (unsigned)remaining);
    } else if (IS("confirm")) {
        status = quorlock_lease_confirm(lease);
    } else if (IS("ensure")) {
        status = quorlock_lease_ensure_held(lease);
    } else if (IS("held")) {
        strcpy(r->value, quorlock_lease_held(lease) ? "true" : "false");
    } else if (IS("remaining")) {
        sprintf(r->value, "%u", (unsigned)quorlock_lease_remaining_ms(lease));
    } else if (IS("fence")) {
        r->fence = quorlock_lease_fence(lease);
    } else if (IS("name")) {
        quorlock_lease_name(lease, r->value, sizeof r->value);
    } else if (IS("lost")) {
        strcpy(r->value, reasons[quorlock_lease_lost_reason(lease)]);
    } else if (IS("await-lost")) {
        quorlock_lost_reason reason;
        status = quorlock_lease_wait_lost(lease, ms_of(w->at[2], 0), &reason);
        strcpy(r->value, reasons[reason]);
    } else if (IS("inspect")) {
        wanted_field wanted = {w->at[3], r};
        status = quorlock_client_inspect(a->client, w->at[2], found, &wanted);
    } else if (IS("break")) {
        status = quorlock_client_break_lock(a->client, w->at[2], &r->fence);
    } else if (IS("ping")) {
        int up = 0;
        status = quorlock_client_ping(a->client, ms_of(option(w, 2, "timeout"), 1000), count_up, &up);
        sprintf(r->value, "up=%d", up);
    } else if (IS("close")) {
        status = quorlock_client_close(a->client, ms_of(option(w, 2, "drain"), 0));
    } else {
        fprintf(stderr, "unknown step: %s\n", verb);
        exit(2);
    }
#undef IS
    return status;
}

static void run_step(const char *command, result *r) {
    words w = split(command);
    memset(r, 0, sizeof *r);
    double begin = now_ms();
    r->status = w.n > 1 && strcmp(w.at[0], "client") == 0 ? make_client(&actors[w.at[1][0] - 'a'], &w, 2) : step(&w, r);
    r->took_ms = now_ms() - begin;
    if (r->status != QUORLOCK_OK) take_error(r);
}

/* ---- expectations ---- */

static bool fence_is(const char *part, uint64_t fence) {
    char text[30];
    snprintf(text, sizeof text, "%llu", (unsigned long long)fence);
    const char *name = part + strlen("fence="), *value = variable(name);
    if (part[5] == '>') return value && fence > strtoull(value, NULL, 10);
    if (!value && (name[0] < '0' || name[0] > '9')) return set_variable(name, text), fence > 0;
    return strcmp(text, value ? value : name) == 0;
}

static bool part_holds(const char *part, const result *r) {
    double least, most;
    if (strncmp(part, "fence", 5) == 0) return fence_is(part, r->fence);
    if (strncmp(part, "in=", 3) == 0)
        return range(part + 3, &least, &most) && r->took_ms >= least && r->took_ms <= most;
    if (strncmp(part, "text=", 5) == 0) return strstr(r->text, part + 5);
    if (strncmp(part, "hides=", 6) == 0) return !strstr(r->text, part + 6) && !strstr(r->causes, part + 6);
    if (strncmp(part, "servers=", 8) == 0) return r->servers == strtoul(part + 8, NULL, 10);
    if (strncmp(part, "cause=", 6) == 0) return strstr(r->causes, part + 6);
    return false;
}

static bool is_error_name(const char *word) {
    for (int i = QUORLOCK_BUSY; i <= QUORLOCK_CANCELLED; i++)
        if (strcmp(word, quorlock_status_name(i)) == 0) return true;
    return false;
}

static bool first_holds(const char *command, const char *word, const result *r) {
    double least, most;
    words w = split(command);
    bool is_text = strcmp(w.at[1], "name") == 0, may_be_range = !is_text, may_be_error = !is_text;
    /* `closed` is also a reason of loss. */
    if (strcmp(w.at[1], "lost") == 0 || strcmp(w.at[1], "await-lost") == 0) may_be_error = r->status != QUORLOCK_OK;
    if (may_be_error && is_error_name(word)) return strcmp(word, quorlock_status_name(r->status)) == 0;
    if (r->status != QUORLOCK_OK) return false;
    if (may_be_range && range(word, &least, &most)) return atof(r->value) >= least && atof(r->value) <= most;
    return strcmp(word, r->value) == 0;
}

/* Whether the result of the command is as expected; NULL expects just no error. */
static bool expected(const char *command, const char *expectation, const result *r) {
    if (!expectation) return r->status == QUORLOCK_OK && strcmp(r->value, "none") != 0;
    words e = split(expectation);
    int parts = strncmp(e.at[0], "fence", 5) == 0 ? 0 : 1; /* of a fence step, all are parts */
    if (parts == 1 && !first_holds(command, e.at[0], r)) return false;
    for (int i = parts; i < e.n; i++)
        if (!part_holds(e.at[i], r)) return false;
    return true;
}

/* ---- lines ---- */

static char instead[20000]; /* what came instead of what was expected */

static bool bed_step(const char *command, const char *expectation) {
    char line[4000], wanted[2000];
    double least, most;
    expand(command, line, sizeof line);
    const char *answer = bed_line(line);
    snprintf(instead, sizeof instead, "%s", answer);
    expand(expectation ? expectation : "", wanted, sizeof wanted);
    if (strncmp(wanted, "error ", 6) == 0) return strncmp(answer, "error", 5) == 0 && strstr(answer, wanted + 6);
    if (strncmp(answer, "ok", 2) != 0) return false;
    answer += answer[2] ? 3 : 2;
    if (strncmp(line, "servers", 7) == 0) urls = split(answer);
    if (!expectation) return true;
    if (strncmp(wanted, "store ", 6) == 0) return set_variable(wanted + 6, answer), true;
    if (range(wanted, &least, &most)) return atof(answer) >= least && atof(answer) <= most;
    return strcmp(answer, wanted) == 0;
}

static bool is_bed_step(const char *command) {
    words w = split(command);
    static const char *const verbs[] = {"servers", "freeze",       "thaw",    "kill",    "start", "restart", "cmd",
                                        "flush",   "kill-clients", "clients", "monitor", NULL};
    for (int i = 0; verbs[i]; i++)
        if (strcmp(w.at[0], verbs[i]) == 0) return true;
    return false;
}

static bool actor_step(const char *command, const char *expectation, const result *r) {
    snprintf(instead, sizeof instead, "%s %s (fence %llu, %.0f ms) %s", quorlock_status_name(r->status), r->value,
             (unsigned long long)r->fence, r->took_ms, r->text);
    return expected(command, expectation, r);
}

static void *job_run(void *arg) {
    job *j = arg;
    run_step(j->command, &j->result);
    __atomic_store_n(&j->done, 1, __ATOMIC_SEQ_CST);
    return NULL;
}

static job *job_named(const char *name) {
    for (int i = job_count; i-- > 0;)
        if (strcmp(jobs[i].name, name) == 0) return &jobs[i];
    fprintf(stderr, "no such job: %s\n", name);
    exit(2);
}

static bool once(const char *command, const char *expectation) {
    if (is_bed_step(command)) return bed_step(command, expectation);
    result r;
    run_step(command, &r);
    return actor_step(command, expectation, &r);
}

static bool run_line(char *command, const char *expectation) {
    words w = split(command);
    instead[0] = 0;
    if (strcmp(w.at[0], "pause") == 0) return sleep_ms(atoi(w.at[1])), true;
    if (strcmp(w.at[0], "&") == 0) {
        job *j = &jobs[job_count++];
        *j = (job){0};
        snprintf(j->name, sizeof j->name, "%s", w.at[1]);
        snprintf(j->command, sizeof j->command, "%s", strstr(command + 1, w.at[1]) + strlen(w.at[1]));
        actor_of(w.at[2]);
        return pthread_create(&j->thread, NULL, job_run, j) == 0;
    }
    if (strcmp(w.at[0], "running") == 0) return !__atomic_load_n(&job_named(w.at[1])->done, __ATOMIC_SEQ_CST);
    if (strcmp(w.at[0], "join") == 0) {
        job *j = job_named(w.at[1]);
        pthread_join(j->thread, NULL);
        j->joined = 1;
        return actor_step(j->command, expectation, &j->result);
    }
    if (strcmp(w.at[0], "until") == 0) {
        double end = now_ms() + atof(w.at[1]);
        const char *step = strstr(command + strlen("until"), w.at[1]) + strlen(w.at[1]);
        while (!once(step + strspn(step, " "), expectation)) {
            if (now_ms() > end) return false;
            sleep_ms(10);
        }
        return true;
    }
    return once(command, expectation);
}

static bool run_file(const char *path) {
    char line[8000];
    FILE *file = fopen(path, "r");
    CHECK(file);
    bool passed = true;
    for (int number = 1; passed && fgets(line, sizeof line, file); number++) {
        line[strcspn(line, "\n")] = 0;
        char whole[8000], *arrow = strstr(line, " -> ");
        strcpy(whole, line);
        if (line[0] == '#' || line[strspn(line, " ")] == 0) continue;
        if (arrow) *arrow = 0, arrow += strlen(" -> "), arrow += strspn(arrow, " ");
        passed = run_line(line + strspn(line, " "), arrow);
        if (!passed) fprintf(stderr, "%s:%d: %s: %s\n", path, number, whole, instead);
    }
    fclose(file);
    return passed;
}

static void clean_up(void) {
    for (int i = 0; i < 26; i++)
        if (actors[i].client) quorlock_client_close(actors[i].client, 0);
    for (int i = 0; i < job_count; i++)
        if (!jobs[i].joined) pthread_join(jobs[i].thread, NULL);
    while (kept_count > 0) quorlock_lease_free(kept[--kept_count]);
    for (int i = 0; i < 26; i++) {
        for (int slot = 0; slot < 10; slot++) quorlock_lease_free(actors[i].slot[slot]);
        quorlock_client_free(actors[i].client);
    }
    memset(actors, 0, sizeof actors);
    variable_count = job_count = 0;
    ask("reset");
}

int main(int argc, char **argv) {
    int failed = 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    bed_start();
    for (int i = 1; i < argc; i++) {
        double begin = now_ms();
        bool passed = run_file(argv[i]);
        clean_up();
        failed += !passed;
        printf("%s %s (%.0f ms)\n", passed ? "ok" : "FAILED", strrchr(argv[i], '/') + 1, now_ms() - begin);
    }
    printf("%d scenarios, %d failed\n", argc - 1, failed);
    return failed > 0 || argc < 2;
}
