/* What only a process has: threads, forks, signals, broken pipes, callbacks, the ends of things. */
#include "testbed.h"
#include <sys/time.h>

/* ---- fork ---- */

static int use_in_child(void *client) {
    quorlock_lease *lease = take(client, "in the child", lock_options(30000, 10000));
    GIVES(OK, quorlock_lease_release(lease));
    quorlock_lease_free(lease);
    quorlock_client_free(client);
    return 0;
}

static void o39_a_client_made_before_fork_works_in_the_child(void) {
    quorlock_client *client = patient_client(ask("server"));
    CHECK(child_wait(child_start(use_in_child, client), 20000) == 0); /* made, not used */
    quorlock_lease *lease = take(client, "in the parent", lock_options(30000, 10000));
    CHECK(child_wait(child_start(use_in_child, client), 20000) == 0); /* used, and holding */
    GIVES(OK, quorlock_lease_confirm(lease));
    GIVES(OK, quorlock_lease_release(lease));
    quorlock_lease_free(lease);
    lease = take(client, "after", lock_options(30000, 10000));
    quorlock_lease_free(lease);
    quorlock_client_free(client);
}

static int exit_only(void *lease) {
    (void)lease;
    return 0;
}

static int free_in_child(void *lease) {
    quorlock_lease_free(lease);
    return 0;
}

static void never(void *user, int reason) {
    (void)user, (void)reason;
    CHECK(!"this callback must not run");
}

static int use_lease_in_child(void *lease) {
    GIVES(CLOSED, quorlock_lease_release(lease));
    CHECK(error_says("process"));
    GIVES(CLOSED, quorlock_lease_ensure_held(lease));
    GIVES(CLOSED, quorlock_lease_confirm(lease));
    GIVES(CLOSED, quorlock_lease_extend(lease, QUORLOCK_DEFAULT, NULL));
    CHECK(!quorlock_lease_held(lease) && quorlock_lease_remaining_ms(lease) == 0);
    CHECK(quorlock_lease_fence(lease) > 0);
    GIVES(OK, quorlock_lease_on_lost(lease, never, NULL));
    quorlock_lease_free(lease);
    return 0;
}

static void o40_a_child_leaves_the_parents_lease_alone(void) {
    quorlock_client *client = patient_client(ask("server"));
    quorlock_lease *lease = take(client, "a", lock_options(3000000, 10000)); /* no renewal meanwhile */
    char *token = strdup(ask("cmd 0 GET lock:{a}"));
    GIVES(OK, quorlock_lease_on_lost(lease, never, NULL));
    int (*const bodies[])(void *) = {exit_only, free_in_child, use_lease_in_child};
    for (int i = 0; i < 3; i++) {
        ask("monitor 0 start");
        CHECK(child_wait(child_start(bodies[i], lease), 20000) == 0);
        CHECK(strcmp(ask("monitor 0 stop"), "[]") == 0);
        CHECK(strcmp(ask("cmd 0 GET lock:{a}"), token) == 0);
        GIVES(OK, quorlock_lease_ensure_held(lease));
    }
    GIVES(OK, quorlock_lease_release(lease));
    quorlock_lease_free(lease);
    quorlock_client_free(client);
    free(token);
}

/* ---- threads ---- */

static void *release_in_thread(void *lease) {
    return (void *)(intptr_t)quorlock_lease_release(lease);
}

static void o41_a_lease_may_be_released_in_another_thread(void) {
    quorlock_client *client = patient_client(ask("server"));
    quorlock_lease *lease = take(client, "a", lock_options(30000, 10000));
    pthread_t thread;
    void *status;
    CHECK(pthread_create(&thread, NULL, release_in_thread, lease) == 0 && pthread_join(thread, &status) == 0);
    CHECK((intptr_t)status == QUORLOCK_OK);
    GIVES(CLOSED, quorlock_lease_release(lease));
    quorlock_lease_free(lease);
    quorlock_client_free(client);
}

typedef struct {
    quorlock_client *client;
    int number;
    int (*holders)[4];
} worker;

