// A peer made of JeroMQ: does what the lines on its standard input say, and answers each with one line (see ../peers.rs).

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import org.zeromq.ZContext;
import org.zeromq.ZMQ;

public class Peer {
    private static final Map<String, Integer> KINDS = Map.of("REQ", ZMQ.REQ, "DEALER", ZMQ.DEALER, "SUB", ZMQ.SUB);
    private static final int HANDSHAKE_MILLIS = 1000;
    private static final Map<String, ZMQ.Socket> SOCKETS = new HashMap<>();

    public static void main(String[] arguments) throws Exception {
        try (ZContext context = new ZContext()) {
            BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                System.out.println(answer(context, line.split(" ")));
            }
            SOCKETS.values().forEach(ZMQ.Socket::close);
        }
    }

    private static String answer(ZContext context, String[] words) {
        switch (words[0]) {
            case "version":
                return "JeroMQ as libzmq " + ZMQ.getVersionString();
            case "open":
                SOCKETS.put(words[1], open(context, words));
                return "ok";
            case "subscribe":
                SOCKETS.get(words[1]).subscribe(decode(words[2]));
                return "ok";
            case "unsubscribe":
                SOCKETS.get(words[1]).unsubscribe(decode(words[2]));
                return "ok";
            case "send":
                for (int index = 2; index < words.length; index++) {
                    int flags = index + 1 < words.length ? ZMQ.SNDMORE : 0;
                    if (!SOCKETS.get(words[1]).send(decode(words[index]), flags)) {
                        throw new IllegalStateException("it cannot be sent");
                    }
                }
                return "ok";
            case "offer":
                return SOCKETS.get(words[1]).send(decode(words[2]), ZMQ.DONTWAIT) ? "ok" : "nothing";
            case "receive":
                return receive(SOCKETS.get(words[1]), Integer.parseInt(words[2]));
            case "close":
                SOCKETS.remove(words[1]).close();
                return "ok";
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    private static ZMQ.Socket open(ZContext context, String[] words) {
        ZMQ.Socket socket = context.createSocket(KINDS.get(words[2]));
        socket.setLinger(0);
        socket.setReconnectIVL(10);
        socket.setHWM(0);
        // Its poller forgets some of the connections that it has just made, and says nothing on them; it makes another then.
        socket.setHandshakeIvl(HANDSHAKE_MILLIS);
        if (words.length > 4) {
            socket.setCurveServerKey(words[4].getBytes(StandardCharsets.US_ASCII));
            socket.setCurvePublicKey(words[5].getBytes(StandardCharsets.US_ASCII));
            socket.setCurveSecretKey(words[6].getBytes(StandardCharsets.US_ASCII));
        }
        socket.connect(words[3]);
        return socket;
    }

    private static String receive(ZMQ.Socket socket, int millis) {
        socket.setReceiveTimeOut(millis);
        byte[] part = socket.recv();
        if (part == null) {
            return "nothing";
        }
        List<String> answer = new ArrayList<>(Arrays.asList("got", encode(part)));
        while (socket.hasReceiveMore()) {
            answer.add(encode(socket.recv()));
        }
        return String.join(" ", answer);
    }

    private static byte[] decode(String part) {
        return HexFormat.of().parseHex(part.substring(1));
    }

    private static String encode(byte[] part) {
        return "." + HexFormat.of().formatHex(part);
    }
}
