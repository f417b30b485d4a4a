#!/usr/bin/env node
// The entry of the command `saga`: gives its arguments to the commands and prints what comes back. It is not the service, which is src/main.ts.
import { execute } from "./commands.js";

const { code, stdout, stderr } = await execute(process.argv.slice(2));
process.stdout.write(stdout);
process.stderr.write(stderr);
// Not `exit`: what is written to a pipe may still be on its way.
process.exitCode = code;