static void *cycle(void *arg) {
    worker *w = arg;
    for (int i = 0; i < 60; i++) {
        int which = (w->number + i) % 4;
        char name[10];
        snprintf(name, sizeof name, "job %d", which);
        quorlock_lease *lease = take(w->client, name, lock_options(30000, 60000));
        CHECK(__atomic_add_fetch(&(*w->holders)[which], 1, __ATOMIC_SEQ_CST) == 1);
        CHECK(__atomic_sub_fetch(&(*w->holders)[which], 1, __ATOMIC_SEQ_CST) == 0);
        GIVES(OK, quorlock_lease_release(lease));
        quorlock_lease_free(lease);
    }
    return NULL;
}

static void o69_threads_share_a_client(void) {
    quorlock_client *client = patient_client(ask("server"));
    pthread_t threads[8];
    worker workers[8];
    int holders[4] = {0};
    for (int i = 0; i < 8; i++) {
        workers[i] = (worker){client, i, &holders};
        CHECK(pthread_create(&threads[i], NULL, cycle, &workers[i]) == 0);
    }
    for (int i = 0; i < 8; i++) CHECK(pthread_join(threads[i], NULL) == 0);

    for (int round = 0; round < 50; round++) { /* released by two threads at once: exactly one did it */
        quorlock_lease *lease = take(client, "both", lock_options(30000, 10000));
        void *status[2];
        for (int i = 0; i < 2; i++) CHECK(pthread_create(&threads[i], NULL, release_in_thread, lease) == 0);
        for (int i = 0; i < 2; i++) CHECK(pthread_join(threads[i], &status[i]) == 0);
        CHECK((intptr_t)status[0] + (intptr_t)status[1] == QUORLOCK_OK + QUORLOCK_CLOSED);
        quorlock_lease_free(lease);
    }
    quorlock_client_free(client);
}

static void *fail_in_thread(void *arg) {
    (void)arg;
    char text[100];
    CHECK(quorlock_last_error_status() == QUORLOCK_OK && quorlock_last_error_message(text, sizeof text) == 0);
    GIVES(INVALID, quorlock_client_new(NULL, 1, NULL, NULL));
    CHECK(error_says("client"));
    return NULL;
}

static void the_last_error_is_that_of_the_thread(void) {
    GIVES(INVALID, quorlock_lease_release(NULL));
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, fail_in_thread, NULL) == 0 && pthread_join(thread, NULL) == 0);
    CHECK(error_says("lease"));
}

/* ---- signals ---- */

static quorlock_client *to_interrupt;
static volatile sig_atomic_t signals;

static void interrupt(int signal) {
    (void)signal;
    signals++;
    quorlock_client_interrupt(to_interrupt);
}

static void count(int signal) {
    (void)signal;
    signals++;
}

/* SIGALRM every 50 ms to this handler, without SA_RESTART; NULL ends it. */
static void alarm_every_50_ms(void (*handler)(int)) {
    struct sigaction action = {.sa_handler = handler ? handler : SIG_IGN};
    struct itimerval every = {{0, handler ? 50000 : 0}, {0, handler ? 50000 : 0}};
    signals = 0;
    CHECK(sigaction(SIGALRM, &action, NULL) == 0 && setitimer(ITIMER_REAL, &every, NULL) == 0);
}

static void interrupt_in_a_signal_handler_ends_the_wait(void) {
    char *url = strdup(ask("server"));
    quorlock_client *other = patient_client(url);
    to_interrupt = patient_client(url);
    quorlock_lease *held = take(other, "a", lock_options(30000, 10000)), *none;
    alarm_every_50_ms(interrupt);
    double begin = now_ms();
    int status = quorlock_client_acquire(to_interrupt, "a", NULL, &none);
    double took = now_ms() - begin;
    alarm_every_50_ms(NULL);
    GIVES(CANCELLED, status);
    CHECK_RANGE(0, 100 + SLACK_MS, took);
    CHECK(none == NULL && quorlock_last_error_status() == QUORLOCK_CANCELLED);
    GIVES(OK, quorlock_lease_release(held));
    quorlock_lease_free(held);
    held = take(to_interrupt, "a", lock_options(30000, 10000)); /* later calls are as before */
    quorlock_lease_free(held);
    quorlock_client_free(other), quorlock_client_free(to_interrupt);
    free(url);
}

