// Runs in every worker, once for each test file.
import { afterAll } from "vitest";
import { endWithFile } from "./file-end.js";

afterAll(endWithFile);
