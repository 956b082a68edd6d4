// Submits one task and waits for its end. Exits with 0 if the task has succeeded, with 1 otherwise.
import { readFileSync } from "node:fs"
import { Request } from "zeromq"

// Milliseconds for an answer, and for which the controller holds a query: fewer, so that silence means a lost controller.
const ANSWER = 5000, HOLD = 2000

function fail(sentence) {
  console.error(sentence)
  process.exit(1)
}

function readKey(file) {
  try {
    return readFileSync(file, "utf8").trim()
  } catch {
    fail(`cannot read the key ${file}`)
  }
}

const [address, serverKey, clientKey, tool, name, value] = process.argv.slice(2)
if (value === undefined) fail("usage: submit tcp://HOST:PORT SERVER_KEY.pub CLIENT_KEY TOOL NAME VALUE")

const controller = new Request({
  linger: 0, sendTimeout: ANSWER, receiveTimeout: ANSWER,
  curveServerKey: readKey(serverKey), curveSecretKey: readKey(clientKey), curvePublicKey: readKey(`${clientKey}.pub`),
})
controller.connect(address)

async function ask(request) {
  try {
    await controller.send(JSON.stringify(request))
    const answer = JSON.parse((await controller.receive())[0])
    if (answer.__CODE__ !== 0) fail(`refused (${answer.__CODE__}): ${answer.__ERROR_MSG__}`)
    return answer
  } catch (error) {
    if (error.code !== "EAGAIN") throw error
    // A refused key is silent: the controller closes the connection, and ZeroMQ does not tell.
    fail("no answer within 5 s: no controller is there, or it does not admit this key")
  }
}

const submit = { __TYPE__: "TASK/SUBMIT", __OPERATION__: tool, __REQUIRE_TOOL__: true, [name]: value }
const { __TASK_ID__ } = await ask(submit)
let task
do {
  task = await ask({ __TYPE__: "TASK/QUERY", __TASK_ID__, __WAIT__: HOLD })
} while (task.__STATUS__ !== "FINISHED")

const result = task.__VALUE__ === undefined ? task.__REPORT_LOG__ : `${task.__VALUE__}\n`
process.stdout.write(`${task.__OUTCOME__}, exit code ${task.__EXIT_CODE__}\n${result}`)
process.exitCode = task.__OUTCOME__ === "SUCCEEDED" ? 0 : 1