static void signals_do_not_end_the_wait(void) {
    char *url = strdup(ask("server"));
    quorlock_client *holder = patient_client(url), *client = patient_client(url);
    quorlock_lease *held = take(holder, "a", lock_options(30000, 10000)), *none;
    quorlock_lock_options options = lock_options(30000, 500);
    alarm_every_50_ms(count);
    double begin = now_ms();
    int status = quorlock_client_acquire(client, "a", &options, &none);
    double took = now_ms() - begin;
    int seen = signals;
    alarm_every_50_ms(NULL);
    GIVES(BUSY, status);
    CHECK_RANGE(495, 600 + SLACK_MS, took);
    CHECK(seen >= 2); /* each of them on this thread: the library's own block all signals */
    quorlock_lease_free(held);
    quorlock_client_free(holder), quorlock_client_free(client);
    free(url);
}

static int holding[2];
static volatile sig_atomic_t continued;

static void note_continued(int signal) {
    (void)signal;
    continued = 1;
}

static int be_stopped_while_holding(void *url) {
    CHECK(signal(SIGCONT, note_continued) != SIG_ERR);
    quorlock_client *client = client_with(url, NULL);
    quorlock_lease *lease = take(client, "a", lock_options(600, 10000));
    CHECK(write(holding[1], "x", 1) == 1);
    while (!continued) sleep_ms(1);
    CHECK(quorlock_lease_remaining_ms(lease) == 0 && !quorlock_lease_held(lease));
    quorlock_lost_reason reason;
    GIVES(OK, quorlock_lease_wait_lost(lease, 50 + SLACK_MS, &reason));
    CHECK(reason == QUORLOCK_REASON_EXPIRED);
    GIVES(LOST, quorlock_lease_release(lease));
    quorlock_lease_free(lease);
    return 0;
}

static void o54_a_stopped_process_knows_that_its_lease_is_over(void) {
    char *url = strdup(ask("server")), byte;
    CHECK(pipe(holding) == 0);
    pid_t child = child_start(be_stopped_while_holding, url);
    CHECK(read(holding[0], &byte, 1) == 1);
    CHECK(kill(child, SIGSTOP) == 0);
    sleep_ms(1200); /* twice the TTL: the matter itself */
    CHECK(kill(child, SIGCONT) == 0);
    CHECK(child_wait(child, 10000) == 0);
    close(holding[0]), close(holding[1]);
    free(url);
}

static volatile bool stop_cycling;

static void *cycle_until_stopped(void *client) {
    long cycles = 0;
    for (; !stop_cycling; cycles++) {
        quorlock_lock_options options = lock_options(5000, 0);
        quorlock_lease *lease;
        int status = quorlock_client_acquire(client, "a", &options, &lease);
        CHECK(status == QUORLOCK_OK || status == QUORLOCK_UNAVAILABLE || status == QUORLOCK_BUSY);
        if (status == QUORLOCK_OK) status = quorlock_lease_release(lease);
        CHECK(status != QUORLOCK_INTERNAL && status != QUORLOCK_INVALID);
        quorlock_lease_free(lease);
    }
    return (void *)cycles;
}

static void survives_broken_pipes(const char *url) {
    CHECK(signal(SIGPIPE, SIG_DFL) != SIG_ERR);
    quorlock_client *client = client_with(url, NULL);
    pthread_t thread;
    void *cycles;
    stop_cycling = false;
    CHECK(pthread_create(&thread, NULL, cycle_until_stopped, client) == 0);
    for (int round = 0; round < 10; round++) {
        UNTIL(10000, servers_up(client) == 1);
        ask("restart 0");
    }
    stop_cycling = true;
    CHECK(pthread_join(thread, &cycles) == 0 && (long)cycles > 10);
    quorlock_client_free(client);
}

static void o66_a_broken_pipe_does_not_kill_the_process(void) {
    char *url = strdup(ask("server"));
    survives_broken_pipes(url);
    free(url);
    ask("reset");
    url = strdup(ask("unix"));
    survives_broken_pipes(url);
    free(url);
}

