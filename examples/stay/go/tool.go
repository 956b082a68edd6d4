// A tool that stays. It answers with its parameter text in upper case, after as many seconds as the parameter seconds says.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

var count int

// handle does the work of one task and returns its value, any JSON. An error fails the task. A kill ends the context.
func handle(killed context.Context, fields json.RawMessage) (any, error) {
	var task struct {
		Text    string
		Seconds json.Number
	}
	if err := json.Unmarshal(fields, &task); err != nil {
		return nil, err
	}
	count++
	fmt.Println("task", count)
	seconds, _ := task.Seconds.Float64()
	select {
	case <-time.After(time.Duration(seconds * float64(time.Second))):
	case <-killed.Done():
		return nil, killed.Err()
	}
	if task.Text == "" {
		return nil, errors.New("there is no text")
	}
	return map[string]any{"text": strings.ToUpper(task.Text), "count": count}, nil
}

// A line of the agent.
type line struct {
	Type, ID string
	Round    int
	Task     json.RawMessage
}

// answer does a task and says how it has ended.
func answer(agent *json.Encoder, killed context.Context, task line) {
	done := map[string]any{"type": "done", "id": task.ID, "round": task.Round, "exit_code": 0}
	value, err := try(killed, task.Task)
	switch {
	case err == nil:
		done["value"] = value
	case killed.Err() != nil:
		done["exit_code"], done["report"] = 143, "killed"
	default:
		done["exit_code"], done["report"] = 1, fmt.Sprintln(err)
	}
	// What the task has printed must be out before the answer: os.Stdout has no buffer, but flush a bufio.Writer here.
	if err := agent.Encode(done); err != nil {
		log.Fatal(err)
	}
}

// try makes an error of a panic.
func try(killed context.Context, fields json.RawMessage) (value any, err error) {
	defer func() {
		if trouble := recover(); trouble != nil {
			err = fmt.Errorf("panic: %v", trouble)
		}
	}()
	return handle(killed, fields)
}

func main() {
	number, err := strconv.Atoi(os.Getenv("LLTS_STAY_FD"))
	if err != nil {
		log.Fatal("LLTS_STAY_FD is not set: an agent starts this tool")
	}
	file := os.NewFile(uintptr(number), "agent")
	agent, err := net.FileConn(file) // a copy
	if err != nil {
		log.Fatal(err)
	}
	file.Close()
	lines, answers := json.NewDecoder(agent), json.NewEncoder(agent)
	fmt.Fprintln(agent, `{"type": "ready", "version": 1}`)
	var running string // the last task
	kill := func() {}
	for {
		var next line
		if lines.Decode(&next) != nil {
			return // The agent is gone.
		}
		switch next.Type {
		case "task":
			var killed context.Context
			killed, kill = context.WithCancel(context.Background())
			running = next.ID
			go answer(answers, killed, next)
		case "kill":
			if next.ID == running {
				kill()
			}
		case "stop":
			return
		default:
			log.Fatalf("the agent has sent a line of the type %q", next.Type)
		}
	}
}
