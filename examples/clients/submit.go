// Submits one task and waits for its end. Exits with 0 if the task has succeeded, with 1 otherwise.
package main

// #cgo pkg-config: libzmq
// #include <zmq.h>
// // A signal interrupts a call, and the scheduler of Go sends some.
// static int receive(void *s, void *b) { int n; do n = zmq_recv(s, b, 1 << 20, 0); while (n < 0 && errno == EINTR); return n; }
import "C"
import (
	"encoding/json"
	"fmt"
	"log"
	"os"
	"unsafe"
)

// Milliseconds for an answer, and for which the controller holds a query: fewer, so that silence means a lost controller.
var limit, hold = C.int(5000), 2000
var controller, args, fail = C.zmq_socket(C.zmq_ctx_new(), C.ZMQ_REQ), os.Args, log.New(os.Stderr, "", 0).Fatalf

func ask(request map[string]any) (answer map[string]any) {
	line, _ := json.Marshal(request)
	frame := make([]byte, 1<<20)
	C.zmq_send(controller, unsafe.Pointer(&line[0]), C.size_t(len(line)), C.ZMQ_DONTWAIT)
	switch size := C.receive(controller, unsafe.Pointer(&frame[0])); {
	case size < 0: // A refused key is silent: the controller closes the connection, and ZeroMQ does not tell.
		fail("no answer within 5 s: no controller is there, or it does not admit this key")
	case json.Unmarshal(frame[:size], &answer) != nil || answer["__CODE__"] != 0.0:
		fail("refused (%v): %v", answer["__CODE__"], answer["__ERROR_MSG__"])
	}
	return answer
}

func main() {
	if len(args) != 7 {
		fail("usage: submit tcp://HOST:PORT SERVER_KEY.pub CLIENT_KEY TOOL NAME VALUE")
	}
	C.zmq_setsockopt(controller, C.ZMQ_RCVTIMEO, unsafe.Pointer(&limit), 4)
	options := []C.int{C.ZMQ_CURVE_SERVERKEY, C.ZMQ_CURVE_SECRETKEY, C.ZMQ_CURVE_PUBLICKEY}
	for i, file := range []string{args[2], args[3], args[3] + ".pub"} {
		if key, _ := os.ReadFile(file); len(key) < 40 || C.zmq_setsockopt(controller, options[i], unsafe.Pointer(&key[0]), 40) != 0 {
			fail("cannot read the key %s", file)
		}
	}
	C.zmq_connect(controller, C.CString(args[1]))
	task := ask(map[string]any{"__TYPE__": "TASK/SUBMIT", "__OPERATION__": args[4], "__REQUIRE_TOOL__": true, args[5]: args[6]})
	for task["__STATUS__"] != "FINISHED" {
		task = ask(map[string]any{"__TYPE__": "TASK/QUERY", "__TASK_ID__": task["__TASK_ID__"], "__WAIT__": hold})
	}
	result := task["__REPORT_LOG__"]
	if value, isThere := task["__VALUE__"]; isThere {
		result = fmt.Sprintln(value)
	}
	code, _ := json.Marshal(task["__EXIT_CODE__"])
	fmt.Printf("%v, exit code %s\n%v", task["__OUTCOME__"], code, result)
	if task["__OUTCOME__"] != "SUCCEEDED" {
		os.Exit(1)
	}
}