/* ---- callbacks ---- */

typedef struct {
    quorlock_client *client;
    quorlock_lease *lease;
    int runs, reason;
} loss;

static quorlock_lock_options short_lived(void) {
    quorlock_lock_options options = lock_options(300, 10000);
    options.renew = 0;
    return options;
}

static void lost(void *user, int reason) {
    loss *l = user;
    l->reason = reason;
    __atomic_add_fetch(&l->runs, 1, __ATOMIC_SEQ_CST);
}

static int runs(loss *l) {
    return __atomic_load_n(&l->runs, __ATOMIC_SEQ_CST);
}

static void on_lost_is_called_once_with_the_reason(void) {
    quorlock_client *client = quick_client(ask("server"));
    loss l = {client, take(client, "a", short_lived()), 0, 0};
    GIVES(OK, quorlock_lease_on_lost(l.lease, never, NULL));
    GIVES(OK, quorlock_lease_on_lost(l.lease, lost, &l)); /* replaces it */
    UNTIL(300 + SLACK_MS, runs(&l) == 1);
    CHECK(l.reason == QUORLOCK_REASON_EXPIRED && !quorlock_lease_held(l.lease));
    GIVES(OK, quorlock_lease_on_lost(l.lease, lost, &l)); /* lost already */
    UNTIL(SLACK_MS, runs(&l) == 2);
    quorlock_lease_free(l.lease);
    quorlock_client_free(client);
}

static void no_callback_runs_after_it_was_removed(void) {
    quorlock_client *client = quick_client(ask("server"));
    for (int round = 0; round < 20; round++) {
        bool at_the_loss = round % 2; /* or long before */
        quorlock_lock_options options = at_the_loss ? short_lived() : lock_options(30000, 10000);
        quorlock_lease *removed = take(client, "removed", options);
        quorlock_lease *freed = take(client, "freed", options);
        quorlock_lease *released = take(client, "released", lock_options(30000, 10000));
        loss *l = calloc(1, sizeof *l); /* gone as soon as the calls return: a late callback would write to it */
        GIVES(OK, quorlock_lease_on_lost(removed, lost, l));
        GIVES(OK, quorlock_lease_on_lost(freed, lost, l));
        GIVES(OK, quorlock_lease_on_lost(released, never, NULL));
        CHECK(quorlock_lease_release(released) == QUORLOCK_OK);
        while (at_the_loss && quorlock_lease_remaining_ms(removed) > 1) sleep_ms(1);
        GIVES(OK, quorlock_lease_on_lost(removed, NULL, NULL));
        quorlock_lease_free(freed);
        CHECK(at_the_loss || runs(l) == 0);
        free(l);
        quorlock_lease_free(removed), quorlock_lease_free(released);
    }
    quorlock_client_free(client);
}

static void block_in_callback(void *user, int reason) {
    loss *l = user;
    quorlock_lease *none = (quorlock_lease *)-1;
    GIVES(INVALID, quorlock_client_acquire(l->client, "b", NULL, &none));
    CHECK(none == NULL && error_says("callback"));
    GIVES(INVALID, quorlock_lease_release(l->lease));
    GIVES(INVALID, quorlock_lease_wait_lost(l->lease, QUORLOCK_FOREVER, NULL));
    GIVES(INVALID, quorlock_client_close(l->client, 0));
    GIVES(LOST, quorlock_lease_ensure_held(l->lease)); /* what does not block works */
    GIVES(OK, quorlock_lease_on_lost(l->lease, NULL, NULL));
    quorlock_lease_free(l->lease);
    lost(l, reason);
}

static void blocking_in_a_callback_is_invalid_and_freeing_is_fine(void) {
    quorlock_client *client = quick_client(ask("server"));
    loss l = {client, take(client, "a", short_lived()), 0, 0};
    GIVES(OK, quorlock_lease_on_lost(l.lease, block_in_callback, &l));
    UNTIL(300 + SLACK_MS, runs(&l) == 1);
    quorlock_client_free(client);
}

