// A tool that stays. It answers with its parameter `text` in upper case, after as many seconds as the parameter `seconds` says.
import { Socket } from "node:net"
import { setTimeout as pause } from "node:timers/promises"

let count = 0

// The work of one task: returns its value, any JSON. An exception fails the task. `signal` says that the task is killed.
async function handle({ text, seconds = 0 }, signal) {
  count += 1
  console.log(`task ${count}`)
  await pause(seconds * 1000, undefined, { signal })
  if (!text) throw new Error("there is no text")
  return { text: text.toUpperCase(), count }
}

const agent = new Socket({ fd: Number(process.env.LLTS_STAY_FD) })
const say = (message) => agent.write(JSON.stringify(message) + "\n")
let running // the task that is not answered yet: its id, and the means to give it up

async function answer({ id, round, task }) {
  running = { id, kill: new AbortController() }
  const { signal } = running.kill
  let end
  try {
    end = { exit_code: 0, value: await handle(task, signal) }
  } catch (error) {
    end = signal.aborted ? { exit_code: 143, report: "killed" } : { exit_code: 1, report: `${error?.stack ?? error}\n` }
  }
  // Whatever the task has printed must be on its way before the answer.
  await new Promise((written) => process.stdout.write("", written))
  running = undefined
  say({ type: "done", id, round, ...end })
}

function hear(message) {
  if (message.type === "task") answer(message)
  else if (message.type === "kill" && message.id === running?.id) running.kill.abort()
  else if (message.type === "stop") process.exit()
  else if (message.type !== "kill") throw new Error(`the agent has sent a line of the type ${message.type}`)
}

// Not with node:readline: for newer versions of it, a line also ends at U+2028, which JSON may contain.
let rest = ""
agent.setEncoding("utf8").on("data", (text) => {
  const lines = (rest + text).split("\n")
  rest = lines.pop()
  for (const line of lines) hear(JSON.parse(line))
})
agent.on("close", () => process.exit()) // The agent is gone.
say({ type: "ready", version: 1 })
