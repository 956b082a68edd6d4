// A peer made of zeromq.js: does what the lines on its standard input say, and answers each with one line (see ../peers.rs).
"use strict";

const readline = require("node:readline");
const zmq = require("zeromq");

const KINDS = { REQ: zmq.Request, DEALER: zmq.Dealer, SUB: zmq.Subscriber };
const sockets = new Map();

const decode = (part) => Buffer.from(part.slice(1), "hex");
const encode = (part) => "." + part.toString("hex");

const orNothing = (outcome) =>
    outcome.catch((error) => {
        if (error.code === "EAGAIN") return "nothing";
        throw error;
    });

const commands = {
    version: () => `zeromq.js on libzmq ${zmq.version}`,
    open(name, kind, endpoint, server, publicKey, secretKey) {
        const curve = server ? { curveServerKey: server, curvePublicKey: publicKey, curveSecretKey: secretKey } : {};
        const socket = new KINDS[kind]({ linger: 0, reconnectInterval: 10, ...curve });
        if (kind === "DEALER") socket.sendHighWaterMark = socket.receiveHighWaterMark = 0;
        socket.connect(endpoint);
        sockets.set(name, socket);
        return "ok";
    },
    subscribe(name, prefix) {
        sockets.get(name).subscribe(decode(prefix));
        return "ok";
    },
    unsubscribe(name, prefix) {
        sockets.get(name).unsubscribe(decode(prefix));
        return "ok";
    },
    async send(name, ...parts) {
        await sockets.get(name).send(parts.map(decode));
        return "ok";
    },
    offer(name, part) {
        const socket = sockets.get(name);
        socket.sendTimeout = 0;
        return orNothing(socket.send(decode(part)).then(() => "ok"));
    },
    receive(name, millis) {
        const socket = sockets.get(name);
        socket.receiveTimeout = Number(millis);
        return orNothing(socket.receive().then((parts) => ["got", ...parts.map(encode)].join(" ")));
    },
    close(name) {
        sockets.get(name).close();
        sockets.delete(name);
        return "ok";
    },
};

(async () => {
    for await (const line of readline.createInterface({ input: process.stdin })) {
        const [command, ...words] = line.split(" ");
        process.stdout.write((await commands[command](...words)) + "\n");
    }
    process.exit(0);
})();
