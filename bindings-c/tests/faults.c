/* What a C program sees when servers freeze, die, forget, refuse or hang up. */
#include "testbed.h"

static void o08_a_holder_notices_by_its_own_clock(void) {
    quorlock_client *client = quick_client(ask("server"));
    quorlock_lease *lease = take(client, "a", lock_options(1000, QUORLOCK_FOREVER));
    quorlock_lost_reason reason;
    GIVES(OK, quorlock_lease_wait_lost(lease, 500, &reason)); /* renewed at least once */
    CHECK(reason == QUORLOCK_REASON_NONE);
    ask("freeze 0");
    double begin = now_ms();
    CHECK(quorlock_lease_remaining_ms(lease) > 0);
    GIVES(OK, quorlock_lease_wait_lost(lease, 1000 + SLACK_MS, &reason));
    CHECK(reason == QUORLOCK_REASON_EXPIRED && !quorlock_lease_held(lease));
    CHECK(quorlock_lease_remaining_ms(lease) == 0);
    CHECK_RANGE(0, 1000 + SLACK_MS, now_ms() - begin);
    GIVES(LOST, quorlock_lease_ensure_held(lease));
    ask("thaw 0");
    quorlock_lease_free(lease);
    quorlock_client_free(client);
}

static void o13_a_blip_does_not_end_the_lease(void) {
    quorlock_client *client = quick_client(ask("server"));
    quorlock_lease *lease = take(client, "a", lock_options(1500, QUORLOCK_FOREVER));
    const uint32_t pauses[] = {250, 350, 800, 1600};
    for (int i = 0; i < 4; i++) {
        quorlock_lost_reason reason;
        GIVES(OK, quorlock_lease_wait_lost(lease, pauses[i], &reason));
        CHECK(reason == QUORLOCK_REASON_NONE && quorlock_lease_held(lease));
        if (i < 3) CHECK(ASK_NUMBER("kill-clients 0") >= 1);
    }
    GIVES(OK, quorlock_lease_release(lease));
    quorlock_lease_free(lease);
    quorlock_client_free(client);
}

static void o20_a_majority_is_enough_for_every_number_of_servers(void) {
    for (int n = 1; n <= 7; n++) {
        quorlock_client *client = quick_client(ask("servers %d", n));
        int may_fail = (n - 1) / 2;
        for (int i = 0; i < may_fail; i++) ask("kill %d", i);
        quorlock_lease *lease = take(client, "a", lock_options(20000, 10000));
        GIVES(OK, quorlock_lease_release(lease));
        quorlock_lease_free(lease);
        ask("kill %d", may_fail);
        double begin = now_ms();
        GIVES(UNAVAILABLE, quorlock_client_try_acquire(client, "a", NULL, &lease));
        CHECK_RANGE(0, 200 + SLACK_MS, now_ms() - begin);
        CHECK(lease == NULL && quorlock_last_error_server_count() == (size_t)n);
        for (int i = may_fail + 1; i < n; i++) UNTIL(SLACK_MS, ASK_NUMBER("cmd %d EXISTS lock:{a}", i) == 0);
        quorlock_client_free(client);
        ask("reset");
    }
    quorlock_client *client;
    const char *urls[] = {"redis://127.0.0.1:1", "redis://127.0.0.1:2", "redis://127.0.0.1:1"};
    GIVES(INVALID, quorlock_client_new(urls, 0, NULL, &client));
    GIVES(INVALID, quorlock_client_new(urls, 3, NULL, &client));
    CHECK(client == NULL && error_says("127.0.0.1:1"));
}

static void o27_a_late_write_is_undone(void) {
    quorlock_client *client = client_with(ask("server"), NULL);
    quorlock_lock_options options = lock_options(20000, QUORLOCK_FOREVER);
    quorlock_lease_free(take(client, "warm", options)); /* connected, script known */
    UNTIL(SLACK_MS, ASK_NUMBER("cmd 0 EXISTS lock:{warm}") == 0);
    ask("monitor 0 start");
    ask("freeze 0");
    quorlock_lease *lease;
    GIVES(UNAVAILABLE, quorlock_client_try_acquire(client, "a", &options, &lease));
    CHECK(quorlock_last_error_outcome() == QUORLOCK_OUTCOME_UNKNOWN);
    ask("thaw 0");
    UNTIL(SLACK_MS, ASK_NUMBER("monitor 0 count") >= 2); /* the late write, and its release */
    UNTIL(SLACK_MS, ASK_NUMBER("cmd 0 EXISTS lock:{a}") == 0);
    ask("monitor 0 stop");

    ask("kill 0");
    UNTIL(10000, servers_up(client) == 0); /* until then a write may go out on the old connection, outcome unknown */
    GIVES(UNAVAILABLE, quorlock_client_try_acquire(client, "b", &options, &lease));
    CHECK(quorlock_last_error_outcome() == QUORLOCK_OUTCOME_NOT_APPLIED);
    ask("start 0");
    UNTIL(10000, servers_up(client) == 1);
    CHECK(ASK_NUMBER("cmd 0 EXISTS lock:{b}") == 0);
    quorlock_client_free(client);
}

static void o32_flushed_scripts_are_loaded_again(void) {
    quorlock_client *client = patient_client(ask("server"));
    for (int round = 0; round < 20; round++) {
        quorlock_lease *lease = take(client, "a", lock_options(30000, QUORLOCK_FOREVER));
        ask("cmd 0 SCRIPT FLUSH");
        GIVES(OK, quorlock_lease_extend(lease, QUORLOCK_DEFAULT, NULL));
        ask("cmd 0 SCRIPT FLUSH");
        GIVES(OK, quorlock_lease_release(lease));
        CHECK(ASK_NUMBER("cmd 0 EXISTS lock:{a}") == 0);
        ask("cmd 0 SCRIPT FLUSH");
        quorlock_lease_free(lease);
    }
    quorlock_client_free(client);
}

