/* What a lock and a lease mean in C, on servers that behave: arguments, times, waiting, ends, texts. */
#include "testbed.h"
#include <math.h>

static void o01_a_ttl_of_odd_milliseconds_is_taken_as_it_is(void) {
    quorlock_client *client = client_with(ask("server"), NULL);
    quorlock_lease *lease = take(client, "a", lock_options(12345, 2000));
    CHECK_RANGE(8000, 12345, ASK_NUMBER("cmd 0 PTTL lock:{a}"));
    quorlock_lease_free(lease);
    quorlock_client_free(client);
}

/* Each of these must fail at once with a message that names the parameter. */
static void refused(quorlock_client *client, const char *name, quorlock_lock_options options, const char *parameter) {
    quorlock_lease *lease = (quorlock_lease *)-1;
    double begin = now_ms();
    GIVES(INVALID, quorlock_client_acquire(client, name, &options, &lease));
    CHECK_RANGE(0, SLACK_MS, now_ms() - begin);
    CHECK(lease == NULL);
    CHECK(error_says(parameter));
    CHECK(quorlock_last_error_status() == QUORLOCK_INVALID);
    CHECK(quorlock_last_error_outcome() == QUORLOCK_OUTCOME_NONE);
}

static void o02_a_ttl_below_the_smallest_is_invalid(void) {
    quorlock_client *client = client_with(ask("servers 3"), NULL);
    CHECK(servers_up(client) == 3);
    for (int i = 0; i < 3; i++) ask("monitor %d start", i);
    const uint32_t bad[] = {0, 1, 2, 99};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        refused(client, "a", lock_options(bad[i], 5000), "ttl");
        CHECK(error_says("at least 100 ms"));
    }
    for (int i = 0; i < 3; i++) CHECK(ASK_NUMBER("monitor %d count", i) == 0);
    quorlock_client_free(client);
}

static void o03_thirty_seconds_are_30000(void) {
    quorlock_client *client = client_with(ask("server"), NULL);
    quorlock_lease *lease = take(client, "a", lock_options(30000, QUORLOCK_FOREVER));
    CHECK_RANGE(27000, 30000, ASK_NUMBER("cmd 0 PTTL lock:{a}"));
    quorlock_lease *with_defaults = NULL;
    GIVES(OK, quorlock_client_acquire(client, "b", NULL, &with_defaults));
    CHECK_RANGE(27000, 30000, ASK_NUMBER("cmd 0 PTTL lock:{b}"));
    quorlock_lease_free(lease);
    quorlock_lease_free(with_defaults);
    quorlock_client_free(client);
}

static void o04_extend_sets_the_time_and_does_not_add(void) {
    quorlock_client *client = patient_client(ask("server"));
    quorlock_lock_options options = lock_options(10000, QUORLOCK_FOREVER);
    options.renew = 0;
    quorlock_lease *lease = take(client, "a", options);
    for (int i = 0; i < 5; i++) {
        uint32_t remaining = 1;
        GIVES(OK, quorlock_lease_extend(lease, i % 2 ? 10000 : QUORLOCK_DEFAULT, &remaining));
        CHECK_RANGE(7000, 9898, remaining);
        CHECK_RANGE(7000, 10000, ASK_NUMBER("cmd 0 PTTL lock:{a}"));
        CHECK_RANGE(7000, remaining, quorlock_lease_remaining_ms(lease));
    }
    GIVES(OK, quorlock_lease_extend(lease, 20000, NULL));
    CHECK_RANGE(15000, 19798, quorlock_lease_remaining_ms(lease));
    uint32_t remaining = 1;
    GIVES(INVALID, quorlock_lease_extend(lease, QUORLOCK_FOREVER, &remaining));
    CHECK(remaining == 0 && error_says("ttl_ms"));
    GIVES(INVALID, quorlock_lease_extend(lease, 1, NULL));
    GIVES(OK, quorlock_lease_release(lease));
    quorlock_lease_free(lease);
    quorlock_client_free(client);
}

static int acquire_for_ever(void *url) {
    quorlock_client *client = client_with(url, NULL);
    for (;;) {
        quorlock_lease *lease = take(client, "a", lock_options(2000, QUORLOCK_FOREVER));
        quorlock_lease_release(lease);
        quorlock_lease_free(lease);
    }
    return 0;
}

