// Runs in every worker, once for each test file.
import { afterAll, afterEach } from "vitest";
import { tellOfFailure } from "./failed-test.js";
import { endWithFile } from "./file-end.js";

afterAll(endWithFile);
afterEach(({ task }) => {
  if (task.result?.state === "fail") tellOfFailure(task.name);
});
