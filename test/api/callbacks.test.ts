// The header of callback tokens where there are none: with access off, what a worker still sends of a dispatch from before is ignored.
import { expect, it } from "vitest";
import { newRunId } from "../harness/ids.js";
import { useRig } from "./rig.js";

const rig = useRig();

it("a report with a callback token is taken as any other with access off", async () => {
  const headers = { "saga-callback-token": "1.f.1.00000000-0000-0000-0000-000000000000.stale" };
  const url = `/api/v1/sagas/${newRunId()}/actions/charge/result?attempt=1`;
  const answer = await rig.call("POST", url, { result: {} }, headers);
  expect(answer).toMatchObject({ status: 202, body: { accepted: true } });
  expect(rig.asked[0]?.command).toMatchObject({ type: "result", attempt: 1, actor: "api" });
  expect(rig.asked[0]?.command).not.toHaveProperty("tenants");
  expect(rig.asked[0]?.command).not.toHaveProperty("services");
});