static void o05_no_key_is_ever_without_an_expiry(void) {
    char *url = strdup(ask("server"));
    for (int round = 0; round < 40; round++) {
        pid_t child = child_start(acquire_for_ever, url);
        double end = now_ms() + (round * 7) % 20;
        do {
            CHECK(ASK_NUMBER("cmd 0 PTTL lock:{a}") != -1);
            CHECK(ASK_NUMBER("cmd 0 PTTL lock:{a}:fence") != -1);
        } while (now_ms() < end);
        CHECK(kill(child, SIGKILL) == 0 && child_wait(child, 10000) == 128 + SIGKILL);
    }
    UNTIL(2000 + SLACK_MS, ASK_NUMBER("cmd 0 EXISTS lock:{a}") == 0);
    free(url);
}

static void bad_client(const char *url, const quorlock_client_options *options, const char *parameter) {
    quorlock_client *client = (quorlock_client *)-1;
    GIVES(INVALID, quorlock_client_new(&url, 1, options, &client));
    CHECK(client == NULL && error_says(parameter));
}

static void o06_hostile_arguments_are_invalid_and_nothing_is_sent(void) {
    char *url = strdup(ask("server"));
    quorlock_client *client = patient_client(url);
    CHECK(servers_up(client) == 1);
    ask("monitor 0 start");

    quorlock_lock_options good = lock_options(5000, 0), bad = good;
    bad.ttl_ms = QUORLOCK_FOREVER, refused(client, "a", bad, "ttl_ms"), bad = good;
    bad.renew = 7, refused(client, "a", bad, "renew"), bad = good;
    bad.max_hold_ms = 1, refused(client, "a", bad, "max_hold"), bad = good;
    bad.size = 0, refused(client, "a", bad, "options.size"), bad = good;
    bad.size++, refused(client, "a", bad, "options.size"), bad = good;
    char long_text[1026] = {0};
    memset(long_text, 'x', sizeof long_text - 1);
    bad.label = long_text, refused(client, "a", bad, "label"), bad = good;
    bad.label = "\xff", refused(client, "a", bad, "label"), bad = good;
    refused(client, long_text, good, "name");
    refused(client, "", good, "name");
    refused(client, "\xc3(", good, "name");
    refused(client, NULL, good, "name");
    quorlock_lease *lease = (quorlock_lease *)-1;
    GIVES(INVALID, quorlock_client_acquire_n(client, "ab\xff", 3, &good, &lease));
    CHECK(lease == NULL && error_says("name"));
    GIVES(INVALID, quorlock_client_acquire_n(client, "a", SIZE_MAX, &good, &lease));

    quorlock_client_options options = QUORLOCK_CLIENT_OPTIONS_INIT, wrong = options;
    wrong.server_timeout_ms = 0, bad_client(url, &wrong, "server_timeout"), wrong = options;
    wrong.server_timeout_ms = QUORLOCK_FOREVER, bad_client(url, &wrong, "server_timeout_ms"), wrong = options;
    wrong.ttl_ms = 1, bad_client(url, &wrong, "ttl"), wrong = options;
    wrong.drift = -1, bad_client(url, &wrong, "drift"), wrong = options;
    wrong.drift = NAN, bad_client(url, &wrong, "drift"), wrong = options;
    wrong.exact_keys = 2, bad_client(url, &wrong, "exact_keys"), wrong = options;
    wrong.prefix = "a{b", bad_client(url, &wrong, "prefix"), wrong = options;
    wrong.client_cert = "c.pem", bad_client(url, &wrong, "client_cert"), wrong = options;
    wrong.size = 4, bad_client(url, &wrong, "options.size");
    bad_client("http://x", &options, "http");
    bad_client("", NULL, "");
    bad_client("redis://\xff", NULL, "urls[0]");

    CHECK(ASK_NUMBER("monitor 0 count") == 0);
    lease = take(client, "a", good);
    quorlock_lease_free(lease);
    quorlock_client_free(client);
    free(url);
}

