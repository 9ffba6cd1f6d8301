"""A switch between network namespaces whose links have a rate and a delay, where the kernel has no `netem`.

    python3 shapedLink.py BITS_PER_SECOND DELAY_SECONDS INTERFACE...

Takes every frame that comes on an interface, and puts it out on the one that leads to its receiver, once the link
between the two has had time for its bytes, and the delay has passed. Frames are taken as the kernel has them, segments
that a card would cut and checksums that it would fill in included (PACKET_VNET_HDR), so the two ends speak real TCP over
a real round trip. Says `ready` once it listens, and ends with its standard input: then it prints, as JSON, the bytes it
has moved and by how much it was late at most.
"""
import collections
import heapq
import json
import os
import select
import socket
import struct
import sys
import time

ETH_P_ALL = 3
SOL_PACKET, PACKET_VNET_HDR, PACKET_IGNORE_OUTGOING = 263, 15, 23
#: Of `struct virtio_net_hdr`, before each frame.
HEADER = 10
MOST_FRAME = 2**17
#: What waits for a link, at most; a router has no more room either.
MOST_QUEUED = 2**24


def opened(name):
    end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    end.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    end.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**23)
    end.bind((name, ETH_P_ALL))
    end.setblocking(False)
    return end


def main(rate, delay, names):
    try:
        # A link waits for no processor, however busy those are that share this machine.
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except OSError:
        os.nice(-20)
    ends = [opened(name) for name in names]
    behind = {}
    free = collections.defaultdict(float)
    queued = collections.Counter()
    waiting = []
    moved = dropped = number = 0
    late = 0.0
    places = {end: place for place, end in enumerate(ends)}
    print("ready", flush=True)
    while True:
        now = time.monotonic()
        while waiting and waiting[0][0] <= now:
            due, _, link, frame = heapq.heappop(waiting)
            late = max(late, now - due)
            queued[link] -= len(frame)
            moved += len(frame) - HEADER
            try:
                ends[link[1]].send(frame)
            except OSError:
                dropped += 1
        # poll and epoll would round a delay up to whole milliseconds.
        timeout = None if not waiting else max(0, waiting[0][0] - time.monotonic())
        for end in select.select([*ends, sys.stdin], [], [], timeout)[0]:
            if end is sys.stdin:
                if not sys.stdin.readline():
                    print(json.dumps({"bytes": moved, "dropped": dropped, "mostLateSeconds": late}), flush=True)
                    return
                continue
            place = places[end]
            for _ in range(64):
                try:
                    frame = end.recv(MOST_FRAME)
                except BlockingIOError:
                    break
                now = time.monotonic()
                to, sender = frame[HEADER : HEADER + 6], frame[HEADER + 6 : HEADER + 12]
                behind[sender] = place
                others = [behind[to]] if to in behind else [other for other in range(len(ends)) if other != place]
                for other in others:
                    link = (place, other)
                    if queued[link] > MOST_QUEUED:
                        dropped += 1
                        continue
                    free[link] = max(now, free[link]) + 8 * (len(frame) - HEADER) / rate
                    queued[link] += len(frame)
                    number += 1
                    heapq.heappush(waiting, (free[link] + delay, number, link, frame))


main(float(sys.argv[1]), float(sys.argv[2]), sys.argv[3:])
