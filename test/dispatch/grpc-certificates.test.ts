// Workers that are known by a certificate, over real TLS: whose names count, what is no certificate, and that one is enough. With openssl only.

import { X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import { credentials, Metadata, status } from "@grpc/grpc-js";
import { afterEach, beforeAll, expect, it } from "vitest";
import { namesOf } from "../../src/access/client-certificates.js";
import { ClientCertificates, type Refusal } from "../../src/access/index.js";
import { readCertificate } from "../../src/config/index.js";
import { GrpcDoor } from "../../src/dispatch/grpc/door.js";
import { type Authority, createAuthority, describeWithOpenssl, type IssuedFiles } from "../harness/certificates.js";
import { verifierOf } from "../harness/verifier.js";
import { type Door, dispatchNow, type Node, type NodeOptions, type RawWorker, until, useNodes } from "./rig.js";

const { node, silentWorker } = useNodes();

const A = "0190a000-0000-7000-8000-00000000000a";
const SPIFFE = "spiffe://shop.example/worker";

const refusals: Refusal[] = [];
afterEach(() => void refusals.splice(0));

describeWithOpenssl("a client certificate", () => {
  let [authority, stranger]: Authority[] = [];
  let served: IssuedFiles;

  beforeAll(() => {
    [authority, stranger] = [createAuthority(), createAuthority("another one")];
    served = authority?.issue(["DNS:localhost", "IP:127.0.0.1"]) as IssuedFiles;
  });

  /** The authority that clients are asked for is read again when the certificate of the service is replaced. */
  function options(now: () => number = Date.now): NodeOptions & { replace: (ca: string) => void } {
    const uses: ((context: object) => void)[] = [];
    const { context } = readCertificate(served);
    const { caFile = "" } = authority ?? {};
    let file = caFile;
    const certificates = new ClientCertificates({
      [SPIFFE]: { services: ["payments"], tenantId: A },
      "worker.shop.example": { services: ["payments"] },
    });
    const security = { refused: (refusal: Refusal) => void refusals.push(refusal) };
    const verifier = verifierOf({ alice: { roles: ["worker"], tenantId: A, services: ["payments"] } });
    return {
      door: new GrpcDoor({ verifier, security, certificates, now, log: { error: () => {} } }),
      access: { callbackToken: () => "t" },
      tls: { tls: { context, onReplaced: (use) => uses.push(use) }, clientAuthority: () => readFileSync(file) },
      replace: (ca) => {
        file = ca;
        for (const use of uses) use(context);
      },
    };
  }

  const channel = (files?: IssuedFiles, token?: string): Door => {
    const ca = Buffer.from(authority?.ca ?? "");
    const metadata = new Metadata();
    if (token !== undefined) metadata.set("authorization", `Bearer ${token}`);
    const own = files ? ([readFileSync(files.keyFile), readFileSync(files.certFile)] as const) : [];
    return { metadata, channel: credentials.createSsl(ca, ...own) };
  };

  async function enter(n: Node, door: Door, hello = {}): Promise<RawWorker> {
    const worker = silentWorker(n.target, door);
    worker.send({ hello: { worker_id: "w1", service: "payments", max_in_flight: 2, ...hello } });
    await until(() => worker.ended || worker.of("hello_ack").length > 0);
    return worker;
  }

  const codeOf = ({ error }: RawWorker) => (error ? status[error.code] : "in");

  it("is a worker's credential by its SPIFFE id or its DNS name, for its services and tenants", async () => {
    const n = await node(options());
    const spiffe = await enter(n, channel(authority?.issue([`URI:${SPIFFE}`])));
    expect(codeOf(spiffe)).toBe("in");
    const foreign = dispatchNow.bind(undefined, n, { tenantId: A.replace(/a$/, "b") });
    expect(foreign).toThrow("no credit");
    const dns = await enter(n, channel(authority?.issue(["DNS:unknown.example", "DNS:Worker.Shop.example"])));
    expect(codeOf(dns)).toBe("in");
    foreign();
    await dns.wait("execute");
    const other = await enter(n, channel(authority?.issue([`URI:${SPIFFE}`])), { service: "shop" });
    expect(codeOf(other)).toBe("PERMISSION_DENIED");
  });

  it("beside a token is UNAUTHENTICATED, and without either, too", async () => {
    const n = await node(options());
    const own = authority?.issue([`URI:${SPIFFE}`]);
    expect(codeOf(await enter(n, channel(own, "alice")))).toBe("UNAUTHENTICATED");
    expect(codeOf(await enter(n, channel(own), { token: "alice" }))).toBe("UNAUTHENTICATED");
    expect(codeOf(await enter(n, channel()))).toBe("UNAUTHENTICATED");
    expect(codeOf(await enter(n, channel(undefined, "alice")))).toBe("in");
    expect(codeOf(await enter(n, channel(), { token: "alice" }))).toBe("in");
  });

  it("that is not accepted is UNAUTHENTICATED, also beside a token", async () => {
    const n = await node(options());
    const unfit = {
      "of another authority": stranger?.issue([`URI:${SPIFFE}`]),
      "of a name that no client has": authority?.issue(["DNS:other.example"]),
      expired: authority?.issue([`URI:${SPIFFE}`], -1),
    };
    for (const [what, files] of Object.entries(unfit)) {
      expect([what, codeOf(await enter(n, channel(files)))]).toEqual([what, "UNAUTHENTICATED"]);
      expect([what, codeOf(await enter(n, channel(files, "alice")))]).toEqual([what, "UNAUTHENTICATED"]);
    }
    expect(refusals.map(({ status }) => status)).toEqual(Array(6).fill("UNAUTHENTICATED"));
  });

  it("counts until it expires, also over a connection that was opened before", async () => {
    const clock = { now: Date.now() };
    const n = await node(options(() => clock.now));
    const own = channel(authority?.issue([`URI:${SPIFFE}`]));
    expect(codeOf(await enter(n, own))).toBe("in");
    clock.now += 91 * 86_400_000;
    const late = await enter(n, own);
    expect([codeOf(late), late.of("hello_ack")]).toEqual(["UNAUTHENTICATED", []]);
  });

  it("counts by the authority that stands in the file when the service's own is replaced", async () => {
    const { replace, ...rest } = options();
    const n = await node(rest);
    const files = stranger?.issue([`URI:${SPIFFE}`]);
    expect(codeOf(await enter(n, channel(files)))).toBe("UNAUTHENTICATED");
    replace(stranger?.caFile ?? "");
    expect(codeOf(await enter(n, channel(files)))).toBe("in");
    replace("/nowhere");
    expect(codeOf(await enter(n, channel(files)))).toBe("in");
    expect(n.logged.join("")).toContain("authority of client certificates not replaced");
  });

  it("has the names that Node says without quotes, and one URI at most", () => {
    const of = (names: readonly string[]) => {
      const files = authority?.issue(names);
      return namesOf(new X509Certificate(readFileSync(files?.certFile ?? "")));
    };
    expect(of([`URI:${SPIFFE}`, "DNS:A.example"])).toEqual([SPIFFE, "a.example"]);
    expect(of([`URI:${SPIFFE}`, "URI:spiffe://shop.example/other"])).toEqual([]);
    expect(of(["URI:https://shop.example"])).toEqual([]);
    expect(namesOf({ subjectAltName: 'URI:"spiffe://x, DNS:good.example, y", DNS:b.example' })).toEqual(["b.example"]);
    expect(namesOf({ subjectAltName: String.raw`DNS:"a\", DNS:good.example, DNS:\"b"` })).toEqual([]);
    expect(namesOf({} as never)).toEqual([]);
  });
});