static long long keys_in_database_5(const char *key) {
    return ASK_NUMBER("cmd 0 EVAL \"redis.call('SELECT', 5) return redis.call('EXISTS', '%s')\" 0", key);
}

static void stays_in_database_5(const char *url) {
    quorlock_client *client = patient_client(url);
    quorlock_lease *before = take(client, "before", lock_options(30000, 10000));
    CHECK(ASK_NUMBER("kill-clients 0") >= 1);
    quorlock_lease *after = take(client, "after", lock_options(30000, 10000));
    CHECK(keys_in_database_5("lock:{before}") == 1 && keys_in_database_5("lock:{after}") == 1);
    CHECK(ASK_NUMBER("cmd 0 DBSIZE") == 0);
    quorlock_lease_free(before), quorlock_lease_free(after);
    quorlock_client_free(client);
}

static void o34_the_database_is_remembered(void) {
    char url[500];
    snprintf(url, sizeof url, "%s/5", ask("server"));
    stays_in_database_5(url);
    ask("reset");
    snprintf(url, sizeof url, "%s?db=5", ask("unix"));
    stays_in_database_5(url);
}

static void o62_an_error_says_what_each_server_said(void) {
    char urls[3][200];
    snprintf(urls[0], sizeof urls[0], "%s", ask("server"));
    const char *address = ask("server --requirepass secret") + strlen("redis://");
    snprintf(urls[1], sizeof urls[1], "redis://somebody:hunter2@%s", address);
    snprintf(urls[2], sizeof urls[2], "%s", ask("server"));
    ask("kill 0");
    ask("cmd 2 SET lock:{a} others PX 60000");
    const char *list[] = {urls[0], urls[1], urls[2]};
    quorlock_client_options options = QUORLOCK_CLIENT_OPTIONS_INIT;
    options.server_timeout_ms = 150;
    quorlock_client *client;
    GIVES(OK, quorlock_client_new(list, 3, &options, &client));
    quorlock_lock_options lock = lock_options(5000, 500);
    quorlock_lease *lease;
    double begin = now_ms();
    GIVES(UNAVAILABLE, quorlock_client_acquire(client, "a", &lock, &lease));
    double took = now_ms() - begin;

    CHECK(quorlock_last_error_status() == QUORLOCK_UNAVAILABLE && quorlock_last_error_server_count() == 3);
    CHECK(quorlock_last_error_attempts() >= 1);
    CHECK_RANGE(495, took + 1, quorlock_last_error_elapsed_ms());
    char message[2000], text[3][400];
    CHECK(quorlock_last_error_message(message, sizeof message) < sizeof message);
    CHECK(strstr(message, "\"a\"") && !strstr(message, "hunter2") && !strstr(message, "somebody"));
    for (size_t i = 0; i < 3; i++) {
        quorlock_last_error_server_address(i, text[i], sizeof text[i]);
        CHECK(strcmp(text[i], strrchr(urls[i], i == 1 ? '@' : '/') + 1) == 0 && strstr(message, text[i]));
    }
    for (size_t i = 0; i < 3; i++) {
        CHECK(quorlock_last_error_server_cause(i, text[i], sizeof text[i]) > 0);
        CHECK(strstr(message, text[i]) && !strstr(text[i], "hunter2"));
    }
    CHECK(strcmp(text[0], text[1]) && strcmp(text[1], text[2]) && strcmp(text[0], text[2]));
    CHECK(quorlock_last_error_server_cause(3, message, sizeof message) == 0 && message[0] == 0);
    quorlock_client_free(client);
}

typedef struct {
    char text[8][500];
    int n;
} reports;

static void report(void *user, const char *address, uint64_t round_trip_us, const char *cause) {
    reports *r = user;
    CHECK(cause ? round_trip_us == 0 : round_trip_us > 0);
    snprintf(r->text[r->n++], sizeof r->text[0], "%s: %s", address, cause ? cause : "up");
}

static void ping_tells_of_each_server_in_order(void) {
    char *urls = strdup(ask("servers 3"));
    quorlock_client *client = patient_client(urls);
    ask("kill 1");
    reports all = {.n = 0};
    GIVES(OK, quorlock_client_ping(client, 5000, report, &all));
    CHECK(all.n == 3 && strstr(all.text[0], ": up") && !strstr(all.text[1], ": up") && strstr(all.text[2], ": up"));
    int i = 0;
    for (char *url = strtok(urls, " "); url; url = strtok(NULL, " "), i++)
        CHECK(strncmp(all.text[i], url + strlen("redis://"), strlen(url) - strlen("redis://")) == 0);
    ask("freeze 0"), ask("freeze 2");
    double begin = now_ms();
    CHECK(servers_up(client) == 0);
    CHECK_RANGE(0, 1000 + SLACK_MS, now_ms() - begin);
    quorlock_client_free(client);
    free(urls);
}

static const test_case cases[] = {
    CASE(o08_a_holder_notices_by_its_own_clock),
    CASE(o13_a_blip_does_not_end_the_lease),
    CASE(o20_a_majority_is_enough_for_every_number_of_servers),
    CASE(o27_a_late_write_is_undone),
    CASE(o32_flushed_scripts_are_loaded_again),
    CASE(o34_the_database_is_remembered),
    CASE(o62_an_error_says_what_each_server_said),
    CASE(ping_tells_of_each_server_in_order),
};

int main(int argc, char **argv) {
    return RUN_CASES(argc, argv);
}