static void o07_release_of_an_expired_lease_says_lost(void) {
    quorlock_client *client = client_with(ask("server"), NULL);
    quorlock_lock_options options = lock_options(200, QUORLOCK_FOREVER);
    options.renew = 0;
    quorlock_lease *lease = take(client, "a", options);
    quorlock_lost_reason reason;
    GIVES(OK, quorlock_lease_wait_lost(lease, QUORLOCK_FOREVER, &reason));
    CHECK(reason == QUORLOCK_REASON_EXPIRED);
    GIVES(LOST, quorlock_lease_release(lease));
    GIVES(LOST, quorlock_lease_ensure_held(lease));
    GIVES(LOST, quorlock_lease_extend(lease, QUORLOCK_DEFAULT, NULL));
    GIVES(LOST, quorlock_lease_confirm(lease));
    char name[10];
    CHECK(quorlock_last_error_name(name, sizeof name) == 1 && strcmp(name, "a") == 0);
    quorlock_lease_free(lease);
    quorlock_client_free(client);
}

static void o09_max_hold_ends_the_renewal(void) {
    char *url = strdup(ask("server"));
    quorlock_client *first = client_with(url, NULL), *second = client_with(url, NULL);
    quorlock_lock_options options = lock_options(300, QUORLOCK_FOREVER);
    options.max_hold_ms = 1000;
    double begin = now_ms();
    quorlock_lease *lease = take(first, "a", options);
    waiter other;
    waiter_start(&other, second, "a", lock_options(5000, QUORLOCK_FOREVER));
    quorlock_lost_reason reason;
    GIVES(OK, quorlock_lease_wait_lost(lease, 1300 + SLACK_MS, &reason));
    CHECK(reason == QUORLOCK_REASON_MAX_HOLD && quorlock_lease_lost_reason(lease) == QUORLOCK_REASON_MAX_HOLD);
    CHECK_RANGE(990, 1300 + SLACK_MS, now_ms() - begin);
    CHECK(waiter_join(&other) == QUORLOCK_OK);
    CHECK_RANGE(900, 1450 + SLACK_MS, now_ms() - begin);
    CHECK(quorlock_lease_fence(other.lease) > quorlock_lease_fence(lease));
    quorlock_lease_free(lease), quorlock_lease_free(other.lease);
    quorlock_client_free(first), quorlock_client_free(second);
    free(url);
}

static void o14_a_late_release_leaves_the_next_holder_alone(void) {
    char *url = strdup(ask("server"));
    quorlock_client *a = client_with(url, NULL), *b = patient_client(url), *c = patient_client(url);
    quorlock_lock_options options = lock_options(200, QUORLOCK_FOREVER);
    options.renew = 0;
    quorlock_lease *late = take(a, "job", options);
    quorlock_lease *next = take(b, "job", lock_options(30000, QUORLOCK_FOREVER));
    char *token = strdup(ask("cmd 0 GET lock:{job}"));
    GIVES(LOST, quorlock_lease_release(late));
    quorlock_lease_free(late);
    CHECK(strcmp(ask("cmd 0 GET lock:{job}"), token) == 0);
    CHECK_RANGE(20000, 30000, ASK_NUMBER("cmd 0 PTTL lock:{job}"));
    quorlock_lease *none = (quorlock_lease *)-1;
    GIVES(BUSY, quorlock_client_try_acquire(c, "job", NULL, &none));
    CHECK(none == NULL);
    quorlock_lease_free(next);
    quorlock_client_free(a), quorlock_client_free(b), quorlock_client_free(c);
    free(url), free(token);
}

static void waits_until_the_deadline(const char *urls) {
    quorlock_client *a = patient_client(urls), *b = patient_client(urls), *c = patient_client(urls);
    quorlock_lease *held = take(a, "job", lock_options(20000, QUORLOCK_FOREVER));
    waiter patient, hasty;
    waiter_start(&patient, b, "job", lock_options(20000, 10000));
    waiter_start(&hasty, c, "job", lock_options(20000, 1000));
    CHECK(waiter_join(&hasty) == QUORLOCK_BUSY);
    CHECK_RANGE(995, 1100 + SLACK_MS, hasty.took_ms);
    CHECK(hasty.lease == NULL);
    GIVES(OK, quorlock_lease_release(held));
    CHECK(waiter_join(&patient) == QUORLOCK_OK);
    CHECK_RANGE(1000, 1100 + 2 * SLACK_MS, patient.took_ms);
    quorlock_lease_free(held), quorlock_lease_free(patient.lease);
    quorlock_client_free(a), quorlock_client_free(b), quorlock_client_free(c);
}

