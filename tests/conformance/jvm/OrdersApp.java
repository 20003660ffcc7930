import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyQueryMetadata;
import org.apache.kafka.streams.StoreQueryParameters;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.GlobalKTable;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.QueryableStoreTypes;
import org.apache.kafka.streams.state.ReadOnlyKeyValueStore;

/**
 * Orders are joined with payments within ten seconds and with a global table of regions; orders are counted by product.
 *
 * Prints each state of the application.  A line "get PRODUCT" on standard input is answered with "got PRODUCT HOST:PORT COUNT":
 * which instance has the key, and the count if it is this one.  Standard input that ends closes the application.
 */
public final class OrdersApp {
    private static final String COUNTS = "counts";

    public static void main(String[] args) throws Exception {
        Properties settings = new Properties();
        try (BufferedReader file = Files.newBufferedReader(Path.of(args[0]))) {
            settings.load(file);
        }
        String prefix = args[1];
        settings.put("default.key.serde", Serdes.String().getClass());
        settings.put("default.value.serde", Serdes.String().getClass());
        KafkaStreams streams = new KafkaStreams(topology(prefix).build(), settings);
        streams.setStateListener((after, before) -> print("state " + after));
        streams.setUncaughtExceptionHandler(problem -> {
            problem.printStackTrace();
            return org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse.REPLACE_THREAD;
        });
        streams.start();
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            print("got " + line.substring(4) + " " + answer(streams, line.substring(4)));
        }
        streams.close(Duration.ofSeconds(60));
    }

    private static StreamsBuilder topology(String prefix) {
        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, String> orders = builder.stream(prefix + "orders");
        KStream<String, String> payments = builder.stream(prefix + "payments");
        GlobalKTable<String, String> regions = builder.globalTable(prefix + "regions");
        JoinWindows window = JoinWindows.ofTimeDifferenceAndGrace(Duration.ofSeconds(10), Duration.ofDays(1));
        orders.join(payments, (order, payment) -> order + " " + payment, window)
            .join(regions, (customer, pair) -> customer, (pair, region) -> pair + " " + region)
            .to(prefix + "paid");
        Materialized<String, Long, KeyValueStore<Bytes, byte[]>> counts = Materialized.as(COUNTS);
        orders.selectKey((customer, order) -> order.substring(order.indexOf('/') + 1))
            .groupByKey()
            .count(counts.withKeySerde(Serdes.String()).withValueSerde(Serdes.Long()))
            .toStream()
            .mapValues(count -> Long.toString(count))
            .to(prefix + "counted");
        return builder;
    }

    private static String answer(KafkaStreams streams, String product) {
        try {
            KeyQueryMetadata place = streams.queryMetadataForKey(COUNTS, product, new StringSerializer());
            ReadOnlyKeyValueStore<String, Long> store =
                streams.store(StoreQueryParameters.fromNameAndType(COUNTS, QueryableStoreTypes.<String, Long>keyValueStore()));
            Long count = store.get(product);
            return place.activeHost().host() + ":" + place.activeHost().port() + " " + count;
        } catch (RuntimeException problem) {
            return "? " + problem.getClass().getSimpleName();
        }
    }

    private static synchronized void print(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
