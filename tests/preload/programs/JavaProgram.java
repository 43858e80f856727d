// SPDX-License-Identifier: MIT
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.zip.CRC32;
import java.util.zip.Deflater;
import java.util.zip.Inflater;

/**
 * Starts threads, collects garbage and compiles code. The virtual machine calls malloc for direct
 * buffers, zlib streams, threads that start and end, and classes that are made at run time.
 */
public final class JavaProgram {
    private JavaProgram() {}

    static byte[] text(int seed, int bytes) {
        byte[] made = new byte[bytes];
        long state = seed * 2654435761L + 1;
        for (int i = 0; i < bytes; i++) {
            state = state * 6364136223846793005L + 1442695040888963407L;
            made[i] = (byte) ('a' + ((state >>> 33) % 7));
        }
        return made;
    }

    static long compress(int seed) throws Exception {
        byte[] input = text(seed, 40_000);
        byte[] packed = new byte[50_000];
        byte[] output = new byte[40_000];
        Deflater deflater = new Deflater(1 + seed % 9);
        deflater.setInput(input);
        deflater.finish();
        int length = deflater.deflate(packed);
        deflater.end();
        Inflater inflater = new Inflater();
        inflater.setInput(packed, 0, length);
        int count = inflater.inflate(output);
        inflater.end();
        CRC32 crc = new CRC32();
        crc.update(output, 0, count);
        return crc.getValue();
    }

    static long buffers(int seed) {
        List<ByteBuffer> kept = new ArrayList<>();
        long sum = 0;
        for (int i = 0; i < 200; i++) {
            ByteBuffer buffer = ByteBuffer.allocateDirect(1 + (seed * 131 + i * 977) % 30_000);
            buffer.put(0, (byte) i);
            kept.add(buffer);
            sum += kept.get(i / 2).get(0);
        }
        return sum;
    }

    static int collect(int seed) {
        TreeMap<String, byte[]> map = new TreeMap<>();
        for (int i = 0; i < 20_000; i++) {
            map.put("key " + (i * 31 + seed) % 5000, new byte[i % 300]);
        }
        return map.values().stream().mapToInt(bytes -> bytes.length).sum();
    }

    public static void main(String[] arguments) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(4);
        List<Future<String>> results = new ArrayList<>();
        for (int i = 0; i < 40; i++) {
            final int seed = i;
            Callable<String> job =
                () -> seed + ": " + compress(seed) + " " + buffers(seed) + " " + collect(seed);
            results.add(pool.submit(job));
        }
        for (Future<String> result : results) {
            System.out.println(result.get());
        }
        pool.shutdown();
        int[] counter = new int[1];
        for (int i = 0; i < 200; i++) {
            Thread thread = new Thread(() -> counter[0] += collect(1) > 0 ? 1 : 0);
            if (i % 10 == 0) {
                System.gc();
            }
            thread.start();
            thread.join();
        }
        System.out.println(counter[0] + " threads");
        System.out.write(text(3, 20));
        System.out.println("\u00e4\u00f6\u00fc".getBytes(StandardCharsets.UTF_8).length);
        if (System.in.read() >= 0) { // with an input, stay until it ends
            while (System.in.read() >= 0) {
                Thread.onSpinWait();
            }
        }
        System.exit(3);
    }
}
