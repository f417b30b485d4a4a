#!/usr/bin/env node
// The entry of the command `saga`: gives its arguments to the commands. It is not the service, which is src/main.ts.
import { execute } from "./commands.js";

// `saga list | head`: whoever reads has enough. A terminal that was closed gives EIO.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code !== "EPIPE" && error.code !== "EIO") throw error;
  process.exit(0);
});
// Not `exit`: what is written to a pipe may still be on its way.
process.exitCode = await execute(process.argv.slice(2));
