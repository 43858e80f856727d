# SPDX-License-Identifier: MIT
"""The module subprocess: output, input, pipes, process groups, limits, inherited descriptors."""
import os
import signal
import subprocess
import sys
import threading

print(subprocess.run(["echo", "hello"], capture_output=True, text=True, check=True).stdout.strip())
print(subprocess.run(["sh", "-c", "exit 9"], check=False).returncode)
print(subprocess.run("wc -c", shell=True, input=b"z" * 300000, capture_output=True,
                     check=True).stdout.strip())
first = subprocess.Popen(["seq", "20000"], stdout=subprocess.PIPE)
second = subprocess.Popen(["sort", "-r"], stdin=first.stdout, stdout=subprocess.PIPE)
first.stdout.close()
print(len(second.communicate()[0]), first.wait(), second.returncode)
child = subprocess.Popen(["sleep", "60"], start_new_session=True)
child.send_signal(signal.SIGTERM)
print(child.wait())
try:
    subprocess.run(["sleep", "60"], timeout=0.2, check=False)
except subprocess.TimeoutExpired as error:
    print(type(error).__name__)
reader, writer = os.pipe()
passed = subprocess.Popen([sys.executable, "-c", f"import os; os.write({writer}, b'passed')"],
                          pass_fds=[writer], close_fds=True)
os.close(writer)
print(os.read(reader, 100), passed.wait())
listing = subprocess.run(["ls", "/proc/self/fd"], capture_output=True, text=True, check=True)
print(listing.stdout.split())
print(os.spawnlp(os.P_WAIT, "true", "true"), os.system("exit 5") >> 8, os.popen("echo p").read())
done = []


def many():
    for i in range(25):
        done.append(subprocess.call(["sh", "-c", f"exit {i}"]))


threads = [threading.Thread(target=many) for _ in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(sum(done))
