/*
 * o67: what a wrong call and a bug of ours do: never more than a status and a text. Every exported function is here,
 * with NULL in each place, and (in the library with the feature test-panic) with a panic in its body.
 */
#include "testbed.h"

#define INVALID_FOR(parameter, call)                                                               \
    do {                                                                                           \
        GIVES(INVALID, call);                                                                      \
        CHECK(error_says(parameter " = NULL"));                                                    \
        CHECK(quorlock_last_error_status() == QUORLOCK_INVALID);                                   \
    } while (0)

static void ignore_lock(void *user, const quorlock_lock_info *lock) { (void)user, (void)lock; }

static void ignore_ping(void *user, const char *address, uint64_t round_trip_us, const char *cause) {
    (void)user, (void)address, (void)round_trip_us, (void)cause;
}

static void ignore_loss(void *user, int reason) {
    (void)user, (void)reason;
}

static void o67_null_in_each_place(void) {
    char *url = strdup(ask("server"));
    const char *urls[] = {url, NULL};
    quorlock_client *client = patient_client(url), *no_client;
    quorlock_lease *lease = take(client, "a", lock_options(30000, 10000)), *no_lease;
    quorlock_lock_options options = lock_options(30000, 0);

    INVALID_FOR("options", quorlock_lock_options_init(NULL));
    INVALID_FOR("options", quorlock_client_options_init(NULL));

    INVALID_FOR("urls", quorlock_client_new(NULL, 1, NULL, &no_client));
    INVALID_FOR("urls[1]", quorlock_client_new(urls, 2, NULL, &no_client));
    INVALID_FOR("client", quorlock_client_new(urls, 1, NULL, NULL));
    GIVES(INVALID, quorlock_client_new(urls, 0, NULL, &no_client));
    CHECK(no_client == NULL);
    INVALID_FOR("client", quorlock_client_acquire(NULL, "b", &options, &no_lease));
    INVALID_FOR("name", quorlock_client_acquire(client, NULL, &options, &no_lease));
    INVALID_FOR("lease", quorlock_client_acquire(client, "b", &options, NULL));
    INVALID_FOR("client", quorlock_client_acquire_n(NULL, "b", 1, &options, &no_lease));
    INVALID_FOR("name", quorlock_client_acquire_n(client, NULL, 1, &options, &no_lease));
    INVALID_FOR("lease", quorlock_client_acquire_n(client, "b", 1, &options, NULL));
    GIVES(INVALID, quorlock_client_acquire_n(client, "b", 0, &options, &no_lease));
    INVALID_FOR("client", quorlock_client_try_acquire(NULL, "b", &options, &no_lease));
    INVALID_FOR("name", quorlock_client_try_acquire(client, NULL, &options, &no_lease));
    INVALID_FOR("lease", quorlock_client_try_acquire(client, "b", &options, NULL));
    CHECK(no_lease == NULL);
    INVALID_FOR("client", quorlock_client_ping(NULL, 0, ignore_ping, NULL));
    INVALID_FOR("each", quorlock_client_ping(client, 0, NULL, NULL));
    uint64_t fence;
    quorlock_stats stats;
    INVALID_FOR("client", quorlock_client_inspect(NULL, "b", ignore_lock, NULL));
    INVALID_FOR("name", quorlock_client_inspect(client, NULL, ignore_lock, NULL));
    INVALID_FOR("found", quorlock_client_inspect(client, "b", NULL, NULL));
    INVALID_FOR("client", quorlock_client_break_lock(NULL, "b", &fence));
    INVALID_FOR("name", quorlock_client_break_lock(client, NULL, &fence));
    INVALID_FOR("fence", quorlock_client_break_lock(client, "b", NULL));
    INVALID_FOR("client", quorlock_client_stats(NULL, &stats, sizeof stats, NULL, NULL));
    INVALID_FOR("stats", quorlock_client_stats(client, NULL, sizeof stats, NULL, NULL));
    INVALID_FOR("client", quorlock_client_close(NULL, 0));
    quorlock_client_interrupt(NULL);
    quorlock_client_free(NULL);

    CHECK(quorlock_lease_fence(NULL) == 0 && error_says("lease = NULL"));
    CHECK(quorlock_lease_name(NULL, NULL, 0) == 0 && quorlock_lease_name(lease, NULL, 5) == 1);
    CHECK(!quorlock_lease_held(NULL) && quorlock_lease_remaining_ms(NULL) == 0);
    CHECK(quorlock_lease_lost_reason(NULL) == QUORLOCK_REASON_NONE);
    INVALID_FOR("lease", quorlock_lease_ensure_held(NULL));
    INVALID_FOR("lease", quorlock_lease_confirm(NULL));
    uint32_t remaining = 1;
    INVALID_FOR("lease", quorlock_lease_extend(NULL, 30000, &remaining));
    CHECK(remaining == 0);
    GIVES(OK, quorlock_lease_extend(lease, 30000, NULL));
    quorlock_lost_reason reason = QUORLOCK_REASON_TAKEN;
    INVALID_FOR("lease", quorlock_lease_wait_lost(NULL, 0, &reason));
    CHECK(reason == QUORLOCK_REASON_NONE);
    GIVES(OK, quorlock_lease_wait_lost(lease, 0, NULL));
    INVALID_FOR("lease", quorlock_lease_on_lost(NULL, ignore_loss, NULL));
    GIVES(OK, quorlock_lease_on_lost(lease, NULL, NULL));
    INVALID_FOR("lease", quorlock_lease_release(NULL));
    quorlock_lease_free(NULL);

    GIVES(OK, quorlock_set_log(NULL, NULL));
    GIVES(INVALID, quorlock_lease_release(NULL));
    CHECK(quorlock_last_error_message(NULL, 0) > 0 && quorlock_last_error_message(NULL, 10) > 0);
    CHECK(quorlock_last_error_name(NULL, 10) == 0);
    CHECK(quorlock_last_error_server_count() == 0);
    CHECK(quorlock_last_error_server_address(SIZE_MAX, NULL, 10) == 0);
    CHECK(quorlock_last_error_server_cause(0, NULL, 10) == 0);
    CHECK(quorlock_last_error_attempts() == 0 && quorlock_last_error_elapsed_ms() == 0);
    CHECK(quorlock_last_error_outcome() == QUORLOCK_OUTCOME_NONE);
    CHECK(quorlock_status_name(INT32_MIN) && quorlock_version());

    GIVES(OK, quorlock_lease_release(lease)); /* all of it did no harm */
    quorlock_lease_free(lease);
    quorlock_client_free(client);
    free(url);
}