static void o16_a_wait_lasts_until_its_deadline(void) {
    char *one = strdup(ask("server"));
    waits_until_the_deadline(one);
    ask("reset");
    char *five = strdup(ask("servers 5"));
    waits_until_the_deadline(five);
    free(one), free(five);
}

static void o17_validity_counts_from_the_winning_attempt(void) {
    quorlock_client *client = quick_client(ask("server"));
    quorlock_lock_options options = lock_options(2400, QUORLOCK_FOREVER);
    options.renew = 0;
    quorlock_lease *first = take(client, "a", options);
    options.ttl_ms = 2000;
    quorlock_lease *second = take(client, "a", options);
    CHECK_RANGE(1000, 1978, quorlock_lease_remaining_ms(second));
    quorlock_lease_free(first), quorlock_lease_free(second);
    quorlock_client_free(client);
}

static void o18_nothing_goes_on_after_the_deadline(void) {
    char *url = strdup(ask("server"));
    quorlock_client *a = patient_client(url), *b = patient_client(url);
    quorlock_lease *held = take(a, "job", lock_options(30000, QUORLOCK_FOREVER)), *none;
    quorlock_lock_options options = lock_options(30000, 300);
    GIVES(BUSY, quorlock_client_acquire(b, "job", &options, &none));
    GIVES(OK, quorlock_lease_release(held));
    ask("monitor 0 start");
    sleep_ms(1000); /* the absence of traffic is the matter itself */
    CHECK(ASK_NUMBER("monitor 0 count") == 0);
    CHECK(ASK_NUMBER("cmd 0 EXISTS lock:{job}") == 0);
    quorlock_lease_free(held);
    quorlock_client_free(a), quorlock_client_free(b);
    free(url);
}

static void o19_ok_means_held_and_nothing_else_does(void) {
    char *url = strdup(ask("server"));
    quorlock_client *a = patient_client(url), *b = patient_client(url);
    quorlock_lease *held = take(a, "job", lock_options(30000, QUORLOCK_FOREVER)), *none = (quorlock_lease *)-1;
    quorlock_lock_options options = lock_options(30000, 200);
    double begin = now_ms();
    GIVES(BUSY, quorlock_client_acquire(b, "job", &options, &none));
    CHECK_RANGE(195, 300 + SLACK_MS, now_ms() - begin);
    CHECK(none == NULL && !quorlock_lease_held(none) && quorlock_lease_fence(none) == 0);
    options.wait_ms = QUORLOCK_FOREVER;
    GIVES(BUSY, quorlock_client_try_acquire(b, "job", &options, &none));
    CHECK(none == NULL);
    quorlock_lease_free(held);
    quorlock_client_free(a), quorlock_client_free(b);
    free(url);
}

static void o41_released_twice_is_closed_and_not_lost(void) {
    quorlock_client *client = patient_client(ask("server"));
    quorlock_lease *lease = take(client, "a", lock_options(30000, QUORLOCK_FOREVER));
    GIVES(OK, quorlock_lease_ensure_held(lease));
    GIVES(OK, quorlock_lease_confirm(lease));
    CHECK(quorlock_lease_held(lease) && quorlock_lease_lost_reason(lease) == QUORLOCK_REASON_NONE);
    GIVES(OK, quorlock_lease_release(lease));
    GIVES(CLOSED, quorlock_lease_release(lease));
    CHECK(error_says("released before"));
    GIVES(CLOSED, quorlock_lease_ensure_held(lease));
    GIVES(CLOSED, quorlock_lease_confirm(lease));
    GIVES(CLOSED, quorlock_lease_extend(lease, QUORLOCK_DEFAULT, NULL));
    CHECK(!quorlock_lease_held(lease) && quorlock_lease_remaining_ms(lease) == 0);
    CHECK(quorlock_lease_lost_reason(lease) == QUORLOCK_REASON_NONE);
    CHECK(ASK_NUMBER("cmd 0 EXISTS lock:{a}") == 0);
    quorlock_lease_free(lease);
    quorlock_client_free(client);
}

