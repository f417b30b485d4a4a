// Runs first in each child of the command, which gives it to node by --import: the child ends when the command is gone, however that ended, and at once when it is told to.
// It does nothing for a program that was started in another way.

/** A child that does not end by itself, such as a worker whose step hangs. */
const GRACE_MS = 40_000;

process.on("message", (message) => {
  // Not a signal: the child's own handlers of `exit` still run, so the service ends its Postgres.
  if (message === "hurry") process.exit(1);
});

process.once("disconnect", () => {
  process.kill(process.pid, "SIGTERM");
  setTimeout(() => process.exit(1), GRACE_MS).unref();
});

// The channel keeps no program alive that has nothing else to do.
process.channel?.unref();
