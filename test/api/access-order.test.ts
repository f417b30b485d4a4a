// The order in which a request is refused: of two faults the one that comes first is the answer. And what every refusal of a credential says.
import { type AddressInfo, connect } from "node:net";
import type { FastifyInstance, InjectOptions } from "fastify";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { CredentialGuard, RateLimit } from "../../src/access/index.js";
import { notFound, overloaded } from "../../src/errors.js";
import { verifierOf } from "../harness/verifier.js";
import { documented } from "./documented.js";
import { otherApi, useRig } from "./rig.js";

const TENANT = "0190a000-0000-7000-8000-0000000000f1";
const NO_RUN = "0190a000-0000-7000-8000-0000000000ff";
const FLOODED = "192.0.2.66";
const rig = useRig();
const verifier = new CredentialGuard(() => 0).before(
  verifierOf({
    operator: { roles: ["operator"], tenantId: TENANT },
    spent: { roles: ["operator"], tenantId: TENANT },
    viewer: { roles: ["viewer"], tenantId: TENANT },
    spentViewer: { roles: ["viewer"], tenantId: TENANT },
    stray: { roles: ["admin"] },
  }),
);
const BURST = 100;
const rate = new RateLimit({ perSecond: 1, burst: BURST }, () => 0);

let app: FastifyInstance;
/** The same, where load is shed. */
let shedding: FastifyInstance;
beforeAll(async () => {
  const admit = () => {
    throw overloaded("load is shed");
  };
  app = await otherApi(rig, {}, { verifier });
  shedding = await otherApi(rig, {}, { verifier, rate, shedder: { admit } });
  for (const sub of ["spent", "spentViewer"]) for (let nth = 0; nth < BURST; nth++) rate.take({ kind: "user", sub });
  for (let nth = 0; nth < 20; nth++) await send(app, { token: `guess-${nth}`, remoteAddress: FLOODED });
});
afterAll(async () => {
  await app?.close();
  await shedding?.close();
});

interface Sent {
  readonly method?: "GET" | "POST" | "PUT";
  readonly url?: string;
  readonly token?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly remoteAddress?: string;
  readonly payload?: string;
}

const CANCEL = `/api/v1/sagas/${NO_RUN}/cancel`;

async function send(to: FastifyInstance, sent: Sent) {
  const { method = "POST", url = CANCEL, token, headers = {}, ...rest } = sent;
  const authorization = token === undefined ? {} : { authorization: `Bearer ${token}` };
  const type = sent.payload === undefined ? {} : { "content-type": "application/json" };
  const options: InjectOptions = { method, url, headers: { ...authorization, ...type, ...headers }, ...rest };
  const answer = await to.inject(options);
  const { statusCode: status } = answer;
  const contentType = answer.headers["content-type"]?.toString();
  documented().check({ method, path: url, status, contentType, body: answer.json() });
  return { status, headers: answer.headers, body: answer.json() };
}

interface Fault {
  readonly what: string;
  readonly status: number;
  readonly says: RegExp;
  readonly sent: Sent;
}

/** In the order in which they are answered. */
const FAULTS: readonly Fault[] = [
  { what: "a foreign host", status: 421, says: /header Host/, sent: { headers: { host: "evil.example" } } },
  { what: "another site", status: 403, says: /another site/, sent: { headers: { origin: "https://evil.example" } } },
  {
    what: "too many refused credentials",
    status: 429,
    says: /were refused/,
    sent: { remoteAddress: FLOODED, token: "unknown" },
  },
  { what: "a wrong credential", status: 401, says: /credential is needed/, sent: { token: "unknown" } },
  { what: "no tenant", status: 403, says: /no tenant/, sent: { token: "stray" } },
  { what: "no such route", status: 404, says: /no route/, sent: { url: "/api/v1/nothing" } },
  { what: "no such method", status: 405, says: /no method/, sent: { method: "PUT", url: "/api/v1/sagas" } },
  { what: "another role", status: 403, says: /the role operator may/, sent: { token: "viewer" } },
  { what: "another role, too often", status: 403, says: /the role operator may/, sent: { token: "spentViewer" } },
  { what: "too often", status: 429, says: /requests a second/, sent: { token: "spent" } },
  { what: "overload", status: 503, says: /load is shed/, sent: {} },
  {
    what: "a body that is encoded",
    status: 415,
    says: /Content-Encoding/,
    sent: { headers: { "content-encoding": "gzip" }, payload: "{}" },
  },
  { what: "a malformed body", status: 400, says: /not JSON/, sent: { payload: "{" } },
  { what: "no such run", status: 404, says: /no run/, sent: {} },
];