static void o56_a_key_of_another_type_is_refused_by_name(void) {
    quorlock_client *client = patient_client(ask("server"));
    ask("cmd 0 HSET account:42 owner ann");
    quorlock_lease *lease = take(client, "account:42", lock_options(30000, 2000));
    quorlock_lease_free(lease);
    ask("cmd 0 HSET lock:{hash} owner ann");
    quorlock_lock_options options = lock_options(30000, 20000);
    double begin = now_ms();
    GIVES(REFUSED, quorlock_client_acquire(client, "hash", &options, &lease));
    CHECK_RANGE(0, 50 + SLACK_MS, now_ms() - begin);
    CHECK(error_says("lock:{hash}") && error_says("hash"));
    CHECK(strcmp(ask("cmd 0 HGET lock:{hash} owner"), "\"ann\"") == 0);
    quorlock_client_free(client);
}

static void o57_the_key_is_the_one_of_every_language(void) {
    char *url = strdup(ask("server"));
    quorlock_client *client = patient_client(url);
    quorlock_lease *lease = take(client, "orders/42 \xc3\xbc", lock_options(30000, 0));
    CHECK(ASK_NUMBER("cmd 0 EXISTS \"lock:{orders/42 \xc3\xbc}\"") == 1);
    quorlock_lease_free(lease);

    quorlock_lock_options options = lock_options(30000, 0);
    GIVES(OK, quorlock_client_acquire_n(client, "a\0b, and more", 3, &options, &lease));
    CHECK(ASK_NUMBER("cmd 0 EXISTS \"lock:{a\\x00b}\"") == 1);
    char name[4] = "xxx";
    CHECK(quorlock_lease_name(lease, name, sizeof name) == 3 && memcmp(name, "a\0b", 4) == 0);
    quorlock_lease_free(lease);

    ask("cmd 0 SET lock:{theirs} somebody NX PX 60000"); /* a plain Redis user */
    GIVES(BUSY, quorlock_client_try_acquire(client, "theirs", NULL, &lease));

    quorlock_client_options prefixed = QUORLOCK_CLIENT_OPTIONS_INIT;
    prefixed.prefix = "app:", prefixed.server_timeout_ms = 2000;
    quorlock_client *other = client_with(url, &prefixed);
    lease = take(other, "job", options);
    CHECK(ASK_NUMBER("cmd 0 EXISTS app:{job}") == 1);
    quorlock_lease_free(lease);
    quorlock_client_free(other);

    quorlock_client_options exact = QUORLOCK_CLIENT_OPTIONS_INIT;
    exact.exact_keys = 1, exact.server_timeout_ms = 2000;
    other = client_with(url, &exact);
    lease = take(other, "job", options);
    CHECK(ASK_NUMBER("cmd 0 EXISTS job") == 1);
    quorlock_lease_free(lease);
    quorlock_client_free(other);
    quorlock_client_free(client);
    free(url);
}

static void o73_the_last_fence_is_exact_and_the_next_is_refused(void) {
    quorlock_client *client = patient_client(ask("server"));
    ask("cmd 0 SET lock:{a}:fence 9007199254740990");
    quorlock_lease *lease = take(client, "a", lock_options(30000, 2000));
    CHECK(quorlock_lease_fence(lease) == 9007199254740991u);
    GIVES(OK, quorlock_lease_release(lease));
    quorlock_lease_free(lease);
    GIVES(REFUSED, quorlock_client_acquire(client, "a", NULL, &lease));
    CHECK(error_says("lock:{a}:fence") && error_says("fence exhausted"));
    CHECK(ASK_NUMBER("cmd 0 EXISTS lock:{a}") == 0);
    quorlock_client_free(client);
}

