/* A CGI program that waits for a lock at most 5 s, and then answers 503. The web server sets PATH_INFO:
 *
 *     PATH_INFO=/orders/42 http_handler
 */
#include <quorlock.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "redis_urls.h"

/* What a call of quorlock that failed means for the caller. */
static int answer_error(quorlock_status status) {
    char message[512];
    quorlock_last_error_message(message, sizeof message);
    /* Others hold it, or too few servers answer: the caller may try again. */
    if (status == QUORLOCK_BUSY || status == QUORLOCK_UNAVAILABLE)
        printf("Status: 503 Service Unavailable\r\nRetry-After: 1\r\n");
    else
        printf("Status: 500 Internal Server Error\r\n");
    printf("Content-Type: text/plain\r\n\r\n%s\n", message);
    return 0;
}

/* The work that needs the lock. */
static void change_order(void) {
    usleep(50 * 1000);
}

int main(void) {
    const char *path = getenv("PATH_INFO");
    const char *name = path != NULL && path[0] == '/' ? path + 1 : ""; /* locks "orders/42" */

    const char *urls[16];
    quorlock_client *client = NULL;
    quorlock_status status = quorlock_client_new(urls, redis_urls(urls, 16), NULL, &client);
    if (status != QUORLOCK_OK) return answer_error(status);

    quorlock_lock_options options = QUORLOCK_LOCK_OPTIONS_INIT;
    options.wait_ms = 5000;
    quorlock_lease *lease = NULL;
    status = quorlock_client_acquire(client, name, &options, &lease);
    if (status != QUORLOCK_OK) return answer_error(status);

    change_order();

    status = quorlock_lease_release(lease);
    if (status != QUORLOCK_OK) return answer_error(status);
    printf("Status: 200 OK\r\nContent-Type: text/plain\r\n\r\ndone with fence %llu\n",
           (unsigned long long)quorlock_lease_fence(lease));
    quorlock_lease_free(lease);
    quorlock_client_close(client, 0); /* the release has reached every server that answers */
    quorlock_client_free(client);
    return 0;
}
