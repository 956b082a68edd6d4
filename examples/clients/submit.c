// Submits one task and waits for its end. Exits with 0 if the task has succeeded, with 1 otherwise.
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#define FAIL(...) (fprintf(stderr, __VA_ARGS__), fputc('\n', stderr), exit(1))

// Milliseconds for an answer, and for which the controller holds a query: fewer, so that silence means a lost controller.
enum { ANSWER = 5000, HOLD = 2000 };
static void *controller;

static void set_key(int option, const char *file, const char *suffix) {
    char path[4096], key[41];
    snprintf(path, sizeof path, "%s%s", file, suffix);
    FILE *stream = fopen(path, "r");
    if (!stream || fscanf(stream, "%40s", key) != 1 || zmq_setsockopt(controller, option, key, strlen(key)))
        FAIL("cannot read the key %s", path);
    fclose(stream);
}

static const char *text(json_t *fields, const char *name) { return json_string_value(json_object_get(fields, name)); }

static json_t *ask(json_t *request) {
    char *line = json_dumps(request, 0);
    if (!line) FAIL("an argument is not UTF-8");
    zmq_msg_t frame;
    zmq_msg_init(&frame);
    // A refused key is silent: the controller closes the connection, and ZeroMQ does not tell.
    if (zmq_send(controller, line, strlen(line), ZMQ_DONTWAIT) < 0 || zmq_msg_recv(&frame, controller, 0) < 0)
        FAIL("no answer within 5 s: no controller is there, or it does not admit this key");
    json_t *answer = json_loadb(zmq_msg_data(&frame), zmq_msg_size(&frame), JSON_ALLOW_NUL, NULL);
    long long code = json_integer_value(json_object_get(answer, "__CODE__"));
    if (code) FAIL("refused (%lld): %s", code, text(answer, "__ERROR_MSG__"));
    return answer; // Nothing is freed: the program asks little and ends soon.
}

int main(int count, char **args) {
    if (count != 7) FAIL("usage: submit tcp://HOST:PORT SERVER_KEY.pub CLIENT_KEY TOOL NAME VALUE");
    controller = zmq_socket(zmq_ctx_new(), ZMQ_REQ);
    zmq_setsockopt(controller, ZMQ_RCVTIMEO, &(int){ANSWER}, sizeof(int));
    set_key(ZMQ_CURVE_SERVERKEY, args[2], "");
    set_key(ZMQ_CURVE_SECRETKEY, args[3], "");
    set_key(ZMQ_CURVE_PUBLICKEY, args[3], ".pub");
    if (zmq_connect(controller, args[1])) FAIL("%s is no address", args[1]);

    json_t *task = ask(json_pack("{ss ss sb ss}", "__TYPE__", "TASK/SUBMIT", "__OPERATION__", args[4],
                                 "__REQUIRE_TOOL__", 1, args[5], args[6]));
    const char *id = text(task, "__TASK_ID__");
    do task = ask(json_pack("{ss ss si}", "__TYPE__", "TASK/QUERY", "__TASK_ID__", id, "__WAIT__", HOLD));
    while (strcmp(text(task, "__STATUS__"), "FINISHED") != 0);
    const char *outcome = text(task, "__OUTCOME__"), *result = text(task, "__VALUE__");
    printf("%s, exit code %s\n", outcome, json_dumps(json_object_get(task, "__EXIT_CODE__"), JSON_ENCODE_ANY));
    result ? puts(result) : fputs(text(task, "__REPORT_LOG__"), stdout);
    return strcmp(outcome, "SUCCEEDED") != 0;
}
