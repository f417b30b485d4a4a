// Samples of the process's own state: they show a late event loop, and its recovery.
import { afterEach, describe, expect, it } from "vitest";
import { Pressure, type PressureSample } from "../../src/work/pressure.js";
import { until } from "../harness/until.js";

let pressure: Pressure;
afterEach(() => pressure.stop());

const LATE_MS = 60;

describe("pressure", () => {
  it("samples the delay of the event loop and the use of the heap until it is stopped", async () => {
    const samples: PressureSample[] = [];
    pressure = new Pressure();
    expect(pressure.now).toEqual({ heap: 0, loopMs: 0 });
    pressure.start((sample) => samples.push(sample));
    const busy = setInterval(() => {
      for (const end = performance.now() + LATE_MS; performance.now() < end; );
    }, 1);
    await until(() => pressure.now.loopMs > LATE_MS / 2);
    clearInterval(busy);
    await until(() => pressure.now.loopMs < LATE_MS / 2);
    expect(pressure.now).toBe(samples.at(-1));
    for (const { heap } of samples) {
      expect(heap).toBeGreaterThan(0);
      expect(heap).toBeLessThan(1);
    }
    pressure.stop();
    const last = pressure.now;
    pressure.stop();
    expect(pressure.now).toBe(last);
  });
});