static void freeing_a_held_lease_releases_it(void) {
    quorlock_client *client = patient_client(ask("server"));
    quorlock_lease *lease = take(client, "a", lock_options(30000, 0));
    quorlock_client_free(client);
    CHECK(quorlock_lease_held(lease) && ASK_NUMBER("cmd 0 EXISTS lock:{a}") == 1);
    quorlock_lease_free(lease);
    UNTIL(SLACK_MS, ASK_NUMBER("cmd 0 EXISTS lock:{a}") == 0);
}

static void texts_are_cut_as_snprintf_does(void) {
    quorlock_client *client = patient_client(ask("server"));
    quorlock_lease *lease = take(client, "a\xc3\xbc" "b", lock_options(30000, 0)); /* "aüb": 4 bytes */
    char text[8];
    const struct {
        size_t room;
        const char *is;
    } cuts[] = {{1, ""}, {2, "a"}, {3, "a"}, {4, "a\xc3\xbc"}, {5, "a\xc3\xbc" "b"}, {8, "a\xc3\xbc" "b"}};
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        memset(text, 'x', sizeof text);
        CHECK(quorlock_lease_name(lease, text, cuts[i].room) == 4);
        CHECK(strcmp(text, cuts[i].is) == 0);
    }
    CHECK(quorlock_lease_name(lease, NULL, 0) == 4 && quorlock_lease_name(lease, NULL, 100) == 4);
    text[0] = 'x';
    CHECK(quorlock_lease_name(lease, text, 0) == 4 && text[0] == 'x');
    quorlock_lease_free(lease);
    quorlock_client_free(client);
}

static void see_holder(void *user, const quorlock_lock_info *lock) {
    CHECK(lock->held == 1 && lock->holder_pid == (uint32_t)getpid() && lock->remaining_ms <= 20000);
    CHECK(strcmp(lock->holder_language, "c") == 0 && strcmp(lock->label, "nightly") == 0 && lock->holder_since_ms > 0);
    *(uint64_t *)user = lock->fence;
}

static void see_server(void *user, const char *address, uint64_t calls, uint64_t failures) {
    CHECK(strncmp(address, "127.0.0.1:", 10) == 0 && calls >= 2 && failures == 0);
    ++*(int *)user;
}

static void o71_holders_and_contention_are_seen(void) {
    char *url = strdup(ask("server"));
    quorlock_client *client = patient_client(url);
    quorlock_lock_options options = lock_options(20000, 5000);
    options.label = "nightly";
    quorlock_lease *lease = take(client, "a", options), *none;
    uint64_t fence = 0, broken = 0;
    GIVES(OK, quorlock_client_inspect(client, "a", see_holder, &fence));
    CHECK(fence == quorlock_lease_fence(lease));
    GIVES(BUSY, quorlock_client_try_acquire(client, "a", NULL, &none));
    quorlock_stats stats;
    int servers = 0;
    GIVES(OK, quorlock_client_stats(client, &stats, sizeof stats, see_server, &servers));
    CHECK(servers == 1 && stats.acquired == 1 && stats.busy == 1 && stats.holding == 1 && stats.wait.count == 2);
    GIVES(INVALID, quorlock_client_stats(client, &stats, 1, NULL, NULL));
    GIVES(OK, quorlock_client_break_lock(client, "a", &broken));
    CHECK(broken > fence);
    GIVES(LOST, quorlock_lease_confirm(lease));
    quorlock_lease_free(lease);
    quorlock_client_free(client);
    free(url);
}

static void the_initialisers_are_the_defaults(void) {
    quorlock_lock_options lock = QUORLOCK_LOCK_OPTIONS_INIT, lock_set;
    memset(&lock_set, 1, sizeof lock_set);
    GIVES(OK, quorlock_lock_options_init(&lock_set));
    CHECK(lock.size == lock_set.size && lock.ttl_ms == lock_set.ttl_ms && lock.wait_ms == lock_set.wait_ms);
    CHECK(lock.renew == lock_set.renew && lock.max_hold_ms == lock_set.max_hold_ms && lock.label == lock_set.label);
    quorlock_client_options client = QUORLOCK_CLIENT_OPTIONS_INIT, set;
    memset(&set, 1, sizeof set);
    GIVES(OK, quorlock_client_options_init(&set));
    CHECK(client.size == set.size && client.ttl_ms == set.ttl_ms && client.wait_ms == set.wait_ms);
    CHECK(client.server_timeout_ms == set.server_timeout_ms && client.exact_keys == set.exact_keys);
    CHECK(client.claim_window_ms == set.claim_window_ms);
    CHECK(client.drift >= set.drift && client.drift <= set.drift && client.label == set.label);
    CHECK(client.prefix == set.prefix && client.ca_file == set.ca_file);
    CHECK(client.client_cert == set.client_cert && client.client_key == set.client_key);
}

