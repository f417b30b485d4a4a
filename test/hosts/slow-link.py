"""A network card of a host whose frames take their time, in both directions: two taps, and every frame waits between them. For kernels without netem.

slow-link.py <milliseconds> <tap of the bridge> <tap of the host>
"""
import fcntl, heapq, os, select, struct, sys, time

TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 0x0002, 0x1000


def open_tap(name):
    tap = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(tap, TUNSETIFF, struct.pack("16sH", name.encode(), IFF_TAP | IFF_NO_PI))
    return tap


delay = float(sys.argv[1]) / 1000
taps = [open_tap(name) for name in sys.argv[2:4]]
other = dict(zip(taps, reversed(taps)))
print("up", flush=True)
waiting, nth = [], 0
while True:
    now = time.monotonic()
    while waiting and waiting[0][0] <= now:
        _, _, tap, frame = heapq.heappop(waiting)
        try:
            os.write(tap, frame)
        except OSError:
            pass  # The other end is down.
    timeout = max(0, waiting[0][0] - now) if waiting else None
    for tap in select.select(taps, [], [], timeout)[0]:
        try:
            while True:
                frame = os.read(tap, 65536)
                nth += 1
                heapq.heappush(waiting, (time.monotonic() + delay, nth, other[tap], frame))
        except BlockingIOError:
            pass
        except OSError:
            pass  # The tap is down.