typedef struct {
    pthread_mutex_t mutex;
    char lines[200][300];
    int n;
} log_book;

static void note(void *user, int level, const char *message) {
    log_book *book = user;
    CHECK(level >= QUORLOCK_LOG_DEBUG && level <= QUORLOCK_LOG_ERROR && strchr(message, '\n') == NULL);
    pthread_mutex_lock(&book->mutex);
    if (book->n < 200) snprintf(book->lines[book->n++], sizeof book->lines[0], "%d %s", level, message);
    pthread_mutex_unlock(&book->mutex);
}

static bool noted(log_book *book, const char *text) {
    bool found = false;
    pthread_mutex_lock(&book->mutex);
    for (int i = 0; i < book->n; i++) found = found || strstr(book->lines[i], text);
    pthread_mutex_unlock(&book->mutex);
    return found;
}

static void events_come_to_the_log(void) {
    static log_book book = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    GIVES(OK, quorlock_set_log(note, &book));
    quorlock_client *client = quick_client(ask("server"));
    quorlock_lease *lease = take(client, "logged", short_lived());
    char *token = strdup(ask("cmd 0 GET lock:{logged}"));
    quorlock_lost_reason reason;
    GIVES(OK, quorlock_lease_wait_lost(lease, QUORLOCK_FOREVER, &reason));
    UNTIL(SLACK_MS, noted(&book, "logged") && noted(&book, "lost"));
    token[strlen(token) - 1] = 0;
    CHECK(strlen(token) > 40 && !noted(&book, token + 1)); /* without its quotes */
    GIVES(OK, quorlock_set_log(NULL, NULL));
    quorlock_lease_free(lease);
    quorlock_client_free(client);
    free(token);
}

/* ---- close ---- */

static void close_ends_waits_and_leases(void) {
    quorlock_client *client = patient_client(ask("server"));
    quorlock_lease *lease = take(client, "a", lock_options(30000, 10000)), *none;
    loss l = {client, lease, 0, 0};
    GIVES(OK, quorlock_lease_on_lost(lease, lost, &l));
    waiter w;
    waiter_start(&w, client, "a", lock_options(30000, QUORLOCK_FOREVER));
    double begin = now_ms();
    GIVES(OK, quorlock_client_close(client, 200));
    CHECK_RANGE(195, 300 + SLACK_MS, now_ms() - begin);
    CHECK(waiter_join(&w) == QUORLOCK_CLOSED && w.lease == NULL);
    UNTIL(SLACK_MS, runs(&l) == 1);
    CHECK(l.reason == QUORLOCK_REASON_CLOSED && !quorlock_lease_held(lease));
    UNTIL(SLACK_MS, ASK_NUMBER("cmd 0 EXISTS lock:{a}") == 0);
    GIVES(CLOSED, quorlock_client_acquire(client, "a", NULL, &none));
    GIVES(CLOSED, quorlock_client_ping(client, 1000, count_up, &l.runs));
    GIVES(LOST, quorlock_lease_release(lease));
    GIVES(OK, quorlock_client_close(client, 0));
    quorlock_lease_free(lease);
    quorlock_client_free(client);
}

static const test_case cases[] = {
    CASE(o39_a_client_made_before_fork_works_in_the_child),
    CASE(o40_a_child_leaves_the_parents_lease_alone),
    CASE(o41_a_lease_may_be_released_in_another_thread),
    CASE(o54_a_stopped_process_knows_that_its_lease_is_over),
    CASE(o66_a_broken_pipe_does_not_kill_the_process),
    CASE(o69_threads_share_a_client),
    CASE(the_last_error_is_that_of_the_thread),
    CASE(interrupt_in_a_signal_handler_ends_the_wait),
    CASE(signals_do_not_end_the_wait),
    CASE(on_lost_is_called_once_with_the_reason),
    CASE(no_callback_runs_after_it_was_removed),
    CASE(blocking_in_a_callback_is_invalid_and_freeing_is_fine),
    CASE(events_come_to_the_log),
    CASE(close_ends_waits_and_leases),
};

int main(int argc, char **argv) {
    return RUN_CASES(argc, argv);
}