/* Runs a call while every body panics; `says` is what the call must give. */
#define PANICS(says)                                                                               \
    do {                                                                                           \
        setenv("QUORLOCK_TEST_PANIC", "1", 1);                                                     \
        bool as_expected = (says);                                                                 \
        unsetenv("QUORLOCK_TEST_PANIC");                                                           \
        CHECK(as_expected && #says);                                                               \
        CHECK(quorlock_last_error_status() == QUORLOCK_INTERNAL && error_says("induced"));         \
    } while (0)

static void o67_panic_in_each_body(void) {
    const char *url = strdup(ask("server"));
    quorlock_client *client = patient_client(url), *no_client = NULL;
    quorlock_lease *lease = take(client, "a", lock_options(30000, 10000)), *no_lease = NULL;
    quorlock_lock_options options;
    quorlock_client_options client_options;
    quorlock_lost_reason reason;
    uint32_t remaining;
    char text[100];

    PANICS(quorlock_lock_options_init(&options) == QUORLOCK_INTERNAL);
    PANICS(quorlock_client_options_init(&client_options) == QUORLOCK_INTERNAL);
    PANICS(quorlock_client_new(&url, 1, NULL, &no_client) == QUORLOCK_INTERNAL);
    PANICS(quorlock_client_acquire(client, "b", NULL, &no_lease) == QUORLOCK_INTERNAL);
    PANICS(quorlock_client_acquire_n(client, "b", 1, NULL, &no_lease) == QUORLOCK_INTERNAL);
    PANICS(quorlock_client_try_acquire(client, "b", NULL, &no_lease) == QUORLOCK_INTERNAL);
    CHECK(no_client == NULL && no_lease == NULL);
    PANICS(quorlock_client_ping(client, 1000, ignore_ping, NULL) == QUORLOCK_INTERNAL);
    PANICS(quorlock_client_close(client, 0) == QUORLOCK_INTERNAL);
    PANICS((quorlock_client_interrupt(client), true));
    PANICS(quorlock_lease_fence(lease) == 0);
    PANICS(quorlock_lease_name(lease, text, sizeof text) == 0);
    PANICS(!quorlock_lease_held(lease));
    PANICS(quorlock_lease_remaining_ms(lease) == 0);
    PANICS(quorlock_lease_lost_reason(lease) == QUORLOCK_REASON_NONE);
    PANICS(quorlock_lease_ensure_held(lease) == QUORLOCK_INTERNAL);
    PANICS(quorlock_lease_confirm(lease) == QUORLOCK_INTERNAL);
    PANICS(quorlock_lease_extend(lease, 30000, &remaining) == QUORLOCK_INTERNAL);
    PANICS(quorlock_lease_wait_lost(lease, 0, &reason) == QUORLOCK_INTERNAL);
    PANICS(quorlock_lease_on_lost(lease, ignore_loss, NULL) == QUORLOCK_INTERNAL);
    PANICS(quorlock_lease_release(lease) == QUORLOCK_INTERNAL);
    PANICS(quorlock_set_log(NULL, NULL) == QUORLOCK_INTERNAL);
    PANICS(quorlock_last_error_message(text, sizeof text) == 0);
    PANICS(quorlock_last_error_status() == QUORLOCK_INTERNAL);
    PANICS(quorlock_last_error_name(text, sizeof text) == 0);
    PANICS(quorlock_last_error_attempts() == 0);
    PANICS(quorlock_last_error_elapsed_ms() == 0);
    PANICS(quorlock_last_error_outcome() == QUORLOCK_OUTCOME_NONE);
    PANICS(quorlock_last_error_server_count() == 0);
    PANICS(quorlock_last_error_server_address(0, text, sizeof text) == 0);
    PANICS(quorlock_last_error_server_cause(0, text, sizeof text) == 0);

    GIVES(OK, quorlock_lease_ensure_held(lease)); /* nothing of it reached the lease, and the library goes on */
    GIVES(OK, quorlock_lease_release(lease));
    PANICS((quorlock_lease_free(lease), true));
    lease = take(client, "c", lock_options(30000, 10000));
    quorlock_lease_free(lease);
    PANICS((quorlock_client_free(client), true));
}

static const test_case cases[] = {CASE(o67_null_in_each_place)};
static const test_case panic_cases[] = {CASE(o67_panic_in_each_body)};

int main(int argc, char **argv) {
    bool panic = argc > 1 && strcmp(argv[1], "panic") == 0;
    return run_cases(panic ? panic_cases : cases, 1, 1, argv);
}
