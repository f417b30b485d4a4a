// A served certificate on its own: what is said about its validity at the start, by the clock of the database.
import { expect, it } from "vitest";
import { ServedCertificate } from "../../src/cluster/served-certificate.js";
import { createAuthority, describeWithOpenssl } from "../harness/certificates.js";

const DAY_MS = 86_400_000;

describeWithOpenssl("a served certificate", () => {
  it.each([
    [100, "expired at", -10],
    [80, "expires at", 10],
    [0, undefined, 90],
    [-1, "is not valid before", 91],
  ])("is served %d days from now, with a warning where clients refuse it or will soon", (days, warning, left) => {
    const [warnings, remaining]: [string[], number[]] = [[], []];
    const log = { debug() {}, info() {}, warn: (line: string) => void warnings.push(line), error() {} };
    const certificate = new ServedCertificate({
      ...{ files: createAuthority().issue(["DNS:localhost"], 90), log: log as never },
      now: () => Date.now() + days * DAY_MS,
      onRemaining: (seconds) => remaining.push(seconds),
    });
    certificate.stop();
    expect(certificate.context).toHaveProperty("key");
    expect(warnings).toEqual(warning === undefined ? [] : [expect.stringContaining(warning)]);
    expect(remaining.map((seconds) => Math.round(seconds / 86_400))).toEqual([left]);
  });
});