static void client_options_are_the_defaults_of_its_locks(void) {
    char *url = strdup(ask("server"));
    quorlock_client_options options = QUORLOCK_CLIENT_OPTIONS_INIT;
    options.ttl_ms = 20000, options.wait_ms = 300, options.server_timeout_ms = 2000, options.label = "nightly";
    quorlock_client *client = client_with(url, &options);
    quorlock_lease *lease = NULL, *none = NULL;
    GIVES(OK, quorlock_client_acquire(client, "a", NULL, &lease));
    CHECK_RANGE(15000, 20000, ASK_NUMBER("cmd 0 PTTL lock:{a}"));
    CHECK(strcmp(ask("cmd 0 GET lock:{a}:label"), "\"nightly\"") == 0);
    double begin = now_ms();
    GIVES(BUSY, quorlock_client_acquire(client, "a", NULL, &none));
    CHECK_RANGE(295, 400 + SLACK_MS, now_ms() - begin);
    quorlock_lease_free(lease);
    quorlock_client_free(client);
    free(url);
}

static void versions_and_names_are_those_of_the_header(void) {
    char version[40];
    snprintf(version, sizeof version, "%d.%d.%d", QUORLOCK_VERSION_MAJOR, QUORLOCK_VERSION_MINOR,
             QUORLOCK_VERSION_PATCH);
    CHECK(strcmp(version, QUORLOCK_VERSION) == 0 && strcmp(quorlock_version(), version) == 0);
    const char *names[] = {"ok",      "busy",    "lost",   "unavailable", "stale",    "conflict",
                           "refused", "invalid", "closed", "internal",    "cancelled"};
    for (int i = 0; i <= QUORLOCK_CANCELLED; i++) CHECK(strcmp(quorlock_status_name(i), names[i]) == 0);
    CHECK(strcmp(quorlock_status_name(-1), "unknown") == 0 && strcmp(quorlock_status_name(11), "unknown") == 0);
}

static const test_case cases[] = {
    CASE(o01_a_ttl_of_odd_milliseconds_is_taken_as_it_is),
    CASE(o02_a_ttl_below_the_smallest_is_invalid),
    CASE(o03_thirty_seconds_are_30000),
    CASE(o04_extend_sets_the_time_and_does_not_add),
    CASE(o05_no_key_is_ever_without_an_expiry),
    CASE(o06_hostile_arguments_are_invalid_and_nothing_is_sent),
    CASE(o07_release_of_an_expired_lease_says_lost),
    CASE(o09_max_hold_ends_the_renewal),
    CASE(o14_a_late_release_leaves_the_next_holder_alone),
    CASE(o16_a_wait_lasts_until_its_deadline),
    CASE(o17_validity_counts_from_the_winning_attempt),
    CASE(o18_nothing_goes_on_after_the_deadline),
    CASE(o19_ok_means_held_and_nothing_else_does),
    CASE(o41_released_twice_is_closed_and_not_lost),
    CASE(o56_a_key_of_another_type_is_refused_by_name),
    CASE(o57_the_key_is_the_one_of_every_language),
    CASE(o73_the_last_fence_is_exact_and_the_next_is_refused),
    CASE(freeing_a_held_lease_releases_it),
    CASE(texts_are_cut_as_snprintf_does),
    CASE(the_initialisers_are_the_defaults),
    CASE(o71_holders_and_contention_are_seen),
    CASE(client_options_are_the_defaults_of_its_locks),
    CASE(versions_and_names_are_those_of_the_header),
};

int main(int argc, char **argv) {
    return RUN_CASES(argc, argv);
}
