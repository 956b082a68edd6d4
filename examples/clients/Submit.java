import com.google.gson.Gson;
import com.google.gson.JsonObject;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import org.zeromq.SocketType;
import org.zeromq.ZContext;
import org.zeromq.ZMQ;

/** Submits one task and waits for its end. Exits with 0 if the task has succeeded, with 1 otherwise. */
public class Submit {
    // Milliseconds for an answer, and for which the controller holds a query: fewer, so that silence means a lost controller.
    static final int ANSWER = 5000, HOLD = 2000;

    static <T> T fail(String sentence) {
        System.err.println(sentence);
        System.exit(1);
        return null;
    }

    static byte[] key(String file) {
        try {
            return Files.readString(Path.of(file)).strip().getBytes();
        } catch (IOException error) {
            return fail("cannot read the key " + file);
        }
    }

    static JsonObject ask(ZMQ.Socket controller, Map<String, Object> request) {
        String frame = controller.send(new Gson().toJson(request), ZMQ.DONTWAIT) ? controller.recvStr() : null;
        // A refused key is silent: the controller closes the connection, and ZeroMQ does not tell.
        if (frame == null) fail("no answer within 5 s: no controller is there, or it does not admit this key");
        JsonObject answer = new Gson().fromJson(frame, JsonObject.class);
        int code = answer.get("__CODE__").getAsInt();
        return code == 0 ? answer : fail("refused (" + code + "): " + answer.get("__ERROR_MSG__").getAsString());
    }

    public static void main(String[] args) {
        if (args.length != 6) fail("usage: submit tcp://HOST:PORT SERVER_KEY.pub CLIENT_KEY TOOL NAME VALUE");
        ZMQ.Socket controller = new ZContext().createSocket(SocketType.REQ);
        controller.setReceiveTimeOut(ANSWER);
        controller.setCurveServerKey(key(args[1]));
        controller.setCurveSecretKey(key(args[2]));
        controller.setCurvePublicKey(key(args[2] + ".pub"));
        controller.connect(args[0]);

        JsonObject task = ask(controller, Map.of(
                "__TYPE__", "TASK/SUBMIT", "__OPERATION__", args[3], "__REQUIRE_TOOL__", true, args[4], args[5]));
        String id = task.get("__TASK_ID__").getAsString();
        do task = ask(controller, Map.of("__TYPE__", "TASK/QUERY", "__TASK_ID__", id, "__WAIT__", HOLD));
        while (!task.get("__STATUS__").getAsString().equals("FINISHED"));

        String outcome = task.get("__OUTCOME__").getAsString(), report = task.get("__REPORT_LOG__").getAsString();
        System.out.printf("%s, exit code %s%n", outcome, task.get("__EXIT_CODE__"));
        System.out.print(task.has("__VALUE__") ? task.get("__VALUE__").getAsString() + "\n" : report);
        System.exit(outcome.equals("SUCCEEDED") ? 0 : 1);
    }
}
