"""A saga worker in Python over gRPC: a small, complete implementation of docs/protocol.md, to be copied.

It needs grpcio and protobuf, and `worker_pb2.py`, which protoc makes of worker.proto. It is an example, not a published package.
"""

import json
import os
import queue
import signal
import socket
import sys
import threading
import time
import urllib.error
import urllib.request
import uuid
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

import grpc
import worker_pb2 as pb

METHOD = "/saga.worker.v1.WorkerService/ExecuteStep"
RESEND_S = 1.0
HELLO_S = 10.0
BACKOFF_S = (0.1, 5.0)
DRAIN_S = 30.0
REMEMBERED = 10_000
MAX_UINT32 = 4_294_967_295
CHANNEL = [
    # A frozen node is given up after 15 s.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.max_receive_message_length", 32 * 1024 * 1024),
    ("grpc.max_send_message_length", 32 * 1024 * 1024),
    # Every stream has a connection of its own, and no memory of the failures of the one before.
    ("grpc.use_local_subchannel_pool", 1),
]


class ActionError(Exception):
    """The action failed and had no effect. Any other exception may have had one, so its step is undone on rollback."""

    def __init__(self, code, message, retryable=True, outcome_unknown=False):
        super().__init__(message)
        self.code, self.retryable, self.outcome_unknown = code, retryable, outcome_unknown


class Context:
    """What an action knows of its step. `stopped` is set by a cancel, at the deadline, and when the worker is stopped for good."""

    def __init__(self, step, deadline):
        self.run_id, self.step_id, self.attempt = step.run_id, step.step_id, step.attempt
        self.idempotency_key = step.idempotency_key
        self.forward_idempotency_key = step.forward_idempotency_key
        self.phase = pb.Phase.Name(step.phase)
        self.dry_run = step.dry_run
        self.deadline = deadline
        self.stopped = threading.Event()


