"""The worker that `saga conformance` tests: the actions that docs/protocol.md describes, with the worker of saga_worker.py."""

import os
import threading
from collections import Counter

from saga_worker import ActionError, Worker

begun = Counter()
counting = threading.Lock()


def echo(inputs, context):
    return inputs


def undo_echo(inputs, context):
    # An effect that never happened is undone already.
    return {"phase": context.phase, "undone": context.forward_idempotency_key}


def fail(inputs, context):
    raise ActionError(inputs["code"], inputs["message"], inputs["retryable"], inputs["outcome_unknown"])


def slow(inputs, context):
    with counting:
        begun[context.idempotency_key] += 1
        executions = begun[context.idempotency_key]
    if context.stopped.wait(inputs["ms"] / 1000):
        raise ActionError("stopped", "a cancel or the deadline stopped it")
    return {"executions": executions}


if __name__ == "__main__":
    Worker(
        service="conformance",
        actions={"echo": echo, "undo_echo": undo_echo, "fail": fail, "slow": slow},
        registration={"echo": {"compensable": True}},
        grpc_address=os.environ.get("SAGA_GRPC", "127.0.0.1:9090"),
        api=os.environ.get("SAGA_API", "http://127.0.0.1:8080"),
        token=os.environ.get("SAGA_TOKEN", ""),
    ).run()
