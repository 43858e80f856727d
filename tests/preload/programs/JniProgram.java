// SPDX-License-Identifier: MIT
// Chunks of C's malloc that Java's threads take, read, hand to each other and give back.

import java.nio.ByteBuffer;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.atomic.AtomicLong;

public class JniProgram {
    static native long take(int bytes, byte fill);
    static native long give(long address, int bytes);
    static native ByteBuffer buffer(long address, int bytes);

    public static void main(String[] arguments) throws Exception {
        System.load(arguments[0]);
        final int threads = 4, each = 60000;
        final ArrayBlockingQueue<long[]> queue = new ArrayBlockingQueue<>(1000);
        final AtomicLong sum = new AtomicLong(), expected = new AtomicLong();
        Thread[] all = new Thread[threads];
        for (int t = 0; t < threads; t++) {
            final int number = t;
            all[t] = new Thread(() -> {
                try {
                    for (int i = 0; i < each; i++) {
                        int bytes = 1 + (i * 37 + number) % 3000;
                        byte fill = (byte) (i % 100);
                        if (number % 2 == 0) {
                            queue.put(new long[] {take(bytes, fill), bytes});
                            expected.addAndGet((long) bytes * fill);
                        } else {
                            long[] chunk = queue.take();
                            ByteBuffer view = buffer(chunk[0], (int) chunk[1]);
                            if (view.get(0) != view.get((int) chunk[1] - 1))
                                System.out.println("torn");
                            sum.addAndGet(give(chunk[0], (int) chunk[1]));
                        }
                    }
                } catch (InterruptedException error) {
                    throw new RuntimeException(error);
                }
            });
            all[t].start();
        }
        for (Thread thread : all)
            thread.join();
        System.out.println(sum.get() + " " + (sum.get() == expected.get()));
    }
}