class Worker:
    """Executes `actions`, a dict of name to `function(inputs, context) -> dict`, all of version 1."""

    def __init__(self, service, actions, grpc_address, api, token="", max_in_flight=8, registration=None):
        self.service, self.actions, self.address, self.api, self.token = service, actions, grpc_address, api, token
        self.max_in_flight = max_in_flight
        self.registration = registration or {}
        self.worker_id = f"{service}:{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
        self.lock = threading.RLock()
        self.executing = {}  # dispatch id -> Context
        self.unrecorded = {}  # dispatch id -> its answer, a WorkerMessage
        self.recorded = OrderedDict()  # the newest answers that are recorded
        self.outgoing = None  # the queue of the stream that is live; None in between
        self.draining = threading.Event()
        self.ended = threading.Event()
        self.pool = ThreadPoolExecutor(max_workers=max_in_flight)

    # ---- life

    def run(self):
        """Returns after SIGTERM or SIGINT, when every step in flight is answered and every answer recorded."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self.draining.set())
        if not self.register(only_missing=False):
            return
        for work in (self.stay_connected, self.resend):
            threading.Thread(target=work, daemon=True).start()
        self.draining.wait()
        self.send(pb.WorkerMessage(drain=pb.Drain()))
        deadline = time.monotonic() + DRAIN_S
        while time.monotonic() < deadline and self.holds():
            time.sleep(0.05)
        with self.lock:
            for context in self.executing.values():
                context.stopped.set()
        self.ended.set()
        self.close_stream()
        self.pool.shutdown(wait=False, cancel_futures=True)

    def holds(self):
        with self.lock:
            return [*self.executing, *self.unrecorded]

    # ---- registration

    def register(self, only_missing):
        """Tries again until the service accepts the actions. False: the worker was stopped before. Raises if they are refused."""
        actions = [{"action_name": name, **self.registration.get(name, {})} for name in self.actions]
        body = {"service": self.service, "actions": actions}
        if only_missing:
            body["only_missing"] = True
        headers = {"content-type": "application/json"}
        if self.token:
            headers["authorization"] = f"Bearer {self.token}"
        url = f"{self.api.rstrip('/')}/api/v1/registry/register"
        pause = BACKOFF_S[0]
        while not self.draining.is_set():
            try:
                request = urllib.request.Request(url, json.dumps(body).encode(), headers, method="POST")
                with urllib.request.urlopen(request, timeout=10):
                    return True
            except urllib.error.HTTPError as error:
                if 400 <= error.code < 500 and error.code not in (408, 425, 429):
                    raise SystemExit(f"the service refused to register {self.service}: {error.code} {error.read(2000)!r}")
                log(f"registering again after {error}")
            except OSError as error:
                log(f"registering again after {error}")
            self.draining.wait(pause)
            pause = min(2 * pause, BACKOFF_S[1])
        return False

    # ---- the stream

    def stay_connected(self):
        first, pause = True, BACKOFF_S[0]
        while not self.ended.is_set():
            acknowledged = self.one_stream(again=not first)
            first = first and not acknowledged
            pause = BACKOFF_S[0] if acknowledged else min(2 * pause, BACKOFF_S[1])
            self.ended.wait(pause)

    def one_stream(self, again):
        """Opens a stream and reads it to its end. True: the service has acknowledged the hello."""
        outgoing = queue.SimpleQueue()
        outgoing.put(pb.WorkerMessage(hello=self.hello()))
        acknowledged = False
        with grpc.insecure_channel(self.address, CHANNEL) as channel:
            open_stream = channel.stream_stream(
                METHOD, pb.WorkerMessage.SerializeToString, pb.CoordinatorMessage.FromString
            )
            call = open_stream(iter(outgoing.get, None))
            # A service that accepts the connection and says nothing is tried again.
            unanswered = threading.Timer(HELLO_S, call.cancel)
            unanswered.daemon = True
            unanswered.start()
            try:
                for message in call:
                    kind = message.WhichOneof("message")
                    if kind == "hello_ack" and not acknowledged:
                        acknowledged = True
                        unanswered.cancel()
                        self.on_live(outgoing, again)
                    elif kind == "execute":
                        self.on_execute(message.execute)
                    elif kind == "cancel":
                        self.on_cancel(message.cancel.dispatch_id)
                    elif kind == "recorded":
                        self.on_recorded(message.recorded.dispatch_id)
                    # Anything else is of a newer protocol.
            except grpc.RpcError as error:
                if not self.ended.is_set():
                    log(f"stream lost, reconnecting: {error.code().name} {error.details()}")
            finally:
                unanswered.cancel()
                with self.lock:
                    if self.outgoing is outgoing:
                        self.outgoing = None
                outgoing.put(None)
                call.cancel()
        return acknowledged

    def hello(self):
        # It offers neither batches nor credit: the number below is its credit, on its one stream.
        return pb.Hello(
            worker_id=self.worker_id,
            service=self.service,
            actions=[f"{name}@1" for name in self.actions],
            max_in_flight=self.max_in_flight,
            token=self.token,
            in_flight=self.holds()[:10_000],
            stream_answers=True,
        )

    def on_live(self, outgoing, again):
        with self.lock:
            self.outgoing = outgoing
            for answer in self.unrecorded.values():
                outgoing.put(answer)
        if self.draining.is_set():
            outgoing.put(pb.WorkerMessage(drain=pb.Drain()))
        if again:
            # The service may have come back with another database.
            threading.Thread(target=self.register, args=(True,), daemon=True).start()

    def send(self, message):
        """Without a live stream it is lost: answers are repeated, and the rest does not matter then."""
        with self.lock:
            if self.outgoing:
                self.outgoing.put(message)

    def close_stream(self):
        with self.lock:
            if self.outgoing:
                self.outgoing.put(None)

    def resend(self):
        while not self.ended.wait(RESEND_S):
            with self.lock:
                for answer in self.unrecorded.values():
                    self.send(answer)

    # ---- steps

    def on_execute(self, step):
        with self.lock:
            if step.dispatch_id in self.executing:
                return
            answer = self.unrecorded.get(step.dispatch_id) or self.recorded.get(step.dispatch_id)
            if answer:
                # It was recorded, and the service asks again: it is owed once more.
                self.unrecorded[step.dispatch_id] = answer
                self.send(answer)
                return
            left = seconds_left(step)
            if left <= 0:
                log(f"dropping step {step.step_id} of run {step.run_id}: its deadline has passed")
                return
            context = Context(step, time.monotonic() + left)
            self.executing[step.dispatch_id] = context
        self.pool.submit(self.execute, step, context)

    def on_cancel(self, dispatch_id):
        with self.lock:
            context = self.executing.get(dispatch_id)
        if context:
            context.stopped.set()

    def on_recorded(self, dispatch_id):
        with self.lock:
            answer = self.unrecorded.pop(dispatch_id, None)
            if answer:
                self.recorded[dispatch_id] = answer
                if len(self.recorded) > REMEMBERED:
                    self.recorded.popitem(last=False)

    def execute(self, step, context):
        done = threading.Event()
        threading.Thread(target=self.watch, args=(step, context, done), daemon=True).start()
        about = {name: getattr(step, name) for name in ("dispatch_id", "run_id", "step_id", "attempt")}
        try:
            answer = pb.WorkerMessage(result=pb.StepResult(**about, result_json=self.output(step, context)))
        except ActionError as error:
            answer = failure(about, error.code, str(error), error.retryable, error.outcome_unknown)
        except Exception as error:  # Whatever an action raises is an answer: its effect may have happened.
            answer = failure(about, "error", str(error), True, True)
        done.set()
        with self.lock:
            del self.executing[step.dispatch_id]
            self.unrecorded[step.dispatch_id] = answer
            self.send(answer)

    def output(self, step, context):
        action = self.actions.get(step.action) if step.version == 1 else None
        if not action:
            raise ActionError("unknown_action", f"this worker has no {step.action}@{step.version}")
        output = action(json.loads(step.inputs_json or b"{}"), context)
        return json.dumps(output or {}, ensure_ascii=False, allow_nan=False).encode()

    def watch(self, step, context, done):
        """Sends heartbeats, and stops the action at its deadline."""
        every = step.heartbeat_timeout_ms / 3000 if step.heartbeat_timeout_ms else float("inf")
        while not done.is_set():
            left = context.deadline - time.monotonic()
            if left <= 0:
                context.stopped.set()
            pause = every if left <= 0 else min(every, left)
            # The longest that a thread can wait.
            if done.wait(min(pause, threading.TIMEOUT_MAX)):
                return
            if every != float("inf"):
                self.send(pb.WorkerMessage(heartbeat=pb.Heartbeat(dispatch_id=step.dispatch_id)))
            elif left <= 0:
                return


def failure(about, code, message, retryable, outcome_unknown):
    text = {"code": code, "message": message[:8192]}
    return pb.WorkerMessage(
        failure=pb.StepFailure(**about, **text, retryable=retryable, outcome_unknown=outcome_unknown)
    )


def seconds_left(step):
    """By the time that is left, because the clocks of two machines differ, as far as the message can say it."""
    if 0 < step.timeout_ms < MAX_UINT32:
        return step.timeout_ms / 1000
    deadline = datetime.fromisoformat(step.deadline_at.replace("Z", "+00:00"))
    return deadline.timestamp() - time.time()


def log(text):
    print(text, file=sys.stderr, flush=True)