/** A request with both faults. Undefined: they exclude each other. */
function both(first: Sent, second: Sent): Sent | undefined {
  const differ = (["url", "method", "token", "remoteAddress"] as const).some(
    (name) => first[name] !== undefined && second[name] !== undefined && first[name] !== second[name],
  );
  return differ ? undefined : { ...first, ...second, headers: { ...first.headers, ...second.headers } };
}

const PAIRS = FAULTS.flatMap((first, index) =>
  FAULTS.slice(index).flatMap((second) => {
    const sent = both(first.sent, second.sent);
    return sent ? [{ first, second, sent: { token: "operator", ...sent } }] : [];
  }),
);
const SHEDDING: ReadonlySet<string> = new Set(["overload", "too often", "another role, too often"]);

describe("of two faults", () => {
  it.each(PAIRS)("$first.what comes before $second.what", async ({ first, second, sent }) => {
    rig.answer = () => {
      throw notFound(`there is no run ${NO_RUN}`);
    };
    const isShed = SHEDDING.has(first.what) || SHEDDING.has(second.what);
    const { status, body, headers } = await send(isShed ? shedding : app, sent);
    expect([status, body.message]).toEqual([first.status, expect.stringMatching(first.says)]);
    if (status !== 429) return;
    expect(body.error).toBe("rate_limited");
    expect(Number(headers["retry-after"])).toBeGreaterThan(0);
  });
});

describe("a refused credential", () => {
  it("has one answer, whatever is wrong with it", async () => {
    const wrong: readonly Sent[] = [
      {},
      { token: "unknown" },
      { headers: { authorization: "Basic b3BlcmF0b3I6" } },
      { headers: { authorization: "Bearer" } },
      { headers: { authorization: "Bearer a b" } },
      { headers: { authorization: "" } },
      { token: "unknown", url: "/api/v1/nothing", method: "GET" },
      { headers: { "saga-callback-token": "unknown" } },
    ];
    const answers = await Promise.all(wrong.map((sent) => send(app, sent)));
    const seen = answers.map(({ status, headers, body: { request_id: _, ...body } }) => ({
      ...{ status, body, scheme: headers["www-authenticate"] },
    }));
    const expected = {
      status: 401,
      body: { error: "unauthorized", message: "a valid credential is needed" },
      scheme: "Bearer",
    };
    expect(seen).toEqual(wrong.map(() => expected));
  });
});

describe("the body of a request that is refused", () => {
  it.each([
    ["its credential", "unknown", 401],
    ["its role", "viewer", 403],
  ])("is not read before %s is known", async (_what, token, status) => {
    const open = await otherApi(rig, {}, { verifier });
    await open.listen({ port: 0, host: "127.0.0.1" });
    const socket = connect((open.server.address() as AddressInfo).port, "127.0.0.1");
    const head = [`POST ${CANCEL} HTTP/1.1`, "Host: localhost", `Authorization: Bearer ${token}`];
    socket.write([...head, "Content-Type: application/json", "Content-Length: 1000", "", ""].join("\r\n"));
    const answer = await new Promise<string>((resolve) => socket.once("data", (bytes) => resolve(String(bytes))));
    expect(answer).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
    socket.destroy();
    await open.close();
  });
});
