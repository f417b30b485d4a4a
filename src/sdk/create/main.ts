#!/usr/bin/env node
// The command behind `npm create @saga-orchestrator`: gives its arguments on, and prints what comes back.
import { create } from "./create.js";

const { code, stdout, stderr } = create(process.argv.slice(2), process.cwd());
process.stdout.write(stdout);
process.stderr.write(stderr);
process.exitCode = code;
