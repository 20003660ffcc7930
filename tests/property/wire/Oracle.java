// Reads "class version hex" lines, decodes each with Apache Kafka's own generated class, encodes it again, and
// prints the hex, or "! reason".  Run by test_apache_kafka.py with Kafka's jars on the class path.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;

public class Oracle {
    static final String[] PACKAGES = {
        "org.apache.kafka.common.message.",
        "org.apache.kafka.coordinator.group.generated.",
        "org.apache.kafka.coordinator.share.generated.",
        "org.apache.kafka.coordinator.transaction.generated.",
        "org.apache.kafka.server.log.remote.metadata.storage.generated.",
    };

    static Message message(String name) throws Exception {
        for (String place : PACKAGES) {
            for (String suffix : new String[] {"", "Data"}) {
                try {
                    return (Message) Class.forName(place + name + suffix).getDeclaredConstructor().newInstance();
                } catch (ClassNotFoundException nextOne) {
                }
            }
        }
        throw new ClassNotFoundException(name);
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        PrintStream out = new PrintStream(System.out, false);
        HexFormat hex = HexFormat.of();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ", -1);
            short version = Short.parseShort(words[1]);
            try {
                Message message = message(words[0]);
                ByteBuffer bytes = ByteBuffer.wrap(hex.parseHex(words[2]));
                message.read(new ByteBufferAccessor(bytes), version);
                if (bytes.hasRemaining()) {
                    out.println("! " + bytes.remaining() + " bytes left over");
                    continue;
                }
                ByteBuffer again = MessageUtil.toByteBufferAccessor(message, version).buffer();
                out.println(hex.formatHex(again.array(), again.arrayOffset(), again.limit()));
            } catch (Exception problem) {
                out.println("! " + problem);
            }
        }
        out.flush();
    }
}
